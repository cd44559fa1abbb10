//! The one source of live figures. A command puts in what happens; consumers wait for changes and read.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use kqps_observation::{LiveCounts, LivePhase};

use crate::history::{History, Interval};
use crate::standing::Standing;

/// The most lines that are kept of what the command prints.
const LINES_MOST: usize = 100;

/// The last interval of a trial may be shorter than this, seconds. It then counts as part of the one before it, since its
/// rate would say nothing.
const SHORTEST_S: f64 = 0.1;

/// The figures of "now" are those of so many seconds at least, if the trial has had them.
const NOW_S: f64 = 1.0;

/// All that is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The command that the user typed, in short: `kqps load 127.0.0.1:5300`.
    pub command: String,
    /// Where the command stands.
    pub standing: Standing,
    /// The counts of the present trial. The subject's CPU time counts from its first reading.
    pub now: LiveCounts,
    /// The counts of all trials so far, the present one among them.
    pub totals: LiveCounts,
    /// The counts by time.
    pub history: Arc<History>,
    /// The last second of the present trial, or a little more; `None` before its first interval.
    pub last: Option<Interval>,
    /// The trials so far, the present one among them.
    pub trials: u64,
    /// The last lines that the command printed.
    pub lines: VecDeque<String>,
    /// The body of the run's page as it would be now; empty if there is none.
    pub page: Arc<str>,
    /// How often the page was exchanged.
    pub page_version: u64,
    /// Where else this is shown, in words: `page http://127.0.0.1:8080/`.
    pub addresses: Vec<String>,
    /// The result that the command printed; empty before the end, and if a page shows that.
    pub result: Arc<str>,
    /// Whether the user has asked the command to end.
    pub is_ending: bool,
    /// Whether all is measured.
    pub is_over: bool,
    /// How often anything was changed.
    pub version: u64,
    /// The counts of the trials before the present one.
    before: LiveCounts,
    /// The intervals of [`Self::last`].
    recent: VecDeque<Interval>,
    /// The last readings of CPU time in the present trial.
    cpu_read: (Option<f64>, Option<f64>),
}

/// The source, shared by what puts in and what reads.
#[derive(Debug)]
pub struct Hub {
    /// A number that no other source has: microseconds since 1970 at its start.
    pub id: u64,
    began: Instant,
    snapshot: Mutex<Snapshot>,
    changed: Condvar,
}

impl Hub {
    /// A source for a command that was typed like this.
    pub fn new(command: String) -> Arc<Self> {
        let snapshot = Mutex::new(Snapshot { command, ..Snapshot::default() });
        let id = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros() as u64;
        Arc::new(Self { id, began: Instant::now(), snapshot, changed: Condvar::new() })
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
            let (knows_player, knows_subject) =
                (counts.player_cpu_s.is_some(), counts.subject_cpu_s.is_some());
            let (player, subject) = &mut snapshot.cpu_read;
            // A player's readings begin at 0 with its trial. A subject has used time before it.
            player.get_or_insert(0.0);
            grow(&mut counts.player_cpu_s, player, snapshot.now.player_cpu_s);
            grow(&mut counts.subject_cpu_s, subject, snapshot.now.subject_cpu_s);
            let mut interval = counts.since(&snapshot.now);
            interval.player_cpu_s = interval.player_cpu_s.filter(|_| knows_player);
            interval.subject_cpu_s = interval.subject_cpu_s.filter(|_| knows_subject);
            if interval.at_s > 0.0 {
                let is_rest = interval.at_s < SHORTEST_S && snapshot.now.at_s > 0.0;
                let interval = Interval { end_s, seconds: interval.at_s, counts: interval };
                snapshot.follow(interval.clone());
                // A reader may still hold the history as it was.
                let history = Arc::make_mut(&mut snapshot.history);
                if is_rest { history.lengthen(&interval) } else { history.add(interval) }
            }
            snapshot.totals = counts.and(&snapshot.before);
            snapshot.now = counts;
        });
    }

    /// The snapshot is also shown at this address, in words.
    pub fn served_at(&self, words: String) {
        self.change(|snapshot| snapshot.addresses.push(words));
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

    /// The command prints its result. In a view without a page it replaces the figures of the moment.
    pub fn result(&self, words: &str) {
        self.change(|snapshot| snapshot.result = words.into());
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
    /// The phase of the player. Between trials the next one is prepared, until the command has printed its result.
    pub fn phase(&self) -> LivePhase {
        match self.totals.phase {
            LivePhase::Over if !self.is_over => LivePhase::Preparing,
            phase => phase,
        }
    }

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
        self.cpu_read = (None, None);
        self.recent.clear();
        self.last = None;
    }

    /// Takes the newest interval into what is shown as now, and leaves out what is older.
    fn follow(&mut self, interval: Interval) {
        self.recent.push_back(interval);
        let seconds = |intervals: &VecDeque<Interval>| -> f64 {
            intervals.iter().skip(1).map(|interval| interval.seconds).sum()
        };
        while seconds(&self.recent) >= NOW_S {
            self.recent.pop_front();
        }
        self.last = self.recent.iter().cloned().reduce(|sum, next| sum.and(&next));
    }
}

