//! Which ports replies past the kernel come to.

use std::ops::RangeInclusive;

/// The ports below are those of well-known services.
const FIRST: u16 = 1024;

/// With fewer ports in a row than this, the kernel's own range is taken.
const ENOUGH: usize = 4096;

/// The most ports in a row, of `least` at least, that the kernel gives to no program by itself: a connection of another
/// program to the same target then cannot have one of them. `ephemeral` are the ports that the kernel gives, in order;
/// if it has left too few, they are the result.
pub(crate) fn quiet(ephemeral: &[u16], least: usize) -> RangeInclusive<u16> {
    let (Some(&first), Some(&last)) = (ephemeral.first(), ephemeral.last()) else { return FIRST..=u16::MAX };
    let below = FIRST..=first.saturating_sub(1);
    let above = last.saturating_add(1)..=u16::MAX;
    let most = if count(&above) > count(&below) { above } else { below };
    if count(&most) >= least.max(ENOUGH) { most } else { first..=last }
}

/// The number of ports in a range.
fn count(ports: &RangeInclusive<u16>) -> usize {
    (usize::from(*ports.end()) + 1).saturating_sub(usize::from(*ports.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_that_the_kernel_does_not_give() {
        let ports = |range: RangeInclusive<u16>, least| quiet(&range.collect::<Vec<_>>(), least);
        assert_eq!(ports(32_768..=60_999, 32), 1024..=32_767);
        assert_eq!(ports(2048..=30_000, 32), 30_001..=65_535);
        assert_eq!(ports(1024..=65_535, 32), 1024..=65_535);
        assert_eq!(ports(10_000..=60_000, 10_000), 10_000..=60_000);
        assert_eq!(quiet(&[], 1), 1024..=65_535);
        let none = RangeInclusive::new(1024, 1023);
        assert_eq!((count(&(7..=7)), count(&none), count(&(0..=65_535))), (1, 0, 65_536));
    }
}
