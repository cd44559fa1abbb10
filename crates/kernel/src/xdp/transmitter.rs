//! The ring of frames to send, and which of them the device took.
//!
//! If frames are copied, `sendto` sends them one by one within the call (net/xdp/xsk.c, `__xsk_generic_xmit`). It ends
//! early with EAGAIN if the rest must wait, and with EBUSY if the device refused a frame, which then counts as read
//! from the ring. The kernel publishes what it has read only if it sent a frame in the call, or found the ring empty.
//! So a frame that is refused first is read without any sign but EBUSY.

use std::io;
use std::os::fd::OwnedFd;

use super::rings::Outgoing;

/// How many frames a call sends at most, if the kernel does not let it be set (`TX_BATCH_SIZE`, net/xdp/xsk.c).
pub(super) const USUAL_BUDGET: u32 = 32;

/// Entries of the ring for each frame of its socket. A frame may come back, and be sent again, before the kernel says
/// that it has read the first entry.
pub(super) const ENTRIES_PER_FRAME: u32 = 2;

/// Frames on their way to the device.
pub(super) struct Transmitter {
    ring: Outgoing<libc::xdp_desc>,
    /// The caller's token of each frame, at the place of its entry.
    tokens: Box<[u64]>,
    /// How many frames the kernel may see at a time.
    budget: u32,
    /// Entries that the kernel has read and that no look has returned yet.
    noticed: usize,
    /// Frames that came back so far. Wraps.
    completed: u32,
}

impl Transmitter {
    /// Maps the ring of a socket. `budget` is how many frames one call sends: a call that finds no more than those
    /// ends with an empty ring, and so the kernel always publishes what it has read.
    pub(super) fn map(
        socket: &OwnedFd,
        offsets: &libc::xdp_ring_offset,
        count: u32,
        budget: u32,
    ) -> io::Result<Self> {
        let ring = Outgoing::map(socket, libc::XDP_PGOFF_TX_RING as u64, offsets, count)?;
        Ok(Self { ring, tokens: vec![0; count as usize].into(), budget, noticed: 0, completed: 0 })
    }

    /// Lets the kernel see all frames at once. If frames are not copied, no call has to come to their end.
    pub(super) fn lift_budget(&mut self) {
        self.budget = u32::MAX;
    }

    /// How many frames can be added.
    #[inline]
    pub(super) fn room(&mut self) -> usize {
        if self.waiting() == self.tokens.len() {
            self.noticed += self.ring.look() as usize;
        }
        self.tokens.len() - self.waiting()
    }

    /// Adds a frame. Returns false if there is no room.
    #[inline]
    pub(super) fn push(&mut self, address: u64, length: u32, token: u64) -> bool {
        let place = self.place(self.ring.written());
        let entry = libc::xdp_desc { addr: address, len: length, options: 0 };
        let fits = self.room() > 0 && self.ring.push(entry);
        if fits {
            self.tokens[place] = token;
        }
        fits
    }

    /// Notes that so many frames came back. The kernel has read their entries, also if it has not said so.
    #[inline]
    pub(super) fn completed(&mut self, count: u32) {
        self.completed = self.completed.wrapping_add(count);
        let unknown = self.completed.wrapping_sub(self.ring.taken());
        if (1..=self.ring.waiting()).contains(&unknown) {
            (0..unknown).for_each(|_| self.ring.note_taken());
            self.noticed += unknown as usize;
        }
    }

