//! One connection: the queries that it brings, what becomes of each, and how it ends.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;
use kqps_kernel::epoll::Interest;
use socket2::SockRef;

use super::fault::{Fault, Stage};
use super::layer::Layer;
use super::outbox::{Outbox, Then, Written};
use super::reply;
use super::shared::{Shared, note};

/// Replies that wait for each other leave together when they are this many.
const JOINED: u32 = 7;

/// The longest time that a reply waits for another one.
const HELD_NS: u64 = 2_000_000;

/// The time between the two pieces of a reply, and between half of it and a reset: long enough that a player reads the
/// first part alone.
const APART_NS: u64 = 300_000;

/// An alert in place of a handshake: `handshake_failure`, or `no_application_protocol` (RFC 8446, section 6.2).
const NO_HANDSHAKE: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];
const NO_PROTOCOL: [u8; 7] = [21, 3, 3, 0, 2, 2, 120];

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
    /// What the kernel reports of it.
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
        let plan = &shared.settings.plan;
        let spoiled = plan.of_handshake(&mut shared.random);
        let tls = shared.settings.wire.accept(spoiled)?;
        Ok(Self {
            socket,
            interest: Interest::Read,
            layer: Layer::new(tls),
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
            // What the player sent before it went is still there to read.
            Written::Gone => self.out.clear(),
            Written::All | Written::NoRoom => {}
        }
        self.interest = if written == Written::NoRoom { Interest::Both } else { Interest::Read };
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
                    shared.counts.handshakes += 1;
                }
                if taken.is_err() {
                    // The player refuses a bad certificate by an alert.
                    shared.counts.broken += u64::from(self.ending != Some(Ending::Handshake));
                    self.is_deaf = true;
                }
                while let Some(query) = self.layer.next_message() {
                    self.asked(query, shared, now_ns);
                }
            }
            if bytes < shared.buffer.len() {
                return false;
            }
        }
    }

    /// Spoils the handshake.
    fn spoil(&mut self, fault: Fault, shared: &mut Shared, now_ns: u64) {
        shared.counts.add(Some(fault));
        if let Some(cause) = fault.failure() {
            *shared.counts.failed.entry(cause).or_default() += 1;
        }
        self.ending = Some(Ending::Handshake);
        // A bad certificate comes in an ordinary handshake.
        self.is_deaf = !matches!(fault, Fault::OtherName | Fault::Expired | Fault::UnknownIssuer);
        match fault {
            Fault::HandshakeAlert => self.out.push_apart(NO_HANDSHAKE.to_vec(), 0, Some(Then::Fin)),
            Fault::OtherAlpn => self.out.push_apart(NO_PROTOCOL.to_vec(), 0, Some(Then::Fin)),
            Fault::PlainAnswer => self.out.push(&reply::framed(b"no message in TLS")),
            Fault::HandshakeReset => self.out.push_apart(Vec::new(), now_ns, Some(Then::Reset)),
            Fault::HandshakeClose => self.out.push_apart(Vec::new(), now_ns, Some(Then::Fin)),
            // A mute server sends nothing.
            _ => {}
        }
    }

    /// Draws the fault of a query, and begins to answer.
    fn asked(&mut self, query: Vec<u8>, shared: &mut Shared, now_ns: u64) {
        if !reply::is_query(&query) {
            shared.counts.not_queries += 1;
            return;
        }
        let number = shared.counts.queries as usize;
        shared.counts.queries += 1;
        self.open += 1;
        if self.is_ending() {
            return;
        }
        let fault = shared.settings.plan.of_query(&mut shared.random);
        shared.counts.add(fault);
        match fault {
            None => self.answer_right(query, number, shared, now_ns),
            Some(fault) if fault.stage() == Stage::End => self.end(fault, query, shared, now_ns),
            Some(fault) => self.answer_wrong(fault, query, shared, now_ns),
        }
    }

    fn answer_right(&mut self, query: Vec<u8>, number: usize, shared: &Shared, now_ns: u64) {
        let frame = reply::right(query);
        let delay_ns = shared.settings.delay_us * 1000;
        let due_ns = if delay_ns > 0 { now_ns + delay_ns } else { 0 };
        if shared.settings.witness {
            self.open -= 1;
            let bytes = self.layer.seal(&frame);
            self.out.push_noted(bytes, due_ns, number);
        } else if due_ns > 0 {
            self.open -= 1;
            let bytes = self.layer.seal(&frame);
            self.out.push_apart(bytes, due_ns, None);
        } else {
            self.reply(&frame);
        }
    }

    /// Answers a query at once, and after it the one that waited for the next reply.
    fn reply(&mut self, frame: &[u8]) {
        self.open -= 1;
        self.send(frame);
        if let Some(waited) = self.after_next.take() {
            self.send(&waited);
        }
    }

    /// Adds a frame to what leaves at once.
    fn send(&mut self, frame: &[u8]) {
        let bytes = self.layer.seal(frame);
        self.out.push(&bytes);
    }

    /// Answers with a fault that leaves the connection as it is.
    fn answer_wrong(&mut self, fault: Fault, query: Vec<u8>, shared: &mut Shared, now_ns: u64) {
        match fault {
            Fault::Split => {
                let frame = reply::right(query);
                self.open -= 1;
                self.split(&frame, shared, now_ns);
            }
            Fault::Join => {
                self.open -= 1;
                self.joined.extend(reply::right(query));
                self.joined_replies += 1;
                self.held_until_ns = now_ns + HELD_NS;
                if self.joined_replies == JOINED {
                    self.release_joined();
                }
            }
            Fault::Reorder if self.after_next.is_none() => {
                self.open -= 1;
                self.after_next = Some(reply::right(query));
                self.held_until_ns = now_ns + HELD_NS;
            }
            Fault::Twice => {
                let frame = reply::right(query);
                self.reply(&[&frame[..], &frame].concat());
            }
            Fault::Empty => self.reply(&[&[0_u8, 0][..], &reply::right(query)].concat()),
            Fault::WrongId => {
                let frame = reply::with_wrong_id(query);
                self.send(&frame);
            }
            Fault::WrongQuestion => self.reply(&reply::with_wrong_question(query)),
            Fault::Late => {
                self.open -= 1;
                self.late.push_back((now_ns + shared.settings.late_us * 1000, reply::right(query)));
            }
            Fault::Never => {}
            // One reply waits already, and leaves after this one.
            _ => self.reply(&reply::right(query)),
        }
    }

    /// Sends a reply in two pieces. The cut steps through all offsets; in TLS through those of the record, and then
    /// through those of the message, which is in two records then.
    fn split(&mut self, frame: &[u8], shared: &mut Shared, now_ns: u64) {
        let number = shared.next_split();
        // As long as the record, once one was cut.
        let whole = shared.counts.longest_cut.max(frame.len());
        let is_in_records = self.layer.is_secure() && (number / whole) % 2 == 1;
        let (first, second) = if is_in_records {
            let at = 1 + number % (frame.len() - 1);
            (self.layer.seal(&frame[..at]), self.layer.seal(&frame[at..]))
        } else {
            let mut first = self.layer.seal(frame);
            let at = 1 + number % (first.len() - 1);
            shared.counts.cut_at.insert(at);
            shared.counts.longest_cut = shared.counts.longest_cut.max(first.len());
            let second = first.split_off(at);
            (first, second)
        };
        self.out.push_apart(first, now_ns, None);
        self.out.push_apart(second, now_ns + APART_NS, None);
    }

    /// Ends the connection, instead of a reply or after it.
    fn end(&mut self, fault: Fault, query: Vec<u8>, shared: &mut Shared, now_ns: u64) {
        self.ending = Some(match fault {
            Fault::Reset | Fault::ResetInReply => Ending::By("reset"),
            Fault::Alert => Ending::By("tls-alert"),
            _ => Ending::Fin,
        });
        match fault {
            Fault::Reset => self.out.push_apart(Vec::new(), now_ns, Some(Then::Reset)),
            Fault::ResetInReply => {
                let mut bytes = self.layer.seal(&reply::right(query));
                bytes.truncate(bytes.len() / 2);
                self.out.push_apart(bytes, now_ns, None);
                self.out.push_apart(Vec::new(), now_ns + APART_NS, Some(Then::Reset));
            }
            Fault::HalfClose => {
                self.reply(&reply::right(query));
                self.close(true, now_ns);
            }
            Fault::TooLong => {
                self.send(&reply::too_long(query));
                self.close(true, now_ns);
            }
            Fault::Garbage => {
                self.send(&reply::garbage(query, &mut shared.random));
                self.close(true, now_ns);
            }
            Fault::Alert => {
                let bytes = self.layer.alert();
                self.is_deaf = true;
                self.out.push_apart(bytes, now_ns, Some(Then::Fin));
            }
            _ => self.close(fault != Fault::NoNotify, now_ns),
        }
    }

    /// Ends the connection by FIN, since the server refuses connections for a while.
    pub(super) fn refuse(&mut self, now_ns: u64) {
        if !self.is_ending() {
            self.ending = Some(Ending::Fin);
            self.close(true, now_ns);
        }
    }

    /// Closes the server's direction after what is to be written, and after `close_notify` if `notifies`.
    fn close(&mut self, notifies: bool, now_ns: u64) {
        if notifies {
            let bytes = self.layer.notify();
            self.out.push(&bytes);
        }
        self.out.push_apart(Vec::new(), now_ns, Some(Then::Fin));
    }

    /// Sends the replies that have waited long enough.
    fn release(&mut self, now_ns: u64) {
        if self.is_ending() {
            return;
        }
        while let Some((_, frame)) = self.late.pop_front_if(|(due_ns, _)| *due_ns <= now_ns) {
            self.send(&frame);
        }
        if self.held_until_ns <= now_ns {
            self.release_joined();
            if let Some(waited) = self.after_next.take() {
                self.send(&waited);
            }
        }
    }

    fn release_joined(&mut self) {
        let joined = std::mem::take(&mut self.joined);
        self.joined_replies = 0;
        if !joined.is_empty() {
            self.send(&joined);
        }
    }

    /// Counts how the connection ended, and its queries without a reply.
    fn finish(&self, shared: &mut Shared) {
        let counts = &mut shared.counts;
        counts.pending += self.late.len() as u64 + u64::from(self.joined_replies);
        counts.pending += u64::from(self.after_next.is_some());
        match self.ending {
            Some(Ending::Fin) => {
                let cause = if self.open > 0 { "closed" } else { "idle" };
                *counts.closed.entry(cause).or_default() += 1;
                counts.lose("closed", self.open);
            }
            Some(Ending::By(cause)) => {
                *counts.closed.entry(cause).or_default() += 1;
                counts.lose(cause, self.open);
            }
            Some(Ending::Handshake) => {}
            None => counts.lose("time", self.open),
        }
    }
}
