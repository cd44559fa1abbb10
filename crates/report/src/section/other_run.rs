//! Another run beside this one: the figures of both, and what differs between the hosts.

use kqps_history::{Beside, BesideRow, Figure, Kind, NOT_HERE, NOT_KNOWN, NOT_THERE};
use kqps_verdict::change::{Form, typeset};

use super::order::{self, Key, Order};
use crate::format;

#[derive(Debug)]
pub(crate) struct Section {
    /// When the other run began, and the name of its folder.
    pub(crate) then: String,
    /// The address of the other run's page, as seen from this one.
    pub(crate) page: Option<String>,
    pub(crate) has_common: bool,
    pub(crate) differences: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// The orders in which the rows can be shown, that of the run first.
    pub(crate) orders: Vec<Order>,
}

impl Section {
    /// The rows in an order.
    pub(crate) fn rows_in<'a>(&'a self, order: &'a Order) -> impl Iterator<Item = &'a Row> {
        order.rows.iter().map(|index| &self.rows[*index])
    }
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) cell: String,
    /// Index of the cell in this run.
    pub(crate) at: Option<u32>,
    pub(crate) figure: String,
    pub(crate) then: FigureText,
    pub(crate) now: FigureText,
    pub(crate) change: String,
    /// The interval of the change.
    pub(crate) interval: String,
    /// Style class of the change: `better` or `worse` if the hosts are the same, the figure is a share, and it
    /// changed with all rows considered.
    pub(crate) class: &'static str,
}

/// A figure, or the mark and the reason of one that is missing.
#[derive(Debug)]
pub(crate) struct FigureText {
    pub(crate) text: String,
    pub(crate) soft: String,
    pub(crate) class: &'static str,
}

pub(crate) fn section(beside: &Beside) -> Section {
    let rows: Vec<Row> = beside.rows.iter().map(|one| row(one, beside.is_same_host)).collect();
    // A change in percent compares between figures of all kinds.
    let changes = [("greatest rise", 1.0), ("greatest fall", -1.0)];
    let keys: Vec<Key> = (0..)
        .zip(changes)
        .map(|(column, (name, _))| Key { column, name: format!("{name} first"), greatest_first: true })
        .collect();
    let change = |row: usize, column: usize| {
        let (_, by, _) = beside.rows[row].ratio?;
        Some(by.ln() * changes[column].1)
    };
    let bytes = rows.iter().map(|row| ROW_BYTES + row.cell.len()).sum();
    let moment = format::moment(beside.then_unix_ms);
    Section {
        then: if beside.then_name.is_empty() { moment } else { format!("{moment} ({})", beside.then_name) },
        page: beside.then_page.clone(),
        has_common: beside.has_common,
        differences: beside.differences.clone(),
        orders: order::of_rows(rows.len(), &keys, change, bytes, order::TABLE_BYTES),
        rows,
    }
}

/// The usual length of a row on the page beside its name.
const ROW_BYTES: usize = 600;

/// Only shares of an echo on the same host have a colour: an absolute rate moves with the host from hour to hour.
fn row(row: &BesideRow, is_same_host: bool) -> Row {
    let is_decided = is_same_host && row.kind == Some(Kind::Share) && row.is_apart;
    let form = row.ratio.map_or(Form::Percent, |(low, by, high)| Form::from_ratios(&[low, by, high]));
    let is_better = row.ratio.map(|(_, by, _)| (by > 1.0) == row.kind.is_none_or(Kind::more_is_better));
    Row {
        cell: row.cell.clone(),
        at: row.at.filter(|_| row.now.is_ok()),
        figure: row.kind.map_or("rate".to_owned(), |kind| kind.to_string()),
        then: shown(row.kind, &row.then),
        now: shown(row.kind, &row.now),
        change: row.ratio.map_or(format::NONE.to_owned(), |(_, by, _)| typeset(&form.change(by))),
        interval: row
            .ratio
            .filter(|(low, _, high)| low < high)
            .map_or(String::new(), |(low, _, high)| typeset(&form.range(low, high))),
        class: match is_better {
            Some(true) if is_decided => "better",
            Some(false) if is_decided => "worse",
            _ => "",
        },
    }
}

fn shown(kind: Option<Kind>, figure: &Result<Figure, String>) -> FigureText {
    let said = |value: f64| kind.map_or_else(|| format::rate(value), |kind| kind.show(value));
    match figure {
        Ok(Figure { value, low: Some(low), high: Some(high), .. }) => {
            FigureText { text: said(*value), soft: format!("{} to {}", said(*low), said(*high)), class: "" }
        }
        Ok(figure) => FigureText { text: said(figure.value), soft: String::new(), class: "" },
        Err(why) if [NOT_THERE, NOT_HERE, NOT_KNOWN].contains(&why.as_str()) => {
            FigureText { text: format::NONE.to_owned(), soft: why.clone(), class: "" }
        }
        Err(why) => FigureText { text: "no number".to_owned(), soft: why.clone(), class: "refused" },
    }
}
