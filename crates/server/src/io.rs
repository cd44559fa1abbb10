//! The I/O models: ways to receive datagrams from sockets and to send replies. Each file contains its whole
//! loop, top to bottom. One `match` selects the loop, once per thread, before it starts. The loops share only
//! what surrounds them: [`Worker`] has the sockets, the answer, the counts, and the stop flag.
//!
//! A loop ends soon after its worker is stopped. The thread that stops it wakes the readers of all sockets,
//! which makes blocking calls and readiness calls return.

mod blocking;
mod epoll;
mod event;
mod mmsg;
mod poll;
mod segment;
mod select;
mod spin;
mod uring;

use std::io;
use std::str::FromStr;

use kqps_kernel::probe::probe_one;

use crate::answer::Answer;
use crate::echo::QUERY_BYTES;
use crate::worker::Worker;

/// The I/O models, each a loop with its own system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A blocking `recvfrom`, then `sendto`.
    Blocking,
    /// A non-blocking `recvfrom`, repeated without pause, and `sendto`.
    Spin,
    /// `poll`, then `recvfrom` and `sendto`.
    Poll,
    /// `select`, then `recvfrom` and `sendto`.
    Select,
    /// `epoll`, then `recvfrom` and `sendto`.
    Epoll,
    /// The event library mio, then `recvfrom` and `sendto`.
    Event,
    /// `recvmmsg` and `sendmmsg`.
    Mmsg,
    /// `recvmmsg` and `sendmmsg` with segmentation offload: `UDP_GRO` to receive, `UDP_SEGMENT` to send.
    Segment,
    /// `io_uring`: multishot receive into provided buffers.
    Uring,
}

impl Model {
    /// All variants.
    pub const ALL: [Self; 9] = [
        Self::Blocking,
        Self::Spin,
        Self::Poll,
        Self::Select,
        Self::Epoll,
        Self::Event,
        Self::Mmsg,
        Self::Segment,
        Self::Uring,
    ];

    /// The name of the model in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Spin => "spin",
            Self::Poll => "poll",
            Self::Select => "select",
            Self::Epoll => "epoll",
            Self::Event => "event",
            Self::Mmsg => "mmsg",
            Self::Segment => "segment",
            Self::Uring => "uring",
        }
    }

    /// Whether this host supports the model. The error says what is missing.
    pub fn available(self) -> Result<(), String> {
        match self {
            Self::Segment => probe_one("gro").and_then(|()| probe_one("gso")),
            Self::Uring => probe_one("uring"),
            _ => Ok(()),
        }
    }

    /// Whether one worker can serve several sockets.
    pub fn serves_many(self) -> bool {
        self != Self::Blocking
    }

    /// The maximum number of datagrams that a worker receives from each socket before it checks whether to
    /// stop.
    pub(crate) fn turn(self) -> usize {
        match self {
            Self::Blocking | Self::Spin => 1,
            Self::Poll | Self::Select | Self::Epoll | Self::Event => TURNS,
            Self::Mmsg => mmsg::MESSAGES,
            Self::Segment => segment::DATAGRAMS,
            Self::Uring => uring::DATAGRAMS,
        }
    }

    /// Whether the kernel should deliver datagrams of equal length as one message (`UDP_GRO`).
    pub fn takes_segments(self) -> bool {
        self == Self::Segment
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|model| model.name() == name).ok_or_else(|| {
            format!("no I/O model `{name}`; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Room for one datagram: one byte more than the longest query, so that a longer query is recognised.
const BUFFER_BYTES: usize = QUERY_BYTES + 1;

/// Datagrams received from one socket before the others have their turn.
const TURNS: usize = 100;

/// Runs a worker's loop until it is stopped or cannot go on.
pub(crate) fn run(model: Model, worker: &mut Worker<impl Answer>) -> io::Result<()> {
    match model {
        Model::Blocking => blocking::run(worker),
        Model::Spin => spin::run(worker),
        Model::Poll => poll::run(worker),
        Model::Select => select::run(worker),
        Model::Epoll => epoll::run(worker),
        Model::Event => event::run(worker),
        Model::Mmsg => mmsg::run(worker),
        Model::Segment => segment::run(worker),
        Model::Uring => uring::run(worker),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::answer::Packet;
    use crate::counts::{Cause, Counts};
    use crate::setup::Setup;
    use crate::sockets::bind;
    use crate::worker::Going;

    /// Stops its worker at the first query.
    struct Last(Arc<AtomicBool>);

    impl Answer for Last {
        const GROWS: bool = false;

        fn answer(&mut self, packet: Packet<'_>) -> Result<usize, Cause> {
            self.0.store(true, Ordering::Relaxed);
            Ok(packet.query_bytes)
        }
    }

    #[test]
    fn a_worker_that_is_told_to_stop_ends_with_its_turn() {
        for model in Model::ALL.into_iter().filter(|model| model.available().is_ok()) {
            let sockets = if model.serves_many() { 2 } else { 1 };
            let setup = Setup::small(vec!["127.0.0.1:0".parse().unwrap(); sockets], model);
            let mut bound = bind(&setup, false, &[]).unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            for address in &bound.addresses {
                for _ in 0..200 {
                    client.send_to(&[0; 12], address).unwrap();
                }
            }
            let (_news, tell) = io::pipe().unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let (endpoints, going) = (bound.workers.remove(0), Going::new(stop.clone(), tell));
            let mut worker = Worker { endpoints, answer: Last(stop), counts: Counts::default(), going };
            run(model, &mut worker).unwrap();
            let (received, most) = (worker.counts.received as usize, sockets * model.turn());
            // The kernel decides how many datagrams a message holds, and how many complete at a time.
            let is_exact = !matches!(model, Model::Segment | Model::Uring);
            assert!(
                received == most || !is_exact && (1..most).contains(&received),
                "{model:?}: {received} of {most}"
            );
        }
    }
}
