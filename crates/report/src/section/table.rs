//! A table of an experiment: every combination of factors with its figures, measured and published side by
//! side. If there is no figure, the table says why.

use std::collections::BTreeMap;

use kqps_catalogue::figure::Unit;
use kqps_observation::Run;
use kqps_observation::question::{Experiment, Figure};
use kqps_verdict::figure::{Absence, Best, Figures, Grid, Slot, State, best_of};
use kqps_verdict::judge::RunVerdict;

use super::order::{self, Key, Order};
use super::words::settings;
use crate::format;

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// The names of the row factors.
    pub(crate) corner: String,
    /// The column factor with each value; every one spans `figures.len()` columns. Empty without a column
    /// factor.
    pub(crate) groups: Vec<String>,
    /// The heads of the figures.
    pub(crate) figures: Vec<Head>,
    pub(crate) rows: Vec<Row>,
    /// Notes below: why cells crashed or were left out, and remarks on published figures.
    pub(crate) notes: Vec<Note>,
    /// Whether the table is too long for a screen: it then scrolls by itself, and its head stays.
    pub(crate) tall: bool,
    /// Unique on the page.
    pub(crate) id: String,
    /// The orders in which its rows can be shown, the planned one first.
    pub(crate) orders: Vec<Order>,
    /// The exported table that has its data.
    pub(crate) sheet: &'static str,
}

/// The head of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) name: &'static str,
    /// The word of the glossary that explains it.
    pub(crate) term: Option<&'static str>,
}

impl Table {
    /// A table without column groups and notes. `keys` name the columns by which its rows may be ordered.
    pub(super) fn plain(title: &str, figures: Vec<Head>, rows: Vec<Row>, keys: &[Key]) -> Self {
        let value = |row: usize, column: usize| rows[row].cells[column].value;
        Self {
            title: title.to_owned(),
            corner: String::new(),
            groups: Vec::new(),
            figures,
            notes: Vec::new(),
            tall: rows.len() > TALL,
            id: String::new(),
            orders: order::of_rows(rows.len(), keys, value, bytes(&rows), order::TABLE_BYTES),
            sheet: "figures",
            rows,
        }
    }

    /// About how many bytes its further orders add to the page.
    pub(super) fn added_bytes(&self) -> usize {
        order::added(&self.orders, bytes(&self.rows))
    }

    /// The rows in an order.
    pub(crate) fn rows_in<'a>(&'a self, order: &'a Order) -> impl Iterator<Item = &'a Row> {
        order.rows.iter().map(|index| &self.rows[*index])
    }
}

/// A combination of the row factors.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) head: String,
    /// `groups` times `figures`.
    pub(crate) cells: Vec<TableCell>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableCell {
    pub(crate) text: String,
    /// Smaller text below; may be empty.
    pub(crate) soft: String,
    /// Style class.
    pub(crate) class: &'static str,
    /// The cell of the run whose trials are behind it.
    pub(crate) cell: Option<u32>,
    /// The figure as a number, for the order of the rows.
    pub(crate) value: Option<f64>,
}

/// A note below the table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Note {
    /// `crashed`, `skipped`, `published`.
    pub(crate) what: &'static str,
    /// The cells that it concerns.
    pub(crate) whose: String,
    pub(crate) why: String,
    /// The last lines of a subject's output; may be empty.
    pub(crate) output: String,
}

/// A table with more rows scrolls by itself.
pub(super) const TALL: usize = 16;

/// A table that the study asks for. Further orders of its rows add at most `bytes_most` to the page.
pub(crate) fn of_grid(verdict: &RunVerdict, grid: &Grid, bytes_most: usize) -> Table {
    let show = &grid.show;
    let with_published = show.contains(&Figure::Published);
    let row = |line: &kqps_verdict::figure::GridRow| {
        let cells = line.slots.iter().flat_map(|slot| of_slot(verdict, show, slot));
        Row { head: head(&line.values), cells: cells.collect() }
    };
    let rows: Vec<Row> = grid.lines.iter().map(row).collect();
    let groups = if grid.columns.is_empty() {
        Vec::new()
    } else {
        grid.column_values.iter().map(|value| format!("{} {value}", grid.columns)).collect()
    };
    let value = |row: usize, column: usize| rows[row].cells[column].value;
    let keys = keys(grid, with_published);
    let orders = order::of_rows(rows.len(), &keys, value, bytes(&rows), bytes_most);
    Table {
        title: grid.title.clone(),
        corner: grid.rows.join(", "),
        groups,
        figures: show.iter().map(|figure| head_of(*figure, with_published)).collect(),
        orders,
        sheet: "figures",
        rows,
        notes: notes(verdict, grid),
        tall: grid.lines.len() > TALL,
        id: String::new(),
    }
}

/// About how many bytes of HTML rows have.
fn bytes(rows: &[Row]) -> usize {
    let of_cell = |cell: &TableCell| CELL_BYTES + cell.text.len() + cell.soft.len();
    let of_row = |row: &Row| CELL_BYTES + row.head.len() + row.cells.iter().map(of_cell).sum::<usize>();
    rows.iter().map(of_row).sum()
}

