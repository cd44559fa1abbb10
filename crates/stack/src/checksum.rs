//! The Internet checksum (RFC 1071), of whole headers and of a change (RFC 1624).

/// A sum of 16-bit words, in the order in which bytes stand in memory: that order does not matter to the sum (RFC 1071,
/// section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of these bytes. An odd last byte counts as a word whose second byte is 0.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::default().and(bytes)
    }

    /// This sum and that of further bytes. They begin at an even place of what is summed, at most 4 GiB in all.
    #[inline]
    #[must_use]
    pub fn and(self, bytes: &[u8]) -> Self {
        // 2^16 is 1 modulo 65,535, so that two words can be added as one number.
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum = self.0;
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Self(sum + u64::from(u32::from_ne_bytes(last)))
    }

    /// This sum and another one, of bytes that begin at an even place.
    #[inline]
    #[must_use]
    pub fn and_sum(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// This sum and one more word.
    #[inline]
    #[must_use]
    pub fn and_word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word.to_be()))
    }

    /// The checksum: the complement of the sum. It is 0 if the bytes contained their own checksum, and it is right.
    #[inline]
    pub fn checksum(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        u16::from_be(!(sum as u16))
    }
}

/// The checksum after one of its words has changed (RFC 1624, equation 3).
#[inline]
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standards() {
        // RFC 1071, section 3: the sum is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::from_bytes(&bytes).checksum(), !0xddf2);
        // RFC 1624, section 4.
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn a_header_with_its_checksum_sums_to_zero() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01,
            0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(Sum::from_bytes(&header).checksum(), 0);
        let mut blank = header;
        blank[10..12].fill(0);
        assert_eq!(Sum::from_bytes(&blank).checksum(), 0xb861);
        assert_eq!(Sum::from_bytes(&blank[..12]).and(&blank[12..]).checksum(), 0xb861);
        assert_eq!(Sum::from_bytes(&blank[2..]).and_word(0x4500).checksum(), 0xb861);
    }

    #[test]
    fn lengths_of_every_remainder() {
        // Words of the same value, added one by one, are what their bytes sum to.
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).map(|number: u8| number.wrapping_mul(37) ^ 0xa5).collect();
            let words = bytes
                .chunks(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]));
            let slow = words.fold(Sum::default(), Sum::and_word);
            assert_eq!(Sum::from_bytes(&bytes).checksum(), slow.checksum(), "{length} bytes");
        }
    }

    #[test]
    fn a_change_gives_what_a_new_sum_gives() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let mut bytes: Vec<u8> = (0..20).map(|_| random.u8(..)).collect();
            let before = Sum::from_bytes(&bytes).checksum();
            let at = random.usize(0..10) * 2;
            let (old, new) = (u16::from_be_bytes([bytes[at], bytes[at + 1]]), random.u16(..));
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            assert_eq!(updated(before, old, new), Sum::from_bytes(&bytes).checksum());
        }
    }
}
