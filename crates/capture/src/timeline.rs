//! The times of a capture, without the steps of the clock that stamped it.
//!
//! Packets need not be in the order of time, so a stamp that is near the latest one stays as it is. Of one that is far
//! away the following ones decide, for which packets are held:
//!
//! - Most are near the earlier ones again: those far away are strays. They get the time of the packet before them.
//! - They stay behind: the clock was set back, or another capture follows. From there on times go on from the latest
//!   one, with the gaps of the stamps.
//! - They stay ahead: nothing was sent for so long. A clock that was set forward looks the same.

use std::collections::VecDeque;

use crate::counts::Counts;

/// How far from the latest stamp packets may be out of order, ns.
const NEAR_NS: u64 = 5_000_000_000;

/// As many stamps decide.
const ROW: usize = 8;

/// For stamps far away to stay, there must be as many for each that is near again, as two interfaces with different
/// clocks have them. At most 35 packets are held.
const FAR_FOR_EACH_NEAR: usize = 4;

pub(crate) struct Timeline<T> {
    /// The latest stamp, without strays; `None` before the first.
    newest_ns: Option<u64>,
    /// The time that is added to stamps, as the clock was set back by so much.
    offset_ns: u64,
    held: Vec<(u64, T)>,
    /// The latest stamp before those that are held.
    before_ns: u64,
    /// How many of those that are held are far from the stamps before them, and how many of these are before those.
    far: usize,
    back: usize,
    /// Packets that were held and have their times.
    ready: VecDeque<(u64, T)>,
}

impl<T> Timeline<T> {
    pub(crate) fn new() -> Self {
        Self {
            newest_ns: None,
            offset_ns: 0,
            held: Vec::new(),
            before_ns: 0,
            far: 0,
            back: 0,
            ready: VecDeque::new(),
        }
    }

    /// The time of a packet with this stamp. `None` if later stamps decide it; the packet must be passed to
    /// [`Self::hold`] then.
    #[inline]
    pub(crate) fn time_of(&mut self, stamp_ns: u64) -> Option<u64> {
        let newest_ns = *self.newest_ns.get_or_insert(stamp_ns);
        if !self.held.is_empty() || stamp_ns.abs_diff(newest_ns) > NEAR_NS {
            return None;
        }
        self.newest_ns = Some(newest_ns.max(stamp_ns));
        Some(stamp_ns.saturating_add(self.offset_ns))
    }

    /// Holds a packet until later ones decide its time. [`Self::next`] may return it, and others, afterwards.
    pub(crate) fn hold(&mut self, stamp_ns: u64, packet: T, counts: &mut Counts) {
        let is_ahead = self.far > 1 && self.far == self.held.len() && self.back == 0;
        if is_ahead && is_behind(stamp_ns, self.before_ns) {
            // A silence, and then a clock that was set back.
            self.decide(true, counts);
        }
        let newest_ns = *self.newest_ns.get_or_insert(stamp_ns);
        if self.held.is_empty() {
            self.before_ns = newest_ns;
        }
        if stamp_ns.abs_diff(newest_ns) <= NEAR_NS {
            self.newest_ns = Some(newest_ns.max(stamp_ns));
        } else {
            self.far += 1;
            self.back += usize::from(stamp_ns < newest_ns);
        }
        self.held.push((stamp_ns, packet));
        let near = self.held.len() - self.far;
        if near >= ROW || (self.far >= ROW && self.far >= FAR_FOR_EACH_NEAR * near) {
            self.decide(near < ROW, counts);
        }
    }

    /// Whether most of the stamps that are far away are before the others.
    fn is_back(&self) -> bool {
        self.back * 2 > self.far
    }

    /// Decides the times of all that is held, since no more packets come.
    pub(crate) fn finish(&mut self, counts: &mut Counts) {
        if self.held.is_empty() {
            return;
        }
        let near = self.held.len() - self.far;
        let is_row = self.far >= ROW && self.far >= FAR_FOR_EACH_NEAR * near;
        // Too few to show that the clock was set back are strays.
        let stays = if self.is_back() { is_row } else { self.far >= near };
        self.decide(stays, counts);
    }

    /// The next packet that was held, with its time.
    pub(crate) fn next(&mut self) -> Option<(u64, T)> {
        self.ready.pop_front()
    }

