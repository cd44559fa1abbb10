//! Trials of an imaginary server: it answers up to its capacity, and its latency grows on the way.

use std::collections::BTreeMap;

use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::host::CpuFacts;
use kqps_observation::ledger::{FoundBy, Placed};
use kqps_observation::network::UdpFacts;
use kqps_observation::run::Purpose;
use kqps_observation::subject::ThreadFacts;
use kqps_observation::trial::{DatasetFacts, LoadFacts, LoadMode, PlayerFacts};
use kqps_observation::{
    Accounts, Histogram, HostFacts, Ledger, NetworkFacts, NonEmpty, Place, SubjectFacts, Trial,
};

/// An imaginary server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated {
    /// Queries a second that it can answer.
    pub capacity_qps: f64,
    /// Microseconds that one query takes without others.
    pub alone_us: f64,
    /// Wrong replies per thousand.
    pub wrong_per_mille: u64,
    pub thread: &'static str,
}

impl Simulated {
    /// A trial of the server: an open loop at a rate, or a closed loop if there is none.
    pub(crate) fn trial(&self, rate_qps: Option<f64>, duration_s: f64, purpose: Purpose) -> Trial {
        let offered_qps = rate_qps.unwrap_or(self.capacity_qps);
        let accounts = self.accounts(offered_qps, duration_s);
        let latency = self.latency(offered_qps, &accounts);
        let busy = (offered_qps / self.capacity_qps).min(0.995);
        let mut trial = Trial {
            schema: 1,
            kind: "trial".to_owned(),
            started_unix_ms: 1_795_298_700_000,
            target: "127.0.0.1:5300".to_owned(),
            dataset: DatasetFacts {
                path: "queries.txt".to_owned(),
                hash: "a3f5c9d27b61e804a3f5c9d27b61e804a3f5c9d27b61e804a3f5c9d27b61e804".to_owned(),
                queries: 1_000_000,
                ..DatasetFacts::default()
            },
            load: LoadFacts {
                mode: if rate_qps.is_some() { LoadMode::Open } else { LoadMode::Closed },
                arrivals: rate_qps.map(|_| "even".to_owned()),
                outstanding: rate_qps.is_none().then_some(1024),
                intended_qps: rate_qps,
                offered_qps,
                answered_qps: accounts.correct as f64 / duration_s,
                duration_s,
                timeout_s: 1.0,
                drain_s: if accounts.lost > 0 { 1.0 } else { 0.002 },
                burst: 32,
                ..LoadFacts::default()
            },
            accounts,
            latency_us: latency.quantiles(),
            players: NonEmpty::one(player(accounts.sent, duration_s)),
            subject: Some(self.subject(busy, duration_s, accounts.lost)),
            hosts: NonEmpty::one(host(busy, duration_s, &accounts)),
            ledger: ledger(&accounts),
            ..Trial::default()
        };
        trial.histograms.insert("latency".to_owned(), latency.encode());
        trial.response_rcodes.insert("NOERROR".to_owned(), accounts.correct);
        if accounts.wrong > 0 {
            trial.wrong_causes.insert("rcode".to_owned(), accounts.wrong);
        }
        if purpose == Purpose::Ceiling {
            trial.players.first.notes.push("segmentation was refused once: EIO".to_owned());
        }
        trial
    }

    fn accounts(&self, offered_qps: f64, duration_s: f64) -> Accounts {
        let sent = (offered_qps * duration_s) as u64;
        let lost = if offered_qps > self.capacity_qps {
            ((offered_qps - self.capacity_qps) * duration_s) as u64
        } else {
            0
        };
        let wrong = (sent - lost) * self.wrong_per_mille / 1000;
        Accounts { intended: sent, sent, lost, wrong, correct: sent - lost - wrong, ..Accounts::default() }
    }

