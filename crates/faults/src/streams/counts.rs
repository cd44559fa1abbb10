//! The server's counts, and what a player must report that follows from them.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::Accounts;
use serde::Serialize;

use super::fault::Fault;
use super::kind::Kind;
use crate::thread::doubt_of;

/// The datagrams of a server over QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// Datagrams that arrived, dropped ones included.
    pub received: u64,
    /// How many of them it dropped.
    pub received_dropped: u64,
    /// Datagrams sent, dropped ones included.
    pub sent: u64,
    /// How many of them it dropped.
    pub sent_dropped: u64,
    /// Datagrams of both directions that it passed on after the next one.
    pub swapped: u64,
}

/// The server's own accounts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Connections that it accepted.
    pub connections: u64,
    /// Handshakes of TLS that were completed.
    pub handshakes: u64,
    /// Whole queries that it read.
    pub queries: u64,
    /// Queries that it answered rightly, and with nothing else.
    pub right: u64,
    /// Fault → how often it made it.
    pub faults: BTreeMap<&'static str, u64>,
    /// Cause → queries without a reply when their connection ended: `time` if the player ended it.
    pub lost: BTreeMap<&'static str, u64>,
    /// Cause → connections that it ended.
    pub closed: BTreeMap<&'static str, u64>,
    /// Cause → handshakes that it spoiled.
    pub failed: BTreeMap<&'static str, u64>,
    /// Reason → streams that it ended, in the player's words.
    pub resets: BTreeMap<&'static str, u64>,
    /// Reason → connections at which it went away (GOAWAY).
    pub goaways: BTreeMap<&'static str, u64>,
    /// How it ended connections of QUIC, in the player's words → how often. A close without an error is not among them,
    /// since the player reports it only if queries were open.
    pub ends: BTreeMap<&'static str, u64>,
    /// Queries that came although all streams of the limit were in use. The player then broke the limit.
    pub beyond_limit: u64,
    /// Datagrams.
    pub datagrams: Datagrams,
    /// The offsets at which it cut replies.
    pub cut_at: BTreeSet<usize>,
    /// The length of the longest reply that it cut, with its frame, bytes.
    pub longest_cut: usize,
    /// Messages that are no queries. Unless 0, the counts are not exact.
    pub not_queries: u64,
    /// Connections whose TLS failed although the server did not spoil it. Unless 0, the counts are not exact.
    pub broken: u64,
    /// Replies that still waited when their connection ended. Unless 0, the counts are not exact.
    pub pending: u64,
    /// Replies over QUIC whose arrival was not confirmed when their connection ended. A close may overtake them.
    pub unacknowledged: u64,
    /// Datagrams that arrived when the socket's buffer was full. Unless 0, the counts are not exact.
    pub overflowed: u64,
    /// Connections that had not ended when the server was stopped. Unless 0, the counts are not exact.
    pub left: u64,
    /// The longest time between two rounds of its loop, microseconds. Replies may have been late by up to this time.
    pub longest_away_us: u64,
}

/// The report that the player must make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The accounts. What never left the player is not among them.
    pub accounts: Accounts,
    /// Cause → lost queries.
    pub lost: BTreeMap<String, u64>,
    /// Cause → wrong replies.
    pub wrong: BTreeMap<String, u64>,
    /// Attempts to connect that reached the server.
    pub attempts: u64,
    /// Cause → failed attempts.
    pub failed: BTreeMap<String, u64>,
    /// Cause → connections that the server ended. Those that the player ended are not among them.
    pub closed: BTreeMap<String, u64>,
    /// Reason → streams that the server ended.
    pub resets: BTreeMap<String, u64>,
    /// Reason → connections at which the server went away.
    pub goaways: BTreeMap<String, u64>,
    /// Words → connections of QUIC that the server ended with an error.
    pub ends: BTreeMap<String, u64>,
    /// Connections whose address the server wanted confirmed.
    pub retries: u64,
}

impl Counts {
    /// How often the server made a fault.
    pub fn count(&self, fault: Fault) -> u64 {
        self.faults.get(fault.name()).copied().unwrap_or(0)
    }

