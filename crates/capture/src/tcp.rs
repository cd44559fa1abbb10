//! TCP put together again: the DNS messages of very many connections, in both directions (RFC 1035, section 4.2.2).
//!
//! For: segments in the order of a capture, which may begin in the middle of a connection, lose segments, repeat them
//! or show them in another order. Not for: headers of packets, or what is in a message beyond its header.
//!
//! A direction begins with its SYN, or with the first segment that begins with a plausible message. Segments that come
//! too soon wait for the bytes before them, up to limits of bytes, segments and time. Then the missing bytes are
//! skipped, and the direction begins again with the next segment that begins with a plausible message.
//!
//! Invariant: each segment has one outcome, and each message comes out once. Memory is bounded by [`Limits`] whatever
//! the segments are.

mod connection;
mod ends;
mod framing;
mod half;
mod ready;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use crate::counts::Why;
use crate::table::Table;
use connection::Connection;
use ends::Ends;
use half::GAP_NS;
use ready::Ready;

/// Bounds of the memory for connections. At a bound the connection that was used least recently goes first: of those
/// that ended, then of those without payload, as a flood of SYNs leaves them, then of the others.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Connections held, with those that ended lately. A connection takes 290 bytes, and 75 in the table of ends: 7 MiB
    /// for all.
    connections: usize,
    /// Bytes held for all connections: of messages that are not whole, and of segments that came too soon.
    held_bytes: usize,
}

const LIMITS: Limits = Limits { connections: 20_000, held_bytes: 4 << 20 };

/// The time in ns without a segment, captured time, after which a connection in a list is forgotten. It then counts as
/// closed, unless it was closed before.
const IDLE_NS: [(List, u64); 4] = [
    // As long as segments of a connection may be sent again after its end.
    (List::Closed, 10_000_000_000),
    (List::Fresh, 60_000_000_000),
    (List::Open, 300_000_000_000),
    (List::Holding, 300_000_000_000),
];

/// The list that a connection stands in. Each list is in the order of the last segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// It ended. What still comes of it belongs to no new connection.
    Closed,
    /// No payload so far.
    Fresh,
    /// No bytes held.
    Open,
    /// Bytes of a message that is not whole.
    Holding,
    /// Bytes are missing before those that came, or before the FINs of both ends; or one end sent its FIN, and the
    /// capture has nothing of the other one so far.
    Waiting,
}

const LISTS: usize = 5;

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are the flags of a header")]
pub(crate) struct Segment<'a> {
    pub(crate) at_ns: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) to_server: bool,
    pub(crate) sequence: u32,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
    /// The bytes behind the payload that the capture left out.
    pub(crate) missing: usize,
}

/// A message that a segment completed, or a connection that it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done<'a> {
    /// A message without its length prefix, of at least 12 bytes, whose QR bit is that of its direction. Its time is
    /// that of the segment with its last byte.
    Message {
        connection: u64,
        to_server: bool,
        client: SocketAddr,
        server: SocketAddr,
        at_ns: u64,
        bytes: &'a [u8],
    },
    /// The end of a connection: RST, FIN from both ends, a SYN that begins another connection between the same ends,
    /// silence, or a limit of memory.
    Closed {
        connection: u64,
        at_ns: u64,
        /// Whether it had a message.
        has_message: bool,
    },
}

