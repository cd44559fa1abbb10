//! How a socket receives frames: it reads those that arrived, and gives the kernel empty ones for the next.

use std::os::fd::AsRawFd as _;
use std::ptr::null_mut;

use super::super::umem::{FRAME_BYTES, Frame};
use super::{AHEAD, SENT_BACK, XdpSocket};

impl XdpSocket {
    /// The bytes of up to `most` frames that arrived, without reading them. The next call of [`Self::receive`] reads
    /// them, in this order.
    pub fn arrived(&mut self, most: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        let count = (self.received.ready() as usize).min(most);
        let (received, umem) = (&self.received, &self.umem);
        (0..count).map(move |ahead| {
            let entry = received.peek(ahead as u32);
            // SAFETY: with its entry in this ring the kernel gives a frame back, and the right to it is taken only when
            // the entry is read, for which `self` must not be borrowed.
            unsafe { umem.received(entry.addr, entry.len as usize) }
        })
    }

    /// Reads up to `most` frames that arrived, and returns how many. Calls `each` with the bytes from the start of the
    /// frame to the end of its memory, the length of the frame, and its time of arrival in nanoseconds of
    /// `CLOCK_MONOTONIC`, which the program took; 0 if the driver has no room for it. If `each` returns a length, the
    /// frame is sent back as it now is, by the next [`Self::flush`] and with the token [`SENT_BACK`].
    pub fn receive(
        &mut self,
        most: usize,
        mut each: impl FnMut(&mut [u8], usize, u64) -> Option<usize>,
    ) -> usize {
        if self.receiving < self.share {
            self.reap();
        }
        let mut count = 0;
        while count < most {
            let Some(received) = self.received.pop() else { break };
            if let Some(later) = self.received.look_ahead(AHEAD as u32) {
                self.umem.load_ahead(later.addr);
            }
            count += 1;
            self.receiving -= 1;
            // SAFETY: with its entry in this ring the kernel gives a frame back, and the right to it was given up
            // when it went into the ring of empty frames.
            let frame = unsafe { Frame::returned(received.addr) };
            let at = received.addr as usize % FRAME_BYTES;
            let arrived_ns = self.umem.arrived_ns(&frame, at);
            match each(self.umem.bytes_mut(&frame, at), received.len as usize, arrived_ns) {
                Some(length) => {
                    let is_queued = self.send(frame, at, length, SENT_BACK);
                    self.not_sent_back += usize::from(!is_queued);
                }
                None => self.free.push(frame),
            }
        }
        if count > 0 {
            self.received.release();
            self.refill();
        }
        if self.is_zero_copy && self.empty.needs_wakeup() {
            self.wake_receiver();
        }
        count
    }

    /// Makes a driver look for empty frames that ran out of them. An error means that it looks later.
    fn wake_receiver(&self) {
        let (fd, nothing) = (self.fd.as_raw_fd(), null_mut());
        // SAFETY: there is no room for bytes or an address.
        unsafe { libc::recvfrom(fd, nothing, 0, libc::MSG_DONTWAIT, null_mut(), null_mut()) };
    }

    /// Takes back frames that were sent, for receiving first.
    pub(super) fn reap(&mut self) {
        let before = self.free.len();
        // With its entry in this ring the kernel has also read that of the ring of frames to send.
        while let Some(address) = self.sent.pop() {
            // SAFETY: with its entry in this ring the kernel gives a frame back, and the right to it was given up when
            // it was queued for sending.
            self.free.push(unsafe { Frame::returned(address) });
        }
        if self.free.len() > before {
            self.transmitter.completed((self.free.len() - before) as u32);
            self.sent.release();
        }
        self.refill();
    }

    /// Gives the kernel empty frames, as many as should receive.
    pub(super) fn refill(&mut self) {
        if self.receiving >= self.share {
            return;
        }
        self.empty.look();
        while self.receiving < self.share {
            let Some(frame) = self.free.pop() else { break };
            self.umem.forget_arrival(&frame);
            if !self.empty.push(frame.address()) {
                self.free.push(frame);
                break;
            }
            self.receiving += 1;
        }
        self.empty.publish(self.empty.written());
    }
}
