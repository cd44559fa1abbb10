//! How far servers scale: the fitted law as a curve in charts by the number of workers, and a table of its constants.

use kqps_observation::question::Experiment;
use kqps_verdict::figure::{Grid, GridRow};
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::scaling::{self, Peak, Prediction, Ranged, ScalingFit, ScalingSeries, series_of};

use super::order::Key;
use super::table::{Head, Note, Row, Table, TableCell};
use crate::chart::CurvePoint;
use crate::format;

/// The law that fits the rates of a chart's line; empty if none does, or if the axis counts no workers.
pub(super) fn curve_of(verdict: &RunVerdict, grid: &Grid, line: &GridRow) -> Vec<CurvePoint> {
    let cells: Vec<Option<u32>> =
        line.slots.iter().map(|slot| Some(verdict.figures[slot.figures?].cell)).collect();
    let known: Vec<u32> = cells.iter().copied().flatten().collect();
    let Some(series) = series_of(&verdict.scaling, &grid.columns, &known) else { return Vec::new() };
    let Some(fit) = &series.fit else { return Vec::new() };
    // The place of every number of workers that was measured, along the axis.
    let place = |(at, cell): (usize, &Option<u32>)| {
        let size = series.sizes.iter().find(|size| size.cell.is_some() && size.cell == *cell)?;
        Some((f64::from(size.workers), at as f64))
    };
    let mut places: Vec<(f64, f64)> = cells.iter().enumerate().filter_map(place).collect();
    places.sort_by(|one, other| one.0.total_cmp(&other.0));
    let point = |one: &Prediction| {
        let at = between(&places, one.workers)?;
        Some(CurvePoint { at, value: one.rate_qps, band: one.low_qps.zip(one.high_qps) })
    };
    fit.curve.iter().filter_map(point).collect()
}

/// The place of a number of workers, on the straight line between its neighbours; `None` beyond the ends.
fn between(places: &[(f64, f64)], workers: f64) -> Option<f64> {
    let pair = places.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&workers))?;
    let share = (workers - pair[0].0) / (pair[1].0 - pair[0].0);
    Some(pair[0].1 + share * (pair[1].1 - pair[0].1))
}

/// The constants of the law for every series of an experiment, measured and published; `None` if there is no fit.
pub(super) fn table_of(verdict: &RunVerdict, experiment: &Experiment) -> Option<Table> {
    let own = of_experiment(verdict, experiment).filter_map(|one| Some((one, one.fit.as_ref()?)));
    let fitted: Vec<(&ScalingSeries, &ScalingFit)> = own.collect();
    let rows: Vec<Row> = fitted.iter().map(|(series, fit)| row(series, fit)).collect();
    let heads = HEADS.map(|(name, term, _)| Head { name, term });
    let key = |(column, (.., order)): (usize, (&str, Option<&str>, &str))| Key {
        column,
        name: order.to_owned(),
        greatest_first: order.ends_with("highest first"),
    };
    let keys: Vec<Key> = HEADS.into_iter().enumerate().map(key).collect();
    let title = "How far it scales: the Universal Scalability Law";
    (!rows.is_empty()).then(|| Table {
        notes: notes(&fitted),
        sheet: "laws",
        ..Table::plain(title, heads.into(), rows, &keys)
    })
}

/// The columns: the name, the word that explains it, and the order of rows by it.
const HEADS: [(&str, Option<&str>, &str); 6] = [
    ("one worker", None, "one worker, highest first"),
    ("contention", Some("contention"), "contention, lowest first"),
    ("coherency", Some("coherency"), "coherency, lowest first"),
    ("peak", Some("peak"), "peak, highest first"),
    ("rate there", Some("peak"), "rate there, highest first"),
    ("beyond", Some("extrapolated"), "beyond, highest first"),
];

/// Why series of an experiment have no fit, a sentence for each reason, and what other fits leave out.
pub(super) fn refusals(verdict: &RunVerdict, experiment: &Experiment) -> Vec<String> {
    let series: Vec<&ScalingSeries> = of_experiment(verdict, experiment).collect();
    scaling::refusals(&series).into_iter().chain(scaling::player_limited(&series)).collect()
}

fn of_experiment<'a>(
    verdict: &'a RunVerdict,
    experiment: &'a Experiment,
) -> impl Iterator<Item = &'a ScalingSeries> {
    verdict.scaling.iter().filter(|one| one.experiment == experiment.name)
}

fn head(series: &ScalingSeries) -> String {
    let name = if series.name.is_empty() { "all" } else { &series.name };
    let published = if series.is_published { ", published" } else { "" };
    format!("{name}, by {}{published}", series.factor)
}

fn row(series: &ScalingSeries, fit: &ScalingFit) -> Row {
    let class = if series.is_published { "published" } else { "" };
    let cell = |((text, soft), value): ((String, String), Option<f64>)| {
        let class = if text == format::NONE { "absent" } else { class };
        TableCell { text, soft, class, value, ..TableCell::default() }
    };
    let rate_of = |one: Option<&Prediction>| one.map(|one| one.rate_qps);
    let texts = [
        ((format::rate(fit.alone_qps), String::new()), Some(fit.alone_qps)),
        (constant(&fit.contention), Some(fit.contention.value)),
        (constant(&fit.coherency), Some(fit.coherency.value)),
        (peak(&fit.peak), fit.peak.workers),
        (rate(fit.peak.rate.as_ref()), rate_of(fit.peak.rate.as_ref())),
        (rate(fit.beyond.first()), rate_of(fit.beyond.first())),
    ];
    Row { head: head(series), cells: texts.into_iter().map(cell).collect() }
}

fn constant(constant: &Ranged) -> (String, String) {
    let range = constant.range.map(|range| range_of(range.low, range.high, scaling::constant));
    (scaling::constant(constant.value), range.unwrap_or_default())
}

fn peak(peak: &Peak) -> (String, String) {
    let text = peak.workers.map_or("none".to_owned(), |at| format!("{} workers", scaling::workers(at)));
    let soft = match peak.range.map(|range| (range.low, range.high)) {
        Some((Some(low), Some(high))) => range_of(low, high, scaling::workers),
        Some((Some(low), None)) => format!("{} or more, or no peak", scaling::workers(low)),
        _ => String::new(),
    };
    (text, soft)
}

fn rate(one: Option<&Prediction>) -> (String, String) {
    let Some(one) = one else { return (format::NONE.to_owned(), String::new()) };
    let mut soft = vec![format!("{} workers", scaling::workers(one.workers))];
    match (one.low_qps, one.high_qps) {
        (Some(low), Some(high)) => soft.push(format::rate_interval(low, high)),
        (Some(low), None) => soft.push(format!("{} or more", format::rate(low))),
        _ => {}
    }
    if one.is_extrapolated {
        soft.push("extrapolated".to_owned());
    }
    (format::rate(one.rate_qps), soft.join(", "))
}

fn range_of(low: f64, high: f64, text: fn(f64) -> String) -> String {
    format!("{} to {}", text(low), text(high))
}

/// The series that do not follow the law.
fn notes(fitted: &[(&ScalingSeries, &ScalingFit)]) -> Vec<Note> {
    let apart: Vec<String> = fitted.iter().filter(|(_, fit)| fit.departs).map(|(one, _)| head(one)).collect();
    if apart.is_empty() {
        return Vec::new();
    }
    let why =
        "the rates lie farther off the law than their starts scatter, so the ranges are wider".to_owned();
    vec![Note { what: "departs from the law", whose: apart.join("; "), why, output: String::new() }]
}
