//! A run as the default study makes it, with everything that a page must handle: the echo under nine I/O
//! models, three name servers that are searched in two blocks, wrong answers, a server that will not start, and
//! names that try to be markup.

use std::collections::BTreeMap;

use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::{Cell, CoreGauge, Factors, Fingerprint, GaugeFacts, Run, RunTrial, SpeedFacts, Trial};
use kqps_verdict::search::{Next, Preset, Probe, Start, next_trial};

use super::simulated::{Simulated, core};

/// Text that tries to be markup, wherever the page shows text of the run.
pub(crate) const HOSTILE: &str =
    "<script>document.title='taken'</script>\"'&amp;<img src=x onerror=alert(1)>";

const BLOCKS: u32 = 2;

const ECHOES: [(&str, f64); 9] = [
    ("blocking", 405_000.0),
    ("spin", 398_000.0),
    ("poll", 352_000.0),
    ("select", 341_000.0),
    ("epoll", 360_000.0),
    ("event", 348_000.0),
    ("mmsg", 504_000.0),
    ("segment", 6_310_000.0),
    ("uring", 447_000.0),
];

pub(crate) fn run() -> Run {
    let mut made = Making { run: frame(), start: 0 };
    for block in 0..BLOCKS {
        for cell in 0..made.run.cells.len() {
            made.start += 1;
            made.block_of(cell, block);
        }
    }
    made.run
}

struct Making {
    run: Run,
    start: u64,
}

impl Making {
    fn block_of(&mut self, cell: usize, block: u32) {
        let Cell { subject, role, .. } = self.run.cells[cell].clone();
        // The second block is a little faster, so that intervals have a width.
        let drift = 1.0 + 0.02 * f64::from(block);
        let echo = |io: &str| ECHOES.iter().find(|(name, _)| *name == io).map_or(1e5, |(_, qps)| *qps);
        let simulated = |capacity_qps: f64, alone_us: f64, thread: &'static str| Simulated {
            capacity_qps: capacity_qps * drift,
            alone_us,
            wrong_per_mille: 0,
            thread,
        };
        match (role, subject.as_str()) {
            (Role::Subject, "nsd") => self.search(cell, block, simulated(213_000.0, 38.0, "nsd: server 1")),
            (Role::Subject, "knot") => self.search(cell, block, simulated(187_000.0, 44.0, "knotd")),
            (Role::Subject, "bind") => {
                let liar = Simulated { wrong_per_mille: 50, ..simulated(129_000.0, 61.0, "isc-net-0000") };
                self.search(cell, block, liar);
            }
            (Role::Subject, _) => self.fail(cell, block),
            (_, _) => {
                let io = self.run.cells[cell].io.clone();
                let trial = simulated(echo(&io), 21.0, "echo").trial(None, 1.0, Purpose::Ceiling);
                self.push(cell, block, Purpose::Ceiling, Outcome::Measured(Box::new(trial)));
            }
        }
    }

    /// Follows the search, as the lab does, and then plays parts of the rate found.
    fn search(&mut self, cell: usize, block: u32, simulated: Simulated) {
        let goal = Preset::Quick.goal();
        let mut probes = Vec::new();
        let bounds = loop {
            let (rate_qps, duration_s, purpose) = match next_trial(&goal, &Start::default(), &probes) {
                Next::Overload { duration_s } => (None, duration_s, Purpose::Ceiling),
                Next::Trial { rate_qps, duration_s, purpose } => (Some(rate_qps), duration_s, purpose),
                Next::Done(bounds) => break bounds,
            };
            let trial = simulated.trial(rate_qps, duration_s, purpose);
            probes.push(Probe::from_trial(&trial, &goal, purpose));
            self.push(cell, block, purpose, Outcome::Measured(Box::new(trial)));
        };
        let found_qps = bounds.lower_qps.unwrap_or(simulated.capacity_qps * 0.98);
        for share in [0.1, 0.25, 0.5, 0.75, 0.9] {
            let trial = simulated.trial(Some(found_qps * share), 0.5, Purpose::Latency);
            self.push(cell, block, Purpose::Latency, Outcome::Measured(Box::new(trial)));
        }
        if block == 0 {
            self.repeat(
                cell,
                simulated.trial(Some(bounds.upper_qps.unwrap_or(found_qps)), 1.0, Purpose::Search),
            );
        }
    }

    /// Repeats the last trial of the search, with the reasons of its drops. Only those of nsd could be counted.
    fn repeat(&mut self, cell: usize, mut trial: Trial) {
        let of = self.run.trials.iter().rposition(|one| one.purpose == Purpose::Search).unwrap() as u64 + 1;
        if self.run.cells[cell].name == "nsd" {
            let reasons = [("NOT_SPECIFIED", 12), ("NETFILTER_DROP", 1_007), ("SOCKET_RCVBUFF", 81_234)];
            trial.hosts.first.drop_reasons =
                Some(reasons.map(|(name, count)| (name.to_owned(), count)).into());
            trial.disturbed = true;
        } else {
            trial.hosts.first.unreadable.insert("drop reasons".to_owned(), "Permission denied".to_owned());
        }
        self.push(cell, 0, Purpose::Reasons { of }, Outcome::Measured(Box::new(trial)));
    }

    fn fail(&mut self, cell: usize, block: u32) {
        let output =
            vec!["[2026-11-21 22:05:09] error: could not open database".to_owned(), HOSTILE.to_owned()];
        let reason = format!("the server ended before it was ready, with status 1 {HOSTILE}");
        self.push(cell, block, Purpose::Search, Outcome::Failed { reason, output });
    }

    fn push(&mut self, cell: usize, block: u32, purpose: Purpose, mut outcome: Outcome) {
        let number = self.run.trials.len() as u64 + 1;
        if let Outcome::Measured(trial) = &mut outcome {
            trial.started_unix_ms += number * 900;
            trial.speed = Some(gauged(number));
        }
        self.run.trials.push(RunTrial {
            number,
            cell: cell as u32,
            block,
            start: self.start,
            purpose,
            outcome,
        });
    }
}

