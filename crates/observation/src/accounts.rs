//! The accounts of a trial. Every query that the schedule called for ends in exactly one bucket, and the buckets add
//! up. `docs/method/accounts.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of queries over one trial. The fields outside the identity count replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accounts {
    /// Queries that the schedule called for.
    pub intended: u64,
    /// Intended, but given up by the player, because it was late by more than the allowed lag or because the window
    /// or all IDs were in use.
    pub unsent: u64,
    /// Intended, but refused by the kernel.
    pub send_failed: u64,
    /// Passed to the kernel.
    pub sent: u64,
    /// Answered in time by a reply that agrees with the query and with the dataset's expectation.
    pub correct: u64,
    /// Answered in time by a reply that fails one of those checks.
    pub wrong: u64,
    /// Answered after the timeout and before the drain ended.
    pub late: u64,
    /// Not answered by the end of the drain.
    pub lost: u64,
    /// How many of `correct` had the TC bit set.
    pub truncated: u64,
    /// How many of `truncated` hold no record although the answer would have fitted, because the subject limits its
    /// responses. 0 in records older than the field.
    #[serde(default)]
    pub slipped: u64,
    /// Replies to a query that already had one. Outside the identity.
    pub duplicate: u64,
    /// Replies whose ID is not outstanding, or from another address than the target. Outside the identity.
    pub unsolicited: u64,
}

/// A violated identity of the accounts. This is a bug in the player, and never rounded away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityViolated {
    /// `intended = sent + unsent + send_failed`
    #[error(
        "intended {intended} is not sent + unsent + send_failed = {sum}: this is a bug in kqps, please report it"
    )]
    Intended {
        /// `intended`.
        intended: u64,
        /// The sum of the buckets.
        sum: u64,
    },
    /// `sent = correct + wrong + late + lost`
    #[error(
        "sent {sent} is not correct + wrong + late + lost = {sum}: this is a bug in kqps, please report it"
    )]
    Sent {
        /// `sent`.
        sent: u64,
        /// The sum of the buckets.
        sum: u64,
    },
    /// `attempts = established + failed + unfinished`
    #[error(
        "attempts {attempts} is not established + failed + unfinished = {sum}: this is a bug in kqps, please report it"
    )]
    Attempts {
        /// `attempts`.
        attempts: u64,
        /// The sum of the buckets.
        sum: u64,
    },
    /// `established = closed + open`
    #[error(
        "established {established} is not closed + open = {sum}: this is a bug in kqps, please report it"
    )]
    Established {
        /// `established`.
        established: u64,
        /// The sum of the buckets.
        sum: u64,
    },
    /// `established = handshakes`
    #[error(
        "established {established} is not completed handshakes = {sum}: this is a bug in kqps, please report it"
    )]
    Handshakes {
        /// `established`.
        established: u64,
        /// The sum of the handshakes of all kinds.
        sum: u64,
    },
    /// `offered = accepted + rejected + undecided`, of early data
    #[error(
        "offered early data {offered} is not accepted + rejected + undecided = {sum}: this is a bug in kqps, please \
         report it"
    )]
    Early {
        /// `offered`.
        offered: u64,
        /// The sum of what became of it.
        sum: u64,
    },
    /// `accepted = handshakes of the kind 0-rtt`, of early data
    #[error(
        "accepted early data {accepted} is not handshakes of the kind 0-rtt = {handshakes}: this is a bug in kqps, \
         please report it"
    )]
    EarlyHandshakes {
        /// `accepted`.
        accepted: u64,
        /// The handshakes of this kind.
        handshakes: u64,
    },
    /// A count of what attackers did is not the sum of what became of it.
    #[error("{name} {count} is not {parts} = {sum}: this is a bug in kqps, please report it")]
    Hostile {
        /// The name of the count.
        name: &'static str,
        /// The count.
        count: u64,
        /// The names of what it must sum up.
        parts: &'static str,
        /// Their sum.
        sum: u64,
    },
    /// `sent = handed`
    #[error("sent {sent} is not handed to connections = {handed}: this is a bug in kqps, please report it")]
    Handed {
        /// Queries handed to connections.
        handed: u64,
        /// `sent`.
        sent: u64,
    },
}

