//! Trials and runs as they would be recorded, without playing anything.

use kqps_observation::host::CpuFacts;
use kqps_observation::ledger::FoundBy;
use kqps_observation::run::{Cell, Outcome, Purpose, Role, Run, RunTrial};
use kqps_observation::subject::ThreadFacts;
use kqps_observation::trial::{LoadFacts, LoadMode, PlayerFacts};
use kqps_observation::{
    Accounts, Histogram, HostFacts, NonEmpty, Place, Placed, Quantiles, SubjectFacts, Trial,
};
use kqps_verdict::evidence::counted;
use kqps_verdict::judge::{CellVerdict, judge};
use kqps_verdict::search::{Next, Preset, Probe, Start, next_trial};
use kqps_verdict::warning::Code;

pub(crate) fn thread(name: &str, tid: u32, busy: f64, cpu: u32) -> ThreadFacts {
    ThreadFacts { pid: 100, tid, name: name.into(), cpu_s: busy, busy, cpu, ..ThreadFacts::default() }
}

/// A sound trial of one second over loopback: the player on core 0 at 40 %, the subject on core 1 at 60 %, and
/// `lost` queries lost in the subject's socket buffer.
pub(crate) fn trial(load_qps: f64, lost: u64) -> Trial {
    let intended = load_qps as u64;
    let correct = intended - lost;
    let idle = |cpu, idle| CpuFacts { cpu, user: 1.0 - idle, idle, ..CpuFacts::default() };
    let mut trial = Trial {
        kind: "trial".into(),
        target: "127.0.0.1:5300".into(),
        load: LoadFacts {
            mode: LoadMode::Open,
            intended_qps: Some(load_qps),
            offered_qps: load_qps,
            answered_qps: correct as f64,
            duration_s: 1.0,
            timeout_s: 1.0,
            drain_s: if lost > 0 { 1.0 } else { 0.0 },
            ..LoadFacts::default()
        },
        accounts: Accounts { intended, sent: intended, correct, lost, ..Accounts::default() },
        latency_us: Quantiles { p50: Some(80), p99: Some(200), max: Some(900), ..Quantiles::default() },
        lag_us: Quantiles { p50: Some(1), p90: Some(4), p99: Some(12), ..Quantiles::default() },
        players: NonEmpty::one(PlayerFacts {
            threads: 1,
            cpus: vec![0],
            per_thread: vec![thread("player", 10, 0.4, 0)],
            ..PlayerFacts::default()
        }),
        subject: Some(SubjectFacts {
            pid: 100,
            alive: true,
            processes: 1,
            threads: vec![thread("server", 101, 0.6, 1), thread("helper", 102, 0.01, 1)],
            ..SubjectFacts::default()
        }),
        hosts: NonEmpty::one(HostFacts {
            wall_s: 1.0,
            cpus: vec![idle(0, 0.6), idle(1, 0.4)],
            foreign_cpu_s: Some(0.0),
            ..HostFacts::default()
        }),
        ..Trial::default()
    };
    place(&mut trial, Place::SubjectSocketBuffer, lost);
    trial
}

pub(crate) fn place(trial: &mut Trial, place: Place, count: u64) {
    if count > 0 {
        trial.ledger.places.push(Placed { place, count, by: FoundBy::Drops, shared: false });
    }
}

/// Sets how busy the subject's serving thread and its core were.
pub(crate) fn subject_busy(trial: &mut Trial, busy: f64) {
    trial.subject.as_mut().unwrap().threads[0].busy = busy;
    trial.hosts.first.cpus[1] = CpuFacts { cpu: 1, user: busy, idle: 1.0 - busy, ..CpuFacts::default() };
}

/// A player that got a twentieth of its CPU: it gave up most queries, and was far from busy.
pub(crate) fn starved(load_qps: f64) -> Trial {
    let mut starved = trial(load_qps, 0);
    let intended = starved.accounts.intended;
    let sent = intended / 10;
    starved.accounts =
        Accounts { intended, unsent: intended - sent, sent, correct: sent, ..Accounts::default() };
    starved.lag_us =
        Quantiles { p50: Some(9_000), p90: Some(48_000), p99: Some(60_000), ..Quantiles::default() };
    starved.players.first.per_thread[0].busy = 0.05;
    starved.hosts.first.cpus[0].idle = 0.95;
    starved.ledger.places.clear();
    place(&mut starved, Place::PlayerUnsent, intended - sent);
    starved
}

/// A closed loop that answered at this rate.
pub(crate) fn closed(answered_qps: f64) -> Trial {
    let mut closed = trial(answered_qps, 0);
    closed.load =
        LoadFacts { mode: LoadMode::Closed, intended_qps: None, outstanding: Some(500), ..closed.load };
    closed.lag_us = Quantiles::default();
    closed
}

/// A run with the player's ceiling, two echoes, and one subject whose capacity differs from start to start.
pub(crate) struct Rig {
    pub(crate) run: Run,
}