    /// Samples as in a queue: a long tail that grows with the load.
    fn latency(&self, offered_qps: f64, accounts: &Accounts) -> Histogram {
        let mut histogram = Histogram::default();
        let idle = (1.0 - offered_qps / self.capacity_qps).max(0.02);
        let mean_us = self.alone_us / idle;
        let answered = accounts.correct + accounts.wrong;
        for step in 0..1000_u64 {
            let quantile = (step as f64 + 0.5) / 1000.0;
            let time_us = self.alone_us - mean_us * 0.6 * (1.0 - quantile).ln();
            histogram.record_many_us(time_us as u64, answered / 1000);
        }
        histogram.record_many_us(1_000_000, accounts.lost);
        histogram
    }

    fn subject(&self, busy: f64, duration_s: f64, lost: u64) -> SubjectFacts {
        let thread = |tid: u32, name: &str, busy: f64| ThreadFacts {
            pid: 4242,
            tid,
            name: name.to_owned(),
            cpu_s: busy * duration_s,
            cpu_user_s: Some(busy * duration_s * 0.4),
            cpu_system_s: Some(busy * duration_s * 0.6),
            awake_s: 0.0,
            withheld_s: 0.0,
            waited_s: None,
            busy,
            cpu: 1,
        };
        SubjectFacts {
            pid: 4242,
            alive: true,
            processes: 1,
            cpu_user_s: busy * duration_s * 0.4,
            cpu_system_s: busy * duration_s * 0.6,
            rss_bytes: 561 << 20,
            socket_drops: Some(lost),
            threads: vec![thread(4243, self.thread, busy), thread(4242, "main", 0.002)],
            ..SubjectFacts::default()
        }
    }
}

fn player(sent: u64, duration_s: f64) -> PlayerFacts {
    // As much as the segmented send of a plain core allows.
    let busy = (sent as f64 / duration_s / 6.6e6).clamp(0.05, 0.94);
    PlayerFacts {
        io: "gso".to_owned(),
        threads: 1,
        sockets: 64,
        cpu_s: busy * duration_s,
        cpus: vec![0],
        per_thread: vec![ThreadFacts {
            pid: 4100,
            tid: 4101,
            name: "play-0".to_owned(),
            cpu_s: busy * duration_s,
            cpu_user_s: Some(busy * duration_s * 0.2),
            cpu_system_s: Some(busy * duration_s * 0.8),
            awake_s: 0.0,
            withheld_s: 0.0,
            waited_s: None,
            busy,
            cpu: 0,
        }],
        ..PlayerFacts::default()
    }
}

fn host(busy: f64, duration_s: f64, accounts: &Accounts) -> HostFacts {
    let cpu = |cpu: u32, busy: f64| CpuFacts {
        cpu,
        user: busy * 0.3,
        system: busy * 0.6,
        softirq: busy * 0.1,
        idle: 1.0 - busy,
        ..CpuFacts::default()
    };
    let udp4 = UdpFacts {
        in_datagrams: accounts.sent * 2 - accounts.lost * 2,
        out_datagrams: accounts.sent * 2 - accounts.lost,
        rcvbuf_errors: accounts.lost,
        ..UdpFacts::default()
    };
    HostFacts {
        wall_s: duration_s,
        cpus: vec![cpu(0, 0.5), cpu(1, busy)],
        network: NetworkFacts { udp4, ..NetworkFacts::default() },
        foreign_cpu_s: Some(duration_s * 0.004),
        ..HostFacts::default()
    }
}

/// All except a few of the losses are found in the subject's socket buffer.
fn ledger(accounts: &Accounts) -> Ledger {
    if accounts.lost == 0 {
        return Ledger::default();
    }
    let placed = |place, count| Placed { place, count, by: FoundBy::Drops, shared: false };
    let softnet = accounts.lost / 10;
    let few = (accounts.lost / 500) as i64;
    let buffer = accounts.lost - softnet - few as u64;
    Ledger {
        places: vec![placed(Place::Softnet, softnet), placed(Place::SubjectSocketBuffer, buffer)],
        unexplained: few,
        ..Ledger::default()
    }
}

/// A core of a small machine: one thread each, the last cache shared by both.
pub(crate) fn core(cpu: u32) -> CoreFacts {
    let caches = BTreeMap::from([("L2".to_owned(), vec![cpu]), ("L3".to_owned(), vec![0, 1])]);
    CoreFacts { cpu, package: 0, core: cpu, numa_node: 0, smt: vec![cpu], caches }
}
