//! Trials on a simulated host, as the player and the lab would record them: the effect of the queue before a
//! server, the speed of the cores before and after, and what a witness saw.

use std::collections::BTreeMap;

use fastrand::Rng;
use kqps_observation::subject::{SubjectFacts, ThreadFacts};
use kqps_observation::trial::{LoadFacts, LoadMode, Mishap};
use kqps_observation::{Accounts, CoreGauge, GaugeFacts, Quantiles, SpeedFacts, Stall, StallFacts, Trial};

use super::host::{Host, Piece, normal};

/// A host and the present time on it.
pub(crate) struct Stage {
    pub(crate) rng: Rng,
    pub(crate) host: Host,
    pub(crate) now_s: f64,
    reference_turns_per_s: f64,
}

/// The scatter of trials at one speed, and of readings of the gauge, as standard deviations of logarithms.
/// Rates divided by the gauge then scatter by 2.5 %, as measured on a rented host.
const SCATTER: f64 = 0.024;
const GAUGE_SCATTER: f64 = 0.01;

/// The reading of the gauge at the fast speed.
const TURNS_PER_S: f64 = 200_000.0;

/// Seconds of a reading, and seconds between a reading and the first query, or between the end of the drain and
/// the next reading.
const READING_S: f64 = 0.01;
const BETWEEN_S: f64 = 0.025;

/// Packets that a server's buffer holds.
const BUFFER: f64 = 277.0;

/// The latency of a query that does not wait.
const LATENCY_S: f64 = 50e-6;

/// Seconds after which a reply is late; after twice that time the player stops receiving.
const TIMEOUT_S: f64 = 0.25;

/// Width of the bins of mishaps, seconds.
const BIN_S: f64 = 0.01;

/// The period of the witness, seconds, and the least lateness that counts as a standstill.
const PERIOD_S: f64 = 0.0023;
const STALL_S: f64 = 0.0005;

const CPU: u32 = 1;

impl Stage {
    /// The reference is the present speed.
    pub(crate) fn new(rng: Rng, host: Host, now_s: f64) -> Self {
        let reference_turns_per_s = host.speed(now_s) * TURNS_PER_S;
        Self { rng, host, now_s, reference_turns_per_s }
    }

    /// A trial at a server that answers `capacity_qps` at the fast speed: at a load, or in a closed loop.
    pub(crate) fn play(&mut self, capacity_qps: f64, wanted_qps: Option<f64>, duration_s: f64) -> Trial {
        let before = self.gauge();
        self.now_s += BETWEEN_S;
        let (began_s, end_s) = (self.now_s, self.now_s + duration_s);
        let capacity_qps = capacity_qps * (SCATTER * normal(&mut self.rng)).exp();
        let scale = before.cores[0].turns_per_s / self.reference_turns_per_s;
        let mut trial = match wanted_qps {
            Some(wanted_qps) => self.open(capacity_qps, wanted_qps * scale, began_s..end_s),
            None => self.closed(capacity_qps, began_s..end_s),
        };
        trial.accounts.check().expect("the accounts add up");
        trial.started_monotonic_ns = nanoseconds(began_s);
        trial.stalls = Some(self.witnessed(began_s, end_s));
        self.now_s = end_s + trial.load.drain_s + BETWEEN_S;
        trial.speed = Some(SpeedFacts {
            before,
            after: self.gauge(),
            subject_cpus: vec![CPU],
            reference_turns_per_s: self.reference_turns_per_s,
            wanted_qps,
        });
        trial
    }

    fn gauge(&mut self) -> GaugeFacts {
        let speed = self.host.speed(self.now_s + READING_S / 2.0);
        self.now_s += READING_S;
        let turns_per_s = TURNS_PER_S * speed * (GAUGE_SCATTER * normal(&mut self.rng)).exp();
        GaugeFacts { cores: vec![CoreGauge { cpu: CPU, turns_per_s, stalled_s: 0.0 }] }
    }

