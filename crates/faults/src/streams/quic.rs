//! The server's loop over QUIC: it reads datagrams one after the other, and gives the connection of each its turn at
//! once, so that a query is read before the end of its connection. `quinn-proto` keeps the connections.

mod attempts;
mod configs;
mod connection;
mod line;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::BytesMut;
use kqps_kernel::clock;
use kqps_kernel::epoll::Epoll;
use quinn_proto::{ConnectionHandle, DatagramEvent, Endpoint, EndpointEvent, Incoming};

use super::ServerSettings;
use super::serving::Serving;
use super::shared::Shared;
use super::wire::Certificates;
use attempts::{Attempts, Fate};
use configs::{Configs, endpoint};
use connection::{Connection, Turn};
use line::Line;

/// The key of the socket.
const SOCKET: u64 = 0;

/// Datagrams that are read before timers have their turn.
const READS_MOST: u32 = 64;

/// The state of the loop.
pub(super) struct QuicEngine {
    address: SocketAddr,
    line: Line,
    /// When the socket is opened again; `None` unless connections are refused.
    refuses_until_ns: Option<u64>,
    epoll: Epoll,
    endpoint: Endpoint,
    configs: Configs,
    attempts: Attempts,
    /// The instant at 0 ns of the monotonic clock. Only differences matter.
    origin: Instant,
    /// By their handles.
    places: Vec<Option<Connection>>,
    shared: Shared,
}

impl QuicEngine {
    pub(super) fn new(settings: ServerSettings, certificates: &Certificates) -> Result<Self> {
        let epoll = Epoll::new(1)?;
        let line = Line::open(settings.listen, settings.disorder)?;
        epoll.add(line.socket()?, SOCKET)?;
        let configs = Configs::new(certificates)?;
        let server = Some(Arc::clone(configs.server_config(None)));
        Ok(Self {
            address: line.socket()?.local_addr()?,
            line,
            refuses_until_ns: None,
            epoll,
            endpoint: Endpoint::new(Arc::new(endpoint()), server, false, None),
            configs,
            attempts: Attempts::default(),
            origin: Instant::now(),
            places: Vec::new(),
            shared: Shared::new(settings),
        })
    }

    fn at(&self, now_ns: u64) -> Instant {
        self.origin + Duration::from_nanos(now_ns)
    }

