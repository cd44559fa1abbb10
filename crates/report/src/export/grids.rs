//! The tables and charts of a study's experiments: a row for every figure of every combination, the best of all, and
//! the rates that links carry.

use kqps_observation::Run;
use kqps_observation::question::{Experiment, Figure};
use kqps_verdict::figure::{Absence, Figures, Grid, Ranged, Slot, best_of, charts_of, links, tables_of};
use kqps_verdict::judge::RunVerdict;

use super::cells::absence;
use super::sheet::{Sheet, Value, count, ends, number, numbers, text, words};
use crate::section::plot;

fn experiments(run: &Run) -> impl Iterator<Item = &Experiment> {
    run.question.iter().flat_map(|question| &question.experiments)
}

/// A row for every figure of every table and chart.
pub(super) fn figures(run: &Run, verdict: &RunVerdict) -> Sheet {
    let columns = [
        ("experiment", "the experiment"),
        ("shown_in", "table or chart"),
        ("title", "its title"),
        ("rows", "the factors of the row, with their values"),
        ("column_factor", "the factor of the column, or of the axis"),
        ("column_value", "its value"),
        ("figure", "the figure; its unit is at its end"),
        ("thread", "the kind of thread, if it is the CPU time of one"),
        ("value", "its value"),
        ("low", "low end of its interval or of its starts"),
        ("high", "high end of its interval or of its starts"),
        ("cell", "index of the cell in the run"),
        ("absence", "why there is no figure"),
        ("trials", "numbers of the trials behind it"),
    ];
    let mut sheet = Sheet::new("figures", "one figure of a table or chart of an experiment", &columns);
    for experiment in experiments(run) {
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
                    sheet.rows.push(vec![
                        text(&experiment.name),
                        text(shown_in),
                        words(&grid.title),
                        words(&rows.join(", ")),
                        words(&grid.columns),
                        words(column),
                        text(name),
                        words(thread),
                        number(value),
                        number(low),
                        number(high),
                        subject.map_or(Value::None, |subject| count(subject.cell)),
                        words(&why),
                        trials.map_or(Value::None, |subject| numbers(&subject.trials)),
                    ]);
                }
            }
        }
    }
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
    let columns = [
        ("experiment", "the experiment"),
        ("published_qps", "the best published rate"),
        ("note", "a remark on it"),
        ("rate_qps", "the best measured rate with the same settings"),
        ("rate_low_qps", "low end of its interval"),
        ("rate_high_qps", "high end of its interval"),
        ("cell", "index of its cell in the run"),
        ("name", "the cell's name"),
        ("absence", "why there is no measured rate"),
        ("trials", "numbers of the trials behind it"),
    ];
    let mut sheet = Sheet::new("best", "the best published figure of an experiment", &columns);
    for experiment in experiments(run) {
        for best in best_of(run, &verdict.figures, experiment) {
            let subject = best.measured.map(|index| &verdict.subjects[index]);
            let rate = subject.and_then(|subject| subject.figure_qps);
            let [low, high] = ends(rate.as_ref());
            let why = if rate.is_some() { "" } else { "none of the cells has a number" };
            sheet.rows.push(vec![
                text(&experiment.name),
                number(best.published.rate_qps),
                words(&best.published.note),
                number(rate.map(|rate| rate.median)),
                low,
                high,
                subject.map_or(Value::None, |subject| count(subject.cell)),
                subject.map_or(Value::None, |subject| text(&subject.name)),
                words(why),
                subject.map_or(Value::None, |subject| numbers(&subject.trials)),
            ]);
        }
    }
    sheet
}

/// A row for every cell of a chart of links, and for every point of the line of every link.
pub(super) fn links(run: &Run, verdict: &RunVerdict) -> Sheet {
    let columns = [
        ("experiment", "the experiment"),
        ("title", "the chart's title"),
        ("link_gbit_per_s", "the link; nothing for a measured cell"),
        ("cell", "index of the cell in the run; nothing for a link"),
        ("name", "the cell's name"),
        ("reply_bytes", "size of a reply"),
        ("rate_qps", "the cell's rate, or what the link carries of such replies in a second"),
        ("trials", "numbers of the trials behind it"),
    ];
    let mut sheet = Sheet::new("links", "a cell, or what a link carries at one size of replies", &columns);
    for experiment in experiments(run) {
        let points = links::points_of(run, &verdict.figures, experiment);
        if points.is_empty() {
            continue;
        }
        let sizes = plot::link_sizes(&points);
        for chart in &experiment.links {
            let head = || [text(&experiment.name), words(&chart.title)];
            for point in &points {
                let subject = &verdict.subjects[point.figures];
                let mut row = Vec::from(head());
                row.extend([
                    Value::None,
                    count(subject.cell),
                    text(&subject.name),
                    number(point.reply_bytes),
                    number(point.rate_qps),
                    numbers(&subject.trials),
                ]);
                sheet.rows.push(row);
            }
            for gbit in &chart.gbit_per_s {
                for bytes in &sizes {
                    let carried = number(links::carried_qps(*bytes, *gbit));
                    let mut row = Vec::from(head());
                    row.extend([
                        number(*gbit),
                        Value::None,
                        Value::None,
                        number(*bytes),
                        carried,
                        Value::None,
                    ]);
                    sheet.rows.push(row);
                }
            }
        }
    }
    sheet
}
