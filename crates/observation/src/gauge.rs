//! How fast the cores were, and when they stood still: readings of a gauge and the stalls that a witness saw.
//!
//! All moments are nanoseconds of `CLOCK_MONOTONIC`, like a trial's `started_monotonic_ns`.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reading: the speed of cores that all did the same work at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GaugeFacts {
    /// Each core once, ascending.
    pub cores: Vec<CoreGauge>,
}

/// A core in a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreGauge {
    /// The core's number.
    pub cpu: u32,
    /// Turns per second, in the time without stalls. In a turn the core sends one datagram over loopback to itself and
    /// receives it.
    pub turns_per_s: f64,
    /// Seconds of the reading in which the core stood still, or worked for others, for longer than slowness explains.
    pub stalled_s: f64,
}

/// The stalls that a witness saw: times in which a core did not run a thread that runs before all ordinary threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallFacts {
    /// When the witness began to watch.
    pub began_ns: u64,
    /// When it had ended.
    pub ended_ns: u64,
    /// How often it woke on each core, microseconds. It may have missed a stall that is shorter than this.
    pub period_us: u64,
    /// The cores that it watched, ascending.
    pub cores: Vec<u32>,
    /// How often it woke, on all cores together.
    pub wakes: u64,
    /// How often it woke late.
    pub seen: u64,
    /// The stalls in the order of time; only the longest [`Self::STALLS_MOST`] if there were more.
    pub stalls: Vec<Stall>,
    /// CPU seconds that the witness itself used, on all cores together.
    pub cost_s: f64,
}

/// A late wake of a witness. The core stood still for as long as the wake was late, or for up to a period longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// The core's number.
    pub cpu: u32,
    /// When the wake was due.
    pub at_ns: u64,
    /// By how much the wake was late, microseconds.
    pub late_us: u64,
}

/// How fast the cores of a trial were just before and just after it, while its subject was idle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpeedFacts {
    /// The reading before the trial.
    pub before: GaugeFacts,
    /// The reading after the trial.
    pub after: GaugeFacts,
    /// The subject's cores, whose speed counts; if the list is empty, all cores of the reading count.
    pub subject_cpus: Vec<u32>,
    /// The speed to which loads are scaled, turns per second. All trials that are compared have the same one.
    pub reference_turns_per_s: f64,
    /// The intended load at that speed, queries per second. The load that was played is larger or smaller by as much as the
    /// cores were faster or slower. `None` in a closed loop.
    pub wanted_qps: Option<f64>,
}

impl SpeedFacts {
    /// The speed of the subject's cores as a multiple of the reference: the mean of before and after. `None` if they were
    /// not gauged.
    pub fn speed(&self) -> Option<f64> {
        let (before, after) = self.around()?;
        let speed = f64::midpoint(before, after) / self.reference_turns_per_s;
        (speed.is_finite() && speed > 0.0).then_some(speed)
    }

    /// The change of speed from before to after, as a share of the lower speed. `None` if they were not gauged.
    pub fn shift(&self) -> Option<f64> {
        let (before, after) = self.around()?;
        Some(before.max(after) / before.min(after) - 1.0)
    }

    fn around(&self) -> Option<(f64, f64)> {
        let of = |gauge: &GaugeFacts| gauge.turns_per_s(&self.subject_cpus).filter(|speed| *speed > 0.0);
        of(&self.before).zip(of(&self.after))
    }
}

impl GaugeFacts {
    /// Mean turns per second of these cores, or of all cores in the reading if the list is empty. Each core counts as often
    /// as it is listed. `None` if one of them was not gauged.
    pub fn turns_per_s(&self, cpus: &[u32]) -> Option<f64> {
        let all: Vec<u32> = self.cores.iter().map(|core| core.cpu).collect();
        let named = if cpus.is_empty() { &all } else { cpus };
        let speed = |cpu: &u32| Some(self.cores.iter().find(|core| core.cpu == *cpu)?.turns_per_s);
        let speeds = named.iter().map(speed).collect::<Option<Vec<f64>>>()?;
        (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64)
    }

    /// The longest time that any core stood still in the reading, seconds; 0 without cores.
    pub fn stalled_s(&self) -> f64 {
        self.cores.iter().map(|core| core.stalled_s).fold(0.0, f64::max)
    }
}

impl StallFacts {
    /// The most stalls that are kept.
    pub const STALLS_MOST: usize = 1000;

    /// Keeps the longest of these stalls. `seen` is how many there were in all.
    pub fn keep(&mut self, mut stalls: Vec<Stall>, seen: u64) {
        stalls.sort_unstable_by_key(|stall| std::cmp::Reverse(stall.late_us));
        stalls.truncate(Self::STALLS_MOST);
        stalls.sort_unstable_by_key(|stall| (stall.at_ns, stall.cpu));
        (self.stalls, self.seen) = (stalls, seen);
    }

    /// The longest time that a core may have stood still at once within a span, seconds: from one wake to the next, late
    /// one. 0 if no wake was late.
    pub fn longest_s(&self, span: &Range<u64>) -> f64 {
        let longest_us = self.within(span).iter().map(|stall| stall.late_us + self.period_us).max();
        longest_us.unwrap_or(0) as f64 / 1e6
    }

    /// Seconds within a span for which cores certainly stood still, summed over all cores.
    pub fn stood_s(&self, span: &Range<u64>) -> f64 {
        self.within(span).iter().map(|stall| stall.late_us).sum::<u64>() as f64 / 1e6
    }

    /// Whether the witness watched for all of a span.
    pub fn covers(&self, span: &Range<u64>) -> bool {
        self.began_ns <= span.start && span.end <= self.ended_ns
    }