/// The tags of a cell with a link to its trials.
const CELL_BYTES: usize = 100;

/// The columns by which the rows of a table may be ordered. Every figure comes once, in its last column, before any
/// comes again: a table with many columns may have no room for all.
fn keys(grid: &Grid, with_published: bool) -> Vec<Key> {
    let mut keys = Vec::new();
    for (column, value) in grid.column_values.iter().enumerate().rev() {
        for (at, figure) in grid.show.iter().enumerate().filter(|(_, figure)| **figure != Figure::CpuByThread)
        {
            let name = head_of(*figure, with_published).name;
            let greatest_first = figure.row().has_greatest_first();
            let first = if greatest_first { "highest" } else { "lowest" };
            let place =
                if value.is_empty() { String::new() } else { format!(" at {} {value}", grid.columns) };
            let name = format!("{name}{place}, {first} first");
            keys.push(Key { column: column * grid.show.len() + at, name, greatest_first });
        }
    }
    keys
}

/// The best measured figure beside the best published one; `None` if no best was published.
pub(crate) fn of_best(run: &Run, verdict: &RunVerdict, experiment: &Experiment) -> Option<Table> {
    let row = |best: &Best| {
        let measured = best.measured.map(|index| &verdict.figures[index]);
        let measured = measured.map_or_else(none, |figures| {
            let TableCell { text, soft, value, .. } = figure_of(Figure::Median, figures);
            let soft = format!("{}, {soft}", settings(run, experiment, figures));
            TableCell { cell: Some(figures.cell), value, ..plain(text, soft) }
        });
        let published = TableCell {
            text: format::rate(best.published.rate_qps),
            soft: best.published.note.clone(),
            class: "published",
            ..TableCell::default()
        };
        Row { head: "best".to_owned(), cells: vec![measured, published] }
    };
    let rows: Vec<Row> = best_of(run, &verdict.figures, experiment).iter().map(row).collect();
    let heads = vec![Head { name: "measured", term: Some("figure") }, Head { name: "published", term: None }];
    let title = "The best of all, measured and published";
    (!rows.is_empty()).then(|| Table { sheet: "best", ..Table::plain(title, heads, rows, &[]) })
}

fn head(values: &[String]) -> String {
    if values.is_empty() { "all".to_owned() } else { values.join(", ") }
}

/// The head of a figure. The median is called measured beside a published rate.
pub(super) fn head_of(figure: Figure, with_published: bool) -> Head {
    let row = figure.row();
    let is_beside = with_published && figure == Figure::Median;
    Head { name: if is_beside { "measured" } else { row.head }, term: row.term }
}

/// The figures of one combination. If they are absent, the first column of a measured figure says why.
fn of_slot(verdict: &RunVerdict, show: &[Figure], slot: &Slot) -> Vec<TableCell> {
    let figures = slot.figures.map(|index| &verdict.figures[index]);
    let is_measured = figures.is_some_and(|one| one.state == State::Measured);
    let mut reason = Some(without(verdict, slot)).filter(|_| !is_measured);
    let mut cell_of = |figure: &Figure| {
        if *figure == Figure::Published {
            return published(slot);
        }
        let visible = figures.filter(|figures| figures.may_show(*figure));
        let cell = visible.map_or_else(none, |figures| figure_of(*figure, figures));
        if cell.is_absent() { reason.take().unwrap_or(cell) } else { cell }
    };
    let cell_of = |figure: &Figure| {
        let cell = cell_of(figure);
        // A cell of the run that was never begun has no trials.
        let has_trials = figures.filter(|figures| figures.state != State::NotMeasured && !cell.is_absent());
        TableCell {
            cell: has_trials.filter(|_| *figure != Figure::Published).map(|figures| figures.cell),
            ..cell
        }
    };
    show.iter().map(cell_of).collect()
}

impl TableCell {
    fn is_absent(&self) -> bool {
        self.class == "absent"
    }
}

fn plain(text: String, soft: String) -> TableCell {
    TableCell { text, soft, ..TableCell::default() }
}

fn none() -> TableCell {
    TableCell { text: format::NONE.to_owned(), class: "absent", ..TableCell::default() }
}

fn published(slot: &Slot) -> TableCell {
    slot.published.as_ref().map_or_else(none, |published| TableCell {
        text: format::rate(published.rate_qps),
        class: "published",
        value: Some(published.rate_qps),
        ..TableCell::default()
    })
}

/// Why there are no figures.
fn without(verdict: &RunVerdict, slot: &Slot) -> TableCell {
    let cell = |text: &str, soft: String, class| TableCell {
        text: text.to_owned(),
        soft,
        class,
        ..TableCell::default()
    };
    let Some(index) = slot.figures else {
        let text = if matches!(slot.absence, Some(Absence::Skipped(_))) { "skipped" } else { "not measured" };
        return cell(text, String::new(), "absent");
    };
    match verdict.figures[index].state {
        State::Crashed => cell("crashed", String::new(), "crashed"),
        State::Refused => cell("no number", refused_for(verdict, index), "refused"),
        State::Measured | State::NotMeasured => cell("not measured", String::new(), "absent"),
    }
}