    /// The standstills that a thread sees if it wakes once a period. It misses a standstill between two of its
    /// wakes, and sees of a longer one only the part after the wake that it missed.
    fn witnessed(&mut self, began_s: f64, end_s: f64) -> StallFacts {
        let first_s = began_s - PERIOD_S * self.rng.f64();
        let seen = |&(at_s, until_s): &(f64, f64)| {
            let wake_s = first_s + ((at_s - first_s) / PERIOD_S).ceil().max(0.0) * PERIOD_S;
            let late_us = ((until_s - wake_s) * 1e6) as u64;
            (until_s - wake_s >= STALL_S).then(|| Stall { cpu: CPU, at_ns: nanoseconds(wake_s), late_us })
        };
        let stalls: Vec<Stall> = self.host.stalls(began_s, end_s).iter().filter_map(seen).collect();
        StallFacts {
            began_ns: nanoseconds(first_s),
            ended_ns: nanoseconds(end_s),
            period_us: (PERIOD_S * 1e6) as u64,
            cores: vec![CPU],
            seen: stalls.len() as u64,
            stalls,
            ..StallFacts::default()
        }
    }

    fn closed(&self, capacity_qps: f64, span: std::ops::Range<f64>) -> Trial {
        let duration_s = span.end - span.start;
        let pieces = self.host.pieces(span.start, span.end, std::iter::empty());
        let answered: f64 =
            pieces.iter().map(|piece| capacity_qps * piece.speed * piece.part() * piece.length_s()).sum();
        let mut core = Core::default();
        for piece in &pieces {
            core.spend(piece, piece.part() * piece.length_s());
        }
        let load =
            LoadFacts { mode: LoadMode::Closed, duration_s, timeout_s: TIMEOUT_S, ..LoadFacts::default() };
        let accounts =
            Accounts { intended: answered as u64, correct: answered as u64, ..Accounts::default() };
        record(load, accounts, answered, &core)
    }

    fn open(&self, capacity_qps: f64, rate_qps: f64, span: std::ops::Range<f64>) -> Trial {
        let duration_s = span.end - span.start;
        let bins = (0..(duration_s / BIN_S).ceil() as u32).map(|bin| span.start + f64::from(bin) * BIN_S);
        let mut flow = Flow { rate_qps, began_s: span.start, ..Flow::default() };
        for piece in self.host.pieces(span.start, span.end, bins) {
            flow.pass(&piece, capacity_qps);
        }
        let mishaps = flow.mishaps();
        let lost: u64 = mishaps.iter().map(|mishap| u64::from(mishap.bad)).sum();
        let intended = (rate_qps * duration_s).round() as u64;
        let correct = intended - lost;
        let in_time = (correct as f64 - flow.queue - LATENCY_S * rate_qps.min(capacity_qps)).max(0.0);
        let heard_s = flow.last_loss_s.map_or(0.0, |at_s| at_s + 2.0 * TIMEOUT_S - span.end);
        let load = LoadFacts {
            intended_qps: Some(rate_qps),
            duration_s,
            timeout_s: TIMEOUT_S,
            drain_s: heard_s.max(LATENCY_S + flow.queue / capacity_qps),
            correct_in_time: Some(in_time as u64),
            ..LoadFacts::default()
        };
        let accounts = Accounts { intended, correct, lost, ..Accounts::default() };
        let least_us = Some((LATENCY_S * 1e6) as u64);
        let latency_us = Quantiles { min: least_us, p50: Some(flow.median_us()), ..Quantiles::default() };
        Trial { mishaps, latency_us, ..record(load, accounts, correct as f64, &flow.core) }
    }
}

/// The time of the server's core during a trial, seconds.
#[derive(Default)]
struct Core {
    busy_s: f64,
    /// While the server wanted the core and other programs had it.
    waited_s: f64,
}

