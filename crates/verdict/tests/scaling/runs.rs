//! The series of whole runs: what belongs to one, and when a run cannot answer.

use std::collections::BTreeMap;

use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::question::{Experiment, Factor, Published, Question};
use kqps_observation::run::{CellLoad, Outcome, Purpose};
use kqps_observation::trial::{LoadFacts, LoadMode};
use kqps_observation::{Cell, Factors, Fingerprint, Run, RunTrial, Trial};
use kqps_verdict::bottleneck::Resource;
use kqps_verdict::judge::judge;
use kqps_verdict::scaling::{Law, ScalingSeries, of_run, player_limited, refusals, series_of};

const LAW: Law = Law { alone_qps: 20_000.0, contention: 0.05, coherency: 0.004 };
const MODELS: [&str; 2] = ["mmsg", "poll"];

fn words(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect()
}

/// A study of two I/O models with up to `most` workers on a host with `cores` cores, in closed loops of five starts.
/// The player has core 0.
fn run(cores: u32, most: u32) -> Run {
    let values = |values: Vec<String>, name: &str| Factor { name: name.into(), values };
    let models = MODELS.map(str::to_owned).to_vec();
    let counts = (1..=most).map(|workers| workers.to_string()).collect();
    let experiment = Experiment {
        name: "scaling".into(),
        factors: vec![values(models, "io"), values(counts, "workers")],
        published: (1..=4).map(published).collect(),
        ..Experiment::default()
    };
    let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
    let mut run = Run {
        goal: "quick".into(),
        question: Some(Question { experiments: vec![experiment], ..Question::default() }),
        fingerprint: Fingerprint { cores: (0..cores).map(core).collect(), ..Fingerprint::default() },
        ..Run::default()
    };
    for io in MODELS {
        for workers in 1..=most {
            // Beyond the other cores, the server shares that of the player.
            let cpus = if workers < cores { (1..=workers).collect() } else { (0..cores).collect() };
            run.cells.push(Cell {
                name: format!("{io} {workers}"),
                experiment: "scaling".into(),
                subject: "echo".into(),
                load: CellLoad::Closed(1.0),
                workers,
                player_cpus: vec![0],
                subject_cpus: cpus,
                factors: Factors::read(words(&[("io", io), ("workers", &workers.to_string())])).unwrap(),
                ..Cell::default()
            });
        }
    }
    for block in 0..5 {
        for cell in 0..run.cells.len() {
            play(&mut run, cell, block);
        }
    }
    run
}

/// The rates of a law that was published at one to four workers.
fn published(workers: u32) -> Published {
    let rate_qps = Law { contention: 0.2, ..LAW }.rate_qps(f64::from(workers));
    let factors = words(&[("io", "evport"), ("workers", &workers.to_string())]);
    Published { factors, rate_qps, ..Published::default() }
}

fn play(run: &mut Run, cell: usize, block: u32) {
    let workers = run.cells[cell].workers;
    let apart = 0.004 * (f64::from((block * 3 + workers) % 5) - 2.0);
    let load = LoadFacts {
        mode: LoadMode::Closed,
        answered_qps: LAW.rate_qps(f64::from(workers)) * (1.0 + apart),
        duration_s: 1.0,
        ..LoadFacts::default()
    };
    let number = run.trials.len() as u64 + 1;
    run.trials.push(RunTrial {
        number,
        cell: cell as u32,
        block,
        start: number,
        purpose: Purpose::Closed,
        outcome: Outcome::Measured(Box::new(Trial { load, ..Trial::default() })),
    });
}

fn measured(series: &[ScalingSeries]) -> Vec<&ScalingSeries> {
    series.iter().filter(|one| !one.is_published).collect()
}

