//! A server behind the cache. It answers as a function says, by UDP and TCP, and answers the cache's checks by itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Result;
use kqps_faults::scripted::{Asked, Scripted};
use kqps_message::HEADER_BYTES;

use super::message::{asked, empty};

/// The server. Dropping it stops it.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    asked: Arc<AtomicU64>,
    _server: Scripted,
}

impl Upstream {
    /// Starts a server that sends these replies to a query.
    pub(super) fn start(say: impl Fn(&Asked<'_>) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Result<Self> {
        let count = Arc::<AtomicU64>::default();
        let counts = Arc::clone(&count);
        let server = Scripted::start(Ipv4Addr::LOCALHOST.into(), move |one| {
            if one.query.len() < HEADER_BYTES {
                return Vec::new();
            }
            if asked(one.query) == [0] {
                return vec![empty(one.query, 0)];
            }
            counts.fetch_add(1, Relaxed);
            say(one)
        })?;
        Ok(Self { address: server.address(), asked: count, _server: server })
    }

    /// Questions that came, without checks.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}
