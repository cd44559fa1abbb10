//! Simulated series: figures of runs on a host with the usual disturbances.

use kqps_history::{ChangePoint, Finder, LAST, Sample, creep, find};

/// A strong change has a smaller chance, if the series is the only one.
const STRONG: f64 = 0.05;

/// A run with ten blocks detects a difference of this many standard deviations of its figure.
const DETECTS: f64 = 5.08;

/// How the figures of a host scatter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) name: &'static str,
    /// Standard deviation of the logarithms from run to run.
    pub(crate) spread: f64,
    /// The MDE that each run states, a share.
    pub(crate) mde: Option<f64>,
    /// The share of runs that lose 5 to 30 %.
    pub(crate) disturbed: f64,
    /// Figures are rounded to this step of their logarithm; 0 for no rounding.
    pub(crate) step: f64,
}

impl Host {
    /// Runs scatter as their MDE says.
    pub(crate) const CALM: Self =
        Self { name: "calm", spread: 0.048 / DETECTS, mde: Some(0.048), disturbed: 0.0, step: 0.0 };
    /// Runs scatter three times as much as their MDE says.
    pub(crate) const RESTLESS: Self = Self { name: "restless", spread: 0.144 / DETECTS, ..Self::CALM };
    /// A fiftieth of the runs is disturbed.
    pub(crate) const DISTURBED: Self = Self { name: "disturbed", disturbed: 0.02, ..Self::CALM };
    /// Figures without a known MDE, such as memory, which is often equal to the byte.
    pub(crate) const COARSE: Self = Self { name: "coarse", mde: None, step: 0.01, ..Self::CALM };
    pub(crate) const ALL: [Self; 4] = [Self::CALM, Self::RESTLESS, Self::DISTURBED, Self::COARSE];
}

/// A series of runs, of which those from `step_at` on have `step` times the figure.
pub(crate) fn series(host: Host, count: usize, step_at: usize, step: f64, seed: u64) -> Vec<Sample> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sample = |at: usize| {
        // The Box-Muller transform.
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
        let is_disturbed = random.f64() < host.disturbed;
        let loss = if is_disturbed { (0.95 - 0.25 * random.f64()).ln() } else { 0.0 };
        let level = if at >= step_at { step.ln() } else { 0.0 };
        let log = level + host.spread * normal + loss;
        Sample {
            log: if host.step > 0.0 { (log / host.step).round() * host.step } else { log },
            mde: host.mde,
        }
    };
    (0..count).map(&mut sample).collect()
}

/// The changes of a series.
pub(crate) fn changes(samples: &[Sample], permutations: u32) -> Vec<ChangePoint> {
    find(samples, permutations, 1)
}

/// Whether a change would raise an alarm by itself.
pub(crate) fn is_strong(found: &ChangePoint) -> bool {
    found.chance_over_time <= STRONG
}

/// How often series without a change showed one, however often somebody looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alarms {
    pub(crate) series: u32,
    /// Series with a strong change at any look.
    pub(crate) strong: u32,
    /// Series with a weak change at any look.
    pub(crate) weak: u32,
    /// Series with a strong change when all runs were there.
    pub(crate) at_last: u32,
}

/// Looks at stationary series whenever `every` runs came.
pub(crate) fn false_alarms(
    host: Host,
    permutations: u32,
    series_count: u32,
    points: usize,
    every: usize,
) -> Alarms {
    let mut alarms = Alarms { series: series_count, ..Alarms::default() };
    for seed in 0..series_count {
        let samples = series(host, points, usize::MAX, 1.0, u64::from(seed));
        let looks = (1..=points).filter(|look| look % every == 0 || *look == points);
        let mut finder = Finder::default();
        let found: Vec<Vec<ChangePoint>> =
            looks.map(|look| finder.find(&samples[..look], permutations, 1)).collect();
        alarms.weak += u32::from(found.iter().any(|found| !found.is_empty()));
        alarms.strong += u32::from(found.iter().flatten().any(is_strong));
        alarms.at_last += u32::from(found.last().is_some_and(|found| found.iter().any(is_strong)));
    }
    alarms
}

/// In how many series a step is found with three runs after it, at its place to one run: at all, and strong.
pub(crate) fn found_in_time(
    host: Host,
    permutations: u32,
    series_count: u32,
    before: usize,
    step: f64,
) -> (u32, u32) {
    let (mut weak, mut strong) = (0, 0);
    for seed in 0..series_count {
        let samples = series(host, before + 3, before, step, 1_000 + u64::from(seed));
        let looks = (before + 1)..=(before + 3);
        let found: Vec<ChangePoint> =
            looks.flat_map(|look| changes(&samples[..look], permutations)).collect();
        let is_right = |one: &&ChangePoint| one.at.abs_diff(before) <= 1 && (one.by < 0.0) == (step < 1.0);
        weak += u32::from(found.iter().any(|one| is_right(&one)));
        strong += u32::from(found.iter().filter(is_right).any(is_strong));
    }
    (weak, strong)
}

/// Hosts with two speeds: the part of the runs that is slower, and by how much.
pub(crate) const SPEEDS: [(f64, f64); 5] = [(0.5, 0.05), (0.2, 0.05), (0.5, 0.1), (0.2, 0.1), (0.1, 0.1)];

/// Series on hosts with two speeds in which something was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alarming {
    /// Series with a strong change.
    pub(crate) strong: u32,
    /// Series that end `check --fail-on slower:2%` with status 3.
    pub(crate) failing: u32,
}

/// Series without a change, of which a random part of the runs is slower.
pub(crate) fn two_speeds(
    part: f64,
    slower: f64,
    permutations: u32,
    series_count: u32,
    points: usize,
) -> Alarming {
    let mut all = Alarming::default();
    for seed in 0..series_count {
        let mut samples = series(Host::CALM, points, usize::MAX, 1.0, 20_000 + u64::from(seed));
        let mut random = fastrand::Rng::with_seed(u64::from(seed));
        let slow = (part * points as f64).round() as usize;
        for at in random.choose_multiple(0..points, slow) {
            samples[at].log += (1.0 - slower).ln();
        }
        let found = changes(&samples, permutations);
        let crept = creep(&samples, &found, permutations, 1);
        all.strong += u32::from(found.iter().chain(&crept).any(is_strong));
        all.failing += u32::from(fails(&found, crept.as_ref(), points));
    }
    all
}

/// In how many series `check --fail-on slower:2%` fails because of a creep, whose last run has `ends_at` times the figure
/// of the first one.
pub(crate) fn crept(host: Host, permutations: u32, series_count: u32, points: usize, ends_at: f64) -> u32 {
    let failing = |seed: u32| {
        let mut samples = series(host, points, usize::MAX, 1.0, 30_000 + u64::from(seed));
        for (at, sample) in samples.iter_mut().enumerate() {
            sample.log += f64::ln(ends_at) * at as f64 / (points - 1) as f64;
        }
        let found = changes(&samples, permutations);
        u32::from(creep(&samples, &found, permutations, 1).as_ref().is_some_and(is_slower))
    };
    (0..series_count).map(failing).sum()
}

/// Whether the newest step is strong, new and worse by 2 % for certain, or a creep is.
fn fails(found: &[ChangePoint], crept: Option<&ChangePoint>, points: usize) -> bool {
    let step = found.last().filter(|one| (points - one.at) as u64 <= LAST);
    step.into_iter().chain(crept).any(is_slower)
}

fn is_slower(found: &ChangePoint) -> bool {
    is_strong(found) && (found.by + found.reach).exp() <= 0.98
}
