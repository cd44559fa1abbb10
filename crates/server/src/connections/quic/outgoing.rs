//! Datagrams on their way out of a socket.

use std::collections::BTreeMap;

use kqps_kernel::batch::Outbox;
use kqps_kernel::{Address, LocalAddress, UdpSocket};
use kqps_quic::Transmission;

use crate::counts::Counts;

/// Room for datagrams that one call sends, and for their bytes.
const DATAGRAMS: usize = 1024;
const BYTES: usize = 1 << 20;

/// Datagrams that wait for their socket, and counts of those that have left.
pub(super) struct Outgoing {
    outbox: Outbox,
    /// The bytes of the next datagrams.
    pub(super) bytes: Vec<u8>,
    counts: Counts,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self { outbox: Outbox::new(DATAGRAMS, BYTES), bytes: Vec::new(), counts: Counts::default() }
    }

    /// Adds the datagrams whose bytes are in [`Self::bytes`]. Sends earlier ones first if there is no room.
    pub(super) fn add(&mut self, socket: &UdpSocket, transmission: &Transmission) {
        if !self.outbox.has_room(self.bytes.len(), transmission.segment_bytes) {
            self.send(socket);
        }
        let from = transmission.from.map(|ip| LocalAddress { ip, interface: 0 });
        let to = Address::from(transmission.to);
        self.outbox.add(&to, from.as_ref(), &self.bytes, transmission.segment_bytes);
    }

    /// Sends all. What the kernel refuses is lost, and sent again by QUIC.
    pub(super) fn send(&mut self, socket: &UdpSocket) {
        let Self { outbox, counts, .. } = self;
        if !outbox.is_empty() {
            outbox.send(socket, |outcome| counts.took(outcome));
        }
    }

    /// The number of datagrams that the kernel took.
    pub(super) fn sent(&self) -> u64 {
        self.counts.answered
    }

    /// Datagrams that the kernel refused, by the error.
    pub(super) fn failures(&self) -> BTreeMap<String, u64> {
        self.counts.dropped()
    }
}