pub(crate) const SUBJECT: u32 = 3;

impl Rig {
    /// The player reaches this rate. If it does, the echoes `mmsg` and `blocking` reach 500 and 400 kqps.
    pub(crate) fn new(player_qps: f64) -> Self {
        let cell = |name: &str, role, io: &str| Cell {
            name: name.into(),
            role,
            io: io.into(),
            workers: 1,
            player_cpus: vec![0],
            subject_cpus: vec![1],
            ..Cell::default()
        };
        let cells = vec![
            cell("player", Role::PlayerCeiling, "segment"),
            cell("echo mmsg", Role::EchoCeiling, "mmsg"),
            cell("echo blocking", Role::EchoCeiling, "blocking"),
            cell("nsd", Role::Subject, "mmsg"),
        ];
        let mut rig = Self { run: Run { goal: "quick".into(), cells, ..Run::default() } };
        for block in 0..6 {
            for (cell, answered_qps) in [(0, player_qps), (1, 500e3), (2, 400e3)] {
                let start = u64::from(block * 4 + cell + 1);
                rig.add(cell, block, start, Purpose::Ceiling, closed(player_qps.min(answered_qps)));
            }
        }
        rig
    }

    pub(crate) fn add(&mut self, cell: u32, block: u32, start: u64, purpose: Purpose, trial: Trial) {
        let number = self.run.trials.len() as u64 + 1;
        let outcome = Outcome::Measured(Box::new(trial));
        self.run.trials.push(RunTrial { number, cell, block, start, purpose, outcome });
    }

    pub(crate) fn fail(&mut self, block: u32, reason: &str) {
        let number = self.run.trials.len() as u64 + 1;
        let outcome = Outcome::Failed { reason: reason.into(), output: Vec::new() };
        let start = u64::from(1000 + block);
        let purpose = Purpose::Search;
        self.run.trials.push(RunTrial { number, cell: SUBJECT, block, start, purpose, outcome });
    }

    /// Adds a search of the subject. `play` makes the record of a trial at a load. Spoiled trials are repeated.
    pub(crate) fn search(&mut self, block: u32, play: impl Fn(f64) -> Trial) {
        let goal = Preset::Quick.goal();
        let start = u64::from(100 + block);
        let mut played: Vec<(Purpose, Trial)> = Vec::new();
        loop {
            let counted = counted(&played, |(purpose, trial)| (*purpose, trial));
            let probes: Vec<Probe> =
                counted.iter().map(|(purpose, trial)| Probe::from_trial(trial, &goal, *purpose)).collect();
            let (purpose, mut trial) = match next_trial(&goal, &Start::default(), &probes) {
                Next::Done(_) => return,
                Next::Overload { .. } => (Purpose::Ceiling, closed(210e3)),
                Next::Trial { rate_qps, purpose, duration_s } => {
                    let mut trial = play(rate_qps);
                    trial.load.duration_s = duration_s.max(trial.load.duration_s);
                    (purpose, trial)
                }
            };
            if trial.histograms.is_empty() {
                let mut latency = Histogram::default();
                latency.record_many_us(80, 20_000);
                trial.histograms.insert("latency".into(), latency.encode());
            }
            // Every start has processes and threads of its own.
            for thread in trial.subject.iter_mut().flat_map(|subject| &mut subject.threads) {
                thread.tid += 1000 * block;
            }
            self.add(SUBJECT, block, start, purpose, trial.clone());
            played.push((purpose, trial));
        }
    }
}

/// A subject with a sharp knee. Above it, its thread is full.
pub(crate) fn knee(capacity_qps: f64) -> impl Fn(f64) -> Trial {
    move |load_qps| {
        let lost = (load_qps - capacity_qps).max(0.0);
        let mut trial = trial(load_qps, lost as u64);
        subject_busy(&mut trial, (load_qps / capacity_qps).min(0.99));
        trial
    }
}

/// Six starts of a subject whose capacity is 200 kqps, within half a per cent.
pub(crate) fn six_starts(player_qps: f64, spoil: impl Fn(&mut Trial)) -> Rig {
    let mut rig = Rig::new(player_qps);
    for block in 0..6 {
        let play = knee(199_500.0 + 200.0 * f64::from(block));
        rig.search(block, |load_qps| {
            let mut trial = play(load_qps);
            spoil(&mut trial);
            trial
        });
    }
    rig
}

/// Six starts of a subject whose capacity is 200 kqps in each of them.
pub(crate) fn equal_starts() -> Rig {
    let mut rig = Rig::new(2e6);
    (0..6).for_each(|block| rig.search(block, knee(200e3)));
    rig
}

/// The verdict on the subject.
pub(crate) fn subject(rig: &Rig) -> CellVerdict {
    judge(&rig.run).subjects.remove(0)
}

/// The codes of a verdict's warnings.
pub(crate) fn codes(verdict: &CellVerdict) -> Vec<Code> {
    verdict.warnings.iter().map(|warning| warning.code).collect()
}
