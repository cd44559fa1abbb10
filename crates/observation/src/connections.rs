//! The connections of a trial: how many were tried, made and ended, and why.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accounts::IdentityViolated;
use crate::histogram::Quantiles;
use crate::http::HttpFacts;
use crate::quic::QuicFacts;
use crate::tls::{EarlyFacts, TlsFacts};

/// The connections of all players over one trial. `attempts = established + Σ failed + unfinished`,
/// `established = Σ closed + open`, and every query that was sent over connections was handed to one of them. With TLS
/// a connection is made when its handshake is complete.
///
/// If connections alone are the load, each query of [`crate::Accounts`] stands for a connection that was opened when
/// the query was due, and closed once it was made. A query is then `correct` if its connection was made in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionFacts {
    /// Whether connections alone were the load: no query was sent. False in records older than the field.
    #[serde(default)]
    pub alone: bool,
    /// Connections that the player began to make.
    pub attempts: u64,
    /// Connections that were made.
    pub established: u64,
    /// How many of `established` were made before the load began, as kept connections are.
    pub before_load: u64,
    /// Cause → attempts that failed: `refused`, `reset`, `unreachable`, `connect-timeout`, `ports` if no port of the
    /// source address was free, `address` if that address is not one of this host's or does not reach the target (in
    /// older records `ports`), or `local` if this host had no descriptor or memory left; in records older than
    /// `ports`, also if it had no port left. With TLS also `closed` if the subject closed the connection in the
    /// handshake, `tls-alert` if it sent an alert, `certificate` if its certificate is not accepted, `alpn` if there is
    /// no common application protocol, and `tls` if it did something that TLS forbids. With QUIC also `quic-close` if
    /// it closed the connection in the handshake, `version` if there is no common version, `transport` if it did
    /// something that QUIC forbids, and `framing` if it broke a rule of RFC 9250.
    pub failed: BTreeMap<String, u64>,
    /// Attempts that were neither made nor failed when the trial ended.
    pub unfinished: u64,
    /// Cause → connections that ended: `player` if the player closed it, `idle` if the subject closed it without open
    /// queries, `closed` if it did so with open queries, `idle-race` if it closed an idle connection before the open
    /// queries reached it, `reset` if the subject or the network reset it, `refused`, `unreachable` or `idle-timeout`
    /// if the kernel gave it up for that reason, `local` for another error of this host's kernel (in older records all
    /// four are `reset` over TCP), `tls-alert` if the subject sent an alert, `tls` if it did something that TLS
    /// forbids. With HTTP also `goaway` if the subject went away and had answered,
    /// and `framing` if it did something that HTTP/2 forbids. With QUIC also `quic-close` if the subject closed it with
    /// open queries or for an error, `idle-timeout` if nothing came for too long, `refused` or `unreachable` if the
    /// network said so, and `transport` and `framing` as above.
    pub closed: BTreeMap<String, u64>,
    /// Connections that were open when the trial ended.
    pub open: u64,
    /// Queries handed to connections.
    pub handed: u64,
    /// Time from an attempt to its connection; with TLS, to that of TCP. Empty with QUIC, whose handshake begins at
    /// once.
    pub connect_us: Quantiles,
    /// Time from when the first query of a connection was due to its reply. Queries without a correct reply are neither
    /// in this nor in the next figure. Both are empty in records older than the fields.
    #[serde(default)]
    pub first_query_us: Quantiles,
    /// Time from the write of a query to its reply.
    #[serde(default)]
    pub write_to_reply_us: Quantiles,
    /// Segments that the player's kernel sent again on these connections. 0 in records older than the field, as are the
    /// next three.
    #[serde(default)]
    pub retransmitted: u64,
    /// Acknowledgements that the player sent late past the kernel (`--io xdp`). Those of the kernel are counted with the
    /// network of each host.
    #[serde(default)]
    pub delayed_acks: u64,
    /// Attempts whose SYN was sent again, because no answer came within a second.
    #[serde(default)]
    pub connections_with_retransmitted_syn: u64,
    /// Ports that the player passed over, because they were in use.
    #[serde(default)]
    pub ports_in_use: u64,
    /// TLS; `None` if the connections are without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFacts>,
    /// HTTP; `None` if the connections are without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpFacts>,
    /// QUIC; `None` if the connections are those of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicFacts>,
}

impl ConnectionFacts {
    /// Early data; `None` if the player was not to send it.
    pub fn early_data(&self) -> Option<EarlyFacts> {
        let of_quic = self.quic.as_ref().map(|quic| quic.early_in_old_records);
        let early = self.tls.as_ref().and_then(|tls| tls.early);
        early.or_else(|| of_quic.filter(|early| early.offered > 0))
    }

