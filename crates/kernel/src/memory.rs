//! Memory that the kernel reads and writes through pointers kept in other such memory (a header points to its
//! name, its buffer, its control bytes). A `Box` may not be pointed into while it is used; a `Block` may.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut, Range};
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
    /// What the allocator gave, a page more than is used.
    allocated: NonNull<u8>,
}

const PAGE: usize = 4096;

impl<T: Zeroed> Block<T> {
    /// A block whose memory is there: no page of it is still to be had when it is used.
    pub(crate) fn new(count: usize) -> Self {
        let mut block = Self::untouched(count);
        block.touch(0..count);
        block
    }

    /// A block of which each page is had when it is first used, where the allocator gets memory from the system for it.
    pub(crate) fn untouched(count: usize) -> Self {
        assert!(count > 0, "a block of nothing");
        let layout = Self::layout(count);
        // Asked for pages, the allocator would write the zeros itself.
        // SAFETY: the layout's size is not zero.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) });
        let allocated = allocated.unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: the layout has a page more than the values take, and less leads to the next page's start.
        let start = unsafe { allocated.add(allocated.align_offset(PAGE)) }.cast();
        Self { start, count, allocated }
    }

    fn layout(count: usize) -> Layout {
        let bytes = Layout::array::<T>(count).map(|values| values.size() + PAGE);
        bytes
            .and_then(|bytes| Layout::from_size_align(bytes, align_of::<T>()))
            .expect("a block is smaller than half the address space")
    }

    /// Has the pages of these values, which were not written to yet.
    pub(crate) fn touch(&mut self, values: Range<usize>) {
        let values = &mut self[values];
        let (first, size) = (values.as_mut_ptr().cast::<u8>(), size_of_val(values));
        for offset in (0..size).step_by(PAGE).chain(size.checked_sub(1)) {
            // SAFETY: the byte is one of these values', which are borrowed for writing, and stays zero.
            unsafe { first.add(offset).write_volatile(0) };
        }
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
        unsafe { dealloc(self.allocated.as_ptr(), Self::layout(self.count)) };
    }
}

// SAFETY: a block owns its memory as a `Vec` does; the pointers inside point to memory of the same owner.
unsafe impl<T: Zeroed> Send for Block<T> {}
