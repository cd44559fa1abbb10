//! The output at the end of a study: for every experiment its tables, with measured and published rates in
//! one place, and why cells have no number.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use kqps_catalogue::figure::Unit;
use kqps_observation::question::{Experiment, Figure};
use kqps_observation::{Question, Run};
use kqps_testbed::words::counted;
use kqps_verdict::figure::{Absence, Best, Figures, Grid, Slot, State, best_of, tables_of};
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::steady;

use super::{rate, scaling, wrapped};

/// The whole output of a study's experiments.
pub(super) fn experiments(run: &Run, verdict: &RunVerdict, question: &Question) -> String {
    let mut text = String::new();
    for line in [&question.title, &question.question] {
        if !line.is_empty() {
            text += &wrapped("", line);
        }
    }
    if let Some(unsteady) = steady::not_looked_for(run) {
        text += &wrapped("", &unsteady);
    }
    for experiment in &question.experiments {
        text += &of_experiment(run, verdict, experiment);
    }
    text + "\n"
}

fn of_experiment(run: &Run, verdict: &RunVerdict, experiment: &Experiment) -> String {
    let title = if experiment.title.is_empty() { &experiment.name } else { &experiment.title };
    let mut text = format!("\n{}", wrapped("", title));
    let has_lines = |grid: &Grid| !grid.lines.is_empty();
    for grid in tables_of(run, &verdict.figures, experiment).into_iter().filter(has_lines) {
        if !grid.title.is_empty() {
            let unit =
                if is_rate(&grid) { ", correct answers a second in the median of the starts" } else { "" };
            text += &wrapped("", &format!("{}{unit}", grid.title));
        }
        text += &drawn(verdict, &grid);
    }
    for best in best_of(run, &verdict.figures, experiment) {
        text += &wrapped("- ", &best_words(verdict, &best));
    }
    text += &scaling::of_experiment(run, verdict, &experiment.name);
    let own = verdict.figures.iter().enumerate().filter(|(_, one)| one.experiment == experiment.name);
    for (index, figures) in own {
        text += &without_number(verdict, index, figures);
    }
    let found = verdict.findings.iter().find(|found| found.experiment == experiment.name);
    text + &found.map_or_else(String::new, |found| wrapped("Finding: ", &found.sentence))
}

/// The best measured rate, beside the best published one.
fn best_words(verdict: &RunVerdict, best: &Best) -> String {
    let figures = best.measured.map(|index| &verdict.figures[index]);
    let measured = figures.and_then(|one| Some(format!("{} ({})", rate(one.median_qps?.median), one.name)));
    let note = match best.published.note.as_str() {
        "" => String::new(),
        note => format!(" ({note})"),
    };
    let published = rate(best.published.rate_qps);
    format!("The best measured: {}; published: {published}{note}.", measured.unwrap_or_else(|| "none".into()))
}

/// Whether the first figure of a table is a rate.
fn is_rate(grid: &Grid) -> bool {
    let rates = [Figure::Median, Figure::MeanMinMax, Figure::Published];
    grid.show.first().is_none_or(|first| rates.contains(first))
}

/// A table of the cells; the first column holds the factors of the rows.
fn drawn(verdict: &RunVerdict, grid: &Grid) -> String {
    let mut table = Table::new();
    let across = |value: &String| match grid.columns.as_str() {
        "" => String::new(),
        factor => format!("{factor} {value}"),
    };
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([grid.rows.join(", ")].into_iter().chain(grid.column_values.iter().map(across)));
    for line in &grid.lines {
        let cells = line.slots.iter().map(|slot| in_words(verdict, &grid.show, slot));
        table.add_row([line.values.join(", ")].into_iter().chain(cells));
    }
    table.lines().map(|line| line.trim_end().to_string() + "\n").collect()
}

/// A table's text for one combination, with a line for each figure.
fn in_words(verdict: &RunVerdict, show: &[Figure], slot: &Slot) -> String {
    let figures = slot.figures.map(|index| &verdict.figures[index]);
    let mut lines = Vec::new();
    match figures {
        Some(figures) => {
            let (shown, hidden): (Vec<Figure>, Vec<Figure>) = show
                .iter()
                .filter(|figure| **figure != Figure::Published)
                .partition(|figure| figures.may_show(**figure));
            let shown: Vec<_> = shown.iter().filter_map(|figure| measured_words(*figure, figures)).collect();
            if figures.state != State::Measured && (shown.is_empty() || !hidden.is_empty()) {
                lines.push(state_word(figures.state).to_owned());
            }
            lines.extend(shown);
        }
        None if matches!(slot.absence, Some(Absence::Skipped(_))) => lines.push("skipped".to_owned()),
        None => lines.push("not measured".to_owned()),
    }
    if let Some(published) = slot.published.as_ref().filter(|_| show.contains(&Figure::Published)) {
        lines.push(format!("published {}", rate(published.rate_qps)));
    }
    lines.join("\n")
}

fn measured_words(figure: Figure, figures: &Figures) -> Option<String> {
    let value = figures.ranged(figure).0?;
    let range = |low: f64, high: f64| format!(" ({} to {})", rate(low), rate(high));
    let more = match figure {
        Figure::Published => return None,
        Figure::CpuByThread if figures.cpu_by_thread.is_empty() => return None,
        Figure::CpuByThread => {
            let one = |(name, cpu_s): &(String, f64)| format!("{name} {cpu_s:.2}");
            let all: Vec<String> = figures.cpu_by_thread.iter().map(one).collect();
            return Some(figure.row().phrase.replace("{}", &all.join(",\n")));
        }
        Figure::Median => {
            figures.median_qps.filter(|median| median.count > 1).map(|median| range(median.low, median.high))
        }
        Figure::MeanMinMax => figures.spread_qps.map(|spread| range(spread.min, spread.max)),
        Figure::CeilingShare if value >= 1.005 => Some(", so it is none".to_owned()),
        _ => None,
    };
    Some(figure.row().phrase.replace("{}", &in_unit(figure.row().unit, value)) + &more.unwrap_or_default())
}

