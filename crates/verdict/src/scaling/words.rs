//! A fit in words.

use std::fmt::Write as _;

use super::fit::{Peak, Ranged, ScalingFit};
use super::predictor::Prediction;
use super::series::ScalingSeries;
use crate::groups::in_order;
use crate::percent;
use crate::rate;

/// A fit as clauses without a full stop. `rate` formats queries a second.
pub fn sentence(fit: &ScalingFit, rate: &dyn Fn(f64) -> String) -> String {
    let mut text = format!("contention {}, coherency {}", ranged(&fit.contention), ranged(&fit.coherency));
    let _ = write!(text, "; {}", peak(&fit.peak, rate));
    for one in &fit.beyond {
        let _ = write!(text, "; {} workers would answer {}", workers(one.workers), predicted(one, rate));
    }
    if fit.departs {
        let _ = write!(
            text,
            "; the rates lie {} % off the law, farther than their starts scatter, so the ranges are wider",
            percent::short(fit.departure)
        );
    }
    text
}

/// A sentence for each reason for which series have no fit. If all of them have one reason, it names none of them.
pub fn refusals(series: &[&ScalingSeries]) -> Vec<String> {
    let refused = series.iter().filter_map(|one| Some((one.refused.as_deref()?, one.name.as_str())));
    let measured = series.iter().filter(|one| !one.is_published).count();
    let sentence = |(reason, names): (&str, Vec<&str>)| {
        let whose =
            if names.len() == measured { String::new() } else { format!(" for {}", names.join("; ")) };
        format!("How far it scales is not known{whose}: {reason}.")
    };
    in_order(refused).into_iter().map(sentence).collect()
}

/// A sentence for each series whose fit leaves out rates because the player was the bottleneck there.
pub fn player_limited(series: &[&ScalingSeries]) -> Vec<String> {
    let limited = series.iter().filter(|one| one.fit.is_some() && !one.player_limited.is_empty());
    let sentence = |one: &&ScalingSeries| {
        let workers: Vec<String> = one.player_limited.iter().map(ToString::to_string).collect();
        let whose = if one.name.is_empty() { String::new() } else { format!(" of {}", one.name) };
        format!(
            "The law{whose} leaves out the rate with {} workers, where the player was the bottleneck.",
            workers.join(", ")
        )
    };
    limited.map(sentence).collect()
}

/// A constant of the law with three digits: `0.0123`.
pub fn constant(value: f64) -> String {
    rate::plain(value)
}

/// A number of workers: whole from 10 on, with one decimal below.
pub fn workers(workers: f64) -> String {
    if workers >= 9.95 || workers.fract() == 0.0 { format!("{workers:.0}") } else { format!("{workers:.1}") }
}

fn ranged(ranged: &Ranged) -> String {
    match ranged.range {
        Some(range) => {
            format!("{} ({} to {})", constant(ranged.value), constant(range.low), constant(range.high))
        }
        None => constant(ranged.value),
    }
}

fn peak(peak: &Peak, rate: &dyn Fn(f64) -> String) -> String {
    let range = peak.range.map(|range| (range.low.map(workers), range.high.map(workers)));
    match (peak.workers, range) {
        (None, None | Some((None, _))) => "the rate rises with every worker".to_owned(),
        (None, Some((Some(low), _))) => {
            format!("the rate rises with every worker, or has its peak at {low} workers or more")
        }
        (Some(at), range) => {
            let range = match range {
                Some((Some(low), Some(high))) => format!(" ({low} to {high})"),
                Some((Some(low), None)) => format!(" ({low} or more, or no peak)"),
                _ => String::new(),
            };
            let with = peak.rate.map(|one| format!(" with {}", predicted(&one, rate)));
            let with = with.unwrap_or_else(|| ", beyond what was measured".to_owned());
            format!("the peak is at {} workers{range}{with}", workers(at))
        }
    }
}

/// A rate with its range; it is marked if it was not measured.
fn predicted(one: &Prediction, rate: &dyn Fn(f64) -> String) -> String {
    let mut parts = Vec::new();
    match (one.low_qps, one.high_qps) {
        (Some(low), Some(high)) => parts.push(format!("{} to {}", rate(low), rate(high))),
        (Some(low), None) => parts.push(format!("{} or more", rate(low))),
        _ => {}
    }
    if one.is_extrapolated {
        parts.push("extrapolated".to_owned());
    }
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{}{parts}", rate(one.rate_qps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::{PeakRange, Range};

    fn fit() -> ScalingFit {
        let at = |workers, is_extrapolated| Prediction {
            workers,
            rate_qps: 1_000.0 * workers,
            low_qps: Some(900.0 * workers),
            high_qps: Some(1_100.0 * workers),
            is_extrapolated,
        };
        ScalingFit {
            alone_qps: 1_100.0,
            contention: Ranged { value: 0.05, range: Some(Range { low: 0.04, high: 0.0612 }) },
            coherency: Ranged { value: 0.000_5, range: Some(Range { low: 0.0, high: 0.001 }) },
            peak: Peak {
                workers: Some(43.6),
                range: Some(PeakRange { low: Some(30.8), high: None }),
                rate: Some(at(43.6, true)),
            },
            departure: 0.031,
            departs: true,
            beyond: vec![at(16.0, true)],
            curve: Vec::new(),
        }
    }

    #[test]
    fn every_number_has_its_range_and_what_was_not_measured_is_marked() {
        let said = sentence(&fit(), &rate::rate);
        let expected = "contention 0.05 (0.04 to 0.0612), coherency 0.0005 (0 to 0.001); the peak is at 44 workers \
                        (31 or more, or no peak) with 43,600 (39,240 to 47,960, extrapolated); 16 workers would answer \
                        16,000 (14,400 to 17,600, extrapolated); the rates lie 3.1 % off the law, farther than their \
                        starts scatter, so the ranges are wider";
        assert_eq!(said, expected);
    }

    #[test]
    fn a_rate_without_a_range_is_not_given_beyond_what_was_measured() {
        let plain = |value| Ranged { value, range: None };
        let published = ScalingFit {
            contention: plain(0.05),
            coherency: plain(0.01),
            peak: Peak { workers: Some(9.7), range: None, rate: None },
            departs: false,
            beyond: Vec::new(),
            ..fit()
        };
        let said = sentence(&published, &rate::rate);
        let expected =
            "contention 0.05, coherency 0.01; the peak is at 9.7 workers, beyond what was measured";
        assert_eq!(said, expected);
        let none = Peak { workers: None, range: None, rate: None };
        assert_eq!(peak(&none, &rate::rate), "the rate rises with every worker");
    }
}