#[test]
fn cells_that_differ_in_their_workers_alone_are_a_series() {
    let series = judge(&run(16, 8)).scaling;
    let of_models = measured(&series);
    assert_eq!(of_models.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["io mmsg", "io poll"]);
    for one in of_models {
        let fit = one.fit.as_ref().unwrap();
        assert!((fit.contention.value - LAW.contention).abs() < 0.01, "{fit:?}");
        assert!((fit.coherency.value - LAW.coherency).abs() < 0.002, "{fit:?}");
        assert_eq!((one.sizes.len(), one.sizes[7].starts_qps.len(), one.cells.len()), (8, 5, 8));
        assert!(one.refused.is_none() && one.left_out.is_empty());
        assert!(fit.contention.range.is_some() && fit.beyond[0].is_extrapolated);
    }
    assert_eq!(series_of(&series, "workers", &[8, 15]).unwrap().name, "io poll");
    assert!(series_of(&series, "workers", &[0, 8]).is_none(), "they are of two series");
    assert!(series_of(&series, "threads", &[0]).is_none() && series_of(&series, "workers", &[]).is_none());
}

#[test]
fn what_was_published_has_a_law_of_its_own_and_no_range() {
    let series = judge(&run(16, 8)).scaling;
    let published: Vec<_> = series.iter().filter(|one| one.is_published).collect();
    assert_eq!(published.len(), 1);
    assert_eq!((published[0].name.as_str(), published[0].sizes.len()), ("io evport", 4));
    let fit = published[0].fit.as_ref().unwrap();
    assert!((fit.contention.value - 0.2).abs() < 1e-6 && fit.contention.range.is_none(), "{fit:?}");
}

#[test]
fn a_host_with_few_cores_says_that_it_cannot_answer() {
    for (cores, has) in [(1, "this host has 1 core,"), (2, "this host has 2 cores,"), (4, "has 4 cores,")] {
        let series = judge(&run(cores, cores.max(2))).scaling;
        let of_models = measured(&series);
        assert_eq!(of_models.len(), 2);
        assert!(of_models.iter().all(|one| one.fit.is_none()), "{of_models:?}");
        let said = refusals(&series.iter().collect::<Vec<_>>());
        assert_eq!(said.len(), 1, "once for both: {said:?}");
        assert!(said[0].contains(has) && said[0].contains(" which is too few."), "{said:?}");
    }
}

#[test]
fn workers_without_a_core_of_their_own_do_not_count() {
    let series = judge(&run(8, 8)).scaling;
    let mmsg = measured(&series)[0];
    assert_eq!((mmsg.sizes.len(), mmsg.left_out.as_slice()), (7, &[8][..]));
    assert!(mmsg.fit.is_some());
}

/// Where the player is the bottleneck, a rate is the player's, and looks like contention of the server.
#[test]
fn a_rate_that_is_the_players_limit_does_not_count() {
    let run = run(16, 8);
    let mut verdict = judge(&run);
    for subject in verdict.subjects.iter_mut().filter(|one| run.cells[one.cell as usize].workers >= 7) {
        subject.bottleneck.resource = Resource::Player;
    }
    let series = of_run(&run, &verdict.subjects, &verdict.figures);
    let mmsg = measured(&series)[0];
    assert_eq!((mmsg.sizes.len(), mmsg.left_out.as_slice()), (6, &[7, 8][..]));
    assert_eq!(mmsg.player_limited, [7, 8]);
    assert!(mmsg.fit.is_some() && player_limited(&[mmsg])[0].contains("with 7, 8 workers, where the player"));
    for subject in &mut verdict.subjects {
        subject.bottleneck.resource = Resource::Player;
    }
    let series = of_run(&run, &verdict.subjects, &verdict.figures);
    let reason = measured(&series)[0].refused.clone().unwrap();
    assert!(
        reason.contains("none was measured") && reason.ends_with("the player was the bottleneck"),
        "{reason}"
    );
}

#[test]
fn too_few_numbers_of_workers_are_refused_on_a_large_host_too() {
    let mut run = run(16, 4);
    run.trials.retain(|trial| run.cells[trial.cell as usize].workers != 3);
    let series = judge(&run).scaling;
    let reason = measured(&series)[0].refused.clone().unwrap();
    assert_eq!(reason, "the law needs 4 numbers of workers, and 3 were measured (1, 2, 4)");
}

#[test]
fn a_load_that_was_given_is_no_rate_of_a_series() {
    let mut run = run(16, 8);
    for cell in &mut run.cells {
        cell.load = CellLoad::Rates { rates_qps: vec![1_000.0], duration_s: 1.0 };
    }
    assert!(measured(&judge(&run).scaling).is_empty());
}
