//! A connection of TCP: the queries that it brings, what becomes of each, and how it ends.

mod answering;
mod ending;

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;
use kqps_kernel::epoll::Interest;
use socket2::SockRef;

use super::fault::{Fault, Stage};
use super::http2::Http;
use super::kind::Kind;
use super::layer::Layer;
use super::outbox::{Outbox, Written};
use super::reply::{self, Query};
use super::shared::{Shared, note};

/// How the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// By FIN. What is open when the player has ended it too is lost by `closed`.
    Fin,
    /// In another way, by which queries are lost.
    By(&'static str),
    /// In its handshake.
    Handshake,
}

/// A connection that was accepted.
pub(super) struct Connection {
    pub(super) socket: TcpStream,
    /// Events of it that the kernel reports.
    pub(super) interest: Interest,
    layer: Layer,
    out: Outbox,
    /// The fault of its handshake, until its first bytes came.
    spoiled: Option<Fault>,
    /// Whether what it brings is of no interest any more, except for its end.
    is_deaf: bool,
    has_shaken_hands: bool,
    /// Queries without a reply.
    open: u64,
    /// Replies that wait for others, how many they are, and until when.
    joined: Vec<u8>,
    joined_replies: u32,
    /// A reply that waits for the next one.
    after_next: Option<Vec<u8>>,
    held_until_ns: u64,
    late: VecDeque<(u64, Vec<u8>)>,
    ending: Option<Ending>,
    /// When it gets another turn at the latest; `u64::MAX` if it waits for its player.
    wakes_at_ns: u64,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    GoesOn,
    Ended,
}

impl Connection {
    /// Draws the fault of its handshake, if it has one.
    pub(super) fn new(socket: TcpStream, shared: &mut Shared) -> Result<Self> {
        let settings = &shared.settings;
        let spoiled = settings.plan.of_handshake(&mut shared.random);
        let tls = settings.wire.accept(spoiled)?;
        let http = (settings.wire.kind() == Kind::Https).then(|| Http::new(settings.streams_most));
        Ok(Self {
            socket,
            interest: Interest::Read,
            layer: Layer::new(tls, http),
            out: Outbox::default(),
            spoiled,
            is_deaf: false,
            has_shaken_hands: false,
            open: 0,
            joined: Vec::new(),
            joined_replies: 0,
            after_next: None,
            held_until_ns: 0,
            late: VecDeque::new(),
            ending: None,
            wakes_at_ns: u64::MAX,
        })
    }

    /// Whether the server has begun to end it.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Reads what has arrived, answers it, and writes what is due.
    pub(super) fn turn(&mut self, shared: &mut Shared, now_ns: u64) -> Turn {
        let has_ended = self.read(shared, now_ns);
        if has_ended {
            self.finish(shared);
            return Turn::Ended;
        }
        self.go_on(shared, now_ns)
    }

    /// Releases what has waited long enough, and writes what is due.
    pub(super) fn go_on(&mut self, shared: &mut Shared, now_ns: u64) -> Turn {
        if self.wakes_at_ns <= now_ns {
            self.wakes_at_ns = u64::MAX;
        }
        self.release(now_ns);
        let witness = &mut shared.witness;
        let written = self.out.write(&self.socket, now_ns, |left| note(witness, &left));
        match written {
            Written::Reset => {
                // If it fails, the player reports an end by FIN, and the counts differ.
                let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
                self.finish(shared);
                return Turn::Ended;
            }
            // Bytes that the player sent before it went are still there to read.
            Written::Gone => self.out.clear(),
            Written::All | Written::NoRoom => {}
        }
        self.interest = match written {
            Written::NoRoom => Interest::Both,
            _ if shared.settings.deaf && self.is_deaf => Interest::End,
            _ => Interest::Read,
        };
        if let Some(due_ns) = self.due_ns(now_ns).filter(|due_ns| *due_ns < self.wakes_at_ns) {
            self.wakes_at_ns = due_ns;
            shared.wake_at(due_ns);
        }
        Turn::GoesOn
    }

    /// When something is due that is not due at `now_ns`.
    fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let out_ns = self.out.due_ns().filter(|due_ns| *due_ns > now_ns);
        if self.is_ending() {
            return out_ns;
        }
        let is_held = self.joined_replies > 0 || self.after_next.is_some();
        let late_ns = self.late.front().map(|(due_ns, _)| *due_ns);
        [out_ns, is_held.then_some(self.held_until_ns), late_ns].into_iter().flatten().min()
    }

    /// Reads what has arrived. Returns whether the player has ended the connection.
    fn read(&mut self, shared: &mut Shared, now_ns: u64) -> bool {
        loop {
            let bytes = match self.socket.read(&mut shared.buffer) {
                Ok(0) => return true,
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            };
            if let Some(fault) = self.spoiled.take() {
                self.spoil(fault, shared, now_ns);
            }
            if !self.is_deaf {
                let mut outgoing = Vec::new();
                let taken = self.layer.take(&shared.buffer[..bytes], &mut outgoing);
                if !outgoing.is_empty() {
                    self.out.push(&outgoing);
                }
                if !self.has_shaken_hands && self.layer.has_shaken_hands() {
                    self.has_shaken_hands = true;
                    // The player refuses a handshake that was spoiled, even if the server completes it.
                    shared.counts.handshakes += u64::from(self.ending != Some(Ending::Handshake));
                }
                if taken.is_err() {
                    // The player refuses a bad certificate by an alert.
                    shared.counts.broken += u64::from(self.ending != Some(Ending::Handshake));
                    self.is_deaf = true;
                }
                if shared.settings.deaf && self.layer.is_open() {
                    self.is_deaf = true;
                    return false;
                }
                while let Some(query) = self.layer.next_query() {
                    self.asked(query, shared, now_ns);
                }
            }
            if bytes < shared.buffer.len() {
                return false;
            }
        }
    }

    /// Draws the fault of a query, and begins to answer.
    fn asked(&mut self, query: Query, shared: &mut Shared, now_ns: u64) {
        if !reply::is_query(&query.message) {
            shared.counts.not_queries += 1;
            return;
        }
        let number = shared.counts.queries as usize;
        shared.counts.queries += 1;
        self.open += 1;
        if self.is_ending() {
            return;
        }
        let is_beyond = |most: u32| self.open + self.waiting() > u64::from(most);
        shared.counts.beyond_limit += u64::from(shared.settings.streams_most.is_some_and(is_beyond));
        let fault = shared.settings.plan.of_query(&mut shared.random);
        shared.counts.add(fault);
        match fault {
            None => self.answer_right(query, number, shared, now_ns),
            Some(fault) if fault.stage() == Stage::End => self.end(fault, query, shared, now_ns),
            Some(fault) => self.answer_wrong(fault, query, shared, now_ns),
        }
    }

    /// Replies that wait for others, or for their time.
    fn waiting(&self) -> u64 {
        self.late.len() as u64 + u64::from(self.joined_replies) + u64::from(self.after_next.is_some())
    }

    /// Counts how the connection ended, and its queries without a reply.
    fn finish(&self, shared: &mut Shared) {
        let counts = &mut shared.counts;
        counts.pending += self.waiting();
        match self.ending {
            Some(Ending::Fin) if self.open == 0 => counts.close("idle", 0),
            Some(Ending::Fin) => counts.close("closed", self.open),
            Some(Ending::By(cause)) => counts.close(cause, self.open),
            Some(Ending::Handshake) => {}
            None => counts.lose("time", self.open),
        }
    }
}