/// All connections of a capture.
pub(crate) struct Streams {
    table: Table<Ends, Connection, LISTS>,
    ready: Ready,
    limits: Limits,
    held_bytes: usize,
    /// The latest time of a segment.
    now_ns: u64,
    /// Connections so far; the number of the next one.
    connections: u64,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self::with_limits(LIMITS)
    }

    fn with_limits(limits: Limits) -> Self {
        Self {
            table: Table::new(),
            ready: Ready::default(),
            limits,
            held_bytes: 0,
            now_ns: 0,
            connections: 0,
        }
    }

    /// Takes a segment. Returns how many messages it completed, or why it completed none. Messages that waited in a
    /// connection count for the segment that ended the wait, which may be one of another connection.
    ///
    /// In both cases [`Self::next`] returns the messages and the ends of connections. What it has not returned when the
    /// next segment is taken is forgotten.
    pub(crate) fn take(&mut self, segment: &Segment<'_>) -> Result<usize, Why> {
        self.ready.clear();
        self.now_ns = self.now_ns.max(segment.at_ns);
        self.expire();
        let why = self.place(segment);
        while self.held_bytes > self.limits.held_bytes {
            let Some(place) = self.oldest_of(&[List::Holding, List::Waiting]) else { break };
            self.remove(place, self.now_ns);
        }
        match self.ready.messages() {
            0 => Err(why),
            messages => Ok(messages),
        }
    }

    /// Gives up what one connection waits for, at the end of the capture. Returns how many messages that completed;
    /// `None` if no connection waits. [`Self::next`] returns the messages.
    pub(crate) fn finish(&mut self) -> Option<usize> {
        let (place, last_ns) = self.table.oldest(List::Waiting as usize)?;
        self.ready.clear();
        self.give_up(place, last_ns);
        Some(self.ready.messages())
    }

    /// Whether there is a connection between this client and this server.
    pub(crate) fn has(&self, client: SocketAddr, server: SocketAddr) -> bool {
        self.table.find(&Ends::between(client, server)).is_some()
    }

    /// The next message that the last segment completed, or the next connection that ended with it; `None` if there is
    /// no other.
    pub(crate) fn next(&mut self) -> Option<Done<'_>> {
        self.ready.next()
    }

    /// Hands a segment to its connection. Returns why it completed no message, if it did not.
    fn place(&mut self, segment: &Segment<'_>) -> Why {
        let ends = Ends::from_segment(segment);
        let mut found = self.table.find(&ends);
        if let Some(place) = found.filter(|&place| self.table.get(place).is_before(segment)) {
            self.remove(place, self.now_ns);
            found = None;
        }
        let begins = !segment.rst && (segment.syn || !segment.payload.is_empty() || segment.missing > 0);
        let place = match found {
            Some(place) => place,
            None if begins => self.open(ends),
            None => return Why::TcpControl,
        };
        let connection = self.table.get_mut(place);
        if connection.is_closed() {
            return connection.late(segment);
        }
        let held_before = connection.held_bytes();
        let why = connection.take(&ends, segment, &mut self.ready);
        self.held_bytes = self.held_bytes - held_before + connection.held_bytes();
        let list = connection.list();
        self.table.touch(place, list as usize, self.now_ns);
        why
    }

    fn open(&mut self, ends: Ends) -> u32 {
        const IN_USE: &[List] = &[List::Open, List::Holding, List::Waiting];
        while self.table.len() >= self.limits.connections {
            let orders = [&[List::Closed][..], &[List::Fresh], IN_USE];
            let Some(place) = orders.iter().find_map(|lists| self.oldest_of(lists)) else { break };
            self.remove(place, self.now_ns);
        }
        let number = self.connections;
        self.connections += 1;
        self.table.insert(ends, Connection::new(number), List::Fresh as usize, self.now_ns)
    }

    /// Forgets the connections that were idle for too long, and skips missing bytes that do not come.
    fn expire(&mut self) {
        for (list, idle_ns) in IDLE_NS {
            while let Some((place, last_ns)) = self.idle(list, idle_ns) {
                self.remove(place, last_ns.saturating_add(idle_ns));
            }
        }
        while let Some((place, last_ns)) = self.idle(List::Waiting, GAP_NS) {
            self.give_up(place, last_ns);
        }
    }

    /// Ends the wait of a connection for bytes, or for the other end.
    fn give_up(&mut self, place: u32, last_ns: u64) {
        if self.table.get(place).is_finishing() {
            self.remove(place, last_ns);
        } else {
            self.settle(place);
        }
    }

    /// The connection of a list that was used least recently, with the time of its last segment, if it has been idle
    /// for so long.
    fn idle(&self, list: List, idle_ns: u64) -> Option<(u32, u64)> {
        self.table
            .oldest(list as usize)
            .filter(|&(_, last_ns)| self.now_ns.saturating_sub(last_ns) >= idle_ns)
    }

    /// The connection that was used least recently in any of these lists.
    fn oldest_of(&self, lists: &[List]) -> Option<u32> {
        let oldest = lists.iter().filter_map(|&list| self.table.oldest(list as usize));
        oldest.min_by_key(|&(_, last_ns)| last_ns).map(|(place, _)| place)
    }

    /// Skips the missing bytes of a connection, which stays open. It counts as used now, since lists are in the order
    /// of use.
    fn settle(&mut self, place: u32) {
        let ends = *self.table.key(place);
        let connection = self.table.get_mut(place);
        self.held_bytes -= connection.held_bytes();
        connection.skip_gaps(&ends, &mut self.ready, |_| true);
        self.held_bytes += connection.held_bytes();
        let list = connection.list();
        self.table.touch(place, list as usize, self.now_ns);
    }

    /// Forgets a connection, which ends at this time unless it ended before.
    fn remove(&mut self, place: u32, at_ns: u64) {
        let (ends, mut connection) = self.table.remove(place);
        self.held_bytes -= connection.held_bytes();
        if !connection.is_closed() {
            connection.end(&ends, at_ns, &mut self.ready);
        }
    }
}
