//! The counts of one thread: plain numbers without a lock. Every thread has its own, and they are added up at the end.

use std::collections::BTreeMap;

use kqps_dataset::{Dataset, Expected, Position};
use kqps_message::rcode::{NOERROR, NXDOMAIN};
use kqps_observation::{Accounts, Histogram};

use crate::differences::Differences;
use crate::held_back::HeldBack;
use crate::loss::Loss;
use crate::outstanding::OutstandingTimes;
use crate::replies::Replies;
use crate::reply::Cause;
use crate::timeline::Timeline;

const BIN_NS: u64 = 100_000_000;

const BINS_IN_1S: usize = 10;

/// The counts of one thread.
#[derive(Debug, Default)]
pub struct Tally {
    /// The bucket of every query. `lost` grows as time passes, so the identities hold only at the end.
    pub accounts: Accounts,
    /// Wrong replies by [`Cause::number`].
    pub wrong_causes: [u64; Cause::NAMES.len()],
    /// Replies in time with the right ID and question, by rcode, below 16.
    pub rcodes: [u64; 16],
    /// Replies in time with the right ID and question, by rcode from 16 on, for which an OPT record is needed.
    pub extended_rcodes: BTreeMap<u16, u64>,
    /// Replies in time with an unexpected rcode: by expected, then received rcode, both below 16.
    pub wrong_rcodes: [[u64; 16]; 16],
    /// Replies in time with an unexpected rcode, if one of the two rcodes is 16 or more: (expected, received) → count.
    pub extended_wrong_rcodes: BTreeMap<(u16, u16), u64>,
    /// Replies whose status by HTTP is not 2xx, by status.
    pub wrong_statuses: BTreeMap<u16, u64>,
    /// Lost queries by [`Loss::number`]; together they are `accounts.lost`.
    pub lost_by: [u64; Loss::NAMES.len()],
    /// Lost queries by the expected reply.
    pub lost_expected: BTreeMap<Expected, u64>,
    /// The replies that the subject held back.
    pub held_back: HeldBack,
    /// How the replies differ from captured ones.
    pub differences: Differences,
    /// How many of `accounts.unsent` were given up because no flow that they could take had room.
    pub unsent_for_ids: u64,
    /// How many of `accounts.unsent` were given up because the window of an open loop was full.
    pub unsent_for_window: u64,
    /// How many of `accounts.lost` could still have been answered in time when the trial ended.
    pub cut_short: u64,
    /// Messages that the kernel took. With segmentation one message holds several queries.
    pub messages_sent: u64,
    /// Messages that were read. One message may hold several replies.
    pub messages_received: u64,
    /// How many of `accounts.unsolicited` were wrong replies after the timeout.
    pub wrong_late: u64,
    /// How many of `accounts.unsolicited` were replies to queries that had been lost by time.
    pub after_loss: u64,
    /// For how long queries were outstanding.
    pub outstanding: OutstandingTimes,
    /// The replies in time, right or wrong.
    pub replies: Replies,
    /// How many of those, and of the late ones, had a time of arrival that cannot be.
    pub misdated: u64,
    /// The kernel's error number → queries that it refused.
    pub send_errors: BTreeMap<i32, u64>,
    /// DNS bytes of sent queries.
    pub request_bytes: u64,
    /// DNS bytes of correct replies.
    pub response_bytes: u64,
    /// Time from intended send to arrival, of correct and late replies. A lost query counts with the timeout.
    pub latency: Histogram,
    /// The time at which the kernel took a query, minus the time at which it was due.
    pub lag: Histogram,
    /// Time between successive sends.
    pub gap: Histogram,
    /// The times at which something went wrong.
    pub timeline: Timeline,
    /// Queries sent, by 100 ms.
    pub sent_per_100ms: Vec<u64>,
    /// Correct replies, by 100 ms of arrival.
    pub correct_per_100ms: Vec<u64>,
    last_send_ns: Option<u64>,
}

impl Tally {
    /// Counts of zero, with room for the queries of a dataset.
    pub fn new(dataset: &Dataset) -> Self {
        Self { held_back: HeldBack::new(dataset), differences: Differences::new(dataset), ..Self::default() }
    }

    /// Counts `count` queries that the kernel took at `now_ns`.
    #[inline]
    pub fn sent(&mut self, now_ns: u64, count: u64) {
        self.accounts.sent += count;
        self.timeline.left(now_ns);
        add(&mut self.sent_per_100ms, now_ns, count);
    }

    /// Records that a send began at `now_ns`.
    #[inline]
    pub fn send_began(&mut self, now_ns: u64) {
        if let Some(last_ns) = self.last_send_ns {
            self.gap.record_us((now_ns - last_ns) / 1000);
        }
        self.last_send_ns = Some(now_ns);
    }

    /// Counts `count` queries that the kernel refused with `errno`.
    pub fn refused(&mut self, errno: i32, count: u64) {
        self.accounts.send_failed += count;
        *self.send_errors.entry(errno).or_default() += count;
    }

    /// Counts a correct reply of `bytes` bytes that arrived at `at_ns`.
    #[inline]
    pub fn correct(&mut self, at_ns: u64, latency_ns: u64, rcode: u16, truncated: bool, bytes: usize) {
        self.accounts.truncated += u64::from(truncated);
        self.rcode(rcode);
        self.response_bytes += bytes as u64;
        self.in_time(at_ns, latency_ns);
        if !matches!(rcode, NOERROR | NXDOMAIN) {
            self.timeline.failed(at_ns.saturating_sub(latency_ns));
        }
    }

    /// Counts a correct reply at `at_ns`, or a connection that was made then.
    #[inline]
    pub fn in_time(&mut self, at_ns: u64, latency_ns: u64) {
        self.accounts.correct += 1;
        self.latency.record_us(latency_ns / 1000);
        self.timeline.correct(at_ns.saturating_sub(latency_ns), latency_ns);
        add(&mut self.correct_per_100ms, at_ns, 1);
    }

