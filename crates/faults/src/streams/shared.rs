//! State that all connections of the server share, one at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use kqps_kernel::clock;

use super::ServerSettings;
use super::counts::Counts;
use super::outbox::SentReply;
use crate::relay::Witness;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 16;

/// The longest sleep, so that the loop notices a stop, nanoseconds.
pub(super) const SLEEP_NS: u64 = 10_000_000;

/// State that all connections share.
pub(super) struct Shared {
    pub(super) settings: ServerSettings,
    pub(super) random: Rng,
    pub(super) counts: Counts,
    pub(super) buffer: Box<[u8]>,
    /// When replies left, if the settings ask for that.
    pub(super) witness: Witness,
    /// The place of the connection whose turn it is.
    pub(super) turn_of: usize,
    /// When a connection has something due, and its place.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    splits: usize,
}

impl Shared {
    pub(super) fn new(settings: ServerSettings) -> Self {
        Self {
            random: Rng::with_seed(settings.seed),
            settings,
            counts: Counts::default(),
            buffer: vec![0; READ_BYTES].into(),
            witness: Witness::default(),
            turn_of: 0,
            timers: BinaryHeap::new(),
            splits: 0,
        }
    }

    /// Gives the connection whose turn it is another turn at this time.
    pub(super) fn wake_at(&mut self, due_ns: u64) {
        self.timers.push(Reverse((due_ns, self.turn_of)));
    }

    /// When the next connection has something due.
    fn next_due_ns(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// When the right reply to a query that came at `now_ns` may leave; `None` if at once.
    pub(super) fn reply_due_ns(&mut self, query: &[u8], now_ns: u64) -> Option<u64> {
        let delay_ns = self.settings.delay_us * 1000;
        let standstill = self.settings.standstill.as_mut();
        let held_ns = standstill.and_then(|standstill| standstill.holds_until_ns(query, now_ns));
        held_ns.max((delay_ns > 0).then_some(now_ns + delay_ns))
    }

    /// How long the loop may sleep now.
    pub(super) fn sleep_ns(&self) -> u64 {
        let due_ns = self.next_due_ns().filter(|_| !self.settings.spin);
        let most_ns = if self.settings.spin { 0 } else { SLEEP_NS };
        due_ns.map_or(most_ns, |due_ns| due_ns.saturating_sub(clock::now_ns()).min(most_ns))
    }

    /// Begins the time in which connections are refused, if its queries have come and `are_open` says that so many
    /// connections are. Returns when that time ends.
    pub(super) fn refuses_until_ns(&mut self, now_ns: u64, are_open: impl Fn(usize) -> bool) -> Option<u64> {
        let queries = self.counts.queries;
        let refusal =
            self.settings.refusal.take_if(|of| queries >= of.after_queries && are_open(of.connections))?;
        Some(now_ns + refusal.lasts.as_nanos() as u64)
    }

    /// Takes the place of a connection that has something due by now.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<usize> {
        self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.timers.pop().map(|Reverse((_, place))| place)
    }

    /// The number of the next reply that leaves in two pieces.
    pub(super) fn next_split(&mut self) -> usize {
        self.splits += 1;
        self.splits - 1
    }
}

/// Notes when a reply left.
pub(super) fn note(witness: &mut Witness, left: &SentReply) {
    let query = u32::try_from(left.query).expect("a server takes fewer than 2³² queries");
    witness.handed(&[query], left.before_ns, left.after_ns);
}
