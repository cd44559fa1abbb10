//! Plays a trial: binds the sockets, starts the threads together, watches both sides while the threads send, and
//! joins the threads' counts into one record.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::Scope;

use kqps_dataset::Dataset;
use kqps_host::watch::{PlayerWatched, TrialWatch, begin_at};
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::xdp::XdpSocket;
use kqps_kernel::{affinity, clock, idle};
use kqps_observation::trial::Transport;
use kqps_observation::{Ledger, Trial};

use crate::books::{Books, Times};
use crate::class::Class;
use crate::clock::TrialClock;
use crate::error::PlayError;
use crate::files;
use crate::hostile;
use crate::inflight::Inflight;
use crate::live::Live;
use crate::pace::{Limit, Pace};
use crate::per_query::PerQuery;
use crate::plan::{LoadPlan, Plan};
use crate::record::{self, FinishedTrial, ThreadResult};
use crate::replay::cursor::Cursor;
use crate::reports::Reports;
use crate::schedule::Schedule;
use crate::share::{capacity, share_of};
use crate::start::{Start, WATCHED_NS};
use crate::state::ThreadState;
use crate::supply::Supply;
use crate::team::{Team, teams};
use crate::thread::{Signals, TICK_NS};
use crate::walk::{self, Walk};
use crate::wire::{Opened, Part, xdp};

/// The caller's handle on a running trial.
#[derive(Clone)]
pub struct Control {
    /// Ends the trial early. After the first request, the player still waits for outstanding replies. After the
    /// second, outstanding queries are lost.
    pub stop: Interrupts,
    /// Counts for a progress bar.
    pub live: Arc<Live>,
    /// Where the fates of single queries are reported; `None` for nowhere.
    pub reports: Option<Reports>,
}

impl Control {
    /// A control for a plan with `threads` threads.
    pub fn new(threads: usize) -> Self {
        Self { stop: Interrupts::default(), live: Arc::new(Live::new(threads)), reports: None }
    }
}

/// Report of a thread to the main thread. Each thread reports twice: that it is ready or gone, and that its load
/// ended.
enum ThreadEvent {
    /// The thread is ready to start; its thread ID.
    Ready(u32),
    /// The thread ended before it was ready.
    Gone,
    /// The thread's load ended.
    LoadEnded,
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

/// A class with its teams, and the number of its first thread among those of all classes.
struct OpenedClass<'a> {
    class: Class<'a>,
    teams: Vec<Team>,
    first: usize,
    /// The I/O models of its wires, and what could not be met as asked.
    io: String,
    notes: Vec<String>,
    /// Whether its threads wake before those of other classes, with which they share a core.
    runs_first: bool,
}

/// The parts of a trial that the threads of a class share.
#[derive(Clone, Copy)]
struct TrialContext<'a> {
    opened: &'a OpenedClass<'a>,
    control: &'a Control,
    gate: &'a StartGate,
}

