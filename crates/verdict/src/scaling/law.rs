//! The law itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cost of a query: a worker alone, each other worker, and each pair of workers; seconds.
pub(super) type Costs = [f64; 3];

/// The rate at N workers is `λN / (1 + σ(N − 1) + κN(N − 1))`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Law {
    /// λ: the rate of one worker, queries a second.
    pub alone_qps: f64,
    /// σ, contention: the share of a query's work that workers do one after the other, from 0.
    pub contention: f64,
    /// κ, coherency: what a worker waits for each pair of workers, as a share of a query's work, from 0.
    pub coherency: f64,
}

impl Law {
    pub(super) fn of_costs([alone, other, pair]: Costs) -> Self {
        Self { alone_qps: 1.0 / alone, contention: other / alone, coherency: pair / alone }
    }

    /// The rate at this number of workers, which is at least 1; queries a second.
    pub fn rate_qps(&self, workers: f64) -> f64 {
        let others = workers - 1.0;
        workers * self.alone_qps / (1.0 + self.contention * others + self.coherency * workers * others)
    }

    /// The number of workers with the highest rate, at least 1; `None` if the rate rises with every worker.
    pub fn peak_workers(&self) -> Option<f64> {
        if self.contention >= 1.0 {
            return Some(1.0);
        }
        (self.coherency > 0.0).then(|| ((1.0 - self.contention) / self.coherency).sqrt().max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) -> bool {
        (value / wanted - 1.0).abs() < 1e-12
    }

    #[test]
    fn without_contention_and_coherency_it_is_linear() {
        let law = Law { alone_qps: 1_000.0, contention: 0.0, coherency: 0.0 };
        assert!(near(law.rate_qps(64.0), 64_000.0));
        assert_eq!(law.peak_workers(), None);
    }

    #[test]
    fn contention_alone_is_amdahls_law() {
        let law = Law { alone_qps: 1_000.0, contention: 0.1, coherency: 0.0 };
        // A tenth is serial: 10 workers are 1 / (0.1 + 0.9 / 10) times as fast.
        assert!(near(law.rate_qps(10.0), 1_000.0 / 0.19));
        assert_eq!(law.peak_workers(), None);
    }

    #[test]
    fn with_coherency_the_rate_has_a_peak() {
        let law = Law { alone_qps: 1_000.0, contention: 0.04, coherency: 0.0006 };
        let peak = law.peak_workers().unwrap();
        assert!(near(peak, 40.0));
        assert!(law.rate_qps(peak) > law.rate_qps(39.0) && law.rate_qps(peak) > law.rate_qps(41.0));
        assert_eq!(Law { contention: 1.2, ..law }.peak_workers(), Some(1.0));
        assert_eq!(Law { coherency: 4.0, ..law }.peak_workers(), Some(1.0));
    }
}
