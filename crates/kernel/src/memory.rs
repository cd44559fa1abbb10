//! Memory that the kernel reads and writes through pointers in other such memory: a header points to its name, buffer
//! and control bytes. Pointers into a `Box` become invalid when the `Box` is used. Pointers into a `Block` stay valid.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

/// Types for which all zeros are a valid value, and which need no drop.
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
unsafe impl Zeroed for crate::cmsg::Control {}

/// A fixed number of values on the heap, zeroed at first and page-aligned, so that no two blocks share a cache line.
/// Moving the block does not move its memory.
pub(crate) struct Block<T: Zeroed> {
    start: NonNull<T>,
    count: usize,
    /// The start of the allocation, which is one page longer than the values.
    allocated: NonNull<u8>,
    is_leaked: bool,
}

const PAGE: usize = 4096;

impl<T: Zeroed> Block<T> {
    /// Allocates a block whose pages are all resident.
    pub(crate) fn new(count: usize) -> Self {
        let mut block = Self::untouched(count);
        block.touch(0..count);
        block
    }

    /// Allocates a block whose pages become resident on first use, if the allocator obtains them from the system.
    pub(crate) fn untouched(count: usize) -> Self {
        assert!(count > 0, "a block of nothing");
        let layout = Self::layout(count);
        // With a larger alignment in the layout, the allocator would write the zeros itself, which touches the
        // pages.
        // SAFETY: the layout's size is not zero.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) });
        let allocated = allocated.unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: the layout has one page more than the values need, and the next page boundary is less than a page
        // away.
        let start = unsafe { allocated.add(allocated.align_offset(PAGE)) }.cast();
        Self { start, count, allocated, is_leaked: false }
    }

    fn layout(count: usize) -> Layout {
        let bytes = Layout::array::<T>(count).map(|values| values.size() + PAGE);
        bytes
            .and_then(|bytes| Layout::from_size_align(bytes, align_of::<T>()))
            .expect("a block is smaller than half the address space")
    }

    /// Makes the pages of these values resident. The values must not have been written yet.
    pub(crate) fn touch(&mut self, values: Range<usize>) {
        let values = &mut self[values];
        let (first, size) = (values.as_mut_ptr().cast::<u8>(), size_of_val(values));
        for offset in (0..size).step_by(PAGE).chain(size.checked_sub(1)) {
            // SAFETY: the byte is one of these values', which are borrowed for writing, and stays zero.
            unsafe { first.add(offset).write_volatile(0) };
        }
    }

    /// Has the memory never freed: the kernel may still use it.
    pub(crate) fn leak(&mut self) {
        self.is_leaked = true;
    }

    /// A pointer to one value, valid as long as the block lives.
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
        // SAFETY: the allocation holds `count` valid values, and the borrow of `self` excludes writers: the kernel
        // writes only during calls that borrow the owner mutably.
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
        if self.is_leaked {
            return;
        }
        // SAFETY: the memory was allocated with this layout, and nothing else frees it.
        unsafe { dealloc(self.allocated.as_ptr(), Self::layout(self.count)) };
    }
}

// SAFETY: a block owns its memory as a `Vec` does; the pointers inside point to memory of the same owner.
unsafe impl<T: Zeroed> Send for Block<T> {}
