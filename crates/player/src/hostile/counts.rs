//! The counts of one thread's attempts.

use std::collections::BTreeMap;

use kqps_catalogue::Hostile;
use kqps_observation::hostile::UNSENT_ROOM;
use kqps_observation::trial::UNSENT_LATE;
use kqps_observation::{Histogram, HostileFacts};

use crate::connections::{Ending, count};
use crate::loss::Loss;

/// The counts of one thread's attempts.
#[derive(Debug, Default)]
pub(crate) struct HostileCounts {
    /// All but times.
    pub(crate) facts: HostileFacts,
    /// How long connections lived that the server ended.
    pub(crate) lived: Histogram,
}

impl HostileCounts {
    /// Counts bytes that the kernel took, and the streams that are out with them.
    pub(super) fn passed(&mut self, bytes: u64, streams: u64) {
        self.facts.bytes_sent += bytes;
        if let Some(facts) = &mut self.facts.streams {
            facts.reset += streams;
        }
    }

    /// No attempts of a kind yet. `has_tls` is whether TLS over TCP has handshakes.
    pub(super) fn new(kind: Hostile, has_tls: bool) -> Self {
        let facts = HostileFacts {
            kind,
            handshakes: has_tls.then(Default::default),
            streams: (kind == Hostile::Streams).then(Default::default),
            ..HostileFacts::default()
        };
        Self { facts, lived: Histogram::default() }
    }

    /// Notes the attempts that were due: begun, late, and without room.
    pub(super) fn attempts(&mut self, begun: u64, late: u64, no_room: u64) {
        self.facts.due = begun + late + no_room;
        self.facts.begun = begun;
        for (cause, number) in [(UNSENT_LATE, late), (UNSENT_ROOM, no_room)] {
            if number > 0 {
                count(&mut self.facts.unsent, cause, number);
            }
        }
    }

    /// Notes that a connection could not be made.
    pub(super) fn failed(&mut self, loss: Loss) {
        let connections = &mut self.facts.connections;
        match loss {
            Loss::Refused => connections.refused += 1,
            Loss::ConnectTimeout => connections.timed_out += 1,
            other => count(&mut connections.failed, Loss::NAMES[other.number()], 1),
        }
    }

    /// Notes that a connection ended otherwise than by the player, after this time.
    pub(super) fn ended(&mut self, ending: Ending, lived_ns: u64) {
        let connections = &mut self.facts.connections;
        match ending {
            Ending::Closed => connections.closed_by_server += 1,
            Ending::Reset => connections.reset_by_server += 1,
            other => count(&mut connections.broken, Ending::NAMES[other.number()], 1),
        }
        self.lived.record_us(lived_ns / 1000);
    }

    /// Notes that a handshake failed.
    pub(super) fn handshake_failed(&mut self, cause: &str) {
        if let Some(handshakes) = &mut self.facts.handshakes {
            count(&mut handshakes.failed, cause, 1);
        }
    }

    /// Notes what the server sent.
    pub(super) fn replied(&mut self, sort: &str, number: u64) {
        if number > 0 {
            count(&mut self.facts.replies, sort, number);
        }
    }

    /// Adds the counts of another thread.
    fn add(&mut self, other: &Self) {
        let (ours, theirs) = (&mut self.facts, &other.facts);
        let (one, more) = (&mut ours.connections, &theirs.connections);
        for (sum, number) in [
            (&mut ours.due, theirs.due),
            (&mut ours.begun, theirs.begun),
            (&mut ours.initials, theirs.initials),
            (&mut ours.bytes_sent, theirs.bytes_sent),
            (&mut one.begun, more.begun),
            (&mut one.connected, more.connected),
            (&mut one.refused, more.refused),
            (&mut one.timed_out, more.timed_out),
            (&mut one.connecting, more.connecting),
            (&mut one.closed_by_server, more.closed_by_server),
            (&mut one.reset_by_server, more.reset_by_server),
            (&mut one.closed_by_player, more.closed_by_player),
            (&mut one.held, more.held),
        ] {
            *sum += number;
        }
        for (sum, map) in [
            (&mut ours.unsent, &theirs.unsent),
            (&mut ours.replies, &theirs.replies),
            (&mut ours.goaways, &theirs.goaways),
            (&mut one.failed, &more.failed),
            (&mut one.broken, &more.broken),
        ] {
            add(sum, map);
        }
        if let (Some(sum), Some(more)) = (&mut ours.handshakes, &theirs.handshakes) {
            sum.begun += more.begun;
            sum.done += more.done;
            sum.under_way += more.under_way;
            add(&mut sum.failed, &more.failed);
        }
        if let (Some(sum), Some(more)) = (&mut ours.streams, &theirs.streams) {
            sum.begun += more.begun;
            sum.reset += more.reset;
            sum.cut_off += more.cut_off;
        }
        self.lived.add(&other.lived);
    }

    /// The sum of all threads; `None` if none was of attackers.
    pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Option<Self> {
        all.fold(None, |sum: Option<Self>, one| {
            let mut sum = sum.unwrap_or_else(|| Self::new(one.facts.kind, one.facts.handshakes.is_some()));
            sum.add(one);
            Some(sum)
        })
    }

    /// The facts for a record.
    pub(crate) fn into_facts(self) -> HostileFacts {
        HostileFacts { lived_us: self.lived.quantiles(), ..self.facts }
    }
}

fn add(sum: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, number) in more {
        count(sum, name, *number);
    }
}