    /// Takes a datagram.
    fn take(&mut self, datagram: &[u8], from: SocketAddr) -> Result<()> {
        let now_ns = clock::now_ns();
        let mut response = Vec::new();
        let at = self.at(now_ns);
        let taken = self.endpoint.handle(at, from, None, None, BytesMut::from(datagram), &mut response);
        match taken {
            Some(DatagramEvent::ConnectionEvent(ConnectionHandle(place), event)) => {
                if let Some(connection) = self.places.get_mut(place).and_then(Option::as_mut) {
                    connection.take(event);
                }
                self.turn_of(place, now_ns);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.attempt(incoming, datagram, now_ns)?,
            Some(DatagramEvent::Response(transmit)) => {
                self.line.send(&response[..transmit.size], transmit.destination);
            }
            None => {}
        }
        Ok(())
    }

    /// Decides about an attempt to connect, of which this datagram is the first, or the first again.
    fn attempt(&mut self, incoming: Incoming, datagram: &[u8], now_ns: u64) -> Result<()> {
        let mut response = Vec::new();
        let to = incoming.remote_address();
        match self.attempts.fate(&incoming, &mut self.shared) {
            Fate::Ignore => self.endpoint.ignore(incoming),
            Fate::Refuse => {
                let transmit = self.endpoint.refuse(incoming, &mut response);
                response.truncate(transmit.size);
            }
            Fate::OtherVersion => {
                self.endpoint.ignore(incoming);
                response = attempts::other_version(datagram).context("a first datagram has no IDs")?;
            }
            Fate::Retry => {
                let retried = self.endpoint.retry(incoming, &mut response);
                let transmit = retried.map_err(|_| anyhow::anyhow!("an address was confirmed before"))?;
                response.truncate(transmit.size);
            }
            Fate::Accept(fault) => {
                let config = Arc::clone(self.configs.server_config(fault));
                let at = self.at(now_ns);
                match self.endpoint.accept(incoming, at, &mut response, Some(config)) {
                    Ok((handle, inner)) => {
                        let place = handle.0;
                        if place >= self.places.len() {
                            self.places.resize_with(place + 1, || None);
                        }
                        self.places[place] = Some(Connection::new(inner, fault, at));
                        self.turn_of(place, now_ns);
                        return Ok(());
                    }
                    Err(error) => {
                        // Its first datagram spoiled the handshake. Unless that is the fault, the counts are not exact.
                        self.shared.counts.broken += u64::from(fault.is_none());
                        let bytes = error.response.map_or(0, |transmit| transmit.size);
                        response.truncate(bytes);
                    }
                }
            }
        }
        if !response.is_empty() {
            self.line.send(&response, to);
        }
        Ok(())
    }

    /// Gives a connection its turn, if it is still there.
    fn turn_of(&mut self, place: usize, now_ns: u64) {
        let at = self.at(now_ns);
        let Some(connection) = self.places.get_mut(place).and_then(Option::as_mut) else { return };
        self.shared.turn_of = place;
        let turn = connection.turn(&mut self.shared, &mut self.line, (at, now_ns));
        let handle = ConnectionHandle(place);
        let mut is_drained = false;
        while let Some(event) = connection.next_endpoint_event() {
            is_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.take(event);
            }
        }
        if turn == Turn::Forgotten && !is_drained {
            // The endpoint answers what still comes for it by a stateless reset.
            self.endpoint.handle_event(handle, EndpointEvent::drained());
            is_drained = true;
        }
        if is_drained {
            self.places[place] = None;
        } else if let Some(due_ns) = connection.due_ns(self.origin) {
            self.shared.wake_at(due_ns);
        }
    }

    /// Begins and ends the time in which the socket is closed.
    fn refuse(&mut self, now_ns: u64) -> Result<()> {
        if self.refuses_until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
            self.refuses_until_ns = None;
            self.line.reopen(self.address)?;
            self.epoll.add(self.line.socket()?, SOCKET)?;
        }
        let are_open = |most: usize| live(&self.places) == most;
        let Some(until_ns) = self.shared.refuses_until_ns(now_ns, are_open) else { return Ok(()) };
        self.refuses_until_ns = Some(until_ns);
        let at = self.at(now_ns);
        for place in 0..self.places.len() {
            if let Some(connection) = &mut self.places[place] {
                connection.refuse(&mut self.shared, at);
            }
            self.turn_of(place, now_ns);
        }
        self.line.close()
    }
}

impl Serving for QuicEngine {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn shared(&mut self) -> &mut Shared {
        &mut self.shared
    }

    fn turn(&mut self) -> Result<bool> {
        let most_ns = self.shared.sleep_ns();
        let is_ready = self.epoll.wait_for(Some(most_ns))?.next().is_some();
        if is_ready {
            for _ in 0..READS_MOST {
                let Some((datagram, from)) = self.line.receive()? else { break };
                self.take(&datagram, from)?;
            }
        }
        let now_ns = clock::now_ns();
        while let Some(place) = self.shared.pop_due(now_ns) {
            let at = self.at(now_ns);
            if let Some(connection) = &mut self.places[place] {
                connection.expire(at, now_ns);
            }
            self.turn_of(place, now_ns);
        }
        self.refuse(now_ns)?;
        Ok(is_ready)
    }

    fn live(&self) -> usize {
        live(&self.places)
    }

    fn finish(&mut self) -> Result<()> {
        if self.shared.settings.disorder.drop_every > 0 {
            // The player has ended, and the server dropped the datagrams that said so.
            for connection in self.places.iter_mut().flatten() {
                connection.finish(&mut self.shared);
            }
        }
        self.shared.counts.datagrams = self.line.counts();
        self.shared.counts.overflowed = self.line.overflowed()?;
        Ok(())
    }
}

/// Connections that have not ended.
fn live(places: &[Option<Connection>]) -> usize {
    places.iter().flatten().filter(|connection| !connection.has_ended()).count()
}
