//! Every trial, and what was left out.

use kqps_observation::Run;
use kqps_observation::run::Outcome;
use kqps_verdict::judge::RunVerdict;

use crate::section::trials::{behind, notes};

use super::points::P99_AT_MOST;
use super::sheet::{Sheet, Value, count, counted, named, number, text, words};

const COLUMNS: &[(&str, &str)] = &[
    ("trial", "number of the trial"),
    ("cell", "index of the cell in the run"),
    ("name", "the cell's name"),
    ("block", "the block, from 1"),
    ("start", "number of the start in the run"),
    ("purpose", "what it was made for"),
    ("failure", "why it could not be measured"),
    ("started_unix_ms", "when it began, milliseconds since 1970"),
    ("mode", "open or closed loop"),
    ("intended_qps", "the rate of the schedule, or the highest of a closed loop"),
    ("offered_qps", "the load that left"),
    ("answered_qps", "correct answers a second"),
    ("duration_s", "how long it lasted"),
    ("intended", "queries that were due"),
    ("sent", "queries sent"),
    ("correct", "correct answers"),
    ("wrong", "wrong answers"),
    ("late", "answers after the timeout"),
    ("lost", "queries without an answer"),
    ("bad_share", "share of the intended queries without a correct answer in time"),
    ("p50_us", "median latency"),
    ("p99_us", "p99 latency"),
    P99_AT_MOST,
    ("p999_us", "p99.9 latency"),
    ("max_us", "greatest latency"),
    ("cpu_s", "CPU seconds of the subject"),
    ("rss_bytes", "resident memory of the subject"),
    ("is_interrupted", "whether the user ended it"),
    ("is_behind_figure", "whether it is behind the figure of its cell"),
    ("notes", "its warnings, and what else is to know of it"),
    ("output", "the last lines of the subject, if it could not be measured"),
];

/// A row for every trial.
pub(super) fn trials(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("trials", "one trial", COLUMNS);
    let behind = behind(verdict);
    for one in &run.trials {
        let mut row = vec![
            count(one.number),
            count(one.cell),
            words(run.cells.get(one.cell as usize).map_or("", |cell| &cell.name)),
            count(one.block + 1),
            count(one.start),
            text(one.purpose.word()),
        ];
        match &one.outcome {
            Outcome::Failed { reason, output } => {
                row.push(text(reason));
                row.resize(COLUMNS.len() - 1, Value::None);
                row.push(words(&output.join("\n")));
            }
            Outcome::Measured(trial) => {
                let (load, accounts, latency) = (&trial.load, &trial.accounts, &trial.latency_us);
                let subject = trial.subject.as_ref();
                row.extend([
                    Value::None,
                    count(trial.started_unix_ms),
                    named(load.mode),
                    number(load.intended_qps),
                    number(load.offered_qps),
                    number(load.answered_qps),
                    number(load.duration_s),
                    count(accounts.intended),
                    count(accounts.sent),
                    count(accounts.correct),
                    count(accounts.wrong),
                    count(accounts.late),
                    count(accounts.lost),
                    number(accounts.bad_ratio()),
                    counted(latency.p50),
                    counted(latency.p99),
                    counted(latency.at_most.and_then(|bounds| bounds.p99)),
                    counted(latency.p999),
                    counted(latency.max),
                    number(subject.map(|subject| subject.cpu_user_s + subject.cpu_system_s)),
                    counted(subject.map(|subject| subject.rss_bytes)),
                    Value::Flag(trial.interrupted),
                    Value::Flag(behind.contains(&one.number)),
                    words(
                        &run.cells
                            .get(one.cell as usize)
                            .map_or_else(String::new, |cell| notes(cell, trial, one.purpose)),
                    ),
                ]);
            }
        }
        row.resize(COLUMNS.len(), Value::None);
        sheet.rows.push(row);
    }
    sheet
}

/// A row for everything that the run left out.
pub(super) fn skipped(run: &Run) -> Sheet {
    let columns = [("what", "what was left out"), ("absence", "why")];
    let mut sheet = Sheet::new("skipped", "something that the run left out", &columns);
    sheet.rows.extend(run.skipped.iter().map(|(what, why)| vec![text(what), text(why)]));
    sheet
}
