//! The connections of a capture: each comes from the address of its client, begins with its first query and is closed
//! some time after its last reply, as it was.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Places, Sockets};
use crate::connections::Ending;
use crate::plan::TcpPlan;
use crate::replay::Replayed;
use crate::replay::crowd::Crowd;
use crate::sources::Sources;
use crate::state::ThreadState;
use crate::wire::tcp::layer::Layer;

/// The clients of a thread's connections.
pub(super) struct Clients {
    crowd: Arc<Crowd>,
    sources: Option<Sources>,
    /// Whether connections begin and end as captured.
    follows: bool,
}

/// The end of a connection as captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    /// How long the connection stays open after its last reply; `u64::MAX` for ever.
    idle_ns: u64,
    /// When it is closed, once the fate of its last query is settled.
    at_ns: Option<u64>,
}

impl Clients {
    pub(super) fn new(replayed: &Replayed, sources: Option<Sources>) -> Self {
        Self { crowd: Arc::clone(&replayed.crowd), sources, follows: replayed.follows }
    }

    /// Whether the player deals the ports. With source addresses the kernel chooses them: each client has few
    /// connections.
    pub(super) fn choose_ports(&self, tcp: &TcpPlan) -> bool {
        self.sources.is_none() && (self.follows || tcp.queries_per_connection.is_some())
    }

    /// The address of a client; `None` if the kernel chooses it.
    pub(super) fn address(&self, client: u32) -> Option<IpAddr> {
        let number = self.crowd.address(client)?;
        self.sources.map(|sources| sources.of_number(number))
    }
}

impl<L: Layer, S: Sockets> Places<L, S> {
    /// Whether connections begin and end as captured.
    pub(super) fn follows_capture(&self) -> bool {
        self.clients.as_ref().is_some_and(|clients| clients.follows)
    }

    /// Prepares a place for the `count` queries of a capture that were dealt last. If they begin a connection, the
    /// earlier one of the place is closed. If that one has open queries, they join it.
    pub(super) fn prepare(&mut self, state: &ThreadState<'_>, flow: usize, count: usize) -> io::Result<()> {
        let Some(clients) = &self.clients else { return Ok(()) };
        let origins = state.books.origins();
        let (Some(&first), Some(&last)) = (origins.first(), origins.last()) else { return Ok(()) };
        let address = clients.address(first.client);
        if first.begins && self.places[flow].connection.is_some() {
            let is_idle = state.books.unsettled_of(flow) as usize == count;
            if is_idle && self.may_close(flow) {
                self.part_with(flow)?;
                self.counts.closed[Ending::Player.number()] += 1;
                self.empty(flow, state.now_ns());
            } else {
                self.counts.joined += 1;
            }
        }
        let place = &mut self.places[flow];
        if place.connection.is_none() {
            place.from = address;
        }
        if first.begins {
            place.closing = None;
        }
        if let Some(idle_ns) = last.idle_ns {
            place.closing = Some(Closing { idle_ns, at_ns: None });
        }
        Ok(())
    }

    /// Closes a connection whose last query is settled, once it was idle for as long as in the capture.
    pub(super) fn close_if_idle(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        now_ns: u64,
    ) -> io::Result<()> {
        let place = &mut self.places[flow];
        let Some(closing) = &mut place.closing else { return Ok(()) };
        if state.books.unsettled_of(flow) > 0 || closing.idle_ns == u64::MAX {
            return Ok(());
        }
        let at_ns = *closing.at_ns.get_or_insert(now_ns.saturating_add(closing.idle_ns));
        if at_ns > now_ns {
            self.timers.set(flow, at_ns);
        } else if self.may_close(flow) {
            self.part_with(flow)?;
            self.ended(state, flow, Ending::Player, now_ns);
        }
        Ok(())
    }
}
