//! The watched figures of a run. The runs are written by hand.

use std::collections::BTreeMap;

use kqps_history::{Kind, Programs, Reading, entry_of};
use kqps_observation::factors::ComparedAs;
use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Accounts, Cell, Histogram, Run, RunTrial, SubjectFacts, Trial};
use kqps_verdict::compare::Figure;
use kqps_verdict::judge::{judge, judge_figures};

const MIB: u64 = 1 << 20;

fn closed(name: &str, role: Role) -> Cell {
    let io = "mmsg".to_owned();
    Cell {
        name: name.into(),
        role,
        subject: name.into(),
        io,
        workers: 1,
        load: CellLoad::Closed(1.0),
        ..Cell::default()
    }
}

/// A run of ten blocks in which each cell answers at its rate.
fn run(cells: &[(Cell, f64)]) -> Run {
    let mut run =
        Run { study: "mine".into(), blocks: 10, seed: 7, finished_unix_ms: Some(1), ..Run::default() };
    run.cells = cells.iter().map(|(cell, _)| cell.clone()).collect();
    for block in 0..10_u32 {
        for (cell, (facts, rate_qps)) in (0..).zip(cells) {
            let spread = f64::from((block * block * 3 + block * 5 + cell * 2) % 9) / 8.0 * 0.002;
            let answered_qps = rate_qps * (1.0 + spread);
            let count = answered_qps as u64;
            let mut trial = Trial {
                accounts: Accounts { intended: count, sent: count, correct: count, ..Accounts::default() },
                subject: Some(SubjectFacts {
                    cpu_user_s: 0.4,
                    cpu_system_s: 0.5,
                    rss_bytes: 50 * MIB,
                    ..SubjectFacts::default()
                }),
                ..Trial::default()
            };
            trial.load.mode = LoadMode::Closed;
            (trial.load.answered_qps, trial.load.duration_s) = (answered_qps, 1.0);
            let purpose = if facts.role == Role::Subject { Purpose::Closed } else { Purpose::Ceiling };
            let number = run.trials.len() as u64 + 1;
            let outcome = Outcome::Measured(Box::new(trial));
            run.trials.push(RunTrial { number, cell, block, start: number, purpose, outcome });
        }
    }
    run
}

fn readings(run: &Run, programs: &Programs) -> Vec<Reading> {
    entry_of(run, &judge(run), "/runs/one", programs).0.readings
}

#[test]
fn a_subject_beside_an_echo_has_a_share_and_its_costs() {
    let run = run(&[
        (closed("echo mmsg", Role::EchoCeiling), 600_000.0),
        (closed("nsd", Role::Subject), 300_000.0),
    ]);
    let found = readings(&run, &Programs::new());
    let of =
        |kind| found.iter().find(|one| one.key.kind == kind).unwrap_or_else(|| panic!("{kind}: {found:?}"));
    let share = of(Kind::Share).figure.unwrap();
    assert!((share.value - 0.5).abs() < 0.005 && share.low < Some(0.5) && share.mde.is_some(), "{share:?}");
    assert!((of(Kind::Share).ceiling_qps.unwrap() / 600_000.0 - 1.0).abs() < 0.01);
    assert!((of(Kind::CpuPerMillion).figure.unwrap().value - 3.0).abs() < 0.01);
    assert!((of(Kind::Memory).figure.unwrap().value - (50 * MIB) as f64).abs() < 1.0);
    assert_eq!(found.len(), 3, "there is no p99 at half load: {found:?}");
    assert_eq!(of(Kind::Share).key.name(), "mine: nsd, share of the ceiling");
    // Another load or another setting is another series.
    let mut other = run.clone();
    other.cells[1].factors.set_records(5);
    assert_ne!(readings(&other, &Programs::new())[0].key, found[0].key);
    other = run.clone();
    other.cells[1].version = Some("2.0".into());
    assert_eq!(readings(&other, &Programs::new())[0].key, found[0].key);
}

#[test]
fn a_comparison_has_ratios_to_the_very_reference_that_was_measured() {
    let side = |name: &str, part| {
        let mut cell = closed(name, Role::Subject);
        cell.factors.set_compared_as(part);
        cell
    };
    let cells = [
        (side("old", ComparedAs::A), 100_000.0),
        (side("old again", ComparedAs::Again), 100_000.0),
        (side("new", ComparedAs::B), 95_000.0),
    ];
    let mut run = run(&cells);
    run.cells[1].subject = "old".into();
    let binary =
        |hash: &str| BinaryFacts { path: "/b/x".into(), version: None, blake3: Some(hash.repeat(64)) };
    run.fingerprint.binaries = BTreeMap::from([("old/x".into(), binary("a")), ("new/x".into(), binary("b"))]);
    let programs =
        Programs::from([("old".into(), vec!["old/x".into()]), ("new".into(), vec!["new/x".into()])]);
    let found = readings(&run, &programs);
    assert!(found.iter().all(|one| one.key.cell == "new"), "the reference is no series: {found:?}");
    let ratio = found.iter().find(|one| one.key.kind == Kind::Ratio(Figure::AnsweredRate)).unwrap();
    let figure = ratio.figure.unwrap();
    assert!((figure.value - 0.95).abs() < 0.003 && figure.mde.is_some_and(|mde| mde < 0.01), "{figure:?}");
    assert_eq!(ratio.key.reference.as_deref(), Some("old (binary aaaaaaaa)"));
    assert_eq!(ratio.builds[0].blake3, "b".repeat(64));
    run.fingerprint.binaries.insert("old/x".into(), binary("c"));
    let other = readings(&run, &programs);
    assert_ne!(other.last().unwrap().key, found.last().unwrap().key, "another reference is another series");
}

