//! The files that a trial may open: how many sockets there can be.

use kqps_kernel::limits;

use crate::error::PlayError;
use crate::plan::Plan;

/// Descriptors that are left to the program itself, and to each thread.
const OTHER_FILES: usize = 64;
const FILES_PER_THREAD: usize = 8;

/// How many sockets the process may open beside the other files of this many threads; at least 1.
pub(crate) fn sockets_most(threads: usize) -> usize {
    let limit = limits::raise_open_files().unwrap_or(1024);
    usize::try_from(limit).unwrap_or(usize::MAX).min(1 << 30).saturating_sub(others(threads)).max(1)
}

/// Fails if the process may not open enough files for this many sockets of a plan.
pub(crate) fn check(plan: &Plan, wanted: usize) -> Result<(), PlayError> {
    let limit = limits::raise_open_files().unwrap_or(u64::MAX);
    let needed = wanted + others(plan.threads);
    if needed as u64 > limit {
        return Err(PlayError::too_many_sockets(plan, wanted, limit));
    }
    // If it fails, opening a connection may stall a little.
    let _ = limits::reserve_open_files(needed as u64);
    Ok(())
}

fn others(threads: usize) -> usize {
    OTHER_FILES + threads * FILES_PER_THREAD
}
