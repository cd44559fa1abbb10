//! A study: its question, the answer in a few sentences, and the tables and charts of every experiment.

use kqps_observation::question::{Experiment, Path};
use kqps_observation::{Question, Run};
use kqps_verdict::figure::{Grid, tables_of};
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::steady;

use super::finding::{self, Finding};
use super::order;
use super::plot::{self, Plot};
use super::scaling;
use super::table::{self, Table};
use super::words::title;

#[derive(Debug)]
pub(crate) struct Study {
    pub(crate) question: String,
    /// The source of the published figures; may be empty.
    pub(crate) source: String,
    pub(crate) path: &'static str,
    /// The sentence that a steady state was not looked for; empty if it was.
    pub(crate) unsteady: String,
    pub(crate) findings: Vec<Finding>,
    pub(crate) experiments: Vec<Part>,
}

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
    /// Why it is not known how far servers scale, in sentences.
    pub(crate) unknown_scaling: Vec<String>,
    /// A sentence on which factor mattered, or that none did.
    pub(crate) finding: String,
}

/// The study of a run; `None` if the run has no question.
pub(crate) fn of_run(run: &Run, verdict: &RunVerdict) -> Option<Study> {
    let question: &Question = run.question.as_ref()?;
    let experiments = question.experiments.iter();
    let mut room = Room {
        bytes: order::PAGE_BYTES,
        tables: experiments.clone().map(|one| one.tables.len().max(1)).sum(),
    };
    Some(Study {
        question: question.question.clone(),
        source: question.source.clone(),
        path: match question.path {
            _ if !run.hosts.is_empty() => {
                "Queries and replies travel between the players' hosts and the server's."
            }
            Path::Loopback => "Queries and replies travel over the loopback interface of this host.",
            Path::Veth => {
                "Player and subject run in network namespaces of their own, joined by a pair of virtual Ethernet \
                 devices."
            }
        },
        unsteady: steady::not_looked_for(run).unwrap_or_default(),
        findings: experiments.clone().map(|one| finding::of_experiment(run, verdict, one)).collect(),
        experiments: experiments
            .enumerate()
            .map(|(index, one)| part(run, verdict, index, one, &mut room))
            .collect(),
    })
}

/// The room that orders of further tables have on the page. Each table gets an even share, and what it does not need is
/// left for the others.
struct Room {
    bytes: usize,
    tables: usize,
}

impl Room {
    fn table(&mut self, verdict: &RunVerdict, grid: &Grid) -> Table {
        let table = table::of_grid(verdict, grid, self.bytes / self.tables.max(1));
        self.bytes = self.bytes.saturating_sub(table.added_bytes());
        self.tables = self.tables.saturating_sub(1);
        table
    }
}

fn part(run: &Run, verdict: &RunVerdict, index: usize, experiment: &Experiment, room: &mut Room) -> Part {
    let grids = tables_of(run, &verdict.figures, experiment);
    let grids = grids.iter().filter(|grid| !grid.lines.is_empty());
    let mut tables: Vec<Table> = grids.map(|grid| room.table(verdict, grid)).collect();
    tables.splice(0..0, table::of_best(run, verdict, experiment));
    tables.extend(scaling::table_of(verdict, experiment));
    let mut shown: Vec<(&'static str, String)> = Vec::new();
    for (number, table) in tables.iter_mut().enumerate() {
        table.id = format!("table-{index}-{number}");
        // Tables of one experiment show the same cells.
        table.notes.retain(|note| !shown.contains(&(note.what, note.why.clone())));
        shown.extend(table.notes.iter().map(|note| (note.what, note.why.clone())));
    }
    Part {
        title: title(experiment),
        about: experiment.about.clone(),
        tables,
        plots: plot::of_experiment(run, verdict, experiment, index),
        unknown_scaling: scaling::refusals(verdict, experiment),
        finding: finding::of_factors(verdict, experiment),
    }
}
