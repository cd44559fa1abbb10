//! Arrivals at the sockets of places, and what happened on their connections by that.

use std::io;

use kqps_kernel::batch::{RecvBatch, Wait};
use kqps_message::header;
use kqps_quic::{ClientEvent, EarlyData};
use kqps_tls::Session;

use super::{Places, loss_of};
use crate::clock::TrialClock;
use crate::loss::Loss;
use crate::reply::Cause;
use crate::state::ThreadState;
use crate::wire::udp::look::Look;

impl Places<'_> {
    /// Reads all that has arrived at a socket by now. Of a flood what arrives later is left, so that other sockets have
    /// their turn.
    pub(super) fn receive(&mut self, state: &mut ThreadState<'_>, flow: usize) -> io::Result<()> {
        let Some(mut batch) = self.received.take() else { return Ok(()) };
        let outcome = self.receive_into(&mut batch, state, flow);
        self.received = Some(batch);
        outcome
    }

    fn receive_into(
        &mut self,
        batch: &mut RecvBatch,
        state: &mut ThreadState<'_>,
        flow: usize,
    ) -> io::Result<()> {
        let Some(socket) = &self.sockets[flow] else { return Ok(()) };
        let target = self.places[flow].target;
        let tickets = self.attempts.ticket_waits.is_on().then(|| self.client.tickets_of(target).received);
        let mut look = Look::begin(state.now_ns(), self.messages_most);
        loop {
            let received = batch.recv(socket, Wait::No);
            let now_ns = state.now_ns();
            let count = match received {
                Ok(count) => count,
                Err(error) => {
                    let loss = loss_of(&error).ok_or(error)?;
                    self.cut_off(state, flow, loss, now_ns);
                    if look.has_read_all(1, 0) {
                        break;
                    }
                    continue;
                }
            };
            state.books.tally.messages_received += count as u64;
            let clock_ns = state.clock.clock_ns(now_ns);
            for index in 0..count {
                let message = batch.message(index);
                let to = self.places[flow].to;
                let mut is_known = false;
                for datagram in message.bytes.chunks(message.segment_bytes) {
                    is_known |= self.client.datagram(flow, to, datagram, clock_ns);
                }
                if is_known {
                    let at_ns = state.clock.arrival_ns(message.arrived_ns, now_ns);
                    self.happened(state, flow, at_ns, now_ns);
                }
            }
            let last_ns = last_arrival_ns((batch, count), &state.clock, now_ns).unwrap_or(0);
            if count < batch.capacity() || look.has_read_all(count, last_ns) {
                break;
            }
        }
        let has_one = tickets.is_some_and(|before| self.client.tickets_of(target).received > before);
        if has_one && !std::mem::replace(&mut self.places[flow].has_ticket, true) {
            self.attempts.ticket_waits.came();
        }
        let now_ns = state.now_ns();
        self.flush(state, flow, now_ns);
        self.close_if_spent(state, flow, now_ns);
        Ok(())
    }

    /// Takes what happened on a place's connection. What arrived did so at `at_ns`.
    pub(super) fn happened(&mut self, state: &mut ThreadState<'_>, flow: usize, at_ns: u64, now_ns: u64) {
        let (mut opened, mut ended) = (None, None);
        let Self { client, places, quic, tls, attempts, .. } = self;
        let counts = &mut attempts.counts;
        let place = &mut places[flow];
        client.poll(flow, state.clock.clock_ns(now_ns), |event| match event {
            ClientEvent::Opened { session, early } => opened = Some((session, early)),
            ClientEvent::Again(key) => {
                tls.early.queries_again += 1;
                place.waiting.push_back(key);
            }
            ClientEvent::Reply(key, reply) => {
                place.tries.failures = 0;
                // RFC 9250, section 4.2.1: the ID of every message is 0.
                if header::id(reply).is_some_and(|id| id != 0) {
                    state.books.wrong(flow, key, Cause::Id, at_ns);
                } else if let Some(latency_ns) = state.books.answered(flow, key, reply, at_ns) {
                    counts.write_to_reply.record_us(place.stamps.since_us(key, at_ns));
                    if place.stamps.is_first(key) {
                        counts.first_query.record_us(latency_ns / 1000);
                    }
                }
            }
            ClientEvent::Failed(key, code) => {
                quic.failed(&format!("stream reset with {code:#x}"));
                state.books.lost(flow, key, Loss::StreamReset, now_ns);
            }
            ClientEvent::Available => {}
            ClientEvent::Ended(end) => ended = Some(end),
        });
        let has_opened = opened.is_some();
        if let Some((session, early)) = opened {
            self.opened(state, flow, (&session, early), now_ns);
        }
        if let Some(end) = ended {
            return self.ended_by(state, flow, &end, now_ns);
        }
        self.pump(state, flow, now_ns);
        if has_opened {
            self.quic.blocked_queries += self.places[flow].waiting.len() as u64;
        }
    }

    fn opened(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        (session, early): (&Session, EarlyData),
        now_ns: u64,
    ) {
        let clock_ns = state.clock.clock_ns(now_ns);
        self.attempts.counts.established += 1;
        let place = &mut self.places[flow];
        place.is_open = true;
        place.opened_ns = clock_ns;
        if let Some(key) = place.stands_for.take() {
            state.books.established(flow, key, now_ns);
        }
        self.tls.opened(session, clock_ns.saturating_sub(place.began_ns) / 1000);
        match early {
            EarlyData::NotOffered => {}
            EarlyData::Accepted => self.tls.early.accepted += 1,
            EarlyData::Rejected => self.tls.early.rejected += 1,
        }
    }
}

/// When the last of `count` messages arrived, nanoseconds since the start of the trial; `None` if it has no time.
fn last_arrival_ns((batch, count): (&RecvBatch, usize), clock: &TrialClock, now_ns: u64) -> Option<u64> {
    let last = count.checked_sub(1)?;
    let arrived_ns = batch.message(last).arrived_ns?;
    Some(clock.arrival_ns(Some(arrived_ns), now_ns))
}
