//! Connections by TCP to many addresses. Each knows the address that its client connected to, and so the server that
//! answers on it. Replies leave when their delays are over, whole or in pieces, and a server may refuse connections.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use kqps_kernel::clock::{self, now_ns};
use kqps_kernel::poll::{FOREVER_NS, PollSet};
use kqps_message::header::{HEADER_BYTES, QR};
use mio::{Events, Poll, Token, Waker};

use super::book::{Book, Over};
use super::census::Census;
use super::stream::InternetStream;
use super::tally::Tally;
use super::tree::{TcpConduct, Tree};
use super::waiting::{SHORT_BYTES, Waiting};
use crate::connections::frame::{self, FRAME_BYTES, LENGTH_BYTES, first_message};
use crate::connections::{Accepting, End, Keeper, Limits, TcpReport};
use crate::counts::{Cause, Counts};
use crate::sockets::ListeningSocket;
use crate::worker::StopFlag;

/// Events per call.
const EVENTS: usize = 1024;

/// If the system has no free descriptor, idle connections make room.
const ACCEPTING: Accepting = Accepting { in_turn: 64, spare: 8, goes_on: true };

const WAKER: Token = Token(0);
const FIRST: Token = Token(1);

/// Pieces of replies that may wait at one time.
const WAITING: usize = 1 << 16;

/// The shortest time between two pieces of a reply, nanoseconds: longer than a tick of the wheel, so that pieces stay in
/// order.
const GAP_LEAST_NS: u64 = 10_000;

/// The receiver of a piece: a connection, and whether the piece is the last of its reply.
#[derive(Clone, Copy)]
struct Receiver {
    slot: usize,
    /// The number of connections that had the slot before.
    turn: u32,
    is_last: bool,
}

pub(super) struct StreamLoop {
    poll: Poll,
    keeper: Keeper<InternetStream>,
    idle_ns: u64,
    tree: Arc<dyn Tree>,
    tally: Arc<Tally>,
    census: Census,
    counts: Counts,
    waiting: Waiting<Receiver>,
    /// Replies to open connections that wait for their time, whole or in part.
    under_way: usize,
    /// Connections with pieces that are due, and when a piece was due that ends a reply.
    released: Vec<(usize, Option<u64>)>,
    input: Box<[u8]>,
    reply: Vec<u8>,
    framed: Vec<u8>,
}

impl StreamLoop {
    /// Accepts connections on these sockets. The waker ends a wait.
    pub(super) fn new(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        tree: Arc<dyn Tree>,
        book: &Book,
    ) -> io::Result<(Self, Arc<Waker>)> {
        let poll = Poll::new()?;
        let keeper = Keeper::new(listeners, limits, ACCEPTING, poll.registry(), FIRST)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let tally = book.begin(Over::Tcp, tree.faults().len());
        let this = Self {
            poll,
            keeper,
            idle_ns: limits.idle_ns(),
            tree,
            tally,
            census: Census::new(),
            counts: Counts::default(),
            waiting: Waiting::new(WAITING, now_ns()),
            under_way: 0,
            released: Vec::new(),
            input: vec![0; 2 * FRAME_BYTES].into(),
            reply: Vec::with_capacity(FRAME_BYTES),
            framed: Vec::with_capacity(FRAME_BYTES),
        };
        Ok((this, waker))
    }

