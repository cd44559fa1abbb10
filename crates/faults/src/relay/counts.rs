//! The relay's counts, and the player's accounts that follow from them.

use std::collections::BTreeMap;

use kqps_observation::Accounts;
use serde::Serialize;

use super::fault::Fault;
use crate::thread::doubt_of;

/// The relay's own accounts. All values count packets, unless their name has another unit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Queries received.
    pub queries: u64,
    /// Packets from a player that are shorter than a header or have QR=1; they are not passed on.
    pub not_queries: u64,
    /// Queries whose reply was passed on unchanged.
    pub clean: u64,
    /// Fault → how often the relay made it.
    pub faults: BTreeMap<&'static str, u64>,
    /// Queries that were passed on and that the subject did not answer.
    pub unanswered: u64,
    /// Replies of the subject that belong to no open query.
    pub stray_replies: u64,
    /// IDs that the relay made up and that the player used too, so that the player may count such replies as
    /// duplicates. Unless 0, the counts are not exact.
    pub clashes: u64,
    /// Queries whose ID their socket had used before: a duplicate, or a socket that went through all its IDs.
    pub repeated_ids: u64,
    /// The longest time between two readings of the relay's sockets, microseconds. Replies may have been late
    /// by up to this time.
    pub longest_away_us: u64,
    /// The longest time that a query waited in the relay's socket, microseconds.
    pub longest_wait_us: u64,
    /// Replies that still waited when the relay was stopped. They never reached the player.
    pub pending: u64,
    /// Packets that the relay's own sockets dropped. Unless 0, the counts are not exact.
    pub socket_drops: u64,
    /// Packets that the kernel refused to send. Unless 0, the counts are not exact.
    pub send_failed: u64,
}

impl Counts {
    /// How often the relay made a fault.
    pub fn count(&self, fault: Fault) -> u64 {
        self.faults.get(fault.name()).copied().unwrap_or(0)
    }

    /// Why these counts are not exact, or `None` if they are.
    pub fn doubt(&self) -> Option<String> {
        doubt_of(&[
            (self.socket_drops, "packets were dropped by the relay's own sockets"),
            (self.send_failed, "packets of the relay were refused by the kernel"),
            (self.clashes, "made-up IDs were used by the player too"),
            (self.pending, "replies still waited when the relay was stopped"),
            (self.not_queries, "packets were no queries"),
        ])
    }

    /// The player's accounts of these queries, if it sent no others and all of them reached the relay.
    pub fn expected(&self) -> Accounts {
        let correct_after = [Fault::Delay, Fault::Duplicate, Fault::Reorder, Fault::Truncate];
        let correct = self.clean + correct_after.iter().map(|fault| self.count(*fault)).sum::<u64>();
        let wrong = self.expected_wrong_causes().values().sum();
        let late = self.count(Fault::Late);
        Accounts {
            intended: self.queries,
            sent: self.queries,
            correct,
            wrong,
            late,
            lost: self.queries - correct - wrong - late,
            truncated: self.count(Fault::Truncate),
            duplicate: self.count(Fault::Duplicate),
            unsolicited: self.count(Fault::WrongId) + self.count(Fault::WrongPort),
            ..Accounts::default()
        }
    }

    /// Cause → number of wrong replies, as the player must count them.
    pub fn expected_wrong_causes(&self) -> BTreeMap<String, u64> {
        let mut causes = BTreeMap::new();
        for &fault in Fault::ALL {
            if let Some(cause) = fault.wrong_cause()
                && self.count(fault) > 0
            {
                *causes.entry(cause.to_owned()).or_default() += self.count(fault);
            }
        }
        causes
    }

    pub(super) fn add(&mut self, fault: Option<Fault>) {
        match fault {
            Some(fault) => *self.faults.entry(fault.name()).or_default() += 1,
            None => self.clean += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_fate() {
        let mut counts = Counts { queries: 16, ..Counts::default() };
        counts.add(None);
        for &fault in Fault::ALL {
            counts.add(Some(fault));
        }
        let expected = counts.expected();
        expected.check().unwrap();
        assert_eq!((expected.correct, expected.wrong, expected.late, expected.lost), (5, 6, 1, 4));
        assert_eq!((expected.truncated, expected.duplicate, expected.unsolicited), (1, 1, 2));
        let causes = counts.expected_wrong_causes();
        assert_eq!((causes["question"], causes["answer"]), (2, 1));
        assert_eq!(counts.doubt(), None);
    }

    #[test]
    fn a_relay_that_lost_packets_says_so() {
        let counts = Counts { socket_drops: 3, ..Counts::default() };
        assert!(counts.doubt().unwrap().starts_with("3 packets were dropped"));
    }
}