    /// The protocol of the handshakes, if there are any: TLS, or that which has TLS in its own handshake.
    pub fn handshake_protocol(&self) -> &'static str {
        if self.quic.is_some() { "QUIC" } else { "TLS" }
    }

    /// Whether an attempt to connect begins with the handshake. Otherwise a connection of TCP precedes it.
    pub fn begins_with_handshake(&self) -> bool {
        self.quic.is_some()
    }

    /// Checks the identities. `sent` are the queries that were sent over connections
    /// ([`crate::Trial::sent_on_connections`]).
    pub fn check(&self, sent: u64) -> Result<(), IdentityViolated> {
        let sum = self.established + self.failed.values().sum::<u64>() + self.unfinished;
        if self.attempts != sum {
            return Err(IdentityViolated::Attempts { attempts: self.attempts, sum });
        }
        let sum = self.closed.values().sum::<u64>() + self.open;
        if self.established != sum {
            return Err(IdentityViolated::Established { established: self.established, sum });
        }
        let handshakes = self.tls.as_ref().map(|tls| tls.handshakes.values().sum::<u64>());
        if let Some(sum) = handshakes.filter(|sum| *sum != self.established) {
            return Err(IdentityViolated::Handshakes { established: self.established, sum });
        }
        if self.handed != sent {
            return Err(IdentityViolated::Handed { handed: self.handed, sent });
        }
        self.tls.as_ref().map_or(Ok(()), TlsFacts::check_early_data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_connection_is_named() {
        let counts =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(cause, count)| ((*cause).into(), *count)).collect();
        let whole = ConnectionFacts {
            attempts: 6,
            established: 3,
            failed: counts(&[("refused", 2)]),
            unfinished: 1,
            closed: counts(&[("idle", 1), ("player", 1)]),
            open: 1,
            handed: 9,
            ..ConnectionFacts::default()
        };
        assert_eq!(whole.check(9), Ok(()));
        let error = |facts: ConnectionFacts| facts.check(9).unwrap_err().to_string();
        assert!(error(ConnectionFacts { attempts: 7, ..whole.clone() }).starts_with("attempts 7 is not"));
        assert!(error(ConnectionFacts { open: 0, ..whole.clone() }).starts_with("established 3 is not"));
        let tls = TlsFacts { handshakes: counts(&[("full", 1), ("resumed", 1)]), ..TlsFacts::default() };
        assert!(error(ConnectionFacts { tls: Some(tls), ..whole.clone() }).contains("handshakes = 2"));
        let with_early = |rejected, accepted| {
            let early = EarlyFacts { offered: 6, accepted, rejected, undecided: 3, ..EarlyFacts::default() };
            let handshakes = counts(&[("full", 1), ("0-rtt", 2)]);
            let tls = TlsFacts { handshakes, early: Some(early), ..TlsFacts::default() };
            ConnectionFacts { tls: Some(tls), ..whole.clone() }
        };
        assert_eq!(with_early(1, 2).check(9), Ok(()));
        assert!(error(with_early(2, 2)).contains("accepted + rejected + undecided = 7"));
        assert!(error(with_early(2, 1)).starts_with("accepted early data 1 is not"));
        assert!(error(ConnectionFacts { handed: 8, ..whole }).starts_with("sent 9 is not"));
    }

    #[test]
    fn early_data_is_read_from_old_records_too() {
        let early = EarlyFacts {
            offered: 3,
            accepted: 2,
            rejected: 1,
            queries: 5,
            queries_again: 1,
            ..EarlyFacts::default()
        };
        let new = ConnectionFacts {
            tls: Some(TlsFacts { early: Some(early), ..TlsFacts::default() }),
            quic: Some(QuicFacts::default()),
            ..ConnectionFacts::default()
        };
        let mut json = serde_json::to_value(&new).unwrap();
        let read =
            |json: &serde_json::Value| serde_json::from_value::<ConnectionFacts>(json.clone()).unwrap();
        assert_eq!((read(&json).early_data(), read(&json)), (Some(early), new));
        // The first versions wrote it with QUIC.
        json["tls"].as_object_mut().unwrap().remove("early");
        assert_eq!(read(&json).early_data(), None);
        let quic = json["quic"].as_object_mut().unwrap();
        assert!(!quic.contains_key("offered"), "{quic:?}");
        for (name, count) in
            [("offered", 3), ("accepted", 2), ("rejected", 1), ("queries", 5), ("queries_again", 1)]
        {
            quic.insert(format!("early_{name}"), count.into());
        }
        assert_eq!(read(&json).early_data(), Some(early));
    }
}
