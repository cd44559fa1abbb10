//! TCP: each message follows its length on a connection (RFC 7766; RFC 1035, section 4.2.2). A flow of the books is a
//! place for a connection. Kept connections are opened before the trial begins. All others are opened when a query is
//! handed to their place, and closed after their number of queries. With TLS (RFC 7858) a connection is open when its
//! handshake is complete. With HTTP in TLS (RFC 8484) each message is a request on a stream instead. If connections alone
//! are the load, a query stands for a connection, and settles when that is open.

mod connection;
mod epoll;
mod frame;
pub mod fuzz;
mod http;
mod layer;
mod places;
mod ports;
mod secure;

use kqps_http::{ALPN, Requests};
use kqps_kernel::limits;
use kqps_tls::client::server_name;
use kqps_tls::{Client, Connector};

use crate::error::PlayError;
use crate::plan::{HttpPlan, Plan, TcpPlan, TlsPlan};
use crate::record::ThreadResult;
use crate::state::ThreadState;
use crate::thread::{PlayerThread, Signals};
use http::{Http, Shared};
use layer::{Layer, Plain};
use places::Places;
use secure::Secure;

/// The name of the I/O model in records.
pub(super) const IO: &str = "epoll";

/// Descriptors beside those of connections: the program's own, and some for each thread.
const OTHER_FILES: usize = 64;
const FILES_PER_THREAD: usize = 8;

/// The least number of tickets that a thread keeps of each target.
const TICKETS_LEAST: usize = 16;

/// Fails if the process may not open enough files for all connections of a plan.
pub(super) fn check_descriptors(plan: &Plan) -> Result<(), PlayError> {
    let limit = limits::raise_open_files().unwrap_or(u64::MAX);
    let wanted = plan.flows();
    let needed = wanted + OTHER_FILES + plan.threads * FILES_PER_THREAD;
    if needed as u64 > limit {
        return Err(PlayError::TooManySockets { wanted, limit });
    }
    // If it fails, opening a connection may stall a little.
    let _ = limits::reserve_open_files(needed as u64);
    Ok(())
}

/// What makes TLS of a trial's connections; `None` if they are without it.
pub(super) fn client(tcp: &TcpPlan) -> Result<Option<Client>, PlayError> {
    let client = |tls: &TlsPlan| {
        let speaking = |client: Client| if tls.http.is_some() { client.speaking(ALPN) } else { client };
        Client::new(&tls.client).map(speaking)
    };
    tcp.tls.as_ref().map(client).transpose().map_err(PlayError::Tls)
}

/// Plays a thread's part of a trial on `flows` connections at once. `first` is the number, among all, of the first one.
/// Returns `None` if the trial was called off.
pub(super) fn play(
    (tcp, client): (&TcpPlan, Option<&Client>),
    (first, flows): (usize, usize),
    plan: &Plan,
    state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    match (&tcp.tls, client) {
        (Some(tls), Some(client)) => {
            // Each connection can have offered a ticket, and each target gets its own.
            let connectors: Result<Vec<Connector>, _> = tls
                .names
                .iter()
                .map(|name| server_name(name).map(|name| client.connector(name, flows.max(TICKETS_LEAST))))
                .collect();
            let connectors = connectors?;
            match &tls.http {
                Some(http) => {
                    let shared = http_shared(connectors, http, plan);
                    play_over::<Http>(tcp, shared, (first, flows), plan, state, signals)
                }
                None => play_over::<Secure>(tcp, connectors, (first, flows), plan, state, signals),
            }
        }
        _ => play_over::<Plain>(tcp, (), (first, flows), plan, state, signals),
    }
}

/// What the connections of a thread share over HTTP. The books settle a query by the end of the timeout and the drain,
/// and its stream is cancelled then.
fn http_shared(connectors: Vec<Connector>, http: &HttpPlan, plan: &Plan) -> Shared {
    let HttpPlan { method, authorities, paths } = http;
    let requests = authorities.iter().zip(paths).map(|(authority, path)| {
        Requests::new(*method, authority, path).expect("the URLs of a plan are checked")
    });
    let patience = plan.timeout.saturating_add(plan.drain);
    Shared::new(connectors, requests.collect(), u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX))
}

/// Plays a thread's part of a trial with this layer between messages and connections.
fn play_over<L: Layer>(
    tcp: &TcpPlan,
    shared: L::Shared,
    (first, flows): (usize, usize),
    plan: &Plan,
    mut state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let failed = |error| PlayError::Loop { io: IO, error };
    state.books.limit_unsettled(tcp.outstanding);
    if let Some(uses) = tcp.uses_of_connection() {
        (0..flows).for_each(|flow| state.books.allow(flow, uses));
    }
    let places = Places::<L>::new(plan, tcp, shared, first, flows).map_err(failed)?;
    let mut thread = PlayerThread::new(plan, plan.burst, places, state, signals).map_err(failed)?;
    epoll::play(&mut thread).map_err(failed)?;
    let connections = Some(thread.wire.finish());
    Ok(thread.into_result().map(|result| ThreadResult { connections, ..result }))
}
