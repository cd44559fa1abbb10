//! A host on which two subjects are compared, with what spoils comparisons: starts differ (lognormal), the host
//! drifts steadily and at random, and now and then the hypervisor takes the cores away.

use kqps_verdict::compare::{Case, Comparison, Figure, compare};

/// The noise of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// Standard deviation of the logarithm of a start's rate.
    pub(crate) spread: f64,
    /// The host's own rate moves by this in each start, steadily, in spreads.
    pub(crate) drift: f64,
    /// And by this at random.
    pub(crate) walk: f64,
    /// The share of starts that the hypervisor disturbs: they lose 5 to 30 %.
    pub(crate) disturbed: f64,
}

impl Host {
    pub(crate) const CALM: Self = Self { spread: 0.01, drift: 0.0, walk: 0.0, disturbed: 0.0 };
    pub(crate) const REAL: Self = Self { spread: 0.01, drift: 0.1, walk: 0.3, disturbed: 0.01 };
}

/// One host at work.
pub(crate) struct Session {
    host: Host,
    random: fastrand::Rng,
    level: f64,
}

impl Session {
    pub(crate) fn new(host: Host, seed: u64) -> Self {
        Self { host, random: fastrand::Rng::with_seed(seed), level: 0.0 }
    }

    fn normal(&mut self) -> f64 {
        // Box and Muller.
        let radius = (-2.0 * (1.0 - self.random.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.f64()).cos()
    }

    /// The logarithm of the rate of the next start.
    fn start(&mut self) -> f64 {
        let host = self.host;
        self.level += host.spread * (host.drift + host.walk * self.normal());
        let disturbed = self.random.f64() < host.disturbed;
        let loss = if disturbed { (1.0 - 0.05 - 0.25 * self.random.f64()).ln() } else { 0.0 };
        self.level + host.spread * self.normal() + loss
    }

    /// ABBA blocks, of which B has this share of A's rate.
    pub(crate) fn blocks(&mut self, count: usize, share: f64) -> Vec<Vec<f64>> {
        let block = |_| {
            let [first, second, third, fourth] = std::array::from_fn(|_| self.start());
            vec![share * (second - first).exp(), share * (third - fourth).exp()]
        };
        (0..count).map(block).collect()
    }

    /// A whole comparison.
    pub(crate) fn compare(&mut self, blocks: usize, share: f64) -> Comparison {
        let same = self.blocks(blocks, 1.0);
        let blocks = self.blocks(blocks, share);
        let case = Case { figure: Figure::AnsweredRate, blocks, same, ..Case::default() };
        compare(&[case], 1).remove(0)
    }
}
