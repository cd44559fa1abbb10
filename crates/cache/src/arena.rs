//! The memory of a cache: bytes in segments of equal size, which are taken and given back. The blocks of entries, the
//! pages of the index and the ghost are all in them, so the bound holds however they share it. Segments that were
//! never taken are never touched, and cost the system nothing.

/// The least memory of a cache in bytes.
const MEMORY_BYTES_LEAST: u64 = 64 << 10;

/// The share of memory outside segments, one byte in this many: the directory of the index and the lists of segments.
const OTHERS_SHARE: u64 = 64;

/// A memory has at least 2^6 segments, unless they would be smaller than a page of the index (2^12 bytes). Beyond 2^17
/// bytes, which any reply fits, they become more and not larger.
const SEGMENTS_BITS_LEAST: u32 = 6;
const SEGMENT_BITS: (u32, u32) = (12, 17);

/// The index counts addresses up to 32 GiB.
const SEGMENTS_MOST: u32 = (1 << (35 - SEGMENT_BITS.1)) - 1;

pub(crate) struct Arena {
    pub(crate) bytes: Vec<u8>,
    segment_bits: u32,
    segments: u32,
    /// The first segment that was never taken.
    fresh: u32,
    /// Segments that were given back.
    free: Vec<u32>,
}

impl Arena {
    /// An arena that takes at most this much memory, with the lists of its users. All bytes are zero.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let memory_bytes = memory_bytes.max(MEMORY_BYTES_LEAST);
        let wanted_bits = memory_bytes.ilog2() - SEGMENTS_BITS_LEAST;
        let segment_bits = wanted_bits.clamp(SEGMENT_BITS.0, SEGMENT_BITS.1);
        let usable_bytes = memory_bytes - memory_bytes / OTHERS_SHARE;
        let segments = u32::try_from(usable_bytes >> segment_bits).unwrap_or(u32::MAX).min(SEGMENTS_MOST);
        Self {
            bytes: vec![0; (segments as usize) << segment_bits],
            segment_bits,
            segments,
            fresh: 0,
            free: Vec::with_capacity(segments as usize),
        }
    }

    /// Takes a segment, whose bytes are arbitrary; `None` if none is free.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(segment) = self.free.pop() {
            return Some(segment);
        }
        let segment = self.fresh;
        (segment < self.segments).then(|| {
            self.fresh += 1;
            segment
        })
    }

    /// Gives a segment back.
    pub(crate) fn give(&mut self, segment: u32) {
        self.free.push(segment);
    }

    /// The number of free segments.
    pub(crate) fn free(&self) -> usize {
        self.free.len() + (self.segments - self.fresh) as usize
    }

    pub(crate) fn segments(&self) -> u32 {
        self.segments
    }

    pub(crate) fn segment_bits(&self) -> u32 {
        self.segment_bits
    }

    /// The memory of all segments that were ever taken, with the list of free ones, in bytes.
    pub(crate) fn touched_bytes(&self) -> usize {
        ((self.fresh as usize) << self.segment_bits) + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_fill_the_memory_and_no_more() {
        for (memory_bytes, segments, segment_bytes) in [
            (0, 15, 4 << 10),
            (64 << 10, 15, 4 << 10),
            (1 << 20, 63, 16 << 10),
            (64 << 20, 504, 128 << 10),
            (100_000_000, 751, 128 << 10),
        ] {
            let arena = Arena::new(memory_bytes);
            assert_eq!((arena.segments(), 1 << arena.segment_bits()), (segments, segment_bytes));
            assert_eq!(arena.bytes.len(), segments as usize * segment_bytes);
        }
    }

    #[test]
    fn a_segment_is_taken_once_until_it_is_given_back() {
        let mut arena = Arena::new(0);
        let mut taken: Vec<u32> = std::iter::from_fn(|| arena.take()).collect();
        assert_eq!(taken, (0..15).collect::<Vec<_>>());
        assert_eq!(arena.free(), 0);
        let given = taken.remove(7);
        arena.give(given);
        assert_eq!((arena.free(), arena.take(), arena.take()), (1, Some(given), None));
    }
}
