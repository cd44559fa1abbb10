//! The task of every transport: it sends queries and receives replies.

use std::time::{Duration, Instant};

use kqps_message::header;

use crate::error::{AskError, Result};

/// A way to one server.
pub(crate) trait Link: Send {
    /// Sends queries.
    fn send(&mut self, queries: &[&[u8]]) -> Result<()>;

    /// Waits for the next reply.
    fn receive(&mut self, until: Instant) -> Result<Vec<u8>>;
}

/// The time until a deadline, which is an error when it is over.
pub(crate) fn left(until: Instant) -> Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(AskError::TimedOut) } else { Ok(left) }
}

/// A reply with the ID of its query, which travelled with the ID 0.
pub(crate) fn with_id(id: u16, reply: &[u8]) -> Vec<u8> {
    let mut reply = reply.to_vec();
    header::set_id(&mut reply, id);
    reply
}
