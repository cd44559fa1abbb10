//! Studies with events in the middle of their loads.

use kqps_observation::run::{Purpose, Role};
use kqps_observation::{EventFacts, Run, RunTrial, Trial};
use kqps_skips::{Capability, skip};
use kqps_testbed::subject::{builtin, programs};
use kqps_verdict::figure::EventCosts;
use kqps_verdict::judge::judge;

use crate::study_run::played;

/// A server that stands still for 300 ms, one that reads its zone again, and one that transfers no zone.
const STUDY: &str = r#"
name = "events"
title = "Events"
question = "Does it work?"
repetitions = 1
load = { rates_qps = [500], seconds = 3 }
fixed = { "player.timeout_s" = 0.1 }

[[experiment]]
name = "e"
title = "E"
subjects = ["kqps-auth"]
factors = { "subject.event" = ["none", "stop=300ms", "reload", "transfer"] }
[[experiment.table]]
title = "Lost"
rows = ["subject.event"]
show = ["event-time", "event-silence", "event-lost"]
"#;

#[test]
fn an_event_is_a_factor_and_its_costs_are_figures() {
    let (run, said) = played(STUDY, &["--records", "200"]);
    let figures = judge(&run).figures;
    let mut seen = Vec::new();
    for (index, cell) in run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject) {
        let word = cell.factors.word("subject.event").unwrap();
        seen.push(word);
        let costs = figures.iter().find(|one| one.cell as usize == index).and_then(|one| one.event);
        let rates: Vec<&RunTrial> = run.trials_of(index).filter(|one| one.purpose == Purpose::Rate).collect();
        let trials: Vec<&Trial> = rates.iter().filter_map(|one| one.measured()).collect();
        match word {
            "none" => assert!(costs.is_none() && trials.iter().all(|trial| trial.events.is_empty())),
            "transfer" => {
                let failure = rates.last().and_then(|one| one.failure()).unwrap_or_default();
                assert!(failure.contains("the event `AXFR"), "{failure}: {said}");
                assert!(costs.is_none());
            }
            _ => check(word, costs.unwrap_or_else(|| panic!("{word}: {said}")), &trials),
        }
    }
    assert_eq!(seen, ["none", "stop=300ms", "reload", "transfer"]);
}

fn check(word: &str, costs: EventCosts, trials: &[&Trial]) {
    let event = &trials.last().unwrap().events[0];
    // The event is due 1.2 s after the begin of a load of 3 s.
    assert!(event.begun_s.unwrap() >= 1.2 && event.done_s.unwrap() >= event.begun_s.unwrap(), "{event:?}");
    let (seconds, silence_s) = (costs.seconds.unwrap().mean, costs.silence_s.unwrap().mean);
    if word == "reload" {
        // A new serial was answered.
        assert!(seconds > 0.0, "{costs:?}");
        return;
    }
    assert!(seconds >= 0.3 && silence_s >= 0.29, "{costs:?}");
    // Queries of the first 200 ms are late or lost. Of 500 a second these are 100.
    assert!(costs.lost.unwrap().mean >= 80.0, "{costs:?}");
}

/// Real servers that hand out their changes, and transfer a zone in from a primary; and a front that loses a server.
const TRANSFERS: &str = r#"
name = "transfers"
title = "Transfers"
question = "Do they work?"
repetitions = 1
load = { rates_qps = [300], seconds = 3 }

[[experiment]]
name = "out"
title = "Out"
subjects = ["nsd", "knot", "bind"]
fixed = { transfers = "changes", "subject.event" = "ixfr=50" }

[[experiment]]
name = "in"
title = "In"
subjects = ["nsd", "knot", "bind", "pdns"]
fixed = { "subject.event" = "transfer-in" }

[[experiment]]
name = "front"
title = "Front"
subjects = ["front"]
fixed = { back_ends = "2", "subject.event" = "kill-back-end" }
"#;

#[test]
fn servers_transfer_their_zones_during_a_load() {
    let (run, said) = played(TRANSFERS, &["--records", "500"]);
    assert!(said.contains("PowerDNS Authoritative Server transfers no zone in"), "{said}");
    let known = builtin::servers();
    for (index, cell) in run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject) {
        let definition = known.iter().find(|definition| definition.name == cell.subject).unwrap();
        if !definition.programs.iter().all(|program| programs::find(program).is_some()) {
            skip(Capability::Programs, format!("{} is not installed", definition.title));
            continue;
        }
        let event = event_of(&run, index).unwrap_or_else(|| panic!("{}: {said}", cell.name));
        assert!(event.begun_s < event.done_s && event.failure.is_none(), "{}: {event:?}", cell.name);
        let usage = event.usage.unwrap();
        assert!(usage.rss_most_bytes >= usage.rss_before_bytes && usage.rss_before_bytes > 0, "{usage:?}");
        match cell.factors.word("subject.event").unwrap() {
            // Both versions of each record that changed, and the SOA four times (RFC 1995, section 4).
            "ixfr=50" => assert_eq!(event.counts.get("records"), Some(&104), "{}: {event:?}", cell.name),
            "transfer-in" => assert_eq!(event.name, "notify"),
            "kill-back-end" => assert_eq!(event.name, "kill-back-end"),
            other => panic!("{other}"),
        }
    }
}

/// The event of the last load of a cell.
fn event_of(run: &Run, cell: usize) -> Option<EventFacts> {
    let last = run.trials_of(cell).filter(|one| one.purpose == Purpose::Rate).last()?;
    last.measured()?.events.first().cloned()
}
