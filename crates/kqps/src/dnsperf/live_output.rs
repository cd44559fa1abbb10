//! Output while the queries are played: a line for each query, and statistics at intervals.

use std::fmt::Write as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_player::Live;
use kqps_player::live::Snapshot;
use kqps_player::reports::{Fate, Report};

use super::command::Command;
use super::json;
use super::log::unix_s;
use super::queries::QueryText;
use super::statistics::{self, Counts, rcode_name};

/// The longest time between two looks for a signal, or for the beginning of the run.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Reports that are printed together at most.
const TOGETHER_MOST: usize = 4096;

/// The output beside a run, with its sources and the user's signals.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    pub(super) command: &'a Command,
    /// Ends the trial.
    pub(super) stop: &'a Interrupts,
    /// Requests of the user by signals.
    pub(super) interrupts: &'a Interrupts,
    pub(super) live: &'a Live,
    pub(super) text: QueryText<'a>,
}

/// The intervals of a run.
struct Intervals {
    /// On the monotonic clock.
    began_ns: u64,
    every: Duration,
    /// The counts at its beginning; `None` at the run's.
    last: Option<Snapshot>,
    last_at: Duration,
    next_at: Duration,
}

impl Intervals {
    fn begin(began_ns: u64, every: Duration) -> Self {
        Self { began_ns, every, last: None, last_at: Duration::ZERO, next_at: every }
    }

    /// The time since the run's beginning.
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.began_ns))
    }

    fn until_next(&self) -> Duration {
        self.next_at.saturating_sub(self.elapsed())
    }

    /// The counts of the interval, if it is over.
    fn next(&mut self, live: &Live) -> Option<Counts> {
        let now_at = self.elapsed();
        if now_at < self.next_at {
            return None;
        }
        let now = live.snapshot();
        let seconds = now_at.saturating_sub(self.last_at).as_secs_f64();
        let interval = self.last.as_ref().map_or_else(|| now.clone(), |last| now.since(last));
        (self.last, self.last_at) = (Some(now), now_at);
        self.next_at += self.every;
        Some(Counts::of_interval(interval, seconds, now_at.as_secs_f64()))
    }
}

impl Beside<'_> {
    /// Runs `trial`, and prints meanwhile. The senders of reports must be gone when it returns. Signals end the trial
    /// even while standard output takes nothing.
    pub(super) fn during<T>(&self, reported: Receiver<Report>, trial: impl FnOnce() -> T) -> T {
        let (over, is_over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || self.print(&reported));
            scope.spawn(move || self.pass_interrupts(&is_over));
            let outcome = trial();
            drop(over);
            outcome
        })
    }

    fn pass_interrupts(&self, is_over: &Receiver<()>) {
        while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if self.interrupts.is_asked() && !self.stop.is_asked() {
                // As with dnsperf, what is outstanding is not waited for.
                self.stop.ask();
                self.stop.ask();
            }
        }
    }

    fn print(&self, reported: &Receiver<Report>) {
        let mut intervals = None;
        loop {
            // As with dnsperf, intervals end with the sending.
            if let Some((began_ns, every)) = self.live.began_ns().zip(self.command.interval) {
                let intervals = intervals.get_or_insert_with(|| Intervals::begin(began_ns, every));
                if !self.live.has_sent_all()
                    && let Some(counts) = intervals.next(self.live)
                {
                    self.interval(&counts);
                }
            }
            let is_sending = !self.live.has_sent_all();
            let next = intervals.as_ref().filter(|_| is_sending);
            let most = next.map_or(LOOK_EVERY, Intervals::until_next);
            match reported.recv_timeout(most.min(LOOK_EVERY)) {
                Ok(first) => self.reported(first, reported),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Prints what became of queries.
    fn reported(&self, first: Report, reported: &Receiver<Report>) {
        let mut lines = String::new();
        for report in std::iter::once(first).chain(reported.try_iter().take(TOGETHER_MOST)) {
            let Report { query, key, fate } = report;
            let _ = match fate {
                Fate::Replied { rcode, latency_ns } => {
                    let latency_us = latency_ns / 1000;
                    let latency = format!("{}.{:06}", latency_us / 1_000_000, latency_us % 1_000_000);
                    writeln!(lines, "> {} {} {latency}", rcode_name(rcode.into()), self.text.show(query))
                }
                Fate::TimedOut if self.command.suppressed.timeouts => Ok(()),
                Fate::TimedOut if self.command.verbose => writeln!(lines, "> T {}", self.text.show(query)),
                Fate::TimedOut => {
                    let unit = if self.command.updates { "Update" } else { "Query" };
                    writeln!(lines, "[Timeout] {unit} timed out: msg id {key}")
                }
                Fate::Interrupted if self.command.verbose => writeln!(lines, "> I {}", self.text.show(query)),
                Fate::Interrupted => Ok(()),
            };
        }
        print!("{lines}");
    }

    fn interval(&self, counts: &Counts) {
        if self.command.json {
            let line = if self.command.verbose_intervals {
                json::statistics(self.command, counts)
            } else {
                json::rate(counts, unix_s())
            };
            println!("{line}");
            return;
        }
        if self.command.verbose_intervals {
            print!("{}", statistics::interval_text(self.command, counts));
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        println!("{}.{:06}: {:.6}", now.as_secs(), now.subsec_micros(), counts.rate());
    }
}