/// Makes a reading of CPU time a counter, which begins at the reading before it, or else at this one, and never goes back. Readings are sums of
/// processes that live, so they fall when one has ended, and are missing when none is left.
fn grow(now_s: &mut Option<f64>, read_s: &mut Option<f64>, counted_s: Option<f64>) {
    *now_s = match *now_s {
        Some(now_s) => {
            let before_s = read_s.replace(now_s).unwrap_or(now_s);
            Some(counted_s.unwrap_or(0.0) + (now_s - before_s).max(0.0))
        }
        None => counted_s,
    };
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
        hub.count(counts(0.5, 10, 0.25));
        hub.count(counts(1.0, 30, 0.5));
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
            assert_eq!((snapshot.totals.player_cpu_s, snapshot.now.player_cpu_s), (Some(1.75), Some(1.25)));
            assert_eq!(snapshot.totals.connections.map(|all| (all.established, all.open())), Some((38, 8)));
            assert_eq!((snapshot.trials, snapshot.standing.trial), (2, 2));
        });
    }

    #[test]
    fn cpu_time_never_goes_back_whatever_its_readings_do() {
        let hub = Hub::new(String::new());
        let mut seen = Vec::new();
        let read = |at_s, subject_cpu_s| LiveCounts { subject_cpu_s, ..counts(at_s, 1, 1.0) };
        hub.begin_trial(Standing::default());
        for (at_s, cpu_s) in
            [(0.5, Some(3.0)), (1.0, Some(5.0)), (1.5, Some(4.0)), (2.0, Some(4.5)), (2.5, None)]
        {
            hub.count(read(at_s, cpu_s));
            seen.push(hub.read(|snapshot| snapshot.totals.subject_cpu_s));
        }
        assert_eq!(hub.read(|snapshot| snapshot.history.intervals()[4].counts.subject_cpu_s), None);
        for (at_s, cpu_s) in [(0.5, None), (1.0, Some(9.0)), (1.5, Some(10.0))] {
            if cpu_s.is_none() {
                hub.begin_trial(Standing::default());
            }
            hub.count(read(at_s, cpu_s));
            seen.push(hub.read(|snapshot| snapshot.totals.subject_cpu_s));
        }
        let wanted = [0.0, 2.0, 2.0, 2.5, 2.5, 2.5, 2.5, 3.5].map(Some);
        assert_eq!(seen, wanted);
    }

    #[test]
    fn now_is_the_last_second_however_long_the_command_runs_and_of_this_trial_alone() {
        let hub = Hub::new(String::new());
        hub.begin_trial(Standing::default());
        let rate_now = || hub.read(|snapshot| snapshot.last.as_ref().and_then(Interval::sent_qps));
        assert_eq!(rate_now(), None);
        // 10 queries in each quarter of a second, for longer than the history has intervals; then none.
        (1..=2_000).for_each(|quarter| hub.count(counts(f64::from(quarter) / 4.0, 10 * quarter as u64, 0.0)));
        assert_eq!(rate_now(), Some(40.0));
        (2_001..=2_004).for_each(|quarter| hub.count(counts(f64::from(quarter) / 4.0, 20_000, 0.0)));
        assert_eq!(rate_now(), Some(0.0));
        hub.begin_trial(Standing::default());
        assert_eq!(rate_now(), None);
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
