//! One connection: its socket, what lies between it and messages, and how far its making has come.

use kqps_kernel::tcp_client::TcpClient;

use super::layer::Layer;
use crate::connections::Ending;

/// The kernel sends a SYN again after a second (RFC 6298, section 2.1). A connection that was made sooner lost none.
const SYN_AGAIN_NS: u64 = 900_000_000;

/// The SYN counts as an acknowledged byte.
const SYN_BYTES: u64 = 1;

/// A connection that is being made, or was made.
pub(super) struct Connection<L> {
    pub(super) socket: TcpClient,
    pub(super) layer: L,
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
    /// Bytes that the kernel took.
    pub(super) written_bytes: u64,
    /// `written_bytes` when queries were last handed to it while it was open and had no open query; `None` if that
    /// never happened.
    pub(super) idle_at_bytes: Option<u64>,
    /// Whether a ticket for a later connection arrived.
    pub(super) has_ticket: bool,
}

impl<L: Layer> Connection<L> {
    /// A connection that is being made since `began_ns`.
    pub(super) fn new(socket: TcpClient, began_ns: u64) -> Self {
        Self {
            socket,
            layer: L::default(),
            is_open: false,
            began_ns,
            connected_ns: None,
            opened_ns: 0,
            awaits_room: true,
            written_bytes: 0,
            idle_at_bytes: None,
            has_ticket: false,
        }
    }

    /// Whether the kernel sent the SYN of an attempt again that took this long.
    pub(super) fn has_lost_syn(&self, took_ns: u64) -> bool {
        took_ns >= SYN_AGAIN_NS && self.retransmitted() > 0
    }

    /// Segments that the kernel sent again so far.
    pub(super) fn retransmitted(&self) -> u64 {
        self.socket.info().map_or(0, |info| info.retransmitted.into())
    }

    /// How it ended, if the peer closed it with open queries. The peer's FIN acknowledges all that had reached it by
    /// then. So if the connection was idle before the open queries, and the peer acknowledged nothing of them, the peer
    /// closed an idle connection.
    pub(super) fn closed_with_open_queries(&self) -> Ending {
        let acknowledged = || self.socket.info().map_or(u64::MAX, |info| info.acknowledged_bytes);
        match self.idle_at_bytes {
            Some(bytes) if acknowledged() <= bytes + SYN_BYTES => Ending::IdleRace,
            _ => Ending::Closed,
        }
    }

    /// Writes the last bytes of its layer. `has_failed` is whether the layer failed.
    pub(super) fn part(&mut self, has_failed: bool) {
        let bytes = self.layer.last_bytes(has_failed);
        if !bytes.is_empty() {
            // A peer that takes them no more misses nothing that it needs.
            let _ = self.socket.write(bytes);
        }
    }
}
