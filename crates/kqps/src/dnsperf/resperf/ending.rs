//! Early ends of a test: too many outstanding or late queries, or the user.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use kqps_catalogue::course::Course;
use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_player::Live;

use super::command::Command;

/// The time between two looks at the counts. At 100,000 queries a second, 100 are sent meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Why the sending ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As many queries were outstanding as `-q` allows.
    Outstanding,
    /// As many queries were late as `-F` allows.
    FellBehind,
    /// A signal of the user.
    Asked,
}

/// A running test, and what may end it.
#[derive(Clone, Copy)]
pub(super) struct Watched<'a> {
    pub(super) command: &'a Command,
    pub(super) course: &'a Course,
    /// Ends the sending.
    pub(super) stop: &'a Interrupts,
    /// Requests of the user by signals.
    pub(super) interrupts: &'a Interrupts,
    pub(super) live: &'a Live,
}

impl Watched<'_> {
    /// Runs `trial`, and watches it meanwhile. Returns its result, and what ended the sending early.
    pub(super) fn during<T>(&self, trial: impl FnOnce() -> T) -> (T, Option<Ending>) {
        let (over, is_over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let watching = scope.spawn(move || self.watch(&is_over));
            let outcome = trial();
            drop(over);
            (outcome, watching.join().unwrap_or_default())
        })
    }

    fn watch(&self, is_over: &Receiver<()>) -> Option<Ending> {
        let (mut ending, mut ramps, mut sends) = (None, !self.command.ramp.is_zero(), true);
        while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            let Some(began_ns) = self.live.began_ns() else { continue };
            let elapsed_s = clock::now_ns().saturating_sub(began_ns) as f64 / 1e9;
            if sends && self.live.has_sent_all() {
                sends = false;
                println!("[Status] Waiting for more responses");
            }
            if ending == Some(Ending::Asked) {
                continue;
            }
            if self.interrupts.is_asked() {
                ending = Some(Ending::Asked);
                self.stop.ask();
                self.stop.ask();
            }
            if !sends || ending.is_some() {
                continue;
            }
            if ramps && elapsed_s > self.command.ramp.as_secs_f64() && !self.command.constant.is_zero() {
                ramps = false;
                println!("[Status] Ramp-up done, sending constant traffic");
            }
            ending = self.reached(elapsed_s);
            if ending.is_some() {
                self.stop.ask();
            }
        }
        ending
    }

    /// The cause that ends the sending at this time; `None` if nothing does.
    fn reached(&self, elapsed_s: f64) -> Option<Ending> {
        let max_qps = self.command.max_qps as f64;
        let due = self.course.count_until(elapsed_s) * max_qps;
        let now = self.live.snapshot();
        let behind = (due as u64).saturating_sub(now.sent + LATE_BY_LOOKING);
        if self.command.fall_behind.is_some_and(|most| behind > most) {
            let rate_qps = self.course.rate_at(elapsed_s) * max_qps;
            println!("[Status] Fell behind by {behind} queries, ending test at {rate_qps:.0} qps");
            return Some(Ending::FellBehind);
        }
        let outstanding = now.sent.saturating_sub(now.correct + now.bad);
        if outstanding >= self.command.base.outstanding {
            println!("[Status] Reached {} outstanding queries", self.command.base.outstanding);
            return Some(Ending::Outstanding);
        }
        None
    }
}

/// Queries that the counts may lag behind the player's own.
const LATE_BY_LOOKING: u64 = 64;
