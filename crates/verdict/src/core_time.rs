//! The CPU time of a subject near its limit: how long it waited for its core while other programs had it, and what a
//! whole core would be worth. Trials that lose queries show less than the subject can do if it has to wait. Its CPU time
//! for an answer is nearly the same as ever.

use kqps_observation::Trial;
use kqps_observation::trial::LoadMode;

use crate::evidence::{answered_qps, load_qps, speed};
use crate::interval::{Interval, median_interval};
use crate::waits::{busiest, waited};

/// A server that has little to do spends more CPU time on an answer, since it wakes for each. Trials count that played or
/// answered at least this share of the figure.
const NEAR_LIMIT: f64 = 0.8;

/// Fewer trials show too little.
const TRIALS_LEAST: usize = 3;

/// The most that a subject waits on a quiet host over many trials, as a share of the time: for the witness and for the
/// kernel's own threads.
const USUAL: f64 = 0.02;

/// A subject that waited for a greater share of the time has no figure.
const WAITED_MOST: f64 = 0.1;

/// A subject that waited has no figure either if a whole core would be worth more than this many times the figure: while it
/// waits, buffers overflow, and the search goes down to the rate that the rest of a core is worth.
const APART_MOST: f64 = 1.3;

/// The CPU time of a subject over several trials near its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CoreTime {
    /// The share of the time for which its busiest thread waited while no other of its threads ran there, 0 to 1: the mean,
    /// since a few trials in which it waited long are enough to mislead a search.
    pub(crate) waited: f64,
    /// Answers a second if this thread had a core all the time, at the reference speed: the median. `None` for good clients
    /// beside an attack, since the subject's CPU time is for both.
    pub(crate) whole_qps: Option<f64>,
    /// This rate as a multiple of the figure; 1 without such a rate.
    apart: f64,
}

/// The CPU time of a subject in one trial.
struct OfTrial {
    waited: f64,
    whole_qps: Option<f64>,
}

impl CoreTime {
    /// The CPU time in those of the trials that are near the figure, which is at the reference speed. `None` if fewer than
    /// three show it.
    pub(crate) fn from_trials<'a>(
        trials: impl IntoIterator<Item = &'a Trial>,
        figure_qps: f64,
    ) -> Option<Self> {
        let is_near = |trial: &&Trial| match trial.load.mode {
            LoadMode::Open => load_qps(trial).is_some_and(|qps| qps >= NEAR_LIMIT * figure_qps),
            LoadMode::Closed => answered_qps(trial) >= NEAR_LIMIT * figure_qps,
        };
        let near: Vec<OfTrial> = trials.into_iter().filter(is_near).filter_map(OfTrial::new).collect();
        if near.len() < TRIALS_LEAST {
            return None;
        }
        let waited = near.iter().map(|one| one.waited).sum::<f64>() / near.len() as f64;
        let whole: Vec<f64> = near.iter().filter_map(|one| one.whole_qps).collect();
        let whole_qps = median_interval(&whole).map(|interval| interval.median);
        Some(Self { waited, whole_qps, apart: whole_qps.map_or(1.0, |whole_qps| whole_qps / figure_qps) })
    }

    /// Whether the subject waited so long that its trials show no rate.
    pub(crate) fn refuses(&self) -> bool {
        self.waited > WAITED_MOST || self.widens() && self.apart > APART_MOST
    }

    /// Whether the subject waited for longer than on a quiet host.
    fn widens(&self) -> bool {
        self.waited > USUAL
    }

    /// Whether a range reaches up, since a whole core would be worth more than the figure.
    pub(crate) fn reaches_up(&self) -> bool {
        self.widens() && self.apart > 1.0
    }

    /// A figure whose upper end rises as far as the worth of a whole core lies above the figure.
    pub(crate) fn widen(&self, figure: Interval) -> Interval {
        let by = if self.reaches_up() { self.apart } else { 1.0 };
        Interval { high: figure.high * by, ..figure }
    }
}

