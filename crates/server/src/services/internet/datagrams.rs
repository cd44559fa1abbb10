//! The loop of datagrams to many addresses: `recvmmsg`, an answer that depends on the address of the query, and `sendmmsg`
//! from that address, at once or when the answer's delay is over. Delays count from the arrival of a query as the kernel
//! saw it. So a thread that was held up for a moment sends a delayed answer on time all the same.

use std::io;
use std::sync::Arc;

use kqps_kernel::batch::Received;
use kqps_kernel::clock::{self, now_ns};
use kqps_kernel::poll::{FOREVER_NS, PollSet};
use kqps_kernel::{Address, LocalAddress, RecvBatch, SendBatch, Wait};
use kqps_message::header::{HEADER_BYTES, QR};

use super::book::{Book, Over};
use super::census::Census;
use super::lateness::Lateness;
use super::tally::Tally;
use super::tree::Tree;
use super::waiting::Waiting;
use crate::answer::QUERY_BYTES;
use crate::counts::{Cause, Counts};
use crate::sockets::Endpoint;
use crate::worker::StopFlag;

/// Datagrams of one call.
const MESSAGES: usize = 64;

/// The bytes of one call.
const SENT_BYTES: usize = MESSAGES * QUERY_BYTES;

/// Answers that may wait at one time: 100,000 a second for 2.6 s. Their short rooms take 128 MiB of address space.
const WAITING: usize = 1 << 18;

/// A thread with a core of its own does not sleep for the last stretch before an answer is due, nanoseconds: a sleeper
/// wakes late by up to 100 µs on a virtual machine.
const AWAKE_NS: u64 = 100_000;

/// How long the difference between the kernel's stamps and the monotonic clock is used, nanoseconds.
const OFFSET_NS: u64 = 1_000_000_000;

/// A query that seems older than this makes the difference be read again, nanoseconds: the clock on the wall may have been set.
const ODD_NS: u64 = 100_000_000;

/// A query is never taken for older than this, nanoseconds. A thread that stood still for longer counts its answers as less late
/// than they were.
const OLDEST_NS: u64 = 10_000_000_000;

/// The receiver of an answer: the endpoint that got the query, its sender, and the address that it was sent to.
#[derive(Clone, Copy)]
struct Receiver {
    endpoint: usize,
    to: Address,
    from: LocalAddress,
}

pub(super) struct DatagramLoop {
    endpoints: Vec<Endpoint>,
    tree: Arc<dyn Tree>,
    tally: Arc<Tally>,
    census: Census,
    counts: Counts,
    waiting: Waiting<Receiver>,
    /// Answers that leave next, for each endpoint.
    leaving: Vec<Leaving>,
    reply: Vec<u8>,
    /// Whether the thread has a core of its own.
    has_core: bool,
    offset: ClockOffset,
}

impl DatagramLoop {
    pub(super) fn new(endpoints: Vec<Endpoint>, tree: Arc<dyn Tree>, book: &Book, has_core: bool) -> Self {
        let leaving = endpoints.iter().map(|_| Leaving::new()).collect();
        let tally = book.begin(Over::Udp, tree.faults().len());
        Self {
            endpoints,
            tree,
            tally,
            census: Census::new(),
            counts: Counts::default(),
            waiting: Waiting::new(WAITING, now_ns()),
            leaving,
            reply: Vec::with_capacity(1 << 16),
            has_core,
            offset: ClockOffset::read(),
        }
    }

