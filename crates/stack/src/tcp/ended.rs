//! Pairs whose connection ended lately, in place of `TIME_WAIT`: what a FIN that comes once more is answered with.

use super::sequence::before;

/// Pairs whose hashes share a slot: a ring in which the newest displaces the oldest.
const RING: usize = 4;

/// How long a pair is remembered at most: twice the maximum segment lifetime (RFC 9293, section 3.4.1), ticks.
const TICKS: u32 = 240 * 954;

pub(super) struct Ended {
    rings: Box<[[Last; RING]]>,
    /// The number of bits by which a ring is chosen.
    bits: u32,
}

/// The last sequence numbers of a connection.
#[derive(Clone, Copy, Default)]
pub(super) struct Last {
    /// Bits of the hash that did not choose the ring; 0 in an empty place.
    mark: u32,
    /// The next number that this host would have sent.
    pub(super) sequence: u32,
    /// The next number that it expected.
    pub(super) acknowledgment: u32,
    tick: u32,
}

impl Ended {
    /// Room for so many pairs, rounded up to a power of two.
    pub(super) fn new(pairs: u32) -> Self {
        let rings = (pairs as usize).div_ceil(RING).next_power_of_two();
        Self { rings: vec![[Last::default(); RING]; rings].into(), bits: rings.trailing_zeros() }
    }

    /// Where a pair with this hash stands, and its mark there. The lower half of the hash chooses the ring.
    fn place(&self, hash: u64) -> (usize, u32) {
        let ring = hash as usize & ((1 << self.bits) - 1);
        (ring, ((hash >> 32) as u32).max(1))
    }

    /// Remembers a pair.
    #[inline]
    pub(super) fn remember(&mut self, hash: u64, (sequence, acknowledgment): (u32, u32), tick: u32) {
        let (ring, mark) = self.place(hash);
        let ring = &mut self.rings[ring];
        ring.rotate_right(1);
        ring[0] = Last { mark, sequence, acknowledgment, tick };
    }

    /// The last connection of a pair, if it is remembered.
    #[inline]
    pub(super) fn find(&self, hash: u64, tick: u32) -> Option<Last> {
        let (ring, mark) = self.place(hash);
        let found = self.rings[ring].iter().find(|last| last.mark == mark).copied();
        found.filter(|last| before(tick, last.tick.wrapping_add(TICKS)))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.rings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_connection_of_a_pair_is_remembered_for_a_while() {
        let mut ended = Ended::new(1000);
        assert_eq!(ended.rings.len(), 256);
        let hash = 0x1234_5678_9abc_def0;
        assert!(ended.find(hash, 5).is_none());
        ended.remember(hash, (1, 2), 5);
        ended.remember(hash, (3, 4), 6);
        let found = ended.find(hash, 7).unwrap();
        assert_eq!((found.sequence, found.acknowledgment), (3, 4));
        assert!(ended.find(hash ^ (1 << 40), 7).is_none());
        assert!(ended.find(hash, 6 + TICKS).is_none());
        // Four others with the same ring displace it.
        for other in 1..=4_u64 {
            assert!(ended.find(hash, 7).is_some());
            ended.remember(hash ^ (other << 40), (9, 9), 7);
        }
        assert!(ended.find(hash, 7).is_none());
    }

    #[test]
    fn a_pair_takes_sixteen_bytes() {
        assert_eq!(Ended::new(1 << 16).memory_bytes(), 16 << 16);
    }
}