impl Accounts {
    /// Checks both identities.
    pub fn check(&self) -> Result<(), IdentityViolated> {
        let sum = self.sent + self.unsent + self.send_failed;
        if self.intended != sum {
            return Err(IdentityViolated::Intended { intended: self.intended, sum });
        }
        let sum = self.correct + self.wrong + self.late + self.lost;
        if self.sent != sum {
            return Err(IdentityViolated::Sent { sent: self.sent, sum });
        }
        Ok(())
    }

    /// Share of the intended queries that were not answered correctly in time, 0 to 1. Unsent and send-failed
    /// queries count as bad, so that a slow player cannot flatter a subject. 0 if nothing was intended.
    pub fn bad_ratio(&self) -> f64 {
        if self.intended == 0 {
            return 0.0;
        }
        (self.intended - self.correct) as f64 / self.intended as f64
    }

    /// How many counts there are.
    pub const COUNT: usize = 12;

    /// The counts, in the order of the fields.
    pub fn to_array(mut self) -> [u64; Self::COUNT] {
        self.counts_mut().map(|count| *count)
    }

    /// Accounts of these counts, which are in the order of the fields.
    pub fn of_array(counts: [u64; Self::COUNT]) -> Self {
        let mut accounts = Self::default();
        accounts.counts_mut().into_iter().zip(counts).for_each(|(count, value)| *count = value);
        accounts
    }

    /// Every count, in the order of the fields.
    fn counts_mut(&mut self) -> [&mut u64; Self::COUNT] {
        let Self {
            intended,
            unsent,
            send_failed,
            sent,
            correct,
            wrong,
            late,
            lost,
            truncated,
            slipped,
            duplicate,
            unsolicited,
        } = self;
        [
            intended,
            unsent,
            send_failed,
            sent,
            correct,
            wrong,
            late,
            lost,
            truncated,
            slipped,
            duplicate,
            unsolicited,
        ]
    }

    /// The sum of these accounts and those of another player; `None` if a count does not fit.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let mut sum = self.to_array();
        for (count, more) in sum.iter_mut().zip(other.to_array()) {
            *count = count.checked_add(more)?;
        }
        Some(Self::of_array(sum))
    }

    /// Adds the accounts of another thread or trial to these.
    pub fn add(&mut self, other: &Self) {
        *self = self.with(other, |count, more| count + more);
    }

    /// Each count made from those of both.
    #[must_use]
    pub fn with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let (ours, theirs) = (self.to_array(), other.to_array());
        Self::of_array(std::array::from_fn(|at| of(ours[at], theirs[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_query_is_named() {
        let whole = Accounts { intended: 3, sent: 2, unsent: 1, correct: 1, lost: 1, ..Accounts::default() };
        assert_eq!(whole.check(), Ok(()));
        assert_eq!(
            Accounts { intended: 4, ..whole }.check(),
            Err(IdentityViolated::Intended { intended: 4, sum: 3 })
        );
        assert_eq!(Accounts { lost: 0, ..whole }.check(), Err(IdentityViolated::Sent { sent: 2, sum: 1 }));
    }

    #[test]
    fn a_sum_is_that_of_each_count_or_none() {
        let one = Accounts {
            intended: 12,
            unsent: 1,
            send_failed: 2,
            sent: 9,
            correct: 3,
            wrong: 1,
            late: 2,
            lost: 3,
            truncated: 1,
            slipped: 1,
            duplicate: 4,
            unsolicited: 5,
        };
        assert_eq!(Accounts::of_array(one.to_array()), one);
        let mut twice = one;
        twice.add(&one);
        assert_eq!((twice.intended, twice.unsolicited), (24, 10));
        assert_eq!(one.checked_add(&one), Some(twice));
        assert_eq!(Accounts { unsolicited: u64::MAX, ..one }.checked_add(&one), None);
    }

    #[test]
    fn unsent_queries_are_bad() {
        let tired = Accounts { intended: 10, unsent: 5, sent: 5, correct: 5, ..Accounts::default() };
        assert!((tired.bad_ratio() - 0.5).abs() < 1e-12);
    }
}
