//! A host that changes: it alternates between two speeds, stands still for moments, and has other programs on the core of
//! the servers.

use fastrand::Rng;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) changes_speed: bool,
    pub(crate) stands_still: bool,
    /// The share of the time during which other programs want the core, 0 to below 1. They come in bursts, and have the
    /// priority of a server that kqps did not start.
    pub(crate) beside: f64,
}

impl Kind {
    pub(crate) const QUIET: Self = Self { changes_speed: false, stands_still: false, beside: 0.0 };
}

/// A host over the time of a run. All times are seconds since the run began.
pub(crate) struct Host {
    /// When each speed began, and the speed.
    speeds: Vec<(f64, f64)>,
    /// When each standstill began, and when it ended.
    stalls: Vec<(f64, f64)>,
    /// When each burst of other programs began, and when it ended.
    bursts: Vec<(f64, f64)>,
}

/// A span of time in which a host did not change.
pub(crate) struct Piece {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// The speed as a multiple of the fast one.
    pub(crate) speed: f64,
    pub(crate) is_still: bool,
    /// Whether other programs want the core. A server that wants it, too, has it for half of the time.
    pub(crate) is_shared: bool,
}

/// The factor by which the slow speed is slower.
const SLOWER: f64 = 1.3;

/// Longer than any simulated run.
const END_S: f64 = 200.0;

/// The least and the greatest length of a standstill; there is one a second on average.
const STALL_LEAST_S: f64 = 0.001;
const STALL_MOST_S: f64 = 0.005;

/// The least and the greatest length of a burst of other programs.
const BURST_LEAST_S: f64 = 0.001;
const BURST_MOST_S: f64 = 0.3;

impl Piece {
    /// The part of the core's time that a busy server has.
    pub(crate) fn part(&self) -> f64 {
        match (self.is_still, self.is_shared) {
            (true, _) => 0.0,
            (false, true) => 0.5,
            (false, false) => 1.0,
        }
    }

    pub(crate) fn length_s(&self) -> f64 {
        self.to_s - self.from_s
    }
}

impl Host {
    pub(crate) fn new(rng: &mut Rng, kind: Kind) -> Self {
        let (mut at_s, mut is_fast) = (0.0, rng.bool());
        // A speed lasts from a second to a minute.
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
        Self { speeds, stalls, bursts: bursts(rng, kind.beside) }
    }

    /// The speed, apart from standstills, as a multiple of the fast one.
    pub(crate) fn speed(&self, at_s: f64) -> f64 {
        let since = self.speeds.partition_point(|(began_s, _)| *began_s <= at_s);
        self.speeds[since.max(1) - 1].1
    }

    /// The standstills in a span: begin and end.
    pub(crate) fn stalls(&self, from_s: f64, to_s: f64) -> &[(f64, f64)] {
        within(&self.stalls, from_s, to_s)
    }

    /// A span cut into pieces, also at the given times.
    pub(crate) fn pieces(&self, from_s: f64, to_s: f64, cuts_s: impl Iterator<Item = f64>) -> Vec<Piece> {
        let (stalls, bursts) = (self.stalls(from_s, to_s), within(&self.bursts, from_s, to_s));
        let mut cuts_s: Vec<f64> = cuts_s.chain([from_s, to_s]).collect();
        cuts_s.extend(self.speeds.iter().map(|(began_s, _)| *began_s));
        cuts_s.extend(stalls.iter().chain(bursts).flat_map(|(at_s, until_s)| [*at_s, *until_s]));
        cuts_s.retain(|at_s| (from_s..=to_s).contains(at_s));
        cuts_s.sort_by(f64::total_cmp);
        let piece = |ends: &[f64]| {
            let middle_s = f64::midpoint(ends[0], ends[1]);
            let is_in = |(at_s, until_s): &(f64, f64)| (*at_s..*until_s).contains(&middle_s);
            Piece {
                from_s: ends[0],
                to_s: ends[1],
                speed: self.speed(middle_s),
                is_still: stalls.iter().any(is_in),
                is_shared: bursts.iter().any(is_in),
            }
        };
        cuts_s.windows(2).map(piece).collect()
    }
}

/// Bursts of other programs that want the core during this share of the time, as `kqps` proofs plant them.
fn bursts(rng: &mut Rng, share: f64) -> Vec<(f64, f64)> {
    let (mut bursts, mut at_s) = (Vec::new(), if share > 0.0 { 0.0 } else { END_S });
    while at_s < END_S {
        let burst_s = BURST_LEAST_S * (BURST_MOST_S / BURST_LEAST_S).powf(rng.f64());
        at_s += burst_s * (1.0 - share) / share * (0.5 + rng.f64());
        bursts.push((at_s, at_s + burst_s));
        at_s += burst_s;
    }
    bursts
}

/// The spans, in order of time and apart, that overlap a span.
fn within(spans: &[(f64, f64)], from_s: f64, to_s: f64) -> &[(f64, f64)] {
    let first = spans.partition_point(|(_, until_s)| *until_s <= from_s);
    let after = spans.partition_point(|(at_s, _)| *at_s < to_s);
    &spans[first..after.max(first)]
}

pub(crate) fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -(1.0 - rng.f64()).ln() * mean
}

pub(crate) fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}
