//! A connection of QUIC: the queries that it brings, what becomes of each, and how it ends. When the server closes it,
//! nothing more can be read from it, so queries that were on their way then are not in the server's counts.

mod ending;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use bytes::Bytes;
use kqps_kernel::clock;
use quinn_proto::{ConnectionEvent, Dir, EndpointEvent, Event, ReadError, StreamEvent, StreamId, VarInt};

use super::line::Line;
use crate::streams::fault::{Fault, Stage};
use crate::streams::outbox::SentReply;
use crate::streams::reply::{self, APART_NS, HELD_NS, JOINED};
use crate::streams::shared::{Shared, note};

/// Error codes of DNS over QUIC (RFC 9250, section 4.3).
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 1;
const EXCESSIVE_LOAD: u32 = 4;

/// A reply with its length, or a part of it, on its stream.
struct Piece {
    stream: StreamId,
    bytes: Vec<u8>,
    is_last: bool,
    /// The number of the query that it answers, if the time of its reply is noted.
    query: Option<usize>,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    GoesOn,
    /// The server knows nothing more of it.
    Forgotten,
}

/// A connection that was accepted.
pub(super) struct Connection {
    inner: quinn_proto::Connection,
    /// The fault of its handshake.
    spoiled: Option<Fault>,
    /// Streams whose query has not arrived whole.
    partial: HashMap<StreamId, Vec<u8>>,
    /// Queries without a reply.
    open: u64,
    /// Streams whose reply was written and not yet acknowledged.
    unacknowledged: HashSet<StreamId>,
    joined: Vec<Piece>,
    after_next: Option<Piece>,
    held_until_ns: u64,
    /// Pieces that leave later, by their time and in order.
    later: BTreeMap<(u64, u64), Piece>,
    laters: u64,
    /// The cause by which the server has begun to end it.
    ending: Option<&'static str>,
    has_ended: bool,
    /// Whether the server neither reads nor sends anything any more.
    is_silent: bool,
    /// When it gets another turn at the latest; `u64::MAX` if it waits for its player.
    wakes_at_ns: u64,
    packet: Vec<u8>,
}

impl Connection {
    pub(super) fn new(mut inner: quinn_proto::Connection, spoiled: Option<Fault>, at: Instant) -> Self {
        if spoiled == Some(Fault::HandshakeClose) {
            inner.close(at, VarInt::from_u32(NO_ERROR), Bytes::new());
        }
        Self {
            inner,
            // A confirmed address spoils nothing.
            spoiled: spoiled.filter(|fault| *fault != Fault::Retry),
            partial: HashMap::new(),
            open: 0,
            unacknowledged: HashSet::new(),
            joined: Vec::new(),
            after_next: None,
            held_until_ns: 0,
            later: BTreeMap::new(),
            laters: 0,
            ending: None,
            // The end of an attempt that the server closes at once is counted with its fault.
            has_ended: spoiled == Some(Fault::HandshakeClose),
            is_silent: false,
            wakes_at_ns: u64::MAX,
            packet: Vec::new(),
        }
    }

    /// Whether it is over, and counted.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes a datagram, or what the endpoint has for it.
    pub(super) fn take(&mut self, event: ConnectionEvent) {
        if !self.is_silent {
            self.inner.handle_event(event);
        }
    }

