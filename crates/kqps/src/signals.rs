//! Signals that ask kqps to end, for every command except the servers of `kqps serve`, which handle signals
//! themselves.
//!
//! A thread waits for SIGINT, SIGTERM and SIGHUP. While a command prepares its work, a signal ends the
//! program at once. Once the command measures ([`in_order`]), the first signal ends the measurement early,
//! the second ends it at once, and the third ends the program. In each case the exit status is 128 plus the
//! number of the first signal, and no unfinished file is left.

use std::io;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use kqps_files::unfinished;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process::{Signal, signal};
use kqps_kernel::signal::ignores_hang_ups;
use kqps_live::tui;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::print;

/// The number of the signal that ends the program at once, even during a measurement.
const LAST: u32 = 3;

/// How long the last words may take.
const SAYING_MOST: Duration = Duration::from_secs(1);

/// How often it is looked whether they are said.
const SAYING_LOOK: Duration = Duration::from_millis(1);

/// The signals that this program has received.
struct Received {
    interrupts: Interrupts,
    /// The number of the first signal; 0 before it.
    first: AtomicI32,
    /// Whether the command ends a measurement in order.
    in_order: AtomicBool,
    /// The process that gets them as well; 0 for none.
    child: AtomicU32,
    /// Whether all is measured, and kqps only serves what it has.
    lingers: AtomicBool,
    /// Whether the program is about to exit, whatever its other threads do.
    is_ending: AtomicBool,
}

static RECEIVED: OnceLock<Received> = OnceLock::new();

/// The function that is called when the user asks to end.
static ON_ASKING: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

fn received() -> &'static Received {
    RECEIVED.get_or_init(|| Received {
        interrupts: Interrupts::default(),
        first: AtomicI32::new(0),
        in_order: AtomicBool::new(false),
        child: AtomicU32::new(0),
        lingers: AtomicBool::new(false),
        is_ending: AtomicBool::new(false),
    })
}

/// Handles these signals from now on. Under nohup(1), SIGHUP stays ignored.
pub(crate) fn watch() -> io::Result<()> {
    let mut numbers = vec![SIGINT, SIGTERM];
    if !ignores_hang_ups()? {
        numbers.push(SIGHUP);
    }
    let mut signals = Signals::new(numbers)?;
    let waiting = move || signals.forever().for_each(receive);
    std::thread::Builder::new().name("signals".into()).spawn(waiting)?;
    Ok(())
}

fn receive(number: i32) {
    let received = received();
    if let Some(react) = ON_ASKING.get() {
        react();
    }
    if received.lingers.load(SeqCst) && received.interrupts.count() + 1 < LAST {
        received.interrupts.ask();
        return;
    }
    let _ = received.first.compare_exchange(0, number, SeqCst, SeqCst);
    pass(number);
    if received.interrupts.ask() < LAST && received.in_order.load(SeqCst) {
        return;
    }
    received.is_ending.store(true, SeqCst);
    unfinished::remove_all();
    tui::restore();
    let saying = std::thread::Builder::new().spawn(move || {
        print::release();
        eprintln!("kqps: ended by {}", name(number));
    });
    // A terminal that takes no bytes does not keep the program.
    let deadline = Instant::now() + SAYING_MOST;
    while saying.as_ref().is_ok_and(|saying| !saying.is_finished()) && Instant::now() < deadline {
        std::thread::sleep(SAYING_LOOK);
    }
    std::process::exit(status_of(received.first.load(SeqCst)).into());
}

/// All is measured: from now on, a signal ends only the lingering, and the exit status is that of the measurement. Returns
/// how often the user has asked to end so far.
pub(crate) fn linger() -> u32 {
    received().lingers.store(true, SeqCst);
    count()
}

/// From now on, signals end the command's measurement in order, up to its last output. Returns the count of
/// signals, which the command polls.
pub(crate) fn in_order() -> &'static Interrupts {
    received().in_order.store(true, SeqCst);
    &received().interrupts
}

/// From now on, `react` is called whenever the user asks to end. A second call of this function changes nothing.
pub(crate) fn on_asking(react: impl Fn() + Send + Sync + 'static) {
    let _ = ON_ASKING.set(Box::new(react));
}

/// Does what SIGINT does: the user has asked by a key.
pub(crate) fn interrupt() {
    receive(SIGINT);
}

/// How often the user has asked to end so far.
pub(crate) fn count() -> u32 {
    received().interrupts.count()
}

/// From now on, a process gets SIGTERM and SIGHUP that this process receives, also one that has come already. It gets
/// SIGINT from the terminal by itself.
pub(crate) fn pass_to(child: Option<u32>) {
    let received = received();
    received.child.store(child.unwrap_or(0), SeqCst);
    pass(received.first.load(SeqCst));
}

fn pass(number: i32) {
    let to_pass = match number {
        SIGTERM => Signal::Terminate,
        SIGHUP => Signal::HangUp,
        _ => return,
    };
    let child = received().child.load(SeqCst);
    if child != 0 {
        // It may have ended.
        let _ = signal(child, to_pass);
    }
}

pub(crate) fn at_once() {
    received().in_order.store(false, SeqCst);
}

/// The exit status of a command that received a signal, or `None`. If the program is about to exit anyway,
/// this does not return: errors that only the removal of unfinished files caused must not be printed.
pub(crate) fn status() -> Option<ExitCode> {
    let received = received();
    while received.is_ending.load(SeqCst) {
        std::thread::park();
    }
    let first = received.first.load(SeqCst);
    (first != 0).then(|| ExitCode::from(status_of(first)))
}

/// The number of SIGINT.
pub(crate) const INTERRUPT: i32 = SIGINT;

/// The number of the first signal that came; `None` before it. Like [`status`], this does not return if the program is
/// about to exit.
pub(crate) fn first() -> Option<i32> {
    status().map(|_| received().first.load(SeqCst))
}

/// The exit status of a program that a signal ended, by the convention of shells.
pub(crate) fn status_of(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(u8::MAX)
}

fn name(number: i32) -> &'static str {
    signal_hook::low_level::signal_name(number).unwrap_or("a signal")
}
