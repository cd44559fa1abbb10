//! Events of loads.

use kqps_observation::Trial;

use super::sheet::{Sheet, count, counted, number, text, words};

/// A row for every event of the trials, each with its number.
pub(super) fn events<'a>(trials: impl IntoIterator<Item = (u64, &'a Trial)>) -> Sheet {
    let mut sheet =
        Sheet::new("events", "something that happened to the subject, its path or its zones during a trial");
    for (trial, event) in
        trials.into_iter().flat_map(|(trial, of)| of.events.iter().map(move |event| (trial, event)))
    {
        let usage = event.usage;
        let counts = |name: &str| counted(event.counts.get(name).copied());
        sheet.push([
            ("trial", "number of the trial", count(trial)),
            ("name", "what happened", text(&event.name)),
            ("due_s", "when it was due, seconds since the start", number(event.due_s)),
            ("begun_s", "when it began", number(event.begun_s)),
            ("done_s", "when it was seen to be done", number(event.done_s)),
            ("failure", "why it failed", words(event.failure.as_deref().unwrap_or_default())),
            ("cpu_s", "CPU seconds of the subject meanwhile", number(usage.and_then(|usage| usage.cpu_s))),
            (
                "rss_before_bytes",
                "resident memory of the subject when it began",
                counted(usage.map(|usage| usage.rss_before_bytes)),
            ),
            (
                "rss_most_bytes",
                "its most resident memory meanwhile",
                counted(usage.map(|usage| usage.rss_most_bytes)),
            ),
            ("messages", "messages of a transfer", counts("messages")),
            ("records", "records of a transfer", counts("records")),
            ("bytes", "bytes of the messages of a transfer", counts("bytes")),
            ("updates", "dynamic updates sent", counts("updates")),
            ("accepted", "dynamic updates that the server accepted", counts("accepted")),
            ("refused", "dynamic updates that the server refused", counts("refused")),
            ("unanswered", "dynamic updates without an answer", counts("unanswered")),
        ]);
    }
    sheet
}

#[cfg(test)]
mod tests {
    use kqps_observation::{EventFacts, EventUsage};

    use super::*;

    #[test]
    fn an_event_has_a_row_with_what_is_known() {
        let event = EventFacts {
            name: "AXFR a.".into(),
            due_s: 5.0,
            begun_s: Some(5.001),
            counts: [("records".to_owned(), 7)].into(),
            usage: Some(EventUsage { cpu_s: Some(0.5), rss_before_bytes: 1000, rss_most_bytes: 2000 }),
            ..EventFacts::default()
        };
        let trial = Trial { events: vec![event], ..Trial::default() };
        let csv = events([(3, &trial)]).csv();
        let names = "trial,name,due_s,begun_s,done_s,failure,cpu_s,rss_before_bytes,rss_most_bytes,messages,records,bytes,\
                     updates,accepted,refused,unanswered";
        assert_eq!(csv, format!("{names}\n3,AXFR a.,5,5.001,,,0.5,1000,2000,,7,,,,,\n"));
    }
}
