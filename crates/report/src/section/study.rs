//! A study: its question, the answer in a few sentences, and for every experiment its tables and charts.

use std::collections::BTreeSet;

use kqps_observation::question::{Experiment, Path};
use kqps_observation::{Question, Run};
use kqps_verdict::figure::{Figures, State, factor, tables_of};
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::steady;

use super::plot::{self, Plot};
use super::table::{self, Table};
use crate::format;

/// Everything of a study that the page lays out.
#[derive(Debug)]
pub(crate) struct Study {
    pub(crate) question: String,
    /// Who published what is laid beside; may be empty.
    pub(crate) source: String,
    pub(crate) path: &'static str,
    /// That a steady state was not looked for, if so.
    pub(crate) unsteady: String,
    pub(crate) answers: Vec<Answer>,
    pub(crate) experiments: Vec<Part>,
}

/// What an experiment found.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) title: String,
    pub(crate) sentences: Vec<String>,
}

/// One experiment.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
}

/// The study of a run, if it asks anything.
pub(crate) fn of_run(run: &Run, verdict: &RunVerdict) -> Option<Study> {
    let question: &Question = run.question.as_ref()?;
    let experiments = question.experiments.iter();
    Some(Study {
        question: question.question.clone(),
        source: question.source.clone(),
        path: match question.path {
            Path::Loopback => "Queries and replies travel over the loopback interface of this host.",
            Path::Veth => {
                "Player and subject live in network namespaces of their own, joined by a pair of virtual Ethernet \
                 devices."
            }
        },
        unsteady: steady::not_looked_for(run).unwrap_or_default(),
        answers: experiments.clone().map(|experiment| answer(run, verdict, experiment)).collect(),
        experiments: experiments.enumerate().map(|(index, one)| part(run, verdict, index, one)).collect(),
    })
}

fn part(run: &Run, verdict: &RunVerdict, index: usize, experiment: &Experiment) -> Part {
    let grids = tables_of(run, &verdict.figures, experiment);
    let grids = grids.iter().filter(|grid| !grid.lines.is_empty());
    let mut tables: Vec<Table> = grids.map(|grid| table::of_grid(verdict, grid)).collect();
    tables.splice(0..0, table::of_best(run, verdict, experiment));
    let mut told: Vec<(&'static str, String)> = Vec::new();
    for table in &mut tables {
        // Tables of one experiment show the same cells.
        table.notes.retain(|note| !told.contains(&(note.what, note.why.clone())));
        told.extend(table.notes.iter().map(|note| (note.what, note.why.clone())));
    }
    Part {
        title: title(experiment),
        about: experiment.about.clone(),
        tables,
        plots: plot::of_experiment(run, verdict, experiment, index),
    }
}

fn title(experiment: &Experiment) -> String {
    let title = if experiment.title.is_empty() { &experiment.name } else { &experiment.title };
    title.clone()
}

fn answer(run: &Run, verdict: &RunVerdict, experiment: &Experiment) -> Answer {
    let own: Vec<&Figures> = verdict.figures.iter().filter(|one| one.experiment == experiment.name).collect();
    let rate = |one: &Figures| one.median_qps.map_or(0.0, |figure| figure.median);
    let mut measured: Vec<&Figures> = own.iter().copied().filter(|one| one.median_qps.is_some()).collect();
    measured.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let told = |one: &Figures| {
        let interval = one.median_qps.filter(|figure| figure.count > 1);
        let interval = interval
            .map_or(String::new(), |figure| format!(" ({})", format::rate_interval(figure.low, figure.high)));
        format!(
            "{}: {}{interval}, grade {}",
            settings(run, experiment, one),
            format::rate(rate(one)),
            one.grade
        )
    };
    let mut sentences = Vec::new();
    if let [fastest, .., slowest] = measured.as_slice() {
        sentences.push(format!("Fastest, with {}.", told(fastest)));
        sentences.push(format!("Slowest, with {}.", told(slowest)));
    } else if let [only] = measured.as_slice() {
        sentences.push(format!("With {}.", told(only)));
    }
    let published = experiment.published.iter().max_by(|a, b| a.rate_qps.total_cmp(&b.rate_qps));
    if let Some(best) = published {
        let with = best.factors.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>();
        sentences.push(format!(
            "Published, fastest, with {}: {}.",
            with.join(", "),
            format::rate(best.rate_qps)
        ));
    }
    sentences.push(if own.is_empty() { left_out(run, experiment) } else { counted(&own) });
    Answer { title: title(experiment), sentences }
}

/// Why an experiment has no cell at all.
fn left_out(run: &Run, experiment: &Experiment) -> String {
    let of_it = |what: &str| what == experiment.name || what.starts_with(&format!("{}: ", experiment.name));
    let reasons: BTreeSet<&String> =
        run.skipped.iter().filter(|(what, _)| of_it(what)).map(|(_, why)| why).collect();
    let told = reasons.into_iter().map(String::as_str).collect::<Vec<_>>().join("; ");
    format!("Not measured: {told}.")
}

/// `24 of 30 cells have a number; 2 crashed.`
fn counted(own: &[&Figures]) -> String {
    let count = |state| own.iter().filter(|one| one.state == state).count();
    let mut told = format!("{} of {} cells have a number", count(State::Measured), own.len());
    for (state, what) in
        [(State::Refused, "refused"), (State::Crashed, "crashed"), (State::NotMeasured, "not measured")]
    {
        match count(state) {
            0 => {}
            1 => told += &format!(", 1 was {what}").replace("was crashed", "crashed"),
            some => told += &format!(", {some} were {what}").replace("were crashed", "crashed"),
        }
    }
    told + "."
}

/// The values of the factors that an experiment varies: `io mmsg, workers 2`.
pub(super) fn settings(run: &Run, experiment: &Experiment, figures: &Figures) -> String {
    let cell = &run.cells[figures.cell as usize];
    let varied = experiment.factors.iter().filter(|factor| factor.values.len() > 1);
    let told: Vec<String> =
        varied.filter_map(|one| Some(format!("{} {}", one.name, factor(cell, &one.name)?))).collect();
    if told.is_empty() { figures.name.clone() } else { told.join(", ") }
}
