//! Warms up a fresh start of a subject: for a moment or, if its cell asks for it, until its rate is steady.

use kqps_observation::run::{Purpose, Role};
use kqps_observation::{Cell, Trial};
use kqps_verdict::steady::{STEP_S, Steadiness, begins_cold, full_bins, longest_s, steadiness};

use kqps_testbed::internet::KEPT;
use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

/// The longest warm-up of any cell, seconds.
const LONGEST_S: f64 = 60.0;

/// Seconds of a warm-up that only fills caches and wakes threads.
const SHORT_S: f64 = 0.3;

/// The longest warm-up of a resolver that has to learn the names of its hits, seconds; that of each of its trials; and their
/// rate, queries a second, at which a resolver does not give up any of them.
const LEARNING_S: f64 = 10.0;
const LESSON_S: f64 = 1.0;
const LESSON_QPS: f64 = 500.0;

/// The warm-up of one start.
#[derive(Clone, Copy, Debug)]
pub struct WarmUp {
    /// Seconds that it may still take; 0 for cells without a warm-up, or once it is over.
    left_s: f64,
    step_s: f64,
    /// Queries that a resolver must be asked until it knows the names of its hits.
    unknown: u64,
    pace: RequestedPace,
}

impl WarmUp {
    /// The warm-up of a start of this cell's subject; ceilings and canaries have none, and neither have resolvers that begin
    /// cold. A resolver with a share of hits is asked for their names.
    pub fn new(cell: &Cell) -> Self {
        let none = Self { left_s: 0.0, step_s: SHORT_S, unknown: 0, pace: RequestedPace::Closed };
        if cell.role != Role::Subject {
            return none;
        }
        let senders = u64::from(cell.factors.player().senders.unwrap_or(1));
        match longest_s(cell) {
            Some(longest_s) => Self { left_s: longest_s.min(LONGEST_S), step_s: STEP_S, ..none },
            None if begins_cold(cell) => none,
            None if learns(cell) => {
                let (left_s, unknown) = (LEARNING_S, KEPT as u64 * senders);
                Self { left_s, step_s: LESSON_S, unknown, pace: RequestedPace::Open { rate_qps: LESSON_QPS } }
            }
            None => Self { left_s: SHORT_S, ..none },
        }
    }

    /// The next trial of the warm-up, after the last one if there was one. `None` if the subject is warm or the
    /// time is over. Time that is too short for a judgement is not used.
    pub fn next(&mut self, last: Option<&Trial>) -> Option<TrialRequest> {
        let is_warm = match last {
            Some(trial) if self.unknown > 0 => {
                self.unknown = self.unknown.saturating_sub(trial.accounts.sent);
                self.unknown == 0
            }
            Some(trial) => steadiness(full_bins(trial)) == Steadiness::Steady,
            None => false,
        };
        if self.left_s < self.step_s || is_warm {
            self.left_s = 0.0;
            return None;
        }
        self.left_s -= self.step_s;
        Some(TrialRequest { pace: self.pace, duration_s: self.step_s, purpose: Purpose::WarmUp })
    }
}

/// Whether a cell is a resolver that has to learn the names of its hits.
fn learns(cell: &Cell) -> bool {
    cell.role == Role::Subject && cell.factors.dataset().internet.is_some() && !begins_cold(cell)
}

/// The least seconds of a warm-up for a steady state, or for the names of a resolver's hits; 0 for other cells.
pub fn at_least_s(cell: &Cell) -> f64 {
    match longest_s(cell) {
        Some(_) => STEP_S,
        None if learns(cell) => KEPT as f64 / LESSON_QPS,
        None => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::Accounts;
    use kqps_observation::factors::{Factors, name};
    use kqps_observation::trial::Interval;

    fn cell(steady: Option<&str>) -> Cell {
        let words = steady.map(|longest| (name::STEADY.to_string(), longest.to_string()));
        Cell { factors: Factors::read(words).unwrap(), ..Cell::default() }
    }

    /// The seconds of the trials of a warm-up; `rate` returns the rate of every second.
    fn played(cell: &Cell, rate: impl Fn(u64) -> u64) -> Vec<f64> {
        let (mut warm_up, mut last, mut seconds) = (WarmUp::new(cell), None, Vec::new());
        let mut at_s = 0;
        while let Some(request) = warm_up.next(last.as_ref()) {
            let bin = |number| Interval { at_s: number, sent: 0, correct: rate(at_s + number) };
            let mut trial =
                Trial { intervals: (1..=request.duration_s as u64).map(bin).collect(), ..Trial::default() };
            trial.load.duration_s = request.duration_s;
            at_s += request.duration_s as u64;
            seconds.push(request.duration_s);
            last = Some(trial);
        }
        seconds
    }

    #[test]
    fn without_a_request_it_is_short_and_without_a_subject_there_is_none() {
        assert_eq!(played(&cell(None), |_| 1000), [SHORT_S]);
        let words = |hits: &[(&str, &str)]| {
            let words = [(name::INTERNET, "small")].iter().chain(hits).copied();
            let words = words.map(|(name, word)| (name.to_owned(), word.to_owned()));
            Cell { factors: Factors::read(words).unwrap(), ..Cell::default() }
        };
        assert!(played(&words(&[]), |_| 1000).is_empty(), "a resolver begins cold");
        let mut warm_up = WarmUp::new(&words(&[(name::INTERNET_HITS, "80")]));
        let sent = |sent| {
            let accounts = Accounts { sent, ..Accounts::default() };
            Trial { accounts, ..Trial::default() }
        };
        assert!(warm_up.next(None).is_some() && warm_up.next(Some(&sent(600))).is_some());
        assert_eq!(warm_up.next(Some(&sent(400))), None, "it was asked for the names of all hits");
        assert_eq!(warm_up.next(Some(&sent(400))), None, "a warm-up that is over stays over");
        let ceiling = Cell { role: Role::EchoCeiling, ..cell(Some("60s")) };
        assert!(played(&ceiling, |_| 1000).is_empty());
    }

    #[test]
    fn it_lasts_until_the_rate_holds_still_and_no_longer_than_allowed() {
        assert_eq!(played(&cell(Some("60s")), |_| 100_000), [STEP_S]);
        let settles = |at_s: u64| 100_000 + 1000 * at_s.min(20);
        assert_eq!(played(&cell(Some("60s")), settles), [STEP_S; 3]);
        let climbs = |at_s: u64| 100_000 + 1000 * at_s;
        assert_eq!(played(&cell(Some("60s")), climbs), [STEP_S; 5]);
        assert_eq!(played(&cell(Some("10s")), climbs), [SHORT_S], "too short to judge");
        for longer in ["10m", "1h"] {
            assert_eq!(played(&cell(Some(longer)), climbs), [STEP_S; 5], "{longer}");
        }
        for some in ["25", "25s", "25000ms"] {
            assert_eq!(played(&cell(Some(some)), climbs), [STEP_S; 2], "{some}");
        }
    }
}
