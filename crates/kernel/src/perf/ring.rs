//! A ring that the kernel writes records into (`perf_event_open(2)`, "MMAP layout"): a page with two positions, and
//! the records. The kernel stores its position after a record, and overwrites nothing before the reader's position.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::param::page_size;

/// Offsets of `data_head` and `data_tail` in the first page (`struct perf_event_mmap_page`).
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A record begins with its type, flags and size (`struct perf_event_header`).
const HEADER_BYTES: usize = 8;

#[derive(Debug)]
pub(super) struct Ring {
    head: NonNull<AtomicU64>,
    tail: NonNull<AtomicU64>,
    data: NonNull<u8>,
    /// The length of the data, a power of two.
    bytes: usize,
    /// Keeps all of it mapped.
    _map: MmapRaw,
}

// SAFETY: the value owns its mapping, which is the same in all threads.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event.
    pub(super) fn map(event: &File, bytes: usize) -> io::Result<Self> {
        let page = page_size();
        assert!(bytes.is_power_of_two() && bytes >= page, "a ring of {bytes} bytes");
        let map = MmapOptions::new().len(page + bytes).map_raw(event)?;
        // SAFETY: the offsets are within the mapping, whose start is not null and aligned to a page.
        let at = |offset: usize| unsafe { NonNull::new_unchecked(map.as_mut_ptr().add(offset)) };
        Ok(Self { head: at(HEAD).cast(), tail: at(TAIL).cast(), data: at(page), bytes, _map: map })
    }

    /// Passes each record that waits, in `scratch`, and then frees its place.
    pub(super) fn drain(&mut self, scratch: &mut Vec<u8>, each: &mut dyn FnMut(&[u8])) {
        // SAFETY: both positions are aligned and within the mapping, which lives as long as `self`; the kernel uses
        // them atomically.
        let (head, tail) = unsafe { (self.head.as_ref(), self.tail.as_ref()) };
        let end = head.load(Ordering::Acquire);
        let mut next = tail.load(Ordering::Relaxed);
        while next < end {
            self.copy(next, HEADER_BYTES, scratch);
            let size = usize::from(u16::from_ne_bytes([scratch[6], scratch[7]]));
            if size < HEADER_BYTES || next + size as u64 > end {
                // No kernel writes this; nothing after it can be read.
                next = end;
                break;
            }
            self.copy(next, size, scratch);
            each(scratch);
            next += size as u64;
        }
        tail.store(next, Ordering::Release);
    }

    /// Copies bytes from a position on, which wraps at the end of the data.
    fn copy(&self, position: u64, size: usize, into: &mut Vec<u8>) {
        let start = position as usize & (self.bytes - 1);
        let first = size.min(self.bytes - start);
        into.clear();
        into.reserve(size);
        // SAFETY: both parts are within the data, which the kernel does not write before the reader's position passes
        // it; the vector has room for them, and all of its `size` bytes are written.
        unsafe {
            std::ptr::copy_nonoverlapping(self.data.as_ptr().add(start), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(self.data.as_ptr(), into.as_mut_ptr().add(first), size - first);
            into.set_len(size);
        }
    }
}
