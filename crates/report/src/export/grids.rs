//! The tables and charts of a study's experiments: a row for every figure of every combination, the best of all, and
//! the rates that links carry.

use kqps_observation::Run;
use kqps_observation::question::{Experiment, Figure};
use kqps_verdict::figure::{Absence, Figures, Grid, Ranged, Slot, best_of, charts_of, links, tables_of};
use kqps_verdict::judge::{CellVerdict, RunVerdict};

use super::cells::absence;
use super::sheet::{Sheet, Value, count, ends, number, numbers, text, words};
use crate::section::plot;

/// A row for every figure of every table and chart.
pub(super) fn figures(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("figures", "one figure of a table or chart of an experiment");
    for experiment in run.experiments() {
        for grid in tables_of(run, &verdict.figures, experiment) {
            add(&mut sheet, verdict, experiment, "table", &grid);
        }
        for grid in charts_of(run, &verdict.figures, experiment) {
            add(&mut sheet, verdict, experiment, "chart", &grid);
        }
    }
    sheet
}

fn add(sheet: &mut Sheet, verdict: &RunVerdict, experiment: &Experiment, shown_in: &str, grid: &Grid) {
    for line in &grid.lines {
        let rows: Vec<String> =
            grid.rows.iter().zip(&line.values).map(|(name, value)| format!("{name} {value}")).collect();
        for (slot, column) in line.slots.iter().zip(&grid.column_values) {
            let subject = slot.figures.map(|index| &verdict.subjects[index]);
            for figure in &grid.show {
                let trials = subject.filter(|_| *figure != Figure::Published);
                for SlotFigure { name, thread, ranged: (value, low, high) } in shown(verdict, slot, *figure) {
                    let why = if value.is_some() { String::new() } else { without(verdict, slot) };
                    sheet.push([
                        ("experiment", "the experiment", text(&experiment.name)),
                        ("shown_in", "table or chart", text(shown_in)),
                        ("title", "its title", words(&grid.title)),
                        ("rows", "the factors of the row, with their values", words(&rows.join(", "))),
                        ("column_factor", "the factor of the column, or of the axis", words(&grid.columns)),
                        ("column_value", "its value", words(column)),
                        ("figure", "the figure; its unit is at its end", text(name)),
                        ("thread", "the kind of thread, if it is the CPU time of one", words(thread)),
                        ("value", "its value", number(value)),
                        ("low", "low end of its interval or of its starts", number(low)),
                        ("high", "high end of its interval or of its starts", number(high)),
                        ("cell", "index of the cell in the run", of_cell(subject)),
                        ("absence", "why there is no figure", words(&why)),
                        ("trials", "numbers of the trials behind it", of_trials(trials)),
                    ]);
                }
            }
        }
    }
}

/// The index of a cell, if there is one.
fn of_cell(subject: Option<&CellVerdict>) -> Value {
    subject.map_or(Value::None, |subject| count(subject.cell))
}

/// The numbers of the trials of a cell, if there is one.
fn of_trials(subject: Option<&CellVerdict>) -> Value {
    subject.map_or(Value::None, |subject| numbers(&subject.trials))
}

/// A figure of a slot. `thread` is empty but for the CPU time of one kind of thread.
struct SlotFigure<'a> {
    name: &'static str,
    thread: &'a str,
    ranged: Ranged,
}

