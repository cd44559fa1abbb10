//! Work that is due at places without an event: attempts that took too long or may begin again, and connections that
//! had all of their queries.

use std::io;

use super::{Places, Sockets, part};
use crate::connections::Ending;
use crate::loss::Loss;
use crate::plan::Close;
use crate::state::ThreadState;
use crate::wire::tcp::connection::Connection;
use crate::wire::tcp::layer::Layer;

/// Places that one call checks for connections whose last queries were lost, or whose streams were. With more of them a
/// call would take longer than a query may be late.
const CLOSED_AT_ONCE: usize = 4096;

impl<L: Layer, S: Sockets> Places<L, S> {
    /// Closes a connection that had all of its queries, once their fates are settled.
    pub(in crate::wire::tcp) fn close_if_spent(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        now_ns: u64,
    ) -> io::Result<()> {
        if self.follows_capture() {
            return self.close_if_idle(state, flow, now_ns);
        }
        let is_in_use = state.books.left_of(flow) > 0 || state.books.unsettled_of(flow) > 0;
        if is_in_use || self.waits_for_ticket(flow, now_ns) {
            return Ok(());
        }
        if self.may_close(flow) {
            self.part_with(flow)?;
            self.ended(state, flow, Ending::Player, now_ns);
        }
        Ok(())
    }

    /// Whether a place has an open connection that can be closed now.
    pub(super) fn may_close(&self, flow: usize) -> bool {
        let connection = self.places[flow].connection.as_ref();
        connection.is_some_and(|one| one.is_open && self.sockets.may_close(&one.socket, self.close))
    }

    /// Does what comes before the closing of a connection: writes the last bytes of its layer, or makes it end by a
    /// reset.
    pub(super) fn part_with(&mut self, flow: usize) -> io::Result<()> {
        let Some(connection) = &mut self.places[flow].connection else { return Ok(()) };
        match self.close {
            Close::Rst => self.sockets.close_by_reset(&mut connection.socket),
            Close::Fin => {
                part(connection, &mut self.sockets, false);
                Ok(())
            }
        }
    }

    /// Whether a connection stays open for its server's ticket.
    fn waits_for_ticket(&mut self, flow: usize, now_ns: u64) -> bool {
        let connection = self.places[flow].connection.as_ref();
        let Some(connection) = connection.filter(|one| one.is_open && !one.has_ticket) else { return false };
        self.attempts.ticket_waits.wait(connection.opened_ns, now_ns)
    }

    /// Does what is due: tries failed connections again if queries wait for them or they are kept, gives up attempts
    /// that took too long, and closes connections whose last queries were lost. `is_loading` is whether the load runs.
    /// Everything that arrived until `now_ns` has been read.
    pub(super) fn tend_places(
        &mut self,
        state: &mut ThreadState<'_>,
        now_ns: u64,
        is_loading: bool,
    ) -> io::Result<()> {
        while let Some(flow) = self.attempts.timers.take_due(now_ns) {
            self.timer(state, flow, now_ns, is_loading);
            if self.follows_capture() {
                self.close_if_idle(state, flow, now_ns)?;
            }
        }
        if L::HAS_STREAMS || self.attempts.uses_of_connection.is_some() || self.follows_capture() {
            for _ in 0..self.places.len().min(CLOSED_AT_ONCE) {
                let flow = self.attempts.next_to_check(self.places.len());
                if L::HAS_STREAMS {
                    self.tend_streams(state, flow, now_ns)?;
                }
                self.close_if_spent(state, flow, now_ns)?;
            }
        }
        state.books.publish_connections(&self.attempts.counts);
        Ok(())
    }

    /// Gives up streams that have waited too long, and closes a connection whose peer goes away if none are left.
    fn tend_streams(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) -> io::Result<()> {
        let lost_before_ns = state.books.lost_before_ns(flow, now_ns);
        let has_abandoned = |one: &mut Connection<L, S::Socket>| {
            one.is_open && !one.awaits_room && one.layer.abandon(lost_before_ns)
        };
        if self.places[flow].connection.as_mut().is_some_and(has_abandoned) {
            self.flush(state, flow, now_ns)?;
        }
        let has_gone_away = |one: &Connection<L, S::Socket>| one.is_open && one.layer.has_gone_away();
        if self.places[flow].connection.as_ref().is_some_and(has_gone_away) {
            self.ended(state, flow, Ending::GoAway, now_ns);
        }
        Ok(())
    }

    /// Does what is due at a place. Its timer may be that of an earlier attempt, and is then set again.
    fn timer(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64, is_loading: bool) {
        let is_kept = self.attempts.uses_of_connection.is_none() && !self.follows_capture();
        let place = &mut self.places[flow];
        match (&place.connection, place.tries.paused_until_ns) {
            (Some(connection), _) if !connection.is_open => {
                let gives_up_ns = connection.began_ns.saturating_add(self.attempts.connect_timeout_ns);
                let left_ns = gives_up_ns.saturating_sub(state.clock.clock_ns(now_ns));
                if left_ns == 0 {
                    self.failed(state, flow, Loss::ConnectTimeout, now_ns);
                } else {
                    self.attempts.timers.set(flow, now_ns.saturating_add(left_ns));
                }
            }
            (None, Some(until_ns)) if until_ns <= now_ns => {
                place.tries.paused_until_ns = None;
                if !place.output.is_empty() || (is_kept && is_loading) {
                    self.connect(state, flow, now_ns);
                }
            }
            (None, Some(until_ns)) => self.attempts.timers.set(flow, until_ns),
            _ => {}
        }
    }

    /// How long until something is due, nanoseconds.
    pub(super) fn next_timer_ns(&self, now_ns: u64) -> Option<u64> {
        self.attempts.timers.next_ns().map(|due_ns| due_ns.saturating_sub(now_ns))
    }
}
