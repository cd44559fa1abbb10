//! Chooses the load that refines an estimate: one beside it, at a distance at which the trial may well go
//! either way.

use super::Estimate;
use crate::search::Goal;

/// The greatest distance of such a load from the estimate, as a share. Even for a vague estimate, a load this
/// far away shows whether it is too high or too low.
const AWAY_MOST: f64 = 0.1;

/// A load beside an estimate, queries a second. It alternates between below and above with the number of loads
/// that were played already. Its distance is a standard deviation of the estimate, at most 10 % of it, and at
/// least the goal's width. `None` once the estimate is as close as the goal asks.
pub fn load_beside(goal: &Goal, estimate: &Estimate, played: usize) -> Option<f64> {
    let interval = estimate.interval();
    let spread = (interval.high - interval.low) / interval.median;
    // An interval of 95 % is about four standard deviations wide.
    let away = (spread / 4.0).min(AWAY_MOST).max(goal.width);
    let factor = if played.is_multiple_of(2) { 1.0 - away } else { 1.0 + away };
    (spread > goal.width).then(|| goal.round_load(interval.median * factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Evidence::{self, Answered, Met, Missed};
    use crate::search::Preset;

    fn estimate(trials: &[Evidence]) -> Estimate {
        Estimate::from_starts(&[trials.to_vec()]).unwrap()
    }

    /// The distance of the load from the median, as a share of it; positive if the load is greater.
    fn away(estimate: &Estimate, played: usize) -> Option<f64> {
        let load_qps = load_beside(&Preset::Quick.goal(), estimate, played);
        load_qps.map(|load_qps| load_qps / estimate.interval().median - 1.0)
    }

    /// The interval's width as a share of the median.
    fn spread(estimate: &Estimate) -> f64 {
        let interval = estimate.interval();
        (interval.high - interval.low) / interval.median
    }

    fn near(value: f64, wanted: f64) -> bool {
        // Loads are rounded to four digits.
        (value - wanted).abs() < 0.001
    }

    #[test]
    fn it_is_below_and_above_in_turn_by_a_quarter_of_the_range() {
        let estimate = estimate(&[Met(90e3), Missed(110e3), Met(96e3), Missed(104e3)].repeat(2));
        let quarter = spread(&estimate) / 4.0;
        assert!((0.02..0.1).contains(&quarter), "{quarter}");
        for played in [0, 2, 8] {
            assert!(near(away(&estimate, played).unwrap(), -quarter), "{played}");
            assert!(near(away(&estimate, played + 1).unwrap(), quarter), "{played}");
        }
    }

    #[test]
    fn it_is_a_tenth_away_at_most() {
        let estimate = estimate(&[Met(50e3), Missed(100e3)]);
        assert!(spread(&estimate) > 0.4);
        assert!(near(away(&estimate, 0).unwrap(), -0.1) && near(away(&estimate, 1).unwrap(), 0.1));
    }

    #[test]
    fn it_is_as_far_away_as_the_goal_is_wide_at_least() {
        let estimate = estimate(&[[Met(98e3); 4], [Missed(102e3); 4]].concat());
        assert!((0.02..0.08).contains(&spread(&estimate)), "{}", spread(&estimate));
        assert!(near(away(&estimate, 0).unwrap(), -0.02) && near(away(&estimate, 1).unwrap(), 0.02));
    }

    #[test]
    fn an_estimate_as_close_as_the_goal_wants_needs_no_more() {
        let estimate = estimate(&[Answered(100e3); 50]);
        assert!(spread(&estimate) <= 0.02);
        assert_eq!(away(&estimate, 0), None);
    }
}
