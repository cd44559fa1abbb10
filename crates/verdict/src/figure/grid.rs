//! Lays the cells of an experiment out for tables and charts: several factors as rows, one factor as columns.
//! Every combination that was measured, left out or published has its slot, and no slot holds two cells.

use std::collections::BTreeMap;

use kqps_observation::factors::name;
use kqps_observation::question::{Experiment, Figure};
use kqps_observation::{Cell, Run};

use super::Figures;
use super::absence::{self, Absence};
use super::factor::factor;
use super::published::{self, PublishedFigure};

/// A table or a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The headline, possibly empty.
    pub title: String,
    /// The factors of the rows.
    pub rows: Vec<String>,
    /// The factor of the columns; empty for a single column.
    pub columns: String,
    /// The values of the columns' factor; one empty value for a single column.
    pub column_values: Vec<String>,
    /// The figures to show of every cell.
    pub show: Vec<Figure>,
    /// The rows from top to bottom.
    pub lines: Vec<GridRow>,
}

/// The cells with the same values of the row factors.
#[derive(Clone, Debug, PartialEq)]
pub struct GridRow {
    /// The values of the row factors.
    pub values: Vec<String>,
    /// The slots, one for every column.
    pub slots: Vec<Slot>,
}

/// A combination of factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Index into the figures of the run; `None` if there is no cell.
    pub figures: Option<usize>,
    /// Why there is no cell; `None` if there is one.
    pub absence: Option<Absence>,
    /// The published figure, whether or not there is a cell.
    pub published: Option<PublishedFigure>,
}

/// The value that is shown for a factor that a cell does not have.
const WITHOUT: &str = "–";

/// The tables that an experiment asks for. If it asks for none, one table with all of its factors as rows.
pub fn tables_of(run: &Run, figures: &[Figures], experiment: &Experiment) -> Vec<Grid> {
    let laid = Laid::new(run, figures, experiment);
    if experiment.tables.is_empty() {
        let of_cells = experiment.published.iter().any(|one| !one.best);
        let published = of_cells.then_some(Figure::Published);
        let show: Vec<Figure> = [Figure::Median, Figure::MeanMinMax].into_iter().chain(published).collect();
        return vec![laid.grid("", &[], "", &show)];
    }
    let tables = experiment.tables.iter();
    tables.map(|table| laid.grid(&table.title, &table.rows, &table.columns, &table.show)).collect()
}

/// The charts that an experiment asks for, with the series as rows and the values of the axis as columns.
pub fn charts_of(run: &Run, figures: &[Figures], experiment: &Experiment) -> Vec<Grid> {
    let laid = Laid::new(run, figures, experiment);
    let charts = experiment.charts.iter();
    charts.map(|chart| laid.grid(&chart.title, &chart.series, &chart.x, &chart.show)).collect()
}

/// An experiment with its cells.
struct Laid<'a> {
    run: &'a Run,
    experiment: &'a Experiment,
    /// The cells with their indices into the figures.
    cells: Vec<(usize, &'a Cell)>,
}

impl<'a> Laid<'a> {
    fn new(run: &'a Run, figures: &[Figures], experiment: &'a Experiment) -> Self {
        let own = figures.iter().enumerate().filter(|(_, one)| one.experiment == experiment.name);
        let cells = own.map(|(index, one)| (index, &run.cells[one.cell as usize])).collect();
        Self { run, experiment, cells }
    }

    fn grid(&self, title: &str, rows: &[String], columns: &str, show: &[Figure]) -> Grid {
        let rows = self.distinguishing(rows, columns);
        let values: Vec<Vec<String>> = rows.iter().map(|name| self.values(name)).collect();
        let mut column_values = if columns.is_empty() { vec![String::new()] } else { self.values(columns) };
        let mut lines: Vec<GridRow> = combinations(&values)
            .into_iter()
            .map(|values| {
                let slots = column_values.iter().map(|column| self.slot(&rows, &values, columns, column));
                GridRow { slots: slots.collect(), values }
            })
            .filter(|line| !line.slots.iter().all(is_empty))
            .collect();
        let is_used = |at: usize| lines.iter().any(|line| !is_empty(&line.slots[at]));
        let used: Vec<bool> = (0..column_values.len()).map(is_used).collect();
        for line in &mut lines {
            line.slots = kept(std::mem::take(&mut line.slots), &used);
        }
        column_values = kept(column_values, &used);
        let (title, columns) = (title.to_owned(), columns.to_owned());
        Grid { title, rows, columns, column_values, show: show.to_vec(), lines }
    }

