//! A wait for something that another program or the kernel does.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Looks again and again, after pauses of this length, until there is something. An error in the words of `late` if there
/// is nothing within a time.
pub(crate) fn until<T>(
    (within, pause): (Duration, Duration),
    mut look: impl FnMut() -> Result<Option<T>>,
    late: impl FnOnce() -> String,
) -> Result<T> {
    let end = Instant::now() + within;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(Instant::now() < end, "{}", late());
        std::thread::sleep(pause);
    }
}
