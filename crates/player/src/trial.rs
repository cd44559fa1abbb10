//! Plays a trial: binds the sockets, starts the threads together, watches both sides while the threads send, and
//! joins the threads' counts into one record.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::Scope;
use std::time::{SystemTime, UNIX_EPOCH};

use kqps_dataset::Dataset;
use kqps_host::watch::{PlayerWatched, TrialWatch};
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::xdp::XdpSocket;
use kqps_kernel::{affinity, clock, idle};
use kqps_observation::Trial;

use crate::books::{Books, Times};
use crate::clock::TrialClock;
use crate::error::PlayError;
use crate::inflight::Inflight;
use crate::live::Live;
use crate::pace::Pace;
use crate::plan::{LoadPlan, Plan};
use crate::record::{self, FinishedTrial, ThreadResult};
use crate::schedule::Schedule;
use crate::share::{capacity, share_of};
use crate::state::ThreadState;
use crate::supply::Supply;
use crate::thread::{Signals, TICK_NS};
use crate::walk::{self, Walk};
use crate::wire::{Opened, Part, xdp};

/// Time between the last thread's readiness and the common start, nanoseconds.
const LEAD_NS: u64 = 2_000_000;

/// The caller's handle on a running trial.
#[derive(Clone)]
pub struct Control {
    /// Ends the trial early. After the first request, the player still waits for outstanding replies. After the
    /// second, outstanding queries are lost.
    pub stop: Interrupts,
    /// Counts for a progress bar.
    pub live: Arc<Live>,
}

impl Control {
    /// A control for a plan with `threads` threads.
    pub fn new(threads: usize) -> Self {
        Self { stop: Interrupts::default(), live: Arc::new(Live::new(threads)) }
    }
}

/// What a thread reports to the main thread. Each thread reports twice: that it is ready or gone, and that it sent
/// its last query.
enum ThreadEvent {
    /// The thread is ready to start; its thread ID.
    Ready(u32),
    /// The thread ended before it was ready.
    Gone,
    Sent,
}

/// The moments at which the main thread lets the threads go on.
#[derive(Default)]
struct StartGate {
    /// The common start on the monotonic clock; `None` if the trial is called off.
    start_ns: OnceLock<Option<u64>>,
    /// The main thread has read the threads' CPU times, so the threads may end.
    watched: OnceLock<()>,
    /// A thread failed. There is no trial, and the other threads end at once.
    broken: AtomicBool,
}

impl StartGate {
    fn open(&self, start_ns: Option<u64>) {
        self.start_ns.set(start_ns).expect("a trial is begun or called off once");
    }

    fn let_end(&self) {
        self.watched.set(()).expect("a trial ends once");
    }

    fn call_off(&self) {
        self.open(None);
        self.let_end();
    }
}

/// What the threads share.
#[derive(Clone, Copy)]
struct TrialContext<'a> {
    plan: &'a Plan,
    dataset: &'a Dataset,
    control: &'a Control,
    gate: &'a StartGate,
}

/// What to watch of the player while the threads with these IDs play.
fn watched(plan: &Plan, threads: Vec<u32>) -> PlayerWatched {
    PlayerWatched { threads, cpus: plan.cpus.clone(), drop_reasons: plan.drop_reasons }
}

/// Plays one trial, and returns its record. `watch` begins to watch both sides when the threads are ready.
pub fn play<W: TrialWatch>(
    plan: &Plan,
    dataset: &Dataset,
    control: &Control,
    watch: impl FnOnce(&PlayerWatched) -> W,
) -> Result<Trial, PlayError> {
    play_over(Opened::open(plan)?, plan, dataset, control, watch)
}

/// Plays one trial of UDP past the kernel, through sockets of [`kqps_kernel::xdp::memory`], one for each thread. No
/// packet leaves the program, so the trial shows what the player costs by itself.
pub fn play_in_memory<W: TrialWatch>(
    plan: &Plan,
    dataset: &Dataset,
    control: &Control,
    sockets: Vec<XdpSocket>,
    watch: impl FnOnce(&PlayerWatched) -> W,
) -> Result<Trial, PlayError> {
    play_over(Opened::in_memory(plan, sockets)?, plan, dataset, control, watch)
}

