//! The fates of queries over the trials of a search, where queries were lost, and why the kernel dropped packets.

use kqps_verdict::judge::RunVerdict;

use super::sheet::{Sheet, Value, cell, count, name, named, text, trials, words};

/// A row for every subject that was sent any query.
pub(super) fn fates(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("fates", "what became of the queries to a subject");
    for subject in verdict.subjects.iter().filter(|subject| subject.losses.accounts.intended > 0) {
        let of = &subject.losses.accounts;
        sheet.push([
            cell(subject.cell),
            name(&subject.name),
            ("intended", "queries that were due, over all trials of the search", count(of.intended)),
            ("unsent", "queries that were never sent", count(of.unsent)),
            ("send_failed", "queries that the kernel refused to send", count(of.send_failed)),
            ("sent", "queries sent", count(of.sent)),
            ("correct", "correct answers", count(of.correct)),
            ("wrong", "wrong answers", count(of.wrong)),
            ("late", "answers after the timeout", count(of.late)),
            ("lost", "queries without an answer", count(of.lost)),
        ]);
    }
    sheet
}

/// The content of the column of places.
const PLACE: &str =
    "where; unexplained for what no counter explains, surplus for what counters show beyond the losses";

/// A row for every place at which a subject's queries were lost.
pub(super) fn losses(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("losses", "the losses of a subject at one place");
    for subject in &verdict.subjects {
        let losses = &subject.losses;
        let mut row = |place: Value, packets: Value, is_shared: Value| {
            sheet.push([
                cell(subject.cell),
                name(&subject.name),
                ("place", PLACE, place),
                ("packets", "how many", packets),
                ("is_shared", "whether other programs move the counter too", is_shared),
            ]);
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
    let mut sheet = Sheet::new("drop_reasons", "one reason for dropped packets");
    for subject in &verdict.subjects {
        let Some(reasons) = &subject.drop_reasons else { continue };
        let counts = reasons.counts.iter().map(|(reason, packets)| (text(reason), count(*packets)));
        let none = reasons.counts.is_empty().then_some((Value::None, Value::None));
        for (reason, packets) in counts.chain(none) {
            sheet.push([
                cell(subject.cell),
                name(&subject.name),
                ("reason", "the kernel's name of the reason", reason),
                ("packets", "packets that were dropped for it, on the whole host", packets),
                ("repeats", "number of the trial that was repeated to count them", count(reasons.repeats)),
                ("lost", "queries lost in the trial that counted", count(reasons.lost)),
                ("absence", "why there are no counts", words(reasons.failure.as_deref().unwrap_or_default())),
                trials(&[reasons.trial]),
            ]);
        }
    }
    sheet
}
