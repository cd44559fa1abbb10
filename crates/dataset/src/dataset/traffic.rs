//! Facts of queries that come from a capture: their times, clients, transports and connections.

use super::{Dataset, Position};
use crate::captured::Captured;
use crate::encoded::{CAPTURED_BYTES, PREFIX_BYTES, STRIDE, UNIT_BYTES};
use crate::facts::{CaptureFacts, ClientPlace, PLACE_BYTES};

impl Dataset {
    /// The facts of the capture; `None` if the source is a query file.
    pub fn capture(&self) -> Option<&CaptureFacts> {
        self.capture.as_ref()
    }

    /// When and how the query at a position came. Only for a capture; must not be called with the end.
    #[inline]
    pub fn captured(&self, position: Position) -> Captured {
        let record = &self.file[position.0 as usize * UNIT_BYTES + PREFIX_BYTES..];
        Captured::from_bytes(record.first_chunk().unwrap_or(&[0; CAPTURED_BYTES]))
    }

    /// The position of the first query that is due at this time from the first query or later, in nanoseconds; the end
    /// if there is none. Only for a capture.
    pub fn position_at(&self, due_ns: u64) -> Position {
        let is_before = |position: Position| self.captured(position).due_ns < due_ns;
        let (mut low, mut high) = (0, self.header.queries.div_ceil(STRIDE));
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(self.entry(middle)) { low = middle + 1 } else { high = middle }
        }
        // The query is in the stretch before the first that begins with one due then or later, or it begins the latter.
        let mut position = self.entry(low.saturating_sub(1));
        while position < self.end() && is_before(position) {
            position = self.after(position);
        }
        position
    }

    /// The network of a client, and its number there. Only for a capture, and a client of it.
    pub fn network_of(&self, client: u32) -> ClientPlace {
        let at = self.header.clients_at() as usize + client as usize * PLACE_BYTES;
        self.in_file(at).map(ClientPlace::from_bytes).unwrap_or_default()
    }

    /// The number of clients of a network. Only for a capture, and a network of it.
    pub fn network_clients(&self, network: u32) -> u32 {
        let at = self.header.networks_at() as usize + network as usize * size_of::<u32>();
        self.in_file(at).map(u32::from_le_bytes).unwrap_or_default()
    }

    fn in_file<const BYTES: usize>(&self, at: usize) -> Option<[u8; BYTES]> {
        self.file.get(at..)?.first_chunk().copied()
    }
}
