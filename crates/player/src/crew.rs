//! Plays a plan: binds the sockets, starts the threads together, watches both sides while queries are sent,
//! and joins what the threads counted into one record.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kqps_dataset::Dataset;
use kqps_host::watch::{Watch, Watched};
use kqps_kernel::udp::{UdpOptions, UdpSocket};
use kqps_kernel::{affinity, clock};
use kqps_observation::{IdentityViolated, Trial};

use crate::deck::{Deck, Setting};
use crate::io::{Chosen, Signals, Stage};
use crate::live::Live;
use crate::pace::Pace;
use crate::part::Part;
use crate::plan::{BUFFER_BYTES, LoadPlan, Plan};
use crate::record::{self, Heard, Played};
use crate::schedule::Schedule;

/// From the last thread's readiness to the common start.
const LEAD_NS: u64 = 2_000_000;

/// Room that a socket has for outstanding queries at least; small tables stay in the cache.
const CAPACITY_LEAST: usize = 1 << 10;

/// What the caller holds while a trial runs.
#[derive(Clone)]
pub struct Control {
    /// Set it to end the trial early.
    pub stop: Arc<AtomicBool>,
    /// Progress, if anybody looks.
    pub live: Arc<Live>,
}

impl Control {
    /// A control for a plan with so many threads.
    pub fn new(threads: usize) -> Self {
        Self { stop: Arc::default(), live: Arc::new(Live::new(threads)) }
    }
}

/// Why a trial could not be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// No socket could be bound.
    #[error("cannot bind a socket at {address}: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread could not be pinned.
    #[error("cannot pin a thread to core {cpu}: {source}")]
    Pin {
        /// Where.
        cpu: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The I/O that was asked for does not work on this host.
    #[error("--io {io} does not work on this host: {reason}")]
    Io {
        /// What was asked for.
        io: &'static str,
        /// Why not.
        reason: String,
    },
    /// A loop ended on an error that is no single packet's.
    #[error("the player's {io} loop failed: {source}")]
    Loop {
        /// Which.
        io: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The accounts do not add up.
    #[error(transparent)]
    Identity(#[from] IdentityViolated),
}

/// What a thread tells the crew.
enum Told {
    /// It is ready to start: its thread ID.
    Ready(u32),
    /// It sent its last query.
    Sent,
}

/// Plays one trial.
pub fn play(plan: &Plan, dataset: &Dataset, control: &Control) -> Result<Trial, PlayError> {
    let chosen = Chosen::choose(plan)?;
    let mut sockets = bind(plan, chosen)?;
    let per_thread = sockets.len().div_ceil(plan.threads);
    let (start, watched_to_the_end) = (OnceLock::new(), OnceLock::new());
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..plan.threads {
            let own: Vec<UdpSocket> = sockets.drain(..per_thread.min(sockets.len())).collect();
            let (tell, start, over) = (tell.clone(), &start, &watched_to_the_end);
            let play = move || {
                let heard = one_thread(plan, dataset, control, chosen, number, &own, &tell, start);
                drop(tell);
                // A thread that is gone has no times left to read.
                over.wait();
                heard
            };
            let thread = std::thread::Builder::new()
                .name(format!("player-{number}"))
                .spawn_scoped(scope, play)
                .map_err(PlayError::Thread)?;
            threads.push(thread);
        }
        drop(tell);
        let tids: Vec<u32> = told.iter().take(plan.threads).filter_map(Told::ready).collect();
        let mut cpus = plan.cpus.clone();
        cpus.extend(&plan.subject_cpus);
        let target = Some(plan.target.ip());
        let watched = Watched { subject_pid: plan.subject_pid, target, player_threads: tids, cpus };
        let mut watch = Watch::begin(&watched);
        let started_unix_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let started_monotonic_ns = clock::now_ns() + LEAD_NS;
        start.set(started_monotonic_ns).expect("it is set once");
        // Ends early when a thread failed, whose sender is then gone.
        let _ = told.iter().take(plan.threads).count();
        watch.sending_ended();
        watched_to_the_end.set(()).expect("it is set once");
        let mut heard = Vec::new();
        for thread in threads {
            heard.push(thread.join().expect("a player thread does not panic")?);
        }
        let seen = watch.end();
        let interrupted = control.stop.load(Relaxed);
        let played =
            Played { plan, dataset, chosen, heard, seen, started_unix_ms, started_monotonic_ns, interrupted };
        let trial = record::trial(played);
        trial.accounts.check()?;
        Ok(trial)
    })
}

impl Told {
    fn ready(self) -> Option<u32> {
        match self {
            Self::Ready(tid) => Some(tid),
            Self::Sent => None,
        }
    }
}

