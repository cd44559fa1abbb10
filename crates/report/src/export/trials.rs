//! Every trial, and what was left out.

use kqps_observation::run::Outcome;
use kqps_observation::{Accounts, Quantiles, Run, SubjectFacts};
use kqps_verdict::judge::RunVerdict;

use crate::section::trials::{behind, notes};

use super::sheet::{Sheet, Value, block, cell, count, counted, named, number, p99_at_most, text, words};

/// A row for every trial.
pub(super) fn trials(run: &Run, verdict: &RunVerdict) -> Sheet {
    const NOTES: &str = "its warnings, and what else is to know of it";
    const OUTPUT: &str = "the last lines of the subject, if it could not be measured";
    let mut sheet = Sheet::new("trials", "one trial");
    let behind = behind(verdict);
    for one in &run.trials {
        let of_cell = run.cells.get(one.cell as usize);
        let (trial, failure, output) = match &one.outcome {
            Outcome::Failed { reason, output } => (None, text(reason), words(&output.join("\n"))),
            Outcome::Measured(trial) => (Some(trial), Value::None, Value::None),
        };
        let (load, accounts) = (trial.map(|trial| &trial.load), trial.map(|trial| &trial.accounts));
        let latency = trial.map_or_else(Quantiles::default, |trial| trial.latency_us);
        let subject = trial.and_then(|trial| trial.subject.as_ref());
        let counts = |count: fn(&Accounts) -> u64| counted(accounts.map(count));
        let flag = |is_set: Option<bool>| is_set.map_or(Value::None, Value::Flag);
        let notes = trial.zip(of_cell).map(|(trial, cell)| notes(cell, trial, one.purpose));
        sheet.push([
            ("trial", "number of the trial", count(one.number)),
            cell(one.cell),
            ("name", "the cell's name", words(of_cell.map_or("", |cell| &cell.name))),
            block(one.block),
            ("start", "number of the start in the run", count(one.start)),
            ("purpose", "what it was made for", text(one.purpose.word())),
            ("failure", "why it could not be measured", failure),
            (
                "started_unix_ms",
                "when it began, milliseconds since 1970",
                counted(trial.map(|trial| trial.started_unix_ms)),
            ),
            ("mode", "open or closed loop", load.map_or(Value::None, |load| named(load.mode))),
            (
                "intended_qps",
                "the rate of the schedule, or the highest of a closed loop",
                number(load.and_then(|load| load.intended_qps)),
            ),
            ("offered_qps", "the load that left", number(load.map(|load| load.offered_qps))),
            ("answered_qps", "correct answers a second", number(load.map(|load| load.answered_qps))),
            ("duration_s", "how long it lasted", number(load.map(|load| load.duration_s))),
            ("intended", "queries that were due", counts(|of| of.intended)),
            ("sent", "queries sent", counts(|of| of.sent)),
            ("correct", "correct answers", counts(|of| of.correct)),
            ("wrong", "wrong answers", counts(|of| of.wrong)),
            ("late", "answers after the timeout", counts(|of| of.late)),
            ("lost", "queries without an answer", counts(|of| of.lost)),
            (
                "bad_share",
                "share of the intended queries without a correct answer in time",
                number(accounts.map(Accounts::bad_ratio)),
            ),
            ("p50_us", "median latency", counted(latency.p50)),
            ("p99_us", "p99 latency", counted(latency.p99)),
            p99_at_most(&latency),
            ("p999_us", "p99.9 latency", counted(latency.p999)),
            ("max_us", "greatest latency", counted(latency.max)),
            ("cpu_s", "CPU seconds of the subject", number(subject.map(SubjectFacts::cpu_s))),
            (
                "rss_bytes",
                "resident memory of the subject",
                counted(subject.map(|subject| subject.rss_bytes)),
            ),
            ("is_interrupted", "whether the user ended it", flag(trial.map(|trial| trial.interrupted))),
            (
                "is_behind_figure",
                "whether it is behind the figure of its cell",
                flag(trial.map(|_| behind.contains(&one.number))),
            ),
            ("notes", NOTES, words(&notes.unwrap_or_default())),
            ("output", OUTPUT, output),
        ]);
    }
    sheet
}

/// A row for everything that the run left out.
pub(super) fn skipped(run: &Run) -> Sheet {
    let mut sheet = Sheet::new("skipped", "something that the run left out");
    for (what, why) in &run.skipped {
        sheet.push([("what", "what was left out", text(what)), ("absence", "why", text(why))]);
    }
    sheet
}
