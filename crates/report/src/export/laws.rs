//! How far servers scale: the rates of every series, the law that fits them, and its curve.

use kqps_verdict::judge::RunVerdict;
use kqps_verdict::scaling::{Prediction, Ranged, ScalingSeries};

use super::sheet::{Field, Sheet, Value, count, number, text, words};

/// The columns of the series.
fn head(series: &ScalingSeries) -> [Field; 4] {
    [
        ("experiment", "the experiment", words(&series.experiment)),
        ("series", "the values of the other factors", words(&series.name)),
        ("factor", "the factor that counts the workers", text(&series.factor)),
        ("is_published", "whether others published the rates", Value::Flag(series.is_published)),
    ]
}

/// A row for every start at every number of workers of every series.
pub(super) fn scaling(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("scaling", "one start at one number of workers");
    for series in &verdict.scaling {
        for size in &series.sizes {
            let cell = size.cell.map_or(Value::None, count);
            let is_fitted = series.fit.is_some() && !series.left_out.contains(&size.workers);
            for start_qps in &size.starts_qps {
                sheet.push(head(series).into_iter().chain([
                    ("workers", "the number of workers", count(size.workers)),
                    ("cell", "index of the cell in the run; nothing for a published rate", cell.clone()),
                    ("start_qps", "the rate of a start, correct answers a second", number(*start_qps)),
                    ("is_fitted", "whether the law is fitted to it", Value::Flag(is_fitted)),
                ]));
            }
        }
    }
    sheet
}

/// A row for the law of every series, or for why there is none.
pub(super) fn laws(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("laws", "the law of one series");
    for series in &verdict.scaling {
        let fit = series.fit.as_ref();
        let [contention, contention_low, contention_high] = constant(fit.map(|fit| &fit.contention));
        let [coherency, coherency_low, coherency_high] = constant(fit.map(|fit| &fit.coherency));
        let peak = fit.map(|fit| &fit.peak);
        let range = peak.and_then(|peak| peak.range);
        sheet.push(head(series).into_iter().chain([
            ("alone_qps", "the rate of one worker by the law", number(fit.map(|fit| fit.alone_qps))),
            ("contention_share", "contention", contention),
            ("contention_low_share", "low end of its interval", contention_low),
            ("contention_high_share", "high end of its interval", contention_high),
            ("coherency_share", "coherency", coherency),
            ("coherency_low_share", "low end of its interval", coherency_low),
            ("coherency_high_share", "high end of its interval", coherency_high),
            (
                "peak_workers",
                "the number of workers with the highest rate; nothing if the rate rises with every worker",
                number(peak.and_then(|peak| peak.workers)),
            ),
            ("peak_low_workers", "low end of its interval", number(range.and_then(|range| range.low))),
            (
                "peak_high_workers",
                "high end of its interval; nothing if it may lie at any number",
                number(range.and_then(|range| range.high)),
            ),
            (
                "is_off_the_law",
                "whether the rates lie farther from the law than their starts scatter",
                fit.map_or(Value::None, |fit| Value::Flag(fit.departs)),
            ),
            (
                "departure_share",
                "how far the rates lie from the law: the root of the mean square of their logarithms",
                number(fit.map(|fit| fit.departure)),
            ),
            ("absence", "why no law is fitted", words(series.refused.as_deref().unwrap_or_default())),
        ]));
    }
    sheet
}

fn constant(constant: Option<&Ranged>) -> [Value; 3] {
    let range = constant.and_then(|constant| constant.range);
    [
        number(constant.map(|constant| constant.value)),
        number(range.map(|range| range.low)),
        number(range.map(|range| range.high)),
    ]
}

/// A row for every point of every curve, at the peak, and beyond what was measured.
pub(super) fn curves(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("curves", "a rate by the law of one series");
    for series in &verdict.scaling {
        let Some(fit) = &series.fit else { continue };
        let parts: [(&str, Vec<&Prediction>); 3] = [
            ("curve", fit.curve.iter().collect()),
            ("peak", fit.peak.rate.iter().collect()),
            ("beyond", fit.beyond.iter().collect()),
        ];
        for (part, points) in parts {
            for point in points {
                sheet.push(head(series).into_iter().chain([
                    ("part", "curve, peak or beyond", text(part)),
                    (
                        "workers",
                        "the number of workers; between two measured ones it need not be whole",
                        number(point.workers),
                    ),
                    ("rate_qps", "the rate by the law", number(point.rate_qps)),
                    ("rate_low_qps", "low end of its interval", number(point.low_qps)),
                    ("rate_high_qps", "high end of its interval", number(point.high_qps)),
                    (
                        "is_extrapolated",
                        "whether this number of workers lies outside of those that were measured",
                        Value::Flag(point.is_extrapolated),
                    ),
                ]));
            }
        }
    }
    sheet
}
