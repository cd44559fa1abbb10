//! Simulated series with known constants: the intervals hold the truth as often as they say.

use fastrand::Rng;
use kqps_verdict::scaling::{Law, RatesAt, ScalingFit, fit};

/// The numbers of workers of a series.
const SIZES: [&[u32]; 4] =
    [&[1, 2, 3, 4, 5, 6, 7, 8], &[1, 2, 4, 6, 8, 12], &[1, 2, 4, 8, 16, 32], &[2, 4, 8, 16, 24, 32, 48, 64]];

/// The fewest and the most starts of each cell.
const STARTS: std::ops::RangeInclusive<usize> = 5..=10;

/// The range in which starts scatter, as the standard deviation of logarithms.
const SCATTER: (f64, f64) = (0.003, 0.03);

/// The range of contention, and that of the peak as a multiple of the most workers.
const CONTENTION: (f64, f64) = (0.02, 0.3);
const PEAK: (f64, f64) = (0.6, 3.0);

/// The kinds of numbers that a fit gives with an interval.
const NUMBERS: [&str; 4] = ["contention", "coherency", "peak", "rate beyond"];

fn between(rng: &mut Rng, (least, most): (f64, f64)) -> f64 {
    least * (most / least).powf(rng.f64())
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// The law and the starts of one series.
fn series(seed: u64) -> (Law, Vec<RatesAt>) {
    let mut rng = Rng::with_seed(seed);
    let sizes = SIZES[rng.usize(..SIZES.len())];
    let most = f64::from(sizes[sizes.len() - 1]);
    let contention = between(&mut rng, CONTENTION);
    let coherency = (1.0 - contention) / (most * between(&mut rng, PEAK)).powi(2);
    let law = Law { alone_qps: between(&mut rng, (1e3, 1e6)), contention, coherency };
    let (starts, scatter) = (rng.usize(STARTS), between(&mut rng, SCATTER));
    let rates = sizes.iter().map(|workers| {
        let rate_qps = law.rate_qps(f64::from(*workers));
        let starts_qps = (0..starts).map(|_| rate_qps * (scatter * normal(&mut rng)).exp()).collect();
        RatesAt { workers: *workers, starts_qps }
    });
    (law, rates.collect())
}

/// Whether the interval of each of [`NUMBERS`] holds the truth.
fn holding(law: &Law, fit: &ScalingFit) -> [bool; 4] {
    let (contention, coherency) = (fit.contention.range.unwrap(), fit.coherency.range.unwrap());
    let (peak, range) = (law.peak_workers().unwrap(), fit.peak.range.unwrap());
    let beyond = &fit.beyond[0];
    let truth_qps = law.rate_qps(beyond.workers);
    [
        (contention.low..=contention.high).contains(&law.contention),
        (coherency.low..=coherency.high).contains(&law.coherency),
        range.low.is_some_and(|low| low <= peak) && range.high.is_none_or(|high| peak <= high),
        beyond.low_qps.unwrap() <= truth_qps && beyond.high_qps.is_none_or(|high| truth_qps <= high),
    ]
}

/// The number of series: a few in the tests, and a thousand with `KQPS_RUNS=1000`.
fn runs() -> u64 {
    std::env::var("KQPS_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// The share of the series in which each interval holds the truth.
fn shares(runs: u64) -> [f64; 4] {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let of_core = |core: u64| {
        (core..runs).step_by(cores as usize).fold([0_u32; 4], |mut counts, seed| {
            let (law, rates) = series(seed);
            let held = holding(&law, &fit(&rates, 0.0, seed).unwrap());
            counts.iter_mut().zip(held).for_each(|(count, held)| *count += u32::from(held));
            counts
        })
    };
    let counts: Vec<[u32; 4]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || of_core(core))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no fit panics")).collect()
    });
    std::array::from_fn(|at| f64::from(counts.iter().map(|of| of[at]).sum::<u32>()) / runs as f64)
}

#[test]
fn the_intervals_hold_the_truth_as_often_as_they_say() {
    let runs = runs();
    // With so few series, the share may be off by three standard deviations of a count.
    let slack = if runs < 1000 { 3.0 * (0.95 * 0.05 / runs as f64).sqrt() } else { 0.0 };
    let bounds = (0.93 - slack)..=(0.97 + slack).min(1.0);
    let shares = shares(runs);
    for (what, share) in NUMBERS.iter().zip(shares) {
        println!("{what}: {:.1} % hold the truth", share * 100.0);
    }
    for (what, share) in NUMBERS.iter().zip(shares) {
        assert!(bounds.contains(&share), "{what}: {share}");
    }
}
