//! Side by side with the package `MLRsearch`, an independent implementation of RFC 9971 by its authors. The
//! same trials must be classified alike, and searches of the same subjects must end at bounds that overlap.
//! `cargo xtask test` makes the virtual environment that this needs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kqps_observation::run::Purpose;
use kqps_verdict::search::{
    Bounds, Class, Goal, Preset, Start, bounds_found, classify, conditional_throughput,
};
use serde::{Deserialize, Serialize};

use super::simulate::{Shape, Subject, chance, probe_of, search};

#[derive(Serialize)]
struct Request {
    loads: Vec<Load>,
    searches: Vec<SearchCase>,
}

/// Trials at one load: duration in seconds and bad ratio.
#[derive(Serialize)]
struct Load {
    goal: Goal,
    trials: Vec<(f64, f64)>,
}

#[derive(Serialize)]
struct SearchCase {
    goal: Goal,
    subject: Subject,
}

#[derive(Deserialize)]
struct Answer {
    loads: Vec<Classified>,
    searches: Vec<SearchOutcome>,
}

#[derive(Deserialize)]
struct Classified {
    class: Class,
    loss: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct SearchOutcome {
    lower_qps: Option<f64>,
    upper_qps: Option<f64>,
    throughput_qps: Option<f64>,
    wall_s: f64,
    trials: u32,
}

/// The target directory of cargo: the directory above this test that carries cargo's tag.
fn target_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let tagged = test.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists());
    tagged.expect("cargo tags its target directory").to_owned()
}

fn ask(asked: &Request) -> Answer {
    let python = target_directory().join("venv/bin/python");
    assert!(
        python.exists(),
        "{} is missing; `cargo xtask test` makes it from crates/verdict/tests/python/requirements.txt",
        python.display()
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/compare.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the interpreter starts");
    let text = serde_json::to_vec(asked).unwrap();
    child.stdin.take().unwrap().write_all(&text).expect("the script reads all that it is asked");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the script failed: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("the script answers with JSON")
}

/// Loads with random trials: some with durations that make sums tie exactly, some with odd ones.
fn loads() -> Vec<Load> {
    let number = |load: u64, index: u64| chance(load, index);
    (0..400_u64)
        .map(|load| {
            let exact = load % 2 == 0;
            let (exceed, unit_s) = if exact {
                ([0.0, 0.5, 0.75][(load / 2 % 3) as usize], 0.25)
            } else {
                (0.9 * number(load, 1_000), 0.237_1 + number(load, 1_001))
            };
            let final_s = unit_s * 4.0;
            let goal = Goal { final_s, sum_s: unit_s * 24.0, exceed, ..Preset::Quick.goal() };
            let trials = (0..(number(load, 1_002) * 30.0) as u64).map(|trial| {
                let quarters = [1.0, 2.0, 4.0, 5.0, 8.0][(number(load, 3 * trial) * 5.0) as usize];
                let is_bad = number(load, 3 * trial + 1) < number(load, 1_003);
                let share = (number(load, 3 * trial + 2) * 8.0).round() / 8.0;
                (unit_s * quarters, if is_bad { 0.002 + 0.01 * share } else { 0.001 * share })
            });
            Load { goal, trials: trials.collect() }
        })
        .collect()
}

#[test]
fn loads_are_classified_alike() {
    let asked = Request { loads: loads(), searches: Vec::new() };
    let answer = ask(&asked);
    let mut seen = [0; 3];
    for (load, other) in asked.loads.iter().zip(&answer.loads) {
        let probes: Vec<_> =
            load.trials.iter().map(|(duration_s, bad)| probe_of(1e6, *duration_s, *bad)).collect();
        let class = classify(&load.goal, &probes);
        assert_eq!(class, other.class, "{:?} of {:?}", load.trials, load.goal);
        seen[class as usize] += 1;
        if class == Class::Lower {
            let throughput_qps = conditional_throughput(&load.goal, 1e6, &probes);
            let others_qps = 1e6 * (1.0 - other.loss.unwrap());
            assert!((throughput_qps - others_qps).abs() < 1e-3, "{throughput_qps} and {others_qps}");
        }
    }
    assert!(seen.iter().all(|count| *count > 40), "every class is tried: {seen:?}");
}

fn searches() -> Vec<SearchCase> {
    let shapes =
        [Shape::Sharp, Shape::Soft, Shape::Gap, Shape::Buffered(300.0), Shape::Stalling, Shape::Noisy(0.02)];
    let of_shape = |goal: Goal, shape: Shape| {
        (0..8_u64).map(move |seed| {
            let capacity_qps = 40_000.0 * (1.0 + 9.0 * chance(seed, 0));
            SearchCase { goal: goal.clone(), subject: Subject::new(shape, capacity_qps, seed) }
        })
    };
    [Preset::Quick, Preset::Default]
        .into_iter()
        .flat_map(|preset| {
            // The package begins at the greatest load, so that must be within reach.
            let goal = Goal { min_qps: 1_000.0, max_qps: 2e6, limit_s: 1e4, ..preset.goal() };
            shapes.into_iter().flat_map(move |shape| of_shape(goal.clone(), shape))
        })
        .collect()
}

/// The bounds overlap, or lie as close to each other as the subject is noisy.
fn agree(wanted: &SearchCase, ours: &Bounds, theirs: &SearchOutcome) -> bool {
    let slack = match wanted.subject.shape {
        Shape::Noisy(share) => share,
        _ => 0.001,
    };
    let bounds = (ours.lower_qps, ours.upper_qps, theirs.lower_qps, theirs.upper_qps);
    let (Some(our_lower), Some(our_upper), Some(their_lower), Some(their_upper)) = bounds else {
        return false;
    };
    let throughputs = ours.throughput_qps.unwrap() / theirs.throughput_qps.unwrap();
    our_lower <= their_upper * (1.0 + slack)
        && their_lower <= our_upper * (1.0 + slack)
        && (throughputs - 1.0).abs() <= wanted.goal.width * 1.1 + slack
}

#[test]
fn searches_end_at_bounds_that_overlap() {
    let asked = Request { loads: Vec::new(), searches: searches() };
    let answer = ask(&asked);
    let (mut our_s, mut their_s) = (0.0, 0.0);
    for (wanted, theirs) in asked.searches.iter().zip(&answer.searches) {
        let ours = search(&wanted.goal, &Start::default(), &wanted.subject, 1.05);
        // The package has no re-test, which may refute earlier bounds.
        let found = ours.probes.iter().take_while(|probe| probe.purpose != Purpose::Retest);
        let bounds = bounds_found(&wanted.goal, &found.copied().collect::<Vec<_>>());
        assert!(agree(wanted, &bounds, theirs), "{:?}: {bounds:?} and {theirs:?}", wanted.subject);
        assert!(theirs.trials > 0);
        our_s += ours.wall_s;
        their_s += theirs.wall_s;
    }
    assert!(our_s <= their_s, "{our_s:.0} s of trials for what takes the package {their_s:.0} s");
}
