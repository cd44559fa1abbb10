//! The tickets that a server gave one thread of a client. A ticket of TLS 1.3 resumes one connection (RFC 8446,
//! appendix C.4). A session of TLS 1.2 resumes any number, until the server replaces it (RFC 5246, section 7.3).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Counts of tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketCounts {
    /// Tickets that the server sent. A session of TLS 1.2 counts as one.
    pub received: u64,
    /// Handshakes that offered one.
    pub offered: u64,
}

/// The tickets of one server, for one thread. No other thread waits for the lock.
pub(crate) struct Tickets {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    group: Option<NamedGroup>,
    /// The latest session of TLS 1.2.
    session: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
    counts: TicketCounts,
}

impl Tickets {
    /// Keeps the `most` latest tickets.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default() }
    }

    pub(crate) fn counts(&self) -> TicketCounts {
        self.state().counts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tickets {
    /// Shows counts alone, since tickets hold keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tickets").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.state().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.state().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        let mut state = self.state();
        state.session = Some(value);
        state.counts.received += 1;
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let mut state = self.state();
        let session = state.session.clone();
        state.counts.offered += u64::from(session.is_some());
        session
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.state().session = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut state = self.state();
        state.counts.received += 1;
        if state.tickets.len() >= self.most {
            state.tickets.pop_front();
        }
        state.tickets.push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut state = self.state();
        let ticket = state.tickets.pop_back();
        state.counts.offered += u64::from(ticket.is_some());
        ticket
    }
}
