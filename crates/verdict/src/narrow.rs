//! Numbers of things in a run, and their places in its lists, as the records hold them: in 32 bits.

/// The number in 32 bits. No run has so many things that theirs would not fit.
pub(crate) fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