/// A value in its unit.
fn in_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Rate => rate(value),
        Unit::Share => format!("{:.0} %", value * 100.0),
        Unit::SmallShare => format!("{:.3} %", value * 100.0),
        Unit::CpuSeconds => format!("{value:.2}"),
        Unit::Memory => format!("{:.1} MiB", value / f64::from(1 << 20)),
        Unit::Bytes => format!("{value:.0} B"),
        Unit::Seconds => format!("{value:.2} s"),
        Unit::Microseconds => format!("{value:.0} µs"),
        Unit::Answers => format!("{value:.0}"),
        Unit::PerQuery => format!("{value:.3}"),
    }
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Measured => "measured",
        State::Refused => "refused",
        State::Crashed => "crashed",
        State::NotMeasured => "not measured",
    }
}

/// Why a cell or some of its starts have no number, with the last lines of the subject's output.
fn without_number(verdict: &RunVerdict, index: usize, figures: &Figures) -> String {
    let mut text = String::new();
    if figures.state == State::Refused
        && let Some(reason) = verdict.subjects[index].reasons.first()
    {
        text += &wrapped("- ", &format!("{} is refused: {reason}", figures.name));
    }
    if let Some(crash) = figures.crashes.first() {
        let starts = counted(figures.crashes.len() as u64, "start");
        text += &wrapped("- ", &format!("{} crashed in {starts}: {}", figures.name, crash.reason));
        for line in &crash.output {
            let _ = writeln!(text, "    {}", line.replace(char::is_control, " "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use kqps_observation::question::{Factor, Published, Table as QuestionTable};
    use kqps_observation::run::{CellLoad, Outcome, Purpose};
    use kqps_observation::trial::{LoadFacts, LoadMode};
    use kqps_observation::{Accounts, Cell, Factors, RunTrial, SubjectFacts, Trial};
    use kqps_verdict::judge::judge;

    /// A run of one experiment with two cells: one answers, the other crashes.
    fn run() -> Run {
        let factors = |workers: &str| BTreeMap::from([("workers".to_owned(), workers.to_owned())]);
        let experiment = Experiment {
            name: "scaling".into(),
            title: "Workers".into(),
            factors: vec![Factor { name: "workers".into(), values: vec!["1".into(), "2".into()] }],
            tables: vec![QuestionTable {
                columns: "workers".into(),
                show: vec![Figure::Median, Figure::Published],
                ..QuestionTable::default()
            }],
            published: vec![Published { factors: factors("2"), rate_qps: 18_783.0, ..Published::default() }],
            ..Experiment::default()
        };
        let cell = |workers: u32| Cell {
            name: format!("echo {workers}"),
            experiment: "scaling".into(),
            load: CellLoad::Closed(1.0),
            workers,
            factors: Factors::read(factors(&workers.to_string())).unwrap(),
            ..Cell::default()
        };
        let load = LoadFacts {
            mode: LoadMode::Closed,
            answered_qps: 12_345.0,
            duration_s: 1.0,
            ..LoadFacts::default()
        };
        let outcomes = [
            Outcome::Measured(Box::new(Trial { load, ..Trial::default() })),
            Outcome::Failed { reason: "it died".into(), output: vec!["out of\u{1b}memory".into()] },
        ];
        let trial = |(cell, outcome): (u32, Outcome)| RunTrial {
            number: u64::from(cell) + 1,
            cell,
            block: 0,
            start: u64::from(cell) + 1,
            purpose: Purpose::Closed,
            outcome,
        };
        Run {
            goal: "quick".into(),
            question: Some(Question { experiments: vec![experiment], ..Question::default() }),
            cells: vec![cell(1), cell(2)],
            trials: (0..).zip(outcomes).map(trial).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn measured_crashed_and_published_stand_in_one_table() {
        let run = run();
        let text = experiments(&run, &judge(&run), run.question.as_ref().unwrap());
        for wanted in
            ["workers 1", "12,345", "crashed", "published 18,783", "echo 2 crashed in 1 start: it died"]
        {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(text.contains("    out of memory\n"), "no control character reaches the terminal: {text}");
    }

    #[test]
    fn what_a_refused_rate_leaves_standing_is_printed() {
        let table_of = |show: &[Figure]| {
            let mut run = run();
            let Outcome::Measured(trial) = &mut run.trials[0].outcome else { panic!() };
            trial.accounts = Accounts { intended: 2, sent: 2, correct: 1, wrong: 1, ..Accounts::default() };
            trial.subject =
                Some(SubjectFacts { pss_bytes: Some(64 << 20), rss_bytes: 1, ..SubjectFacts::default() });
            let mut question = run.question.take().unwrap();
            question.experiments[0].tables[0].show = show.to_vec();
            run.question = Some(question.clone());
            experiments(&run, &judge(&run), &question)
        };
        let both = table_of(&[Figure::Median, Figure::Memory]);
        assert!(both.contains("refused ") && both.contains("64.0 MiB"), "{both}");
        let alone = table_of(&[Figure::Memory]);
        assert!(!alone.contains("refused ") && alone.contains("64.0 MiB"), "{alone}");
        assert!(alone.contains("is refused: wrong-answers"), "why there is no rate is shown below: {alone}");
    }
}
