//! The I/O models that this host offers.

use kqps_player::Io;
use kqps_skips::{Capability, skip};

/// The models that this host offers. The others are reported as skipped.
pub(crate) fn offered_io() -> impl Iterator<Item = Io> {
    [Io::Plain, Io::Mmsg, Io::Gso, Io::Uring].into_iter().filter(|io| {
        let offered = kqps_player::offers(*io);
        if let Err(reason) = &offered {
            let capability = if *io == Io::Uring { Capability::Uring } else { Capability::Segmentation };
            skip(capability, format!("{}: {reason}", io.word()));
        }
        offered.is_ok()
    })
}
