//! Rates by the law at any number of workers, with their intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bootstrap::Bootstrap;
use super::law::{Costs, Law};

/// The rate at a number of workers by the law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// The number of workers; between two measured ones it need not be whole.
    pub workers: f64,
    /// Queries a second.
    pub rate_qps: f64,
    /// The low end of the interval that holds the truth with a probability of 95 %, queries a second. `None` if no
    /// number of workers was measured in several starts.
    pub low_qps: Option<f64>,
    /// The high end of that interval; `None` as for the low end, or if the rates bound it nowhere.
    pub high_qps: Option<f64>,
    /// Whether the number of workers lies outside of those that were measured.
    pub is_extrapolated: bool,
}

pub(super) struct Predictor<'a> {
    pub(super) law: Law,
    pub(super) bootstrap: Option<&'a Bootstrap>,
    /// The fewest and the most workers that were measured.
    pub(super) measured: (f64, f64),
}

impl Predictor<'_> {
    pub(super) fn at(&self, workers: f64) -> Prediction {
        let (least, most) = self.measured;
        let rate_qps = self.law.rate_qps(workers);
        let range = self.bootstrap.map(|bootstrap| {
            let (low, mut high) = range_qps(bootstrap, workers);
            if workers > most {
                // By the law, more workers never answer more for each of them.
                high = high.min(range_qps(bootstrap, most).1 * workers / most);
            }
            (low.min(rate_qps), high.max(rate_qps))
        });
        Prediction {
            workers,
            rate_qps,
            low_qps: range.map(|(low, _)| low),
            high_qps: range.map(|(_, high)| high).filter(|high| high.is_finite()),
            is_extrapolated: workers < least || workers > most,
        }
    }
}

/// The interval of the rate, without the law's bounds. Its high end is infinite if the interval of a query's cost
/// reaches down to 0.
fn range_qps(bootstrap: &Bootstrap, workers: f64) -> (f64, f64) {
    let cost = |[alone, other, pair]: &Costs| alone + (workers - 1.0) * (other + workers * pair);
    let (low, high) = bootstrap.interval(cost);
    (workers / high.max(f64::MIN_POSITIVE), if low > 0.0 { workers / low } else { f64::INFINITY })
}
