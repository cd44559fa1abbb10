//! Finds the changes of a series, as E-divisive does, in windows of 50 points. A change needs a small chance in the
//! permutation test, and a magnitude that the points' scatter and the runs' own detectable effect allow to claim.

use std::collections::BTreeMap;

use crate::chance::chance;
use crate::divergence::{Divergence, SIDE};
use crate::level::{Difference, ERRORS_LEAST, Spread};
use crate::median::median;
use crate::outlier::{self, usual_scatter};

/// The number of points that are tested together.
pub(crate) const WINDOW: usize = 50;

/// A series with fewer points is not tested.
pub(crate) const LEAST: usize = 8;

/// The greatest chance of a weak change.
pub(crate) const WEAK: f64 = 0.05;

/// The points of two parts scatter by at least this part of the usual scatter. The usual scatter itself is known no
/// better than to a third or so.
const USUAL_PART: f64 = 0.7;

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The logarithm of the figure.
    pub log: f64,
    /// The minimum detectable effect of its run, a share, if it is known.
    pub mde: Option<f64>,
}

/// A change between two points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The index of the first point after it; of a creep, that of its first point.
    pub at: usize,
    /// The level after it minus that before it, as logarithms.
    pub by: f64,
    /// Half the width of the interval of `by`, which covers the truth in 95 of 100 cases.
    pub reach: f64,
    /// The probability that points without a change diverge as much in the permutation test, 0 to 1.
    pub chance: f64,
    /// The value of `chance`, or more if levels with this scatter may differ as much at any place and in any of the
    /// looks that a growing series has had so far. It decides whether the change is strong.
    pub chance_over_time: f64,
    /// The least magnitude that could be claimed, a share: the greater of what the points' scatter allows to detect and
    /// the median of the runs' own effects.
    pub mde: f64,
}

/// The changes of a series in the order of its points, which are of one host. Single outliers count in no level.
/// `permutations` of the points are tried at most for each. The result depends on the arguments alone.
pub fn find(samples: &[Sample], permutations: u32, seed: u64) -> Vec<ChangePoint> {
    Finder::default().find(samples, permutations, seed)
}

/// Finds the changes of a series that grows, and remembers the chances of the parts that stayed as they were.
#[derive(Debug, Default)]
pub struct Finder {
    divergence: Divergence,
    /// Permutations, seed and the points as bits → chance.
    chances: BTreeMap<(u32, u64, Vec<u64>), f64>,
}

impl Finder {
    /// As [`find`], with the same result.
    pub fn find(&mut self, samples: &[Sample], permutations: u32, seed: u64) -> Vec<ChangePoint> {
        let all = logs(samples);
        let counted = outlier::others(&all);
        let kept: Vec<Sample> = counted.iter().map(|at| samples[*at]).collect();
        let samples = &kept[..];
        let usual = scatter_least(&logs(samples));
        let mut search =
            Search { samples, all: &all, counted: &counted, usual, permutations, seed, finder: self };
        let mut places: Vec<(usize, f64)> = Vec::new();
        let mut start = 0;
        while samples.len() - start >= LEAST {
            let end = (start + WINDOW).min(samples.len());
            let found = search.within(start, end);
            match found.last() {
                Some(&(last, _)) => start = last,
                None if end == samples.len() => break,
                None => start += WINDOW / 2,
            }
            places.extend(found);
        }
        let mut found = search.settled(places);
        for one in &mut found {
            one.at = counted[one.at];
        }
        found
    }

    fn chance(&mut self, logs: &[f64], divergence: f64, permutations: u32, seed: u64) -> f64 {
        let key = (permutations, seed, logs.iter().map(|log| log.to_bits()).collect());
        let sums = &mut self.divergence;
        *self.chances.entry(key).or_insert_with(|| {
            chance(logs, divergence, permutations, WEAK, seed, |points, limit| sums.reaches(points, limit))
        })
    }
}

pub(crate) fn logs(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.log).collect()
}

/// The least scatter of any part of these points.
pub(crate) fn scatter_least(logs: &[f64]) -> f64 {
    USUAL_PART * usual_scatter(logs)
}

/// The difference with the least magnitude that can be claimed, a share, if the scatter of the points and the MDE of
/// their runs allow to claim it.
pub(crate) fn claimed(difference: Difference, samples: &[Sample]) -> Option<(Difference, f64)> {
    if difference.errors() < ERRORS_LEAST {
        return None;
    }
    let of_runs = median(samples.iter().filter_map(|sample| sample.mde)).map_or(0.0, f64::ln_1p);
    let detectable = difference.detectable();
    let is_claimed = difference.by.abs() >= detectable && difference.by.abs() + difference.reach() >= of_runs;
    is_claimed.then(|| (difference, detectable.max(of_runs).exp_m1()))
}

