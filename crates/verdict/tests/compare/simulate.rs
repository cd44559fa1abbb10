//! A simulated host on which two subjects are compared, with the usual disturbances: starts differ (lognormal),
//! the host drifts from trial to trial, and now and then the hypervisor withholds the cores.

use kqps_verdict::compare::{Case, Comparison, Figure, compare};

/// The noise of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// Standard deviation of the logarithm of a start's figure: the scatter of starts, and what their trials
    /// leave of their noise.
    pub(crate) spread: f64,
    /// The factor by which the starts of B differ more.
    pub(crate) of_b: f64,
    /// The share of starts that the hypervisor disturbs: they lose 5 to 30 %.
    pub(crate) disturbed: f64,
}

impl Host {
    pub(crate) const CALM: Self = Self { spread: 0.01, of_b: 1.0, disturbed: 0.0 };
    pub(crate) const REAL: Self = Self { spread: 0.01, of_b: 1.3, disturbed: 0.01 };
}

pub(crate) struct Session {
    host: Host,
    random: fastrand::Rng,
}

impl Session {
    pub(crate) fn new(host: Host, seed: u64) -> Self {
        Self { host, random: fastrand::Rng::with_seed(seed) }
    }

    fn normal(&mut self) -> f64 {
        // The Box-Muller transform.
        let radius = (-2.0 * (1.0 - self.random.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.f64()).cos()
    }

    /// The logarithm of a start's figure.
    fn start(&mut self, spread: f64) -> f64 {
        let disturbed = self.random.f64() < self.host.disturbed;
        let loss = if disturbed { (1.0 - 0.05 - 0.25 * self.random.f64()).ln() } else { 0.0 };
        spread * self.normal() + loss
    }

    /// A whole comparison in which B's true rate is this share of A's.
    pub(crate) fn compare(&mut self, blocks: usize, share: f64) -> Comparison {
        let Host { spread, of_b, .. } = self.host;
        let mut case = Case { figure: Figure::AnsweredRate, starts_of_a: 2, ..Case::default() };
        for _ in 0..blocks {
            let [a, again, b] = [spread, spread, spread * of_b].map(|spread| self.start(spread));
            case.same.push((again - a).exp());
            case.blocks.push(share * (b - f64::midpoint(a, again)).exp());
        }
        compare(&[case]).remove(0)
    }
}
