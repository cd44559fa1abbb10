//! Who asked what in a replay: the client of each outstanding query, by its flow and its ID.

use crate::books::Origin;

/// The clients of the outstanding queries of a thread. A flow has as many slots as its table in the books, a power of
/// two.
pub(super) struct Askers(Box<[Vec<u32>]>);

impl Askers {
    /// The clients of `flows` flows, each flow with room for this many queries at first.
    pub(super) fn new(flows: usize, slots: usize) -> Self {
        Self(vec![vec![0; slots]; flows].into())
    }

    /// Notes whose query a flow sends with this ID. The flow's table has this many slots.
    #[inline]
    pub(super) fn note(&mut self, origin: &Origin, id: u16, slots: usize) {
        let asked = &mut self.0[origin.flow];
        if asked.len() < slots {
            grow(asked, slots);
        }
        let slot = usize::from(id) & (asked.len() - 1);
        asked[slot] = origin.client;
    }

    /// The client of the query that a flow has sent with this ID.
    #[inline]
    pub(super) fn client_of(&self, flow: usize, id: u16) -> u32 {
        let asked = &self.0[flow];
        asked[usize::from(id) & (asked.len() - 1)]
    }
}

/// Makes room for the clients of this many queries, a power of two.
#[cold]
fn grow(asked: &mut Vec<u32>, slots: usize) {
    // An ID has either the slot that it had, or the one as far in the other half.
    while asked.len() < slots {
        asked.extend_from_within(..);
    }
}
