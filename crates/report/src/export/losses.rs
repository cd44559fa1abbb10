//! The fates of queries over the trials of a search, where queries were lost, and why the kernel dropped packets.

use kqps_verdict::judge::RunVerdict;

use super::points::{CELL, NAME, TRIALS};
use super::sheet::{Sheet, Value, count, named, numbers, text, words};

/// A row for every subject that was sent any query.
pub(super) fn fates(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        ("intended", "queries that were due, over all trials of the search"),
        ("unsent", "queries that were never sent"),
        ("send_failed", "queries that the kernel refused to send"),
        ("sent", "queries sent"),
        ("correct", "correct answers"),
        ("wrong", "wrong answers"),
        ("late", "answers after the timeout"),
        ("lost", "queries without an answer"),
    ];
    let mut sheet = Sheet::new("fates", "what became of the queries to a subject", &columns);
    for subject in verdict.subjects.iter().filter(|subject| subject.losses.accounts.intended > 0) {
        let of = &subject.losses.accounts;
        let mut row = vec![count(subject.cell), text(&subject.name)];
        row.extend([of.intended, of.unsent, of.send_failed, of.sent].map(count));
        row.extend([of.correct, of.wrong, of.late, of.lost].map(count));
        sheet.rows.push(row);
    }
    sheet
}

/// A row for every place at which a subject's queries were lost.
pub(super) fn losses(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        (
            "place",
            "where; unexplained for what no counter explains, surplus for what counters show beyond the losses",
        ),
        ("packets", "how many"),
        ("is_shared", "whether other programs move the counter too"),
    ];
    let mut sheet = Sheet::new("losses", "the losses of a subject at one place", &columns);
    for subject in &verdict.subjects {
        let losses = &subject.losses;
        let mut row = |place: Value, packets: Value, is_shared: Value| {
            sheet.rows.push(vec![count(subject.cell), text(&subject.name), place, packets, is_shared]);
        };
        for loss in &losses.places {
            row(named(loss.place), count(loss.count), Value::Flag(loss.shared));
        }
        if losses.unexplained != 0 {
            row(text("unexplained"), count(losses.unexplained), Value::None);
        }
        if losses.surplus != 0 {
            row(text("surplus"), count(losses.surplus), Value::None);
        }
    }
    sheet
}

/// A row for every reason for which the kernel dropped packets.
pub(super) fn drop_reasons(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        ("reason", "the kernel's name of the reason"),
        ("packets", "packets that were dropped for it, on the whole host"),
        ("repeats", "number of the trial that was repeated to count them"),
        ("lost", "queries lost in the trial that counted"),
        ("absence", "why there are no counts"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("drop_reasons", "one reason for dropped packets", &columns);
    for subject in &verdict.subjects {
        let Some(reasons) = &subject.drop_reasons else { continue };
        let counts = reasons.counts.iter().map(|(reason, packets)| (text(reason), count(*packets)));
        let none = reasons.counts.is_empty().then_some((Value::None, Value::None));
        for (reason, packets) in counts.chain(none) {
            sheet.rows.push(vec![
                count(subject.cell),
                text(&subject.name),
                reason,
                packets,
                count(reasons.repeats),
                count(reasons.lost),
                words(reasons.failure.as_deref().unwrap_or_default()),
                numbers(&[reasons.trial]),
            ]);
        }
    }
    sheet
}