/// Returns what to watch of the player while the threads with these IDs play.
fn watched(classes: &[OpenedClass<'_>], threads: Vec<u32>) -> PlayerWatched {
    let plans = || classes.iter().map(|opened| opened.class.plan);
    let mut cpus: Vec<u32> = Vec::new();
    // A class that is not pinned may run on any core.
    if plans().all(|plan| !plan.cpus.is_empty()) {
        for &cpu in plans().flat_map(|plan| &plan.cpus) {
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
    }
    PlayerWatched { threads, cpus, drop_reasons: plans().any(|plan| plan.drop_reasons) }
}

/// Plays one trial, and returns its record. `watch` begins to watch both sides when the threads are ready. If the plan
/// gives a start, the watch begins shortly before that. `watch` is then called up to three times, since the first calls
/// show how long it takes.
pub fn play<W: TrialWatch>(
    plan: &Plan,
    dataset: &Dataset,
    control: &Control,
    watch: impl Fn(&PlayerWatched) -> W,
) -> Result<Trial, PlayError> {
    play_classes(&[Class { plan, dataset }], control, watch).map(Together::only)
}

/// Plays classes of clients at the same time, each by threads of its own, and returns the record of each. They begin
/// together, at the start of the first one's plan. The threads of `control` are those of all classes in their order.
pub fn play_classes<W: TrialWatch>(
    classes: &[Class<'_>],
    control: &Control,
    watch: impl Fn(&PlayerWatched) -> W,
) -> Result<Together, PlayError> {
    let (mut opened, mut wires, mut sockets) = (Vec::new(), Vec::new(), 0);
    for &class in classes {
        class.plan.check_against(class.dataset)?;
        let teams = teams(class.plan, class.dataset);
        let of_class = teams.iter().map(Opened::open).collect::<Result<Vec<Opened>, PlayError>>()?;
        sockets += of_class.iter().zip(&teams).map(|(wire, team)| wire.sockets(team)).sum::<usize>();
        opened.push((class, teams));
        wires.push(of_class);
    }
    if wires.iter().map(Vec::len).sum::<usize>() > 1 {
        files::check(classes[0].plan, sockets)?;
    }
    play_over(opened, wires, control, watch)
}

/// The records of classes that were played at the same time.
#[derive(Clone, Debug)]
pub struct Together {
    /// The record of each class, in their order. The ledgers of several are empty: a counter of the host counts
    /// packets of all.
    pub classes: Vec<Trial>,
    /// Where packets of all classes were lost; empty of a single class, whose record has it.
    pub ledger: Ledger,
}

impl Together {
    /// The record of a trial with a single class.
    fn only(mut self) -> Trial {
        self.classes.pop().expect("a class has a record")
    }
}

/// Plays one trial of UDP past the kernel, through sockets of [`kqps_kernel::xdp::memory`], which its threads get in
/// turn: at least one for each. No packet leaves the program, so the trial shows what the player costs by itself. A
/// capture cannot be replayed so.
pub fn play_in_memory<W: TrialWatch>(
    plan: &Plan,
    dataset: &Dataset,
    control: &Control,
    sockets: Vec<XdpSocket>,
    watch: impl Fn(&PlayerWatched) -> W,
) -> Result<Trial, PlayError> {
    plan.check_against(dataset)?;
    let wires = vec![Opened::in_memory(plan, sockets)?];
    let opened = (Class { plan, dataset }, teams(plan, dataset));
    play_over(vec![opened], vec![wires], control, watch).map(Together::only)
}

/// Plays classes over wires that were opened for their teams.
fn play_over<W: TrialWatch>(
    classes: Vec<(Class<'_>, Vec<Team>)>,
    wires: Vec<Vec<Opened>>,
    control: &Control,
    watch: impl Fn(&PlayerWatched) -> W,
) -> Result<Together, PlayError> {
    let mut first = 0;
    let shares_core = classes[1..].iter().any(|(other, _)| classes[0].0.may_share_a_core_with(other));
    let open = |((class, teams), wires): ((_, Vec<Team>), &Vec<Opened>)| {
        let class: Class<'_> = class;
        let (io, notes) = (io_of(wires), wires.iter().flat_map(Opened::notes).collect());
        let opened = OpenedClass { class, teams, first, io, notes, runs_first: shares_core && first == 0 };
        first += class.plan.threads;
        opened
    };
    let classes: Vec<OpenedClass<'_>> = classes.into_iter().zip(&wires).map(open).collect();
    let (of_all, start_at_ns) = (first, classes[0].class.plan.start_at_ns);
    let gate = StartGate::default();
    let is_alone = classes.iter().any(|opened| opened.class.plan.has_own_cores());
    let awake = if is_alone { idle::stay_awake().ok() } else { None };
    let (sender, events) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (opened, wires) in classes.iter().zip(wires) {
            let context = TrialContext { opened, control, gate: &gate };
            start(scope, context, wires, &sender, &mut threads)?;
        }
        let tids: Vec<u32> = events.iter().take(of_all).filter_map(ThreadEvent::ready_thread).collect();
        if tids.len() < of_all {
            gate.call_off();
            // The error of one thread gives the reason.
            joined(&mut threads)?;
        }
        let watched = watched(&classes, tids);
        let begin = || watch(&watched);
        let mut watch = match start_at_ns {
            // A reading that is over too late makes the start late, which is recorded.
            Some(at_ns) => begin_at(at_ns.saturating_sub(WATCHED_NS), &control.stop, begin),
            None => begin(),
        };
        let start = Start::new(start_at_ns, &control.stop);
        gate.open(Some(start.monotonic_ns));
        control.live.begin(start.monotonic_ns);
        let _ = events.iter().take(of_all).count();
        control.live.load_ended();
        watch.sending_ended();
        gate.let_end();
        let mut results = joined(&mut threads)?;
        control.live.end();
        xdp::check(results.iter().filter_map(|result| result.past.as_ref()))?;
        let watch_result = watch.end();
        let is_single = classes.len() == 1;
        let plans: Vec<&Plan> = classes.iter().map(|opened| opened.class.plan).collect();
        let ledger =
            if is_single { Ledger::default() } else { record::ledger_of(&plans, &results, &watch_result) };
        let recorded = |opened: &OpenedClass<'_>| {
            let Class { plan, dataset } = opened.class;
            let rest = results.split_off(plan.threads.min(results.len()));
            let finished = FinishedTrial {
                plan,
                teams: &opened.teams,
                dataset,
                io: opened.io.clone(),
                results: std::mem::replace(&mut results, rest),
                watch_result: watch_result.clone(),
                started_unix_ms: start.unix_ms,
                started_monotonic_ns: start.monotonic_ns,
                late_start_ns: start.late_ns,
                interrupted: control.stop.is_asked(),
                cores_awake: awake.is_some(),
                is_single,
                notes: opened.notes.clone(),
            };
            finished.check_connections()?;
            let trial = record::trial(finished);
            trial.accounts.check()?;
            Ok(trial)
        };
        let classes = classes.iter().map(recorded).collect::<Result<_, PlayError>>()?;
        Ok(Together { classes, ledger })
    })
}

type Thread<'scope> = std::thread::ScopedJoinHandle<'scope, Result<Option<ThreadResult>, PlayError>>;

/// The I/O models of these wires, each once.
fn io_of(wires: &[Opened]) -> String {
    let mut names: Vec<&str> = wires.iter().map(Opened::io).collect();
    names.dedup();
    names.join("+")
}

/// Starts the threads of a class and distributes the wires among them. If a thread cannot be started, the trial is
/// called off.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    context: TrialContext<'scope>,
    wires: Vec<Opened>,
    sender: &mpsc::Sender<ThreadEvent>,
    threads: &mut Vec<Thread<'scope>>,
) -> Result<(), PlayError> {
    let TrialContext { opened, gate, .. } = context;
    for (team, mut wire) in opened.teams.iter().zip(wires) {
        for number in team.threads.clone() {
            let mut part = wire.part(team, number - team.threads.start);
            let guard = ThreadGuard::new(sender.clone(), &gate.broken);
            let play = move || {
                let result = one_thread(context, (team, number), &mut part, guard);
                // The main thread must read this thread's CPU time before it ends.
                gate.watched.wait();
                result
            };
            let thread = std::thread::Builder::new().name(format!("player-{}", opened.first + number));
            match thread.spawn_scoped(scope, play) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gate.call_off();
                    return Err(PlayError::Thread(error));
                }
            }
        }
    }
    Ok(())
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
            Self::Gone | Self::LoadEnded => None,
        }
    }
}

