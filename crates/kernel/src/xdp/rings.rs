//! The rings that a socket shares with the kernel (`Documentation/networking/af_xdp.rst`, "Rings"): arrays whose
//! entries one side writes and the other reads. Each side publishes how many entries it has written or read so far;
//! these numbers wrap at 2³². The writer's number is stored after the entries, and the reader's after they were read.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Types of entries.
///
/// # Safety
/// Any bytes are a value of the implementor.
pub(super) unsafe trait Entry: Copy {}
// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: integers.
unsafe impl Entry for libc::xdp_desc {}

/// The memory of a ring.
struct Shared<E> {
    written: NonNull<AtomicU32>,
    read: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<E>,
    /// The number of entries less 1.
    mask: u32,
    /// Keeps all of it mapped.
    _map: MmapRaw,
}

// SAFETY: the value owns its mapping, which is the same in all threads.
unsafe impl<E: Entry> Send for Shared<E> {}

impl<E: Entry> Shared<E> {
    /// Maps a ring of `count` entries, a power of two. `offsets` are relative to `page`.
    fn map(socket: &OwnedFd, page: u64, offsets: &libc::xdp_ring_offset, count: u32) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "a ring of {count} entries");
        let bytes = offsets.desc as usize + count as usize * size_of::<E>();
        let map = MmapOptions::new().offset(page).len(bytes).populate().map_raw(socket)?;
        let at = |offset: u64, size: usize, alignment: usize| {
            let offset = offset as usize;
            assert!(offset + size <= bytes && offset.is_multiple_of(alignment), "a ring beyond its memory");
            // SAFETY: the offset is within the mapping, whose start is not null.
            unsafe { NonNull::new_unchecked(map.as_mut_ptr().add(offset)) }
        };
        let number = |offset| at(offset, size_of::<AtomicU32>(), align_of::<AtomicU32>()).cast::<AtomicU32>();
        Ok(Self {
            written: number(offsets.producer),
            read: number(offsets.consumer),
            flags: number(offsets.flags),
            entries: at(offsets.desc, count as usize * size_of::<E>(), align_of::<E>()).cast(),
            mask: count - 1,
            _map: map,
        })
    }

    #[inline]
    fn written(&self) -> &AtomicU32 {
        // SAFETY: the number is aligned and within the mapping, which lives as long as `self`; both sides use it
        // atomically.
        unsafe { self.written.as_ref() }
    }

    #[inline]
    fn read(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.read.as_ref() }
    }

    /// Whether the kernel wants a system call for new entries.
    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        let flags = unsafe { self.flags.as_ref() }.load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// The place of the entry with this number.
    #[inline]
    fn entry(&self, number: u32) -> NonNull<E> {
        // SAFETY: the mask keeps the index within the entries, which are all mapped.
        unsafe { self.entries.add((number & self.mask) as usize) }
    }
}

/// A ring whose entries this process writes and the kernel reads.
pub(super) struct Outgoing<E> {
    ring: Shared<E>,
    /// Entries written so far, published or not.
    written: u32,
    /// Entries that the kernel has read so far, as far as is known.
    taken: u32,
}

impl<E: Entry> Outgoing<E> {
    pub(super) fn map(
        socket: &OwnedFd,
        page: u64,
        offsets: &libc::xdp_ring_offset,
        count: u32,
    ) -> io::Result<Self> {
        Ok(Self { ring: Shared::map(socket, page, offsets, count)?, written: 0, taken: 0 })
    }

    /// Entries written so far, published or not. Wraps.
    #[inline]
    pub(super) fn written(&self) -> u32 {
        self.written
    }

    /// Entries that the kernel has read so far, as far as is known. Wraps.
    #[inline]
    pub(super) fn taken(&self) -> u32 {
        self.taken
    }

