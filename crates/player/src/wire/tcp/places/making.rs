//! How connections are made: the kept ones before the load begins, all others when a query needs them, and a failed one
//! again after a pause.

use std::io;

use super::{Place, Places, Sockets};
use crate::loss::{Loss, by_error};
use crate::state::ThreadState;
use crate::thread::NAP_LONGEST_NS;
use crate::wire::attempts::OPENING_AT_ONCE;
use crate::wire::tcp::connection::Connection;
use crate::wire::tcp::kernel::Origin;
use crate::wire::tcp::layer::{Ends, Layer};

impl<L: Layer, S: Sockets> Places<L, S> {
    /// Opens the connections that are kept, before the load begins. Those that fail, or are left when opening is in
    /// vain, are tried again when the load needs them. `is_stopped` ends it early.
    pub(super) fn make_kept(
        &mut self,
        state: &mut ThreadState<'_>,
        is_stopped: impl Fn() -> bool,
    ) -> io::Result<()> {
        if self.attempts.uses_of_connection.is_some() || self.follows_capture() {
            return Ok(());
        }
        let (mut next, mut made_ns) = (0, None);
        while !is_stopped() {
            let is_vain = self.attempts.are_vain();
            while !is_vain && next < self.places.len() && self.attempts.unfinished() < OPENING_AT_ONCE {
                self.connect(state, next, state.now_ns());
                next += 1;
            }
            if self.attempts.unfinished() == 0 && (is_vain || next == self.places.len()) {
                let now_ns = state.now_ns();
                let waited_ns = now_ns.saturating_sub(*made_ns.get_or_insert(now_ns));
                if self.have_settings() || waited_ns > self.attempts.connect_timeout_ns {
                    break;
                }
            }
            let timer_ns = self.next_timer_ns(state.now_ns()).unwrap_or(NAP_LONGEST_NS);
            S::look(self, state, timer_ns.min(NAP_LONGEST_NS))?;
            self.tend_places(state, state.now_ns(), false)?;
        }
        self.attempts.counts.before_load = self.attempts.counts.established;
        // The clock of the load is another one.
        self.attempts.forget_times();
        for place in &mut self.places {
            place.tries.paused_until_ns = None;
        }
        Ok(())
    }

