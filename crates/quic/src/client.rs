//! The connections of one thread of a client. Each has a slot, whose number the caller chose, and a stream for each
//! query (RFC 9250, section 4.2), which the caller knows by a key of its own.

mod connection;
mod streams;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use derive_more::AddAssign;
use kqps_tls::{Connector, Session, TicketCounts};
use quinn_proto::{
    ClientConfig, ConnectionStats, DatagramEvent, Endpoint, EndpointEvent, TokenMemoryCache, TransportConfig,
};

use crate::Congestion;
use crate::clock::Clock;
use crate::code;
use crate::end::End;
use crate::session::ClientCrypto;
use crate::transport::{endpoint, transport};
use connection::Connection;

/// Tokens that are kept of one client, if clients have addresses.
const TOKENS_OF_CLIENT: usize = 4;

/// The longest time without a packet, if the server does not ask for a shorter one.
const IDLE: Duration = Duration::from_mins(10);

/// The connections of one thread, and what makes them.
pub struct Client {
    endpoint: Endpoint,
    clock: Clock,
    transport: Arc<TransportConfig>,
    targets: Vec<Target>,
    /// The tokens of clients with an address.
    tokens: Arc<TokenMemoryCache>,
    slots: Vec<Option<Connection>>,
    counts: ClientCounts,
    /// A query after its length.
    frame: Vec<u8>,
    /// A buffer for packets of the endpoint itself, which a client never needs.
    unused: Vec<u8>,
}

/// A server, and what makes connections to it.
struct Target {
    connector: Connector,
    /// The settings of connections of no client in particular.
    config: ClientConfig,
    /// The key of the server's tokens for its validation of addresses.
    name: String,
}

/// An event of a connection.
#[derive(Debug)]
pub enum ClientEvent<'a> {
    /// Its handshake is complete.
    Opened {
        /// The session on which the handshake agreed.
        session: Session,
        /// The outcome of early data.
        early: EarlyData,
    },
    /// The query of this key must be handed again, since the server did not take early data.
    Again(u16),
    /// A reply arrived on the stream of this query; it is whole, and its ID is as it arrived.
    Reply(u16, &'a [u8]),
    /// The server ended the stream of this query without a reply, with this code.
    Failed(u16, u64),
    /// More streams may be opened.
    Available,
    /// The connection ended, or was not made. Pass on what [`Client::transmit`] still returns, then
    /// [`Client::forget`] it.
    Ended(End),
}

/// The outcome of early data (0-RTT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyData {
    /// No ticket allowed it.
    NotOffered,
    /// The server took it.
    Accepted,
    /// The server did not take it.
    Rejected,
}

/// Counts of all connections that were forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub struct ClientCounts {
    /// Retry packets, by which servers validate a client's address (RFC 9000, section 8.1.2).
    pub retries: u64,
    /// Tokens for later connections (`NEW_TOKEN`).
    pub tokens_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received for a connection.
    pub datagrams_received: u64,
    /// Packets sent. A datagram may hold several.
    pub packets_sent: u64,
    /// Sent packets that were lost and whose contents were sent again.
    pub packets_lost: u64,
}

impl ClientCounts {
    fn add_stats(&mut self, stats: &ConnectionStats) {
        self.tokens_received += stats.frame_rx.new_token;
        self.datagrams_sent += stats.udp_tx.datagrams;
        self.datagrams_received += stats.udp_rx.datagrams;
        self.packets_sent += stats.path.sent_packets;
        self.packets_lost += stats.path.lost_packets;
    }
}

