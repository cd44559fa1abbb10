//! Answering queries from the zones that are current when the query arrives.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use kqps_kernel::clock::wall_s;
use kqps_zone::{Asker, Outcome, Responder, Silence, Transfer, Transport, Zones};

use crate::answer::{Answer, Packet, QUERY_BYTES};
use crate::connections::{Said, StreamAnswer};
use crate::counts::{Cause, Rcodes};

/// Answers queries that arrive as datagrams from the zones.
pub(super) struct AuthAnswer(Inner);

/// Answers queries that arrive on connections from the zones.
pub(super) struct AuthStream(Inner);

struct Inner {
    /// Notices new zones without touching memory that the workers share.
    zones: Cache<Arc<ArcSwap<Zones>>, Arc<Zones>>,
    responder: Responder,
    rcodes: Rcodes,
}

impl AuthAnswer {
    pub(super) fn new(zones: Arc<ArcSwap<Zones>>, responder: Responder) -> Self {
        Self(Inner::new(zones, responder))
    }
}

impl AuthStream {
    pub(super) fn new(zones: Arc<ArcSwap<Zones>>, responder: Responder) -> Self {
        Self(Inner::new(zones, responder))
    }
}

impl Inner {
    fn new(zones: Arc<ArcSwap<Zones>>, responder: Responder) -> Self {
        Self { zones: Cache::new(zones), responder, rcodes: Rcodes::default() }
    }

    /// Answers one query from one version of the zones.
    #[inline]
    fn respond(
        &mut self,
        buffer: &mut [u8],
        query_bytes: usize,
        address: IpAddr,
        transport: Transport,
    ) -> Result<Said<Box<Transfer>>, Cause> {
        let asker = Asker { address, transport, now_s: wall_s() as u32 };
        match self.responder.respond(self.zones.load(), buffer, query_bytes, &asker) {
            Outcome::Reply(bytes) => {
                self.rcodes.add(self.responder.rcode());
                Ok(Said::Reply(bytes))
            }
            Outcome::Transfer(transfer) => Ok(Said::Stream(transfer)),
            Outcome::Silence(Silence::TooShort) => Err(Cause::QueryTooShort),
            Outcome::Silence(Silence::IsReply) => Err(Cause::IsResponse),
        }
    }
}

impl Answer for AuthAnswer {
    const GROWS: bool = true;

    #[inline]
    fn foresee<'q>(&mut self, queries: impl ExactSizeIterator<Item = &'q [u8]>) {
        self.0.responder.foresee(self.0.zones.load(), queries);
    }

    #[inline]
    fn answer(&mut self, packet: Packet<'_>) -> Result<usize, Cause> {
        if packet.query_bytes > QUERY_BYTES {
            return Err(Cause::QueryTooLong);
        }
        let address = packet.source.ip().filter(|_| packet.source.port() > 0).ok_or(Cause::PortZero)?;
        match self.0.respond(packet.buffer, packet.query_bytes, address, Transport::Udp)? {
            Said::Reply(bytes) => Ok(bytes),
            Said::Stream(_) => unreachable!("zones are transferred over TCP only"),
        }
    }

    fn response_rcodes(&self) -> BTreeMap<String, u64> {
        self.0.rcodes.report()
    }
}

impl StreamAnswer for AuthStream {
    type Stream = Box<Transfer>;

    fn answer(
        &mut self,
        buffer: &mut [u8],
        query_bytes: usize,
        client: Option<IpAddr>,
    ) -> Result<Said<Box<Transfer>>, Cause> {
        // All clients of Unix sockets share one cookie, like all clients behind a forwarder on this
        // host.
        let address = client.unwrap_or(Ipv4Addr::LOCALHOST.into());
        self.0.respond(buffer, query_bytes, address, Transport::Tcp)
    }

    fn next(&mut self, stream: &mut Box<Transfer>, buffer: &mut [u8]) -> Option<usize> {
        stream.next(buffer)
    }

    fn response_rcodes(&self) -> BTreeMap<String, u64> {
        self.0.rcodes.report()
    }
}
