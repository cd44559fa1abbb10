//! Hints to the processor that a piece of memory is used soon. A frame was last written by another core or by a device,
//! so that each of its lines takes as long as hundreds of instructions to arrive. Asked for a few frames ahead, they are
//! there in time. A hint reads and writes nothing, and without one the program does the same.

/// Hints that the line with this byte will be read.
#[inline]
pub(super) fn to_read(byte: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint may be given for any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(byte.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}

/// Hints that the line with this byte will be written.
#[inline]
pub(super) fn to_write(byte: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint may be given for any address. A processor without this hint does nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(byte.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
