//! Signals that ask kqps to end, for every command; only the servers of `kqps serve` read theirs themselves.
//!
//! A thread waits for SIGINT, SIGTERM and SIGHUP. While a command prepares something, a signal ends the program at once.
//! Once it measures ([`in_order`]), the first signal ends what is under way early, the second ends it at once, and the
//! third ends the program. However it ends, the status is 128 and the number of the first signal, and nothing
//! unfinished is left.

use std::io;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use kqps_dataset::unfinished;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::signal::ignores_hang_ups;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The signal from which on the program does not wait for what is under way.
const LAST: u32 = 3;

/// The signals that this program has received.
struct Received {
    interrupts: Interrupts,
    /// The number of the first one; 0 before it.
    first: AtomicI32,
    /// Whether a command ends in order.
    in_order: AtomicBool,
    /// The program is about to end, whatever else it does.
    is_ending: AtomicBool,
}

static RECEIVED: OnceLock<Received> = OnceLock::new();

fn received() -> &'static Received {
    RECEIVED.get_or_init(|| Received {
        interrupts: Interrupts::default(),
        first: AtomicI32::new(0),
        in_order: AtomicBool::new(false),
        is_ending: AtomicBool::new(false),
    })
}

/// Takes these signals from now on. A program that was started by nohup(1) goes on without its terminal.
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
    let _ = received.first.compare_exchange(0, number, SeqCst, SeqCst);
    if received.interrupts.ask() < LAST && received.in_order.load(SeqCst) {
        return;
    }
    received.is_ending.store(true, SeqCst);
    unfinished::remove_all();
    eprintln!("kqps: ended by {}", name(number));
    std::process::exit(status_of(received.first.load(SeqCst)).into());
}

/// From now on signals end in order what the command does, to the last word that it prints; it sees here how often it
/// was asked to end.
pub(crate) fn in_order() -> &'static Interrupts {
    received().in_order.store(true, SeqCst);
    &received().interrupts
}

/// From now on a signal ends the program at once again.
pub(crate) fn at_once() {
    received().in_order.store(false, SeqCst);
}

/// What a command ends with that received a signal. Where the program is about to end anyway, this does not return, so
/// that nobody reads what failed for want of the files that are being removed.
pub(crate) fn status() -> Option<ExitCode> {
    let received = received();
    while received.is_ending.load(SeqCst) {
        std::thread::park();
    }
    let first = received.first.load(SeqCst);
    (first != 0).then(|| ExitCode::from(status_of(first)))
}

/// The status of a program that a signal ended, as shells have it.
pub(crate) fn status_of(number: i32) -> u8 {
    128 + number as u8
}

fn name(number: i32) -> &'static str {
    signal_hook::low_level::signal_name(number).unwrap_or("a signal")
}
