//! Sequence numbers, which wrap (RFC 9293, section 3.4): less than 2 GiB apart, one is before the other.

/// Whether `a` is before `b`.
#[inline]
pub(super) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Whether `a` is before `b`, or is `b`.
#[inline]
pub(super) fn at_most(a: u32, b: u32) -> bool {
    !before(b, a)
}

/// The later of two.
#[inline]
pub(super) fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        for start in [0, 1, u32::MAX, u32::MAX - 5, 1 << 31, (1 << 31) - 1] {
            for step in [1_u32, 2, 1000, (1 << 31) - 1] {
                let after = start.wrapping_add(step);
                assert!(before(start, after) && !before(after, start), "{start} + {step}");
                assert!(at_most(start, after) && at_most(start, start) && !at_most(after, start));
                assert_eq!((later(start, after), later(after, start)), (after, after));
            }
        }
    }
}
