//! The one source of live figures. A command puts in what happens; consumers wait for changes and read.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kqps_observation::{LiveCounts, LivePhase};

use crate::history::{History, Interval};
use crate::standing::Standing;

/// The most lines that are kept of what the command prints.
const LINES_MOST: usize = 100;

/// The last interval of a trial may be shorter than this, seconds. It then counts as part of the one before it, since its
/// rate would say nothing.
const SHORTEST_S: f64 = 0.1;

/// All that is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What the user typed, in short: `kqps load 127.0.0.1:5300`.
    pub command: String,
    /// Where the command stands.
    pub standing: Standing,
    /// The counts of the present trial. CPU times count from its first reading.
    pub now: LiveCounts,
    /// The counts of all trials so far, the present one among them.
    pub totals: LiveCounts,
    /// What happened by time.
    pub history: History,
    /// The trials so far, the present one among them.
    pub trials: u64,
    /// The last lines that the command printed.
    pub lines: VecDeque<String>,
    /// The body of the run's page as it would be now; empty if there is none.
    pub page: Arc<str>,
    /// How often the page was exchanged.
    pub page_version: u64,
    /// Whether the user has asked the command to end.
    pub is_ending: bool,
    /// Whether all is measured.
    pub is_over: bool,
    /// How often anything was changed.
    pub version: u64,
    /// The counts of the trials before the present one.
    before: LiveCounts,
    /// The first CPU times of the present trial.
    cpu_from: (Option<f64>, Option<f64>),
}

/// The source, shared by what puts in and what reads.
#[derive(Debug)]
pub struct Hub {
    began: Instant,
    snapshot: Mutex<Snapshot>,
    changed: Condvar,
}