    pub(super) fn next_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.inner.poll_endpoint_events()
    }

    /// Does what QUIC has to do by now.
    pub(super) fn expire(&mut self, at: Instant, now_ns: u64) {
        if self.wakes_at_ns <= now_ns {
            self.wakes_at_ns = u64::MAX;
        }
        if !self.is_silent {
            self.inner.handle_timeout(at);
        }
    }

    /// Answers what arrived, and sends what is due.
    pub(super) fn turn(&mut self, shared: &mut Shared, line: &mut Line, now: (Instant, u64)) -> Turn {
        while let Some(event) = self.inner.poll() {
            match event {
                Event::Connected => shared.counts.handshakes += 1,
                Event::ConnectionLost { .. } => self.lost(shared),
                Event::Stream(_) if shared.settings.deaf => {}
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(stream) = self.inner.streams().accept(Dir::Bi) {
                        self.read(stream, shared, line, now);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, shared, line, now),
                Event::Stream(StreamEvent::Finished { id }) => {
                    self.unacknowledged.remove(&id);
                }
                // The player has given the query up.
                Event::Stream(StreamEvent::Stopped { id, .. }) => self.reset(id, NO_ERROR),
                _ => {}
            }
        }
        if self.ending == Some("reset") {
            return Turn::Forgotten;
        }
        self.release(shared, line, now);
        self.transmit(line, now.0);
        Turn::GoesOn
    }

    /// When it must have another turn, if that is earlier than the last time that this returned.
    pub(super) fn due_ns(&mut self, origin: Instant) -> Option<u64> {
        if self.is_silent {
            return None;
        }
        let of_quic = self.inner.poll_timeout();
        let of_quic_ns = of_quic.map(|at| at.saturating_duration_since(origin).as_nanos() as u64);
        let is_held = !self.joined.is_empty() || self.after_next.is_some();
        let held_ns = is_held.then_some(self.held_until_ns);
        let later_ns = self.later.first_key_value().map(|((due_ns, _), _)| *due_ns);
        // A connection that ends keeps its waiting replies for good.
        let [held_ns, later_ns] = [held_ns, later_ns].map(|due_ns| due_ns.filter(|_| self.releases()));
        let due_ns = [of_quic_ns, held_ns, later_ns].into_iter().flatten().min()?;
        if due_ns >= self.wakes_at_ns {
            return None;
        }
        self.wakes_at_ns = due_ns;
        Some(due_ns)
    }

    /// Reads what arrived on a stream, and answers its query once that is whole.
    fn read(&mut self, stream: StreamId, shared: &mut Shared, line: &mut Line, now: (Instant, u64)) {
        if self.has_ended {
            // Its queries were counted. This one was on its way.
            return;
        }
        let mut bytes = self.partial.remove(&stream).unwrap_or_default();
        let mut receiving = self.inner.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return };
        let is_whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(ReadError::Blocked) => break false,
                Err(ReadError::Reset(_)) => {
                    // The player has given the query up before it was whole.
                    let _ = chunks.finalize();
                    return;
                }
            }
        };
        let _ = chunks.finalize();
        if !is_whole {
            self.partial.insert(stream, bytes);
        } else if let Some(message) = bytes.get(2..) {
            self.asked(stream, message.to_vec(), shared, line, now);
        }
    }

    /// Draws the fault of a query, and begins to answer.
    fn asked(
        &mut self,
        stream: StreamId,
        query: Vec<u8>,
        shared: &mut Shared,
        line: &mut Line,
        now: (Instant, u64),
    ) {
        if !reply::is_query(&query) {
            shared.counts.not_queries += 1;
            return;
        }
        let number = shared.counts.queries as usize;
        shared.counts.queries += 1;
        self.open += 1;
        if self.spoiled == Some(Fault::Silent) {
            self.fall_silent(shared);
        }
        if self.ending.is_some() {
            return;
        }
        let fault = shared.settings.plan.of_query(&mut shared.random);
        shared.counts.add(fault);
        match fault {
            None => self.answer_right(stream, query, number, shared, now.1),
            Some(fault) if fault.stage() == Stage::End => self.end(fault, stream, query, shared, line, now.0),
            Some(fault) => self.answer_wrong(fault, stream, query, shared, now.1),
        }
    }

    fn answer_right(
        &mut self,
        stream: StreamId,
        query: Vec<u8>,
        number: usize,
        shared: &mut Shared,
        now_ns: u64,
    ) {
        let due_ns = shared.reply_due_ns(&query, now_ns);
        let mut piece = whole(stream, &reply::right(query));
        if shared.settings.witness || due_ns.is_some() {
            self.open -= 1;
            piece.query = shared.settings.witness.then_some(number);
            self.push_later(due_ns.unwrap_or(now_ns), piece);
        } else {
            self.reply(&piece);
        }
    }

    /// Answers a query at once, and after it the one that waited for the next reply.
    fn reply(&mut self, piece: &Piece) {
        self.open -= 1;
        self.write(piece);
        if let Some(waited) = self.after_next.take() {
            self.write(&waited);
        }
    }

    /// Answers with a fault that leaves the connection as it is.
    fn answer_wrong(
        &mut self,
        fault: Fault,
        stream: StreamId,
        query: Vec<u8>,
        shared: &mut Shared,
        now_ns: u64,
    ) {
        match fault {
            Fault::Split => {
                self.open -= 1;
                self.split(whole(stream, &reply::right(query)), shared, now_ns);
            }
            Fault::Join => {
                self.open -= 1;
                self.joined.push(whole(stream, &reply::right(query)));
                self.held_until_ns = now_ns + HELD_NS;
                if self.joined.len() == JOINED as usize {
                    self.release_joined();
                }
            }
            Fault::Reorder if self.after_next.is_none() => {
                self.open -= 1;
                self.after_next = Some(whole(stream, &reply::right(query)));
                self.held_until_ns = now_ns + HELD_NS;
            }
            Fault::NotZero => self.reply(&whole(stream, &reply::with_wrong_id(query))),
            Fault::WrongQuestion => self.reply(&whole(stream, &reply::with_wrong_question(query))),
            Fault::Late => {
                self.open -= 1;
                let due_ns = now_ns + shared.settings.late_us * 1000;
                self.push_later(due_ns, whole(stream, &reply::right(query)));
            }
            Fault::Never => {}
            Fault::StreamRefused | Fault::StreamFailed => {
                let (code, words) = if fault == Fault::StreamRefused {
                    (EXCESSIVE_LOAD, "stream reset with 0x4")
                } else {
                    (INTERNAL_ERROR, "stream reset with 0x1")
                };
                self.open -= 1;
                shared.counts.reset_stream(words);
                self.reset(stream, code);
            }
            // Another reply waits already, and leaves after this one.
            _ => self.reply(&whole(stream, &reply::right(query))),
        }
    }

    /// Sends a reply in two pieces. The cut steps through all offsets of the reply with its length.
    fn split(&mut self, mut piece: Piece, shared: &mut Shared, now_ns: u64) {
        let at = 1 + shared.next_split() % (piece.bytes.len() - 1);
        shared.counts.cut_at.insert(at);
        shared.counts.longest_cut = shared.counts.longest_cut.max(piece.bytes.len());
        let second = Piece { bytes: piece.bytes.split_off(at), ..whole(piece.stream, &[]) };
        piece.is_last = false;
        self.write(&piece);
        self.push_later(now_ns + APART_NS, second);
    }

    fn push_later(&mut self, due_ns: u64, piece: Piece) {
        self.later.insert((due_ns, self.laters), piece);
        self.laters += 1;
    }

    /// Writes what has waited long enough.
    fn release(&mut self, shared: &mut Shared, line: &mut Line, (at, now_ns): (Instant, u64)) {
        if !self.releases() {
            return;
        }
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now_ns) {
            let piece = entry.remove();
            self.write(&piece);
            if let Some(query) = piece.query {
                let before_ns = clock::now_ns();
                self.transmit(line, at);
                note(&mut shared.witness, &SentReply { query, before_ns, after_ns: clock::now_ns() });
            }
        }
        if self.held_until_ns <= now_ns {
            self.release_joined();
            if let Some(waited) = self.after_next.take() {
                self.write(&waited);
            }
        }
    }

    /// Whether waiting replies still leave.
    fn releases(&self) -> bool {
        self.ending.is_none() && !self.has_ended && !self.is_silent
    }

    fn release_joined(&mut self) {
        for piece in std::mem::take(&mut self.joined) {
            self.write(&piece);
        }
    }

    /// Writes to a stream. A player gives it up only when its query is lost by time.
    fn write(&mut self, piece: &Piece) {
        let mut sending = self.inner.send_stream(piece.stream);
        // Its window is larger than a reply.
        let _ = sending.write(&piece.bytes);
        if piece.is_last && sending.finish().is_ok() {
            self.unacknowledged.insert(piece.stream);
        }
    }

    fn reset(&mut self, stream: StreamId, code: u32) {
        self.unacknowledged.remove(&stream);
        // It may have ended already.
        let _ = self.inner.send_stream(stream).reset(VarInt::from_u32(code));
    }

    /// Sends the packets that there are.
    fn transmit(&mut self, line: &mut Line, at: Instant) {
        if self.is_silent {
            return;
        }
        loop {
            self.packet.clear();
            let Some(transmit) = self.inner.poll_transmit(at, 1, &mut self.packet) else { return };
            line.send(&self.packet[..transmit.size], transmit.destination);
        }
    }
}

/// The whole of a reply.
fn whole(stream: StreamId, message: &[u8]) -> Piece {
    Piece { stream, bytes: reply::framed(message), is_last: true, query: None }
}