    /// Counts a correct reply, or a connection that was made, after the timeout.
    pub fn late(&mut self, latency_ns: u64) {
        self.accounts.late += 1;
        self.latency.record_us(latency_ns / 1000);
    }

    /// Counts a wrong reply that came in time.
    #[inline]
    pub fn wrong(&mut self, cause: Cause) {
        self.accounts.wrong += 1;
        self.wrong_causes[cause.number()] += 1;
        match cause {
            Cause::Rcode { expected, got } => self.wrong_rcode(expected, got),
            Cause::Answer { rcode } | Cause::Ad { rcode } => self.rcode(rcode),
            Cause::Status(status) => *self.wrong_statuses.entry(status).or_default() += 1,
            Cause::NotAResponse
            | Cause::Question
            | Cause::Short
            | Cause::Id
            | Cause::ContentType
            | Cause::TooLong => {}
        }
    }

    fn wrong_rcode(&mut self, expected: u16, got: u16) {
        self.rcode(got);
        let row = self.wrong_rcodes.get_mut(usize::from(expected));
        match row.and_then(|row| row.get_mut(usize::from(got))) {
            Some(count) => *count += 1,
            None => *self.extended_wrong_rcodes.entry((expected, got)).or_default() += 1,
        }
    }

    #[inline]
    fn rcode(&mut self, rcode: u16) {
        match self.rcodes.get_mut(usize::from(rcode)) {
            Some(count) => *count += 1,
            None => *self.extended_rcodes.entry(rcode).or_default() += 1,
        }
    }

    /// Every pair of an expected and a received rcode, with its count; most counts are 0.
    pub fn wrong_rcodes(&self) -> impl Iterator<Item = ((u16, u16), u64)> {
        let rows = (0..).zip(&self.wrong_rcodes);
        let pairs = rows
            .flat_map(|(expected, row)| (0..).zip(row).map(move |(got, count)| ((expected, got), *count)));
        pairs.chain(self.extended_wrong_rcodes.iter().map(|(pair, count)| (*pair, *count)))
    }

    /// Counts `count` lost queries, as censored samples at the timeout.
    pub fn lost(&mut self, loss: Loss, timeout_ns: u64, count: u64) {
        self.accounts.lost += count;
        self.lost_by[loss.number()] += count;
        if count > 0 {
            self.latency.record_many_us(timeout_ns / 1000, count);
        }
    }

    /// Counts one of the lost queries, the one at `position`, by its expected reply.
    pub fn lost_one(&mut self, position: Position, expected: Expected) {
        *self.lost_expected.entry(expected).or_default() += 1;
        if self.differences.is_on() {
            self.differences.lost(position, expected);
        }
    }

    /// Adds another thread's counts.
    pub fn add(&mut self, other: &Self) {
        self.accounts.add(&other.accounts);
        add_each(&mut self.wrong_causes, &other.wrong_causes);
        add_each(&mut self.rcodes, &other.rcodes);
        for (ours, theirs) in self.wrong_rcodes.iter_mut().zip(&other.wrong_rcodes) {
            add_each(ours, theirs);
        }
        for (pair, count) in &other.extended_wrong_rcodes {
            *self.extended_wrong_rcodes.entry(*pair).or_default() += count;
        }
        for (status, count) in &other.wrong_statuses {
            *self.wrong_statuses.entry(*status).or_default() += count;
        }
        for (expected, count) in &other.lost_expected {
            *self.lost_expected.entry(*expected).or_default() += count;
        }
        add_each(&mut self.lost_by, &other.lost_by);
        self.held_back.add(&other.held_back);
        self.differences.add(&other.differences);
        self.unsent_for_ids += other.unsent_for_ids;
        self.unsent_for_window += other.unsent_for_window;
        self.cut_short += other.cut_short;
        self.messages_sent += other.messages_sent;
        self.messages_received += other.messages_received;
        self.wrong_late += other.wrong_late;
        self.after_loss += other.after_loss;
        self.outstanding.add_all(&other.outstanding);
        self.replies.add_all(&other.replies);
        self.misdated += other.misdated;
        for (rcode, count) in &other.extended_rcodes {
            *self.extended_rcodes.entry(*rcode).or_default() += count;
        }
        for (errno, count) in &other.send_errors {
            *self.send_errors.entry(*errno).or_default() += count;
        }
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.latency.add(&other.latency);
        self.lag.add(&other.lag);
        self.gap.add(&other.gap);
        self.timeline.add(&other.timeline);
        for (ours, theirs) in [
            (&mut self.sent_per_100ms, &other.sent_per_100ms),
            (&mut self.correct_per_100ms, &other.correct_per_100ms),
        ] {
            ours.resize(ours.len().max(theirs.len()), 0);
            add_each(ours, theirs);
        }
    }
}

/// Sums 100 ms bins to seconds.
pub fn per_second(per_100ms: &[u64]) -> Vec<u64> {
    per_100ms.chunks(BINS_IN_1S).map(|second| second.iter().sum()).collect()
}

/// Adds to the bin of `at_ns`, and makes room for it. The bin is near the end, since `at_ns` is the time of a send or
/// of a reply within the timeout.
#[inline]
fn add(bins: &mut Vec<u64>, at_ns: u64, count: u64) {
    let index = (at_ns / BIN_NS) as usize;
    if index >= bins.len() {
        bins.resize(index + 1, 0);
    }
    bins[index] += count;
}

fn add_each(ours: &mut [u64], theirs: &[u64]) {
    for (our, their) in ours.iter_mut().zip(theirs) {
        *our += their;
    }
}
