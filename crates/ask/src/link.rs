//! The task of every transport: it sends queries and receives replies.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use kqps_message::header;

use crate::error::{AskError, Result};

/// A way to one server.
pub(crate) trait Link: Send {
    /// Sends queries.
    fn send(&mut self, queries: &[&[u8]]) -> Result<()>;

    /// Waits for the next reply.
    fn receive(&mut self, until: Instant) -> Result<Vec<u8>>;

    /// Whether a read from the socket would not wait.
    fn is_readable(&self) -> Result<bool>;
}

/// The time until a deadline, which is an error when it is over.
pub(crate) fn left(until: Instant) -> Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(AskError::TimedOut) } else { Ok(left) }
}

/// Whether there is something to read, an end included, by a look at a socket that does not wait meanwhile.
pub(crate) fn has_input(looked: io::Result<usize>) -> io::Result<bool> {
    match looked {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        // The look took the error from the socket, so that no later read returns it (SO_ERROR in socket(7)).
        Err(error) => Err(error),
    }
}

/// A reply with the ID of its query, which travelled with the ID 0.
pub(crate) fn with_id(id: u16, reply: &[u8]) -> Vec<u8> {
    let mut reply = reply.to_vec();
    header::set_id(&mut reply, id);
    reply
}