    /// Serves until it is stopped. Returns the counts of queries, and gives all others to the book.
    pub(super) fn serve(mut self, book: &Book, stop: &mut StopFlag) -> io::Result<Counts> {
        // By default a sleep may end 50 µs late.
        let _ = clock::set_timer_slack_ns(1);
        let mut batch = RecvBatch::new(MESSAGES, QUERY_BYTES + 1);
        let mut set = PollSet::new(self.endpoints.iter().map(|endpoint| &*endpoint.receiver));
        stop.report_ready()?;
        while !stop.is_set() {
            self.release();
            let mut is_idle = true;
            for number in 0..self.endpoints.len() {
                let received = batch.recv(&self.endpoints[number].receiver, Wait::No)?;
                if received == 0 {
                    continue;
                }
                is_idle = false;
                self.counts.received += received as u64;
                let now_ns = now_ns();
                self.offset.refresh(now_ns);
                for index in 0..received {
                    if let Err(cause) = self.answer(number, &batch.message(index), now_ns) {
                        self.counts.drop(cause);
                    }
                }
                self.flush(number);
            }
            self.tally.note(&self.counts, self.waiting.len());
            if is_idle {
                self.wait(&mut set)?;
            }
        }
        self.counts.drop_many(Cause::Stopped, self.waiting.len() as u64);
        self.tally.note(&self.counts, 0);
        book.end(self.census);
        Ok(self.counts)
    }

    /// Answers one query: at once, or later. Returns the reason if there is no answer.
    fn answer(&mut self, endpoint: usize, query: &Received<'_>, now_ns: u64) -> Result<(), Cause> {
        let bytes = query.bytes;
        if bytes.len() < HEADER_BYTES {
            return Err(Cause::QueryTooShort);
        }
        if bytes.len() > QUERY_BYTES {
            return Err(Cause::QueryTooLong);
        }
        if bytes[2] & QR != 0 {
            return Err(Cause::IsResponse);
        }
        if query.from.port() == 0 {
            return Err(Cause::PortZero);
        }
        let from = query.to.ok_or(Cause::NoAddress)?;
        self.reply.clear();
        let answer = self.tree.answer(from.ip, bytes, false, &mut self.reply);
        self.tally.add(&answer);
        self.census.add(from.ip, bytes);
        if self.reply.is_empty() {
            return Err(Cause::Withheld);
        }
        let receiver = Receiver { endpoint, to: query.from, from };
        if answer.delay_ns == 0 {
            self.leave(receiver);
            return Ok(());
        }
        if self.offset.is_odd(query.arrived_ns, now_ns) {
            self.offset = ClockOffset::read();
        }
        let arrived_ns = self.offset.arrived_ns(query.arrived_ns, now_ns);
        let due_ns = arrived_ns.saturating_add(answer.delay_ns);
        if self.waiting.hold(receiver, &self.reply, due_ns) { Ok(()) } else { Err(Cause::OverloadNewest) }
    }

    /// Lets the reply leave with the next batch.
    fn leave(&mut self, Receiver { endpoint, to, from }: Receiver) {
        let Self { leaving, reply, endpoints, counts, census, .. } = self;
        let counted = (counts, &mut census.lateness);
        leaving[endpoint].add(&endpoints[endpoint], counted, (&to, &from), (reply, None));
    }

    /// Sends the answers that are due.
    fn release(&mut self) {
        let now_ns = now_ns();
        let Self { waiting, leaving, endpoints, counts, census, .. } = self;
        let mut is_any = false;
        waiting.release(now_ns, |Receiver { endpoint, to, from }, reply, due_ns| {
            is_any = true;
            let counted = (&mut *counts, &mut census.lateness);
            leaving[endpoint].add(&endpoints[endpoint], counted, (&to, &from), (reply, Some(due_ns)));
        });
        if is_any {
            (0..self.endpoints.len()).for_each(|endpoint| self.flush(endpoint));
        }
    }

    fn flush(&mut self, endpoint: usize) {
        let Self { leaving, endpoints, counts, census, .. } = self;
        leaving[endpoint].flush(&endpoints[endpoint], (counts, &mut census.lateness));
    }

    /// Waits for a query, or until the next answer is due.
    fn wait(&self, set: &mut PollSet) -> io::Result<()> {
        let Some(next_ns) = self.waiting.next_ns() else { return set.wait(FOREVER_NS).map(drop) };
        let left_ns = next_ns.saturating_sub(now_ns());
        let awake_ns = if self.has_core { AWAKE_NS } else { 0 };
        if left_ns <= awake_ns {
            std::hint::spin_loop();
            return Ok(());
        }
        set.wait(left_ns - awake_ns).map(drop)
    }
}

