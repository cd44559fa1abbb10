//! The wire, which carries the queries of a trial. It is opened for the whole trial before the threads start, and each
//! thread gets its part of it.

mod attempts;
mod over_connections;
pub mod quic;
mod stamps;
pub mod tcp;
pub(crate) mod tickets;
pub mod udp;
pub(crate) mod xdp;

use std::sync::Arc;

use kqps_kernel::ephemeral;
use kqps_kernel::udp::UdpSocket;
use kqps_kernel::xdp::{Protocols, XdpSocket};
use kqps_quic::Timers;
use kqps_tls::Client;

use crate::error::PlayError;
use crate::files;
use crate::hostile::{self, Means};
use crate::plan::{Io, Plan, TcpPlan, UdpPlan, Wire};
use crate::record::ThreadResult;
use crate::share::share_of;
use crate::state::ThreadState;
use crate::team::Team;
use crate::thread::Signals;
use tcp::TcpIo;
use udp::UdpIo;
use udp::sockets::Sockets;
use udp::xdp::numbers::Numbers;
use xdp::{PastPart, XdpRequest};

/// The fewest ports past the kernel, if connections are closed and opened again, or only if they break.
const PORTS_OF_CLOSED: usize = 1 << 12;
const PORTS_OF_KEPT: usize = 1 << 6;

/// The wire of a whole trial, or of a lane.
pub(crate) enum Opened {
    Udp {
        io: UdpIo,
        sockets: Vec<UdpSocket>,
        notes: Vec<String>,
    },
    /// With TLS or without it.
    Tcp {
        io: TcpIo,
        client: Option<Arc<Client>>,
        notes: Vec<String>,
    },
    Quic {
        client: Arc<Client>,
        /// `None` for a place that found no free port.
        sockets: Vec<Option<UdpSocket>>,
        notes: Vec<String>,
    },
    /// UDP past the kernel: the parts of the threads that have not taken theirs.
    UdpPast {
        parts: std::vec::IntoIter<PastPart>,
        numbers: Numbers,
        notes: Vec<String>,
    },
    /// Attackers, whatever their transport is.
    Hostile(Arc<Means>),
    /// TCP past the kernel, with TLS or without it.
    TcpPast {
        parts: std::vec::IntoIter<PastPart>,
        client: Option<Arc<Client>>,
        notes: Vec<String>,
    },
}

/// A thread's part of the wire.
pub(crate) struct Part {
    /// The number, among all flows, of the first one of this thread.
    first: usize,
    /// The number of the thread's flows.
    pub(crate) flows: usize,
    carrier: Carrier,
}

enum Carrier {
    Udp(UdpIo, Vec<UdpSocket>),
    Tcp(TcpIo, Option<Arc<Client>>),
    Quic(Arc<Client>, Vec<Option<UdpSocket>>),
    Hostile(Arc<Means>),
    /// The part past the kernel, which a thread takes when it begins.
    UdpPast(Option<PastPart>, Numbers),
    TcpPast(Option<PastPart>, Option<Arc<Client>>),
}

impl Opened {
    /// Opens the wire that a team's plan asks for.
    pub(crate) fn open(team: &Team) -> Result<Self, PlayError> {
        let Team { plan, replay, .. } = team;
        if let Some(kind) = plan.hostile {
            return Ok(Self::Hostile(Arc::new(Means::open(kind, plan)?)));
        }
        match &plan.wire {
            Wire::Udp(udp) if udp.io == Io::Xdp => Self::udp_past(plan, udp),
            Wire::Tcp(tcp) if tcp.io == Io::Xdp => Self::tcp_past(plan, tcp),
            Wire::Udp(udp) => {
                // A replay has a loop of its own.
                let io = if replay.is_some() { UdpIo::Mmsg } else { UdpIo::choose(udp.io)? };
                let Sockets { all: sockets, notes } = Sockets::bind(plan, udp, io, replay.as_ref())?;
                Ok(Self::Udp { io, sockets, notes })
            }
            Wire::Tcp(tcp) => {
                let io = TcpIo::choose(tcp.io)?;
                let (client, notes) = (tcp::client(tcp)?.map(Arc::new), tcp::notes(plan, tcp)?);
                let opened = Self::Tcp { io, client, notes };
                files::check(plan, opened.sockets(team))?;
                Ok(opened)
            }
            Wire::Quic(quic) => {
                files::check(plan, team.sockets())?;
                let client = Arc::new(quic::client(quic)?);
                let (sockets, notes) = quic::bind(plan, quic, replay.as_ref())?;
                Ok(Self::Quic { client, sockets, notes })
            }
            Wire::Captured(_) => unreachable!("a team has one wire"),
        }
    }

    fn udp_past(plan: &Plan, udp: &UdpPlan) -> Result<Self, PlayError> {
        let numbers = Numbers::new(plan, udp)?;
        let asked = XdpRequest {
            device: udp.device.as_deref(),
            buffer_bytes: udp.buffer_bytes,
            protocols: Protocols::Udp,
            ports: numbers.ports(),
        };
        let (parts, notes) = xdp::open(plan, &asked)?;
        Ok(Self::UdpPast { parts: parts.into_iter(), numbers, notes })
    }

    fn tcp_past(plan: &Plan, tcp: &TcpPlan) -> Result<Self, PlayError> {
        let spare = if tcp.queries_per_connection.is_some() { PORTS_OF_CLOSED } else { PORTS_OF_KEPT };
        let needed = tcp.connections.saturating_mul(2).max(spare);
        let (ports, shared) = xdp::for_connections(&ephemeral::ports(), needed);
        let asked = XdpRequest {
            device: tcp.device.as_deref(),
            buffer_bytes: tcp.buffer_bytes,
            protocols: Protocols::Tcp,
            ports,
        };
        let client = tcp::client(tcp)?.map(Arc::new);
        let (parts, mut notes) = xdp::open(plan, &asked)?;
        notes.extend(shared);
        Ok(Self::TcpPast { parts: parts.into_iter(), client, notes })
    }

