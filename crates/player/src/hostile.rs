//! Attackers: connections, streams and datagrams that no client makes. A schedule calls for attempts, as it does for
//! queries, and each attempt is accounted for, with what the server did to it. No query is in the books.
//!
//! [`attempts`] is the loop of a thread. It begins attempts of one kind: [`connections`] of TCP, with TLS or without, and
//! streams of HTTP/2 on them; [`handshakes`] of QUIC; and its [`initials`]. [`counts`] become the facts of a record.

mod attempts;
mod connection;
mod connections;
pub(crate) mod counts;
mod handshakes;
mod initials;
mod key;
mod queries;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kqps_catalogue::Hostile;
use kqps_dataset::Dataset;
use kqps_kernel::udp::{UdpOptions, UdpSocket};
use kqps_tls::Client;

use crate::error::PlayError;
use crate::files;
use crate::live::ThreadLive;
use crate::plan::{Plan, Wire};
use crate::record::ThreadResult;
use crate::share::share_of;
use crate::sources::unspecified;
use crate::thread::Signals;
use crate::wire::tickets::connectors;
use crate::wire::{quic, tcp};
use attempts::Thread;
use connections::Connections;
use handshakes::Handshakes;
use initials::Initials;

/// The name of the I/O model in records.
pub(crate) const IO: &str = "epoll";

/// No attacker resumes a session: a full handshake costs the server most.
const TICKETS: usize = 0;

/// The means that the threads of a plan share.
pub(crate) struct Means {
    pub(crate) kind: Hostile,
    /// The maker of TLS; `None` if there is none.
    client: Option<Arc<Client>>,
}

/// A thread's share of the plan.
#[derive(Clone, Copy)]
struct Own<'a> {
    kind: Hostile,
    plan: &'a Plan,
    /// Connections that it may hold or make at a time, or its sockets.
    places: usize,
    /// Its number among all threads.
    number: usize,
}

impl Means {
    /// The means of a plan of attackers of this kind.
    pub(crate) fn open(kind: Hostile, plan: &Plan) -> Result<Self, PlayError> {
        files::check(plan, plan.flows())?;
        let client = match &plan.wire {
            Wire::Tcp(tcp) if kind != Hostile::Idle && kind != Hostile::Reset => tcp::client(tcp)?,
            Wire::Quic(wire) => Some(quic::client(wire)?),
            Wire::Tcp(_) | Wire::Udp(_) | Wire::Captured(_) => None,
        };
        Ok(Self { kind, client: client.map(Arc::new) })
    }
}

/// Plays the part of the thread with this number. Returns `None` if the trial was called off.
pub(crate) fn play(
    (plan, dataset): (&Plan, &Dataset),
    (means, number): (&Means, usize),
    live: &ThreadLive,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let failed = |error| PlayError::Loop { io: IO, error };
    let numbers = share_of(plan.flows() as u64, plan.threads, number);
    let places = (numbers.end - numbers.start) as usize;
    let own = Own { kind: means.kind, plan, places, number };
    let thread = Thread::new(&own, live, signals);
    let tls = plan.tls().zip(means.client.as_deref());
    let connectors =
        tls.map(|(tls, client)| connectors(tls, client, TICKETS)).transpose()?.unwrap_or_default();
    match &plan.wire {
        Wire::Tcp(tcp) => {
            let attack = Connections::new(&own, tcp, connectors, dataset).map_err(failed)?;
            thread.play(attack).map_err(failed)
        }
        Wire::Quic(wire) if means.kind == Hostile::Initials => {
            let attack = Initials::new(&own, wire, connectors)?;
            thread.play(attack).map_err(failed)
        }
        Wire::Quic(wire) => {
            let attack = Handshakes::new(&own, wire, connectors).map_err(failed)?;
            thread.play(attack).map_err(failed)
        }
        Wire::Udp(_) | Wire::Captured(_) => unreachable!("the plan was checked"),
    }
}

impl Own<'_> {
    /// The target of attempt `number` of this thread, by its number, and its address.
    fn target(&self, number: usize) -> (usize, SocketAddr) {
        let target = self.of_all(number) % self.plan.targets.len();
        (target, self.plan.targets[target])
    }

    /// The source address of attempt `number` of this thread, if the kernel does not choose it.
    fn source(&self, number: usize) -> Option<IpAddr> {
        self.plan.local.map(|local| local.of_socket(self.of_all(number)))
    }

    /// The number among all threads.
    fn of_all(&self, number: usize) -> usize {
        number.wrapping_mul(self.plan.threads).wrapping_add(self.number)
    }

    /// A socket for datagrams of attempt `number` of this thread, with a port of its own.
    fn datagrams(&self, number: usize) -> io::Result<UdpSocket> {
        let (_, to) = self.target(number);
        let from = self.source(number).unwrap_or_else(|| unspecified(to));
        let options = UdpOptions { nonblocking: true, ..UdpOptions::default() };
        let socket = UdpSocket::bind(SocketAddr::new(from, 0), &options)?;
        socket.never_fragment()?;
        socket.connect(to)?;
        Ok(socket)
    }
}
