//! How far servers scale: the rates of every series, the law that fits them, and its curve.

use kqps_verdict::judge::RunVerdict;
use kqps_verdict::scaling::{Prediction, Ranged, ScalingSeries};

use super::sheet::{Sheet, Value, count, number, text, words};

const SERIES: [(&str, &str); 4] = [
    ("experiment", "the experiment"),
    ("series", "the values of the other factors"),
    ("factor", "the factor that counts the workers"),
    ("is_published", "whether others published the rates"),
];

fn columns(further: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    SERIES.into_iter().chain(further.iter().copied()).collect()
}

fn head(series: &ScalingSeries) -> Vec<Value> {
    vec![
        words(&series.experiment),
        words(&series.name),
        text(&series.factor),
        Value::Flag(series.is_published),
    ]
}

/// A row for every start at every number of workers of every series.
pub(super) fn scaling(verdict: &RunVerdict) -> Sheet {
    let columns = columns(&[
        ("workers", "the number of workers"),
        ("cell", "index of the cell in the run; nothing for a published rate"),
        ("start_qps", "the rate of a start, correct answers a second"),
        ("is_fitted", "whether the law is fitted to it"),
    ]);
    let mut sheet = Sheet::new("scaling", "one start at one number of workers", &columns);
    for series in &verdict.scaling {
        for size in &series.sizes {
            for start_qps in &size.starts_qps {
                let mut row = head(series);
                row.extend([
                    count(size.workers),
                    size.cell.map_or(Value::None, count),
                    number(*start_qps),
                    Value::Flag(series.fit.is_some() && !series.left_out.contains(&size.workers)),
                ]);
                sheet.rows.push(row);
            }
        }
    }
    sheet
}

/// A row for the law of every series, or for why there is none.
pub(super) fn laws(verdict: &RunVerdict) -> Sheet {
    let columns = columns(&[
        ("alone_qps", "the rate of one worker by the law"),
        ("contention_share", "contention"),
        ("contention_low_share", "low end of its interval"),
        ("contention_high_share", "high end of its interval"),
        ("coherency_share", "coherency"),
        ("coherency_low_share", "low end of its interval"),
        ("coherency_high_share", "high end of its interval"),
        (
            "peak_workers",
            "the number of workers with the highest rate; nothing if the rate rises with every worker",
        ),
        ("peak_low_workers", "low end of its interval"),
        ("peak_high_workers", "high end of its interval; nothing if it may lie at any number"),
        ("is_off_the_law", "whether the rates lie farther from the law than their starts scatter"),
        (
            "departure_share",
            "how far the rates lie from the law: the root of the mean square of their logarithms",
        ),
        ("absence", "why no law is fitted"),
    ]);
    let mut sheet = Sheet::new("laws", "the law of one series", &columns);
    for series in &verdict.scaling {
        let mut row = head(series);
        if let Some(fit) = &series.fit {
            row.push(number(fit.alone_qps));
            row.extend(constant(&fit.contention));
            row.extend(constant(&fit.coherency));
            let range = fit.peak.range;
            row.extend([
                number(fit.peak.workers),
                number(range.and_then(|range| range.low)),
                number(range.and_then(|range| range.high)),
                Value::Flag(fit.departs),
                number(fit.departure),
            ]);
        }
        row.resize(columns.len() - 1, Value::None);
        row.push(words(series.refused.as_deref().unwrap_or_default()));
        sheet.rows.push(row);
    }
    sheet
}

fn constant(constant: &Ranged) -> [Value; 3] {
    let range = constant.range;
    [number(constant.value), number(range.map(|range| range.low)), number(range.map(|range| range.high))]
}

/// A row for every point of every curve, at the peak, and beyond what was measured.
pub(super) fn curves(verdict: &RunVerdict) -> Sheet {
    let columns = columns(&[
        ("part", "curve, peak or beyond"),
        ("workers", "the number of workers; between two measured ones it need not be whole"),
        ("rate_qps", "the rate by the law"),
        ("rate_low_qps", "low end of its interval"),
        ("rate_high_qps", "high end of its interval"),
        ("is_extrapolated", "whether this number of workers lies outside of those that were measured"),
    ]);
    let mut sheet = Sheet::new("curves", "a rate by the law of one series", &columns);
    for series in &verdict.scaling {
        let Some(fit) = &series.fit else { continue };
        let parts: [(&str, Vec<&Prediction>); 3] = [
            ("curve", fit.curve.iter().collect()),
            ("peak", fit.peak.rate.iter().collect()),
            ("beyond", fit.beyond.iter().collect()),
        ];
        for (part, points) in parts {
            for point in points {
                let mut row = head(series);
                row.extend([
                    text(part),
                    number(point.workers),
                    number(point.rate_qps),
                    number(point.low_qps),
                    number(point.high_qps),
                    Value::Flag(point.is_extrapolated),
                ]);
                sheet.rows.push(row);
            }
        }
    }
    sheet
}
