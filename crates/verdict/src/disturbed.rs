//! Trials that the host spoiled: its cores changed their speed during the trial, stood still so often that too
//! little time remained, or worked for another server or for other programs. Such trials, good or bad, say nothing about
//! the subject, and are repeated.

use std::fmt;

use kqps_observation::Trial;
use kqps_observation::trial::Beside;

use crate::standstill::Remainder;
use crate::waits::waited;

/// How the host disturbed a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Disturbed {
    /// The speed of the subject's cores before and after the trial differs by this share of the lesser one.
    Shifted(f64),
    /// Another server, which had to be idle, used this many CPU seconds.
    Restless(f64),
    /// The subject waited for its core for this share of the time, while other programs had it.
    Waited(f64),
    /// Cores stood still for most of the trial, the time to recover included. The value is the longest stall in
    /// seconds.
    Withheld(f64),
}

impl fmt::Display for Disturbed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shifted(share) => {
                write!(formatter, "the speed of the subject's cores changed by {:.0} %", share * 100.0)
            }
            Self::Restless(seconds) => write!(
                formatter,
                "another server, which had to be idle, used {:.1} ms of CPU time",
                seconds * 1e3
            ),
            Self::Waited(share) => {
                write!(formatter, "the subject waited for its core for {:.0} % of the time", share * 100.0)
            }
            Self::Withheld(seconds) => write!(
                formatter,
                "cores were withheld again and again, for up to {:.1} ms at a time, longer than buffers last",
                seconds * 1e3
            ),
        }
    }
}

/// On a host with a steady speed, gauges differ by a few per cent. A host that changes its speed changes it by
/// 20 % or more. A trial between the two helps more than it misleads.
const SHIFT_MOST: f64 = 0.12;

/// On a quiet host a server waits for up to 3 % of a trial, for the kernel's own threads. Those of `io_uring` take up to 6 %.
const WAITED_MOST: f64 = 0.07;

/// Seconds that a trial takes beside its load, to gauge the cores and to start and end the player.
pub const BESIDE_S: f64 = 0.07;

/// A closed loop waits for its replies and loses nothing, but it may stand still for at most this share of its
/// time.
const STILL_MOST: f64 = 0.01;

/// A server that waits for its turn may use this share of a core, or [`QUIET_S`] CPU seconds if that is more.
const QUIET: f64 = 0.01;
const QUIET_S: f64 = 0.005;

/// The name, in a run, of the rounds that leave out the cell `name`, because its server was not idle during the
/// trials of others or could not run beside them.
pub fn rounds_with(name: &str) -> String {
    format!("rounds with {name}")
}

/// Whether a server that had to be idle during a trial was busy.
pub fn is_restless(trial: &Trial, beside: &Beside) -> bool {
    let took_s = trial.load.wall_s() + BESIDE_S;
    beside.cpu_s > (QUIET * took_s).max(QUIET_S)
}

/// How the host spoiled a trial; `None` if it did not, or if the trial was neither gauged nor witnessed.
pub fn disturbed(trial: &Trial) -> Option<Disturbed> {
    if let Some(beside) = trial.beside.iter().find(|beside| is_restless(trial, beside)) {
        return Some(Disturbed::Restless(beside.cpu_s));
    }
    let shift = trial.speed.as_ref().and_then(kqps_observation::SpeedFacts::shift);
    if let Some(share) = shift.filter(|share| *share > SHIFT_MOST) {
        return Some(Disturbed::Shifted(share));
    }
    if let Some(share) = waited(trial).filter(|share| *share > WAITED_MOST) {
        return Some(Disturbed::Waited(share));
    }
    if let Some(remainder) = Remainder::from_trial(trial) {
        return remainder.is_too_little().then_some(Disturbed::Withheld(remainder.longest_s));
    }
    let stalls = trial.stalls.as_ref()?;
    let sending = trial.sending_ns();
    let still_most_s = trial.load.sending_s() * STILL_MOST * stalls.cores.len().max(1) as f64;
    (stalls.stood_s(&sending) > still_most_s).then(|| Disturbed::Withheld(stalls.longest_s(&sending)))
}

