//! A socket with a batch of packets to send from it.

use std::io;

use kqps_kernel::{Address, SendBatch, UdpSocket, clock};

use super::witness::Witness;

/// The most packets in one call.
const MESSAGES: usize = 64;
/// The most bytes of a batch.
const BYTES: usize = MESSAGES * 1024;

/// Collects packets, and sends them when the batch is full or on a flush.
pub(super) struct Outbox {
    pub(super) socket: UdpSocket,
    /// Packets that the kernel refused.
    pub(super) failed: u64,
    /// Notes the times when packets leave, if the settings ask for that.
    pub(super) witness: Option<Witness>,
    batch: SendBatch,
    /// The query of each packet in the batch.
    queries: Vec<u32>,
}

impl Outbox {
    pub(super) fn new(socket: UdpSocket) -> Self {
        let queries = Vec::with_capacity(MESSAGES);
        Self { socket, failed: 0, witness: None, batch: SendBatch::new(MESSAGES, BYTES), queries }
    }

    /// Adds a packet, which is the query number `query` or its reply.
    #[inline]
    pub(super) fn push(&mut self, to: &Address, query: u32, packet: &[u8]) {
        if !self.batch.room(packet.len()) {
            self.flush();
        }
        self.queries.push(query);
        self.batch.add(to, packet.len(), None).copy_from_slice(packet);
        if self.witness.is_some() {
            // In a call of its own, so that its two times are close together.
            self.flush();
        }
    }

    /// Sends the batch. A packet that the kernel refuses is counted and left out.
    pub(super) fn flush(&mut self) {
        let mut sent = 0;
        while sent < self.batch.messages() {
            let before_ns = clock::now_ns();
            match self.batch.send(&self.socket, sent) {
                Ok(0) => std::thread::yield_now(),
                Ok(taken) => {
                    if let Some(witness) = &mut self.witness {
                        witness.handed(&self.queries[sent..sent + taken], before_ns, clock::now_ns());
                    }
                    sent += taken;
                }
                Err(_) => {
                    self.failed += 1;
                    sent += 1;
                }
            }
        }
        self.batch.clear();
        self.queries.clear();
    }

    /// Packets for this socket that the kernel dropped for lack of room.
    pub(super) fn drops(&self) -> io::Result<u64> {
        self.socket.drops()
    }
}
