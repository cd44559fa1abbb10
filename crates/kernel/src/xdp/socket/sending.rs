//! How a socket sends frames: they are put into the ring, and a call hands them to the device.

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::null;

use super::super::umem::{FRAME_BYTES, Frame};
use super::{AHEAD, ROOM_BYTES, SENT_BACK, XdpSocket};
use crate::sys::check_size;

impl XdpSocket {
    /// The number of frames that can be put now. Takes back those that were sent.
    pub fn room(&mut self) -> usize {
        self.reap();
        self.free.len().min(self.transmitter.room())
    }

    /// Has a frame written, which [`Self::flush`] sends. `write` gets [`ROOM_BYTES`] bytes of any content and returns
    /// the length of the frame, at least 1. The token says which frame it was if the device refuses it. Returns false,
    /// without a call of `write`, if no frame is free or the ring has no room.
    #[inline]
    pub fn put(&mut self, write: impl FnOnce(&mut [u8]) -> usize, token: u64) -> bool {
        if self.free.is_empty() {
            self.reap();
        }
        if self.transmitter.room() == 0 {
            return false;
        }
        let Some(frame) = self.free.pop() else { return false };
        if let Some(later) = self.free.len().checked_sub(AHEAD).map(|at| &self.free[at]) {
            self.umem.own_ahead(later, later.send_at());
        }
        let at = frame.send_at();
        let length = write(&mut self.umem.bytes_mut(&frame, at)[..ROOM_BYTES]);
        assert!(length <= ROOM_BYTES, "a frame of {length} bytes");
        self.send(frame, at, length, token)
    }

    /// Queues the bytes of a frame from `at`, which are the kernel's from then on. Returns false, and keeps the frame,
    /// if there is no room.
    #[inline]
    pub(super) fn send(&mut self, frame: Frame, at: usize, length: usize, token: u64) -> bool {
        assert!(length > 0 && at + length <= FRAME_BYTES, "a frame of {length} bytes");
        let is_queued = self.transmitter.push(frame.address() + at as u64, length as u32, token);
        if !is_queued {
            self.free.push(frame);
        }
        is_queued
    }

    /// Hands what was put to the device. Calls `refused` with the token of each frame that the device did not take: it
    /// is down, or its queue is full and drops. Returns how many the device took. What is left, for example because the
    /// device's queue is full and waits, stays for the next call. If frames are not copied, the device takes them when
    /// it comes to them, so later calls count them, and none is refused.
    ///
    /// If the device is down, all frames stay ([`Self::is_down`]), and the next call asks again. Fails if the device is
    /// gone.
    ///
    /// Up to Linux 6.16 the kernel does not say which frame of a call it refused. Then the number of tokens is right,
    /// but a token may be that of another frame of the same call.
    pub fn flush(&mut self, mut refused: impl FnMut(u64)) -> io::Result<usize> {
        (0..std::mem::take(&mut self.not_sent_back)).for_each(|_| refused(SENT_BACK));
        // Frames that the device itself took since the last call.
        let mut taken = self.transmitter.look();
        while self.is_down || !self.transmitter.is_settled() {
            self.transmitter.publish();
            let takes_by_itself = self.is_zero_copy && !self.is_down && !self.transmitter.needs_wakeup();
            let outcome = if takes_by_itself { Ok(()) } else { self.kick() };
            let error = outcome.as_ref().err().and_then(io::Error::raw_os_error);
            self.note_down(error == Some(libc::ENETDOWN));
            if error == Some(libc::EBUSY)
                && !self.is_zero_copy
                && let Some((before, token)) = self.transmitter.refused()
            {
                taken += before;
                refused(token);
                continue;
            }
            let new = self.transmitter.look();
            taken += new;
            let is_later = self.is_down
                || matches!(error, None | Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR));
            if !is_later && taken == 0 {
                return outcome.map(|()| 0).map_err(if_gone);
            }
            // A call that took frames may have ended because it takes no more at once.
            if !is_later || new == 0 || self.is_zero_copy {
                break;
            }
        }
        Ok(taken)
    }

    /// The number of frames that the device took by itself since the last flush. Asks it to take no more.
    pub fn taken(&mut self) -> usize {
        self.reap();
        self.transmitter.look()
    }

    /// Fails if the device is gone, which a wait for frames does not show. Does nothing while frames wait to be sent.
    pub fn check_device(&self) -> io::Result<()> {
        if self.waiting() > 0 || !self.has_kernel {
            return Ok(());
        }
        self.kick().or_else(|error| if is_gone(&error) { Err(if_gone(error)) } else { Ok(()) })
    }

    /// Notes whether the device is down.
    #[inline]
    fn note_down(&mut self, is_down: bool) {
        self.downs += u64::from(is_down && !self.is_down);
        self.is_down = is_down;
    }

    /// Asks the kernel to send.
    fn kick(&self) -> io::Result<()> {
        // SAFETY: no bytes and no address are passed.
        let sent = unsafe { libc::sendto(self.fd.as_raw_fd(), null(), 0, libc::MSG_DONTWAIT, null(), 0) };
        check_size(sent).map(drop)
    }

    /// The number of frames that were put and that the device has neither taken nor refused.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.transmitter.waiting()
    }
}

/// Whether a socket's device was removed, rather than brought down.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
}

/// The error with words for a device that is gone.
fn if_gone(error: io::Error) -> io::Error {
    if is_gone(&error) {
        io::Error::new(io::ErrorKind::NotFound, format!("the device is gone: {error}"))
    } else {
        error
    }
}
