//! Decides whether a subject has warmed up: its answered rate, second by second, no longer climbs, falls or
//! jumps.
//!
//! Scatter is not change. A slope or a step is real if it is large enough to matter, and larger than the
//! scatter of the bins explains.

use kqps_catalogue::setting::STEADY_BINS;
use kqps_observation::run::Role;
use kqps_observation::trial::Interval;
use kqps_observation::{Cell, Run, Trial};

use crate::mean::{mean, squares};

/// The number of one-second bins that are examined, from the end.
pub const BINS: usize = STEADY_BINS as usize;

/// Seconds of a trial on the way to a steady state: the bins that are judged, and a second to start.
pub const STEP_S: f64 = BINS as f64 + 1.0;

/// A change of less than this share of the mean does not matter.
const CHANGE_LEAST: f64 = 0.01;

/// A slope is real from this many of its standard errors on: 1.7 % of flat series with 8 degrees of freedom
/// reach it by chance.
const SLOPE_ERRORS: f64 = 3.0;

/// A step may be found at several places, at each of them by chance, so it must be clearer.
const STEP_ERRORS: f64 = 4.0;

/// The least number of bins on either side of a step.
const SIDE: usize = 3;

/// The verdict on the last bins of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Steadiness {
    /// The rate is steady.
    Steady,
    /// The rate climbs or falls by this share of its mean from the first bin to the last.
    Slope(f64),
    /// The rate jumped by this share of its mean.
    Step(f64),
    /// There are too few bins, or nothing was answered.
    Unknown,
}

/// The longest warm-up for a steady state, seconds; `None` if the cell asks for none, or for one that is too short to judge.
pub fn longest_s(cell: &Cell) -> Option<f64> {
    cell.factors.steady_s().filter(|longest_s| *longest_s >= STEP_S)
}

/// Whether a cell is a resolver whose first load finds nothing in its cache.
pub fn begins_cold(cell: &Cell) -> bool {
    cell.role == Role::Subject && cell.factors.asks_by_popularity() && longest_s(cell).is_none()
}

/// The full seconds of a trial. Answers after the last query fall into a bin of their own, which would look
/// like a collapse.
pub fn full_bins(trial: &Trial) -> &[Interval] {
    let is_full = |bin: &&Interval| bin.at_s as f64 <= trial.load.duration_s + 0.01;
    &trial.intervals[..trial.intervals.iter().take_while(is_full).count()]
}

/// Judges the last [`BINS`] of a series of correct replies a second.
pub fn steadiness(bins: &[Interval]) -> Steadiness {
    let Some(first) = bins.len().checked_sub(BINS) else { return Steadiness::Unknown };
    let rates: Vec<f64> = bins[first..].iter().map(|bin| bin.correct as f64).collect();
    let mean = mean(&rates);
    if mean <= 0.0 {
        return Steadiness::Unknown;
    }
    let matters = |found: &RateChange| (found.change / mean).abs() >= CHANGE_LEAST;
    let slope = slope(&rates).filter(matters);
    let slope = slope.map(|found| (Steadiness::Slope(found.change / mean), found.rest));
    let step = step(&rates).filter(matters);
    let step = step.map(|found| (Steadiness::Step(found.change / mean), found.rest));
    // A climb contains a step, and a jump a slope. The one that leaves less unexplained is the right one.
    let found = [slope, step].into_iter().flatten().min_by(|(_, a), (_, b)| a.total_cmp(b));
    found.map_or(Steadiness::Steady, |(steadiness, _)| steadiness)
}

/// A change that scatter does not explain.
#[derive(Clone, Copy)]
struct RateChange {
    /// Correct replies a second.
    change: f64,
    /// The sum of squares that the change does not explain.
    rest: f64,
}

/// The change from first to last along the least-squares line, if scatter does not explain it.
fn slope(rates: &[f64]) -> Option<RateChange> {
    let (count, mean) = (rates.len() as f64, mean(rates));
    let from_centre = |index: usize| index as f64 - (count - 1.0) / 2.0;
    let squares: f64 = (0..rates.len()).map(|index| from_centre(index).powi(2)).sum();
    let along: f64 = rates.iter().enumerate().map(|(index, rate)| from_centre(index) * (rate - mean)).sum();
    let slope = along / squares;
    let rest: f64 = rates
        .iter()
        .enumerate()
        .map(|(index, rate)| (rate - mean - slope * from_centre(index)).powi(2))
        .sum();
    let error = (rest / (count - 2.0) / squares).sqrt();
    (slope.abs() > SLOPE_ERRORS * error).then_some(RateChange { change: slope * (count - 1.0), rest })
}

