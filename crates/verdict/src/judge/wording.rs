//! Puts the bounds that one start showed into words. A load "held" only if it was played, met the goal as often
//! as the goal demands, and did not fail its re-test.

use super::start::StartVerdict;
use crate::search::Bounds;

/// How to put the bounds of a start into words.
#[derive(Clone, Copy)]
pub struct Wording<'a> {
    /// Formats a rate in queries a second.
    pub rate: &'a dyn Fn(f64) -> String,
    /// Whether the figure stands. If it is refused, the words say what the trials showed, and claim nothing.
    pub is_claimed: bool,
}

impl StartVerdict {
    /// The bounds of the start: `117,400 held, and again at the end; 119,800 did not hold`. For a failed start,
    /// its failure.
    pub fn in_words(&self, wording: Wording<'_>) -> String {
        match (&self.failure, &self.bounds) {
            (Some(failure), _) => format!("failed: {failure}"),
            (None, None) => "no trial was made".to_owned(),
            (None, Some(bounds)) => wording.bounds(bounds, self.is_searched),
        }
    }
}

impl Wording<'_> {
    /// The bounds of one start. `is_searched`: the load was searched for and not given.
    pub fn bounds(self, bounds: &Bounds, is_searched: bool) -> String {
        if let Some(futile) = bounds.futile {
            return format!("ended early: {}", futile.in_words(self.rate));
        }
        if bounds.lower_qps.is_none()
            && let Some(answered_qps) = bounds.throughput_qps
        {
            return format!("{} in closed loop", (self.rate)(answered_qps));
        }
        let refuted = bounds.refuted_qps.map(|refuted_qps| {
            format!("{} met the goal and failed when it was tried again", (self.rate)(refuted_qps))
        });
        let parts = [Some(self.lower(bounds, is_searched)), refuted, self.upper(bounds)];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    fn lower(self, bounds: &Bounds, is_searched: bool) -> String {
        let held = if self.is_claimed { "held" } else { "met the goal" };
        match (bounds.lower_qps, bounds.met_qps) {
            (Some(lower_qps), _) => {
                let again = match (bounds.retests, bounds.retests_bad()) {
                    (0, _) if is_searched => ", and was not tried again".to_owned(),
                    (0, _) => String::new(),
                    (1, 0) => ", and again at the end".to_owned(),
                    (trials, _) => format!(", and in {} of {trials} trials at the end", bounds.retests_good),
                };
                format!("{} {held}{again}", (self.rate)(lower_qps))
            }
            (None, Some(met_qps)) => {
                format!("no load is known to hold: {} passed, too seldom to count", (self.rate)(met_qps))
            }
            (None, None) if bounds.refuted_qps.is_some() => "no load is known to hold".to_owned(),
            (None, None) => {
                let least_qps = bounds.missed_qps.or(bounds.upper_qps);
                // Greater loads may have met the goal, but count for nothing above one that missed it.
                let missed = |qps: f64| {
                    format!(
                        "no load is known to hold: a trial at {}, the least that was tried, missed the goal",
                        (self.rate)(qps)
                    )
                };
                least_qps.map_or("no load was tried without the host disturbing it".to_owned(), missed)
            }
        }
    }

    fn upper(self, bounds: &Bounds) -> Option<String> {
        // If no load met the goal, the first part already says so.
        bounds.lower_qps.or(bounds.met_qps).or(bounds.refuted_qps)?;
        let missed = if self.is_claimed { "did not hold" } else { "missed the goal" };
        let other_than_refuted =
            bounds.missed_qps.filter(|missed_qps| Some(*missed_qps) != bounds.refuted_qps);
        match (bounds.upper_qps, other_than_refuted) {
            (Some(upper_qps), _) => Some(format!("{} {missed}", (self.rate)(upper_qps))),
            (None, Some(missed_qps)) => {
                Some(format!("a trial at {} missed the goal", (self.rate)(missed_qps)))
            }
            (None, None) if bounds.lower_qps.is_some() => Some("no greater load was too much".to_owned()),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_above_one_that_missed_the_goal_are_not_said_to_have_missed_it() {
        let rate = |qps: f64| format!("{qps} q/s");
        let wording = Wording { rate: &rate, is_claimed: false };
        let bounds = Bounds { missed_qps: Some(30_868.0), ..Bounds::default() };
        assert_eq!(
            wording.bounds(&bounds, true),
            "no load is known to hold: a trial at 30868 q/s, the least that was tried, missed the goal"
        );
        let none = "no load was tried without the host disturbing it";
        assert_eq!(wording.bounds(&Bounds::default(), true), none);
    }
}
