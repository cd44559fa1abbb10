//! `kqps plan` as a user runs it: a number of hosts from a stored run, or one clear reason for none. The runs are
//! written with known figures, and no load is played.

use std::path::Path;
use std::process::{Command, Output};

use kqps_observation::run::{CellLoad, Outcome, Purpose, RunTrial};
use kqps_observation::trial::{LoadFacts, LoadMode};
use kqps_observation::{Accounts, Cell, Run, SCHEMA, Store, Trial};
use serde_json::Value;

const BLOCKS: u32 = 6;

/// Stores a run of closed loops at these rates; a name that begins with `wrong` gives wrong answers too.
fn store(folder: &Path, servers: &[(&str, f64)]) {
    let cell = |(name, _): &(&str, f64)| Cell {
        name: (*name).into(),
        subject: (*name).into(),
        load: CellLoad::Closed(1.0),
        workers: 1,
        player_cpus: vec![0],
        subject_cpus: vec![1],
        ..Cell::default()
    };
    let cells: Vec<Cell> = servers.iter().map(cell).collect();
    let run = Run { schema: SCHEMA, study: "default".into(), goal: "quick".into(), cells, ..Run::default() };
    std::fs::create_dir_all(folder).unwrap();
    let store = Store::create(&folder.join("run.sqlite"), &run).unwrap();
    let mut number = 0;
    for block in 0..BLOCKS {
        for (cell, (name, rate_qps)) in (0..).zip(servers) {
            number += 1;
            let correct = *rate_qps as u64;
            let wrong = u64::from(name.starts_with("wrong"));
            let (intended, sent) = (correct + wrong, correct + wrong);
            let load = LoadFacts {
                mode: LoadMode::Closed,
                answered_qps: *rate_qps,
                duration_s: 1.0,
                ..LoadFacts::default()
            };
            let accounts = Accounts { intended, sent, correct, wrong, ..Accounts::default() };
            let outcome = Outcome::Measured(Box::new(Trial { load, accounts, ..Trial::default() }));
            let trial = RunTrial { number, cell, block, start: number, purpose: Purpose::Closed, outcome };
            store.commit(&trial).unwrap();
        }
    }
}

fn plan(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kqps")).arg("plan").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_load_takes_as_many_hosts_as_the_low_end_of_the_rate_and_the_reserve_say() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    store(&run, &[("nsd", 100_000.0), ("knot", 50_000.0)]);
    let run = run.to_str().unwrap();
    let output = plan(&["--load", "2M", "--json", run]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let plans: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // 70,000 q/s of 100,000 are 29 hosts, and 35,000 of 50,000 are 58.
    let hosts: Vec<_> = plans.iter().map(|plan| (&plan["name"], plan["hosts"].as_u64().unwrap())).collect();
    assert_eq!(hosts, [(&Value::from("nsd"), 29), (&Value::from("knot"), 58)]);
    assert_eq!((&plans[0]["kind"], &plans[0]["run"]), (&Value::from("plan"), &Value::from(run)));

    let output = plan(&["--load", "2M", "--reserve", "0", "--cell", "knot", run]);
    let printed = text(&output.stdout);
    assert!(
        printed.starts_with("knot: grade ") && printed.contains("hosts        40 hosts for"),
        "{printed}"
    );
    assert!(!printed.contains("nsd"), "{printed}");
}

#[test]
fn what_is_not_known_gives_no_number() {
    let home = tempfile::tempdir().unwrap();
    let (good, wrong) = (home.path().join("good"), home.path().join("wrong"));
    store(&good, &[("nsd", 100_000.0)]);
    store(&wrong, &[("wrong", 100_000.0)]);
    let (good, wrong) = (good.to_str().unwrap(), wrong.to_str().unwrap());
    for (args, status, wanted) in [
        (&["--load", "2M", "--p99", "1ms", good][..], 3, "Latency by load is not known"),
        (&["--load", "2M", wrong], 3, "wrong-answers"),
        (&["--load", "2M", good, wrong], 0, "29 hosts"),
        (&["--load", "2M", "--cell", "nds", good], 2, "did you mean `nsd`?"),
        (&["--load", "2M", "/nowhere"], 2, "cannot be read"),
        (&["--load", "0", good], 2, "above 0"),
        (&[good], 2, "--load"),
    ] {
        let output = plan(args);
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {printed}");
        assert!(printed.contains(wanted), "{args:?}: {printed}");
    }
}
