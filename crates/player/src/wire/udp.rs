//! UDP, by several I/O models. Each model's file holds one whole loop, because the loop is what a study compares. One
//! `match` picks the loop, once per thread, before the trial begins. The loops share the
//! [`ThreadState`], for what to send and what arrived, and the `PlayerThread`, for when to sleep and when to end.

mod askers;
mod gso;
pub(super) mod look;
mod mmsg;
mod plain;
pub(crate) mod polling;
mod receive;
mod replay;
pub(crate) mod sockets;
mod thread;
mod uring;
pub(super) mod xdp;

use std::io;

use kqps_kernel::probe::probe_one;
use kqps_kernel::udp::{UdpOptions, UdpSocket};
use strum::IntoStaticStr;

use crate::error::PlayError;
use crate::plan::{Io, Plan};
use crate::record::ThreadResult;
use crate::replay::Replayed;
use crate::share::capacity;
use crate::state::ThreadState;
use crate::thread::{PlayerThread, Signals};
use replay::Clients;
use thread::{UdpSockets, UdpThread};

/// The I/O model in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum UdpIo {
    /// A call per packet.
    Plain,
    /// `sendmmsg`, `recvmmsg`.
    Mmsg,
    /// `sendmmsg` and `recvmmsg` with segmentation.
    Gso,
    /// `io_uring`.
    Uring,
}

impl UdpIo {
    /// The I/O model that a plan asks for, or the best that the host offers, if it has sockets of the kernel. Fails if
    /// the host does not offer the one asked for.
    pub fn choose(asked: Io) -> Result<Self, PlayError> {
        let io = match asked {
            Io::Epoll => {
                return Err(PlayError::Io { io: asked.word(), reason: "it is for connections".into() });
            }
            Io::Xdp => {
                return Err(PlayError::Io {
                    io: asked.word(),
                    reason: "it has no sockets of the kernel".into(),
                });
            }
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
        self.into()
    }

    /// Plays a thread's part from the start to the end of the drain.
    fn play(self, thread: &mut UdpThread<'_>) -> io::Result<()> {
        match self {
            Self::Plain => plain::play(thread),
            Self::Mmsg => mmsg::play(thread),
            Self::Gso => gso::play(thread),
            Self::Uring => uring::play(thread),
        }
    }
}

/// Plays a thread's part of a trial through these sockets. `first` is the number, among all sockets, of the first one.
/// Returns `None` if the trial was called off.
pub(super) fn play(
    io: UdpIo,
    sockets: &[UdpSocket],
    first: usize,
    plan: &Plan,
    state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let failed = |error| PlayError::Loop { io: io.name(), error };
    let all = &plan.targets;
    let targets = (first..first + sockets.len()).map(|socket| all[socket % all.len()].into()).collect();
    let wire = UdpSockets::new(sockets, targets);
    let thread = wire.and_then(|wire| PlayerThread::new(plan, plan.burst, wire, state, signals));
    let mut thread = thread.map_err(|error| sockets::too_many(plan, error, failed))?;
    io.play(&mut thread).map_err(failed)?;
    let drops = sockets.iter().map(|socket| socket.drops().unwrap_or(0)).sum();
    let fallbacks = thread.wire.fallbacks;
    Ok(thread.into_result().map(|result| ThreadResult { drops, fallbacks, ..result }))
}

/// Plays a thread's part of a replay through these sockets, which have so many flows together. Returns `None` if the
/// trial was called off.
pub(super) fn play_replay(
    sockets: &[UdpSocket],
    (replay, flows): (&Replayed, usize),
    plan: &Plan,
    mut state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let failed = |error| PlayError::Loop { io: UdpIo::Mmsg.name(), error };
    let together = replay.flows.together();
    state.books.share_paths(together);
    let target = |number: usize| plan.targets[number % plan.targets.len()].into();
    let settle = plan.timeout.saturating_add(plan.drain);
    let slots = capacity(plan.load, plan.timeout, settle, replay.flows.all());
    let targets = (0..plan.targets.len()).map(target).collect();
    let clients = Clients::new((&*replay.crowd, plan.local), targets, (flows, together), slots);
    let wire = UdpSockets::new(sockets, (0..sockets.len()).map(target).collect());
    let wire = wire.map(|wire| wire.with_flows(together));
    let thread = wire.and_then(|wire| PlayerThread::new(plan, plan.burst, wire, state, signals));
    let mut thread = thread.map_err(|error| sockets::too_many(plan, error, failed))?;
    replay::play(&mut thread, clients).map_err(failed)?;
    let drops = sockets.iter().map(|socket| socket.drops().unwrap_or(0)).sum();
    Ok(thread.into_result().map(|result| ThreadResult { drops, ..result }))
}

/// Whether this host offers an I/O model. The error is the reason why not.
pub fn offers(io: Io) -> Result<(), String> {
    match io {
        Io::Auto | Io::Plain | Io::Mmsg | Io::Epoll => Ok(()),
        // UDP_GRO came with Linux 5.0, after UDP_SEGMENT in 4.18.
        Io::Gso => {
            let options = UdpOptions { gro: true, ..UdpOptions::default() };
            let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &options);
            socket.map(drop).map_err(|error| error.to_string())
        }
        Io::Uring => probe_one("uring"),
        Io::Xdp => probe_one("af-xdp"),
    }
}
