//! Counts of a thread's connections: how many were tried, made and ended, and why.

use std::collections::BTreeMap;
use std::io;

use kqps_observation::{EarlyFacts, Histogram};
use kqps_quic::{ClientCounts, End};
use kqps_tls::{Failure, Kind, Session, TicketCounts};
use strum::VariantNames;

use crate::loss::Loss;

/// The names of a map of counts, at most. A subject chooses the codes in some names, so that all further names count as
/// [`OTHER_NAMES`].
const NAMES_MOST: usize = 64;
const OTHER_NAMES: &str = "other";

/// Adds to the count of this name.
pub(crate) fn count(counts: &mut BTreeMap<String, u64>, name: &str, number: u64) {
    if let Some(known) = counts.get_mut(name) {
        *known += number;
        return;
    }
    let name = if counts.len() < NAMES_MOST { name } else { OTHER_NAMES };
    *counts.entry(name.to_owned()).or_default() += number;
}

/// The counts of one thread's connections.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// Connections that the thread began to make.
    pub attempts: u64,
    /// Connections that were made.
    pub established: u64,
    /// How many of them were made before the load began.
    pub before_load: u64,
    /// Failed attempts by [`Loss::number`].
    pub failed: [u64; Loss::NAMES.len()],
    /// Attempts that were neither made nor failed at the end.
    pub unfinished: u64,
    /// Ended connections by [`Ending::number`].
    pub closed: [u64; Ending::NAMES.len()],
    /// Connections that were open at the end.
    pub open: u64,
    /// Queries handed to connections.
    pub handed: u64,
    /// Time from an attempt to its connection, without TLS.
    pub connect: Histogram,
    /// Time from when the first query of a connection was due to its reply, if it was correct.
    pub first_query: Histogram,
    /// Time from the write of a query to its reply, if it was correct.
    pub write_to_reply: Histogram,
    /// Segments that the kernel sent again.
    pub retransmitted: u64,
    /// Acknowledgements that the player delayed past the kernel. The kernel counts its own in the network's facts.
    pub delayed_acks: u64,
    /// Attempts whose SYN the kernel sent again.
    pub lost_syns: u64,
    /// Ports that were passed over, because they were in use.
    pub ports_in_use: u64,
    /// Queries that began a connection in the capture, and joined an earlier one that was in use.
    pub joined: u64,
    /// Connections that were closed before their captured time, because the next one at their place began.
    pub closed_early: u64,
    /// How many ports of each source address there are for connections: those that the player deals, all threads
    /// together, or those of which the kernel chooses.
    pub ports: u64,
    /// The counts of TLS; `None` without it.
    pub tls: Option<TlsCounts>,
    /// The counts of HTTP; `None` without it.
    pub http: Option<HttpCounts>,
    /// The counts of QUIC; `None` without it.
    pub quic: Option<QuicCounts>,
}

/// The counts of TLS of one thread's connections.
#[derive(Debug, Default)]
pub struct TlsCounts {
    /// The time of completed handshakes by [`Kind::number`], from the connection of TCP on, or over QUIC from the
    /// attempt.
    pub handshakes: [Histogram; Kind::NAMES.len()],
    /// Sessions that handshakes agreed on, each with the number of its handshakes, whatever their kind.
    pub sessions: Vec<(Session, u64)>,
    /// Tickets.
    pub tickets: TicketCounts,
    /// Early data.
    pub early: EarlyFacts,
    /// Failures, in words → how often.
    pub failures: BTreeMap<String, u64>,
}

impl TlsCounts {
    /// Counts a completed handshake that took this time in microseconds.
    pub fn opened(&mut self, session: &Session, took_us: u64) {
        self.handshakes[session.kind.number()].record_us(took_us);
        self.agreed(session, 1);
    }

    fn agreed(&mut self, session: &Session, count: u64) {
        match self.sessions.iter_mut().find(|(known, _)| known.is_like(session)) {
            Some((_, known)) => *known += count,
            None => self.sessions.push((*session, count)),
        }
    }

    /// Counts a failure.
    pub fn failed(&mut self, failure: &Failure) {
        count(&mut self.failures, &failure.to_string(), 1);
    }

    /// Adds the counts of another thread.
    fn add(&mut self, other: &Self) {
        self.handshakes.iter_mut().zip(&other.handshakes).for_each(|(ours, theirs)| ours.add(theirs));
        other.sessions.iter().for_each(|(session, count)| self.agreed(session, *count));
        self.tickets.received += other.tickets.received;
        self.tickets.offered += other.tickets.offered;
        self.early += other.early;
        for (failure, number) in &other.failures {
            count(&mut self.failures, failure, *number);
        }
    }
}

