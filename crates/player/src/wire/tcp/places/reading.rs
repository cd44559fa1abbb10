//! Arrivals at a place: bytes for the layer of its connection, replies for the books, and the end.

use std::io;

use super::{Place, Places, Sockets};
use crate::connections::Ending;
use crate::state::ThreadState;
use crate::wire::attempts::Attempts;
use crate::wire::tcp::layer::{Arrived, Broken, Buffers, Layer, Rest, Room};

/// A place while bytes arrive there.
pub(in crate::wire::tcp) struct Hearing<'p, L: Layer, S: Sockets> {
    place: &'p mut Place<L, S>,
    attempts: &'p mut Attempts,
    shared: &'p L::Shared,
    flow: usize,
    now_ns: u64,
}

impl<L: Layer, S: Sockets> Hearing<'_, L, S> {
    /// The bytes of an earlier read that must stand before those that arrived; none if there is no connection.
    #[inline]
    pub(in crate::wire::tcp) fn kept(&self) -> &[u8] {
        self.place.connection.as_ref().map_or(&[][..], |connection| connection.layer.kept())
    }

    /// The connection's handle of its socket.
    #[inline]
    pub(in crate::wire::tcp) fn socket(&self) -> Option<&S::Socket> {
        self.place.connection.as_ref().map(|connection| &connection.socket)
    }

    /// How a write found that the connection has ended.
    #[inline]
    pub(in crate::wire::tcp) fn broken(&self) -> Option<Ending> {
        self.place.connection.as_ref().and_then(|connection| connection.broken)
    }

    /// Hands bytes that were kept and those that arrived to the layer, and what is whole to the books. The last byte
    /// arrived at `at_ns`.
    #[inline]
    pub(in crate::wire::tcp) fn hear(
        &mut self,
        state: &mut ThreadState<'_>,
        (bytes, room): (&mut [u8], &mut Room),
        at_ns: u64,
    ) -> Result<Rest, Broken> {
        let (flow, now_ns, shared) = (self.flow, self.now_ns, self.shared);
        let Attempts { counts, ticket_waits, .. } = &mut *self.attempts;
        let Place { connection, target, writes, tries, .. } = &mut *self.place;
        let Some(connection) = connection else { return Ok(Rest::Nothing) };
        let tickets = ticket_waits.is_on().then(|| L::tickets(shared, *target));
        let mut replies = 0;
        let rest = connection.layer.take(bytes, room, |arrived| {
            replies += 1;
            let reply = match arrived {
                Arrived::Message(reply) => reply,
                Arrived::Wrong { key, cause } => return state.books.wrong(flow, key, cause, at_ns),
            };
            let Some((key, latency_ns)) = state.books.replied(flow, reply, at_ns) else { return };
            counts.write_to_reply.record_us(writes.stamps.since_us(key, at_ns));
            if writes.stamps.is_first(key) {
                counts.first_query.record_us(latency_ns / 1000);
            }
        });
        connection.layer.each_lost(|key, loss| state.books.lost(flow, key, loss, now_ns));
        if replies > 0 {
            tries.failures = 0;
        }
        if tickets.is_some_and(|before| L::tickets(shared, *target) > before) && !connection.has_ticket {
            connection.has_ticket = true;
            ticket_waits.came();
        }
        rest
    }
}

impl<L: Layer, S: Sockets> Places<L, S> {
    /// A place for what arrives there, with the sockets and room for bytes.
    #[inline]
    pub(in crate::wire::tcp) fn split(
        &mut self,
        flow: usize,
        now_ns: u64,
    ) -> (Hearing<'_, L, S>, &mut S, &mut Buffers) {
        let hearing = Hearing {
            place: &mut self.places[flow],
            attempts: &mut self.attempts,
            shared: &self.shared,
            flow,
            now_ns,
        };
        (hearing, &mut self.sockets, &mut self.buffers)
    }

    /// Goes on after a read: the connection has opened, ended, or waits for more.
    #[inline]
    pub(in crate::wire::tcp) fn go_on(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        rest: Result<Rest, Broken>,
        now_ns: u64,
    ) -> io::Result<()> {
        let has_opened = self.open_if_ready(state, flow, now_ns);
        let Some(connection) = &self.places[flow].connection else { return Ok(()) };
        let ending = match rest {
            Ok(Rest::Nothing) => {
                if has_opened || connection.layer.has_own_bytes() {
                    self.flush(state, flow, now_ns)?;
                }
                return self.close_if_spent(state, flow, now_ns);
            }
            Err(Broken::Layer(fault)) => {
                self.layer_failed(state, flow, &fault, now_ns);
                return Ok(());
            }
            Err(Broken::Socket(ending)) => ending,
            Ok(Rest::GoneAway) => connection.broken.unwrap_or(Ending::GoAway),
            Ok(Rest::End) => match (connection.broken, state.books.unsettled_of(flow)) {
                (Some(broken), _) => broken,
                (None, 0) => Ending::Idle,
                _ => {
                    let acknowledged = || self.sockets.acknowledged_bytes(&connection.socket);
                    connection.closed_with_open_queries(acknowledged)
                }
            },
        };
        if connection.is_open {
            self.ended(state, flow, ending, now_ns);
        } else {
            // Its handshake was not complete.
            self.failed(state, flow, ending.loss(), now_ns);
        }
        Ok(())
    }
}
