//! The sample of packets that a tap takes: some of the values that the first two bytes of a payload may have. A request
//! and its reply that begin with the same two bytes are both taken, or neither.

/// A share of all values: one in a power of two. Values that follow each other are spread evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    bits: u8,
}

/// 2¹⁶ divided by the golden ratio, so that consecutive values are far apart (Knuth, TAOCP, volume 3, section 6.4).
pub(super) const FACTOR: u16 = 0x9e37;

impl Sample {
    /// A sample of one in `number`, rounded up to a power of two and at most one in 4096. 0 and 1 take all.
    pub fn one_in(number: u32) -> Self {
        Self { bits: number.clamp(1, 1 << 12).next_power_of_two().ilog2() as u8 }
    }

    /// The number of values of which it takes one.
    pub fn number(self) -> u32 {
        1 << self.bits
    }

    /// Whether it takes this value.
    #[inline]
    pub fn takes(self, value: u16) -> bool {
        u32::from(value.wrapping_mul(FACTOR)) < self.below()
    }

    /// The products of [`FACTOR`] below this number are taken.
    pub(super) fn below(self) -> u32 {
        0x1_0000 >> self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_takes_its_share_of_all_values_and_of_those_that_follow_each_other() {
        for (asked, number) in [(0, 1), (1, 1), (2, 2), (5, 8), (64, 64), (100_000, 4096)] {
            let sample = Sample::one_in(asked);
            assert_eq!(sample.number(), number);
            let taken = (0..=u16::MAX).filter(|value| sample.takes(*value)).count();
            assert_eq!(taken as u32 * number, 0x1_0000, "{asked}");
        }
        let sample = Sample::one_in(8);
        for first in [0_u16, 1_000, 65_000] {
            let taken = (0..800).filter(|more| sample.takes(first.wrapping_add(*more))).count();
            assert!((97..=103).contains(&taken), "{taken} from {first}");
        }
    }
}