    /// Entries written and not read yet, as far as is known.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        self.written.wrapping_sub(self.taken)
    }

    /// Writes an entry, which the kernel sees after [`Self::publish`]. Returns false if there is no room.
    #[inline]
    pub(super) fn push(&mut self, entry: E) -> bool {
        if self.waiting() > self.ring.mask {
            return false;
        }
        // SAFETY: the place is mapped. The kernel reads entries from those that it took up to those that were
        // published, and since there is room, this place is not among them.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    /// Lets the kernel see the entries before this number, which is at most [`Self::written`] and never goes back.
    #[inline]
    pub(super) fn publish(&mut self, number: u32) {
        self.ring.written().store(number, Ordering::Release);
    }

    /// Reads how many entries the kernel says that it has read. Returns how many are new.
    #[inline]
    pub(super) fn look(&mut self) -> u32 {
        let published = self.ring.read().load(Ordering::Acquire);
        let new = published.wrapping_sub(self.taken);
        // The kernel may say so later than it became known by the result of a call.
        if new > self.waiting() {
            return 0;
        }
        self.taken = published;
        new
    }

    /// Notes that the kernel has read one more entry, of which it has not said so yet. There must be one.
    #[inline]
    pub(super) fn note_taken(&mut self) {
        assert!(self.waiting() > 0, "no entry that the kernel can have read");
        self.taken = self.taken.wrapping_add(1);
    }

    /// Whether the kernel says that it has read all entries.
    #[inline]
    pub(super) fn is_read(&self) -> bool {
        self.ring.read().load(Ordering::Acquire) == self.written
    }

    /// Whether the kernel wants a system call for new entries.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring whose entries the kernel writes and this process reads.
pub(super) struct Incoming<E> {
    ring: Shared<E>,
    /// Entries read so far, published or not.
    read: u32,
    /// Entries that the kernel has written so far, as far as is known.
    written: u32,
}

impl<E: Entry> Incoming<E> {
    pub(super) fn map(
        socket: &OwnedFd,
        page: u64,
        offsets: &libc::xdp_ring_offset,
        count: u32,
    ) -> io::Result<Self> {
        Ok(Self { ring: Shared::map(socket, page, offsets, count)?, read: 0, written: 0 })
    }

    /// The number of entries that can be read.
    #[inline]
    pub(super) fn ready(&mut self) -> u32 {
        self.written = self.ring.written().load(Ordering::Acquire);
        self.written.wrapping_sub(self.read)
    }

    /// The entry that is read after `ahead` others, without reading it. It must be among those of [`Self::ready`].
    #[inline]
    pub(super) fn peek(&self, ahead: u32) -> E {
        assert!(ahead < self.written.wrapping_sub(self.read), "an entry that is not written yet");
        // SAFETY: the place is mapped. The kernel has written the entry, and writes it again only after `release`; any
        // bytes are a value.
        unsafe { self.ring.entry(self.read.wrapping_add(ahead)).read() }
    }

    /// The entry that is read after `ahead` others, if it is known to be written.
    #[inline]
    pub(super) fn look_ahead(&self, ahead: u32) -> Option<E> {
        (ahead < self.written.wrapping_sub(self.read)).then(|| self.peek(ahead))
    }

    /// Reads the next entry, if there is one.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<E> {
        if self.read == self.written {
            self.written = self.ring.written().load(Ordering::Acquire);
            if self.read == self.written {
                return None;
            }
        }
        // SAFETY: the place is mapped. The kernel has written the entry, and writes it again only after `release`; any
        // bytes are a value.
        let entry = unsafe { self.ring.entry(self.read).read() };
        self.read = self.read.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of all entries that were read back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.read().store(self.read, Ordering::Release);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Where the parts of a ring are in a file that stands for the kernel's memory.
    pub(in super::super) const OFFSETS: libc::xdp_ring_offset =
        libc::xdp_ring_offset { producer: 0, consumer: 64, flags: 128, desc: 192 };

    /// The memory of a ring of eight entries.
    fn memory() -> OwnedFd {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        file.into()
    }

    #[test]
    fn entries_arrive_in_order_and_only_once_they_are_published() {
        let memory = memory();
        let mut writer = Outgoing::<u64>::map(&memory, 0, &OFFSETS, 8).unwrap();
        let mut reader = Incoming::<u64>::map(&memory, 0, &OFFSETS, 8).unwrap();
        // Three times round the ring.
        for round in 0..5_u64 {
            for place in 0..5 {
                assert!(writer.push(round * 5 + place));
            }
            assert_eq!(reader.pop(), None);
            assert_eq!(reader.ready(), 0);
            writer.publish(writer.written());
            assert_eq!((reader.ready(), reader.peek(0), reader.peek(4)), (5, round * 5, round * 5 + 4));
            for place in 0..5 {
                assert_eq!(reader.pop(), Some(round * 5 + place));
            }
            assert_eq!(reader.pop(), None);
            assert!(!writer.is_read());
            assert_eq!(writer.look(), 0);
            reader.release();
            assert!(writer.is_read());
            assert_eq!((writer.look(), writer.look(), writer.waiting()), (5, 0, 0));
        }
    }

    #[test]
    fn a_full_ring_takes_nothing() {
        let memory = memory();
        let mut writer = Outgoing::<u64>::map(&memory, 0, &OFFSETS, 8).unwrap();
        let mut reader = Incoming::<u64>::map(&memory, 0, &OFFSETS, 8).unwrap();
        assert!((0..8).all(|entry| writer.push(entry)));
        assert!(!writer.push(8));
        writer.publish(writer.written());
        assert_eq!(reader.pop(), Some(0));
        reader.release();
        assert!(!writer.push(8));
        assert_eq!(writer.look(), 1);
        assert!(writer.push(8));
        assert!(!writer.push(9));
    }

    #[test]
    fn what_is_known_before_the_kernel_says_so_counts_once() {
        let memory = memory();
        let mut writer = Outgoing::<u64>::map(&memory, 0, &OFFSETS, 8).unwrap();
        let mut reader = Incoming::<u64>::map(&memory, 0, &OFFSETS, 8).unwrap();
        assert!((0..4).all(|entry| writer.push(entry)));
        writer.publish(writer.written());
        assert_eq!((reader.pop(), reader.pop()), (Some(0), Some(1)));
        writer.note_taken();
        writer.note_taken();
        assert_eq!((writer.look(), writer.waiting()), (0, 2));
        assert_eq!(reader.pop(), Some(2));
        reader.release();
        assert_eq!((writer.look(), writer.waiting()), (1, 1));
    }
}