impl Hub {
    /// A source for a command that was typed like this.
    pub fn new(command: String) -> Arc<Self> {
        let snapshot = Mutex::new(Snapshot { command, ..Snapshot::default() });
        Arc::new(Self { began: Instant::now(), snapshot, changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        // Each change leaves the snapshot whole, so a thread that panicked spoiled nothing.
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = self.lock();
        change(&mut snapshot);
        snapshot.version += 1;
        drop(snapshot);
        self.changed.notify_all();
    }

    /// A trial begins. Its counts begin at 0.
    pub fn begin_trial(&self, standing: Standing) {
        self.change(|snapshot| {
            snapshot.fold();
            snapshot.standing = standing;
            snapshot.trials += 1;
        });
    }

    /// Where the command stands has changed, and the trial goes on.
    pub fn stand(&self, standing: Standing) {
        self.change(|snapshot| snapshot.standing = standing);
    }

    /// The counts of the present trial.
    pub fn count(&self, mut counts: LiveCounts) {
        let end_s = self.began.elapsed().as_secs_f64();
        self.change(|snapshot| {
            let (player, subject) = &mut snapshot.cpu_from;
            for (now_s, from_s) in [(&mut counts.player_cpu_s, player), (&mut counts.subject_cpu_s, subject)]
            {
                if let Some(now_s) = now_s {
                    *now_s -= *from_s.get_or_insert(*now_s);
                }
            }
            let interval = counts.since(&snapshot.now);
            if interval.at_s > 0.0 {
                let is_rest = interval.at_s < SHORTEST_S && snapshot.now.at_s > 0.0;
                let interval = Interval { end_s, seconds: interval.at_s, counts: interval };
                if is_rest { snapshot.history.lengthen(&interval) } else { snapshot.history.add(interval) }
            }
            snapshot.totals = counts.and(&snapshot.before);
            snapshot.now = counts;
        });
    }

    /// The command printed a line.
    pub fn print(&self, line: &str) {
        self.change(|snapshot| {
            if snapshot.lines.len() == LINES_MOST {
                snapshot.lines.pop_front();
            }
            snapshot.lines.push_back(line.to_owned());
        });
    }

    /// The body of the run's page as it would be now.
    pub fn page(&self, body: &str) {
        self.change(|snapshot| {
            snapshot.page = body.into();
            snapshot.page_version += 1;
        });
    }

    /// The user has asked the command to end.
    pub fn ending(&self) {
        self.change(|snapshot| snapshot.is_ending = true);
    }

    /// All is measured. The page is the last one.
    pub fn end(&self) {
        self.change(|snapshot| {
            snapshot.now.phase = LivePhase::Over;
            snapshot.totals.phase = LivePhase::Over;
            snapshot.is_over = true;
        });
    }

    /// Reads the present state. What puts in waits meanwhile, so what takes long reads a copy.
    pub fn read<T>(&self, read: impl FnOnce(&Snapshot) -> T) -> T {
        read(&self.lock())
    }

    /// Waits for a change after this version, for `patience` at most. Returns the version of now.
    pub fn wait(&self, version: u64, patience: Duration) -> u64 {
        let is_old = |snapshot: &mut Snapshot| snapshot.version == version;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_old);
        waited.unwrap_or_else(PoisonError::into_inner).0.version
    }
}

impl Snapshot {
    /// Adds the present trial to those before it.
    fn fold(&mut self) {
        self.before = self.totals.clone();
        self.before.connections = self.before.connections.map(|before| {
            // None of them is open any more.
            let closed = before.established.max(before.closed);
            kqps_observation::LiveConnections { closed, ..before }
        });
        self.now = LiveCounts::default();
        self.totals.phase = LivePhase::Preparing;
        (self.totals.outstanding, self.totals.overdue) = (0, 0);
        self.cpu_from = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::{Accounts, LiveConnections};

    use super::*;

    fn counts(at_s: f64, sent: u64, cpu_s: f64) -> LiveCounts {
        LiveCounts {
            at_s,
            phase: LivePhase::Sending,
            accounts: Accounts { sent, ..Accounts::default() },
            outstanding: 3,
            player_cpu_s: Some(cpu_s),
            connections: Some(LiveConnections { established: sent, ..LiveConnections::default() }),
            ..LiveCounts::default()
        }
    }

    #[test]
    fn totals_grow_over_trials_and_intervals_are_differences() {
        let hub = Hub::new("kqps find".into());
        hub.begin_trial(Standing::default());
        hub.count(counts(0.5, 10, 7.0));
        hub.count(counts(1.0, 30, 7.5));
        hub.begin_trial(Standing { trial: 2, ..Standing::default() });
        hub.read(|snapshot| {
            assert_eq!((snapshot.totals.accounts.sent, snapshot.totals.outstanding), (30, 0));
            assert_eq!(snapshot.now, LiveCounts::default());
        });
        hub.count(counts(0.5, 5, 1.0));
        hub.count(counts(1.0, 8, 1.25));
        hub.read(|snapshot| {
            let sent: Vec<u64> =
                snapshot.history.intervals().iter().map(|one| one.counts.accounts.sent).collect();
            assert_eq!(sent, [10, 20, 5, 3]);
            assert_eq!((snapshot.totals.accounts.sent, snapshot.now.accounts.sent), (38, 8));
            assert_eq!((snapshot.totals.player_cpu_s, snapshot.now.player_cpu_s), (Some(0.75), Some(0.25)));
            assert_eq!(snapshot.totals.connections.map(|all| (all.established, all.open())), Some((38, 8)));
            assert_eq!((snapshot.trials, snapshot.standing.trial), (2, 2));
        });
    }

    #[test]
    fn a_reader_waits_for_changes_and_no_longer() {
        let hub = Hub::new(String::new());
        assert_eq!(hub.wait(0, Duration::ZERO), 0);
        hub.print("x");
        assert_eq!(hub.wait(0, Duration::from_mins(1)), 1);
        (0..2 * LINES_MOST).for_each(|number| hub.print(&number.to_string()));
        hub.read(|snapshot| {
            assert_eq!(
                (snapshot.lines.len(), snapshot.lines.back().map(String::as_str)),
                (LINES_MOST, Some("199"))
            );
        });
        hub.end();
        assert!(hub.read(|snapshot| snapshot.is_over && snapshot.now.phase == LivePhase::Over));
    }
}
