//! A connection: its socket, what lies between it and messages, and how far its making has come.

use std::io;

use super::layer::Layer;
use crate::connections::Ending;

/// The SYN counts as an acknowledged byte.
const SYN_BYTES: u64 = 1;

/// A connection that is being made, or was made.
pub(super) struct Connection<L, K> {
    pub(super) socket: K,
    pub(super) layer: L,
    /// Pairs of an address and a port from which the attempt began, the last of them this connection's.
    pub(super) pairs_tried: u32,
    /// Whether messages can pass.
    pub(super) is_open: bool,
    /// When the attempt began, nanoseconds of the monotonic clock.
    pub(super) began_ns: u64,
    /// When TCP had connected; `None` before.
    pub(super) connected_ns: Option<u64>,
    /// When it opened, nanoseconds since the start of the trial; 0 before.
    pub(super) opened_ns: u64,
    /// Whether the kernel reports when there is room to write.
    pub(super) awaits_room: bool,
    /// Whether a write found that the connection has ended, and how.
    pub(super) broken: Option<Ending>,
    /// Bytes that were handed to the kernel.
    pub(super) written_bytes: u64,
    /// `written_bytes` when queries were last handed to it while it was open and had no open query; `None` if that
    /// never happened.
    pub(super) idle_at_bytes: Option<u64>,
    /// Whether a ticket for a later connection arrived.
    pub(super) has_ticket: bool,
}

impl<L: Layer, K> Connection<L, K> {
    /// A connection that is being made since `began_ns`, from the last of this many pairs.
    pub(super) fn new(socket: K, began_ns: u64, pairs_tried: u32) -> Self {
        Self {
            socket,
            layer: L::default(),
            pairs_tried,
            is_open: false,
            began_ns,
            connected_ns: None,
            opened_ns: 0,
            awaits_room: true,
            broken: None,
            written_bytes: 0,
            idle_at_bytes: None,
            has_ticket: false,
        }
    }

    /// Notes that a write found this error. What the subject sent before it closed the connection may still be read.
    /// The write took the socket's error, so that a read then finds only the end.
    pub(super) fn broke(&mut self, error: &io::Error) {
        let found = (error.kind() != io::ErrorKind::BrokenPipe).then(|| Ending::of_error(error));
        self.broken = self.broken.or(found);
    }

    /// How it ended, if the peer closed it with open queries. The peer's FIN acknowledges all that had reached it by
    /// then. So if the connection was idle before the open queries, and the peer acknowledged nothing of them, the peer
    /// closed an idle connection. `acknowledged` is how many bytes the peer acknowledged, with one for the SYN.
    pub(super) fn closed_with_open_queries(&self, acknowledged: impl FnOnce() -> u64) -> Ending {
        match self.idle_at_bytes {
            Some(bytes) if acknowledged() <= bytes + SYN_BYTES => Ending::IdleRace,
            _ => Ending::Closed,
        }
    }
}
