//! Effects of events on the classes of a load, the replies that each class got for its queries, and its silences.

use kqps_verdict::scenario::{ClassFigures, Effect};

use super::moments::Part;
use super::sheet::{Sheet, count, counted, number, text};

/// A row for every event and class.
pub(super) fn effects(effects: &[Effect]) -> Sheet {
    let mut sheet = Sheet::new("effects", "what an event of a load did to a class of clients");
    for effect in effects {
        let silence = effect.silence;
        sheet.push([
            ("event", "the event", text(&effect.event)),
            ("class", "the class of clients", text(&effect.class)),
            ("at_s", "when it began, seconds since the start", number(effect.at_s)),
            ("span_s", "how long its time is", number(effect.span_s)),
            ("intended", "queries that were due in that time", count(effect.intended)),
            ("answered_before_share", "the share answered before", number(effect.answered_before)),
            ("lost", "answers that were lost because of it", counted(effect.lost)),
            ("silence_at_s", "when the longest silence began", number(silence.map(|silence| silence.at_s))),
            ("silence_s", "how long it lasted", number(silence.map(|silence| silence.seconds))),
            ("recovered_s", "time until 99 % were answered again", number(effect.recovered_s)),
            ("p99_before_us", "p99 latency before", number(effect.p99_before_us)),
            ("p99_worst_us", "the greatest p99 latency of a moment since", number(effect.p99_worst_us)),
        ]);
    }
    sheet
}

/// A row for every class.
pub(super) fn classes(classes: &[ClassFigures]) -> Sheet {
    let mut sheet = Sheet::new("classes", "what a class of clients got for what it sent");
    for class in classes {
        sheet.push([
            ("class", "the class of clients", text(&class.name)),
            ("request_bytes", "bytes of DNS in its queries", count(class.request_bytes)),
            ("response_bytes", "bytes of DNS in the replies", count(class.response_bytes)),
            ("amplification", "bytes of replies for each byte of queries", number(class.amplification)),
            ("truncated", "correct replies that were truncated", count(class.truncated)),
            ("slipped", "replies truncated to nothing though the answer fitted", count(class.slipped)),
            ("refused", "replies with REFUSED", count(class.refused)),
            ("dropped", "queries without a reply", count(class.dropped)),
            (
                "wrongly_limited",
                "good queries that slipped, were refused at times, or had no reply",
                counted(class.wrongly_limited),
            ),
        ]);
    }
    sheet
}

/// A row for every recorded silence, the longest of a class first.
pub(super) fn silences(trials: &[Part<'_>]) -> Sheet {
    let mut sheet = Sheet::new("silences", "a time without a correct reply while queries waited");
    for part in trials {
        for silence in &part.trial().silences {
            sheet.push(part.fields().into_iter().chain([
                ("at_s", "when it began, seconds since the start", number(silence.at_s)),
                ("duration_s", "how long it lasted", number(silence.seconds)),
            ]));
        }
    }
    sheet
}
