//! QUIC: each query has a stream of its own on a connection (RFC 9250). A flow of the books is a place for a
//! connection, with a socket and a port that it keeps: servers distinguish connections by both. If no port is free, the
//! place has none, and each of its attempts fails. Kept connections are opened before the trial begins. All others are
//! opened when a query is handed to their place, and closed after their number of queries. If connections alone are the
//! load, a query stands for a connection, and settles when that is open.

mod epoll;
mod places;

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;

use kqps_kernel::udp::{UdpOptions, UdpSocket};
use kqps_tls::Client;

use super::attempts::limit_flows;
use super::tickets::{connectors, tickets_most};
use super::udp::offers;
use super::udp::sockets::too_many;
use crate::error::PlayError;
use crate::plan::{BUFFER_BYTES, Io, Plan, QuicPlan};
use crate::record::ThreadResult;
use crate::replay::Replayed;
use crate::sources::unspecified;
use crate::state::ThreadState;
use crate::thread::{PlayerThread, Signals};
use places::Places;

/// The name of the I/O model in records.
pub(super) const IO: &str = "epoll";

/// The maker of TLS for a trial's connections.
pub(crate) fn client(quic: &QuicPlan) -> Result<Client, PlayError> {
    Client::over_quic(&quic.tls.client).map_err(PlayError::Tls)
}

/// Binds the sockets of a plan, each connected to its target, so that the kernel passes on nothing else and reports if
/// nothing listens there. They do not block, so that one without room holds up no other. In a replay each has the
/// address of its client. A socket for which its address has no free port is `None`. Returns them with the options that
/// could not be met as asked.
pub(super) fn bind(
    plan: &Plan,
    quic: &QuicPlan,
    replay: Option<&Replayed>,
) -> Result<(Vec<Option<UdpSocket>>, Vec<String>), PlayError> {
    let bytes = quic.buffer_bytes.unwrap_or(BUFFER_BYTES);
    let options = UdpOptions {
        recv_buffer: Some(bytes),
        send_buffer: Some(bytes),
        timestamps: true,
        nonblocking: true,
        gro: offers(Io::Gso).is_ok(),
        ..UdpOptions::default()
    };
    let clients = replay.map(|replay| replay.flows.first_clients(&replay.crowd, replay.carried));
    let wanted = clients.as_ref().map_or_else(|| plan.flows(), Vec::len);
    // The kernel looks at every port of an address before it says that none is free.
    let mut without_port = HashSet::new();
    let mut bind = |number: usize| {
        let to = plan.targets[number % plan.targets.len()];
        let of_client = replay.zip(clients.as_ref());
        let of_client = of_client.and_then(|(replay, clients)| replay.crowd.address(clients[number]));
        let from = plan.local.map_or_else(
            || unspecified(to),
            |local| of_client.map_or_else(|| local.of_socket(number), |address| local.of_number(address)),
        );
        if without_port.contains(&from) {
            return Ok(None);
        }
        let address = SocketAddr::new(from, 0);
        let bound =
            UdpSocket::bind(address, &options).and_then(|socket| set_up(&socket, to).map(|()| socket));
        match bound {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                without_port.insert(from);
                Ok(None)
            }
            Err(error) => Err(too_many(plan, error, |error| PlayError::Bind { address, error })),
        }
    };
    let all = (0..wanted).map(&mut bind).collect::<Result<Vec<Option<UdpSocket>>, PlayError>>()?;
    let first = all.iter().flatten().next();
    let notes = first.map_or_else(Vec::new, |first| first.short_buffers(bytes));
    Ok((all, notes))
}

/// Connects a socket. RFC 9000, section 14: packets of QUIC are never fragmented.
fn set_up(socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
    socket.never_fragment()?;
    may_fail_later(socket.connect(to))
}

/// The outcome of connecting a socket. Without a route now there may be one later, and sending then says what is wrong.
fn may_fail_later(connected: io::Result<()>) -> io::Result<()> {
    match connected {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) =>
        {
            Ok(())
        }
        connected => connected,
    }
}

/// Plays a thread's part of a trial through these sockets. `first` is the number, among all, of the first one. Returns
/// `None` if the trial was called off.
pub(super) fn play(
    (quic, client): (&QuicPlan, &Client),
    (first, sockets): (usize, &[Option<UdpSocket>]),
    plan: &Plan,
    mut state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let failed = |error| PlayError::Loop { io: IO, error };
    let tickets = tickets_most(plan, sockets.len());
    let connectors = connectors(&quic.tls, client, tickets)?;
    let client = kqps_quic::Client::new(connectors, sockets.len(), tickets, quic.congestion);
    limit_flows(&quic.connection_use(), &mut state, sockets.len());
    let places = Places::new((plan, quic), client, first, sockets).map_err(failed)?;
    let thread = PlayerThread::new(plan, plan.burst, places, state, signals);
    let mut thread = thread.map_err(|error| too_many(plan, error, failed))?;
    epoll::play(&mut thread).map_err(failed)?;
    let connections = thread.wire.finish();
    thread.state.books.publish_connections(&connections);
    let connections = Some(connections);
    let drops = sockets.iter().flatten().map(|socket| socket.drops().unwrap_or(0)).sum();
    Ok(thread.into_result().map(|result| ThreadResult { drops, connections, ..result }))
}