/// Sends a thread's events to the main thread. If the thread fails or panics, dropping this value sends the missing
/// events, so the main thread does not wait forever, and marks the trial as broken.
struct ThreadGuard<'a> {
    sender: mpsc::Sender<ThreadEvent>,
    broken: &'a AtomicBool,
    ready: Cell<bool>,
    load_ended: Cell<bool>,
    done: Cell<bool>,
}

impl<'a> ThreadGuard<'a> {
    fn new(sender: mpsc::Sender<ThreadEvent>, broken: &'a AtomicBool) -> Self {
        Self { sender, broken, ready: Cell::new(false), load_ended: Cell::new(false), done: Cell::new(false) }
    }

    fn ready(&self) {
        self.ready.set(true);
        let _ = self.sender.send(ThreadEvent::Ready(affinity::thread_id()));
    }

    fn load_ended(&self) {
        self.load_ended.set(true);
        let _ = self.sender.send(ThreadEvent::LoadEnded);
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
        if !self.load_ended.get() {
            let _ = self.sender.send(ThreadEvent::LoadEnded);
        }
    }
}

/// The part of the trial of the thread with this number among all. Returns `None` if the trial was called off.
#[allow(clippy::needless_pass_by_value)] // dropping the guard sends events
fn one_thread(
    context: TrialContext<'_>,
    (team, number): (&Team, usize),
    part: &mut Part,
    guard: ThreadGuard<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let OpenedClass { class: Class { plan, dataset }, first, .. } = *context.opened;
    if let Some(&cpu) = plan.cpus.get(number % plan.cpus.len().max(1)) {
        affinity::pin_thread(cpu).map_err(|error| PlayError::Pin { cpu, error })?;
    }
    // Without this, the kernel wakes a sleeping thread up to 50 µs late. If the kernel refuses it, the delay
    // shows as lag.
    let _ = clock::set_timer_slack_ns(1);
    let live = context.control.live.thread(first + number);
    let ready = || {
        live.thread_begins(affinity::thread_id());
        guard.ready();
        *context.gate.start_ns.wait()
    };
    let load_ended = || guard.load_ended();
    let (stop, broken) = (&context.control.stop, &context.gate.broken);
    let runs_first = context.opened.runs_first;
    let signals = Signals { ready: &ready, stop, broken, load_ended: &load_ended, runs_first };
    let result = match part.attackers() {
        Some(means) => hostile::play((plan, dataset), (means, number), live, signals)?,
        None => part.play(team, state(context, (team, number), part.flows), signals)?,
    };
    live.thread_ends();
    guard.done();
    Ok(result)
}