/// The reason for a refused figure, in a word.
pub(super) fn refused_for(verdict: &RunVerdict, index: usize) -> String {
    let subject = &verdict.subjects[index];
    let first = subject.reasons.first();
    let warning = subject.warnings.iter().find(|warning| Some(&warning.to_string()) == first);
    warning.map_or("grade F".to_owned(), |warning| warning.code.to_string())
}

/// A figure in words; a dash if it is not known.
pub(super) fn figure_of(figure: Figure, figures: &Figures) -> TableCell {
    let value = figures.ranged(figure).0;
    let known = value.and_then(|known| known_figure(figure, known, figures));
    known.map_or_else(none, |cell| TableCell { value, ..cell })
}

/// A figure with this value in words, and what is said below it.
fn known_figure(figure: Figure, value: f64, figures: &Figures) -> Option<TableCell> {
    let soft = match figure {
        Figure::Median => return median(figures),
        Figure::CpuByThread if figures.cpu_by_thread.is_empty() => return None,
        Figure::CpuByThread => {
            let one = |(name, cpu_s): &(String, f64)| format!("{name} {}", format::cpu_s(*cpu_s));
            let all: Vec<String> = figures.cpu_by_thread.iter().map(one).collect();
            return Some(plain(all.join(", "), String::new()));
        }
        Figure::MeanMinMax => figures.spread_qps.map(|spread| format::rate_interval(spread.min, spread.max)),
        Figure::Published => figures.published.as_ref().map(|published| published.note.clone()),
        Figure::Efficiency => {
            figures.published_efficiency.map(|share| format!("published {}", format::percent(share)))
        }
        // As the whole percents that are shown.
        Figure::CeilingShare => (value >= 1.005).then(|| "so it is none".to_owned()),
        Figure::Memory => figures.memory.filter(|memory| !memory.proportional).map(|_| "resident".to_owned()),
        Figure::LoadTime | Figure::EventTime | Figure::EventSilence => {
            let (_, low, high) = figures.ranged(figure);
            low.zip(high)
                .map(|(low, high)| format!("{} to {}", format::duration_s(low), format::duration_s(high)))
        }
        _ => None,
    };
    Some(plain(in_unit(figure.row().unit, value), soft.unwrap_or_default()))
}

/// A value in its unit.
fn in_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Rate => format::rate(value),
        Unit::Share => format::percent(value),
        Unit::SmallShare => format!("{:.3}\u{a0}%", value * 100.0),
        Unit::CpuSeconds => format::cpu_s(value),
        Unit::Memory => format::bytes(value as u64),
        Unit::Bytes => format!("{value:.0}\u{a0}B"),
        Unit::Seconds => format::duration_s(value),
        Unit::Microseconds => format::time_us(value),
        Unit::Answers => format!("{value:.0}"),
        Unit::PerQuery => format!("{value:.3}"),
    }
}

fn median(figures: &Figures) -> Option<TableCell> {
    let median = figures.median_qps?;
    let soft = match median.count {
        1 => "one start".to_owned(),
        _ => format::rate_interval(median.low, median.high),
    };
    let crashed = match figures.crashes.len() {
        0 => String::new(),
        some => format!(", {some} crashed"),
    };
    Some(plain(format::rate(median.median), soft + &crashed))
}

/// Why cells of the table crashed or were left out, and remarks on published figures; equal notes are merged.
fn notes(verdict: &RunVerdict, grid: &Grid) -> Vec<Note> {
    let mut merged: BTreeMap<(&'static str, String, String), Vec<String>> = BTreeMap::new();
    for line in &grid.lines {
        for (slot, column) in line.slots.iter().zip(&grid.column_values) {
            let mut whose = line.values.clone();
            if !column.is_empty() {
                whose.push(format!("{} {column}", grid.columns));
            }
            let mut add = |what, why: &str, output: String| {
                merged.entry((what, why.to_owned(), output)).or_default().push(whose.join(", "));
            };
            let is_shown = grid.show.contains(&Figure::Published);
            if let Some(published) = slot.published.as_ref().filter(|one| is_shown && !one.note.is_empty()) {
                add("published", &published.note, String::new());
            }
            match (slot.figures.map(|index| &verdict.figures[index]), &slot.absence) {
                (Some(figures), _) => {
                    if let Some(crash) = figures.crashes.first() {
                        add("crashed", &crash.reason, crash.output.join("\n"));
                    }
                }
                (None, Some(Absence::Skipped(why))) => add("skipped", why, String::new()),
                (None, _) => {}
            }
        }
    }
    merged
        .into_iter()
        .map(|((what, why, output), whose)| Note { what, whose: whose.join("; "), why, output })
        .collect()
}