    /// The row factors, and as many more as are needed so that no two cells share a slot.
    fn distinguishing(&self, rows: &[String], columns: &str) -> Vec<String> {
        let mut rows = rows.to_vec();
        let all = self.experiment.factors.iter().map(|factor| factor.name.clone());
        let of_cells = self.cells.iter().flat_map(|(_, cell)| cell.factors.words().keys().cloned());
        let candidates: Vec<String> = all.chain([name::SUBJECT.to_owned()]).chain(of_cells).collect();
        let slots = |rows: &[String]| {
            let place = |cell: &Cell| {
                let names = rows.iter().map(String::as_str).chain([columns]);
                names.map(|name| factor(cell, name)).collect::<Vec<_>>()
            };
            let mut places: Vec<_> = self.cells.iter().map(|(_, cell)| place(cell)).collect();
            places.sort_unstable();
            places.dedup();
            places.len()
        };
        for name in candidates {
            let without = slots(&rows);
            if without == self.cells.len() {
                break;
            }
            rows.push(name);
            if slots(&rows) == without {
                rows.pop();
            }
        }
        rows
    }

    /// The values of a factor: first in the study's order, then further values of cells and published figures.
    fn values(&self, name: &str) -> Vec<String> {
        let listed = self.experiment.factors.iter().filter(|factor| factor.name == name);
        let listed = listed.flat_map(|factor| factor.values.iter().cloned());
        let of_cells = self.cells.iter().map(|(_, cell)| value_of(cell, name));
        let published = self.experiment.published.iter().filter(|one| !one.best);
        let published = published.filter_map(|one| one.factors.get(name).cloned());
        let mut values: Vec<String> = Vec::new();
        for value in listed.chain(of_cells).chain(published) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if values.is_empty() { vec![WITHOUT.to_owned()] } else { values }
    }

    fn slot(&self, rows: &[String], values: &[String], columns: &str, column: &str) -> Slot {
        let mut wanted: BTreeMap<String, String> = rows.iter().cloned().zip(values.iter().cloned()).collect();
        if !columns.is_empty() {
            wanted.insert(columns.to_owned(), column.to_owned());
        }
        let agrees = |cell: &Cell| wanted.iter().all(|(name, value)| value_of(cell, name) == *value);
        match self.cells.iter().find(|(_, cell)| agrees(cell)) {
            Some((index, cell)) => Slot {
                figures: Some(*index),
                absence: None,
                published: published::matching(self.experiment, &|name| factor(cell, name)),
            },
            None => Slot {
                figures: None,
                absence: Some(absence::look_up(self.run, self.experiment, &wanted)),
                published: published::matching(self.experiment, &|name| {
                    wanted.get(name).cloned().or_else(|| self.common(name))
                }),
            },
        }
    }

    /// The value of a factor, if all cells have the same one.
    fn common(&self, name: &str) -> Option<String> {
        let mut values = self.cells.iter().map(|(_, cell)| factor(cell, name));
        let first = values.next()??;
        values.all(|value| value.as_ref() == Some(&first)).then_some(first)
    }
}

fn value_of(cell: &Cell, name: &str) -> String {
    factor(cell, name).unwrap_or_else(|| WITHOUT.to_owned())
}

fn is_empty(slot: &Slot) -> bool {
    slot.figures.is_none() && slot.published.is_none() && slot.absence == Some(Absence::NotPlanned)
}

fn kept<T>(items: Vec<T>, keep: &[bool]) -> Vec<T> {
    items.into_iter().zip(keep).filter(|(_, keep)| **keep).map(|(item, _)| item).collect()
}

/// Every combination of one value from each list. The last list varies fastest.
fn combinations(lists: &[Vec<String>]) -> Vec<Vec<String>> {
    lists.iter().fold(vec![Vec::new()], |begun, list| {
        let longer = |one: &Vec<String>, value: &String| {
            let mut one = one.clone();
            one.push(value.clone());
            one
        };
        begun.iter().flat_map(|one| list.iter().map(move |value| longer(one, value))).collect()
    })
}