#[cfg(test)]
mod tests {
    use kqps_observation::gauge::{CoreGauge, GaugeFacts, SpeedFacts, Stall, StallFacts};
    use kqps_observation::subject::{SubjectFacts, ThreadFacts};
    use kqps_observation::trial::{LoadFacts, LoadMode};

    use super::*;

    fn trial(rate_qps: f64, late_us: &[u64]) -> Trial {
        let stalls = late_us.iter().map(|&late_us| Stall { cpu: 1, at_ns: 5, late_us }).collect();
        let stalls = StallFacts { period_us: 2_000, cores: vec![1], stalls, ..StallFacts::default() };
        let load = LoadFacts { intended_qps: Some(rate_qps), duration_s: 0.5, ..LoadFacts::default() };
        Trial { load, stalls: Some(stalls), ..Trial::default() }
    }

    #[test]
    fn half_of_an_open_loop_must_be_left() {
        // Each stall costs about 40 ms of the half second.
        let stalls = |count: u64| {
            let mut trial = trial(200e3, &[]);
            let stall = |number| Stall { cpu: 1, at_ns: number * 50_000_000, late_us: 1_000 };
            trial.stalls.as_mut().unwrap().stalls = (0..count).map(stall).collect();
            disturbed(&trial)
        };
        assert_eq!(stalls(5), None);
        assert_eq!(stalls(9), Some(Disturbed::Withheld(0.003)));
        assert_eq!(disturbed(&Trial::default()), None, "nothing was witnessed");
    }

    #[test]
    fn a_closed_loop_may_stand_still_for_a_hundredth_of_its_time() {
        let closed = |late_us: &[u64]| {
            let mut trial = trial(0.0, late_us);
            (trial.load.mode, trial.load.intended_qps) = (LoadMode::Closed, None);
            disturbed(&trial)
        };
        assert_eq!(closed(&[2_000, 2_900]), None);
        assert!(closed(&[2_000, 3_100]).is_some());
    }

    #[test]
    fn a_server_that_waits_may_take_a_hundredth_of_a_core() {
        let of = |duration_s, cpu_s| {
            let mut trial = trial(1000.0, &[]);
            trial.load.duration_s = duration_s;
            trial.beside = vec![Beside { name: "nsd".into(), cpu_s }];
            disturbed(&trial)
        };
        assert_eq!(of(0.5, 0.0056), None);
        assert_eq!(of(0.5, 0.0058), Some(Disturbed::Restless(0.0058)));
        // Work that a server does once takes as long in a short trial as in a long one.
        assert_eq!(of(0.1, 0.0049), None);
        assert!(of(0.1, 0.0051).is_some());
    }

    #[test]
    fn a_server_may_wait_for_a_fifteenth_of_a_trial() {
        let of = |waited_s| {
            let busiest =
                ThreadFacts { cpu_s: 0.9, busy: 0.9, waited_s: Some(waited_s), ..ThreadFacts::default() };
            let subject = SubjectFacts { threads: vec![busiest], ..SubjectFacts::default() };
            disturbed(&Trial { subject: Some(subject), ..Trial::default() })
        };
        assert_eq!(of(0.065), None);
        assert!(matches!(of(0.075), Some(Disturbed::Waited(share)) if (share - 0.075).abs() < 1e-9));
    }

    #[test]
    fn a_speed_that_changed_is_another_one() {
        let gauge =
            |turns_per_s| GaugeFacts { cores: vec![CoreGauge { cpu: 1, turns_per_s, stalled_s: 0.0 }] };
        let of = |before, after| {
            let speed = SpeedFacts { before: gauge(before), after: gauge(after), ..SpeedFacts::default() };
            disturbed(&Trial { speed: Some(speed), ..Trial::default() })
        };
        assert_eq!(of(100.0, 111.9), None);
        assert!(of(100.0, 112.1).is_some());
        assert!(matches!(of(130.0, 100.0), Some(Disturbed::Shifted(share)) if (share - 0.3).abs() < 1e-9));
    }
}
