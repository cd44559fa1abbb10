//! Numbers for connections, which dnstap does not name.
//!
//! A connection is what goes over one transport between one client's address and port and one server's. Frames do not
//! say when it begins and ends. When it was idle for [`IDLE_NS`], it counts as closed since its last message: how long
//! it really stayed open is unknown.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::message::Transport;
use crate::table::Table;

/// After how long a silence the next message is one of another connection, ns: as long as clients usually keep one.
pub(super) const IDLE_NS: u64 = 10_000_000_000;

/// Connections held at most. Beyond that the one that was used least recently counts as closed.
pub(super) const CONNECTIONS_MOST: usize = 20_000;

type Ends = (SocketAddr, SocketAddr, Transport);

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) connection: u64,
    pub(super) at_ns: u64,
}

pub(super) struct Connections {
    numbers: Table<Ends, u64, 1>,
    /// The number of the next connection.
    next: u64,
    /// The latest time of a message.
    now_ns: u64,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self { numbers: Table::new(), next: 0, now_ns: 0 }
    }

    /// Lets time pass until a message, and closes what was idle for too long by then.
    pub(super) fn pass(&mut self, at_ns: u64, closed: &mut VecDeque<Closed>) {
        self.now_ns = self.now_ns.max(at_ns);
        while let Some((place, last_ns)) = self.numbers.oldest(0) {
            if self.now_ns.saturating_sub(last_ns) < IDLE_NS {
                break;
            }
            let (_, connection) = self.numbers.remove(place);
            closed.push_back(Closed { connection, at_ns: last_ns });
        }
    }

    /// The number of the connection of a message at the present time.
    pub(super) fn meet(&mut self, ends: Ends, closed: &mut VecDeque<Closed>) -> u64 {
        if let Some(place) = self.numbers.find(&ends) {
            self.numbers.touch(place, 0, self.now_ns);
            return *self.numbers.get(place);
        }
        if self.numbers.len() >= CONNECTIONS_MOST
            && let Some((place, last_ns)) = self.numbers.oldest(0)
        {
            let (_, connection) = self.numbers.remove(place);
            closed.push_back(Closed { connection, at_ns: last_ns });
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(ends, number, 0, self.now_ns);
        number
    }
}