#[allow(clippy::too_many_arguments)] // one call, of a thread's whole world
fn one_thread(
    plan: &Plan,
    dataset: &Dataset,
    control: &Control,
    chosen: Chosen,
    number: usize,
    sockets: &[UdpSocket],
    tell: &mpsc::Sender<Told>,
    start: &OnceLock<u64>,
) -> Result<Heard, PlayError> {
    let pinned = match plan.cpus.get(number % plan.cpus.len().max(1)) {
        Some(&cpu) => affinity::pin_thread(cpu).map_err(|source| PlayError::Pin { cpu, source }),
        None => Ok(()),
    };
    // Without it the kernel wakes a sleeper up to 50 µs late; that it was refused shows as lag.
    let _ = clock::set_timer_slack_ns(1);
    let deck = Deck::new(setting(plan, dataset, control, number, sockets.len()));
    let told_ready = Cell::new(false);
    let ready = || {
        told_ready.set(true);
        let _ = tell.send(Told::Ready(affinity::thread_id()));
        *start.wait()
    };
    let all_sent = || drop(tell.send(Told::Sent));
    let signals = Signals { ready: &ready, stop: &control.stop, all_sent: &all_sent };
    let mut stage = Stage::new(plan, sockets, deck, signals);
    let played = pinned.and_then(|()| {
        chosen.play(&mut stage).map_err(|source| PlayError::Loop { io: chosen.name(), source })
    });
    if !told_ready.get() {
        // It failed before the start, for which the others wait.
        let _ = tell.send(Told::Ready(affinity::thread_id()));
    }
    played?;
    let Stage { deck, fallbacks, .. } = stage;
    let drops = sockets.iter().map(|socket| socket.drops().unwrap_or(0)).sum();
    let (played_ns, ended_ns) = (deck.played_ns(), deck.now_ns());
    let drain_ns = ended_ns.saturating_sub(played_ns);
    Ok(Heard { tally: deck.tally, played_ns, drain_ns, drops, fallbacks })
}

/// One thread's share of the plan.
fn setting<'a>(
    plan: &Plan,
    dataset: &'a Dataset,
    control: &'a Control,
    number: usize,
    sockets: usize,
) -> Setting<'a> {
    let threads = plan.threads;
    let pace = match plan.load {
        LoadPlan::Open { rate_qps, arrivals } => {
            let schedule = Schedule::new(rate_qps, threads, number, arrivals, plan.seed);
            Pace::Open { schedule, coalesce_ns: plan.coalesce.as_nanos() as u64 }
        }
        LoadPlan::Closed { outstanding } => Pace::Closed { window: share(outstanding, threads, number) },
    };
    let settle = plan.timeout + plan.drain;
    Setting {
        dataset,
        part: Part::new(dataset, threads, number, plan.stop.passes),
        pace,
        stop_at_ns: plan.stop.after.map_or(u64::MAX, |after| after.as_nanos() as u64),
        timeout_ns: plan.timeout.as_nanos() as u64,
        settle_ns: settle.as_nanos() as u64,
        lag_allowed_ns: plan.lag_allowed.as_nanos() as u64,
        capacity: capacity(plan.load, plan.timeout, settle, threads * sockets),
        sockets,
        live: control.live.thread(number),
    }
}

/// Thread `number`'s part of `whole`, so that the parts add up.
fn share(whole: u64, threads: usize, number: usize) -> u64 {
    let upto = |thread: usize| whole * thread as u64 / threads as u64;
    upto(number + 1) - upto(number)
}

/// Slots of each socket: enough for what leaves through it until fates are settled, if nothing is answered.
fn capacity(load: LoadPlan, timeout: Duration, settle: Duration, sockets: usize) -> usize {
    let unsettled = match load {
        LoadPlan::Open { rate_qps, .. } => rate_qps * settle.as_secs_f64(),
        // The window is refilled once a timeout.
        LoadPlan::Closed { outstanding } => {
            outstanding as f64 * (settle.as_secs_f64() / timeout.as_secs_f64()).ceil()
        }
    };
    let needed = (1.25 * unsettled / sockets as f64) as usize;
    needed.clamp(CAPACITY_LEAST, 1 << 16).next_power_of_two()
}

/// Binds all sockets of all threads.
fn bind(plan: &Plan, chosen: Chosen) -> Result<Vec<UdpSocket>, PlayError> {
    let unspecified: IpAddr =
        if plan.target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let address = plan.local_address.unwrap_or(unspecified);
    let buffer = Some(plan.buffer_bytes.unwrap_or(BUFFER_BYTES));
    let options = UdpOptions {
        recv_buffer: buffer,
        send_buffer: buffer,
        timestamps: true,
        nonblocking: true,
        gro: chosen == Chosen::Gso,
        ..UdpOptions::default()
    };
    (0..plan.sockets.max(plan.threads))
        .map(|number| {
            let port = plan.local_port.map_or(0, |first| first.wrapping_add(number as u16));
            let address = SocketAddr::new(address, port);
            UdpSocket::bind(address, &options).map_err(|source| PlayError::Bind { address, source })
        })
        .collect()
}