    /// UDP through sockets whose devices are in memory.
    pub(crate) fn in_memory(plan: &Plan, sockets: Vec<XdpSocket>) -> Result<Self, PlayError> {
        let (Wire::Udp(udp), None) = (&plan.wire, &plan.replay) else {
            return Err(PlayError::Past("a device in memory takes UDP alone, and no replay".into()));
        };
        let numbers = Numbers::new(plan, udp)?;
        let parts = xdp::in_memory(plan, sockets, &numbers.ports())?;
        Ok(Self::UdpPast { parts: parts.into_iter(), numbers, notes: Vec::new() })
    }

    /// The most sockets that the threads of its team have open at once.
    pub(crate) fn sockets(&self, team: &Team) -> usize {
        match (self, &team.plan.wire) {
            (Self::Tcp { io, .. }, Wire::Tcp(tcp)) => {
                io.sockets(team.follows() || tcp.queries_per_connection.is_some(), team.sockets())
            }
            _ => team.sockets(),
        }
    }

    /// The name of the I/O model in records.
    pub(crate) fn io(&self) -> &'static str {
        match self {
            Self::Udp { io, .. } => io.name(),
            Self::Tcp { io, .. } => io.name(),
            Self::Quic { .. } => quic::IO,
            Self::Hostile(_) => hostile::IO,
            Self::UdpPast { .. } | Self::TcpPast { .. } => xdp::IO,
        }
    }

    /// Options that could not be met as asked, and how frames pass the kernel.
    pub(crate) fn notes(&self) -> Vec<String> {
        match self {
            Self::Udp { notes, .. }
            | Self::Tcp { notes, .. }
            | Self::Quic { notes, .. }
            | Self::UdpPast { notes, .. }
            | Self::TcpPast { notes, .. } => notes.clone(),
            Self::Hostile(_) => Vec::new(),
        }
    }

    /// Takes the part of thread `number` of a team. The threads take theirs in order.
    pub(crate) fn part(&mut self, team: &Team, number: usize) -> Part {
        let (first, flows, together) = if let Some(replay) = &team.replay {
            let flows = &replay.flows;
            (flows.before(number), flows.of_thread(number), flows.together())
        } else {
            let numbers = share_of(team.sockets() as u64, team.plan.threads, number);
            (numbers.start as usize, (numbers.end - numbers.start) as usize, 1)
        };
        let carrier = match self {
            Self::Udp { io, sockets, .. } => Carrier::Udp(*io, sockets.drain(..flows / together).collect()),
            Self::Tcp { io, client, .. } => Carrier::Tcp(*io, client.clone()),
            Self::Quic { client, sockets, .. } => {
                Carrier::Quic(Arc::clone(client), sockets.drain(..flows).collect())
            }
            Self::Hostile(means) => Carrier::Hostile(Arc::clone(means)),
            Self::UdpPast { parts, numbers, .. } => Carrier::UdpPast(parts.next(), *numbers),
            Self::TcpPast { parts, client, .. } => Carrier::TcpPast(parts.next(), client.clone()),
        };
        Part { first, flows, carrier }
    }
}

impl Part {
    /// The means of attackers, who have no state of queries; `None` of other threads.
    pub(crate) fn attackers(&self) -> Option<&Means> {
        match &self.carrier {
            Carrier::Hostile(means) => Some(means),
            _ => None,
        }
    }

    /// Plays a thread's part of the trial, from the start to the end of the drain. Returns `None` if the trial was
    /// called off.
    pub(crate) fn play(
        &mut self,
        team: &Team,
        state: ThreadState<'_>,
        signals: Signals<'_>,
    ) -> Result<Option<ThreadResult>, PlayError> {
        let (plan, flows) = (&team.plan, (self.first, self.flows));
        match (&mut self.carrier, &plan.wire) {
            (Carrier::Udp(io, sockets), _) => match &team.replay {
                Some(replay) => udp::play_replay(sockets, (replay, self.flows), plan, state, signals),
                None => udp::play(*io, sockets, self.first, plan, state, signals),
            },
            (Carrier::Tcp(io, client), Wire::Tcp(tcp)) => {
                let wire = (tcp, client.as_deref());
                tcp::play(*io, wire, flows, team, state, signals)
            }
            (Carrier::Quic(client, sockets), Wire::Quic(quic)) => {
                quic::play((quic, client.as_ref()), (self.first, sockets.as_slice()), plan, state, signals)
            }
            (Carrier::UdpPast(past, numbers), _) => {
                let past = past.take().expect("a thread plays once");
                match &team.replay {
                    Some(replay) => {
                        udp::xdp::play_replay((past, *numbers), (replay, flows), plan, state, signals)
                    }
                    None => udp::xdp::play((past, *numbers), flows, plan, state, signals),
                }
            }
            (Carrier::TcpPast(past, client), Wire::Tcp(tcp)) => {
                let past = past.take().expect("a thread plays once");
                tcp::play_past(past, (tcp, client.as_deref()), flows, team, state, signals)
            }
            (Carrier::Tcp(..) | Carrier::Quic(..) | Carrier::TcpPast(..) | Carrier::Hostile(_), _) => {
                unreachable!("the wire was opened for this plan")
            }
        }
    }
}
