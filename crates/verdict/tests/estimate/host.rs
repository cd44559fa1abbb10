//! A host with changing speed: it alternates between two speeds, and stands still for moments.

use fastrand::Rng;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) changes_speed: bool,
    pub(crate) stands_still: bool,
}

/// A host over the time of a run. All times are seconds since the run began.
pub(crate) struct Host {
    /// When each speed began, and the speed.
    speeds: Vec<(f64, f64)>,
    /// When each standstill began, and when it ended.
    stalls: Vec<(f64, f64)>,
}

/// A span of time in which a host did not change.
pub(crate) struct Piece {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// The speed as a multiple of the fast one.
    pub(crate) speed: f64,
    pub(crate) is_still: bool,
}

/// The factor by which the slow speed is slower.
const SLOWER: f64 = 1.3;

/// Longer than any simulated run.
const END_S: f64 = 200.0;

/// The least and the greatest length of a standstill; there is one a second on average.
const STALL_LEAST_S: f64 = 0.001;
const STALL_MOST_S: f64 = 0.005;

impl Host {
    pub(crate) fn new(rng: &mut Rng, kind: Kind) -> Self {
        let (mut at_s, mut is_fast) = (0.0, rng.bool());
        // One speed lasts from a second to a minute.
        let dwell_s = 60f64.powf(rng.f64());
        let mut speeds = Vec::new();
        while at_s < END_S {
            speeds.push((at_s, if is_fast || !kind.changes_speed { 1.0 } else { 1.0 / SLOWER }));
            at_s += exponential(rng, dwell_s).max(0.2);
            is_fast = !is_fast;
        }
        let (mut stalls, mut at_s) = (Vec::new(), if kind.stands_still { 0.0 } else { END_S });
        while at_s < END_S {
            at_s += exponential(rng, 1.0);
            let until_s = at_s + STALL_LEAST_S + (STALL_MOST_S - STALL_LEAST_S) * rng.f64();
            stalls.push((at_s, until_s));
            at_s = until_s;
        }
        Self { speeds, stalls }
    }

    /// The speed, apart from standstills, as a multiple of the fast one.
    pub(crate) fn speed(&self, at_s: f64) -> f64 {
        let since = self.speeds.partition_point(|(began_s, _)| *began_s <= at_s);
        self.speeds[since.max(1) - 1].1
    }

    /// The standstills in a span: begin and end.
    pub(crate) fn stalls(&self, from_s: f64, to_s: f64) -> &[(f64, f64)] {
        let first = self.stalls.partition_point(|(_, until_s)| *until_s <= from_s);
        let after = self.stalls.partition_point(|(at_s, _)| *at_s < to_s);
        &self.stalls[first..after.max(first)]
    }

    /// A span cut into pieces, also at the given times.
    pub(crate) fn pieces(&self, from_s: f64, to_s: f64, cuts_s: impl Iterator<Item = f64>) -> Vec<Piece> {
        let stalls = self.stalls(from_s, to_s);
        let mut cuts_s: Vec<f64> = cuts_s.chain([from_s, to_s]).collect();
        cuts_s.extend(self.speeds.iter().map(|(began_s, _)| *began_s));
        cuts_s.extend(stalls.iter().flat_map(|(at_s, until_s)| [*at_s, *until_s]));
        cuts_s.retain(|at_s| (from_s..=to_s).contains(at_s));
        cuts_s.sort_by(f64::total_cmp);
        let piece = |ends: &[f64]| {
            let middle_s = f64::midpoint(ends[0], ends[1]);
            let is_still = stalls.iter().any(|(at_s, until_s)| (*at_s..*until_s).contains(&middle_s));
            Piece { from_s: ends[0], to_s: ends[1], speed: self.speed(middle_s), is_still }
        };
        cuts_s.windows(2).map(piece).collect()
    }
}

pub(crate) fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -(1.0 - rng.f64()).ln() * mean
}

pub(crate) fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}