/// The state of the thread with this number among all, before the start.
fn state<'a>(context: TrialContext<'a>, (team, number): (&'a Team, usize), flows: usize) -> ThreadState<'a> {
    let TrialContext { opened, control, .. } = context;
    let OpenedClass { class: Class { dataset, .. }, first, .. } = *opened;
    let Team { plan, replay, threads } = team;
    let settle = plan.timeout + plan.drain;
    let of_team = number - threads.start;
    let stop_at_ns = plan.stop.after.map_or(u64::MAX, |after| after.as_nanos() as u64);
    let lag_allowed_ns = plan.lag_allowed.as_nanos() as u64;
    let (mut supply, all) = if let Some(replay) = replay {
        let cursor = replay.cursor(dataset, plan, of_team);
        let pace = pace(plan, dataset, of_team, Some(&cursor));
        (Supply::captured(dataset, cursor, pace, stop_at_ns, lag_allowed_ns), replay.flows.all())
    } else {
        let (all, own) = plan.part.thread(plan.threads, of_team);
        let walk = Walk::new(dataset, (all, own), plan.stop.passes, plan.first_query);
        let pace = pace(plan, dataset, of_team, None);
        (Supply::new(dataset, walk, pace, stop_at_ns, lag_allowed_ns), plan.flows())
    };
    let capacity = capacity(plan.load, plan.timeout, settle, all);
    let has_connections = matches!(plan.wire.transport(), Transport::Tcp | Transport::Tls);
    let tables = (0..flows).map(|_| {
        let table = Inflight::new(capacity, fastrand::u16(..));
        if has_connections { table.of_connection() } else { table }
    });
    let times = Times {
        timeout_ns: plan.timeout.as_nanos() as u64,
        settle_ns: settle.as_nanos() as u64,
        tick_ns: TICK_NS,
    };
    let mut books = Books::new(dataset, tables, times, control.live.thread(first + number));
    let per_query = PerQuery::new(&plan.per_query, plan.seed.wrapping_add(number as u64));
    books.expect_labels(per_query.as_ref().and_then(|per_query| per_query.labels()));
    if let Some(moments) = plan.moments {
        books.keep_moments(moments, plan.stop.after);
    }
    books.report_to(control.reports.clone());
    supply.finish_each(per_query);
    if let Some(replay) = replay.as_ref().filter(|replay| replay.follows) {
        books.seat(replay.flows.places_of(of_team));
    }
    ThreadState { clock: TrialClock::unstarted(), supply, books }
}

/// The schedule or window of thread `number` of a team. A capture says when the thread's queries are due.
fn pace(plan: &Plan, dataset: &Dataset, number: usize, capture: Option<&Cursor<'_>>) -> Pace {
    let threads = plan.threads;
    let own_share = |window| {
        let share = share_of(window, threads, number);
        share.end - share.start
    };
    match plan.load {
        LoadPlan::Open { rate_qps, arrivals, window } => {
            let schedule = if let Some(capture) = capture {
                Schedule::given(rate_qps / threads as f64, capture.next_due_ns())
            } else {
                let turn = walk::turn(dataset.queries(), threads, number, plan.stop.passes);
                let (_, first) = plan.part.thread(threads, 0);
                let seed = plan.seed.wrapping_add(first as u64);
                let schedule = Schedule::new(rate_qps, threads, turn, arrivals, seed);
                schedule.along(plan.course.as_ref()).later_by(plan.part.phase())
            };
            let coalesce_ns = plan.coalesce.as_nanos() as u64;
            Pace::Open { schedule, coalesce_ns, leave_ns: None, window: window.map(own_share) }
        }
        LoadPlan::Closed { outstanding } => Pace::Closed { window: own_share(outstanding), limit: None },
        LoadPlan::Limited { outstanding, rate_qps } => {
            let limit = Some(Limit::new(rate_qps / threads as f64));
            Pace::Closed { window: own_share(outstanding), limit }
        }
    }
}