/// The difference between the means before and after the bin that explains most, if scatter does not explain
/// it.
fn step(rates: &[f64]) -> Option<RateChange> {
    let steps = (SIDE..=rates.len() - SIDE).map(|at| {
        let (before, after) = rates.split_at(at);
        let rest = squares(before) + squares(after);
        let error = (rest / (rates.len() as f64 - 2.0)
            * (1.0 / before.len() as f64 + 1.0 / after.len() as f64))
            .sqrt();
        (RateChange { change: mean(after) - mean(before), rest }, error)
    });
    let clear = steps.filter(|(step, error)| step.change.abs() > STEP_ERRORS * error);
    clear.map(|(step, _)| step).min_by(|a, b| a.rest.total_cmp(&b.rest))
}

/// The sentence about a run in which some subjects were not warmed up until their rate was steady; `None` if
/// all were.
pub fn not_looked_for(run: &Run) -> Option<String> {
    let subjects = || run.cells.iter().filter(|cell| cell.role == Role::Subject);
    let (all, looked_for) =
        (subjects().count(), subjects().filter(|cell| cell.factors.steady_s().is_some()).count());
    match looked_for {
        _ if looked_for == all => None,
        0 => Some("A steady state was not looked for: every start was warmed up for a moment only.".into()),
        some => Some(format!("A steady state was looked for in {some} of {all} cells only.")),
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::factors::name;
    use kqps_observation::{Cell, Factors};

    use super::*;

    fn bins(rate: impl Fn(usize) -> f64, count: usize) -> Vec<Interval> {
        let bin = |index| Interval { at_s: index as u64 + 1, sent: 0, correct: rate(index) as u64 };
        (0..count).map(bin).collect()
    }

    #[test]
    fn where_it_was_not_looked_for_is_said() {
        let cell = |steady: bool| {
            let word = steady.then(|| (name::STEADY.to_owned(), "60s".to_owned()));
            Cell { factors: Factors::read(word).unwrap(), ..Cell::default() }
        };
        let said = |cells: &[bool]| {
            not_looked_for(&Run {
                cells: cells.iter().map(|steady| cell(*steady)).collect(),
                ..Run::default()
            })
        };
        assert!(said(&[false, false]).unwrap().contains("was not looked for"));
        assert!(said(&[true, false]).unwrap().contains("in 1 of 2 cells only"));
        assert_eq!(said(&[true]), None);
    }

    #[test]
    fn flat_noise_is_steady() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut steady = 0;
        for _ in 0..1000 {
            let noise: Vec<f64> =
                (0..BINS).map(|_| (0..12).map(|_| random.f64()).sum::<f64>() - 6.0).collect();
            let bins = bins(|index| 100_000.0 * (1.0 + 0.03 * noise[index]), BINS);
            steady += u32::from(steadiness(&bins) == Steadiness::Steady);
        }
        assert!(steady >= 930, "{steady} of 1000");
        assert_eq!(steadiness(&bins(|_| 50_000.0, 30)), Steadiness::Steady);
    }

    #[test]
    fn a_ramp_is_a_slope_once_it_matters() {
        let ramp = |share: f64| move |index: usize| 1e6 * (1.0 + share * index as f64 / 9.0);
        assert_eq!(steadiness(&bins(ramp(0.005), BINS)), Steadiness::Steady);
        for share in [0.015, 0.1, -0.1] {
            let found = steadiness(&bins(ramp(share), BINS));
            let Steadiness::Slope(by) = found else { panic!("{share}: {found:?}") };
            assert!((by / share - 1.0).abs() < 0.1, "{share}: {found:?}");
        }
    }

    #[test]
    fn a_jump_is_a_step_until_it_has_passed() {
        let jump = |index: usize| if index < 5 { 100_000.0 } else { 110_000.0 };
        assert!(matches!(steadiness(&bins(jump, BINS)), Steadiness::Step(by) if (by - 0.095).abs() < 0.005));
        assert_eq!(steadiness(&bins(jump, 15)), Steadiness::Steady, "ten seconds later it is over");
    }

    #[test]
    fn too_little_is_not_judged() {
        assert_eq!(steadiness(&bins(|_| 1000.0, BINS - 1)), Steadiness::Unknown);
        assert_eq!(steadiness(&bins(|_| 0.0, BINS)), Steadiness::Unknown);
    }

    #[test]
    fn the_drain_is_no_full_second() {
        let mut trial = Trial { intervals: bins(|_| 1000.0, 12), ..Trial::default() };
        trial.load.duration_s = 11.0;
        assert_eq!(full_bins(&trial).len(), 11);
        trial.load.duration_s = 0.3;
        assert!(full_bins(&trial).is_empty());
    }
}
