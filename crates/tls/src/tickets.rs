//! The tickets that a server gave the clients of one thread. A client is an address that connections come from: a
//! ticket resumes sessions of its own client alone. A ticket of TLS 1.3 resumes one connection (RFC 8446, appendix
//! C.4). A session of TLS 1.2 resumes any number, until the server replaces it (RFC 5246, section 7.3).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// A client: its address, or `None` for all whose address the kernel chooses.
pub(crate) type Client = Option<IpAddr>;

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
    /// The most tickets that are kept; 0 if they are only counted.
    most: usize,
    state: Mutex<State>,
}

/// The tickets of one client.
#[derive(Debug)]
pub(crate) struct OfClient {
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) client: Client,
}

#[derive(Default)]
struct State {
    group: Option<NamedGroup>,
    clients: HashMap<Client, Kept>,
    /// The client of each ticket and session that is kept, by its number, so that the oldest comes first.
    owners: BTreeMap<u64, Client>,
    counts: TicketCounts,
    /// Bytes of early data that the ticket allows which was offered last.
    early_bytes: u32,
}

/// The session and the tickets that are kept of one client, each with its number.
#[derive(Default)]
struct Kept {
    /// The latest session of TLS 1.2.
    session: Option<(u64, Tls12ClientSessionValue)>,
    tickets: VecDeque<(u64, Tls13ClientSessionValue)>,
}

impl Tickets {
    /// Keeps the `most` latest tickets of all clients together. With 0 it counts tickets, and a client that has it sends
    /// the same bytes as one without any.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default() }
    }

    /// Whether tickets are kept, and not only counted.
    pub(crate) fn keeps(&self) -> bool {
        self.most > 0
    }

    pub(crate) fn counts(&self) -> TicketCounts {
        self.state().counts
    }

    /// Bytes of early data that the ticket allows which was offered since the last call; 0 if there was none.
    pub(crate) fn take_early_bytes(&self) -> u32 {
        std::mem::take(&mut self.state().early_bytes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The number of a ticket or session that `client` just got.
    fn enter(&mut self, client: Client) -> u64 {
        self.counts.received += 1;
        let number = self.counts.received;
        self.owners.insert(number, client);
        number
    }

    /// Drops the oldest tickets and sessions if there are more than `most`.
    fn keep(&mut self, most: usize) {
        while self.owners.len() > most {
            let Some((number, client)) = self.owners.pop_first() else { return };
            if let Some(kept) = self.clients.get_mut(&client) {
                kept.session.take_if(|(session, _)| *session == number);
                // The tickets of a client stand in the order of their numbers.
                if kept.tickets.front().is_some_and(|(ticket, _)| *ticket == number) {
                    kept.tickets.pop_front();
                }
            }
            self.forget_if_empty(client);
        }
    }

    fn forget_if_empty(&mut self, client: Client) {
        let is_empty = |kept: &Kept| kept.session.is_none() && kept.tickets.is_empty();
        if self.clients.get(&client).is_some_and(is_empty) {
            self.clients.remove(&client);
        }
    }

    fn remove_session(&mut self, client: Client) {
        let kept = self.clients.get_mut(&client);
        if let Some((number, _)) = kept.and_then(|kept| kept.session.take()) {
            self.owners.remove(&number);
            self.forget_if_empty(client);
        }
    }

    /// Takes the latest ticket of a client.
    fn take(&mut self, client: Client) -> Option<Tls13ClientSessionValue> {
        let (number, ticket) = self.clients.get_mut(&client)?.tickets.pop_back()?;
        self.owners.remove(&number);
        self.forget_if_empty(client);
        Some(ticket)
    }
}

impl fmt::Debug for Tickets {
    /// Shows counts alone, since tickets hold keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tickets").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl ClientSessionStore for OfClient {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.tickets.state().group = Some(group);
    }

    /// All clients share it: the server chooses the group. A client that keeps no tickets does not know it either.
    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.tickets.state().group.filter(|_| self.tickets.keeps())
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        let mut state = self.tickets.state();
        state.remove_session(self.client);
        let number = state.enter(self.client);
        state.clients.entry(self.client).or_default().session = Some((number, value));
        state.keep(self.tickets.most);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let mut state = self.tickets.state();
        let session = state.clients.get(&self.client)?.session.as_ref()?.1.clone();
        state.counts.offered += 1;
        Some(session)
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.tickets.state().remove_session(self.client);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut state = self.tickets.state();
        let number = state.enter(self.client);
        state.clients.entry(self.client).or_default().tickets.push_back((number, value));
        state.keep(self.tickets.most);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut state = self.tickets.state();
        let ticket = state.take(self.client)?;
        state.counts.offered += 1;
        state.early_bytes = ticket.max_early_data_size();
        Some(ticket)
    }
}
