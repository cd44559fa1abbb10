//! One connection: its socket, what lies between it and messages, and how far its making has come.

use std::io;
use std::net::{IpAddr, SocketAddr};

use kqps_kernel::tcp_client::TcpClient;

use super::layer::Layer;

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
    /// Whether the kernel reports when there is room to write.
    pub(super) awaits_room: bool,
}

impl<L: Layer> Connection<L> {
    /// Begins to connect.
    pub(super) fn begin(to: SocketAddr, from: Option<IpAddr>, began_ns: u64) -> io::Result<Self> {
        let socket = TcpClient::connect(to, from)?;
        Ok(Self {
            socket,
            layer: L::default(),
            is_open: false,
            began_ns,
            connected_ns: None,
            awaits_room: true,
        })
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
