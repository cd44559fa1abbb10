//! The fates of one thread's queries and connections, as the thread last published them from its tally.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kqps_message::rcode::RcodeName;
use kqps_observation::{Accounts, LiveConnections, LiveCounts};

use super::counters::Counters;
use super::detail::RCODES;
use crate::connections::ConnectionCounts;
use crate::loss::Loss;
use crate::reply::Cause;
use crate::tally::Tally;

/// Why a query was not sent. The first cause has what the others leave.
const UNSENT: [&str; 3] = ["late", "window", "room"];

/// Connections: whether there are any, attempts, made, failed, ended.
const CONNECTIONS: usize = 5;

/// Counts that one thread published, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Fates {
    accounts: [AtomicU64; Accounts::COUNT],
    waiting: AtomicU64,
    unsent: [AtomicU64; UNSENT.len()],
    wrong: [AtomicU64; Cause::NAMES.len()],
    lost: [AtomicU64; Loss::NAMES.len()],
    rcodes: Counters,
    connections: [AtomicU64; CONNECTIONS],
}

impl Default for Fates {
    fn default() -> Self {
        Self {
            accounts: [const { AtomicU64::new(0) }; Accounts::COUNT],
            waiting: AtomicU64::new(0),
            unsent: [const { AtomicU64::new(0) }; UNSENT.len()],
            wrong: [const { AtomicU64::new(0) }; Cause::NAMES.len()],
            lost: [const { AtomicU64::new(0) }; Loss::NAMES.len()],
            rcodes: Counters::new(RCODES),
            connections: [const { AtomicU64::new(0) }; CONNECTIONS],
        }
    }
}

impl Fates {
    /// Publishes the thread's tally. `waiting` are queries that may still be answered in time.
    pub(super) fn publish(&self, tally: &Tally, waiting: u64) {
        let accounts = &tally.accounts;
        // While the thread plays, what is intended is what has left or was given up.
        let intended = accounts.sent + accounts.unsent + accounts.send_failed;
        store(&self.accounts, &Accounts { intended, ..*accounts }.to_array());
        self.waiting.store(waiting, Relaxed);
        let (window, room) = (tally.unsent_for_window, tally.unsent_for_ids);
        store(&self.unsent, &[accounts.unsent.saturating_sub(window + room), window, room]);
        store(&self.wrong, &tally.wrong_causes);
        store(&self.lost, &tally.lost_by);
        let extended = tally.extended_rcodes.iter().map(|(rcode, count)| (usize::from(*rcode), *count));
        for (rcode, count) in tally.rcodes.iter().copied().enumerate().chain(extended) {
            self.rcodes.set(rcode % RCODES, count);
        }
    }

    /// Publishes the counts of the thread's connections.
    pub(super) fn connections(&self, counts: &ConnectionCounts) {
        let [failed, closed] = [counts.failed.iter().sum(), counts.closed.iter().sum()];
        store(&self.connections, &[1, counts.attempts, counts.established, failed, closed]);
    }

    /// Adds what was published to these counts.
    pub(super) fn add_to(&self, counts: &mut LiveCounts) {
        let accounts = Accounts::of_array(load(&self.accounts));
        counts.accounts.add(&accounts);
        let Accounts { sent, correct, wrong, late, lost, .. } = accounts;
        let waiting = self.waiting.load(Relaxed);
        counts.outstanding += waiting;
        // A reply may be published before the query that it answers.
        counts.overdue += sent.saturating_sub(correct + wrong + late + lost + waiting);
        add_named(&mut counts.unsent_causes, &UNSENT, &load(&self.unsent));
        add_named(&mut counts.wrong_causes, Cause::NAMES, &load(&self.wrong));
        add_named(&mut counts.lost_causes, Loss::NAMES, &load(&self.lost));
        for (rcode, count) in (0..).zip(self.rcodes.values()).filter(|(_, count)| *count > 0) {
            *counts.rcodes.entry(RcodeName(rcode).to_string()).or_default() += count;
        }
        let [are_any, attempts, established, failed, closed] = load(&self.connections);
        if are_any > 0 {
            let sum = counts.connections.get_or_insert_default();
            *sum = LiveConnections {
                attempts: sum.attempts + attempts,
                established: sum.established + established,
                failed: sum.failed + failed,
                closed: sum.closed + closed,
            };
        }
    }
}

fn store<const N: usize>(to: &[AtomicU64; N], values: &[u64; N]) {
    to.iter().zip(values).for_each(|(counter, value)| counter.store(*value, Relaxed));
}

fn load<const N: usize>(from: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|at| from[at].load(Relaxed))
}

/// Adds counts by name, without zeros.
fn add_named(to: &mut BTreeMap<String, u64>, names: &[&str], counts: &[u64]) {
    for (name, count) in names.iter().zip(counts).filter(|(_, count)| **count > 0) {
        *to.entry((*name).to_owned()).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_published_is_added_by_name() {
        let threads = [Fates::default(), Fates::default()];
        let mut tally = Tally::default();
        tally.accounts =
            Accounts { unsent: 3, sent: 10, correct: 4, wrong: 1, lost: 2, ..Accounts::default() };
        tally.unsent_for_window = 1;
        tally.wrong_causes[Cause::Short.number()] = 1;
        tally.lost_by[Loss::Reset.number()] = 2;
        tally.rcodes[3] = 4;
        tally.extended_rcodes.insert(16, 1);
        threads[0].publish(&tally, 2);
        threads[1].publish(&tally, 2);
        let connections = ConnectionCounts { attempts: 5, established: 4, ..ConnectionCounts::default() };
        threads[1].connections(&connections);
        let mut counts = LiveCounts::default();
        for thread in &threads {
            thread.add_to(&mut counts);
        }
        assert_eq!((counts.accounts.intended, counts.accounts.sent, counts.accounts.lost), (26, 20, 4));
        assert_eq!((counts.outstanding, counts.overdue), (4, 2));
        let named = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(named(&counts.unsent_causes), "late 4, window 2");
        assert_eq!(
            (named(&counts.wrong_causes), named(&counts.lost_causes)),
            ("short 2".into(), "reset 4".into())
        );
        assert_eq!(named(&counts.rcodes), "BADVERS 2, NXDOMAIN 8");
        assert_eq!(counts.connections.map(|all| (all.attempts, all.open())), Some((5, 4)));
    }
}
