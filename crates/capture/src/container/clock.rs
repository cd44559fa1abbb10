//! The times of an interface in pcapng: ticks of its resolution, from its offset on.

const NS: u64 = 1_000_000_000;

/// The resolution and offset of an interface (`if_tsresol`, `if_tsoffset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    tick: Tick,
    offset_ns: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tick {
    /// A number of nanoseconds.
    Nanoseconds(u64),
    /// A second, divided by a power of ten.
    Decimal(u128),
    /// A second, divided by this power of two.
    Binary(u32),
}

impl Clock {
    /// `resolution` is the exponent of 10, or with the highest bit the exponent of 2, both negative. The ticks of a clock
    /// with an exponent of 10 above 38 are all below 1 ns.
    pub(super) fn new(resolution: u8, offset_s: i64) -> Self {
        let exponent = u32::from(resolution & 0x7f);
        let tick = match exponent {
            _ if resolution & 0x80 != 0 => Tick::Binary(exponent),
            0..=9 => Tick::Nanoseconds(10_u64.pow(9 - exponent)),
            _ => Tick::Decimal(10_u128.saturating_pow(exponent)),
        };
        Self { tick, offset_ns: i128::from(offset_s) * i128::from(NS) }
    }

    /// The time after `ticks`, in nanoseconds of Unix time; times before 1970 are 0.
    #[inline]
    pub(super) fn unix_ns(&self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks);
        let since_ns = match self.tick {
            Tick::Nanoseconds(each) => ticks * u128::from(each),
            Tick::Decimal(unit) => ticks * u128::from(NS) / unit,
            Tick::Binary(exponent) => (ticks * u128::from(NS)) >> exponent,
        };
        let at_ns = since_ns as i128 + self.offset_ns;
        u64::try_from(at_ns).unwrap_or(if at_ns < 0 { 0 } else { u64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ns(resolution: u8, offset_s: i64, ticks: u64) -> u64 {
        Clock::new(resolution, offset_s).unix_ns(ticks)
    }

    #[test]
    fn ticks_of_every_resolution_are_nanoseconds() {
        assert_eq!(at_ns(6, 0, 1_700_000_000_000_001), 1_700_000_000_000_001_000);
        assert_eq!(at_ns(9, 0, 1_700_000_000_000_000_001), 1_700_000_000_000_000_001);
        assert_eq!(at_ns(0, 0, 1_700_000_000), 1_700_000_000_000_000_000);
        assert_eq!(at_ns(12, 0, 1_999), 1);
        assert_eq!(at_ns(0x8a, 0, 1024 + 512), 1_500_000_000);
        assert_eq!(at_ns(0x80 | 32, 0, 1 << 31), 500_000_000);
    }

    #[test]
    fn the_offset_moves_times_and_none_leaves_the_range() {
        assert_eq!(at_ns(6, 1_700_000_000, 5), 1_700_000_000_000_005_000);
        assert_eq!(at_ns(6, -1, 1_000_001), 1_000);
        assert_eq!(at_ns(6, i64::MIN, u64::MAX), 0);
        assert_eq!(at_ns(0, i64::MAX, u64::MAX), u64::MAX);
        assert_eq!(at_ns(0x80 | 127, 0, u64::MAX), 0);
        assert_eq!(at_ns(38, 0, u64::MAX), 0);
        assert_eq!(at_ns(39, 1, u64::MAX), 1_000_000_000);
        assert_eq!(at_ns(127, 1, u64::MAX), 1_000_000_000);
    }
}
