//! Subjects that exist only as a formula, and a search against them. `python/compare.py` has the same
//! formulas, so that another implementation can search the same subjects.

use kqps_observation::run::Purpose;
use kqps_verdict::search::{Bounds, Goal, Next, Probe, Start, bounds_found, next_trial};
use serde::Serialize;

/// The loss of a subject as a function of its load.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shape {
    /// Nothing up to the capacity, and everything above.
    Sharp,
    /// A little from 90 % of the capacity on, and everything above.
    Soft,
    /// As `Sharp`, with a capacity that varies from trial to trial by up to this share either way.
    Noisy(f64),
    /// As `Sharp`, and every trial begins with an empty buffer of this many packets.
    Buffered(f64),
    /// As `Sharp`, with 1 % lost between 60 and 65 % of the capacity.
    Gap,
    /// As `Sharp`, and one trial in ten loses 5 % at any load.
    Stalling,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Subject {
    pub(crate) shape: Shape,
    pub(crate) capacity_qps: f64,
    pub(crate) seed: u64,
}

/// A number from 0 to below 1. The same seed and index give the same number on every machine (`SplitMix64`).
pub(crate) fn chance(seed: u64, index: u64) -> f64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl Subject {
    pub(crate) fn new(shape: Shape, capacity_qps: f64, seed: u64) -> Self {
        Self { shape, capacity_qps, seed }
    }

    /// The bad ratio of the trial with this index.
    pub(crate) fn bad_ratio(&self, load_qps: f64, duration_s: f64, index: u64) -> f64 {
        let over = |capacity_qps: f64| (1.0 - capacity_qps / load_qps).max(0.0);
        let capacity_qps = self.capacity_qps;
        match self.shape {
            Shape::Soft => {
                let above = (load_qps / capacity_qps - 0.9).max(0.0);
                over(capacity_qps).max((above * above).min(1.0))
            }
            Shape::Noisy(share) => {
                over(capacity_qps * (1.0 + share * (2.0 * chance(self.seed, index) - 1.0)))
            }
            Shape::Buffered(packets) => (over(capacity_qps) - packets / (load_qps * duration_s)).max(0.0),
            Shape::Gap if load_qps > 0.6 * capacity_qps && load_qps < 0.65 * capacity_qps => 0.01,
            Shape::Stalling if chance(self.seed, index) < 0.1 => over(capacity_qps).max(0.05),
            Shape::Sharp | Shape::Gap | Shape::Stalling => over(capacity_qps),
        }
    }

    /// The greatest load that meets a goal, which the bounds should enclose.
    pub(crate) fn truth_qps(&self, goal: &Goal) -> f64 {
        match self.shape {
            Shape::Soft => self.capacity_qps * (0.9 + goal.loss.sqrt()),
            _ => self.capacity_qps / (1.0 - goal.loss),
        }
    }
}

/// A trial of the search; it needs no drain if it lost nothing.
pub(crate) fn probe_of(load_qps: f64, duration_s: f64, bad_ratio: f64) -> Probe {
    Probe {
        load_qps,
        duration_s,
        wall_s: duration_s + if bad_ratio > 0.0 { 1.0 } else { 0.05 },
        bad_ratio,
        wrong_ratio: 0.0,
        too_slow: false,
        answered_qps: load_qps * (1.0 - bad_ratio),
        late_qps: 0.0,
        timeout_s: 0.25,
        under_way: None,
        purpose: Purpose::Search,
    }
}

/// A search that ended.
pub(crate) struct Searched {
    pub(crate) bounds: Bounds,
    pub(crate) probes: Vec<Probe>,
    /// Seconds that it would have taken, with a drain of one second after every trial that lost queries.
    pub(crate) wall_s: f64,
}

impl Searched {
    /// Whether the bounds enclose a load, within the rounding of loads.
    pub(crate) fn encloses(&self, load_qps: f64) -> bool {
        self.bounds.lower_qps.is_some_and(|lower_qps| lower_qps <= load_qps * 1.0005)
            && self.bounds.upper_qps.is_some_and(|upper_qps| upper_qps >= load_qps * 0.9995)
    }
}

/// Runs a search to its end. The overload answers `overload_share` of the subject's capacity.
pub(crate) fn search(goal: &Goal, start: &Start, subject: &Subject, overload_share: f64) -> Searched {
    let answer = |load_qps, duration_s, index| subject.bad_ratio(load_qps, duration_s, index);
    let buffer_packets = match subject.shape {
        Shape::Buffered(packets) => Some(packets),
        _ => None,
    };
    search_seen(goal, start, answer, subject.capacity_qps * overload_share, buffer_packets)
}

/// As [`search`], for any function from load, duration and index of the trial to its bad ratio.
pub(crate) fn search_with(
    goal: &Goal,
    start: &Start,
    bad_ratio: impl Fn(f64, f64, u64) -> f64,
    overload_qps: f64,
) -> Searched {
    search_seen(goal, start, bad_ratio, overload_qps, None)
}

/// As [`search_with`], with latencies that show this many packets in a full queue.
fn search_seen(
    goal: &Goal,
    start: &Start,
    bad_ratio: impl Fn(f64, f64, u64) -> f64,
    overload_qps: f64,
    buffer_packets: Option<f64>,
) -> Searched {
    let probe = |rate_qps, duration_s, index| {
        let bad_ratio = bad_ratio(rate_qps, duration_s, index);
        let under_way = buffer_packets.filter(|_| bad_ratio > 0.0);
        Probe { under_way, ..probe_of(rate_qps, duration_s, bad_ratio) }
    };
    search_probing(goal, start, probe, overload_qps)
}

/// As [`search_with`], for any function from load, duration and index of the trial to its probe.
pub(crate) fn search_probing(
    goal: &Goal,
    start: &Start,
    made: impl FnMut(f64, f64, u64) -> Probe,
    overload_qps: f64,
) -> Searched {
    let overload = Probe { answered_qps: overload_qps, ..probe_of(0.0, 0.0, 0.0) };
    search_after(goal, start, made, overload)
}

/// As [`search_probing`], after an overload with this probe, whatever its duration.
pub(crate) fn search_after(
    goal: &Goal,
    start: &Start,
    mut made: impl FnMut(f64, f64, u64) -> Probe,
    overload: Probe,
) -> Searched {
    let mut probes = Vec::new();
    let mut wall_s = 0.0;
    loop {
        let probe = match next_trial(goal, start, &probes) {
            Next::Done(bounds) => {
                let again = bounds_found(goal, &probes);
                assert_eq!(again, bounds, "stored trials are judged as the search did");
                return Searched { bounds, probes, wall_s };
            }
            Next::Overload { duration_s } => {
                Probe { duration_s, wall_s: duration_s + 0.05, purpose: Purpose::Ceiling, ..overload }
            }
            Next::Trial { rate_qps, duration_s, purpose } => {
                Probe { purpose, ..made(rate_qps, duration_s, probes.len() as u64) }
            }
        };
        wall_s += probe.wall_s;
        probes.push(probe);
    }
}
