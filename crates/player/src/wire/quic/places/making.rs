//! How connections are made: the kept ones before the load begins, all others when a query needs them, and a failed one
//! again after a pause.

use std::io;

use super::Places;
use crate::loss::Loss;
use crate::state::ThreadState;
use crate::thread::NAP_LONGEST_NS;
use crate::wire::attempts::OPENING_AT_ONCE;

impl Places<'_> {
    /// Opens the connections that are kept, before the load begins. Those that fail, or are left when opening is in
    /// vain, are tried again when the load needs them. `is_stopped` ends it early.
    pub(super) fn make_kept(
        &mut self,
        state: &mut ThreadState<'_>,
        is_stopped: impl Fn() -> bool,
    ) -> io::Result<()> {
        if self.attempts.uses_of_connection.is_some() {
            return Ok(());
        }
        let mut next = 0;
        while !is_stopped() {
            let is_vain = self.attempts.are_vain();
            while !is_vain && next < self.places.len() && self.attempts.unfinished() < OPENING_AT_ONCE {
                self.connect(state, next, state.now_ns());
                next += 1;
            }
            if self.attempts.unfinished() == 0 && (is_vain || next == self.places.len()) {
                break;
            }
            let timer_ns = self.next_timer_ns(state).unwrap_or(NAP_LONGEST_NS);
            self.look(state, Some(timer_ns.min(NAP_LONGEST_NS)))?;
            self.expire(state, false);
        }
        self.attempts.counts.before_load = self.attempts.counts.established;
        for place in &mut self.places {
            place.tries.paused_until_ns = None;
        }
        Ok(())
    }

    /// Begins a connection. Queries that wait leave as early data, if they may.
    pub(super) fn connect(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) {
        let clock_ns = state.clock.clock_ns(now_ns);
        let place = &mut self.places[flow];
        place.tries.paused_until_ns = None;
        place.began_ns = clock_ns;
        place.is_open = false;
        place.has_ticket = false;
        self.attempts.counts.attempts += 1;
        if self.sockets[flow].is_none() {
            return self.failed(state, flow, Loss::Ports, now_ns);
        }
        match self.client.connect(flow, place.from, (place.target, place.to), clock_ns) {
            Ok(()) => {
                self.tls.early.offered += u64::from(self.client.offers_early_data(flow));
                self.pump(state, flow, now_ns);
                self.flush(state, flow, now_ns);
            }
            Err(reason) => {
                self.quic.failed(&reason);
                self.failed(state, flow, Loss::Local, now_ns);
            }
        }
    }

    /// An attempt failed. The queries that waited for it are lost, and the next attempt may have to wait.
    pub(super) fn failed(&mut self, state: &mut ThreadState<'_>, flow: usize, loss: Loss, now_ns: u64) {
        let place = &mut self.places[flow];
        let clock_ns = state.clock.clock_ns(now_ns);
        let took_ns = clock_ns.saturating_sub(place.began_ns);
        self.attempts.failed(flow, &mut place.tries, loss, took_ns, clock_ns);
        self.clear(state, flow, loss, now_ns);
    }

    /// Does what is due at places: timers of their connections, the end of attempts that took too long, and of pauses.
    /// `is_loading` is whether the load runs.
    pub(in super::super) fn expire(&mut self, state: &mut ThreadState<'_>, is_loading: bool) {
        let now_ns = state.now_ns();
        let clock_ns = state.clock.clock_ns(now_ns);
        while let Some(flow) = self.attempts.timers.take_due(clock_ns) {
            self.timer(state, flow, now_ns, is_loading);
        }
    }

    fn timer(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64, is_loading: bool) {
        let clock_ns = state.clock.clock_ns(now_ns);
        let place = &mut self.places[flow];
        if self.client.has_connection(flow) {
            let gives_up_ns = place.began_ns.saturating_add(self.attempts.connect_timeout_ns);
            if !place.is_open && gives_up_ns <= clock_ns {
                self.client.close(flow, clock_ns);
                self.pass_on(flow, clock_ns);
                self.failed(state, flow, Loss::ConnectTimeout, now_ns);
            } else if self.client.due_ns(flow).is_some_and(|due_ns| due_ns <= clock_ns) {
                self.client.expire(flow, clock_ns);
                self.happened(state, flow, now_ns, now_ns);
                self.flush(state, flow, now_ns);
            } else {
                self.schedule(flow);
            }
        } else if place.tries.paused_until_ns.is_some_and(|until_ns| until_ns <= clock_ns) {
            place.tries.paused_until_ns = None;
            let is_kept = self.attempts.uses_of_connection.is_none();
            if !place.waiting.is_empty() || (is_kept && is_loading) {
                self.connect(state, flow, now_ns);
            }
        } else {
            self.schedule(flow);
        }
    }
}
