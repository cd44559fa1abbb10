//! UDP, by several I/O models. Each model's file holds one whole loop, because the loop is what a study compares. One
//! `match` picks the loop, once per thread, before the trial begins. The loops share the
//! [`ThreadState`](crate::state::ThreadState), for what to send and what arrived, and the [`PlayerThread`], for when to
//! sleep and when to end.

mod gso;
mod look;
mod mmsg;
mod plain;
pub(crate) mod polling;
mod receive;
pub(crate) mod sockets;
mod thread;
mod uring;

use std::io;

use kqps_kernel::probe::probe_one;
use kqps_kernel::udp::{UdpOptions, UdpSocket};

use crate::error::PlayError;
use crate::plan::{Io, Plan};

pub use thread::{PlayerThread, Signals};

/// The I/O model in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpIo {
    /// One call per packet.
    Plain,
    /// `sendmmsg`, `recvmmsg`.
    Mmsg,
    /// `sendmmsg` and `recvmmsg` with segmentation.
    Gso,
    /// `io_uring`.
    Uring,
}

impl UdpIo {
    /// The I/O model that the plan asks for, or the best that the host offers. Fails if the host does not
    /// offer the one asked for.
    pub fn choose(plan: &Plan) -> Result<Self, PlayError> {
        let asked = plan.udp().io;
        let io = match asked {
            Io::Plain => Self::Plain,
            Io::Gso => Self::Gso,
            Io::Uring => Self::Uring,
            Io::Auto if offers(Io::Gso).is_ok() => Self::Gso,
            Io::Mmsg | Io::Auto => Self::Mmsg,
        };
        offers(asked).map_err(|reason| PlayError::Io { io: io.name(), reason })?;
        Ok(io)
    }

    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Mmsg => "mmsg",
            Self::Gso => "gso",
            Self::Uring => "uring",
        }
    }

    /// Plays a thread's part from the start to the end of the drain.
    pub(crate) fn play(self, thread: &mut PlayerThread<'_>) -> io::Result<()> {
        match self {
            Self::Plain => plain::play(thread),
            Self::Mmsg => mmsg::play(thread),
            Self::Gso => gso::play(thread),
            Self::Uring => uring::play(thread),
        }
    }
}

/// Whether this host offers an I/O model. The error is the reason why not.
pub fn offers(io: Io) -> Result<(), String> {
    match io {
        Io::Auto | Io::Plain | Io::Mmsg => Ok(()),
        // UDP_GRO came with Linux 5.0, after UDP_SEGMENT in 4.18.
        Io::Gso => {
            let options = UdpOptions { gro: true, ..UdpOptions::default() };
            let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &options);
            socket.map(drop).map_err(|error| error.to_string())
        }
        Io::Uring => probe_one("uring"),
    }
}
