//! The connections of a capture: each comes from the address of its client, begins with its first query and is closed
//! some time after its last reply, as it was.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Places, Sockets};
use crate::books::Start;
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

impl Closing {
    /// At once, when the fate of the last query is settled.
    const NOW: Self = Self { idle_ns: 0, at_ns: None };

    /// Whether the capture never shows the end.
    fn is_never(self) -> bool {
        self.idle_ns == u64::MAX
    }

    /// Whether the connection would have stayed open beyond `now_ns`.
    fn is_after(self, now_ns: u64) -> bool {
        !self.is_never() && self.at_ns.is_none_or(|at_ns| at_ns > now_ns)
    }
}

impl Clients {
    pub(super) fn new(replayed: &Replayed, sources: Option<Sources>) -> Self {
        Self { crowd: Arc::clone(&replayed.crowd), sources, follows: replayed.follows }
    }

    /// Whether the player deals the ports, since connections are closed and opened again.
    pub(super) fn need_ports(&self, tcp: &TcpPlan) -> bool {
        self.follows || tcp.queries_per_connection.is_some()
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

    /// Prepares a place for the queries of a capture that were dealt last. If they begin a connection, an earlier one
    /// that has no open query is closed. One that has, at another place, is closed when its time has come.
    pub(super) fn prepare(&mut self, state: &mut ThreadState<'_>, flow: usize) -> io::Result<()> {
        let Some(clients) = &self.clients else { return Ok(()) };
        let origins = state.books.origins();
        let (Some(&first), Some(&last)) = (origins.first(), origins.last()) else { return Ok(()) };
        let address = clients.address(first.client);
        match first.start {
            Start::Follows => {}
            Start::Alone => self.close_for_next(state, flow)?,
            Start::Beside { left } => self.let_end(left),
            Start::Joins => self.attempts.counts.joined += 1,
        }
        let place = &mut self.places[flow];
        if place.connection.is_none() {
            place.from = address;
        }
        if first.start != Start::Follows {
            place.closing = None;
        }
        if let Some(idle_ns) = last.idle_ns {
            place.closing = Some(Closing { idle_ns, at_ns: None });
        }
        Ok(())
    }

    /// Makes way for a connection at a place without open queries. One that is still being made is not ended: the
    /// queries of the next one join it.
    fn close_for_next(&mut self, state: &mut ThreadState<'_>, flow: usize) -> io::Result<()> {
        let now_ns = state.now_ns();
        let place = &self.places[flow];
        if place.connection.is_some() {
            if !self.may_close(flow) {
                self.attempts.counts.joined += 1;
                return Ok(());
            }
            let is_early = place.closing.is_some_and(|closing| closing.is_after(now_ns));
            self.attempts.counts.closed_early += u64::from(is_early);
            self.part_with(flow)?;
            self.attempts.counts.closed[Ending::Player.number()] += 1;
        }
        self.empty(flow, now_ns);
        state.books.renew(flow);
        Ok(())
    }

    /// Lets a connection end that another one has followed at its captured place.
    fn let_end(&mut self, flow: usize) {
        let closing = &mut self.places[flow].closing;
        // Its last query was given up, or the capture ended before it did.
        if closing.is_none_or(Closing::is_never) {
            *closing = Some(Closing::NOW);
        }
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
        if state.books.unsettled_of(flow) > 0 || closing.is_never() {
            return Ok(());
        }
        if place.connection.is_none() {
            // No attempt to make it succeeded in time.
            self.empty(flow, now_ns);
            state.books.emptied(flow);
            return Ok(());
        }
        let at_ns = *closing.at_ns.get_or_insert(now_ns.saturating_add(closing.idle_ns));
        if at_ns > now_ns {
            self.attempts.timers.set(flow, at_ns);
        } else if self.may_close(flow) {
            self.part_with(flow)?;
            self.ended(state, flow, Ending::Player, now_ns);
        }
        Ok(())
    }
}