    /// Frames that were added and that the device has neither taken nor refused, as far as is known.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.ring.waiting() as usize
    }

    /// Whether no call can change anything: the kernel has read all frames and said so.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.ring.is_read()
    }

    /// Whether the kernel wants a call for new frames, if frames are not copied.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }

    /// Lets the kernel see as many frames as a call sends.
    #[inline]
    pub(super) fn publish(&mut self) {
        let seen = self.ring.waiting().min(self.budget);
        self.ring.publish(self.ring.taken().wrapping_add(seen));
    }

    /// How many frames the kernel has read since the last call of this function or of [`Self::refused`], also if that
    /// became known in between.
    #[inline]
    pub(super) fn look(&mut self) -> usize {
        std::mem::take(&mut self.noticed) + self.ring.look() as usize
    }

    /// Notes that a call ended with EBUSY: the device refused the frame that the kernel read last. Returns the number
    /// of frames that the kernel read and sent before, and the token of the refused frame; `None` if there is no frame
    /// that it can have read.
    pub(super) fn refused(&mut self) -> Option<(usize, u64)> {
        let read = match self.ring.look() {
            0 if self.ring.waiting() == 0 => return None,
            0 => {
                self.ring.note_taken();
                1
            }
            read => read as usize,
        };
        let token = self.tokens[self.place(self.ring.taken().wrapping_sub(1))];
        Some((std::mem::take(&mut self.noticed) + read - 1, token))
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        number as usize & (self.tokens.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rings::Incoming;
    use super::super::rings::tests::OFFSETS;
    use super::*;

    const COUNT: u32 = 8;

    /// A ring, and the reading side of it that stands for the kernel. The ring is in a sparse file, since its mapping
    /// begins at the offset that the kernel gives it.
    fn both(budget: u32) -> (Transmitter, Incoming<libc::xdp_desc>) {
        let page = libc::XDP_PGOFF_TX_RING as u64;
        let file = tempfile::tempfile().unwrap();
        file.set_len(page + 4096).unwrap();
        let memory = OwnedFd::from(file);
        let transmitter = Transmitter::map(&memory, &OFFSETS, COUNT, budget).unwrap();
        (transmitter, Incoming::map(&memory, page, &OFFSETS, COUNT).unwrap())
    }

    fn read(kernel: &mut Incoming<libc::xdp_desc>, count: usize) {
        for _ in 0..count {
            kernel.pop().unwrap();
        }
    }

    fn put(transmitter: &mut Transmitter, tokens: std::ops::Range<u64>) {
        tokens.for_each(|token| assert!(transmitter.push(token * 2048, 60, token)));
    }

    #[test]
    fn a_refused_frame_is_the_last_that_was_read() {
        let (mut transmitter, mut kernel) = both(USUAL_BUDGET);
        put(&mut transmitter, 0..6);
        transmitter.publish();
        assert_eq!(transmitter.waiting(), 6);
        // Two frames are sent, the third is refused: the kernel publishes three.
        read(&mut kernel, 3);
        kernel.release();
        assert_eq!(transmitter.refused(), Some((2, 2)));
        // The fourth is refused first in its call: the kernel publishes nothing.
        assert_eq!(kernel.pop().map(|frame| frame.addr), Some(3 * 2048));
        assert_eq!(transmitter.refused(), Some((0, 3)));
        assert_eq!(transmitter.waiting(), 2);
        assert!(!transmitter.is_settled());
        // The rest is sent.
        read(&mut kernel, 2);
        kernel.release();
        assert_eq!(transmitter.look(), 2);
        assert_eq!(transmitter.waiting(), 0);
        assert!(transmitter.is_settled());
    }

    #[test]
    fn places_are_used_again_once_frames_are_known_to_be_read() {
        let (mut transmitter, mut kernel) = both(USUAL_BUDGET);
        put(&mut transmitter, 0..u64::from(COUNT));
        transmitter.publish();
        for token in 0..u64::from(COUNT) {
            read(&mut kernel, 1);
            assert_eq!(transmitter.refused(), Some((0, token)));
        }
        put(&mut transmitter, 8..16);
        transmitter.publish();
        for token in 8..16 {
            assert_eq!(kernel.pop().map(|frame| frame.addr), Some(token * 2048));
            kernel.release();
            assert_eq!(transmitter.refused(), Some((0, token)));
        }
        assert!(transmitter.is_settled());
    }

    #[test]
    fn a_full_ring_takes_nothing_until_the_kernel_has_read() {
        let (mut transmitter, mut kernel) = both(USUAL_BUDGET);
        put(&mut transmitter, 0..u64::from(COUNT));
        transmitter.publish();
        assert!(transmitter.room() == 0 && !transmitter.push(0, 60, 99));
        read(&mut kernel, 3);
        kernel.release();
        assert_eq!(transmitter.room(), 3);
        put(&mut transmitter, 8..10);
        assert_eq!((transmitter.look(), transmitter.look(), transmitter.waiting()), (3, 0, 7));
    }

    #[test]
    fn frames_that_came_back_were_read() {
        let (mut transmitter, mut kernel) = both(USUAL_BUDGET);
        put(&mut transmitter, 0..6);
        transmitter.publish();
        read(&mut kernel, 4);
        transmitter.completed(2);
        assert_eq!((transmitter.waiting(), transmitter.look()), (4, 2));
        // The kernel says so later.
        kernel.release();
        assert_eq!(transmitter.look(), 2);
        transmitter.completed(2);
        assert_eq!((transmitter.look(), transmitter.waiting()), (0, 2));
    }

    #[test]
    fn no_frame_is_refused_that_was_not_put() {
        let (mut transmitter, _kernel) = both(USUAL_BUDGET);
        assert_eq!(transmitter.refused(), None);
    }

    #[test]
    fn without_a_budget_the_kernel_sees_all() {
        let (mut transmitter, mut kernel) = both(3);
        transmitter.lift_budget();
        put(&mut transmitter, 0..8);
        transmitter.publish();
        assert_eq!(std::iter::from_fn(|| kernel.pop()).count(), 8);
    }

    #[test]
    fn the_kernel_sees_no_more_than_a_call_sends() {
        let (mut transmitter, mut kernel) = both(3);
        put(&mut transmitter, 0..5);
        for wanted in [3, 2] {
            transmitter.publish();
            assert_eq!(std::iter::from_fn(|| kernel.pop()).count(), wanted);
            kernel.release();
            assert_eq!(transmitter.look(), wanted);
        }
        assert!(transmitter.is_settled());
    }
}
