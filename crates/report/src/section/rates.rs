//! The two charts of rates: subjects beside their ceilings, and the ceilings alone.

use kqps_verdict::figure::State;
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{Ceiling, CellVerdict, RunVerdict};
use kqps_verdict::search::Bounds;

use crate::chart::{Bar, Bars, Fill, Missing, bars};
use crate::format;

/// Every subject's rate with its interval and its echo ceiling.
pub(crate) fn subjects(verdict: &RunVerdict) -> String {
    let rows: Vec<Bar> = verdict.subjects.iter().map(|subject| subject_row(verdict, subject)).collect();
    let title = if has_ceiling(verdict) {
        "Rate of each subject, beside its echo ceiling"
    } else {
        "Rate of each subject"
    };
    drawn("rates", title, &rows)
}

/// Whether any subject has an echo ceiling.
pub(crate) fn has_ceiling(verdict: &RunVerdict) -> bool {
    verdict.subjects.iter().any(|subject| ceiling_qps(verdict, subject).is_some())
}

fn ceiling_qps(verdict: &RunVerdict, subject: &CellVerdict) -> Option<f64> {
    verdict.ceilings.echo(subject.ceiling.as_ref()?)?.median_qps()
}

/// The rates of the player and of the echo.
pub(crate) fn ceilings(verdict: &RunVerdict) -> String {
    let player = verdict.ceilings.players.iter().map(|ceiling| ceiling_row(ceiling, Fill::Player));
    let echoes = verdict.ceilings.echoes.iter().map(|ceiling| ceiling_row(ceiling, Fill::Echo));
    let rows: Vec<Bar> = player.chain(echoes).collect();
    drawn("ceilings", "Answered rate of the echo under each I/O model", &rows)
}

fn drawn(id: &str, title: &str, rows: &[Bar]) -> String {
    let described: Vec<String> = rows.iter().map(|row| format!("{}: {}.", row.label, row.note)).collect();
    let (description, tick) = (described.join(" "), format::rate_tick);
    bars(&Bars { id, title, description: &description, rows, at_least: 0.0, cut: true, tick })
}

fn subject_row(verdict: &RunVerdict, subject: &CellVerdict) -> Bar {
    let at_least = subject.at_least_qps.map(|least_qps| format!("at least {}", format::rate(least_qps)));
    let note = match (subject.figure_qps, subject.ceiling_share) {
        (None, _) if at_least.is_some() => at_least.unwrap_or_default(),
        (None, _) if seen(subject).is_empty() => format!("no number ({})", subject.grade),
        (None, _) => format!("no number ({}), only seen", subject.grade),
        (Some(figure), Some(share)) => {
            format!("{}, {} of ceiling", format::rate(figure.median), format::percent(share))
        }
        (Some(figure), None) => format::rate(figure.median),
    };
    let figure_qps = subject.figure_qps.map(|figure| figure.median).or(subject.at_least_qps);
    Bar {
        interval: ends(subject.figure_qps),
        points: starts(subject),
        seen: if subject.grade.refuses() { seen(subject) } else { Vec::new() },
        ceiling: ceiling_qps(verdict, subject),
        missing: missing(verdict, subject),
        cell: Some(subject.cell).filter(|_| !subject.starts.is_empty()),
        ..Bar::plain(subject.name.clone(), note, figure_qps, Fill::Subject)
    }
}

/// Why a subject has no bar. Only a figure that was refused is drawn as refused.
fn missing(verdict: &RunVerdict, subject: &CellVerdict) -> Option<Missing> {
    if !subject.grade.refuses() {
        return None;
    }
    let state =
        verdict.figures.iter().find(|figures| figures.cell == subject.cell).map(|figures| figures.state);
    match state {
        Some(State::Crashed) => Some(Missing::Crashed),
        Some(State::NotMeasured) => Some(Missing::NotMeasured),
        Some(State::Refused | State::Measured) | None => Some(Missing::Refused),
    }
}

fn ceiling_row(ceiling: &Ceiling, fill: Fill) -> Bar {
    let note = ceiling.median_qps().map_or("not measured".to_owned(), format::rate);
    Bar {
        interval: ends(ceiling.figure_qps),
        points: several(ceiling.starts_qps.clone()),
        cell: Some(ceiling.cell).filter(|_| !ceiling.trials.is_empty()),
        ..Bar::plain(ceiling.name.clone(), note, ceiling.median_qps(), fill)
    }
}

/// The rate of each start of a subject, if figure and bounds stand.
fn starts(subject: &CellVerdict) -> Vec<f64> {
    let figures = subject.measured_starts().filter_map(|start| start.bounds.as_ref()?.throughput_qps);
    let has_bounds = subject.lower_bound_qps.is_some() || subject.upper_bound_qps.is_some();
    if subject.figure_qps.is_some() && has_bounds { several(figures.collect()) } else { Vec::new() }
}

/// Leaves out a single start: it lies at the end of its bar and needs no dot.
fn several(starts_qps: Vec<f64>) -> Vec<f64> {
    if starts_qps.len() > 1 { starts_qps } else { Vec::new() }
}

/// The loads that each start met and missed, also if the figure is refused.
fn seen(subject: &CellVerdict) -> Vec<(Option<f64>, Option<f64>)> {
    let bounds = subject.measured_starts().filter_map(|start| start.bounds.as_ref());
    let ends = |bounds: &Bounds| {
        let met_qps = bounds.lower_qps.or(bounds.met_qps);
        (met_qps, bounds.upper_qps.or(bounds.missed_qps))
    };
    bounds.map(ends).filter(|(met, missed)| met.or(*missed).is_some()).collect()
}

/// The ends of an interval. `None` for a single start, whose interval has no meaningful width.
fn ends(figure: Option<Interval>) -> Option<(f64, f64)> {
    figure.filter(|figure| figure.count > 1).map(|figure| (figure.low, figure.high))
}