    /// The stalls within a span, each reduced to the part that lies within it. Stalls that were not kept are missing.
    pub fn within(&self, span: &Range<u64>) -> Vec<Stall> {
        self.stalls.iter().filter_map(|stall| stall.within(span)).collect()
    }
}

impl Stall {
    /// When the witness woke.
    pub fn end_ns(&self) -> u64 {
        self.at_ns + self.late_us * 1000
    }

    /// The part of the stall within a span; `None` if it is shorter than a microsecond.
    fn within(&self, span: &Range<u64>) -> Option<Self> {
        let at_ns = self.at_ns.max(span.start);
        let late_us = self.end_ns().min(span.end).saturating_sub(at_ns) / 1000;
        (late_us > 0).then_some(Self { at_ns, late_us, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(speeds: &[(u32, f64)]) -> GaugeFacts {
        let core = |&(cpu, turns_per_s): &(u32, f64)| CoreGauge { cpu, turns_per_s, ..CoreGauge::default() };
        GaugeFacts { cores: speeds.iter().map(core).collect() }
    }

    #[test]
    fn speed_is_the_mean_of_the_cores_that_are_named_or_of_all() {
        let facts = reading(&[(1, 100.0), (3, 200.0), (4, 600.0)]);
        assert_eq!(facts.turns_per_s(&[3]), Some(200.0));
        assert_eq!(facts.turns_per_s(&[1, 3]), Some(150.0));
        assert_eq!(facts.turns_per_s(&[]), Some(300.0));
        assert_eq!(facts.turns_per_s(&[1, 2]), None);
        assert_eq!(GaugeFacts::default().turns_per_s(&[]), None);
    }

    #[test]
    fn the_speed_around_a_trial_is_a_multiple_of_the_reference() {
        let facts = SpeedFacts {
            before: reading(&[(1, 90.0)]),
            after: reading(&[(1, 110.0)]),
            subject_cpus: vec![1],
            reference_turns_per_s: 200.0,
            wanted_qps: None,
        };
        assert!((facts.speed().unwrap() - 0.5).abs() < 1e-12);
        assert!((facts.shift().unwrap() - 2.0 / 9.0).abs() < 1e-12);
        let elsewhere = SpeedFacts { subject_cpus: vec![0], ..facts.clone() };
        assert_eq!((elsewhere.speed(), elsewhere.shift()), (None, None));
        assert_eq!(SpeedFacts { after: reading(&[(1, 0.0)]), ..facts }.speed(), None, "it stood still");
    }

    #[test]
    fn the_core_that_stood_still_for_longest_is_that_of_the_reading() {
        let mut facts = reading(&[(0, 1.0), (1, 1.0)]);
        facts.cores[1].stalled_s = 0.003;
        assert_eq!(facts.stalled_s().to_bits(), 0.003_f64.to_bits());
        assert_eq!(GaugeFacts::default().stalled_s().to_bits(), 0.0_f64.to_bits());
    }

    fn stall(at_ns: u64, late_us: u64) -> Stall {
        Stall { cpu: 1, at_ns, late_us }
    }

    #[test]
    fn the_longest_are_kept_by_moment_and_all_are_counted() {
        let mut facts = StallFacts::default();
        // The later stalls are longer, and come first: the first 500 in time are the shortest.
        facts.keep((0..1500).rev().map(|number| stall(number * 10, 300 + number)).collect(), 2000);
        assert_eq!((facts.stalls.len(), facts.seen), (StallFacts::STALLS_MOST, 2000));
        assert_eq!(facts.stalls[0], stall(5000, 800));
        assert!(facts.stalls.is_sorted_by_key(|stall| stall.at_ns));
    }

    #[test]
    fn a_span_has_what_fell_into_it() {
        let stalls = vec![stall(1_000_000, 300), stall(5_000_000, 4000), stall(20_000_000, 1000)];
        let facts = StallFacts { began_ns: 500_000, ended_ns: 30_000_000, stalls, ..StallFacts::default() };
        assert_eq!(facts.within(&(2_000_000..10_000_000)), [stall(5_000_000, 4000)]);
        assert_eq!(facts.within(&(6_000_000..8_000_000)), [stall(6_000_000, 2000)]);
        assert_eq!(
            facts.within(&(0..20_000_500)),
            [stall(1_000_000, 300), stall(5_000_000, 4000)],
            "half a microsecond is none"
        );
        assert_eq!(facts.within(&(9_000_000..20_000_000)), []);
        let facts = StallFacts { period_us: 2_000, ..facts };
        assert!((facts.longest_s(&(0..20_000_000)) - 0.006).abs() < 1e-12);
        assert!((facts.stood_s(&(0..20_000_000)) - 0.0043).abs() < 1e-12);
        assert!(facts.longest_s(&(9_000_000..20_000_000)).abs() < f64::EPSILON);
        assert!(facts.covers(&(500_000..30_000_000)));
        assert!(!facts.covers(&(499_999..600_000)) && !facts.covers(&(600_000..30_000_001)));
    }

    #[test]
    fn facts_are_read_back_as_they_were_written() {
        let gauge = reading(&[(0, 412_345.678_9)]);
        let text = serde_json::to_string(&gauge).unwrap();
        assert_eq!(serde_json::from_str::<GaugeFacts>(&text).unwrap(), gauge);
        let witness = StallFacts { cores: vec![1], stalls: vec![stall(7, 300)], ..StallFacts::default() };
        let text = serde_json::to_string(&witness).unwrap();
        assert_eq!(serde_json::from_str::<StallFacts>(&text).unwrap(), witness);
    }
}