/// Numbers that a slot shows of a figure: one as a rule.
fn shown<'a>(verdict: &'a RunVerdict, slot: &Slot, figure: Figure) -> Vec<SlotFigure<'a>> {
    let figures: Option<&Figures> = slot.figures.map(|index| &verdict.figures[index]);
    let visible = figures.filter(|figures| figures.may_show(figure));
    let none = (None, None, None);
    let one = |ranged| SlotFigure { name: figure.row().export, thread: "", ranged };
    match figure {
        Figure::Published => vec![one((slot.published.as_ref().map(|one| one.rate_qps), None, None))],
        Figure::Efficiency => {
            let published = figures.and_then(|figures| figures.published_efficiency);
            let published = published.map(|share| SlotFigure {
                name: "published_efficiency_share",
                thread: "",
                ranged: (Some(share), None, None),
            });
            let own = one(visible.map_or(none, |figures| figures.ranged(figure)));
            std::iter::once(own).chain(published).collect()
        }
        Figure::CpuByThread => {
            let threads = visible.map_or(&[][..], |figures| &figures.cpu_by_thread);
            if threads.is_empty() {
                return vec![one(none)];
            }
            let of = |(thread, cpu_s): &'a (String, f64)| SlotFigure {
                name: figure.row().export,
                thread,
                ranged: (Some(*cpu_s), None, None),
            };
            threads.iter().map(of).collect()
        }
        _ => vec![one(visible.map_or(none, |figures| figures.ranged(figure)))],
    }
}

/// Why a slot has no figure.
fn without(verdict: &RunVerdict, slot: &Slot) -> String {
    match (slot.figures, &slot.absence) {
        (Some(index), _) => {
            let why = absence(&verdict.subjects[index], &verdict.figures[index]);
            if why.is_empty() { "not known".to_owned() } else { why }
        }
        (None, Some(Absence::Skipped(why))) => why.clone(),
        (None, _) => "not planned".to_owned(),
    }
}

/// A row for every figure that others published as the best of all.
pub(super) fn best(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("best", "the best published figure of an experiment");
    for experiment in run.experiments() {
        for best in best_of(run, &verdict.figures, experiment) {
            let subject = best.measured.map(|index| &verdict.subjects[index]);
            let name = subject.map_or(Value::None, |subject| text(&subject.name));
            let rate = subject.and_then(|subject| subject.figure_qps);
            let [low, high] = ends(rate.as_ref());
            let rate = rate.map(|rate| rate.median);
            let why = if rate.is_some() { "" } else { "none of the cells has a number" };
            sheet.push([
                ("experiment", "the experiment", text(&experiment.name)),
                ("published_qps", "the best published rate", number(best.published.rate_qps)),
                ("note", "a remark on it", words(&best.published.note)),
                ("rate_qps", "the best measured rate with the same settings", number(rate)),
                ("rate_low_qps", "low end of its interval", low),
                ("rate_high_qps", "high end of its interval", high),
                ("cell", "index of its cell in the run", of_cell(subject)),
                ("name", "the cell's name", name),
                ("absence", "why there is no measured rate", words(why)),
                ("trials", "numbers of the trials behind it", of_trials(subject)),
            ]);
        }
    }
    sheet
}

/// A row for every cell of a chart of links, and for every point of the line of every link.
pub(super) fn links(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("links", "a cell, or what a link carries at one size of replies");
    for experiment in run.experiments() {
        let points = links::points_of(run, &verdict.figures, experiment);
        if points.is_empty() {
            continue;
        }
        let sizes = plot::link_sizes(&points);
        for chart in &experiment.links {
            let mut row = |gbit: Option<f64>, subject: Option<&CellVerdict>, bytes: f64, rate_qps: f64| {
                let name = subject.map_or(Value::None, |subject| text(&subject.name));
                let rate = "the cell's rate, or what the link carries of such replies in a second";
                sheet.push([
                    ("experiment", "the experiment", text(&experiment.name)),
                    ("title", "the chart's title", words(&chart.title)),
                    ("link_gbit_per_s", "the link; nothing for a measured cell", number(gbit)),
                    ("cell", "index of the cell in the run; nothing for a link", of_cell(subject)),
                    ("name", "the cell's name", name),
                    ("reply_bytes", "size of a reply", number(bytes)),
                    ("rate_qps", rate, number(rate_qps)),
                    ("trials", "numbers of the trials behind it", of_trials(subject)),
                ]);
            };
            for point in &points {
                row(None, Some(&verdict.subjects[point.figures]), point.reply_bytes, point.rate_qps);
            }
            for gbit in &chart.gbit_per_s {
                for bytes in &sizes {
                    row(Some(*gbit), None, *bytes, links::carried_qps(*bytes, *gbit));
                }
            }
        }
    }
    sheet
}
