//! Kinds of connection that only attackers make: what a trial did of them, and what the server did to it.

use std::collections::BTreeMap;

use kqps_catalogue::Hostile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accounts::IdentityViolated;
use crate::histogram::Quantiles;

/// A cause of attempts that were not begun: as many were held, or under way, as there may be.
pub const UNSENT_ROOM: &str = "room";

/// The attempts of one trial. `due = begun + Σ unsent`. An attempt is a connection, so that `begun` is that of
/// `connections`; of the kind `streams` it is a stream, so that `begun` is that of `streams`. They are no queries: the
/// accounts of the trial are all zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostileFacts {
    /// The kind of the attempts.
    pub kind: Hostile,
    /// Attempts that the schedule called for.
    pub due: u64,
    /// Attempts that were begun.
    pub begun: u64,
    /// Cause → attempts that were not begun: `late` if the player came too late to them, `room` if as many were held or
    /// under way as there may be.
    pub unsent: BTreeMap<String, u64>,
    /// The connections.
    pub connections: HostileConnections,
    /// The handshakes of TLS; `None` if there are none, as of connections without TLS. Over QUIC a connection is made by
    /// its handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<HandshakesMade>,
    /// The streams; `None` of other kinds than `streams`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsReset>,
    /// Datagrams with QUIC's first packets (Initial) that were sent. 0 of other kinds than `initials`.
    pub initials: u64,
    /// Bytes that the kernel took: those of all connections, with TLS, or those of datagrams.
    pub bytes_sent: u64,
    /// Sort → what the server sent: `message` for a DNS message; of HTTP/2 frames their names, such as `rst_stream`; of
    /// QUIC to `initials` packets by their first one in a datagram, such as `retry`, `version-negotiation` or `initial`,
    /// and `unreachable` for reports that nothing listens.
    pub replies: BTreeMap<String, u64>,
    /// Reason → connections at which the server went away (GOAWAY).
    pub goaways: BTreeMap<String, u64>,
    /// How long connections lived that the server ended, from the time at which they were made. Those that the player
    /// held to the end are not among them.
    pub lived_us: Quantiles,
}

/// The connections of attackers. `begun = connected + refused + timed_out + Σ failed + connecting`, and `connected =
/// closed_by_server + reset_by_server + Σ broken + closed_by_player + held`. Those of TLS count as connected when TCP has
/// connected, those of QUIC when their handshake is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostileConnections {
    /// Connections that the player began to make.
    pub begun: u64,
    /// Connections that were made.
    pub connected: u64,
    /// Attempts that the server's host refused.
    pub refused: u64,
    /// Attempts without an answer within the time limit.
    pub timed_out: u64,
    /// Cause → attempts that failed otherwise: the names of [`crate::ConnectionFacts::failed`].
    pub failed: BTreeMap<String, u64>,
    /// Attempts without an outcome when the trial ended. All those of the kind `initials` that left are among them.
    pub connecting: u64,
    /// Connections that the server closed (FIN; over QUIC `CONNECTION_CLOSE`).
    pub closed_by_server: u64,
    /// Connections that the server reset (RST; over QUIC a stateless reset).
    pub reset_by_server: u64,
    /// Cause → connections that ended otherwise, such as `idle-timeout`: the names of [`crate::ConnectionFacts::closed`].
    pub broken: BTreeMap<String, u64>,
    /// Connections that the player closed before the end: by a reset of the kind `reset`, and otherwise after a handshake
    /// that failed or took too long, or when the server went away.
    pub closed_by_player: u64,
    /// Connections that were open when the trial ended.
    pub held: u64,
}

/// The handshakes of TLS: `begun = done + Σ failed + under_way`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandshakesMade {
    /// Handshakes that the player began.
    pub begun: u64,
    /// Handshakes that were completed.
    pub done: u64,
    /// Cause → handshakes that failed: `closed` and `reset` if the server closed or reset the connection, `time` if the
    /// handshake took longer than connecting may, and the names of TLS in [`crate::ConnectionFacts::failed`].
    pub failed: BTreeMap<String, u64>,
    /// Handshakes without an outcome when the trial ended.
    pub under_way: u64,
}

/// Streams that were opened and reset at once: `begun = reset + cut_off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamsReset {
    /// Attempts that were begun.
    pub begun: u64,
    /// Streams whose request and reset the kernel took.
    pub reset: u64,
    /// Streams whose connection was not made, or ended before the kernel took both.
    pub cut_off: u64,
}

impl HostileFacts {
    /// All attempts that were not begun.
    pub fn unsent_in_all(&self) -> u64 {
        self.unsent.values().sum()
    }