    /// Serves until it is stopped. Returns the counts of connections, and gives all others to the book.
    pub(super) fn serve(mut self, book: &Book, stop: &StopFlag) -> io::Result<TcpReport> {
        let _ = clock::set_timer_slack_ns(1);
        let mut events = Events::with_capacity(EVENTS);
        // Polling has a resolution of 1 ms, so the poller is a descriptor of a finer poll.
        let descriptor = self.poll.as_raw_fd();
        let mut set = PollSet::new([&descriptor]);
        while !stop.is_set() {
            let now_ns = now_ns();
            let timeout_ns =
                self.next_ns(now_ns).map_or(FOREVER_NS, |next_ns| next_ns.saturating_sub(now_ns));
            if set.wait(timeout_ns)? {
                match self.poll.poll(&mut events, Some(std::time::Duration::ZERO)) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                    Err(_) => events.clear(),
                    Ok(()) => {}
                }
            } else {
                events.clear();
            }
            self.turn(&events);
        }
        self.counts.drop_many(Cause::Stopped, self.under_way as u64);
        self.keeper.close();
        self.tally.note(&self.counts, 0);
        book.end(self.census);
        Ok(self.keeper.report(&self.counts))
    }

    /// When something is due even without events.
    fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let oldest = self.keeper.connections.oldest();
        let idle_ns =
            oldest.map(|(active_ns, _)| active_ns.saturating_add(self.idle_ns).max(now_ns + 1_000_000));
        let ready_ns = (self.keeper.ready() > 0).then_some(now_ns);
        [self.waiting.next_ns(), self.keeper.due_ns(now_ns), idle_ns, ready_ns].into_iter().flatten().min()
    }

    fn turn(&mut self, events: &Events) {
        let now_ns = now_ns();
        self.release(now_ns);
        for event in events {
            let Some(place) = event.token().0.checked_sub(FIRST.0) else { continue };
            let Some((slot, stream)) = self.keeper.note(place) else { continue };
            stream.note(event);
            if event.is_writable() {
                self.write(slot, now_ns);
            }
        }
        self.keeper.accept(self.poll.registry(), now_ns);
        for _ in 0..self.keeper.ready() {
            if let Some(slot) = self.keeper.next_ready() {
                self.read(slot, now_ns);
            }
        }
        self.tally.note(&self.counts, self.under_way);
        self.look(now_ns);
    }

    /// Reads what a connection has, and answers queries until too much waits for the client. The others stay for later.
    fn read(&mut self, slot: usize, now_ns: u64) {
        let Some(stream) = self.keeper.connections.get_mut(slot) else { return };
        if stream.is_new {
            match stream.begin(&*self.tree) {
                Ok(TcpConduct::Refuse { fault }) => {
                    if let Some(fault) = fault {
                        self.tally.add_fault(fault);
                    }
                    return self.end(slot, End::Refused);
                }
                Ok(_) => {}
                Err(_) => return self.end(slot, End::Broken),
            }
        }
        let filled = match stream.fill(&mut self.input) {
            Ok(filled) => filled,
            Err(end) => return self.end(slot, end),
        };
        let mut used = 0;
        while self.keeper.connections.get_mut(slot).is_some_and(|stream| !stream.is_paused())
            && let Some(message) = first_message(&self.input[used..filled])
        {
            let bytes = message.len();
            if bytes < HEADER_BYTES {
                return self.end(slot, End::NotDns);
            }
            self.counts.received += 1;
            let start = used + LENGTH_BYTES;
            used = start + bytes;
            if let Err(cause) = self.answer(slot, start..used, now_ns) {
                self.counts.drop(cause);
            }
        }
        let Some(stream) = self.keeper.connections.get_mut(slot) else { return };
        stream.keep(&self.input[used..filled]);
        if used > 0 {
            stream.active_ns = now_ns;
        }
        self.write(slot, now_ns);
    }

    /// Answers the query in this range of the input: at once, or later. Returns the reason if there is no answer.
    fn answer(&mut self, slot: usize, range: std::ops::Range<usize>, now_ns: u64) -> Result<(), Cause> {
        let turn = self.keeper.connections.turn(slot);
        let Some(stream) = self.keeper.connections.get_mut(slot) else { return Err(Cause::ClientGone) };
        let query = &self.input[range];
        if query[2] & QR != 0 {
            return Err(Cause::IsResponse);
        }
        self.reply.clear();
        let answer = self.tree.answer(stream.server, query, true, &mut self.reply);
        self.tally.add(&answer);
        self.census.add(stream.server, query);
        if self.reply.is_empty() {
            return Err(Cause::Withheld);
        }
        let (piece_bytes, gap_ns) = match stream.conduct {
            TcpConduct::Slow { piece_bytes, gap_ns } => {
                (usize::from(piece_bytes).clamp(1, SHORT_BYTES), gap_ns.max(GAP_LEAST_NS))
            }
            TcpConduct::Usual | TcpConduct::Refuse { .. } if answer.delay_ns == 0 => {
                stream.output.append(&self.reply);
                self.counts.answered += 1;
                return Ok(());
            }
            TcpConduct::Usual | TcpConduct::Refuse { .. } => (usize::MAX, 0),
        };
        self.framed.clear();
        frame::append(&mut self.framed, &self.reply);
        let due_ns = now_ns.saturating_add(answer.delay_ns);
        let pieces = self.framed.len().div_ceil(piece_bytes);
        if self.waiting.len() + pieces > WAITING {
            return Err(Cause::OverloadNewest);
        }
        // Pieces of two replies must not mix.
        let mut at_ns = if gap_ns == 0 { due_ns } else { due_ns.max(stream.busy_until_ns) };
        for (number, piece) in self.framed.chunks(piece_bytes).enumerate() {
            let receiver = Receiver { slot, turn, is_last: number + 1 == pieces };
            // Only a whole reply can be too long for the rooms that are free: pieces are short.
            if !self.waiting.hold(receiver, piece, at_ns) {
                return Err(Cause::OverloadNewest);
            }
            at_ns += gap_ns;
        }
        if gap_ns > 0 {
            stream.busy_until_ns = at_ns;
        }
        stream.outstanding += 1;
        stream.outstanding_bytes += self.framed.len();
        self.under_way += 1;
        Ok(())
    }

    /// Writes the pieces that are due.
    fn release(&mut self, now_ns: u64) {
        let Self { waiting, keeper, counts, released, under_way, .. } = self;
        waiting.release(now_ns, |Receiver { slot, turn, is_last }, piece, due_ns| {
            let is_same = keeper.connections.turn(slot) == turn;
            let Some(stream) = keeper.connections.get_mut(slot).filter(|_| is_same) else { return };
            stream.output.extend(piece);
            stream.outstanding_bytes -= piece.len();
            if is_last {
                stream.outstanding -= 1;
                *under_way -= 1;
                counts.answered += 1;
            }
            released.push((slot, is_last.then_some(due_ns)));
        });
        for index in 0..self.released.len() {
            let (slot, due_ns) = self.released[index];
            if let Some(due_ns) = due_ns {
                self.census.lateness.add(clock::now_ns().saturating_sub(due_ns));
            }
            self.write(slot, now_ns);
        }
        self.released.clear();
    }

    /// Writes what a connection has, and ends the connection if it is over.
    fn write(&mut self, slot: usize, now_ns: u64) {
        let Some(stream) = self.keeper.connections.get_mut(slot) else { return };
        match stream.write(now_ns) {
            Err(end) => self.end(slot, end),
            Ok(()) => match stream.is_over() {
                Some(end) => self.end(slot, end),
                None if stream.can_go_on() => self.keeper.queue(slot),
                None => {}
            },
        }
    }

    /// Ends a connection. Its queries without an answer are counted.
    fn end(&mut self, slot: usize, end: End) {
        if let Some(stream) = self.keeper.connections.get_mut(slot) {
            let outstanding = std::mem::take(&mut stream.outstanding);
            self.counts.drop_many(Cause::ClientGone, outstanding as u64);
            self.under_way -= outstanding;
        }
        self.keeper.end(slot, end);
    }

    /// Closes connections without progress. One that waits for an answer is not idle.
    fn look(&mut self, now_ns: u64) {
        let Some(since_ns) = now_ns.checked_sub(self.idle_ns) else { return };
        while let Some(slot) = self.keeper.connections.inactive_since(since_ns) {
            let Some(stream) = self.keeper.connections.get_mut(slot) else { return };
            if stream.outstanding > 0 && stream.output.is_empty() {
                stream.active_ns = now_ns;
                continue;
            }
            let end = stream.output.end_in_time();
            self.end(slot, end);
        }
    }
}