impl Client {
    /// A client with `slots` slots, for the targets of these connectors. Each target's tokens are kept, `tokens` at
    /// most, and those of a client with an address apart.
    pub fn new(connectors: Vec<Connector>, slots: usize, tokens: usize, congestion: Congestion) -> Self {
        let transport = Arc::new(transport(congestion, 0, IDLE));
        let names = u32::try_from(connectors.len()).unwrap_or(u32::MAX);
        let kept = Arc::new(TokenMemoryCache::new(names, tokens));
        let clients = names.saturating_mul(u32::try_from(slots).unwrap_or(u32::MAX));
        let target = |(number, connector): (usize, Connector)| {
            let (config, name) = connector.parts(None);
            let mut config = ClientConfig::new(Arc::new(ClientCrypto::new(config, name)));
            config.transport_config(Arc::clone(&transport)).token_store(kept.clone());
            Target { connector, config, name: number.to_string() }
        };
        let targets = connectors.into_iter().enumerate().map(target).collect();
        Self {
            endpoint: Endpoint::new(Arc::new(endpoint()), None, false, None),
            clock: Clock::new(),
            transport,
            targets,
            tokens: Arc::new(TokenMemoryCache::new(clients, TOKENS_OF_CLIENT)),
            slots: (0..slots).map(|_| None).collect(),
            counts: ClientCounts::default(),
            frame: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// Begins a connection to the target of this number, and of this address, in a free slot. It comes from the client
    /// with the address `from`, whose tickets and tokens are its own; `None` if the kernel chooses the address. Fails,
    /// with the reason, if the address cannot be that of a server.
    pub fn connect(
        &mut self,
        slot: usize,
        from: Option<IpAddr>,
        (target, to): (usize, SocketAddr),
        now_ns: u64,
    ) -> Result<(), String> {
        let Target { connector, config, name } = &self.targets[target];
        let at = self.clock.at(now_ns);
        let connected = match from {
            None => self.endpoint.connect(at, config.clone(), to, name),
            Some(client) => {
                let (of_client, server) = connector.parts(from);
                let mut config = ClientConfig::new(Arc::new(ClientCrypto::new(of_client, server)));
                config.transport_config(Arc::clone(&self.transport)).token_store(self.tokens.clone());
                self.endpoint.connect(at, config, to, &format!("{name} {client}"))
            }
        };
        let (handle, inner) = connected.map_err(|error| error.to_string())?;
        self.slots[slot] = Some(Connection::new(handle, inner));
        Ok(())
    }

    /// Whether a slot has a connection.
    #[inline]
    pub fn has_connection(&self, slot: usize) -> bool {
        self.slots[slot].is_some()
    }

    /// Whether a slot has a connection that may send early data, or might while it was being made.
    #[inline]
    pub fn offers_early_data(&self, slot: usize) -> bool {
        self.slots[slot].as_ref().is_some_and(|connection| connection.offers_early_data)
    }

    /// Hands a query to a connection, on a stream of its own and with the ID 0. Returns whether it took the query.
    /// Before its handshake is complete it takes only early data, and after that as many queries as the server allows
    /// streams.
    #[inline]
    pub fn hand(&mut self, slot: usize, key: u16, query: &[u8], now_ns: u64) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        connection.hand(key, query, &mut self.frame, now_ns)
    }

    /// Takes a datagram that arrived from this address at the socket of a slot. Returns whether it is of the slot's
    /// connection.
    pub fn datagram(&mut self, slot: usize, from: SocketAddr, bytes: &[u8], now_ns: u64) -> bool {
        let Some(connection) = &mut self.slots[slot] else { return false };
        self.unused.clear();
        let at = self.clock.at(now_ns);
        let taken = self.endpoint.handle(at, from, None, None, BytesMut::from(bytes), &mut self.unused);
        let Some(DatagramEvent::ConnectionEvent(handle, event)) = taken else { return false };
        if handle != connection.handle {
            return false;
        }
        self.counts.retries += u64::from(connection.notes_retry(bytes));
        connection.inner.handle_event(event);
        true
    }

    /// Calls `each` for everything that happened on a connection since the last call.
    pub fn poll(&mut self, slot: usize, now_ns: u64, mut each: impl FnMut(ClientEvent<'_>)) {
        let Self { endpoint, clock, slots, .. } = self;
        let Some(connection) = &mut slots[slot] else { return };
        while let Some(event) = connection.inner.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(connection.handle, event) {
                connection.inner.handle_event(event);
            }
        }
        connection.poll(clock.at(now_ns), &mut each);
    }

    /// Writes the next datagrams of a connection to `buffer`, at most `most` of equal length and perhaps a shorter one
    /// at the end. Returns the length of each; `None` if there are none.
    #[inline]
    pub fn transmit(&mut self, slot: usize, most: usize, buffer: &mut Vec<u8>, now_ns: u64) -> Option<usize> {
        buffer.clear();
        let connection = self.slots[slot].as_mut()?;
        let transmit = connection.inner.poll_transmit(self.clock.at(now_ns), most, buffer)?;
        buffer.truncate(transmit.size);
        Some(transmit.segment_size.unwrap_or(transmit.size))
    }

    /// When [`Self::expire`] is due for a connection; `None` if it never is.
    #[inline]
    pub fn due_ns(&mut self, slot: usize) -> Option<u64> {
        let at = self.slots[slot].as_mut()?.inner.poll_timeout()?;
        Some(self.clock.ns(at))
    }

    /// Does what is due at a connection by now. Something may have happened on it then.
    pub fn expire(&mut self, slot: usize, now_ns: u64) {
        if let Some(connection) = &mut self.slots[slot] {
            connection.inner.handle_timeout(self.clock.at(now_ns));
        }
    }

    /// Gives up queries of a connection that were handed to it before this time and have no reply: the server need not
    /// answer them any more. Returns whether there were any: pass on what [`Self::transmit`] then returns.
    pub fn cancel_before(&mut self, slot: usize, before_ns: u64) -> bool {
        self.slots[slot].as_mut().is_some_and(|connection| connection.cancel_before(before_ns))
    }

    /// Closes a connection that is not needed any more. Pass on what [`Self::transmit`] then returns, and
    /// [`Self::forget`] it.
    pub fn close(&mut self, slot: usize, now_ns: u64) {
        if let Some(connection) = &mut self.slots[slot] {
            connection.inner.close(self.clock.at(now_ns), code::number(code::NO_ERROR), Bytes::new());
        }
    }

    /// Empties a slot. What still arrives for its connection is of no connection.
    pub fn forget(&mut self, slot: usize) {
        if let Some(connection) = self.slots[slot].take() {
            self.counts.add_stats(&connection.inner.stats());
            self.endpoint.handle_event(connection.handle, EndpointEvent::drained());
        }
    }

    /// The counts of the connections that were forgotten.
    pub fn counts(&self) -> ClientCounts {
        self.counts
    }

    /// The counts of the tickets of the target with this number.
    pub fn tickets_of(&self, target: usize) -> TicketCounts {
        self.targets[target].connector.tickets()
    }

    /// The counts of tickets, of all targets.
    pub fn tickets(&self) -> TicketCounts {
        let mut sum = TicketCounts::default();
        for tickets in self.targets.iter().map(|target| target.connector.tickets()) {
            sum.received += tickets.received;
            sum.offered += tickets.offered;
        }
        sum
    }
}

#[cfg(test)]
mod tests;
