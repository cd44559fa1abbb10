//! The promise of a host before anything is measured: how closely a default run will know a rate, from the speed of the
//! cores over a few seconds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time of a default run, seconds.
const DEFAULT_RUN_S: f64 = 120.0;

/// How closely a default run knows a rate on a host that holds still, as half the width of its range.
const STILL: f64 = 0.02;

/// Speeds that scatter by s, as the standard deviation of logarithms, add this many times s² to that. Six default runs on
/// a rented host show it (METHOD, "What default runs knew").
const OF_SCATTER: f64 = 2.5;

/// How closely a user may want to know a rate.
const CLOSE: f64 = 0.02;

/// A longer run than this is no advice, seconds.
const LONGEST_S: f64 = 3600.0;

/// How closely runs on a host will know a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// The scatter of the cores' speed, as the standard deviation of logarithms.
    pub scatter: f64,
    /// The share of the time in which a core was interrupted for more than half a millisecond, 0 to 1.
    pub stalled: f64,
    /// Half the width of a rate's range after a default run, as a share of the rate.
    pub default_run: f64,
    /// Seconds of a run after which that is 0.02; `None` if that would take more than an hour.
    pub close_after_s: Option<f64>,
}

impl Promise {
    /// From readings of the cores' speed, each with the share of its time in which a core was interrupted. `None` if there
    /// are fewer than two.
    pub fn from_readings(readings: &[(f64, f64)]) -> Option<Self> {
        let logs: Vec<f64> =
            readings.iter().map(|(speed, _)| speed.ln()).filter(|log| log.is_finite()).collect();
        if logs.len() < 2 {
            return None;
        }
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / logs.len() as f64;
        let middle = mean(&mut logs.iter().copied());
        let scatter = mean(&mut logs.iter().map(|log| (log - middle).powi(2))).sqrt();
        let stalled = readings.iter().map(|(_, stalled)| stalled).sum::<f64>() / readings.len() as f64;
        let default_run = STILL + OF_SCATTER * scatter * scatter + stalled;
        let close_after_s = DEFAULT_RUN_S * (default_run / CLOSE).powi(2);
        Some(Self {
            scatter,
            stalled,
            default_run,
            close_after_s: Some(close_after_s).filter(|seconds| *seconds <= LONGEST_S),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_holds_still_promises_most() {
        let still = Promise::from_readings(&[(200e3, 0.0); 20]).unwrap();
        assert!((still.default_run - 0.02).abs() < 1e-9 && still.close_after_s == Some(120.0), "{still:?}");
        let speed = |place: i32| 200e3 * if place % 2 == 0 { 1.15 } else { 1.0 / 1.15 };
        let readings: Vec<(f64, f64)> = (0..20).map(|place| (speed(place), 0.01)).collect();
        let restless = Promise::from_readings(&readings).unwrap();
        assert!((0.07..0.09).contains(&restless.default_run), "{restless:?}");
        assert!((1_400.0..2_500.0).contains(&restless.close_after_s.unwrap()), "{restless:?}");
        let hopeless = Promise::from_readings(&[(200e3, 0.5), (200e3, 0.3)]).unwrap();
        assert!(hopeless.close_after_s.is_none() && hopeless.default_run > 0.4, "{hopeless:?}");
        assert_eq!(Promise::from_readings(&[(200e3, 0.0)]), None);
    }
}
