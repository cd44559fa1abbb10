//! Tickets of TLS: how many a thread keeps, and whether its connections wait for them.

use kqps_tls::client::server_name;
use kqps_tls::{Client, ClientSettings, Connector, TlsError};

use crate::plan::{Plan, TlsPlan};

/// The least number of tickets that a thread keeps of each target.
const LEAST: usize = 16;

/// The least number if clients have addresses. A client uses no ticket of another one, and may be away for long.
const LEAST_OF_CLIENTS: usize = 1 << 14;

/// Tickets of a target, and over QUIC tokens, that a thread with this many places for connections keeps at most. Each
/// connection can have offered one, and each target gets its own.
pub(super) fn tickets_most(plan: &Plan, places: usize) -> usize {
    let least = if plan.local.is_some() { LEAST_OF_CLIENTS } else { LEAST };
    places.max(least)
}

/// Begins the TLS of connections to each target, with so many tickets at most.
pub(crate) fn connectors(tls: &TlsPlan, client: &Client, tickets: usize) -> Result<Vec<Connector>, TlsError> {
    tls.names.iter().map(|name| server_name(name).map(|name| client.connector(name, tickets))).collect()
}

/// How long a connection waits for its server's ticket, nanoseconds.
const WAIT_NS: u64 = 100_000_000;

/// How connections that are not kept stay open until they have a ticket, with which a later one resumes the session. If
/// they are alone, no query keeps them open so long. With early data a reply may come before the ticket, which the
/// server sends when it has the last message of the handshake.
pub(super) struct TicketWaits {
    is_on: bool,
    /// Connections to which a ticket came, and those that waited in vain.
    came: u64,
    in_vain: u64,
}

impl TicketWaits {
    /// Connections wait if they may resume sessions, and are alone or have early data.
    pub(super) fn new(client: &ClientSettings, are_alone: bool) -> Self {
        Self { is_on: client.resume && (are_alone || client.early_data), came: 0, in_vain: 0 }
    }

    /// No connection waits.
    pub(super) fn none() -> Self {
        Self { is_on: false, came: 0, in_vain: 0 }
    }

    /// Whether connections wait.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Notes a connection to which its first ticket came.
    pub(super) fn came(&mut self) {
        self.came += 1;
    }

    /// Whether a connection without a ticket that is open since `opened_ns` waits on at `now_ns`. If more of them
    /// waited in vain than got one, the server does not send a ticket to each, and no other connection waits.
    pub(super) fn wait(&mut self, opened_ns: u64, now_ns: u64) -> bool {
        let is_waiting = self.is_on && now_ns < opened_ns.saturating_add(WAIT_NS);
        if self.is_on && !is_waiting {
            self.in_vain += 1;
            self.is_on = self.in_vain <= self.came;
        }
        is_waiting
    }
}

#[cfg(test)]
mod tests {
    use kqps_tls::Trust;

    use super::*;

    #[test]
    fn connections_wait_until_more_of_them_waited_in_vain_than_got_a_ticket() {
        let client = ClientSettings::new(Trust::System, true);
        assert!(!TicketWaits::new(&client, false).is_on(), "their queries keep them open");
        assert!(!TicketWaits::new(&ClientSettings { resume: false, ..client.clone() }, true).is_on());
        let mut waits = TicketWaits::new(&client, true);
        assert!(waits.wait(0, WAIT_NS - 1));
        assert!(!waits.wait(0, WAIT_NS) && !waits.is_on(), "a server without tickets");
        let mut waits = TicketWaits::new(&ClientSettings { early_data: true, ..client }, false);
        waits.came();
        assert!(!waits.wait(5, WAIT_NS + 5) && waits.is_on(), "one ticket is late");
        assert!(!waits.wait(5, WAIT_NS + 5) && !waits.is_on());
        assert!(!waits.wait(5, 6));
    }
}
