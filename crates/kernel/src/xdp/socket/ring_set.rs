//! The rings of a socket: how large they are, and where the kernel maps them.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::super::failed;
use super::super::rings::{Incoming, Outgoing};
use super::super::transmitter::{ENTRIES_PER_FRAME, Transmitter, USUAL_BUDGET};
use crate::sys::{OptionValue, get_option, set_option};

/// From `linux/if_xdp.h` (Linux 6.17); the libc crate lacks it.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Enough send buffer for every frame of a socket: the kernel counts a buffer of its own for each until it is sent.
const SEND_BUFFER_BYTES: libc::c_int = 1 << 26;

// SAFETY: integers without padding.
unsafe impl OptionValue for libc::xdp_mmap_offsets {}

/// The four rings of a socket.
pub(super) struct Rings {
    pub(super) empty: Outgoing<u64>,
    pub(super) received: Incoming<libc::xdp_desc>,
    pub(super) transmitter: Transmitter,
    pub(super) sent: Incoming<u64>,
}

impl Rings {
    /// Makes the rings and maps them. All frames can wait to be sent at once, if received frames are sent back.
    pub(super) fn make(fd: &OwnedFd, frames: u32, share: u32) -> io::Result<Self> {
        let set = |name, count: u32| set_option(fd.as_raw_fd(), libc::SOL_XDP, name, count as libc::c_int);
        let sizes = [
            (libc::XDP_UMEM_FILL_RING, share),
            (libc::XDP_RX_RING, share),
            (libc::XDP_TX_RING, frames * ENTRIES_PER_FRAME),
            (libc::XDP_UMEM_COMPLETION_RING, frames),
        ];
        sizes.into_iter().try_for_each(|(name, count)| set(name, count)).map_err(failed("making rings"))?;
        let budget = if set(XDP_MAX_TX_SKB_BUDGET, frames).is_ok() { frames } else { USUAL_BUDGET };
        // Without the right to more, the usual buffer must do.
        let _ = set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES);
        let offsets = offsets(fd)?;
        Self::map(fd, &offsets, frames, share, budget).map_err(failed("mapping rings"))
    }

    pub(super) fn map(
        fd: &OwnedFd,
        offsets: &libc::xdp_mmap_offsets,
        frames: u32,
        share: u32,
        budget: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            empty: Outgoing::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, share)?,
            received: Incoming::map(fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, share)?,
            transmitter: Transmitter::map(fd, &offsets.tx, frames * ENTRIES_PER_FRAME, budget)?,
            sent: Incoming::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, frames)?,
        })
    }
}

/// Where the numbers and entries of the rings are.
fn offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    let offsets: libc::xdp_mmap_offsets = get_option(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
        .map_err(failed("locating rings"))?;
    // The shorter answer of older kernels leaves the end as it was.
    if offsets.cr.desc == 0 {
        let what = "AF_XDP without flags in its rings: it needs Linux 5.4";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(offsets)
}