/// Answers of an endpoint that leave with the next call.
struct Leaving {
    batch: SendBatch,
    /// For each answer, when it was due; `None` for answers without a delay.
    due_ns: Vec<Option<u64>>,
}

impl Leaving {
    fn new() -> Self {
        Self { batch: SendBatch::new(MESSAGES, SENT_BYTES), due_ns: Vec::with_capacity(MESSAGES) }
    }

    /// Adds an answer, with the time when it was due. If there is no room, the answers that are here leave first.
    fn add(
        &mut self,
        endpoint: &Endpoint,
        counted: (&mut Counts, &mut Lateness),
        (to, from): (&Address, &LocalAddress),
        (reply, due_ns): (&[u8], Option<u64>),
    ) {
        if !self.batch.room(reply.len()) {
            self.flush(endpoint, counted);
        }
        self.batch.add_from(to, Some(from), reply.len(), None).copy_from_slice(reply);
        self.due_ns.push(due_ns);
    }

    /// Sends all answers. Each call has a time of its own, since a burst takes many calls.
    fn flush(&mut self, endpoint: &Endpoint, (counts, lateness): (&mut Counts, &mut Lateness)) {
        let mut first = 0;
        while first < self.batch.messages() {
            let left_ns = now_ns();
            match self.batch.send(&endpoint.sender, first) {
                Ok(sent) => {
                    counts.answered += sent as u64;
                    for due_ns in self.due_ns[first..first + sent].iter().flatten() {
                        lateness.add(left_ns.saturating_sub(*due_ns));
                    }
                    first += sent;
                }
                Err(error) => {
                    counts.refused(&error, 1);
                    first += 1;
                }
            }
        }
        self.batch.clear();
        self.due_ns.clear();
    }
}

/// The difference between the clock of the kernel's stamps and the monotonic clock.
struct ClockOffset {
    offset_ns: i64,
    read_ns: u64,
}

impl ClockOffset {
    fn read() -> Self {
        Self { offset_ns: clock::realtime_offset_ns(), read_ns: now_ns() }
    }

    fn refresh(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.read_ns) > OFFSET_NS {
            *self = Self::read();
        }
    }

    /// Whether a datagram with this stamp seems older than usual.
    fn is_odd(&self, stamp_ns: Option<u64>, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.arrived_ns(stamp_ns, now_ns)) > ODD_NS
    }

    /// When a datagram with this stamp arrived, by the monotonic clock.
    fn arrived_ns(&self, stamp_ns: Option<u64>, now_ns: u64) -> u64 {
        let Some(stamp_ns) = stamp_ns else { return now_ns };
        let arrived_ns = stamp_ns.saturating_add_signed(self.offset_ns.saturating_neg());
        arrived_ns.clamp(now_ns.saturating_sub(OLDEST_NS), now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_taken_for_a_moment_shortly_before_now() {
        let offset = ClockOffset { offset_ns: 1_000, read_ns: 0 };
        let now_ns = 50_000_000_000;
        assert_eq!(offset.arrived_ns(Some(49_999_001_000), now_ns), 49_999_000_000);
        assert_eq!(offset.arrived_ns(None, now_ns), now_ns);
        for (stamp_ns, arrived_ns) in [(0, now_ns - OLDEST_NS), (u64::MAX, now_ns)] {
            assert_eq!(offset.arrived_ns(Some(stamp_ns), now_ns), arrived_ns, "the clock was set");
        }
        let behind = ClockOffset { offset_ns: -1_000, read_ns: 0 };
        assert_eq!(behind.arrived_ns(Some(49_999_999_000 - 1_000), now_ns), 49_999_999_000);
        for (stamp_ns, is_odd) in [(49_900_001_000, false), (49_900_000_999, true), (u64::MAX, false)] {
            assert_eq!(offset.is_odd(Some(stamp_ns), now_ns), is_odd, "{stamp_ns}");
        }
        assert!(!offset.is_odd(None, now_ns));
    }
}
