//! Loads over their time, and the lanes of replays.

use kqps_observation::trial::ClassTrial;
use kqps_observation::{Run, Trial};

use super::sheet::{Field, Sheet, count, counted, number, p99_at_most, text, words};

/// A trial, or a class of it by itself.
pub(super) struct Part<'a> {
    number: u64,
    class: &'a str,
    trial: &'a Trial,
}

/// A trial with this number, and each of its classes by itself.
pub(super) fn parts(number: u64, trial: &Trial) -> Vec<Part<'_>> {
    if trial.classes.is_empty() {
        return vec![Part { number, class: "", trial }];
    }
    trial.classes.iter().map(|ClassTrial { name, trial, .. }| Part { number, class: name, trial }).collect()
}

/// The measured trials of a run.
pub(super) fn of_run(run: &Run) -> Vec<Part<'_>> {
    let measured = run.trials.iter().filter_map(|one| Some((one.number, one.measured()?)));
    measured.flat_map(|(number, trial)| parts(number, trial)).collect()
}

impl Part<'_> {
    pub(super) fn trial(&self) -> &Trial {
        self.trial
    }

    pub(super) fn fields(&self) -> [Field; 2] {
        [
            ("trial", "number of the trial", count(self.number)),
            ("class", "the class of clients, if the trial has several", words(self.class)),
        ]
    }
}

/// A row for every moment of the trials that record them: those along a course, and those of `kqps load --out`.
pub(super) fn moments(trials: &[Part<'_>]) -> Sheet {
    let mut sheet = Sheet::new("moments", "a moment of a trial, by when queries were due");
    for part in trials {
        for moment in &part.trial.moments {
            sheet.push(part.fields().into_iter().chain([
                ("at_s", "when it begins, seconds since the start", number(moment.at_s)),
                ("duration_s", "how long it lasts", number(moment.seconds)),
                ("intended", "queries that were due", count(moment.intended)),
                ("sent", "queries of these that were sent", count(moment.sent)),
                ("correct", "queries of these that were answered correctly in time", count(moment.answered)),
                ("failed", "queries of these that were sent, and not so answered", count(moment.failed)),
                ("p50_us", "median latency", number(moment.p50_us)),
                ("p99_us", "p99 latency", number(moment.p99_us)),
            ]));
        }
    }
    sheet
}

/// A row for every lane of a replay.
pub(super) fn lanes(trials: &[Part<'_>]) -> Sheet {
    let mut sheet = Sheet::new("lanes", "the clients of a replay that asked by one transport");
    for part in trials {
        for lane in part.trial.replay.iter().flat_map(|replay| &replay.lanes) {
            let accounts = &lane.accounts;
            sheet.push(part.fields().into_iter().chain([
                ("transport", "the transport", text(&lane.transport)),
                ("clients_share", "the share of the clients that it was to have", number(lane.share)),
                ("clients", "clients that asked by it", count(lane.clients)),
                ("intended", "queries that were due", count(accounts.intended)),
                ("sent", "queries sent", count(accounts.sent)),
                ("correct", "correct answers", count(accounts.correct)),
                ("wrong", "wrong answers", count(accounts.wrong)),
                ("late", "answers after the timeout", count(accounts.late)),
                ("lost", "queries without an answer", count(accounts.lost)),
                ("p50_us", "median latency", counted(lane.latency_us.p50)),
                ("p99_us", "p99 latency", counted(lane.latency_us.p99)),
                p99_at_most(&lane.latency_us),
            ]));
        }
    }
    sheet
}
