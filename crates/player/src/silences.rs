//! Times without a correct reply. A thread keeps a bit for each 131 µs in which queries left, and a bit for each in
//! which correct replies in time came. The bits of all threads together show for how long queries waited and none was
//! answered.

use std::time::Duration;

use kqps_observation::Silence;

use crate::plan::{LoadPlan, Plan};

/// The logarithm to the base 2 of the unit of time at first, nanoseconds: 131 µs.
const UNIT_BITS: u32 = 17;

/// The most units. 18 minutes have so many of the first length, and two bits for each take 2 MiB. A longer load has
/// longer units: 524 µs for an hour, 4 ms for eight hours.
const UNITS_MOST: u64 = 1 << 23;

/// A load that ends by its time may have replies and standstills for so long after it before its units become longer.
const AFTER_END: Duration = Duration::from_mins(1);

/// The shortest silence that is recorded, nanoseconds.
const LEAST_NS: u64 = 10_000_000;

/// A silence lasts at least so many times as long as two sent queries are apart on average.
const DISTANCES: u64 = 10;

/// In an open loop queries leave in so many units of a silence at least.
const SENDS: u64 = 10;

/// The most silences that are recorded.
const KEPT: usize = 20;

/// Bounds of the silences that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilenceRule {
    /// A query waits until so long after it left, nanoseconds.
    timeout_ns: u64,
    least_ns: u64,
    least_sends: u64,
    /// Whether replies make room for queries.
    is_closed: bool,
}

impl SilenceRule {
    /// The rule for a plan that sent this many queries in this time.
    pub fn new(plan: &Plan, sending_ns: u64, sent: u64) -> Self {
        let (least_sends, is_closed) = match plan.load {
            LoadPlan::Open { window, .. } => (window.map_or(SENDS, |window| window.min(SENDS)), false),
            LoadPlan::Closed { .. } | LoadPlan::Limited { .. } => (1, true),
        };
        Self {
            timeout_ns: plan.timeout.as_nanos() as u64,
            least_ns: (sending_ns / sent.max(1)).saturating_mul(DISTANCES).max(LEAST_NS),
            least_sends,
            is_closed,
        }
    }
}

/// The times at which queries left and were answered.
#[derive(Clone, Debug)]
pub struct CallTimes {
    /// The logarithm of the present unit.
    unit_bits: u32,
    left: Bits,
    answered: Bits,
}

/// Queries that wait without a reply, by units.
struct Wait {
    since: u64,
    last_send: u64,
    sends: u64,
}

impl CallTimes {
    /// No times yet. `lasts` is how long the load is, if that is known. The units then never become longer meanwhile.
    pub fn new(lasts: Option<Duration>) -> Self {
        let lasts_ns = lasts.map_or(0, |lasts| lasts.saturating_add(AFTER_END).as_nanos() as u64);
        let mut unit_bits = UNIT_BITS;
        while lasts_ns >> unit_bits >= UNITS_MOST {
            unit_bits += 1;
        }
        Self { unit_bits, left: Bits::default(), answered: Bits::default() }
    }

    /// Notes that queries left at this time.
    #[inline]
    pub fn left(&mut self, at_ns: u64) {
        let unit = self.unit(at_ns);
        self.left.set(unit);
    }

    /// Notes that a correct reply came in time, at this time.
    #[inline]
    pub fn answered(&mut self, at_ns: u64) {
        let unit = self.unit(at_ns);
        self.answered.set(unit);
    }

    #[inline]
    fn unit(&mut self, at_ns: u64) -> usize {
        if at_ns >> self.unit_bits >= UNITS_MOST {
            self.widen_until(at_ns);
        }
        (at_ns >> self.unit_bits) as usize
    }

    #[cold]
    fn widen_until(&mut self, at_ns: u64) {
        while at_ns >> self.unit_bits >= UNITS_MOST {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.unit_bits += 1;
        self.left = self.left.halved();
        self.answered = self.answered.halved();
    }

    /// Adds the times of another thread.
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        while other.unit_bits < self.unit_bits {
            other.widen();
        }
        while self.unit_bits < other.unit_bits {
            self.widen();
        }
        self.left.add(&other.left);
        self.answered.add(&other.answered);
    }

