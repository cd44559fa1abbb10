//! How fast cores were, and when they stood still: facts about the host that measure neither player nor subject.

use serde::{Deserialize, Serialize};

/// How fast cores were for some milliseconds, all of them at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GaugeFacts {
    /// Each core, in the order in which they were named.
    pub cores: Vec<CoreGauge>,
}

/// How fast one core was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreGauge {
    /// Its number.
    pub cpu: u32,
    /// Turns of a fixed piece of work that it did in a second, less the time that it stood still.
    pub turns_per_s: f64,
    /// Seconds that it stood still meanwhile, in pieces too long to be slowness.
    pub stalled_s: f64,
}

impl GaugeFacts {
    /// Turns a second in the mean of these cores, or of all where the list is empty. None where one of them was not gauged.
    pub fn turns_per_s(&self, cpus: &[u32]) -> Option<f64> {
        let of = |cpu: &u32| self.cores.iter().find(|core| core.cpu == *cpu).map(|core| core.turns_per_s);
        let speeds: Vec<f64> = if cpus.is_empty() {
            self.cores.iter().map(|core| core.turns_per_s).collect()
        } else {
            cpus.iter().map(of).collect::<Option<_>>()?
        };
        (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64)
    }
}

/// When cores stood still, as a witness saw it that wakes on each of them again and again, before all other threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StallFacts {
    /// From one waking to the next, microseconds. A standstill that is shorter may lie between two of them.
    pub period_us: u64,
    /// The cores that were watched.
    pub cores: Vec<u32>,
    /// How often it woke, over all cores.
    pub wakes: u64,
    /// CPU seconds that it took itself, over all cores.
    pub cost_s: f64,
    /// Each time that it woke late, core by core, in order. The longest where there were very many.
    pub stalls: Vec<Stall>,
}

/// A core did not wake its witness in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// The core.
    pub cpu: u32,
    /// When the witness was to wake, nanoseconds on the host's monotonic clock. The core may have stopped up to a period
    /// before.
    pub at_ns: u64,
    /// By how much it woke late, microseconds.
    pub late_us: u64,
}

/// How fast the cores of a trial were just before it and just after it, while the subject was idle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpeedFacts {
    /// The gauge before it.
    pub before: GaugeFacts,
    /// The gauge after it.
    pub after: GaugeFacts,
    /// The subject's cores, whose speed counts; all that were gauged where the list is empty.
    pub subject_cpus: Vec<u32>,
    /// The speed that loads are counted at, turns a second: one for all trials that are compared.
    pub reference_turns_per_s: f64,
    /// The load that was wanted at that speed, queries a second: what was played is as much more or less as the cores were
    /// faster or slower. None in a closed loop.
    pub wanted_qps: Option<f64>,
}

impl SpeedFacts {
    /// The speed of the subject's cores as a multiple of the reference: the mean of before and after. None where they were
    /// not gauged.
    pub fn speed(&self) -> Option<f64> {
        let (before, after) = self.around()?;
        let speed = f64::midpoint(before, after) / self.reference_turns_per_s;
        (speed.is_finite() && speed > 0.0).then_some(speed)
    }

    /// By which share the speed changed from before to after, of the lesser one.
    pub fn shift(&self) -> Option<f64> {
        let (before, after) = self.around()?;
        Some(before.max(after) / before.min(after) - 1.0)
    }

    fn around(&self) -> Option<(f64, f64)> {
        let of = |gauge: &GaugeFacts| gauge.turns_per_s(&self.subject_cpus).filter(|speed| *speed > 0.0);
        of(&self.before).zip(of(&self.after))
    }
}

impl StallFacts {
    /// The same of a span of the host's monotonic clock, nanoseconds: standstills of which a part lies in it.
    #[must_use]
    pub fn within(&self, from_ns: u64, to_ns: u64) -> Self {
        let meets = |stall: &&Stall| {
            let began_ns = stall.at_ns.saturating_sub(self.period_us * 1000);
            began_ns < to_ns && stall.at_ns + stall.late_us * 1000 > from_ns
        };
        Self { stalls: self.stalls.iter().filter(meets).copied().collect(), ..self.clone() }
    }

    /// How long a core may have stood still at most in one piece, seconds: from one waking to the late next one. 0 where none
    /// was late.
    pub fn longest_s(&self) -> f64 {
        let longest_us = self.stalls.iter().map(|stall| stall.late_us + self.period_us).max();
        longest_us.unwrap_or(0) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_the_mean_of_the_cores_that_are_meant() {
        let core = |cpu, turns_per_s| CoreGauge { cpu, turns_per_s, stalled_s: 0.0 };
        let facts = GaugeFacts { cores: vec![core(0, 100.0), core(3, 300.0)] };
        let of = |cpus: &[u32]| facts.turns_per_s(cpus).map(|speed| speed.round() as u32);
        assert_eq!((of(&[]), of(&[3]), of(&[3, 0]), of(&[1])), (Some(200), Some(300), Some(200), None));
        assert_eq!(GaugeFacts::default().turns_per_s(&[]), None);
    }

    #[test]
    fn the_speed_around_a_trial_is_a_multiple_of_the_reference() {
        let gauge =
            |turns_per_s| GaugeFacts { cores: vec![CoreGauge { cpu: 1, turns_per_s, stalled_s: 0.0 }] };
        let facts = SpeedFacts {
            before: gauge(90.0),
            after: gauge(110.0),
            subject_cpus: vec![1],
            reference_turns_per_s: 200.0,
            wanted_qps: None,
        };
        assert!((facts.speed().unwrap() - 0.5).abs() < 1e-12);
        assert!((facts.shift().unwrap() - 2.0 / 9.0).abs() < 1e-12);
        let elsewhere = SpeedFacts { subject_cpus: vec![0], ..facts.clone() };
        assert_eq!((elsewhere.speed(), elsewhere.shift()), (None, None));
        assert_eq!(SpeedFacts { after: gauge(0.0), ..facts }.speed(), None, "it stood still all the time");
    }

    #[test]
    fn standstills_belong_to_the_span_that_they_meet() {
        let stall = |at_ns, late_us| Stall { cpu: 0, at_ns, late_us };
        let stalls = vec![stall(10_000_000, 500), stall(50_000_000, 3_000)];
        let facts = StallFacts { period_us: 2_000, stalls, ..StallFacts::default() };
        let within =
            |from_ms: u64, to_ms: u64| facts.within(from_ms * 1_000_000, to_ms * 1_000_000).stalls.len();
        assert_eq!(
            (within(0, 60), within(0, 8), within(0, 9), within(11, 48), within(52, 60)),
            (2, 0, 1, 0, 1)
        );
        assert!((facts.longest_s() - 0.005).abs() < 1e-12);
        assert!(StallFacts::default().longest_s().abs() < f64::EPSILON);
    }
}
