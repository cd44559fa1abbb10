//! Simulated series with known constants, and how often the intervals of a fit hold the truth.

use std::ops::RangeInclusive;

use fastrand::Rng;
use kqps_verdict::scaling::{Law, RatesAt, ScalingFit, fit};

/// A kind of series.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// The numbers of workers, of which each series has one list.
    sizes: &'static [&'static [u32]],
    /// The fewest and the most starts of each number of workers.
    starts: RangeInclusive<usize>,
    /// Whether no worker waits for a pair of workers: then the rate rises with every worker.
    is_without_coherency: bool,
    /// The share by which the bounds of a search lie apart; 0 for a rate that is measured directly.
    width: f64,
    /// Whether intervals may hold the truth more often than they say. Those of few starts do, and so do those that are
    /// cut where the truth lies.
    pub(crate) may_be_wide: bool,
}

const LARGE: &[&[u32]] =
    &[&[1, 2, 3, 4, 5, 6, 7, 8], &[1, 2, 4, 6, 8, 12], &[1, 2, 4, 8, 16, 32], &[2, 4, 8, 16, 24, 32, 48, 64]];

/// The fewest sizes that a fit takes, as on a host with few cores.
const SMALL: &[&[u32]] = &[&[1, 2, 3, 4]];

pub(crate) const FAMILIES: [Family; 7] = [
    Family {
        name: "many sizes and starts",
        sizes: LARGE,
        starts: 5..=10,
        is_without_coherency: false,
        width: 0.0,
        may_be_wide: false,
    },
    Family { name: "four sizes, two starts", starts: 2..=2, ..FEW },
    Family { name: "four sizes, three starts", starts: 3..=3, ..FEW },
    Family { name: "four sizes, six starts", starts: 6..=6, ..FEW },
    Family { name: "no coherency", sizes: LARGE, starts: 3..=6, is_without_coherency: true, ..FEW },
    Family { name: "four sizes, no coherency", starts: 3..=6, is_without_coherency: true, ..FEW },
    Family { name: "searched rates", sizes: LARGE, starts: 3..=6, width: 0.02, ..FEW },
];

const FEW: Family = Family {
    name: "",
    sizes: SMALL,
    starts: 2..=6,
    is_without_coherency: false,
    width: 0.0,
    may_be_wide: true,
};

/// The range in which starts scatter, as the standard deviation of logarithms.
const SCATTER: (f64, f64) = (0.003, 0.03);

/// The range of contention, and that of the peak as a multiple of the most workers.
const CONTENTION: (f64, f64) = (0.02, 0.3);
const PEAK: (f64, f64) = (0.6, 3.0);

/// The kinds of numbers that a fit gives with an interval.
pub(crate) const NUMBERS: [&str; 4] = ["contention", "coherency", "peak", "rate beyond"];

fn between(rng: &mut Rng, (least, most): (f64, f64)) -> f64 {
    least * (most / least).powf(rng.f64())
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

impl Family {
    /// The law and the starts of one series.
    fn series(&self, seed: u64) -> (Law, Vec<RatesAt>) {
        let mut rng = Rng::with_seed(seed);
        let sizes = self.sizes[rng.usize(..self.sizes.len())];
        let most = f64::from(sizes[sizes.len() - 1]);
        let contention = between(&mut rng, CONTENTION);
        let peak = most * between(&mut rng, PEAK);
        let coherency = if self.is_without_coherency { 0.0 } else { (1.0 - contention) / peak.powi(2) };
        let law = Law { alone_qps: between(&mut rng, (1e3, 1e6)), contention, coherency };
        let (starts, scatter) = (rng.usize(self.starts.clone()), between(&mut rng, SCATTER));
        let rates = sizes.iter().map(|workers| {
            let rate_qps = law.rate_qps(f64::from(*workers));
            let starts_qps = (0..starts).map(|_| {
                let start_qps = rate_qps * (scatter * normal(&mut rng)).exp();
                // A search ends with bounds around the rate, and the rate may lie anywhere between them.
                start_qps * (self.width * (rng.f64() - 0.5)).exp()
            });
            RatesAt { workers: *workers, starts_qps: starts_qps.collect() }
        });
        let rates: Vec<RatesAt> = rates.collect();
        (law, rates)
    }

    /// Whether the interval of each of [`NUMBERS`] holds the truth.
    fn holding(&self, seed: u64) -> [bool; 4] {
        let (law, rates) = self.series(seed);
        // The standard deviation of an even distribution.
        let found = fit(&rates, self.width / 12.0_f64.sqrt(), seed).expect("four sizes have a fit");
        holding(&law, &found)
    }

    /// The share of so many series in which each interval holds the truth.
    pub(crate) fn shares(&self, runs: u64) -> [f64; 4] {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let of_core = |core: u64| {
            (core..runs).step_by(cores as usize).fold([0_u32; 4], |mut counts, seed| {
                let held = self.holding(seed);
                counts.iter_mut().zip(held).for_each(|(count, held)| *count += u32::from(held));
                counts
            })
        };
        let of_core = &of_core;
        let counts: Vec<[u32; 4]> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || of_core(core))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no fit panics")).collect()
        });
        std::array::from_fn(|at| f64::from(counts.iter().map(|of| of[at]).sum::<u32>()) / runs as f64)
    }

    /// The shares that are right for intervals of 95 %.
    pub(crate) fn right(&self, runs: u64) -> RangeInclusive<f64> {
        // With few series, the share may be off by three standard deviations of a count.
        let slack = if runs < 1000 { 3.0 * (0.95 * 0.05 / runs as f64).sqrt() } else { 0.0 };
        let most = if self.may_be_wide { 1.0 } else { (0.97 + slack).min(1.0) };
        (0.93 - slack)..=most
    }
}

fn holding(law: &Law, fit: &ScalingFit) -> [bool; 4] {
    let (contention, coherency) = (fit.contention.range.unwrap(), fit.coherency.range.unwrap());
    let range = fit.peak.range.unwrap();
    let holds_peak = match law.peak_workers() {
        Some(peak) => range.low.is_some_and(|low| low <= peak) && range.high.is_none_or(|high| peak <= high),
        None => range.high.is_none(),
    };
    let beyond = &fit.beyond[0];
    let truth_qps = law.rate_qps(beyond.workers);
    [
        (contention.low..=contention.high).contains(&law.contention),
        (coherency.low..=coherency.high).contains(&law.coherency),
        holds_peak,
        beyond.low_qps.unwrap() <= truth_qps && beyond.high_qps.is_none_or(|high| truth_qps <= high),
    ]
}
