//! Loads over their time, and the lanes of replays.

use kqps_observation::{Run, Trial};

use super::sheet::{Field, Sheet, count, counted, number, p99_at_most, text};

/// The measured trials of a run with their numbers.
pub(super) fn of_run(run: &Run) -> Vec<(u64, &Trial)> {
    run.trials.iter().filter_map(|one| Some((one.number, one.measured()?))).collect()
}

fn trial(number: u64) -> Field {
    ("trial", "number of the trial", count(number))
}

/// A row for every moment of the trials that record them: those along a course, and those of `kqps load --out`.
pub(super) fn moments(trials: &[(u64, &Trial)]) -> Sheet {
    let mut sheet = Sheet::new("moments", "a moment of a trial, by when queries were due");
    for (at, one) in trials {
        for moment in &one.moments {
            sheet.push([
                trial(*at),
                ("at_s", "when it begins, seconds since the start", number(moment.at_s)),
                ("duration_s", "how long it lasts", number(moment.seconds)),
                ("intended", "queries that were due", count(moment.intended)),
                ("sent", "queries of these that were sent", count(moment.sent)),
                ("correct", "queries of these that were answered correctly in time", count(moment.answered)),
                ("failed", "queries of these that were sent, and not so answered", count(moment.failed)),
                ("p50_us", "median latency", number(moment.p50_us)),
                ("p99_us", "p99 latency", number(moment.p99_us)),
            ]);
        }
    }
    sheet
}

/// A row for every lane of a replay.
pub(super) fn lanes(trials: &[(u64, &Trial)]) -> Sheet {
    let mut sheet = Sheet::new("lanes", "the clients of a replay that asked by one transport");
    for (at, one) in trials {
        for lane in one.replay.iter().flat_map(|replay| &replay.lanes) {
            let accounts = &lane.accounts;
            sheet.push([
                trial(*at),
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
            ]);
        }
    }
    sheet
}
