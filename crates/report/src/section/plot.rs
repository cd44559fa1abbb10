//! Charts of an experiment: one drawing for every series, all with the same axis. Numeric values of the axis
//! are drawn along it; words get a bar each.

use kqps_observation::Run;
use kqps_observation::question::{Experiment, Figure, LinkChart};
use kqps_verdict::figure::links::{self, LinkPoint};
use kqps_verdict::figure::{Absence, Grid, GridRow, Slot, State, charts_of};
use kqps_verdict::judge::RunVerdict;

use super::scaling;
use crate::chart::{Bar, Bars, CurvePoint, Dot, Fill, Link, Links, Missing, Spread, Spreads, bars, spreads};
use crate::format;

/// A chart that the study asks for.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    /// The marks with their meaning.
    pub(crate) legend: Vec<(&'static str, &'static str)>,
    /// Heading and SVG of every series.
    pub(crate) drawings: Vec<(String, String)>,
    /// The exported table that has its data.
    pub(crate) sheet: &'static str,
}

/// The kind of figure that a drawing shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Rates,
    Efficiencies,
}

/// The charts of an experiment, the efficiencies of each after its rates.
pub(crate) fn of_experiment(
    run: &Run,
    verdict: &RunVerdict,
    experiment: &Experiment,
    number: usize,
) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (index, grid) in charts_of(run, &verdict.figures, experiment).iter().enumerate() {
        let id = format!("plot-{number}-{index}");
        if grid.show.iter().any(|figure| is_rate(*figure)) {
            plots.push(plot(verdict, grid, Of::Rates, &id));
        }
        if grid.show.contains(&Figure::Efficiency) {
            plots.push(plot(verdict, grid, Of::Efficiencies, &format!("{id}-efficiency")));
        }
    }
    for (index, chart) in experiment.links.iter().enumerate() {
        plots.push(of_links(run, verdict, experiment, chart, &format!("links-{number}-{index}")));
    }
    plots.retain(|plot| !plot.drawings.is_empty());
    plots
}

/// The number of sizes at which the line of a link is drawn.
const LINK_STEPS: u32 = 40;
/// The least end of the size axis, bytes. It ends a little beyond the largest reply.
const BYTES_LEAST: f64 = 128.0;

/// Rates by reply size, beside the rates that links carry.
fn of_links(run: &Run, verdict: &RunVerdict, experiment: &Experiment, chart: &LinkChart, id: &str) -> Plot {
    let points = links::points_of(run, &verdict.figures, experiment);
    let several =
        |point: &LinkPoint| points.iter().filter(|other| other.subject == point.subject).count() > 1;
    let dot = |point: &LinkPoint| {
        let name = &verdict.figures[point.figures].name;
        let name = if several(point) { name } else { &point.subject };
        let cell = Some(verdict.figures[point.figures].cell);
        Dot { name: name.clone(), bytes: point.reply_bytes, rate_qps: point.rate_qps, cell }
    };
    let dots: Vec<Dot> = points.iter().map(dot).collect();
    let sizes = link_sizes(&points);
    let bytes_max = sizes.last().copied().unwrap_or(BYTES_LEAST);
    let link = |gbit: &f64| {
        let carried = sizes.iter().map(|bytes| (*bytes, links::carried_qps(*bytes, *gbit))).collect();
        Link { name: format!("{gbit} Gb/s"), carried }
    };
    let carrying: Vec<Link> = chart.gbit_per_s.iter().map(link).collect();
    let sentence = |dot: &Dot| {
        format!("{}: {} with replies of {:.0} bytes.", dot.name, format::rate(dot.rate_qps), dot.bytes)
    };
    let description = dots.iter().map(sentence).collect::<Vec<_>>().join(" ");
    let drawing = crate::chart::links(&Links {
        id,
        title: &chart.title,
        description: &description,
        dots: &dots,
        links: &carrying,
        bytes_max,
    });
    let drawings = if drawing.is_empty() { Vec::new() } else { vec![(String::new(), drawing)] };
    Plot {
        title: chart.title.clone(),
        legend: vec![("median", "median rate"), ("link", "what a link carries")],
        drawings,
        sheet: "links",
    }
}

