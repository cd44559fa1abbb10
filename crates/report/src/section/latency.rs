//! Latency by load: one drawing per subject, all with the same axes, and the figures as a table.

use kqps_verdict::judge::{CellVerdict, LoadPoint, RunVerdict};

use crate::chart::{Lines, Point, Series, lines};
use crate::format;

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    /// The cell whose trials are behind it.
    pub(crate) cell: u32,
    pub(crate) drawing: String,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) start: u32,
    pub(crate) offered: String,
    pub(crate) p50: String,
    pub(crate) p99: String,
    pub(crate) p999: String,
    pub(crate) bad: String,
    /// The first of its trials.
    pub(crate) trial: Option<u64>,
}

/// Draws the latency of every subject that has a figure. If the figure is refused, its latency is left out
/// too.
pub(crate) fn panels(verdict: &RunVerdict) -> Vec<Panel> {
    let subjects: Vec<&CellVerdict> =
        verdict.subjects.iter().filter(|subject| subject.figure_qps.is_some()).collect();
    let points = || subjects.iter().flat_map(|subject| &subject.latency);
    let times_us: Vec<f64> = points()
        .flat_map(|point| [point.latency_us.p50, point.latency_us.p99, point.latency_us.p999])
        .flatten()
        .map(|time_us| time_us as f64)
        .collect();
    let rate_max_qps = points().map(|point| point.load_qps).fold(0.0, f64::max);
    let drawn = subjects.iter().map(|subject| panel(subject, &times_us, rate_max_qps));
    drawn.filter(|panel| !panel.drawing.is_empty()).collect()
}

fn panel(subject: &CellVerdict, times_us: &[f64], rate_max_qps: f64) -> Panel {
    let series = |name, class, of: fn(&LoadPoint) -> Option<u64>| {
        let points = subject.latency.iter().filter_map(|point| {
            let (rate_qps, time_us) = (point.load_qps, of(point)? as f64);
            Some(Point { rate_qps, time_us, met: point.bad_ratio <= subject.goal.loss, start: point.block })
        });
        Series { name, class, points: points.collect() }
    };
    // The series that is drawn last lies on top.
    let series = [
        series("p99.9", "p999", |point| point.latency_us.p999),
        series("p99", "p99", |point| point.latency_us.p99),
        series("p50", "p50", |point| point.latency_us.p50),
    ];
    let rows: Vec<Row> = subject.latency.iter().map(row).collect();
    let described = rows
        .iter()
        .map(|row| format!("Start {} at {}: p50 {}, p99 {}.", row.start, row.offered, row.p50, row.p99));
    let drawing = lines(&Lines {
        id: &format!("latency-{}", subject.cell),
        title: &format!("Latency of {} by load", subject.name),
        description: &described.collect::<Vec<_>>().join(" "),
        series: &series,
        times_us,
        rate_max_qps,
        mark_qps: subject.figure_qps.map(|figure| figure.median),
    });
    Panel { name: subject.name.clone(), cell: subject.cell, drawing, rows }
}

fn row(point: &LoadPoint) -> Row {
    Row {
        start: point.block + 1,
        offered: format::rate(point.load_qps),
        p50: format::known_us(point.latency_us.p50),
        p99: format::percentile(point.latency_us.p99()),
        p999: format::percentile(point.latency_us.p999()),
        bad: format::percent(point.bad_ratio),
        trial: point.trials.first().copied(),
    }
}
