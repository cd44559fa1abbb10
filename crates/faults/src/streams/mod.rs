//! A server on connections that misbehaves in known numbers: over TCP, in TLS, by HTTP/2 in TLS, and over QUIC.
//!
//! Each query, and each handshake, meets one fault at most, drawn from a seed. [`Counts::expected`] has what a player
//! must report then, to the last query and connection. Three rules make that certain:
//!
//! - A connection that the server ends by FIN is read until the player has ended it too, so that no query is missed
//!   that the player sent before it knew. Faults that end a connection in another way are for players with one
//!   outstanding query on each connection.
//! - Faults that leave a query open for good, or answer it late, do not go with those that end connections: the query
//!   would be lost by time or by the end, whichever comes first.
//! - Faults of a handshake are for players that make a connection for each query, so that each failed attempt loses
//!   one.
//!
//! One thread does it all, so that the counts need no lock and all events have one order. `layer.rs` and `http2.rs`
//! have the way from messages to bytes over HTTPS. QUIC has a loop and connections of its own in `quic.rs`. There the
//! first rule cannot hold: a connection that the server closes cannot be read any more. [`Counts::queries`] then lacks
//! the queries that were on their way. Nor can a server stop a query (`STOP_SENDING`): it arrives in one frame with the
//! end of its stream.

mod connection;
mod counts;
mod engine;
mod fault;
mod http2;
mod kind;
mod layer;
mod outbox;
mod plan;
mod quic;
mod reply;
mod serving;
mod shared;
mod standstill;
mod wire;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::relay::Witness;
use crate::thread::Background;

pub use counts::{Counts, Datagrams, Expected};
pub use fault::{Fault, Stage};
pub use kind::Kind;
pub use plan::Plan;
pub use standstill::Standstill;
pub use wire::{Certificates, Wire};

use engine::Engine;
use quic::QuicEngine;
use serving::{Serving, serve};

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The address that it listens at; port 0 stands for any free one.
    pub listen: SocketAddr,
    /// The protocol of its connections, with certificates.
    pub wire: Wire,
    /// The faults and their shares.
    pub plan: Plan,
    /// The seed of the random choice of faults.
    pub seed: u64,
    /// Delay of every reply, microseconds.
    pub delay_us: u64,
    /// A time in which it stands still for some queries alone.
    pub standstill: Option<Standstill>,
    /// Delay of a reply with [`Fault::Late`], microseconds: more than the player's timeout, less than its drain.
    pub late_us: u64,
    /// The streams that a player may have open on a connection of HTTP/2; `None` for as many as it likes.
    pub streams_most: Option<u32>,
    /// Drops and swaps of datagrams, over QUIC.
    pub disorder: Disorder,
    /// A time in which it refuses connections.
    pub refusal: Option<Refusal>,
    /// Whether it reads nothing after a handshake, until it is stopped: no query is answered. Over QUIC it acknowledges
    /// packets, and leaves streams as they are.
    pub deaf: bool,
    /// The core that it is pinned to; `None` for any.
    pub cpu: Option<u32>,
    /// Whether it spins instead of sleeping, so that it answers without the delay of waking up.
    pub spin: bool,
    /// Whether it notes the time of each reply, and writes each by a call of its own.
    pub witness: bool,
}

/// Drops and swaps of datagrams by a server over QUIC, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// It drops one of so many; none if this is 0.
    pub drop_every: u64,
    /// It passes one of so many on after the next one; none if this is 0.
    pub swap_every: u64,
}

/// A time in which the server refuses connections. It begins when a player with kept connections has opened all of
/// them, so that no connection waits to be accepted, and ends them.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// It begins after this many queries.
    pub after_queries: u64,
    /// The number of connections that the player keeps.
    pub connections: usize,
    /// How long it lasts.
    pub lasts: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            wire: Wire::Tcp,
            plan: Plan::default(),
            seed: 1,
            delay_us: 0,
            standstill: None,
            late_us: 1_000_000,
            streams_most: None,
            disorder: Disorder::default(),
            refusal: None,
            deaf: false,
            cpu: None,
            spin: false,
            witness: false,
        }
    }
}

/// The server of this wire.
fn serving(settings: ServerSettings) -> Result<Box<dyn Serving + Send>> {
    Ok(match settings.wire.clone() {
        Wire::Quic(certificates) => Box::new(QuicEngine::new(settings, &certificates)?),
        Wire::Tcp | Wire::Tls(_) | Wire::Https(_) => Box::new(Engine::new(settings)?),
    })
}

/// A server that runs in a thread of its own. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    thread: Background<(Counts, Witness)>,
}

impl Server {
    /// Opens its listening socket in the network namespace of the calling thread, and starts to serve. An error if it
    /// cannot open it.
    pub fn start(settings: ServerSettings) -> Result<Self> {
        let cpu = settings.cpu;
        let mut serving = serving(settings).context("the server with faults cannot listen")?;
        let address = serving.address();
        let named = ("the server with faults", "streams");
        let thread = Background::start(named, cpu, move |stop| serve(&mut *serving, stop))?;
        Ok(Self { address, thread })
    }

    /// The address that players connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it when its connections have ended, and returns its counts. An error if it failed meanwhile.
    pub fn stop(self) -> Result<Counts> {
        self.stop_with_witness().map(|(counts, _)| counts)
    }

    /// Stops it as [`Self::stop`] does, and returns also the times of replies, in the order in which queries were read.
    /// Without [`ServerSettings::witness`] there are none.
    pub fn stop_with_witness(self) -> Result<(Counts, Witness)> {
        self.thread.stop()
    }
}
