//! TCP: each message follows its length on a connection (RFC 7766; RFC 1035, section 4.2.2). A flow of the books is a
//! place for a connection. Kept connections are opened before the trial begins. All others are opened when a query is
//! handed to their place, and closed after their number of queries. With TLS (RFC 7858) a connection is open when its
//! handshake is complete. With HTTP in TLS (RFC 8484) each message is a request on a stream instead. If connections
//! alone are the load, a query stands for a connection, and settles when that is open. In a replay a place may be one
//! of the capture's: its connections then begin and end as they did.

mod connection;
mod early_bytes;
mod epoll;
mod frame;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod http;
mod kernel;
mod layer;
mod places;
mod ports;
mod secure;
mod uring;
mod xdp;

use kqps_http::{ALPN, Requests};
use kqps_tls::Client;

use super::attempts::limit_flows;
use super::tickets::{connectors, tickets_most};
use super::udp::offers;
use super::xdp::PastPart;
use crate::error::PlayError;
use crate::plan::{HttpPlan, Io, Plan, TcpPlan, TlsPlan};
use crate::record::ThreadResult;
use crate::state::ThreadState;
use crate::team::Team;
use crate::thread::{PlayerThread, Signals};
use epoll::EpollSockets;
use http::Http;
use layer::{Layer, Plain};
use places::{Places, Sockets};
use secure::Secure;
use uring::UringSockets;
use xdp::XdpSockets;

/// The I/O model in use, if it has sockets of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpIo {
    /// `epoll`, and a call for each write and read.
    Epoll,
    /// `io_uring`.
    Uring,
}

impl TcpIo {
    /// The I/O model for which `auto` stands. `cargo xtask peers transports` compares both.
    const AUTO: Self = Self::Epoll;

    /// The I/O model that a plan asks for. Fails if the host does not offer it.
    pub(super) fn choose(asked: Io) -> Result<Self, PlayError> {
        let refused = |reason: String| Err(PlayError::Io { io: asked.word(), reason });
        match asked {
            Io::Auto => Ok(Self::AUTO),
            Io::Epoll => Ok(Self::Epoll),
            Io::Uring => offers(asked).map_or_else(refused, |()| Ok(Self::Uring)),
            Io::Plain | Io::Mmsg | Io::Gso => refused("it is for datagrams".into()),
            Io::Xdp => refused("it has no sockets of the kernel".into()),
        }
    }

    /// The name in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Epoll => EpollSockets::IO,
            Self::Uring => UringSockets::IO,
        }
    }

    /// The most sockets that this many places have at once. If connections are closed and opened again (`closes`), a
    /// ring closes a socket a little after the next one is made.
    pub(super) fn sockets(self, closes: bool, places: usize) -> usize {
        if self == Self::Uring && closes { places * 2 } else { places }
    }
}

/// The options of a plan's sockets that cannot be met as asked, in words.
pub(super) fn notes(plan: &Plan, tcp: &TcpPlan) -> Result<Vec<String>, PlayError> {
    let (Some(bytes), Some(&to)) = (tcp.buffer_bytes, plan.targets.first()) else { return Ok(Vec::new()) };
    kernel::short_buffers(to, bytes).map_err(|error| PlayError::Buffers { bytes, error })
}

/// The maker of TLS for a trial's connections; `None` if they are without it.
pub(crate) fn client(tcp: &TcpPlan) -> Result<Option<Client>, PlayError> {
    let client = |tls: &TlsPlan| {
        let speaking = |client: Client| if tls.http.is_some() { client.speaking(ALPN) } else { client };
        Client::new(&tls.client).map(speaking)
    };
    tcp.tls.as_ref().map(client).transpose().map_err(PlayError::Tls)
}

/// Plays a thread's part of a trial on `flows` connections at once. `first` is the number, among all, of the first one.
/// Returns `None` if the trial was called off.
pub(super) fn play(
    io: TcpIo,
    wire: (&TcpPlan, Option<&Client>),
    flows: (usize, usize),
    team: &Team,
    state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let buffer_bytes = wire.0.buffer_bytes;
    match io {
        TcpIo::Epoll => play_by::<EpollSockets>(buffer_bytes, wire, flows, team, state, signals),
        TcpIo::Uring => play_by::<UringSockets>(buffer_bytes, wire, flows, team, state, signals),
    }
}

/// Plays as [`play`] does, but past the kernel.
pub(super) fn play_past(
    past: PastPart,
    wire: (&TcpPlan, Option<&Client>),
    flows: (usize, usize),
    team: &Team,
    state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    play_by::<XdpSockets>(past, wire, flows, team, state, signals)
}

/// Plays a thread's part of a trial with the sockets of one I/O model.
fn play_by<S: Sockets>(
    means: S::Means,
    (tcp, client): (&TcpPlan, Option<&Client>),
    (first, flows): (usize, usize),
    team: &Team,
    state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    match (&tcp.tls, client) {
        (Some(tls), Some(client)) => {
            let connectors = connectors(tls, client, tickets_most(&team.plan, flows))?;
            let shared = secure::Shared { connectors, packing: tls.packing };
            match &tls.http {
                Some(http) => {
                    let shared = http_shared(shared, http);
                    play_over::<Http, S>(tcp, (shared, means), (first, flows), team, state, signals)
                }
                None => play_over::<Secure, S>(tcp, (shared, means), (first, flows), team, state, signals),
            }
        }
        _ => play_over::<Plain, S>(tcp, ((), means), (first, flows), team, state, signals),
    }
}

/// The part that the connections of a thread share over HTTP.
fn http_shared(secure: secure::Shared, http: &HttpPlan) -> http::Shared {
    let HttpPlan { method, authorities, paths } = http;
    let requests = authorities.iter().zip(paths).map(|(authority, path)| {
        Requests::new(*method, authority, path).expect("the URLs of a plan are checked")
    });
    http::Shared::new(secure, requests.collect())
}

/// Plays a thread's part of a trial with this layer between messages and connections.
fn play_over<L: Layer, S: Sockets>(
    tcp: &TcpPlan,
    (shared, means): (L::Shared, S::Means),
    (first, flows): (usize, usize),
    team: &Team,
    mut state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let plan = &team.plan;
    let failed = |error| PlayError::Loop { io: S::IO, error };
    limit_flows(&tcp.connection_use(), &mut state, flows);
    let places = Places::<L, S>::new(team, tcp, shared, means, (first, flows)).map_err(failed)?;
    let mut thread = PlayerThread::new(plan, plan.burst, places, state, signals).map_err(failed)?;
    S::play(&mut thread).map_err(failed)?;
    let now_ns = thread.state.now_ns();
    let (connections, past) = thread.wire.finish(now_ns).map_err(failed)?;
    thread.state.books.publish_connections(&connections);
    let connections = Some(connections);
    Ok(thread.into_result().map(|result| ThreadResult { connections, past, ..result }))
}