/// The sizes of replies at which the line of a link is drawn, bytes.
pub(crate) fn link_sizes(points: &[LinkPoint]) -> Vec<f64> {
    let bytes_max = points.iter().map(|point| point.reply_bytes * 1.25).fold(BYTES_LEAST, f64::max);
    (0..=LINK_STEPS).map(|step| bytes_max * f64::from(step) / f64::from(LINK_STEPS)).collect()
}

fn is_rate(figure: Figure) -> bool {
    matches!(figure, Figure::Median | Figure::MeanMinMax | Figure::Published)
}

fn plot(verdict: &RunVerdict, grid: &Grid, of: Of, id: &str) -> Plot {
    let series: Vec<Vec<Spread>> = grid.lines.iter().map(|line| series(verdict, grid, line, of)).collect();
    let highest = series.iter().flatten().map(Spread::reach).fold(0.0, f64::max);
    let numbers = grid.column_values.iter().filter(|value| value.parse::<f64>().is_ok()).count();
    let along = numbers == grid.column_values.len() && numbers > 1;
    let is_fitted = along && of == Of::Rates;
    let curve = |line: &GridRow| if is_fitted { scaling::curve_of(verdict, grid, line) } else { Vec::new() };
    let curves: Vec<Vec<CurvePoint>> = grid.lines.iter().map(curve).collect();
    let lines = grid.lines.iter().zip(series.iter().zip(&curves));
    let drawings = lines.enumerate().map(|(index, (line, (series, curve)))| {
        let name = named(grid, line);
        let drawing = drawn(&format!("{id}-{index}"), &name, grid, (series, curve), highest, along, of);
        (name, drawing)
    });
    let title = match (of, grid.title.is_empty()) {
        (Of::Rates, false) => grid.title.clone(),
        (Of::Rates, true) => format!("Rate by {}", grid.columns),
        (Of::Efficiencies, _) => format!("Scaling efficiency by {}", grid.columns),
    };
    let drawings = drawings.collect();
    let mut legend = legend(&series, along, of);
    if curves.iter().any(|curve| curve.len() > 1) {
        legend.push(("law", "Universal Scalability Law"));
    }
    if curves.iter().flatten().any(|point| point.band.is_some()) {
        legend.push(("law-band", "its interval"));
    }
    Plot { title, legend, drawings, sheet: "figures" }
}

fn named(grid: &Grid, line: &GridRow) -> String {
    let parts: Vec<String> =
        grid.rows.iter().zip(&line.values).map(|(name, value)| format!("{name} {value}")).collect();
    parts.join(", ")
}

/// The marks that occur, with their meaning.
fn legend(series: &[Vec<Spread>], along: bool, of: Of) -> Vec<(&'static str, &'static str)> {
    let any = |has: fn(&Spread) -> bool| series.iter().flatten().any(has);
    let median = if along { "median" } else { "swatch subject" };
    let measured = if of == Of::Rates { "median and its interval" } else { "measured" };
    let known = [
        (any(|one| one.median.is_some()), median, measured),
        (any(|one| !one.starts.is_empty()), "start", "each start"),
        (any(|one| one.mean.is_some()), "mean", "mean, minimum, maximum"),
        (any(|one| one.published.is_some()), "published", "published"),
        (any(|one| one.missing == Some(Missing::Refused)), "refused", "refused"),
        (any(|one| one.missing == Some(Missing::Crashed)), "unmeasured", "crashed"),
        (any(|one| one.missing == Some(Missing::Skipped)), "unmeasured", "skipped"),
        (any(|one| one.missing == Some(Missing::NotMeasured)), "unmeasured", "not measured"),
    ];
    known.into_iter().filter(|(occurs, ..)| *occurs).map(|(_, class, what)| (class, what)).collect()
}

