//! The I/O models. Each file owns its whole loop, because the loop is what a study compares; one `match`
//! picks it, once per thread, before the trial begins. What a loop calls is shared: the [`Deck`] for what to
//! send and what arrived, and [`Stage`] for when to rest and when to end.

mod gso;
mod hear;
mod mmsg;
mod plain;
mod stage;

use std::io;

use kqps_kernel::udp::{UdpOptions, UdpSocket};

use crate::crew::PlayError;
use crate::plan::{Io, Plan};

pub use stage::Stage;

/// The I/O that is really used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// One call per packet.
    Plain,
    /// `sendmmsg`, `recvmmsg`.
    Mmsg,
    /// The same with segmentation.
    Gso,
}

impl Chosen {
    /// What the plan asks for, or the best that the host offers.
    pub fn choose(plan: &Plan) -> Result<Self, PlayError> {
        match plan.io {
            Io::Plain => Ok(Self::Plain),
            Io::Mmsg => Ok(Self::Mmsg),
            Io::Auto => Ok(if offers_segmentation().is_ok() { Self::Gso } else { Self::Mmsg }),
            Io::Gso => match offers_segmentation() {
                Ok(()) => Ok(Self::Gso),
                Err(error) => Err(PlayError::Io { io: "gso", reason: error.to_string() }),
            },
            Io::Uring => Err(PlayError::Io { io: "uring", reason: "not yet".into() }),
        }
    }

    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Mmsg => "mmsg",
            Self::Gso => "gso",
        }
    }

    /// Plays a thread's part from start to drained.
    pub(crate) fn play(self, stage: &mut Stage<'_>) -> io::Result<()> {
        match self {
            Self::Plain => plain::play(stage),
            Self::Mmsg => mmsg::play(stage),
            Self::Gso => gso::play(stage),
        }
    }
}

/// Whether a socket takes `UDP_GRO`, which came with Linux 5.0, after `UDP_SEGMENT` in 4.18.
fn offers_segmentation() -> io::Result<()> {
    let options = UdpOptions { gro: true, ..UdpOptions::default() };
    UdpSocket::bind(([127, 0, 0, 1], 0).into(), &options).map(drop)
}
