//! What a front counts beside its clients' queries: what became of them at each back end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why a query that was sent to a back end came to nothing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It was not answered in time.
    TimedOut,
    /// The connection ended, or the back end was found to be down, before it was answered.
    CutOff,
    /// It gave its place to one that came later.
    Displaced,
    /// The front was stopped before it was answered.
    Unsettled,
}

/// What was wrong with a message from a back end, which then goes to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// No query with its ID is outstanding there: it comes too late, or was never asked for.
    Unsolicited,
    /// It is not the reply to the query with its ID.
    Mismatched,
    /// It is no DNS message, or was cut off.
    Garbled,
}

/// Counts of one back end: `sent = answered + timed_out + cut_off + displaced + unsettled`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackEndReport {
    /// Where it is reached.
    pub url: String,
    /// How many of the workers would send it a query when they last said so.
    pub up: u64,
    /// Queries handed to it, checks and second tries among them.
    pub sent: u64,
    /// Those that it answered.
    pub answered: u64,
    /// Those that it did not answer in time.
    pub timed_out: u64,
    /// Those that were under way when its connection ended, or when it was found to be down.
    pub cut_off: u64,
    /// Those that gave their place to one that came later.
    pub displaced: u64,
    /// Those that were under way when the front stopped.
    pub unsettled: u64,
    /// How many of those answered were answered SERVFAIL, checks among them.
    #[serde(default)]
    pub servfails: u64,
    /// How many of those answered were cut (TC) where the client, which came by TCP, needs the whole.
    #[serde(default)]
    pub cut_short: u64,
    /// How many of those sent were second tries.
    pub second_tries: u64,
    /// How many of those sent were checks.
    pub checks: u64,
    /// How many of those sent the kernel refused to send; each timed out or was cut off.
    pub send_refused: u64,
    /// Messages that answer no query that is outstanding.
    pub unsolicited: u64,
    /// Messages with the ID of a query and not its answer.
    pub mismatched: u64,
    /// What was no message.
    pub garbled: u64,
    /// How often it was found to be down.
    pub downs: u64,
    /// Connections opened to it.
    pub connections: u64,
    /// Calls that handed queries to the kernel.
    pub flushes: u64,
}

impl BackEndReport {
    pub(super) fn lose(&mut self, why: Lost) {
        match why {
            Lost::TimedOut => self.timed_out += 1,
            Lost::CutOff => self.cut_off += 1,
            Lost::Displaced => self.displaced += 1,
            Lost::Unsettled => self.unsettled += 1,
        }
    }

    pub(super) fn bad(&mut self, what: Bad) {
        match what {
            Bad::Unsolicited => self.unsolicited += 1,
            Bad::Mismatched => self.mismatched += 1,
            Bad::Garbled => self.garbled += 1,
        }
    }

    /// Adds what another worker counted.
    fn add(&mut self, other: &Self) {
        self.url.clone_from(&other.url);
        let pairs = [
            (&mut self.up, other.up),
            (&mut self.sent, other.sent),
            (&mut self.answered, other.answered),
            (&mut self.timed_out, other.timed_out),
            (&mut self.cut_off, other.cut_off),
            (&mut self.displaced, other.displaced),
            (&mut self.unsettled, other.unsettled),
            (&mut self.servfails, other.servfails),
            (&mut self.cut_short, other.cut_short),
            (&mut self.second_tries, other.second_tries),
            (&mut self.checks, other.checks),
            (&mut self.send_refused, other.send_refused),
            (&mut self.unsolicited, other.unsolicited),
            (&mut self.mismatched, other.mismatched),
            (&mut self.garbled, other.garbled),
            (&mut self.downs, other.downs),
            (&mut self.connections, other.connections),
            (&mut self.flushes, other.flushes),
        ];
        for (mine, theirs) in pairs {
            *mine += theirs;
        }
    }
}

/// Counts of all back ends, by name; of one that was replaced by another of its name, both together.
pub type BackEndReports = BTreeMap<String, BackEndReport>;

/// Adds what another worker counted.
pub(crate) fn add_back_ends(to: &mut BackEndReports, from: &BackEndReports) {
    for (name, counts) in from {
        to.entry(name.clone()).or_default().add(counts);
    }
}