fn series(verdict: &RunVerdict, grid: &Grid, line: &GridRow, of: Of) -> Vec<Spread> {
    let spread = |(slot, label): (&Slot, &String)| {
        let shows = |figure| of == Of::Rates && grid.show.contains(&figure);
        let figures = slot.figures.map(|index| &verdict.figures[index]);
        let cell = figures.filter(|one| one.state != State::NotMeasured).map(|one| one.cell);
        let mut spread = Spread { label: label.clone(), cell, ..Spread::default() };
        if shows(Figure::Median) {
            let median = figures.and_then(|one| one.median_qps);
            spread.median = median.map(|figure| (figure.median, figure.low, figure.high));
            let several = figures.map(|one| &one.starts_qps).filter(|starts| starts.len() > 1);
            spread.starts = several.cloned().unwrap_or_default();
        }
        if shows(Figure::MeanMinMax) {
            let mean = figures.and_then(|one| one.spread_qps);
            spread.mean = mean.map(|figure| (figure.mean, figure.min, figure.max));
        }
        if shows(Figure::Published) {
            spread.published = slot.published.as_ref().map(|published| published.rate_qps);
        }
        if of == Of::Efficiencies {
            let share = figures.and_then(|one| one.efficiency);
            spread.median = share.map(|share| (share, share, share));
            let wanted = grid.show.contains(&Figure::Published);
            spread.published = figures.and_then(|one| one.published_efficiency).filter(|_| wanted);
        }
        let has_mark = spread.median.is_some() || spread.mean.is_some();
        spread.missing = if has_mark { None } else { missing(verdict, slot) };
        spread
    };
    line.slots.iter().zip(&grid.column_values).map(spread).collect()
}

/// Why a cell that was meant to be measured has no mark.
fn missing(verdict: &RunVerdict, slot: &Slot) -> Option<Missing> {
    match (slot.figures.map(|index| verdict.figures[index].state), &slot.absence) {
        (Some(State::Crashed), _) => Some(Missing::Crashed),
        (Some(State::Refused), _) => Some(Missing::Refused),
        (Some(State::NotMeasured), _) => Some(Missing::NotMeasured),
        (Some(State::Measured), _) | (None, Some(Absence::NotPlanned) | None) => None,
        (None, Some(Absence::Skipped(_))) => Some(Missing::Skipped),
    }
}

fn drawn(
    id: &str,
    name: &str,
    grid: &Grid,
    (series, curve): (&[Spread], &[CurvePoint]),
    highest: f64,
    along: bool,
    of: Of,
) -> String {
    let title =
        format!("{} by {}: {name}", if of == Of::Rates { "Rate" } else { "Efficiency" }, grid.columns);
    let text = if of == Of::Rates { format::rate } else { format::percent };
    let described: Vec<String> = series.iter().map(|one| in_words(one, text)).collect();
    let (title, description) = (title.as_str(), described.join(" "));
    let description = description.as_str();
    if along {
        let tick = if of == Of::Rates { format::rate_tick } else { format::percent_tick };
        let (factor, spreads_) = (grid.columns.as_str(), series);
        let chart = Spreads { id, title, description, factor, spreads: spreads_, curve, highest, text, tick };
        return spreads(&chart);
    }
    let rows: Vec<Bar> = series.iter().map(|one| bar(one, text)).collect();
    let tick = if of == Of::Rates { format::rate_tick } else { format::percent_tick };
    bars(&Bars { id, title, description, rows: &rows, at_least: highest, cut: false, tick })
}

fn bar(one: &Spread, text: fn(f64) -> String) -> Bar {
    let value = one.median.or(one.mean).map(|(value, ..)| value);
    let note = match (value, one.missing) {
        (Some(value), _) => text(value),
        (None, Some(missing)) => missing.words().to_owned(),
        (None, None) => String::new(),
    };
    Bar {
        points: one.starts.clone(),
        interval: one.median.filter(|(_, low, high)| low < high).map(|(_, low, high)| (low, high)),
        mean: one.mean,
        published: one.published,
        missing: one.missing,
        cell: one.cell,
        ..Bar::plain(one.label.clone(), note, value, Fill::Subject)
    }
}

fn in_words(one: &Spread, text: fn(f64) -> String) -> String {
    let median = one.median.map(|(median, ..)| format!("median {}", text(median)));
    let mean = one
        .mean
        .map(|(mean, min, max)| format!("mean {} between {} and {}", text(mean), text(min), text(max)));
    let published = one.published.map(|published| format!("published {}", text(published)));
    let missing = one.missing.map(|missing| missing.words().to_owned());
    let parts: Vec<String> = [median, mean, published, missing].into_iter().flatten().collect();
    format!("At {}: {}.", one.label, if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") })
}