impl Core {
    /// A busy server has half of a shared core, and waits for as long.
    fn spend(&mut self, piece: &Piece, busy_s: f64) {
        // All but rounding.
        let is_busy = busy_s >= 0.499 * piece.length_s();
        self.busy_s += busy_s;
        self.waited_s += if piece.is_shared && is_busy { busy_s } else { 0.0 };
    }

    fn facts(&self, duration_s: f64) -> SubjectFacts {
        let thread = ThreadFacts {
            tid: 101,
            cpu: CPU,
            cpu_s: self.busy_s,
            busy: self.busy_s / duration_s,
            waited_s: Some(self.waited_s),
            ..ThreadFacts::default()
        };
        SubjectFacts { alive: true, processes: 1, threads: vec![thread], ..SubjectFacts::default() }
    }
}

fn record(load: LoadFacts, accounts: Accounts, answered: f64, core: &Core) -> Trial {
    let subject = Some(core.facts(load.duration_s));
    let load = LoadFacts {
        offered_qps: accounts.intended as f64 / load.duration_s,
        answered_qps: answered / load.duration_s,
        ..load
    };
    Trial { load, accounts: Accounts { sent: accounts.intended, ..accounts }, subject, ..Trial::default() }
}

fn nanoseconds(at_s: f64) -> u64 {
    (at_s * 1e9) as u64
}

/// Queries that come evenly to a server. The server queues some of them, and loses those that exceed its
/// buffer.
#[derive(Default)]
struct Flow {
    rate_qps: f64,
    began_s: f64,
    /// The number of queries that wait.
    queue: f64,
    /// Bin → queries lost that were due in it.
    lost: BTreeMap<u32, f64>,
    last_loss_s: Option<f64>,
    /// Latencies, each with its number of queries.
    latencies: Vec<(f64, f64)>,
    core: Core,
}

impl Flow {
    fn pass(&mut self, piece: &Piece, capacity_qps: f64) {
        let length_s = piece.length_s();
        let served_qps = capacity_qps * piece.speed;
        let growth_qps = self.rate_qps - served_qps * piece.part();
        let was = self.queue;
        let filling_s = if growth_qps > 0.0 { length_s.min((BUFFER - was) / growth_qps) } else { length_s };
        self.queue = (was + growth_qps * filling_s).clamp(0.0, BUFFER);
        let lost = growth_qps.max(0.0) * (length_s - filling_s);
        if lost > 0.0 {
            let bin = ((f64::midpoint(piece.from_s, piece.to_s) - self.began_s) / BIN_S) as u32;
            *self.lost.entry(bin).or_default() += lost;
            self.last_loss_s = Some(piece.to_s);
            self.latencies.push((2.0 * TIMEOUT_S, lost));
        }
        let answered = self.rate_qps * length_s - lost - (self.queue - was);
        self.core.spend(piece, answered / served_qps);
        let waiting = |queue: f64| LATENCY_S + queue / served_qps;
        self.latencies.push((waiting(f64::midpoint(was, self.queue)), self.rate_qps * filling_s));
        let kept = self.rate_qps * (length_s - filling_s) - lost;
        self.latencies.push((waiting(self.queue), kept));
    }

    fn mishaps(&self) -> Vec<Mishap> {
        let intended = (self.rate_qps * BIN_S).round() as u32;
        let mishap = |(&at_10ms, lost): (&u32, &f64)| {
            let bad = (lost.round() as u32).min(intended);
            Mishap { at_10ms, intended, bad, lag_us: 20 }
        };
        self.lost.iter().map(mishap).filter(|mishap| mishap.bad > 0).collect()
    }

    fn median_us(&self) -> u64 {
        let mut latencies = self.latencies.clone();
        latencies.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let half = latencies.iter().map(|(_, queries)| queries).sum::<f64>() / 2.0;
        let mut below = 0.0;
        let reaches_half = |(_, queries): &&(f64, f64)| {
            below += queries;
            below >= half
        };
        latencies.iter().find(reaches_half).map_or(0, |(latency_s, _)| (latency_s * 1e6) as u64)
    }
}