/// The counts of HTTP on one thread's connections.
#[derive(Debug, Default)]
pub struct HttpCounts {
    /// Queries that waited because their connection had as many streams open as the subject takes.
    pub blocked: u64,
    /// For how long they waited, all together, nanoseconds.
    pub blocked_ns: u64,
    /// Connections at which the subject went away (GOAWAY), by its reason.
    pub goaways: BTreeMap<String, u64>,
    /// Streams that the subject ended (`RST_STREAM`), by its reason.
    pub resets: BTreeMap<String, u64>,
    /// Failures, in words → how often.
    pub failures: BTreeMap<String, u64>,
}

impl HttpCounts {
    /// Adds the counts of another thread.
    fn add(&mut self, other: &Self) {
        self.blocked += other.blocked;
        self.blocked_ns += other.blocked_ns;
        for (ours, theirs) in [
            (&mut self.goaways, &other.goaways),
            (&mut self.resets, &other.resets),
            (&mut self.failures, &other.failures),
        ] {
            for (name, number) in theirs {
                count(ours, name, *number);
            }
        }
    }
}

/// The counts of QUIC of one thread's connections.
#[derive(Debug, Default)]
pub struct QuicCounts {
    /// Queries that waited for a stream on an open connection.
    pub blocked_queries: u64,
    /// The sum of the times for which open connections had such queries.
    pub blocked_ns: u64,
    /// How often the kernel had no room for a datagram, so that it and those behind it waited.
    pub send_waits: u64,
    /// Packets, datagrams and tokens.
    pub client: ClientCounts,
    /// Failures, in words → how often.
    pub failures: BTreeMap<String, u64>,
}

impl QuicCounts {
    /// Counts a failure.
    pub fn failed(&mut self, words: &str) {
        count(&mut self.failures, words, 1);
    }

