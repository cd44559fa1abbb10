//! The name servers of a run side by side: the fastest cell of each, with its further figures.

use kqps_observation::Run;
use kqps_observation::question::Figure;
use kqps_verdict::compare::Pairing;
use kqps_verdict::figure::{Figures, State};
use kqps_verdict::judge::RunVerdict;

use super::order::{self, Key, Order};
use super::table::{self, TableCell};

#[derive(Debug)]
pub(crate) struct Summary {
    /// The columns that at least one server has a figure for, and the rate in any case.
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    /// Whether any server was measured with several settings.
    pub(crate) chosen: bool,
    /// The orders in which the rows can be shown, that of the run first.
    pub(crate) orders: Vec<Order>,
}

impl Summary {
    /// The rows in an order.
    pub(crate) fn rows_in<'a>(&'a self, order: &'a Order) -> impl Iterator<Item = &'a Row> {
        order.rows.iter().map(|index| &self.rows[*index])
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    figure: Figure,
    /// Its head, and its label on narrow screens.
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    /// The word of the glossary that explains it.
    pub(crate) term: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) subject: String,
    pub(crate) version: Option<String>,
    /// Its settings, if several were measured.
    pub(crate) settings: String,
    /// Its figure in every column.
    pub(crate) figures: Vec<TableCell>,
}

const COLUMNS: [Column; 5] = [
    Column {
        figure: Figure::CeilingShare,
        name: "of the ceiling",
        meaning: "its rate as a share of that of the echo with the same I/O model",
        term: Some("ceiling"),
    },
    Column {
        figure: Figure::Median,
        name: "rate",
        meaning: "this rate, over all of its starts",
        term: Some("figure"),
    },
    Column {
        figure: Figure::Cpu,
        name: "CPU per million",
        meaning: "the server's CPU time for a million correct answers at this rate",
        term: Some("CPU per million"),
    },
    Column { figure: Figure::Memory, name: "memory", meaning: "its memory at this rate", term: None },
    Column {
        figure: Figure::P99AtHalf,
        name: "p99 at half load",
        meaning: "the time that 1 % of the queries exceed at half of this rate",
        term: Some("p99"),
    },
];

/// The usual length of a cell on the page.
const CELL_BYTES: usize = 150;

/// The name of the subject in cells that measure the echo.
const ECHO: &str = "echo";

/// Every name server in the order of the run. The echo is no name server, and the second cell of A in a
/// comparison is left out.
pub(crate) fn of_run(run: &Run, verdict: &RunVerdict) -> Option<Summary> {
    let again = Pairing::from_run(run).map(|pairing| pairing.again);
    let subject = |one: &Figures| run.cells[one.cell as usize].subject.clone();
    let mut subjects: Vec<String> = Vec::new();
    let figures = || verdict.figures.iter().enumerate().filter(|(_, one)| Some(one.cell as usize) != again);
    for name in figures().map(|(_, one)| subject(one)).filter(|name| name != ECHO) {
        if !subjects.contains(&name) {
            subjects.push(name);
        }
    }
    let rate = |one: &Figures| one.median_qps.map_or(f64::NEG_INFINITY, |figure| figure.median);
    let row = |name: &String| {
        let own: Vec<(usize, &Figures)> = figures().filter(|(_, one)| subject(one) == *name).collect();
        let (index, best) = *own.iter().max_by(|(_, a), (_, b)| rate(a).total_cmp(&rate(b)))?;
        let settings = match own.len() {
            1 => String::new(),
            several if best.median_qps.is_none() => {
                format!("none of {several} cells has a number; one of them: {}", best.name)
            }
            several => format!("fastest of {several} cells: {}", best.name),
        };
        Some(Row {
            subject: name.clone(),
            version: run.cells[best.cell as usize].version.clone(),
            settings,
            figures: COLUMNS.iter().map(|column| cell(verdict, index, column.figure)).collect(),
        })
    };
    let mut rows: Vec<Row> = subjects.iter().filter_map(row).collect();
    let chosen = rows.iter().any(|row| !row.settings.is_empty());
    let columns = leave_out_what_none_has(&mut rows);
    let key = |(at, column): (usize, &Column)| {
        let greatest_first = column.figure.row().has_greatest_first();
        let first = if greatest_first { "highest" } else { "lowest" };
        Key { column: at, name: format!("{}, {first} first", column.name), greatest_first }
    };
    let keys: Vec<Key> = columns.iter().enumerate().map(key).collect();
    let value = |row: usize, column: usize| rows[row].figures[column].value;
    let bytes = rows.len() * (columns.len() + 1) * CELL_BYTES;
    let orders = order::of_rows(rows.len(), &keys, value, bytes, order::TABLE_BYTES);
    (!rows.is_empty()).then_some(Summary { columns, rows, chosen, orders })
}

/// Removes the columns that no server has a figure for from all rows, and returns the columns that remain. A
/// comparison, for example, has no ceiling.
fn leave_out_what_none_has(rows: &mut [Row]) -> Vec<Column> {
    let has = |row: &Row, at: usize| row.figures[at].text != crate::format::NONE;
    let kept: Vec<bool> = (0..COLUMNS.len())
        .map(|at| COLUMNS[at].figure == Figure::Median || rows.iter().any(|row| has(row, at)))
        .collect();
    for row in rows {
        let mut kept = kept.iter();
        row.figures.retain(|_| *kept.next().expect("a row has a figure for every column"));
    }
    COLUMNS.into_iter().zip(kept).filter_map(|(column, kept)| kept.then_some(column)).collect()
}

fn cell(verdict: &RunVerdict, index: usize, figure: Figure) -> TableCell {
    let figures = &verdict.figures[index];
    let says = |text: &str, soft: String| TableCell {
        text: text.to_owned(),
        soft,
        class: "absent",
        ..TableCell::default()
    };
    let shown = match (figures.state, figure) {
        (State::Measured, _) => table::figure_of(figure, figures),
        (State::Crashed, Figure::Median) => TableCell { class: "crashed", ..says("crashed", String::new()) },
        (State::Refused, Figure::Median) => {
            TableCell { class: "refused", ..says("no number", table::refused_for(verdict, index)) }
        }
        (State::NotMeasured, Figure::Median) => says("not measured", String::new()),
        _ => says(crate::format::NONE, String::new()),
    };
    let has_trials = figures.state != State::NotMeasured && shown.class != "absent";
    TableCell { cell: has_trials.then_some(figures.cell), ..shown }
}