    /// Attempts that the server took: streams that reached it, handshakes that were done, or else connections that were made.
    pub fn taken(&self) -> u64 {
        match (&self.streams, &self.handshakes) {
            (Some(streams), _) => streams.reset,
            (None, Some(handshakes)) => handshakes.done,
            (None, None) => self.connections.connected,
        }
    }

    /// Checks all identities.
    pub fn check(&self) -> Result<(), IdentityViolated> {
        let Self { due, begun, connections, .. } = self;
        same("due", *due, "begun + unsent", begun + self.unsent_in_all())?;
        match &self.streams {
            Some(streams) => {
                same("begun", *begun, "streams begun", streams.begun)?;
                let StreamsReset { begun, reset, cut_off } = *streams;
                same("streams begun", begun, "reset + cut off", reset + cut_off)?;
            }
            None => same("begun", *begun, "connections begun", connections.begun)?,
        }
        connections.check()?;
        let Some(HandshakesMade { begun, done, failed, under_way }) = &self.handshakes else { return Ok(()) };
        let sum = done + failed.values().sum::<u64>() + under_way;
        same("handshakes begun", *begun, "done + failed + under way", sum)
    }
}

impl HostileConnections {
    fn check(&self) -> Result<(), IdentityViolated> {
        let Self { begun, connected, refused, timed_out, failed, connecting, .. } = self;
        let sum = connected + refused + timed_out + failed.values().sum::<u64>() + connecting;
        let parts = "connected + refused + timed out + failed + connecting";
        same("connections begun", *begun, parts, sum)?;
        let Self { closed_by_server, reset_by_server, broken, closed_by_player, held, .. } = self;
        let sum = closed_by_server + reset_by_server + broken.values().sum::<u64>() + closed_by_player + held;
        let parts = "closed by the server + reset by the server + broken + closed by the player + held";
        same("connected", *connected, parts, sum)
    }
}

fn same(name: &'static str, count: u64, parts: &'static str, sum: u64) -> Result<(), IdentityViolated> {
    if count == sum { Ok(()) } else { Err(IdentityViolated::Hostile { name, count, parts, sum }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::UNSENT_LATE;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(cause, count)| ((*cause).into(), *count)).collect()
    }

    fn whole() -> HostileFacts {
        HostileFacts {
            kind: Hostile::Handshake,
            due: 20,
            begun: 17,
            unsent: counts(&[(UNSENT_LATE, 1), (UNSENT_ROOM, 2)]),
            connections: HostileConnections {
                begun: 17,
                connected: 12,
                refused: 2,
                timed_out: 1,
                failed: counts(&[("ports", 1)]),
                connecting: 1,
                closed_by_server: 3,
                reset_by_server: 2,
                broken: counts(&[("idle-timeout", 1)]),
                closed_by_player: 1,
                held: 5,
            },
            handshakes: Some(HandshakesMade {
                begun: 12,
                done: 9,
                failed: counts(&[("tls-alert", 2)]),
                under_way: 1,
            }),
            ..HostileFacts::default()
        }
    }

    #[test]
    fn each_count_that_does_not_add_up_is_named() {
        assert_eq!(whole().check(), Ok(()));
        let said = |change: fn(&mut HostileFacts)| {
            let mut facts = whole();
            change(&mut facts);
            facts.check().unwrap_err().to_string()
        };
        assert!(said(|facts| facts.due += 1).starts_with("due 21 is not begun + unsent = 20"));
        assert!(said(|facts| facts.connections.refused = 0).starts_with("connections begun 17 is not"));
        assert!(said(|facts| facts.connections.held = 0).starts_with("connected 12 is not"));
        let begun = said(|facts| (facts.connections.begun, facts.connections.connecting) = (18, 2));
        assert!(begun.starts_with("begun 17 is not connections begun = 18"), "{begun}");
        let handshakes = said(|facts| facts.handshakes.as_mut().unwrap().done = 1);
        assert!(handshakes.starts_with("handshakes begun 12 is not"), "{handshakes}");
    }

    #[test]
    fn attempts_of_streams_are_streams() {
        let streams = StreamsReset { begun: 17, reset: 14, cut_off: 3 };
        let connections = HostileConnections { begun: 1, connecting: 1, ..HostileConnections::default() };
        let facts = HostileFacts {
            kind: Hostile::Streams,
            connections,
            streams: Some(streams),
            handshakes: None,
            ..whole()
        };
        assert_eq!(facts.check(), Ok(()));
        let cut = StreamsReset { cut_off: 2, ..streams };
        let error = HostileFacts { streams: Some(cut), ..facts }.check().unwrap_err().to_string();
        assert!(error.starts_with("streams begun 17 is not reset + cut off = 16"), "{error}");
    }
}