/// A run of an echo and of a subject whose rate is searched for in three blocks, with latency at half of the rate.
fn searched() -> Run {
    let mut run = run(&[(closed("echo mmsg", Role::EchoCeiling), 600_000.0)]);
    run.goal = "quick".into();
    let mut subject = closed("nsd", Role::Subject);
    subject.load = CellLoad::default();
    run.cells.push(subject);
    for block in 0..3_u32 {
        let mut play = |purpose, load_qps: f64, lost: u64| {
            let number = run.trials.len() as u64 + 1;
            let outcome = Outcome::Measured(Box::new(loaded(load_qps, lost)));
            run.trials.push(RunTrial {
                number,
                cell: 1,
                block,
                start: u64::from(100 + block),
                purpose,
                outcome,
            });
        };
        for (share, is_met) in
            [(0.8, true), (1.2, false), (0.97, true), (1.03, false), (0.99, true), (1.01, false)]
        {
            let load_qps = 300_000.0 * share * (1.0 + 0.002 * f64::from(block));
            for _ in 0..3 {
                play(Purpose::Search, load_qps, if is_met { 0 } else { load_qps as u64 / 20 });
            }
        }
        play(Purpose::Latency, 148_500.0, 0);
    }
    run
}

/// A trial in open loop.
fn loaded(load_qps: f64, lost: u64) -> Trial {
    let count = load_qps as u64;
    let mut latency = Histogram::default();
    for time_us in 1..1_000 {
        latency.record_many_us(time_us, count / 1_000);
    }
    let mut trial = Trial {
        accounts: Accounts {
            intended: count,
            sent: count,
            correct: count - lost,
            lost,
            ..Accounts::default()
        },
        latency_us: latency.quantiles(),
        subject: Some(SubjectFacts {
            cpu_user_s: 0.4,
            cpu_system_s: 0.5,
            rss_bytes: 50 * MIB,
            ..SubjectFacts::default()
        }),
        ..Trial::default()
    };
    trial.histograms.insert("latency".into(), latency.encode());
    trial.load.mode = LoadMode::Open;
    trial.load.intended_qps = Some(load_qps);
    (trial.load.offered_qps, trial.load.duration_s) = (load_qps, 1.0);
    trial.load.answered_qps = (count - lost) as f64;
    trial
}

#[test]
fn a_searched_rate_has_a_share_from_an_estimate_and_a_p99_at_half_load() {
    let found = readings(&searched(), &Programs::new());
    let kinds: Vec<Kind> = found.iter().map(|one| one.key.kind).collect();
    assert_eq!(kinds, [Kind::Share, Kind::CpuPerMillion, Kind::Memory, Kind::P99AtHalf]);
    let share = found[0].figure.unwrap();
    assert!((share.value - 0.5).abs() < 0.01 && share.low.is_some(), "{share:?}");
    assert!(found.iter().all(|one| one.figure.is_some()), "{found:?}");
}

/// `kqps history add` leaves out of the verdict what only a page shows.
#[test]
fn a_history_needs_the_figures_of_a_verdict_and_no_more() {
    let mut b = closed("new", Role::Subject);
    b.factors.set_compared_as(ComparedAs::B);
    let mut a = closed("old", Role::Subject);
    a.factors.set_compared_as(ComparedAs::A);
    let echo = || closed("echo mmsg", Role::EchoCeiling);
    let beside_echo = run(&[(echo(), 6e5), (closed("nsd", Role::Subject), 3e5)]);
    for run in [beside_echo, run(&[(a, 1e5), (b, 95e3)]), searched()] {
        let of = |verdict| entry_of(&run, &verdict, "/runs/one", &Programs::new());
        assert!(!of(judge(&run)).0.readings.is_empty());
        assert_eq!(of(judge(&run)), of(judge_figures(&run)));
    }
}

#[test]
fn a_copy_of_a_run_is_the_same_run() {
    let run = run(&[(closed("nsd", Role::Subject), 300_000.0)]);
    let identity = |run: &Run, folder: &str| entry_of(run, &judge(run), folder, &Programs::new()).0.id;
    assert_eq!(identity(&run, "/a"), identity(&run, "/b"));
    let later = Run { started_unix_ms: 5, ..run.clone() };
    assert_ne!(identity(&run, "/a"), identity(&later, "/a"));
}