    /// The 20 longest silences, the longest first. A silence begins when a query leaves after the last correct reply. It
    /// ends with the next correct reply, when no query waits any more, or with the last query that left.
    pub fn silences(&self, rule: &SilenceRule) -> Vec<Silence> {
        let Some(last) = self.left.last() else { return Vec::new() };
        let waits = (rule.timeout_ns >> self.unit_bits).max(1);
        let mut found = Vec::new();
        let mut open: Option<Wait> = None;
        let answered = self.answered.words().chain(std::iter::repeat(0));
        for (number, (left, answered)) in (0..).zip(self.left.words().zip(answered)) {
            let mut either = left | answered;
            while either != 0 {
                let bit = either.trailing_zeros();
                either &= either - 1;
                let unit = number * 64 + u64::from(bit);
                let has = |word: u64| (word >> bit) & 1 == 1;
                if let Some(wait) = open.take_if(|wait| unit > wait.last_send + waits) {
                    let end = (wait.last_send + waits).min(last);
                    found.extend(self.silence(&wait, end, rule));
                }
                if has(answered)
                    && let Some(wait) = open.take()
                {
                    found.extend(self.silence(&wait, unit.min(last), rule));
                }
                // In a closed loop the reply itself makes room for a query. In an open loop it is most likely the reply
                // to a query that left in the same unit.
                if has(left) && (rule.is_closed || !has(answered)) {
                    let wait = open.get_or_insert(Wait { since: unit, last_send: unit, sends: 0 });
                    wait.last_send = unit;
                    wait.sends += 1;
                }
            }
        }
        if let Some(wait) = open {
            found.extend(self.silence(&wait, (wait.last_send + waits).min(last), rule));
        }
        found.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        found.truncate(KEPT);
        found
    }

    /// The silence of queries that waited until this unit, if it counts.
    fn silence(&self, wait: &Wait, end: u64, rule: &SilenceRule) -> Option<Silence> {
        let lasted_ns = end.saturating_sub(wait.since) << self.unit_bits;
        let counts = lasted_ns >= rule.least_ns && wait.sends >= rule.least_sends;
        counts.then_some(Silence {
            at_s: (wait.since << self.unit_bits) as f64 / 1e9,
            seconds: lasted_ns as f64 / 1e9,
        })
    }
}

/// Words of a page of bits: 4 KiB. Memory grows by pages, so that nothing is ever copied.
const PAGE_WORDS: usize = 512;

#[derive(Clone, Debug, Default)]
struct Bits {
    pages: Vec<Box<[u64; PAGE_WORDS]>>,
}

impl Bits {
    #[inline]
    fn set(&mut self, bit: usize) {
        *self.word(bit / 64) |= 1 << (bit % 64);
    }

    #[inline]
    fn word(&mut self, number: usize) -> &mut u64 {
        let page = number / PAGE_WORDS;
        if page >= self.pages.len() {
            self.make_room(page);
        }
        &mut self.pages[page][number % PAGE_WORDS]
    }

    #[cold]
    fn make_room(&mut self, page: usize) {
        self.pages.resize_with(page + 1, || Box::new([0; PAGE_WORDS]));
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().flat_map(|page| page.iter().copied())
    }

    /// The number of the last bit that is set.
    fn last(&self) -> Option<u64> {
        let (number, word) = (0..).zip(self.words()).filter(|(_, word)| *word != 0).last()?;
        Some(number * 64 + 63 - u64::from(word.leading_zeros()))
    }

    fn add(&mut self, other: &Self) {
        for (number, word) in other.words().enumerate() {
            *self.word(number) |= word;
        }
    }

    /// Merges pairs of bits.
    fn halved(&self) -> Self {
        let mut halved = Self::default();
        for (number, word) in self.words().enumerate() {
            *halved.word(number / 2) |= joined(word) << (32 * (number % 2));
        }
        halved
    }
}

