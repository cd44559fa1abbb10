//! The frames of a socket: one piece of memory that the kernel, or the device itself, reads and writes.

use std::io;
use std::os::fd::OwnedFd;

use memmap2::{MmapOptions, MmapRaw};

use super::prefetch;
use super::program::ARRIVAL_BYTES;

/// The length of a frame's memory.
pub(super) const FRAME_BYTES: usize = 2048;

/// Where a received frame begins in its memory (`XDP_PACKET_HEADROOM`, linux/bpf.h). The time of arrival is before it.
pub(super) const RECEIVED_AT: usize = 256;

/// Frames to be sent begin at one of these many places, a cache line apart. If all began at the same place of their
/// 2048 bytes, their headers would share a few sets of the cache.
const SEND_PLACES: usize = 8;

const LINE_BYTES: usize = 64;

/// The room of a frame to be sent, which is the same at all places.
pub(super) const SEND_BYTES: usize = FRAME_BYTES - (SEND_PLACES - 1) * LINE_BYTES;

/// The right to a frame's memory. It cannot be copied, and is given up when the frame's address goes to the kernel.
pub(super) struct Frame(u32);

impl Frame {
    /// Takes back a frame from the kernel by any address in it.
    ///
    /// # Safety
    /// The kernel must have given the frame back, and no other value of this frame may exist.
    pub(super) unsafe fn returned(address: u64) -> Self {
        Self((address / FRAME_BYTES as u64) as u32)
    }

    /// The address of the frame's first byte, relative to the memory of all frames.
    pub(super) fn address(&self) -> u64 {
        u64::from(self.0) * FRAME_BYTES as u64
    }

    /// Where this frame begins in its memory when it is to be sent.
    pub(super) fn send_at(&self) -> usize {
        self.0 as usize % SEND_PLACES * LINE_BYTES
    }
}

/// The memory of all frames of a socket.
pub(super) struct Umem {
    map: MmapRaw,
    frames: u32,
}

impl Umem {
    /// Maps memory for frames, all of it resident, and returns it with the right to each of them.
    pub(super) fn new(frames: u32) -> io::Result<(Self, Vec<Frame>)> {
        let bytes = frames as usize * FRAME_BYTES;
        let map = MmapOptions::new().len(bytes).populate().map_anon()?;
        Ok((Self { map: map.into(), frames }, (0..frames).map(Frame).collect()))
    }

    /// Maps a file that has the length of all frames and is empty yet. Another mapping of the file has the same bytes.
    pub(super) fn of_file(frames: u32, file: &OwnedFd) -> io::Result<(Self, Vec<Frame>)> {
        let map = MmapOptions::new().len(frames as usize * FRAME_BYTES).populate().map_raw(file)?;
        Ok((Self { map, frames }, (0..frames).map(Frame).collect()))
    }

    /// Describes the memory to the kernel. The kernel keeps its pages as long as it may use them, even if they are
    /// unmapped before.
    pub(super) fn registration(&self) -> libc::xdp_umem_reg {
        libc::xdp_umem_reg {
            addr: self.map.as_mut_ptr() as u64,
            len: self.map.len() as u64,
            chunk_size: FRAME_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        }
    }

    /// The bytes of a frame from an offset to its end.
    #[inline]
    pub(super) fn bytes_mut(&mut self, frame: &Frame, from: usize) -> &mut [u8] {
        assert!(frame.0 < self.frames && from <= FRAME_BYTES, "a frame beyond its memory");
        let start = frame.0 as usize * FRAME_BYTES + from;
        // SAFETY: the bytes are within the mapping. The kernel and the device do not touch them, since the right to the
        // frame is here; and this is the only slice, since `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(start), FRAME_BYTES - from) }
    }

    /// The bytes of a received frame that begins at this address, relative to the memory of all frames.
    ///
    /// # Safety
    /// The kernel must have given the frame back, and no value of the right to it may exist.
    #[inline]
    pub(super) unsafe fn received(&self, address: u64, length: usize) -> &[u8] {
        let start = address as usize;
        let is_within = start < self.map.len() && start % FRAME_BYTES + length <= FRAME_BYTES;
        assert!(is_within, "a frame beyond its memory");
        // SAFETY: the bytes are within the mapping. The kernel and the device do not touch them. Nothing here writes
        // them either: that takes the right to the frame.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(start), length) }
    }

    /// The time that the program wrote before a received frame, which begins at `from`; 0 if it wrote none.
    #[inline]
    pub(super) fn arrived_ns(&mut self, frame: &Frame, from: usize) -> u64 {
        if from != RECEIVED_AT {
            return 0;
        }
        let before = self.bytes_mut(frame, RECEIVED_AT - ARRIVAL_BYTES as usize);
        before.first_chunk().map_or(0, |time| u64::from_ne_bytes(*time))
    }

    /// Begins to load the first bytes of a received frame, and the time before it.
    #[inline]
    pub(super) fn load_ahead(&self, address: u64) {
        let start = address as usize;
        if (RECEIVED_AT..self.map.len()).contains(&start) {
            prefetch::to_read(self.map.as_ptr().wrapping_add(start - ARRIVAL_BYTES as usize));
            self.each_line(start, prefetch::to_read);
        }
    }

    /// Begins to fetch the first bytes of a frame that will be written from an offset on.
    #[inline]
    pub(super) fn own_ahead(&self, frame: &Frame, from: usize) {
        let start = frame.0 as usize * FRAME_BYTES + from;
        self.each_line(start, prefetch::to_write);
    }

    /// Calls `hint` with a byte of each of the two lines from `start` on.
    #[inline]
    fn each_line(&self, start: usize, hint: fn(*const u8)) {
        for at in [start, start + LINE_BYTES] {
            if at < self.map.len() {
                hint(self.map.as_ptr().wrapping_add(at));
            }
        }
    }

    /// Clears the place of the time of arrival, for a driver that has no room for it.
    #[inline]
    pub(super) fn forget_arrival(&mut self, frame: &Frame) {
        self.bytes_mut(frame, RECEIVED_AT - ARRIVAL_BYTES as usize)[..ARRIVAL_BYTES as usize].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lie_side_by_side() {
        let (mut umem, frames) = Umem::new(16).unwrap();
        for frame in &frames {
            let number = frame.0 as u8;
            umem.bytes_mut(frame, 0).fill(number);
            assert_eq!(umem.bytes_mut(frame, 48).len(), FRAME_BYTES - 48);
            assert!(frame.send_at() + SEND_BYTES <= FRAME_BYTES);
        }
        for frame in &frames {
            assert!(umem.bytes_mut(frame, 0).iter().all(|byte| u32::from(*byte) == frame.0));
            // SAFETY: the other value of this frame is not used any more.
            let same = unsafe { Frame::returned(frame.address() + 777) };
            assert_eq!(same.0, frame.0);
        }
        let registration = umem.registration();
        assert_eq!((registration.len, registration.addr % 4096), (16 * 2048, 0));
    }

    #[test]
    fn the_time_of_arrival_is_before_the_frame() {
        let (mut umem, frames) = Umem::new(2).unwrap();
        assert_eq!(umem.arrived_ns(&frames[1], 256), 0);
        umem.bytes_mut(&frames[1], 248)[..8].copy_from_slice(&7_u64.to_ne_bytes());
        assert_eq!(umem.arrived_ns(&frames[1], 256), 7);
        // Elsewhere there is none.
        assert_eq!(umem.arrived_ns(&frames[1], 0), 0);
        umem.forget_arrival(&frames[1]);
        assert_eq!(umem.arrived_ns(&frames[1], 256), 0);
    }
}