    /// Adds the counts of another thread.
    fn add(&mut self, other: &Self) {
        self.blocked_queries += other.blocked_queries;
        self.blocked_ns += other.blocked_ns;
        self.send_waits += other.send_waits;
        self.client += other.client;
        for (failure, number) in &other.failures {
            count(&mut self.failures, failure, *number);
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Ending {
    /// The player closed it.
    Player,
    /// The subject closed it, and no query was open.
    Idle,
    /// The subject closed it with open queries.
    Closed,
    /// The subject closed it when it was idle, and the open queries reached it too late.
    IdleRace,
    /// The subject or the network reset it.
    Reset,
    /// The subject sent an alert of TLS.
    TlsAlert,
    /// The subject did something that TLS forbids.
    Tls,
    /// The subject went away (GOAWAY), and the player closed it after the last response.
    #[strum(serialize = "goaway")]
    GoAway,
    /// The subject broke a rule of HTTP/2, or of DNS over QUIC.
    Framing,
    /// Nothing came for too long, although queries were open; or over TCP, no acknowledgement of what was sent.
    IdleTimeout,
    /// The subject closed a connection of QUIC with a code, or with open queries.
    QuicClose,
    /// The subject did something that QUIC forbids.
    Transport,
    /// The network reported that nothing listens at the subject's port any more.
    Refused,
    /// The network reported that no route leads to the subject any more.
    Unreachable,
    /// This host's kernel reported another error, such as a lack of memory.
    Local,
}

impl Ending {
    /// The names, by [`Self::number`].
    pub const NAMES: &[&str] = Self::VARIANTS;

    /// How an error of its socket ends a connection.
    pub fn of_error(error: &io::Error) -> Self {
        use io::ErrorKind::{
            ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkDown,
            NetworkUnreachable, TimedOut,
        };
        match error.kind() {
            ConnectionReset | ConnectionAborted => Self::Reset,
            ConnectionRefused => Self::Refused,
            HostUnreachable | NetworkUnreachable | NetworkDown => Self::Unreachable,
            TimedOut => Self::IdleTimeout,
            _ => Self::Local,
        }
    }

    /// How a failure of TLS ends a connection.
    pub fn from_failure(failure: &Failure) -> Self {
        if matches!(failure, Failure::Alert(_)) { Self::TlsAlert } else { Self::Tls }
    }

    /// How a connection of QUIC ends. `is_idle` is whether no query was open.
    pub fn of_quic(end: &End, is_idle: bool) -> Self {
        match end {
            End::Closed { code: 0, .. } if is_idle => Self::Idle,
            End::TimedOut => Self::IdleTimeout,
            End::Closed { .. } => Self::QuicClose,
            End::Reset => Self::Reset,
            End::Tls(failure) => Self::from_failure(failure),
            End::Version | End::Transport(_) => Self::Transport,
            End::Rules(_) => Self::Framing,
        }
    }

    /// The cause for which queries are lost that were open then.
    pub fn loss(self) -> Loss {
        match self {
            Self::Player | Self::Idle | Self::Closed => Loss::Closed,
            Self::IdleRace => Loss::IdleRace,
            Self::Reset => Loss::Reset,
            Self::TlsAlert => Loss::TlsAlert,
            Self::Tls => Loss::Tls,
            Self::GoAway => Loss::GoAway,
            Self::Framing => Loss::Framing,
            Self::IdleTimeout => Loss::IdleTimeout,
            Self::QuicClose => Loss::QuicClose,
            Self::Transport => Loss::Transport,
            Self::Refused => Loss::Refused,
            Self::Unreachable => Loss::Unreachable,
            Self::Local => Loss::Local,
        }
    }

    /// The index of this ending among the counts of all.
    pub fn number(self) -> usize {
        self as usize
    }
}

impl ConnectionCounts {
    /// Whether TCP carried the connections. Over QUIC a connection is made by its handshake, and has no records of TLS.
    pub fn are_of_tcp(&self) -> bool {
        self.quic.is_none()
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in [
            (&mut self.attempts, other.attempts),
            (&mut self.established, other.established),
            (&mut self.before_load, other.before_load),
            (&mut self.unfinished, other.unfinished),
            (&mut self.open, other.open),
            (&mut self.handed, other.handed),
            (&mut self.retransmitted, other.retransmitted),
            (&mut self.delayed_acks, other.delayed_acks),
            (&mut self.lost_syns, other.lost_syns),
            (&mut self.ports_in_use, other.ports_in_use),
            (&mut self.joined, other.joined),
            (&mut self.closed_early, other.closed_early),
        ] {
            *ours += theirs;
        }
        let failed = self.failed.iter_mut().zip(other.failed);
        failed.chain(self.closed.iter_mut().zip(other.closed)).for_each(|(ours, theirs)| *ours += theirs);
        self.ports = self.ports.max(other.ports);
        self.connect.add(&other.connect);
        self.first_query.add(&other.first_query);
        self.write_to_reply.add(&other.write_to_reply);
        if let Some(tls) = &other.tls {
            self.tls.get_or_insert_default().add(tls);
        }
        if let Some(http) = &other.http {
            self.http.get_or_insert_default().add(http);
        }
        if let Some(quic) = &other.quic {
            self.quic.get_or_insert_default().add(quic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let expected = "player idle closed idle-race reset tls-alert tls goaway framing idle-timeout \
             quic-close transport refused unreachable local";
        assert_eq!(Ending::NAMES.join(" "), expected);
        assert_eq!(Ending::NAMES[Ending::Local.number()], "local");
    }

    #[test]
    fn an_error_of_a_socket_is_a_reset_only_if_it_says_so() {
        let of = |errno| Ending::of_error(&io::Error::from_raw_os_error(errno));
        for (errno, ending) in [
            (libc::ECONNRESET, Ending::Reset),
            (libc::ETIMEDOUT, Ending::IdleTimeout),
            (libc::EHOSTUNREACH, Ending::Unreachable),
            (libc::ENETUNREACH, Ending::Unreachable),
            (libc::ECONNREFUSED, Ending::Refused),
            (libc::ENOMEM, Ending::Local),
            (libc::ENOBUFS, Ending::Local),
        ] {
            assert_eq!(of(errno), ending, "{errno}");
        }
    }

    #[test]
    fn names_that_a_subject_chooses_are_bounded() {
        let (mut ours, mut theirs) = (QuicCounts::default(), QuicCounts::default());
        for code in 0..100 {
            ours.failed(&format!("closed with {code:#x}"));
            theirs.failed(&format!("closed with {:#x}", code + 1000));
        }
        ours.failed("closed with 0x3f");
        assert_eq!((ours.failures.len(), ours.failures["closed with 0x3f"]), (NAMES_MOST + 1, 2));
        assert_eq!(ours.failures[OTHER_NAMES], 36);
        ours.add(&theirs);
        assert_eq!((ours.failures.len(), ours.failures[OTHER_NAMES]), (NAMES_MOST + 1, 136));
        assert_eq!(ours.failures.values().sum::<u64>(), 201);
    }
}
