//! Buffers that are provided to a ring in advance: the kernel takes one for each message that it receives.

use std::io;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::memory::{Block, Zeroed};

/// A buffer of one ring. It belongs to the caller, and the kernel does not touch it, until it is used for a reply or
/// given back. Functions of another ring panic if they are called with it.
#[derive(Debug)]
pub struct Buffer {
    /// The number of its ring.
    ring: u32,
    pub(super) id: u16,
}

/// Space for one `BufRingEntry`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Provided([u8; size_of::<BufRingEntry>()]);
// SAFETY: bytes.
unsafe impl Zeroed for Provided {}

/// The buffers of one ring.
pub(super) struct ProvidedBuffers {
    provided: Block<Provided>,
    bytes: Block<u8>,
    bytes_each: usize,
    /// No other ring of this process has this number.
    number: u32,
    tail: u16,
    mask: u16,
}

/// The only group of buffers of a ring.
pub(super) const GROUP: u16 = 0;

const LINE_BYTES: usize = 64;

/// The first bytes of each buffer that are resident from the beginning.
const USUAL_BYTES: usize = 4096;

impl ProvidedBuffers {
    /// Makes `count` buffers (a power of two up to 32768) of at least `bytes_each` bytes.
    pub(super) fn new(count: u16, bytes_each: usize) -> io::Result<Self> {
        // An odd number of cache lines. With a large power of two, the beginnings of all buffers, which are used
        // most, would share a few cache sets.
        let bytes_each = bytes_each.next_multiple_of(LINE_BYTES) | LINE_BYTES;
        let many = usize::from(count);
        let mut all = Self {
            provided: Block::new(many),
            // Most messages are short, so the ends of long buffers need no memory.
            bytes: Block::untouched(many * bytes_each),
            bytes_each,
            number: unused_number()?,
            tail: 0,
            mask: count - 1,
        };
        for start in (0..many).map(|index| index * bytes_each) {
            all.bytes.touch(start..start + bytes_each.min(USUAL_BYTES));
        }
        Ok(all)
    }

    /// Gives all buffers to a ring. The owner drops the ring before these buffers, or leaks them.
    pub(super) fn register(&mut self, ring: &IoUring) -> io::Result<()> {
        let provided = self.provided.at(0) as u64;
        // SAFETY: the block is page-aligned, has as many entries as there are buffers, and lives as long as the ring.
        unsafe { ring.submitter().register_buf_ring_with_flags(provided, self.mask + 1, GROUP, 0) }?;
        (0..=self.mask).for_each(|id| self.give_back(self.buffer(id)));
        Ok(())
    }

    /// Returns a buffer to the kernel, for messages to come.
    #[inline]
    #[allow(clippy::needless_pass_by_value)] // giving the handle up is the point
    pub(super) fn give_back(&mut self, buffer: Buffer) {
        let start = self.index(&buffer) * self.bytes_each;
        let base = self.provided.at(0).cast::<BufRingEntry>();
        let address = self.bytes.at(start) as u64;
        // SAFETY: the mask keeps the entry within the block. The kernel reads entries only up to the tail, which
        // moves after the entry was written; the tail is in bytes that no entry uses. The buffer that the entry offers
        // to the kernel is this ring's, as `index` checked, and the caller gave up its only handle.
        unsafe {
            let entry = &mut *base.add(usize::from(self.tail & self.mask));
            entry.set_addr(address);
            entry.set_len(self.bytes_each as u32);
            entry.set_bid(buffer.id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(base).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// All bytes of a buffer.
    #[inline]
    pub(super) fn whole_mut(&mut self, buffer: &Buffer) -> &mut [u8] {
        let start = self.index(buffer) * self.bytes_each;
        &mut self.bytes[start..][..self.bytes_each]
    }

    /// A pointer to a byte of a buffer, valid as long as these buffers live.
    #[inline]
    pub(super) fn at(&self, buffer: &Buffer, offset: usize) -> *mut u8 {
        assert!(offset < self.bytes_each);
        self.bytes.at(self.index(buffer) * self.bytes_each + offset)
    }

    /// The length of each buffer.
    #[inline]
    pub(super) fn bytes_each(&self) -> usize {
        self.bytes_each
    }

    /// The handle of a buffer that the kernel does not use.
    #[inline]
    pub(super) fn buffer(&self, id: u16) -> Buffer {
        Buffer { ring: self.number, id }
    }

    /// The index of a buffer. Panics if another ring owns it: the kernel may be using this ring's buffer of that index.
    #[inline]
    pub(super) fn index(&self, buffer: &Buffer) -> usize {
        assert!(buffer.ring == self.number, "a buffer of another ring");
        usize::from(buffer.id)
    }

    /// Has the memory never freed: the kernel may still write to it.
    pub(super) fn leak(&mut self) {
        self.provided.leak();
        self.bytes.leak();
    }
}

/// Returns a number that no other ring of this process has or had. Numbers never begin again at 0, since buffers may
/// outlive their ring.
fn unused_number() -> io::Result<u32> {
    static USED: AtomicU64 = AtomicU64::new(0);
    let number = u32::try_from(USED.fetch_add(1, Ordering::Relaxed));
    number.map_err(|_| io::Error::other("this process has already made 4,294,967,296 rings"))
}