    /// Why these counts are not exact, or `None` if they are.
    pub fn doubt(&self) -> Option<String> {
        doubt_of(&[
            (self.not_queries, "messages were no queries"),
            (self.broken, "connections broke by themselves"),
            (self.pending, "replies still waited when their connection ended"),
            (self.overflowed, "datagrams found no room"),
            (self.left, "connections had not ended when the server was stopped"),
        ])
    }

    /// The report of a player that sent these queries and no others, except one for each spoiled handshake.
    pub fn expected(&self) -> Expected {
        let right_after = Fault::ALL.iter().filter(|fault| fault.is_correct());
        let correct = self.right + right_after.map(|fault| self.count(*fault)).sum::<u64>();
        let mut wrong = BTreeMap::new();
        for &fault in Fault::ALL {
            if let Some(cause) = fault.wrong().filter(|_| self.count(fault) > 0) {
                *wrong.entry(cause.to_owned()).or_default() += self.count(fault);
            }
        }
        let failed = named(&self.failed);
        let mut lost = named(&self.lost);
        for (cause, count) in &failed {
            *lost.entry(cause.clone()).or_default() += count;
        }
        let sent = self.queries + failed.values().sum::<u64>();
        Expected {
            accounts: Accounts {
                intended: sent,
                sent,
                correct,
                wrong: wrong.values().sum(),
                late: self.count(Fault::Late),
                lost: lost.values().sum(),
                duplicate: self.count(Fault::Twice),
                unsolicited: self.count(Fault::Empty) + self.count(Fault::WrongId),
                ..Accounts::default()
            },
            lost,
            wrong,
            attempts: self.connections,
            failed,
            closed: named(&self.closed),
            resets: named(&self.resets),
            goaways: named(&self.goaways),
            ends: named(&self.ends),
            retries: self.count(Fault::Retry),
        }
    }

    /// Counts an attempt to connect whose handshake has this fault.
    pub(super) fn spoil(&mut self, fault: Fault, kind: Kind) {
        self.add(Some(fault));
        if let Some(cause) = fault.failure(kind) {
            *self.failed.entry(cause).or_default() += 1;
        }
    }

    /// Counts a stream that ended without a reply, for this reason.
    pub(super) fn reset_stream(&mut self, reason: &'static str) {
        *self.resets.entry(reason).or_default() += 1;
        self.lose("stream-reset", 1);
    }

    /// Counts a connection that the server ended by this cause, with its queries without a reply.
    pub(super) fn close(&mut self, cause: &'static str, lost: u64) {
        *self.closed.entry(cause).or_default() += 1;
        self.lose(cause, lost);
    }

    pub(super) fn add(&mut self, fault: Option<Fault>) {
        match fault {
            Some(fault) => *self.faults.entry(fault.name()).or_default() += 1,
            None => self.right += 1,
        }
    }

    /// Counts queries that are lost by this cause.
    pub(super) fn lose(&mut self, cause: &'static str, count: u64) {
        if count > 0 {
            *self.lost.entry(cause).or_default() += count;
        }
    }
}

fn named(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    counts.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_and_every_failed_attempt_has_its_fate() {
        let mut counts = Counts { queries: 8, connections: 9, ..Counts::default() };
        for fault in
            [None, Some(Fault::Twice), Some(Fault::WrongId), Some(Fault::WrongQuestion), Some(Fault::Late)]
        {
            counts.add(fault);
        }
        counts.add(Some(Fault::Reset));
        counts.add(Some(Fault::Close));
        counts.lose("time", 1);
        counts.lose("reset", 1);
        counts.lose("closed", 1);
        counts.failed = [("certificate", 2)].into();
        counts.reset_stream("CANCEL");
        counts.add(Some(Fault::StreamCancelled));
        let expected = counts.expected();
        expected.accounts.check().unwrap();
        let accounts = expected.accounts;
        assert_eq!(
            (accounts.sent, accounts.correct, accounts.wrong, accounts.late, accounts.lost),
            (10, 2, 1, 1, 6)
        );
        assert_eq!((accounts.duplicate, accounts.unsolicited), (1, 1));
        assert_eq!((expected.wrong["question"], expected.resets["CANCEL"]), (1, 1));
        assert_eq!((expected.lost["certificate"], expected.attempts), (2, 9));
        assert_eq!(counts.doubt(), None);
        assert!(Counts { left: 2, ..counts }.doubt().unwrap().starts_with("2 connections"));
    }
}
