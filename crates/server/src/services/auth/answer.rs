//! Answering queries from the zones that are current when the query arrives.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Cache};
use kqps_kernel::clock::wall_s;
use kqps_message::rcode;
use kqps_zone::{Asker, Outcome, Responder, Silence, Transfer, Transport, Zones};

use super::refusal::refuse;
use crate::answer::{Answer, Answered, Client, Query};
use crate::counts::{Cause, Rcodes};
use crate::later::Origin;

/// Answers queries from the zones.
pub(super) struct AuthAnswer {
    /// Notices new zones without touching memory that the workers share.
    zones: Cache<Arc<ArcSwap<Zones>>, Arc<Zones>>,
    responder: Responder,
    /// How long a connection may be idle, in units of 100 ms.
    idle_ds: u16,
    rcodes: Rcodes,
}

impl AuthAnswer {
    pub(super) fn new(zones: Arc<ArcSwap<Zones>>, responder: Responder, idle: Duration) -> Self {
        // A time of 0 would ask clients to close their connections.
        let idle_ds = u16::try_from(idle.as_millis() / 100).unwrap_or(u16::MAX).max(1);
        Self { zones: Cache::new(zones), responder, idle_ds, rcodes: Rcodes::default() }
    }
}

/// Who asks the responder; the reason if it must not reply. `idle_ds` is the idle time of connections.
#[inline]
fn asker(query: &Query<'_>, idle_ds: u16) -> Result<Asker, Cause> {
    if query.is_too_long() {
        return Err(Cause::QueryTooLong);
    }
    let (address, transport, idle_ds) = match query.client {
        Client::Udp(source) => {
            (source.ip().filter(|_| source.port() > 0).ok_or(Cause::PortZero)?, Transport::Udp, None)
        }
        // The idle time of a connection over QUIC is a parameter of its transport (RFC 9250, section 5.5.2).
        Client::Tcp(address) => {
            let has_streams = matches!(query.origin, Origin::Stream { .. });
            (address, Transport::Tcp, Some(idle_ds).filter(|_| !has_streams))
        }
        Client::Https(address) => (address, Transport::Tcp, None),
        // All clients of Unix sockets share one cookie, like all clients behind a forwarder on this host.
        Client::Unix => (Ipv4Addr::LOCALHOST.into(), Transport::Tcp, None),
    };
    let [_, _, _, _, now_s @ ..] = wall_s().to_be_bytes();
    Ok(Asker { address, transport, now_s: u32::from_be_bytes(now_s), idle_ds })
}

impl Answer for AuthAnswer {
    const GROWS: bool = true;

    type Many = Box<Transfer>;

    #[inline]
    fn foresee<'q>(&mut self, queries: impl ExactSizeIterator<Item = &'q [u8]>) {
        self.responder.foresee(self.zones.load(), queries);
    }

    /// Answers one query from one version of the zones.
    #[inline]
    fn answer(&mut self, query: Query<'_>) -> Answered<Box<Transfer>> {
        let is_one = matches!(query.client, Client::Https(_));
        let asker = match asker(&query, self.idle_ds) {
            Ok(asker) => asker,
            Err(cause) => return Answered::None(cause),
        };
        match self.responder.respond(self.zones.load(), query.buffer, query.bytes, &asker) {
            Outcome::Reply(bytes) => {
                self.rcodes.add(self.responder.rcode());
                Answered::One(bytes)
            }
            Outcome::Transfer(_) if is_one => {
                self.rcodes.add(rcode::REFUSED);
                Answered::One(refuse(query.buffer, query.bytes))
            }
            Outcome::Transfer(transfer) => Answered::Many(transfer),
            Outcome::Silence(Silence::TooShort) => Answered::None(Cause::QueryTooShort),
            Outcome::Silence(Silence::IsReply) => Answered::None(Cause::IsResponse),
        }
    }

    fn next(&mut self, transfer: &mut Box<Transfer>, buffer: &mut [u8]) -> Option<usize> {
        transfer.next(buffer)
    }

    fn response_rcodes(&self) -> BTreeMap<String, u64> {
        self.rcodes.report()
    }
}
