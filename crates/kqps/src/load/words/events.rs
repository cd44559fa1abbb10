//! The events of a load: when each was due, begun and done.

use std::fmt::Write as _;

use kqps_observation::visible::visible_line;
use kqps_observation::{EventFacts, EventUsage};

use crate::table;

/// The most characters of a name.
const NAME_MOST: usize = 48;

/// A line for each event; empty without events.
pub(super) fn events(events: &[EventFacts]) -> String {
    if events.is_empty() {
        return String::new();
    }
    let has_remark =
        |event: &EventFacts| event.failure.is_some() || !event.counts.is_empty() || event.usage.is_some();
    let has_remarks = events.iter().any(has_remark);
    let titles = ["event", "due", "begun", "done"].into_iter().chain(has_remarks.then_some(""));
    let mut lines = table::titled(titles);
    for event in events {
        let times = [Some(event.due_s), event.begun_s, event.done_s].map(seconds);
        let cells = std::iter::once(name(event)).chain(times);
        lines.add_row(cells.chain(has_remarks.then(|| remark(event))));
    }
    let mut text = String::from("\nEvents:\n\n");
    for line in table::text(lines, &[1, 2, 3]).lines() {
        let _ = writeln!(text, " {line}");
    }
    text
}

fn name(event: &EventFacts) -> String {
    let name = visible_line(&event.name);
    if name.chars().count() <= NAME_MOST {
        return name.into_owned();
    }
    name.chars().take(NAME_MOST - 1).chain(['…']).collect()
}

fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".into(), |seconds| format!("{seconds:.3} s"))
}

/// Why the event failed, what it counted, and what the subject used meanwhile.
fn remark(event: &EventFacts) -> String {
    let counts = event.counts.iter().map(|(name, count)| format!("{name} {count}"));
    let failure = event.failure.iter().map(|why| format!("failed: {}", visible_line(why)));
    failure.chain(counts).chain(event.usage.iter().map(used)).collect::<Vec<_>>().join(", ")
}

/// CPU time and memory during an event: `CPU 0.42 s, memory 310 → 512 MiB`.
fn used(usage: &EventUsage) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let cpu = usage.cpu_s.map_or_else(String::new, |cpu_s| format!("CPU {cpu_s:.2} s, "));
    format!("{cpu}memory {:.0} → {:.0} MiB", mib(usage.rss_before_bytes), mib(usage.rss_most_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_times_and_why_it_failed() {
        let event = |name: &str, begun_s, done_s| EventFacts {
            name: name.into(),
            due_s: 5.0,
            begun_s,
            done_s,
            ..EventFacts::default()
        };
        let good = event("reload example.", Some(5.0), Some(5.2125));
        assert_eq!(
            events(std::slice::from_ref(&good)),
            "\nEvents:\n\n  event                due    begun     done\n  reload example.  5.000 s  5.000 s  5.213 s\n"
        );
        let bad =
            EventFacts { failure: Some("it ended with status 3".into()), ..event("x", Some(5.0), None) };
        let counted =
            EventFacts { counts: [("records".into(), 7)].into(), ..event(&"y".repeat(60), None, None) };
        let text = events(&[good, bad, counted]);
        assert!(text.contains("  -  failed: it ended with status 3\n"), "{text}");
        assert!(text.contains(&format!("  {}…  5.000 s", "y".repeat(47))), "{text}");
        assert!(text.contains("  -  records 7\n"), "{text}");
        assert_eq!(events(&[]), "");
    }
}