/// The player's core changes its speed from trial to trial, and the subject's core keeps the reference speed.
fn gauged(number: u64) -> SpeedFacts {
    let core = |cpu, turns_per_s| CoreGauge { cpu, turns_per_s, stalled_s: 0.0 };
    let cores = vec![core(0, 120_000.0 - (number % 7) as f64 * 5_000.0), core(1, 100_000.0)];
    let gauge = GaugeFacts { cores };
    SpeedFacts {
        before: gauge.clone(),
        after: gauge,
        subject_cpus: vec![1],
        reference_turns_per_s: 100_000.0,
        wanted_qps: None,
    }
}

/// The run before its first trial.
fn frame() -> Run {
    let cell = |name: &str, role, subject: &str, io: &str| Cell {
        name: name.to_owned(),
        role,
        subject: subject.to_owned(),
        version: Some("4.6.1".to_owned()),
        io: io.to_owned(),
        workers: 1,
        player_cpus: vec![0],
        subject_cpus: vec![1],
        factors: Factors::read([("player.sockets".to_owned(), "8".to_owned())]).unwrap(),
        ..Cell::default()
    };
    let mut cells = vec![cell("player ceiling", Role::PlayerCeiling, "echo", "segment")];
    cells.extend(ECHOES.map(|(io, _)| cell(&format!("echo {io}"), Role::EchoCeiling, "echo", io)));
    cells.extend([
        cell("nsd", Role::Subject, "nsd", "mmsg"),
        cell("knot, sixteen threads on one core", Role::Subject, "knot", "mmsg"),
        cell("bind", Role::Subject, "bind", "event"),
        cell(HOSTILE, Role::Subject, HOSTILE, "poll"),
    ]);
    Run {
        schema: 1,
        study: "default".to_owned(),
        command: ["kqps", "run", "--budget", "2m", "--out", "runs of today", HOSTILE]
            .map(str::to_owned)
            .into(),
        started_unix_ms: 1_795_298_700_000,
        finished_unix_ms: Some(1_795_298_843_000),
        kqps_version: "0.1.0".to_owned(),
        budget_s: Some(120.0),
        goal: "quick".to_owned(),
        blocks: BLOCKS,
        seed: 20_261_121,
        fingerprint: fingerprint(),
        skipped: BTreeMap::from([
            ("dnsdist".to_owned(), "no such program on PATH".to_owned()),
            (HOSTILE.to_owned(), HOSTILE.to_owned()),
        ]),
        cells,
        ..Run::default()
    }
}

fn fingerprint() -> Fingerprint {
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let nsd = BinaryFacts {
        path: "/usr/sbin/nsd".to_owned(),
        version: Some("NSD version 4.6.1".to_owned()),
        blake3: Some("5d41402abc4b2a76b9719d911017c592ae4f5d41402abc4b2a76b9719d911017".to_owned()),
    };
    Fingerprint {
        cpu_model: format!("Example Processor 8370C @ 2.80 GHz {HOSTILE}"),
        microcode: Some("0xffffffff".to_owned()),
        hypervisor: Some("KVM".to_owned()),
        cores: vec![core(0), core(1)],
        memory_bytes: 7_900_000_000,
        kernel: "Linux 6.12.48 x86_64".to_owned(),
        os: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
        clock_source: Some("kvm-clock".to_owned()),
        governor: None,
        turbo: Some(true),
        mitigations: map(&[
            (
                "spectre_v2",
                "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; PBRSB-eIBRS: SW sequence; BHI: SW loop",
            ),
            ("meltdown", "Not affected"),
        ]),
        sysctls: map(&[("net.core.rmem_max", "212992"), ("net.core.netdev_max_backlog", "1000")]),
        interrupts: map(&[("24 virtio0-input.0", "0-1")]),
        binaries: BTreeMap::from([("nsd".to_owned(), nsd)]),
        unreadable: map(&[("governor", "/sys/devices/system/cpu/cpu0/cpufreq: No such file or directory")]),
        ..Fingerprint::default()
    }
}