/// Joins each two bits of a word. The result has 32 bits.
fn joined(word: u64) -> u64 {
    let pairs = (word | (word >> 1)) & 0x5555_5555_5555_5555;
    let pairs = (pairs | (pairs >> 1)) & 0x3333_3333_3333_3333;
    let pairs = (pairs | (pairs >> 2)) & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (pairs | (pairs >> 4)) & 0x00ff_00ff_00ff_00ff;
    let pairs = (pairs | (pairs >> 8)) & 0x0000_ffff_0000_ffff;
    (pairs | (pairs >> 16)) & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    const OPEN: SilenceRule =
        SilenceRule { timeout_ns: 1_000 * MS, least_ns: 10 * MS, least_sends: 10, is_closed: false };

    /// A second of queries, so far apart, of which those due in these milliseconds are answered at their end, and all
    /// others after 50 µs.
    fn a_second(apart_us: u64, still_ms: std::ops::Range<u64>) -> CallTimes {
        let mut times = CallTimes::new(None);
        for at_us in (0..1_000_000).step_by(apart_us as usize) {
            times.left(at_us * 1000);
            let is_held = still_ms.contains(&(at_us / 1000));
            times.answered(if is_held { still_ms.end * MS } else { at_us * 1000 + 50_000 });
        }
        times
    }

    /// The silences in tenths of a millisecond: when each begins, and how long it lasts.
    fn tenths(silences: &[Silence]) -> Vec<(u64, u64)> {
        let tenth = |seconds: f64| (seconds * 1e4).round() as u64;
        silences.iter().map(|silence| (tenth(silence.at_s), tenth(silence.seconds))).collect()
    }

    /// Whether silences begin and last as expected, in milliseconds, to one.
    fn are_near(silences: &[Silence], expected: &[(u64, u64)]) -> bool {
        let near = |(found, wanted): ((u64, u64), &(u64, u64))| {
            found.0.abs_diff(wanted.0 * 10) <= 10 && found.1.abs_diff(wanted.1 * 10) <= 10
        };
        silences.len() == expected.len() && tenths(silences).into_iter().zip(expected).all(near)
    }

    #[test]
    fn a_server_that_stands_still_is_silent_for_as_long() {
        let silences = a_second(200, 400..700).silences(&OPEN);
        assert!(are_near(&silences, &[(400, 300)]), "{silences:?}");
        assert!(a_second(200, 0..0).silences(&OPEN).is_empty());
        // Shorter than 10 ms, or with fewer than ten queries.
        assert!(a_second(200, 400..409).silences(&OPEN).is_empty());
        assert!(a_second(20_000, 400..560).silences(&OPEN).is_empty());
        assert_eq!(a_second(20_000, 400..620).silences(&OPEN).len(), 1);
    }

    #[test]
    fn silences_at_the_start_and_at_the_end_count_while_queries_leave() {
        let silences = a_second(200, 0..100).silences(&OPEN);
        assert!(are_near(&silences, &[(0, 100)]), "{silences:?}");
        // The server goes on 3 s after the load has ended.
        let silences = a_second(200, 900..4_000).silences(&OPEN);
        assert!(are_near(&silences, &[(900, 100)]), "{silences:?}");
        let mut dead = CallTimes::new(None);
        (0..1_000).for_each(|ms| dead.left(ms * MS));
        assert!(are_near(&dead.silences(&OPEN), &[(0, 999)]), "{:?}", dead.silences(&OPEN));
        assert!(CallTimes::new(None).silences(&OPEN).is_empty());
    }

    #[test]
    fn a_pause_of_the_load_is_no_silence() {
        let mut times = CallTimes::new(None);
        // All are answered, with a pause of 5 s.
        for second in [0, 6] {
            for ms in 0..1_000 {
                times.left((second * 1_000 + ms) * MS);
                times.answered((second * 1_000 + ms) * MS + 200_000);
            }
        }
        assert!(times.silences(&OPEN).is_empty());
        // The last 20 queries before the pause are lost: they wait for a second.
        let mut times = CallTimes::new(None);
        for second in [0, 6] {
            for ms in 0..1_000 {
                times.left((second * 1_000 + ms) * MS);
                if second == 6 || ms < 980 {
                    times.answered((second * 1_000 + ms) * MS + 200_000);
                }
            }
        }
        let silences = times.silences(&OPEN);
        assert!(are_near(&silences, &[(980, 1_019)]), "{silences:?}");
    }

    #[test]
    fn a_reply_to_any_thread_ends_the_silence_of_all() {
        let mut one = a_second(200, 300..600);
        let other = a_second(200, 500..900);
        one.add(&other);
        let silences = one.silences(&OPEN);
        assert!(are_near(&silences, &[(500, 100)]), "{silences:?}");
    }

    #[test]
    fn a_closed_loop_sends_nothing_while_it_waits() {
        let closed = SilenceRule { least_sends: 1, is_closed: true, ..OPEN };
        let mut times = CallTimes::new(None);
        for step in 0..2_000 {
            let at_ns = if step < 1_000 { step * MS / 10 } else { 400 * MS + step * MS / 10 };
            times.left(at_ns);
            times.answered(at_ns);
        }
        let silences = times.silences(&closed);
        assert!(are_near(&silences, &[(100, 400)]), "{silences:?}");
    }

    #[test]
    fn a_long_load_has_longer_units_and_keeps_its_silences() {
        let mut times = a_second(200, 400..700);
        times.left(7_200_000 * MS);
        assert!(times.left.pages.len() as u64 * 64 * PAGE_WORDS as u64 <= UNITS_MOST);
        let silences = times.silences(&OPEN);
        let [Silence { at_s, seconds }] = silences[..] else { panic!("{silences:?}") };
        assert!((at_s - 0.4).abs() < 0.002 && (seconds - 0.3).abs() < 0.003, "{silences:?}");
        // A load whose length is known begins with these units.
        let known = CallTimes::new(Some(Duration::from_hours(2)));
        assert_eq!(known.unit_bits, times.unit_bits);
        let mut both = a_second(200, 400..700);
        both.add(&times);
        assert_eq!(both.unit_bits, times.unit_bits);
    }

    #[test]
    fn the_longest_silences_are_kept() {
        let mut times = CallTimes::new(None);
        // 30 seconds, each with a standstill of 20, 21, 22 … ms.
        for second in 0..30 {
            for ms in 0..1_000 {
                let at_ns = (second * 1_000 + ms) * MS;
                times.left(at_ns);
                let still = 500..520 + second;
                times.answered(if still.contains(&ms) { (second * 1_000 + still.end) * MS } else { at_ns });
            }
        }
        let silences = times.silences(&OPEN);
        assert_eq!((silences.len(), silences[0].at_s as u64), (20, 29));
        assert!((silences[0].seconds - 0.049).abs() < 0.001, "{silences:?}");
    }

    #[test]
    fn bits_are_joined_in_pairs() {
        assert_eq!((joined(0), joined(u64::MAX), joined(1 << 63)), (0, 0xffff_ffff, 1 << 31));
        assert_eq!(joined(0b11_00_01_10), 0b1011);
    }
}
