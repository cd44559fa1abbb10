//! Memory that the kernel reads and writes through pointers kept in other such memory (a header points to its
//! name, its buffer, its control bytes). A `Box` may not be pointed into while it is used; a `Block` may.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Types for which all zeros are a value, and which need no drop.
///
/// # Safety
/// The implementor is valid when every byte is zero.
pub(crate) unsafe trait Zeroed: Copy {}
// SAFETY: integers, null pointers and arrays of bytes.
unsafe impl Zeroed for u8 {}
// SAFETY: as above.
unsafe impl Zeroed for libc::mmsghdr {}
// SAFETY: as above.
unsafe impl Zeroed for libc::iovec {}
// SAFETY: as above.
unsafe impl Zeroed for crate::address::Address {}
// SAFETY: as above.
unsafe impl Zeroed for crate::control::Control {}

/// A fixed run of values on the heap, zeroed at first, at least page-aligned so that no two blocks share a
/// cache line. It never moves, whatever happens to its owner.
pub(crate) struct Block<T: Zeroed> {
    start: NonNull<T>,
    count: usize,
}

const PAGE: usize = 4096;

impl<T: Zeroed> Block<T> {
    pub(crate) fn new(count: usize) -> Self {
        assert!(count > 0, "a block of nothing");
        let layout = Self::layout(count);
        // SAFETY: the layout's size is not zero, since the count is not and no `Zeroed` type is empty.
        let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
        Self { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)), count }
    }

    fn layout(count: usize) -> Layout {
        Layout::array::<T>(count)
            .and_then(|layout| layout.align_to(PAGE))
            .expect("a block is smaller than half the address space")
    }

    /// A pointer to one value, good for as long as the block lives.
    pub(crate) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.count);
        // SAFETY: the index is within the allocation.
        unsafe { self.start.as_ptr().add(index) }
    }
}

impl<T: Zeroed> Deref for Block<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the allocation holds `count` valid values, and the borrow of `self` rules out writers: the
        // kernel writes only during calls that borrow the owner mutably.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Zeroed> DerefMut for Block<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and the mutable borrow makes this the only slice.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl<T: Zeroed> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nobody else frees it.
        unsafe { dealloc(self.start.as_ptr().cast(), Self::layout(self.count)) };
    }
}

// SAFETY: a block owns its memory as a `Vec` does; the pointers inside point to memory of the same owner.
unsafe impl<T: Zeroed> Send for Block<T> {}
