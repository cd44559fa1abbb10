//! The ghost of S3-FIFO: fingerprints of keys that were dropped a short time ago. A key that comes back is known by
//! its fingerprint. Eight fingerprints of 16 bits share a bucket, and a new one replaces the oldest of its bucket. So
//! one key in about 8,000 is taken for another, which costs a worse choice and nothing else.

const FINGERPRINT_BYTES: usize = 2;
const BUCKET_BYTES: usize = 8 * FINGERPRINT_BYTES;

/// A table at the beginning of an arena.
pub(crate) struct Ghost {
    buckets: u64,
    /// Whether anything was ever put in, so that the table's memory is in use.
    is_used: bool,
}

impl Ghost {
    /// A table in the first `bytes` bytes of the arena, which are zero.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { buckets: (bytes / BUCKET_BYTES) as u64, is_used: false }
    }

    /// The memory of the table in bytes while it is untouched; 0 once it is in use.
    pub(crate) fn untouched_bytes(&self) -> usize {
        if self.is_used { 0 } else { self.buckets as usize * BUCKET_BYTES }
    }

    /// Adds a key by its hash.
    pub(crate) fn add(&mut self, arena: &mut [u8], hash: u64) {
        self.is_used = true;
        let bucket = self.bucket(arena, hash);
        bucket.copy_within(..BUCKET_BYTES - FINGERPRINT_BYTES, FINGERPRINT_BYTES);
        bucket[..FINGERPRINT_BYTES].copy_from_slice(&fingerprint(hash).to_le_bytes());
    }

    /// Whether the key with this hash was dropped a short time ago. It is then forgotten.
    pub(crate) fn take(&self, arena: &mut [u8], hash: u64) -> bool {
        if !self.is_used {
            return false;
        }
        let wanted = fingerprint(hash).to_le_bytes();
        let (fingerprints, _) = self.bucket(arena, hash).as_chunks_mut::<FINGERPRINT_BYTES>();
        let Some(found) = fingerprints.iter_mut().find(|fingerprint| **fingerprint == wanted) else {
            return false;
        };
        *found = [0; FINGERPRINT_BYTES];
        true
    }

    fn bucket<'a>(&self, arena: &'a mut [u8], hash: u64) -> &'a mut [u8] {
        let bucket = ((hash & u64::from(u32::MAX)) * self.buckets) >> 32;
        let at = bucket as usize * BUCKET_BYTES;
        &mut arena[at..at + BUCKET_BYTES]
    }
}

/// 16 bits of a hash that do not choose the bucket; 0 stands for none.
fn fingerprint(hash: u64) -> u16 {
    let [_, _, _, _, low, high, ..] = hash.to_le_bytes();
    u16::from_le_bytes([low, high]).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_remembers_its_last_eight() {
        let (mut arena, mut ghost) = ([0; BUCKET_BYTES], Ghost::new(BUCKET_BYTES));
        let hash = |number: u64| number << 32 | number;
        assert!(!ghost.take(&mut arena, hash(0)) && ghost.untouched_bytes() == BUCKET_BYTES);
        for number in 2..11 {
            ghost.add(&mut arena, hash(number));
        }
        assert_eq!(ghost.untouched_bytes(), 0);
        assert!(!ghost.take(&mut arena, hash(2)), "nine were added");
        for number in 3..11 {
            assert!(ghost.take(&mut arena, hash(number)), "{number}");
            assert!(!ghost.take(&mut arena, hash(number)), "{number} was taken");
        }
    }
}