/// Plays one trial over a wire that was opened for its plan.
fn play_over<W: TrialWatch>(
    wire: Opened,
    plan: &Plan,
    dataset: &Dataset,
    control: &Control,
    watch: impl FnOnce(&PlayerWatched) -> W,
) -> Result<Trial, PlayError> {
    let (io, notes) = (wire.io(), wire.notes());
    let gate = StartGate::default();
    let context = TrialContext { plan, dataset, control, gate: &gate };
    let awake = if plan.has_own_cores() { idle::stay_awake().ok() } else { None };
    let (sender, events) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut threads = start(scope, context, wire, &sender)?;
        let tids: Vec<u32> = events.iter().take(plan.threads).filter_map(ThreadEvent::ready_thread).collect();
        if tids.len() < plan.threads {
            gate.call_off();
            // The error of one thread gives the reason.
            joined(&mut threads)?;
        }
        let mut watch = watch(&watched(plan, tids));
        let started_unix_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let started_monotonic_ns = clock::now_ns() + LEAD_NS;
        gate.open(Some(started_monotonic_ns));
        let _ = events.iter().take(plan.threads).count();
        watch.sending_ended();
        gate.let_end();
        let results = joined(&mut threads)?;
        xdp::check(results.iter().filter_map(|result| result.past.as_ref()))?;
        let watch_result = watch.end();
        let interrupted = control.stop.is_asked();
        let finished = FinishedTrial {
            plan,
            dataset,
            io,
            results,
            watch_result,
            started_unix_ms,
            started_monotonic_ns,
            interrupted,
            cores_awake: awake.is_some(),
            notes,
        };
        let trial = record::trial(finished);
        trial.accounts.check()?;
        trial.connections.as_ref().map_or(Ok(()), |connections| connections.check(&trial.accounts))?;
        Ok(trial)
    })
}

type Thread<'scope> = std::thread::ScopedJoinHandle<'scope, Result<Option<ThreadResult>, PlayError>>;

/// Starts the threads and distributes the wire among them. If a thread cannot be started, the trial is called
/// off.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    context: TrialContext<'scope>,
    mut wire: Opened,
    sender: &mpsc::Sender<ThreadEvent>,
) -> Result<Vec<Thread<'scope>>, PlayError> {
    let TrialContext { plan, gate, .. } = context;
    let mut threads = Vec::new();
    for number in 0..plan.threads {
        let mut part = wire.part(plan, number);
        let guard = ThreadGuard::new(sender.clone(), &gate.broken);
        let play = move || {
            let result = one_thread(context, number, &mut part, guard);
            // The main thread must read this thread's CPU time before it ends.
            gate.watched.wait();
            result
        };
        let thread = std::thread::Builder::new().name(format!("player-{number}"));
        match thread.spawn_scoped(scope, play) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                gate.call_off();
                return Err(PlayError::Thread(error));
            }
        }
    }
    Ok(threads)
}

/// The results of all threads, or the first error.
fn joined(threads: &mut Vec<Thread<'_>>) -> Result<Vec<ThreadResult>, PlayError> {
    let ended: Vec<_> =
        threads.drain(..).map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect();
    ended.into_iter().filter_map(Result::transpose).collect()
}

impl ThreadEvent {
    /// The ID of a thread that is ready.
    fn ready_thread(self) -> Option<u32> {
        match self {
            Self::Ready(tid) => Some(tid),
            Self::Gone | Self::Sent => None,
        }
    }
}

/// Sends a thread's events to the main thread. If the thread fails or panics, dropping this value sends the missing
/// events, so the main thread does not wait forever, and marks the trial as broken.
struct ThreadGuard<'a> {
    sender: mpsc::Sender<ThreadEvent>,
    broken: &'a AtomicBool,
    ready: Cell<bool>,
    sent: Cell<bool>,
    done: Cell<bool>,
}