/// Whether on each side at least three points are nearer to the level of their own side. Two points far away and a usual
/// one are no side.
fn are_apart(before: &[Sample], after: &[Sample]) -> bool {
    let level = |part: &[Sample]| median(part.iter().map(|sample| sample.log)).unwrap_or(0.0);
    let (earlier, later) = (level(before), level(after));
    let middle = f64::midpoint(earlier, later);
    let near = |part: &[Sample], own: f64| {
        part.iter().filter(|sample| (sample.log - middle) * (own - middle) > 0.0).count()
    };
    near(before, earlier) >= SIDE && near(after, later) >= SIDE
}

struct Search<'a> {
    /// The points that count.
    samples: &'a [Sample],
    /// All points, single outliers too.
    all: &'a [f64],
    /// The index of each point that counts among all.
    counted: &'a [usize],
    /// The least scatter of any part.
    usual: f64,
    permutations: u32,
    seed: u64,
    finder: &'a mut Finder,
}

impl<'a> Search<'a> {
    /// The changes between two places, each with its chance.
    fn within(&mut self, start: usize, end: usize) -> Vec<(usize, f64)> {
        let Some((at, chance)) = self.strongest(start, end) else { return Vec::new() };
        let mut found = self.within(start, at);
        found.push((at, chance));
        found.extend(self.within(at, end));
        found
    }

    /// The strongest change between two places, if it is one.
    fn strongest(&mut self, start: usize, end: usize) -> Option<(usize, f64)> {
        if end - start < LEAST {
            return None;
        }
        let best = self.finder.divergence.best(&logs(&self.samples[start..end]))?;
        let at = start + best.at;
        self.claimed(start, at, start + best.end)?;
        let seed = self.seed ^ ((start as u64) << 32);
        let all = self.between(start, end);
        let chance = self.finder.chance(all, best.divergence, self.permutations, seed);
        (chance <= WEAK).then_some((at, chance))
    }

    /// All points from one that counts to another, with the single outliers between them. Outliers at an end of the series
    /// are with its first or last part.
    fn between(&self, start: usize, end: usize) -> &'a [f64] {
        let first = if start == 0 { 0 } else { self.counted[start] };
        let last = self.counted.get(end).map_or(self.all.len(), |at| *at);
        &self.all[first..last]
    }

    /// The difference between two neighbouring parts with the least magnitude that can be claimed, a share. `None` if the
    /// difference is smaller.
    fn claimed(&self, start: usize, at: usize, end: usize) -> Option<(Difference, f64)> {
        let (before, after) = (&self.samples[start..at], &self.samples[at..end]);
        if before.len() < SIDE || after.len() < SIDE {
            return None;
        }
        if !are_apart(before, after) {
            return None;
        }
        let level = |part: &[Sample]| Spread::from_logs(part.iter().map(|sample| sample.log));
        claimed(level(before).to(&level(after), self.usual), &self.samples[start..end])
    }

    /// The changes with the levels up to the next change on each side. With these levels some may be too small, so the
    /// smallest goes until none is.
    fn settled(&self, mut places: Vec<(usize, f64)>) -> Vec<ChangePoint> {
        loop {
            let count = places.len();
            let ends = |index: usize| {
                let start = if index == 0 { 0 } else { places[index - 1].0 };
                let end = if index + 1 == count { self.samples.len() } else { places[index + 1].0 };
                (start, places[index].0, end)
            };
            let claimed: Vec<_> = (0..count)
                .map(|index| {
                    let (start, at, end) = ends(index);
                    self.claimed(start, at, end)
                })
                .collect();
            if let Some(unclaimed) = claimed.iter().position(Option::is_none) {
                places.remove(unclaimed);
                continue;
            }
            return places
                .iter()
                .zip(claimed.into_iter().flatten())
                .map(|(&(at, chance), (difference, mde))| self.found(at, chance, difference, mde))
                .collect();
        }
    }

    fn found(&self, at: usize, chance: f64, difference: Difference, mde: f64) -> ChangePoint {
        // Every place was looked at every time that the series grew. If each look at `count` points has this share, the
        // sum of `count / looks` over all lengths from 8 on stays below a half, however long the series becomes.
        let count = self.samples.len() as f64;
        let looks = (count * count.ln()).powi(2);
        ChangePoint {
            at,
            by: difference.by,
            reach: difference.reach(),
            chance,
            chance_over_time: (difference.chance() * looks).min(1.0).max(chance),
            mde,
        }
    }
}
