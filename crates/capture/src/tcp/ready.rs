//! Messages and ends of connections that wait to be taken. The bytes of all messages are in one buffer.

use super::Done;
use super::ends::Ends;

/// The bytes of the buffer that are kept for the next segment.
const KEPT_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Ready {
    bytes: Vec<u8>,
    items: Vec<Item>,
    taken: usize,
    messages: usize,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    /// A message; its bytes stand in the buffer from `start` to `end`.
    Message {
        connection: u64,
        to_server: bool,
        ends: Ends,
        at_ns: u64,
        start: usize,
        end: usize,
    },
    Closed {
        connection: u64,
        at_ns: u64,
        has_message: bool,
    },
}

impl Ready {
    /// The number of messages since the last [`Self::clear`].
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    pub(super) fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.items.clear();
        self.taken = 0;
        self.messages = 0;
    }

    pub(super) fn closed(&mut self, connection: u64, at_ns: u64, has_message: bool) {
        self.items.push(Item::Closed { connection, at_ns, has_message });
    }

    pub(super) fn next(&mut self) -> Option<Done<'_>> {
        let item = *self.items.get(self.taken)?;
        self.taken += 1;
        Some(match item {
            Item::Closed { connection, at_ns, has_message } => {
                Done::Closed { connection, at_ns, has_message }
            }
            Item::Message { connection, to_server, ends, at_ns, start, end } => Done::Message {
                connection,
                to_server,
                client: ends.client(),
                server: ends.server(),
                at_ns,
                bytes: &self.bytes[start..end],
            },
        })
    }
}

/// Where the messages of one direction of a connection go.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    pub(super) ready: &'a mut Ready,
    pub(super) ends: &'a Ends,
    pub(super) connection: u64,
    pub(super) to_server: bool,
}

impl Sink<'_> {
    /// Copies a message, whose last byte came at this time.
    pub(super) fn message(&mut self, at_ns: u64, message: &[u8]) {
        let start = self.ready.bytes.len();
        self.ready.bytes.extend_from_slice(message);
        let (connection, to_server, ends, end) =
            (self.connection, self.to_server, *self.ends, self.ready.bytes.len());
        self.ready.items.push(Item::Message { connection, to_server, ends, at_ns, start, end });
        self.ready.messages += 1;
    }
}