    /// Gives all that is held its times. `stays` says whether the stamps that are far away are right.
    fn decide(&mut self, stays: bool, counts: &mut Counts) {
        let is_back = stays && self.is_back();
        let mut latest_ns = self.before_ns;
        if is_back {
            let first = self.held.iter().find(|(stamp_ns, _)| is_behind(*stamp_ns, self.before_ns));
            let first_ns = first.map_or(self.before_ns, |(stamp_ns, _)| *stamp_ns);
            self.offset_ns = self.offset_ns.saturating_add(self.before_ns - first_ns);
            latest_ns = first_ns;
            counts.steps += 1;
        }
        for (stamp_ns, packet) in self.held.drain(..) {
            let is_stray = match (stays, is_back) {
                (true, true) => !is_behind(stamp_ns, self.before_ns) || is_behind(stamp_ns, latest_ns),
                (true, false) => is_behind(stamp_ns, latest_ns),
                (false, _) => stamp_ns.abs_diff(latest_ns) > NEAR_NS,
            };
            let known_ns = if is_stray { latest_ns } else { stamp_ns };
            counts.strays += u64::from(is_stray);
            latest_ns = latest_ns.max(known_ns);
            self.ready.push_back((known_ns.saturating_add(self.offset_ns), packet));
        }
        self.newest_ns = Some(latest_ns);
        (self.far, self.back) = (0, 0);
    }
}

/// Whether a stamp is too far before another one to be out of order.
fn is_behind(stamp_ns: u64, other_ns: u64) -> bool {
    stamp_ns.saturating_add(NEAR_NS) < other_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const S_NS: u64 = 1_000_000_000;

    /// The times of stamps in seconds, in seconds, in their order; and how many steps and strays there were.
    fn times(stamps_s: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64, u64) {
        let (mut timeline, mut counts, mut times) = (Timeline::new(), Counts::default(), Vec::new());
        for (number, stamp_s) in stamps_s.into_iter().enumerate() {
            match timeline.time_of(stamp_s * S_NS) {
                Some(at_ns) => times.push((at_ns / S_NS, number)),
                None => timeline.hold(stamp_s * S_NS, number, &mut counts),
            }
            times
                .extend(std::iter::from_fn(|| timeline.next()).map(|(at_ns, number)| (at_ns / S_NS, number)));
        }
        timeline.finish(&mut counts);
        times.extend(std::iter::from_fn(|| timeline.next()).map(|(at_ns, number)| (at_ns / S_NS, number)));
        assert!(times.iter().enumerate().all(|(place, (_, number))| place == *number), "{times:?}");
        (times.into_iter().map(|(time_s, _)| time_s).collect(), counts.steps, counts.strays)
    }

    #[test]
    fn what_is_near_stays_as_it_is() {
        assert_eq!(times([100, 103, 98, 104, 99]), (vec![100, 103, 98, 104, 99], 0, 0));
        assert_eq!(times([]), (vec![], 0, 0));
    }

    #[test]
    fn silence_stays_silence_however_few_packets_there_are() {
        let sparse = [0, 20, 40, 3600, 3601, 7200];
        assert_eq!(times(sparse), (sparse.to_vec(), 0, 0));
        let night: Vec<u64> = (0..10).chain(30_000..30_020).chain(60_000..60_001).collect();
        assert_eq!(times(night.clone()), (night, 0, 0));
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        let stamps = (1000..1020).chain(990..1040);
        let expected: Vec<u64> = (1000..1020).chain(1019..1069).collect();
        assert_eq!(times(stamps), (expected, 1, 0));
        // Two hours in the wrong order, with a packet every 20 s in the second one, then the next hour.
        let stamps = (7200..10_800).chain((3600..7200).step_by(20)).chain(0..3600);
        let expected = (7200..10_800).chain((10_799..14_399).step_by(20)).chain(14_379..17_979);
        assert_eq!(times(stamps), (expected.collect(), 2, 0));
    }

    #[test]
    fn strays_get_the_time_of_the_packet_before_them() {
        for far in [0, 500, 5000] {
            let stamps = (1000..1005).chain([far, far]).chain(1005..1020);
            let expected: Vec<u64> = (1000..1005).chain([1004, 1004]).chain(1005..1020).collect();
            assert_eq!(times(stamps), (expected, 0, 2), "{far}");
        }
        // As few as there are after it.
        assert_eq!(times([10, 11, 900, 12, 13]), (vec![10, 11, 11, 12, 13], 0, 1));
        assert_eq!(times([0, 20, 40, 1]), (vec![0, 20, 40, 40], 0, 1));
    }

    #[test]
    fn two_clocks_that_take_turns_do_not_drift() {
        let stamps = (1000..1200).flat_map(|second| [second, second - 100]);
        let (times, steps, strays) = times(stamps);
        assert_eq!((steps, strays), (0, 200));
        assert!(times.iter().enumerate().all(|(place, time_s)| *time_s == 1000 + place as u64 / 2));
    }

    #[test]
    fn no_stamps_hold_more_than_the_limit() {
        let (mut timeline, mut counts, mut random) = (Timeline::new(), Counts::default(), 1_u64);
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let stamp_ns = [random, random >> 20, 7, u64::MAX][(random >> 61) as usize % 4];
            if timeline.time_of(stamp_ns).is_none() {
                timeline.hold(stamp_ns, (), &mut counts);
            }
            assert!(timeline.held.len() < ROW * (FAR_FOR_EACH_NEAR + 1));
            while timeline.next().is_some() {}
        }
    }
}