impl OfTrial {
    fn new(trial: &Trial) -> Option<Self> {
        let busiest = busiest(trial.subject.as_ref()?)?;
        let waited = waited(trial)?;
        if !trial.classes.is_empty() {
            return Some(Self { waited, whole_qps: None });
        }
        let whole_qps = trial.accounts.correct as f64 / busiest.cpu_s / speed(trial);
        (whole_qps > 0.0 && whole_qps.is_finite()).then_some(Self { waited, whole_qps: Some(whole_qps) })
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Accounts;
    use kqps_observation::subject::{SubjectFacts, ThreadFacts};
    use kqps_observation::trial::{ClassTrial, LoadFacts};

    use super::*;

    /// A trial of a second at 100,000 queries a second, whose busiest thread ran for 0.8 s and waited for `waited_s`.
    fn trial(waited_s: f64, beside_s: f64) -> Trial {
        let thread = |tid, cpu_s, waited_s| ThreadFacts {
            tid,
            cpu_s,
            busy: cpu_s,
            waited_s,
            ..ThreadFacts::default()
        };
        // A thread on another core takes nothing from it.
        let elsewhere = ThreadFacts { cpu: 7, ..thread(3, 0.7, None) };
        let threads = vec![thread(1, beside_s, None), thread(2, 0.8, Some(waited_s)), elsewhere];
        let load = LoadFacts { intended_qps: Some(1e5), duration_s: 1.0, ..LoadFacts::default() };
        let accounts = Accounts { intended: 100_000, sent: 100_000, correct: 100_000, ..Accounts::default() };
        Trial {
            load,
            accounts,
            subject: Some(SubjectFacts { cpus: vec![0, 7, 8], threads, ..SubjectFacts::default() }),
            ..Trial::default()
        }
    }

    fn measured_core_time(trials: &[Trial]) -> Option<CoreTime> {
        CoreTime::from_trials(trials, 1e5)
    }

    #[test]
    fn a_server_that_waited_may_be_worth_a_whole_core() {
        let core_time = measured_core_time(&[trial(0.1, 0.1), trial(0.15, 0.1), trial(0.2, 0.1)]).unwrap();
        assert!(
            (core_time.waited - 0.05).abs() < 1e-9 && (core_time.whole_qps.unwrap() - 125_000.0).abs() < 1e-3
        );
        assert!(core_time.reaches_up() && !core_time.refuses());
        let figure = Interval { median: 1e5, low: 9e4, high: 1.1e5, coverage: 0.95, count: 2 };
        let widened = core_time.widen(figure);
        assert!((widened.high / 1.1e5 - 1.25).abs() < 1e-9 && widened.low.total_cmp(&9e4).is_eq());
        let usual = measured_core_time(&[trial(0.015, 0.0), trial(0.015, 0.0), trial(0.015, 0.0)]).unwrap();
        assert!(!usual.reaches_up() && usual.widen(figure) == figure);
        assert!(measured_core_time(&[trial(0.3, 0.0), trial(0.3, 0.0), trial(0.3, 0.0)]).unwrap().refuses());
    }

    #[test]
    fn a_figure_far_below_the_worth_of_a_whole_core_is_none_if_the_server_waited() {
        let trials = |waited_s| [trial(waited_s, 0.0), trial(waited_s, 0.0), trial(waited_s, 0.0)];
        let of = |waited_s, figure_qps| CoreTime::from_trials(&trials(waited_s), figure_qps).unwrap();
        assert!(of(0.05, 95e3).refuses() && !of(0.05, 97e3).refuses());
        assert!(!of(0.015, 60e3).refuses(), "its thread has something else to wait for");
    }

    #[test]
    fn cpu_time_for_good_clients_and_an_attack_is_worth_no_rate_of_either() {
        let trials = |waited_s| {
            let beside = Trial { classes: vec![ClassTrial::default()], ..trial(waited_s, 0.0) };
            [beside.clone(), beside.clone(), beside]
        };
        let core_time = measured_core_time(&trials(0.05)).unwrap();
        assert_eq!((core_time.whole_qps, core_time.reaches_up(), core_time.refuses()), (None, false, false));
        assert!(measured_core_time(&trials(0.3)).unwrap().refuses());
    }

    #[test]
    fn trials_far_below_the_limit_show_nothing() {
        let trials = [trial(0.3, 0.0), trial(0.3, 0.0), trial(0.3, 0.0)];
        assert_eq!(CoreTime::from_trials(&trials, 130_000.0), None);
        assert_eq!(measured_core_time(&trials[..2]), None);
        let unknown = Trial { subject: None, ..trial(0.3, 0.0) };
        assert_eq!(measured_core_time(&[unknown.clone(), unknown.clone(), unknown]), None);
    }
}
