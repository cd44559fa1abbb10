//! Decides which connections are accepted, and counts how they end.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kqps_quic::server::{Admission, ServerEvent};
use kqps_tls::Kind;

use crate::connections::Limits;
use crate::connections::client_limits::ClientLimits;
use crate::connections::counts::{ConnectionCounts, End};

/// The connections of a thread in numbers.
pub(super) struct Admissions {
    /// The number that may be open.
    most: usize,
    open: usize,
    clients: ClientLimits,
    pub(super) counts: ConnectionCounts,
    /// Completed handshakes, by [`Kind::number`].
    handshakes: [u64; Kind::NAMES.len()],
}

impl Admissions {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            most: limits.connections,
            open: 0,
            clients: ClientLimits::new(limits.per_client),
            counts: ConnectionCounts::default(),
            handshakes: [0; Kind::NAMES.len()],
        }
    }

    /// Counts a connection that a client begins, and decides about it.
    pub(super) fn admit(&mut self, client: SocketAddr) -> Admission {
        self.counts.accepted += 1;
        if self.open >= self.most {
            self.counts.end(End::Full);
            return Admission::Refuse;
        }
        if !self.clients.enter(client.ip()) {
            self.counts.end(End::Client);
            return Admission::Refuse;
        }
        self.open += 1;
        Admission::Accept
    }

    /// Counts what happened to a connection.
    pub(super) fn note(&mut self, event: &ServerEvent) {
        match event {
            ServerEvent::Opened(kind) => self.handshakes[kind.number()] += 1,
            ServerEvent::Ended(client, end) => self.end(*client, reason(end)),
        }
    }

    /// Counts the end of a connection that was accepted.
    pub(super) fn end(&mut self, client: SocketAddr, end: End) {
        self.open -= 1;
        self.clients.leave(client.ip());
        self.counts.end(end);
    }

    /// Completed handshakes by kind, without zeros.
    pub(super) fn handshakes(&self) -> BTreeMap<String, u64> {
        let counts = Kind::NAMES.iter().zip(self.handshakes);
        counts.filter(|(_, count)| *count > 0).map(|(name, count)| ((*name).to_owned(), count)).collect()
    }
}

/// Why a connection ended, in the words that connections over TCP have.
fn reason(end: &kqps_quic::End) -> End {
    match end {
        kqps_quic::End::TimedOut => End::Idle,
        kqps_quic::End::Closed { code: 0, .. } => End::Peer,
        kqps_quic::End::Closed { .. }
        | kqps_quic::End::Reset
        | kqps_quic::End::Version
        | kqps_quic::End::Transport(_) => End::Broken,
        kqps_quic::End::Tls(_) => End::Tls,
        kqps_quic::End::Rules(_) => End::NotDns,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::counts::Counts;

    #[test]
    fn limits_hold_in_total_and_per_client() {
        let limits = Limits { idle: Duration::from_secs(1), connections: 3, per_client: 2 };
        let mut admissions = Admissions::new(limits);
        let client = |number: u8| SocketAddr::from(([192, 0, 2, number], 4321));
        let mut admit = |number| admissions.admit(client(number));
        assert_eq!([1, 1, 1, 2, 3].map(&mut admit), {
            use Admission::{Accept, Refuse};
            [Accept, Accept, Refuse, Accept, Refuse]
        });
        admissions.note(&ServerEvent::Opened(Kind::Early));
        admissions.note(&ServerEvent::Ended(client(1), kqps_quic::End::TimedOut));
        assert_eq!(admissions.admit(client(1)), Admission::Accept);
        let ended = admissions.counts.report(&Counts::default()).ended;
        let expected = [("idle", 1), ("too-many", 1), ("too-many-of-client", 1)];
        assert!(ended.into_iter().eq(expected.map(|(name, count)| (name.to_owned(), count))));
        assert_eq!(admissions.handshakes(), BTreeMap::from([("0-rtt".to_owned(), 1)]));
    }
}
