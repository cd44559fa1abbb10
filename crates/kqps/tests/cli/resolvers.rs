//! Resolvers as subjects: each resolves in an Internet in a box, and what it asks there is a figure.

use std::process::{Command, Output, Stdio};

use kqps_kernel::probe::probe_one;
use kqps_observation::Trial;
use kqps_observation::run::{Purpose, Role};
use kqps_skips::{Capability, skip};
use kqps_testbed::subject::{Definition, builtin, programs};
use kqps_verdict::judge::judge;

use crate::study_run::played;

/// A short load for each resolver, of which four in five queries are for names that it knows.
const STUDY: &str = r#"
name = "resolvers"
title = "Resolvers"
question = "Do they resolve?"
repetitions = 1
load = { rates_qps = [300], seconds = 1 }
fixed = { internet = "small", "internet.hits_percent" = 80, "internet.delay_ms" = 50, "player.timeout_s" = 5 }

[[experiment]]
name = "e"
title = "E"
subjects = ["unbound-resolver", "bind-resolver", "pdns-resolver", "knot-resolver"]
[[experiment.table]]
title = "T"
rows = ["subject"]
show = ["answered-right", "upstream", "memory"]
"#;

fn kqps(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.arg("run").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: Output) -> String {
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Two loads of a resolver whose names are drawn by popularity.
const COLD: &str = r#"
name = "cold"
title = "Cold"
question = "Is each load cold?"
repetitions = 1
load = { rates_qps = [200, 210], seconds = 1 }
fixed = { internet = "small", "internet.delay_ms" = 1, "player.timeout_s" = 5 }

[[experiment]]
name = "e"
title = "E"
subjects = ["unbound-resolver"]
"#;

#[test]
fn resolvers_find_the_names_of_the_box_and_their_queries_are_counted() {
    if let Err(reason) = probe_one("veth") {
        return skip(Capability::Networks, reason);
    }
    let resolvers: Vec<_> = builtin::servers().into_iter().filter(Definition::resolves).collect();
    let is_there = |programs: &[String]| programs.iter().all(|program| programs::find(program).is_some());
    let (run, said) = played(STUDY, &[]);
    let figures = judge(&run).figures;
    for resolver in &resolvers {
        if !is_there(&resolver.programs) {
            skip(Capability::Programs, format!("{} is not installed", resolver.title));
            continue;
        }
        let is_it =
            |cell: &&kqps_observation::Cell| cell.role == Role::Subject && cell.subject == resolver.name;
        let index = run.cells.iter().position(|cell| is_it(&cell)).unwrap();
        let trials: Vec<&Trial> = run.trials_of(index).filter_map(|one| one.measured()).collect();
        assert!(!trials.is_empty(), "{}: {said}", resolver.title);
        // The warm-up asks for a thousand names that nobody knows yet.
        let upstream = || trials.iter().filter_map(|trial| trial.upstream.as_ref());
        let asked = |level: &str| upstream().filter_map(|one| one.udp.get(level)).sum::<u64>();
        assert!(asked("tld") > 0 && asked("hosting") > 500, "{}: {said}", resolver.title);
        let rate = run.trials_of(index).find(|one| one.purpose == Purpose::Rate).unwrap();
        let trial = rate.measured().unwrap();
        let upstream = trial.upstream.as_ref().unwrap();
        // On a busy host some queries do not leave. A fifth of the others are misses.
        let (sent, correct) = (trial.accounts.sent, trial.accounts.correct);
        assert!(upstream.queries() > 0 && sent > 0, "{}: {upstream:?}", resolver.title);
        assert!(correct * 10 >= sent * 9, "{}: {correct} of {sent}: {said}", resolver.title);
        // The clients ask for the AD bit, which answers from signed zones have, and no others.
        assert_eq!(trial.wrong_causes.get("ad").copied().unwrap_or(0), 0, "{}", resolver.title);
        // A trial that other programs spoiled is behind no figure. Misses cannot be sooner than a server.
        let figures = figures.iter().find(|one| one.cell as usize == index).unwrap();
        assert!(figures.upstream_per_query.is_none_or(|each| each > 0.1), "{figures:?}");
        if let Some(cache) = figures.cache {
            assert!(cache.hits_share < 0.9 && cache.miss_us.is_none_or(|us| us >= 49_000), "{cache:?}");
        }
    }
    assert!(said.contains("E (80 % hits, servers 50 ms away)"), "{said}");
}

#[test]
fn each_load_of_a_cold_resolver_has_a_start_of_its_own() {
    if let Err(reason) = probe_one("veth") {
        return skip(Capability::Networks, reason);
    }
    if programs::find("unbound").is_none() {
        return skip(Capability::Programs, "unbound is not installed");
    }
    let (run, said) = played(COLD, &[]);
    let is_resolver = |cell: &kqps_observation::Cell| cell.role == Role::Subject;
    let index = run.cells.iter().position(is_resolver).unwrap_or_else(|| panic!("{said}"));
    let loads: Vec<_> = run.trials_of(index).filter(|one| one.measured().is_some()).collect();
    assert!(loads.len() >= 2 && loads.iter().all(|one| one.purpose == Purpose::Rate), "{said}");
    let mut starts: Vec<u64> = loads.iter().map(|one| one.start).collect();
    starts.dedup();
    assert_eq!(starts.len(), loads.len(), "{said}");
    for load in loads {
        // A resolver that knows nothing asks for more than one query each.
        let trial = load.measured().unwrap();
        assert!(trial.upstream.as_ref().unwrap().queries() > trial.accounts.sent, "{:?}", trial.upstream);
    }
}

#[test]
fn a_resolver_without_an_internet_and_an_internet_without_a_resolver_are_refused() {
    for (subject, wanted) in [
        ("unbound-resolver", "give its size, such as internet = \"small\""),
        ("nsd internet=small", "internet is for resolvers"),
        ("knot-resolver internet=tiny", "one of small, medium, large"),
        ("unbound-resolver internet=small internet.delay_ms=20", "add internet.hits_percent=80"),
        ("nsd internet.delay_ms=20", "internet.delay_ms sets nothing without internet"),
        ("bind-resolver internet=small dataset.recipe=tld", "dataset.recipe sets nothing beside internet"),
    ] {
        let output = kqps(&["--subject", subject, "--budget", "1m"]);
        assert_eq!(output.status.code(), Some(2), "{subject}");
        let said = said(output);
        assert!(said.contains(wanted), "{subject}: {said}");
    }
}
