//! A study of one server by its workers, whose rates follow the Universal Scalability Law.

use std::collections::BTreeMap;

use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::question::{Chart, Experiment, Factor, Figure, Published, Question, Table};
use kqps_observation::run::{CellLoad, Outcome, Purpose};
use kqps_observation::trial::{LoadFacts, LoadMode};
use kqps_observation::{Cell, Factors, Fingerprint, Run, RunTrial, Trial};
use kqps_verdict::scaling::Law;

const LAW: Law = Law { alone_qps: 20_000.0, contention: 0.05, coherency: 0.004 };
const WORKERS: [u32; 5] = [1, 2, 3, 4, 6];

fn words(workers: u32) -> BTreeMap<String, String> {
    BTreeMap::from([("workers".to_owned(), workers.to_string())])
}

/// A study of one server by its workers on a host with `cores` cores. The player has core 0.
pub(crate) fn run(cores: u32) -> Run {
    let published = |workers: u32| Published {
        factors: words(workers),
        rate_qps: LAW.rate_qps(f64::from(workers)) / 10.0,
        ..Published::default()
    };
    let experiment = Experiment {
        name: "scaling".into(),
        title: "By workers".into(),
        factors: vec![Factor {
            name: "workers".into(),
            values: WORKERS.map(|workers| workers.to_string()).into(),
        }],
        tables: vec![Table { columns: "workers".into(), show: vec![Figure::Median], ..Table::default() }],
        charts: vec![Chart {
            x: "workers".into(),
            show: vec![Figure::Median, Figure::Efficiency],
            ..Chart::default()
        }],
        published: (1..=4).map(published).collect(),
        ..Experiment::default()
    };
    let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
    let cell = |workers: u32| Cell {
        name: format!("echo {workers}"),
        experiment: "scaling".into(),
        subject: "echo".into(),
        load: CellLoad::Closed(1.0),
        workers,
        player_cpus: vec![0],
        subject_cpus: if workers < cores { (1..=workers).collect() } else { (0..cores).collect() },
        factors: Factors::read(words(workers)).unwrap(),
        ..Cell::default()
    };
    let mut run = Run {
        goal: "quick".into(),
        question: Some(Question { experiments: vec![experiment], ..Question::default() }),
        fingerprint: Fingerprint { cores: (0..cores).map(core).collect(), ..Fingerprint::default() },
        cells: WORKERS.map(cell).into(),
        ..Run::default()
    };
    for (block, apart) in (0..).zip([-0.02, -0.01, 0.0, 0.01, 0.02]) {
        for (cell, workers) in (0..).zip(WORKERS) {
            let load = LoadFacts {
                mode: LoadMode::Closed,
                answered_qps: LAW.rate_qps(f64::from(workers)) * (1.0 + apart),
                duration_s: 1.0,
                ..LoadFacts::default()
            };
            let number = run.trials.len() as u64 + 1;
            let outcome = Outcome::Measured(Box::new(Trial { load, ..Trial::default() }));
            let purpose = Purpose::Closed;
            run.trials.push(RunTrial { number, cell, block, start: number, purpose, outcome });
        }
    }
    run
}
