//! A run of a study with two experiments and everything that can happen to a cell: the echo under I/O models
//! and processes beside published figures, with a model that was left out and a cell that crashed; five name
//! servers; and a host with two packages of 32 cores.

use std::collections::BTreeMap;

use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::question::{
    Chart, Experiment, Factor, Figure, LinkChart, Path, Published, Question, Table,
};
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::{Cell, Factors, Run, RunTrial};

use super::sample::{self, HOSTILE};
use super::simulated::Simulated;

pub(crate) const ECHO: &str = "processes";
pub(crate) const SERVERS: &str = "servers";

/// Number of starts of every cell.
const BLOCKS: u32 = 6;

const MODELS: [(&str, f64); 3] = [("blocking", 205_000.0), ("poll", 176_000.0), ("event", 160_000.0)];
const FORBIDDEN: &str = "uring";
const PROCESSES: [u32; 4] = [1, 2, 4, 8];
/// The cell that crashes, and the one that never begins.
pub(crate) const CRASHED: (&str, u32) = ("poll", 8);
pub(crate) const NOT_BEGUN: (&str, u32) = ("event", 8);

const SERVER_CELLS: [(&str, f64, u64); 5] = [
    ("nsd", 213_000.0, 561 << 20),
    ("knot", 187_000.0, 340 << 20),
    ("bind", 129_000.0, 210 << 20),
    ("pdns", 61_000.0, 96 << 20),
    ("unbound", 151_000.0, 48 << 20),
];

pub(crate) fn run() -> Run {
    let mut run = frame();
    for block in 0..BLOCKS {
        for cell in 0..run.cells.len() {
            play(&mut run, cell, block);
        }
    }
    run
}

fn play(run: &mut Run, index: usize, block: u32) {
    let cell = run.cells[index].clone();
    let drift = 1.0 + 0.01 * f64::from(block % 4);
    if cell.experiment == ECHO {
        let at = (cell.io.as_str(), cell.workers);
        if at == NOT_BEGUN {
            return;
        }
        if at == CRASHED {
            let output = vec!["out of file descriptors".to_owned(), HOSTILE.to_owned()];
            let reason = format!("the echo ended with status 1 {HOSTILE}");
            return push(run, index, block, Purpose::Closed, Outcome::Failed { reason, output });
        }
        let alone_qps = MODELS.iter().find(|(io, _)| *io == cell.io).map_or(1e5, |(_, qps)| *qps);
        let capacity_qps = alone_qps * f64::from(cell.workers).powf(0.7) * drift;
        let trial = simulated(capacity_qps).trial(None, 1.0, Purpose::Closed);
        return push(run, index, block, Purpose::Closed, Outcome::Measured(Box::new(trial)));
    }
    let Some(&(_, capacity_qps, memory)) = SERVER_CELLS.iter().find(|(name, ..)| *name == cell.subject)
    else {
        let purpose = Purpose::Ceiling;
        let rate_qps = if cell.role == Role::PlayerCeiling { 6.3e6 } else { 504_000.0 };
        let trial = simulated(rate_qps * drift).trial(None, 0.5, purpose);
        return push(run, index, block, purpose, Outcome::Measured(Box::new(trial)));
    };
    for share in [0.25, 0.5, 1.0, 1.1] {
        let subject = simulated(capacity_qps * drift);
        let mut trial = subject.trial(Some((capacity_qps * share).round()), 1.0, Purpose::Rate);
        trial.response_bytes_mean = Some(60.0 + memory as f64 / f64::from(4 << 20));
        let subject = trial.subject.as_mut().unwrap();
        subject.rss_bytes = memory;
        subject.ready_s = Some(3.4 + 0.1 * f64::from(block));
        push(run, index, block, Purpose::Rate, Outcome::Measured(Box::new(trial)));
    }
}

fn simulated(capacity_qps: f64) -> Simulated {
    Simulated { capacity_qps, alone_us: 31.0, wrong_per_mille: 0, thread: "server" }
}

fn push(run: &mut Run, cell: usize, block: u32, purpose: Purpose, outcome: Outcome) {
    let number = run.trials.len() as u64 + 1;
    let start = u64::from(block) * 100 + cell as u64 + 1;
    run.trials.push(RunTrial { number, cell: cell as u32, block, start, purpose, outcome });
}