impl<'a> ThreadGuard<'a> {
    fn new(sender: mpsc::Sender<ThreadEvent>, broken: &'a AtomicBool) -> Self {
        Self { sender, broken, ready: Cell::new(false), sent: Cell::new(false), done: Cell::new(false) }
    }

    fn ready(&self) {
        self.ready.set(true);
        let _ = self.sender.send(ThreadEvent::Ready(affinity::thread_id()));
    }

    fn sent(&self) {
        self.sent.set(true);
        let _ = self.sender.send(ThreadEvent::Sent);
    }

    /// Marks the thread's part as complete.
    fn done(&self) {
        self.done.set(true);
    }
}

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        if !self.done.get() {
            self.broken.store(true, Relaxed);
        }
        // The main thread holds the receiver for as long as it waits for an event.
        if !self.ready.get() {
            let _ = self.sender.send(ThreadEvent::Gone);
        }
        if !self.sent.get() {
            let _ = self.sender.send(ThreadEvent::Sent);
        }
    }
}

/// One thread's part of the trial. Returns `None` if the trial was called off.
#[allow(clippy::needless_pass_by_value)] // dropping the guard sends events
fn one_thread(
    context: TrialContext<'_>,
    number: usize,
    part: &mut Part,
    guard: ThreadGuard<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let plan = context.plan;
    if let Some(&cpu) = plan.cpus.get(number % plan.cpus.len().max(1)) {
        affinity::pin_thread(cpu).map_err(|error| PlayError::Pin { cpu, error })?;
    }
    // Without this, the kernel wakes a sleeping thread up to 50 µs late. If the kernel refuses it, the delay
    // shows as lag.
    let _ = clock::set_timer_slack_ns(1);
    let state = state(context, number, part.flows);
    let ready = || {
        guard.ready();
        *context.gate.start_ns.wait()
    };
    let all_sent = || guard.sent();
    let (stop, broken) = (&context.control.stop, &context.gate.broken);
    let signals = Signals { ready: &ready, stop, broken, all_sent: &all_sent };
    let result = part.play(plan, state, signals)?;
    guard.done();
    Ok(result)
}

/// The state of thread `number`, before the start.
fn state(context: TrialContext<'_>, number: usize, flows: usize) -> ThreadState<'_> {
    let TrialContext { plan, dataset, control, .. } = context;
    let settle = plan.timeout + plan.drain;
    let walk = Walk::new(dataset, plan.threads, number, plan.stop.passes);
    let stop_at_ns = plan.stop.after.map_or(u64::MAX, |after| after.as_nanos() as u64);
    let lag_allowed_ns = plan.lag_allowed.as_nanos() as u64;
    let supply = Supply::new(dataset, walk, pace(context, number), stop_at_ns, lag_allowed_ns);
    let capacity = capacity(plan.load, plan.timeout, settle, plan.flows());
    let tables = (0..flows).map(|_| Inflight::new(capacity, fastrand::u16(..)));
    let times = Times {
        timeout_ns: plan.timeout.as_nanos() as u64,
        settle_ns: settle.as_nanos() as u64,
        tick_ns: TICK_NS,
    };
    let books = Books::new(dataset, tables, times, control.live.thread(number));
    ThreadState { clock: TrialClock::unstarted(), supply, books }
}

/// The schedule or window of thread `number`.
fn pace(context: TrialContext<'_>, number: usize) -> Pace {
    let TrialContext { plan, dataset, .. } = context;
    let threads = plan.threads;
    let own_share = |window| {
        let share = share_of(window, threads, number);
        share.end - share.start
    };
    match plan.load {
        LoadPlan::Open { rate_qps, arrivals, window } => {
            let turn = walk::turn(dataset.queries(), threads, number, plan.stop.passes);
            let schedule = Schedule::new(rate_qps, threads, turn, arrivals, plan.seed);
            let coalesce_ns = plan.coalesce.as_nanos() as u64;
            Pace::Open { schedule, coalesce_ns, leave_ns: None, window: window.map(own_share) }
        }
        LoadPlan::Closed { outstanding } => Pace::Closed { window: own_share(outstanding) },
    }
}
