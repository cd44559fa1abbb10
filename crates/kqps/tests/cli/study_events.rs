//! Studies with events in the middle of their loads.

use std::process::{Command, Stdio};

use kqps_observation::run::{Purpose, Role};
use kqps_observation::{Run, RunTrial, Store, Trial};
use kqps_verdict::figure::EventCosts;
use kqps_verdict::judge::judge;

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

fn played() -> (Run, String) {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("study.toml"), folder.path().join("out"));
    std::fs::write(&file, STUDY).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.arg("run").arg(&file).args(["--records", "200", "--seed", "5", "--out"]).arg(&out);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let run = Store::read(&out.join("run.sqlite")).unwrap_or_else(|error| panic!("{error}: {said}"));
    (run, said)
}

#[test]
fn an_event_is_a_factor_and_its_costs_are_figures() {
    let (run, said) = played();
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