    /// Whether all peers have said how many messages they take at once.
    fn have_settings(&self) -> bool {
        let mut open = self.places.iter().filter_map(|place| place.connection.as_ref());
        !L::HAS_STREAMS || open.all(|connection| connection.layer.has_settings())
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) {
        let place = &mut self.places[flow];
        place.tries.paused_until_ns = None;
        self.attempts.counts.attempts += 1;
        state.books.connecting();
        let (to, from, mut tried) = ((place.to, place.target), place.from, 0);
        let sockets = &mut self.sockets;
        let begun = if let Some(ports) = &mut self.ports {
            let counts = (&mut tried, &mut self.attempts.counts.ports_in_use);
            ports.connect((flow, from), counts, |pair| sockets.connect(Origin::Pair(pair), to, flow))
        } else {
            let begun = sockets.connect(Origin::Address(from), to, flow);
            begun.and_then(|socket| socket.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
        };
        match begun {
            Ok(socket) => {
                place.connection = Some(Connection::new(socket, state.clock.clock_ns(now_ns), tried));
                let gives_up_ns = now_ns.saturating_add(self.attempts.connect_timeout_ns);
                self.attempts.timers.set(flow, gives_up_ns);
            }
            Err(error) => self.failed(state, flow, by_error(&error), now_ns),
        }
    }

    /// Begins an attempt again from the next pair that is not in use, if the player deals them. Otherwise, or if that
    /// fails, returns why the attempt has failed; `in_use` is why the pair before did not do.
    fn connect_again(&mut self, flow: usize, in_use: io::Error) -> io::Result<()> {
        let Place { to, target, from, connection: Some(connection), .. } = &mut self.places[flow] else {
            return Err(in_use);
        };
        let Some(ports) = &mut self.ports else { return Err(in_use) };
        let ports_in_use = &mut self.attempts.counts.ports_in_use;
        *ports_in_use += 1;
        let counts = (&mut connection.pairs_tried, ports_in_use);
        let (to, from, sockets) = ((*to, *target), *from, &mut self.sockets);
        let socket =
            ports.connect((flow, from), counts, |pair| sockets.connect(Origin::Pair(pair), to, flow))?;
        self.sockets.end(std::mem::replace(&mut connection.socket, socket));
        Ok(())
    }

    /// An attempt failed. The queries that waited for it are lost, and the next attempt may have to wait.
    pub(super) fn failed(&mut self, state: &mut ThreadState<'_>, flow: usize, loss: Loss, now_ns: u64) {
        let place = &mut self.places[flow];
        let clock_ns = state.clock.clock_ns(now_ns);
        let took_ns = place.connection.as_ref().map_or(0, |one| clock_ns.saturating_sub(one.began_ns));
        let connecting = place.connection.as_ref().filter(|one| one.connected_ns.is_none());
        let is_lost = connecting.is_some_and(|one| self.sockets.has_lost_syn(&one.socket, took_ns));
        self.attempts.counts.lost_syns += u64::from(is_lost);
        self.attempts.failed(flow, &mut place.tries, loss, took_ns, now_ns);
        self.clear(state, flow, loss, now_ns);
    }

    /// Takes the outcome of connecting. Returns whether the connection goes on.
    pub(in crate::wire::tcp) fn connected(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        outcome: io::Result<()>,
        now_ns: u64,
    ) -> bool {
        if let Err(error) = outcome {
            // A pair that is bound may still be in use by a connection to the same target.
            let is_in_use = error.kind() == io::ErrorKind::AddrNotAvailable;
            let again = if is_in_use { self.connect_again(flow, error) } else { Err(error) };
            if let Err(error) = again {
                self.failed(state, flow, by_error(&error), now_ns);
            }
            return false;
        }
        let place = &mut self.places[flow];
        let Some(connection) = &mut place.connection else { return false };
        let clock_ns = state.clock.clock_ns(now_ns);
        let took_ns = clock_ns - connection.began_ns;
        connection.connected_ns = Some(clock_ns);
        self.attempts.counts.connect.record_us(took_ns / 1000);
        let is_lost = self.sockets.has_lost_syn(&connection.socket, took_ns);
        self.attempts.counts.lost_syns += u64::from(is_lost);
        let ends = Ends { from: place.from, target: place.target };
        let begun = connection.layer.begin(&self.shared, ends, &place.output);
        let offers_early_data = connection.layer.takes_early_data();
        if let Some(tls) = self.attempts.counts.tls.as_mut().filter(|_| offers_early_data) {
            tls.early.offered += 1;
        }
        if let Err(fault) = begun {
            self.layer_failed(state, flow, &fault, now_ns);
            return false;
        }
        self.open_if_ready(state, flow, now_ns);
        true
    }

    /// Notes that a connection is open, if its layer just opened. Returns whether it did.
    #[inline]
    pub(super) fn open_if_ready(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) -> bool {
        let Place { connection: Some(connection), stands_for, .. } = &mut self.places[flow] else {
            return false;
        };
        if connection.is_open || !connection.layer.is_open() {
            return false;
        }
        connection.is_open = true;
        connection.opened_ns = now_ns;
        if let Some(key) = stands_for.take() {
            state.books.established(flow, key, now_ns);
        }
        self.attempts.counts.established += 1;
        let clock_ns = state.clock.clock_ns(now_ns);
        state.books.connected(clock_ns.saturating_sub(connection.began_ns));
        let took_ns = clock_ns - connection.connected_ns.unwrap_or(clock_ns);
        connection.layer.count_opened(took_ns / 1000, self.attempts.counts.tls.as_mut());
        true
    }
}