fn frame() -> Run {
    let named = |name: &str, role, subject: &str, io: &str| Cell {
        name: name.to_owned(),
        role,
        subject: subject.to_owned(),
        io: io.to_owned(),
        version: Some("4.6.1".to_owned()),
        workers: 1,
        player_cpus: vec![0],
        subject_cpus: vec![4, 5, 6, 7],
        ..Cell::default()
    };
    let mut cells = vec![
        named("player ceiling", Role::PlayerCeiling, "echo", "segment"),
        named("echo mmsg", Role::EchoCeiling, "echo", "mmsg"),
    ];
    for (io, _) in MODELS {
        cells.extend(PROCESSES.map(|processes| Cell {
            experiment: ECHO.to_owned(),
            load: CellLoad::Closed(1.0),
            workers: processes,
            factors: Factors::read(factors(&[("io", io), ("processes", &processes.to_string())])).unwrap(),
            ..named(&format!("echo {io} {processes}"), Role::Subject, "echo", io)
        }));
    }
    cells.extend(SERVER_CELLS.map(|(name, capacity_qps, _)| Cell {
        experiment: SERVERS.to_owned(),
        load: CellLoad::Rates { rates_qps: vec![capacity_qps], duration_s: 1.0 },
        factors: Factors::read(factors(&[("subject", name), ("dataset.records", "2000000")])).unwrap(),
        ..named(name, Role::Subject, name, "mmsg")
    }));
    let mut run = sample::run();
    run.trials.clear();
    "isc-echo".clone_into(&mut run.study);
    run.blocks = BLOCKS;
    run.cells = cells;
    run.question = Some(question());
    run.skipped = BTreeMap::from([
        (format!("{ECHO}: io={FORBIDDEN}"), format!("the kernel forbids io_uring {HOSTILE}")),
        ("dnsdist".to_owned(), "no such program on PATH".to_owned()),
    ]);
    run.fingerprint.cores = (0..128).map(core).collect();
    run.fingerprint.interrupts =
        factors(&[("60 eth0-rx-0", "0"), ("61 eth0-rx-1", "1"), ("62 eth0-rx-2", "33")]);
    run.fingerprint.queues = factors(&[("eth0/rx-0", "rps_cpus 00000000,0000000f, rps_flow_cnt 0")]);
    run
}

fn factors(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Two packages of 32 cores with two threads each; four cores share an L3.
fn core(cpu: u32) -> CoreFacts {
    let core = cpu % 64;
    let first = core / 4 * 4;
    let smt = vec![core, core + 64];
    let shared: Vec<u32> = (first..first + 4).chain(first + 64..first + 68).collect();
    let caches = BTreeMap::from([("L2".to_owned(), smt.clone()), ("L3".to_owned(), shared)]);
    CoreFacts { cpu, package: core / 32, core, numa_node: core / 32, smt, caches }
}

fn question() -> Question {
    let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let factor = |name: &str, of: &[&str]| Factor { name: name.to_owned(), values: values(of) };
    let published = |io: &str, processes: &str, rate_qps, note: &str| Published {
        factors: factors(&[("io", io), ("processes", processes)]),
        rate_qps,
        note: note.to_owned(),
        ..Published::default()
    };
    let processes = Experiment {
        name: ECHO.to_owned(),
        title: "Processes and I/O models".to_owned(),
        about: "One echo, forked so many times, under each way of waiting for a query.".to_owned(),
        factors: vec![
            factor("io", &["blocking", "poll", "event", FORBIDDEN]),
            factor("processes", &["1", "2", "4", "8"]),
        ],
        tables: vec![
            Table {
                title: "Rate by processes".to_owned(),
                rows: values(&["io"]),
                columns: "processes".to_owned(),
                show: vec![Figure::Median, Figure::Published, Figure::Efficiency],
            },
            Table {
                title: "Mean, minimum and maximum".to_owned(),
                rows: values(&["io", "processes"]),
                columns: String::new(),
                show: vec![Figure::MeanMinMax, Figure::Cpu, Figure::Memory, Figure::CeilingShare],
            },
        ],
        charts: vec![
            Chart {
                title: "Rate by processes".to_owned(),
                x: "processes".to_owned(),
                series: values(&["io"]),
                show: vec![Figure::MeanMinMax, Figure::Median, Figure::Published, Figure::Efficiency],
            },
            Chart {
                title: "Rate by I/O model".to_owned(),
                x: "io".to_owned(),
                series: values(&["processes"]),
                show: vec![Figure::MeanMinMax, Figure::Median, Figure::Published],
            },
        ],
        published: vec![
            published("blocking", "1", 120_000.0, "read off a chart"),
            published("blocking", "2", 190_000.0, ""),
            published("blocking", "4", 348_000.0, ""),
            published("poll", "1", 110_000.0, ""),
            published(FORBIDDEN, "1", 90_000.0, HOSTILE),
        ],
        links: Vec::new(),
    };
    let servers = Experiment {
        name: SERVERS.to_owned(),
        title: format!("Name servers {HOSTILE}"),
        factors: vec![factor("subject", &SERVER_CELLS.map(|(name, ..)| name))],
        charts: vec![Chart {
            title: String::new(),
            x: "subject".to_owned(),
            series: Vec::new(),
            show: vec![Figure::Median],
        }],
        tables: vec![Table {
            title: "What records cost".to_owned(),
            rows: values(&["subject"]),
            columns: String::new(),
            show: vec![Figure::Median, Figure::MemoryPerRecord, Figure::LoadTime, Figure::ReplySize],
        }],
        links: vec![LinkChart { title: "What links carry".to_owned(), gbit_per_s: vec![10.0, 25.0, 100.0] }],
        ..Experiment::default()
    };
    Question {
        title: "Benchmarking DNS reliably on many cores".to_owned(),
        question: format!(
            "How does the rate grow with processes, and what does the I/O model cost? {HOSTILE}"
        ),
        source: "ISC, 2015".to_owned(),
        path: Path::Veth,
        experiments: vec![processes, servers],
    }
}
