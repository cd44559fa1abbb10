//! How long queries stayed in the server's host, and the latency that the players saw: a line for each server.

use kqps_observation::visible::visible_line;
use kqps_verdict::judge::{CellResidence, CellVerdict, RunVerdict};
use kqps_verdict::percent;
use kqps_verdict::rate::rate;

use super::wrapped;

/// A paragraph; empty if no packets were stamped.
pub(super) fn paragraph(verdict: &RunVerdict) -> String {
    let with = |one: &'_ CellVerdict| Some((one.name.clone(), one.residence.clone()?));
    let all: Vec<(String, CellResidence)> = verdict.subjects.iter().filter_map(with).collect();
    if all.is_empty() {
        return String::new();
    }
    let mut text = wrapped(
        "",
        "Time in the server's host, of the latency that the players saw, at half the rate found:",
    );
    for (name, residence) in all {
        text += &wrapped("- ", &visible_line(&format!("{name}: {}", line(&residence))));
    }
    text + "\n"
}

fn line(residence: &CellResidence) -> String {
    if let Some(why) = &residence.failure {
        return format!("not known: {why}");
    }
    let (inside, all) = (&residence.residence_us, &residence.latency_us);
    let quantiles =
        [("p50", inside.p50, all.p50), ("p90", inside.p90, all.p90), ("p99", inside.p99, all.p99)];
    let known = quantiles.into_iter().filter_map(|(name, inside_us, all_us)| {
        Some(format!("{name} {} of {}", time(Some(inside_us?)), time(all_us)))
    });
    let known: Vec<String> = known.collect();
    let known = if known.is_empty() { "too few queries for a quantile".to_owned() } else { known.join(", ") };
    let stamped = percent::short(residence.stamped_share);
    let doubt = residence.doubt.as_ref().map_or_else(String::new, |doubt| format!("; {doubt}"));
    format!("{known}, at {} q/s, {stamped} % of the queries stamped{doubt}", rate(residence.load_qps))
}

/// Microseconds, as milliseconds from ten on.
fn time(time_us: Option<u64>) -> String {
    match time_us {
        None => "an unknown time".to_owned(),
        Some(us) if us < 10_000 => format!("{us} µs"),
        Some(us) => format!("{:.1} ms", us as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Quantiles;

    use super::*;

    #[test]
    fn residence_is_a_part_of_latency_or_has_a_reason() {
        let quantiles = |p50, p90, p99| Quantiles { p50, p90, p99, ..Quantiles::default() };
        let mut residence = CellResidence {
            load_qps: 50_000.0,
            residence_us: quantiles(Some(12), Some(20), None),
            latency_us: quantiles(Some(214), Some(10_240), Some(20_000)),
            stamped_share: 0.5,
            ..CellResidence::default()
        };
        let expected = format!(
            "p50 12 µs of 214 µs, p90 20 µs of 10.2 ms, at {} q/s, {} % of the queries stamped",
            rate(50_000.0),
            percent::short(0.5)
        );
        assert_eq!(line(&residence), expected);
        residence.doubt = Some("7 packets found no room".into());
        assert_eq!(line(&residence), format!("{expected}; 7 packets found no room"));
        residence.residence_us = Quantiles::default();
        assert!(line(&residence).starts_with("too few queries for a quantile, at "));
        residence.failure = Some("Operation not permitted".into());
        assert_eq!(line(&residence), "not known: Operation not permitted");
    }
}
