//! A socket and the packets that are about to leave from it, sent a batch at a time.

use std::io;

use kqps_kernel::{Address, SendBatch, UdpSocket};

/// Packets in one call at most.
const MESSAGES: usize = 64;
/// Bytes of all of them.
const BYTES: usize = MESSAGES * 1024;

/// Collects packets, and sends them when it is full or told to.
pub(super) struct Outbox {
    pub(super) socket: UdpSocket,
    /// Packets that the kernel refused.
    pub(super) failed: u64,
    batch: SendBatch,
}

impl Outbox {
    pub(super) fn new(socket: UdpSocket) -> Self {
        Self { socket, failed: 0, batch: SendBatch::new(MESSAGES, BYTES) }
    }

    #[inline]
    pub(super) fn push(&mut self, to: &Address, packet: &[u8]) {
        if !self.batch.room(packet.len()) {
            self.flush();
        }
        self.batch.add(to, packet.len(), None).copy_from_slice(packet);
    }

    /// Sends everything; a packet that the kernel refuses is counted and left out.
    pub(super) fn flush(&mut self) {
        let mut sent = 0;
        while sent < self.batch.messages() {
            match self.batch.send(&self.socket, sent) {
                Ok(0) => std::thread::yield_now(),
                Ok(taken) => sent += taken,
                Err(_) => {
                    self.failed += 1;
                    sent += 1;
                }
            }
        }
        self.batch.clear();
    }

    /// Packets for this socket that the kernel had no room for.
    pub(super) fn drops(&self) -> io::Result<u64> {
        self.socket.drops()
    }
}
