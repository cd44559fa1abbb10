//! A socket for frames: it sends them to a queue of a device, and receives those that a program hands to it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};

use socket2::{Socket, Type};

use super::rings::{Incoming, Outgoing};
use super::transmitter::{ENTRIES_PER_FRAME, Transmitter, USUAL_BUDGET};
use super::umem::{FRAME_BYTES, Frame, RECEIVED_AT, SEND_BYTES, Umem};
use super::{XdpMode, XdpSettings, failed};
use crate::clock::{now_ns, sleep_until_ns};
use crate::poll::wait_any;
use crate::sys::{OptionValue, check, check_size, get_option, set_option};

/// The bytes that a frame to be sent has room for.
pub const ROOM_BYTES: usize = SEND_BYTES;

/// The length of the longest frame that arrives, with the header of Ethernet. Longer ones are dropped.
pub const RECEIVED_BYTES: usize = FRAME_BYTES - RECEIVED_AT;

/// The token of frames that [`XdpSocket::receive`] sends back.
pub const SENT_BACK: u64 = u64::MAX;

const FRAMES_MOST: u32 = 1 << 20;

/// From `linux/if_xdp.h` (Linux 6.17); the libc crate lacks it.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Enough send buffer for every frame of a socket: the kernel counts a buffer of its own for each until it is sent.
const SEND_BUFFER_BYTES: libc::c_int = 1 << 26;

/// How long a queue may take to become free, and the pause between attempts: the kernel releases the queue of a closed
/// socket later, on a thread of its own (`net/xdp/xsk_buff_pool.c`, `xp_put_pool`).
const RELEASE_NS: u64 = 500_000_000;
const PAUSE_NS: u64 = 1_000_000;

/// So many frames ahead the processor is asked for the memory of a frame.
const AHEAD: usize = 4;

// SAFETY: integers without padding.
unsafe impl OptionValue for libc::xdp_umem_reg {}
// SAFETY: as above.
unsafe impl OptionValue for libc::xdp_mmap_offsets {}
// SAFETY: as above.
unsafe impl OptionValue for libc::xdp_options {}
// SAFETY: as above.
unsafe impl OptionValue for libc::xdp_statistics {}

/// A socket with its frames and rings. The device need not be up, but sends only while it is.
pub struct XdpSocket {
    fd: OwnedFd,
    queue: u32,
    is_zero_copy: bool,
    /// Whether a kernel is behind the rings; otherwise it is a thread of this program ([`super::memory`]).
    has_kernel: bool,
    umem: Umem,
    /// Frames that neither receive nor send.
    free: Vec<Frame>,
    /// Frames in the ring of empty frames, in the ring of received ones, or with the kernel between the two.
    receiving: u32,
    /// How many frames should receive.
    share: u32,
    empty: Outgoing<u64>,
    received: Incoming<libc::xdp_desc>,
    transmitter: Transmitter,
    sent: Incoming<u64>,
    /// Frames that should go back and found no room in the ring, since the last flush.
    not_sent_back: usize,
}

/// Frames that a socket dropped, by cause, and its other counts since it was opened (`linux/if_xdp.h`,
/// `struct xdp_statistics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpStatistics {
    /// Received frames dropped because there was no empty frame, or because they were too long.
    pub rx_dropped: u64,
    /// Received frames dropped because the ring of received frames was full.
    pub rx_ring_full: u64,
    /// How often the kernel found no empty frame. Such frames are in [`Self::rx_dropped`] already.
    pub no_empty_frame: u64,
    /// Wrong addresses in the ring of empty frames.
    pub rx_invalid: u64,
    /// Wrong entries in the ring of frames to send.
    pub tx_invalid: u64,
}

impl XdpStatistics {
    /// The number of frames that matched and were dropped.
    pub fn dropped(&self) -> u64 {
        self.rx_dropped + self.rx_ring_full
    }
}

impl XdpSocket {
    /// Opens a socket on a queue of a device. Requires `CAP_NET_RAW`, `CAP_IPC_LOCK` or a limit of locked memory for
    /// all frames (`RLIMIT_MEMLOCK`), and Linux 5.4. Waits up to 0.5 s if another socket has the queue, since that may
    /// have been closed just now. The error names the step that the kernel refused.
    pub fn open(settings: &XdpSettings) -> io::Result<Self> {
        let XdpSettings { device, queue, frames, mode } = *settings;
        if !frames.is_power_of_two() || !(2..=FRAMES_MOST).contains(&frames) {
            let what = format!("{frames} frames: it must be a power of two from 2 to {FRAMES_MOST}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let fd = Socket::new(libc::AF_XDP.into(), Type::RAW, None).map(OwnedFd::from);
        let fd = fd.map_err(failed("opening an AF_XDP socket"))?;
        let (umem, free) = Umem::new(frames).map_err(failed("making frames"))?;
        set_option(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, umem.registration())
            .map_err(failed("registering frames"))?;
        let rings = Rings::make(&fd, frames, frames / 2)?;
        let mut socket = Self::new(fd, queue, (umem, free), rings, frames / 2);
        socket.refill();
        socket.bind(device, mode).map_err(failed("binding an AF_XDP socket to its queue"))?;
        Ok(socket)
    }

    /// A socket whose rings are in a file that another thread of this program maps too. It copies nothing, and no call
    /// is needed for what it sends.
    pub(super) fn in_memory(
        file: OwnedFd,
        memory: (Umem, Vec<Frame>),
        offsets: &libc::xdp_mmap_offsets,
        frames: u32,
    ) -> io::Result<Self> {
        let rings = Rings::map(&file, offsets, frames, frames / 2, frames)?;
        let mut socket = Self::new(file, 0, memory, rings, frames / 2);
        (socket.is_zero_copy, socket.has_kernel) = (true, false);
        socket.refill();
        Ok(socket)
    }

    fn new(fd: OwnedFd, queue: u32, (umem, free): (Umem, Vec<Frame>), rings: Rings, share: u32) -> Self {
        let Rings { empty, received, transmitter, sent } = rings;
        Self {
            fd,
            queue,
            is_zero_copy: false,
            has_kernel: true,
            umem,
            free,
            receiving: 0,
            share,
            empty,
            received,
            transmitter,
            sent,
            not_sent_back: 0,
        }
    }

    fn bind(&mut self, device: u32, mode: XdpMode) -> io::Result<()> {
        let copying = match mode {
            // The kernel itself prefers not to copy.
            XdpMode::Auto => 0,
            XdpMode::Copy => libc::XDP_COPY,
            XdpMode::ZeroCopy => libc::XDP_ZEROCOPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: copying | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: device,
            sxdp_queue_id: self.queue,
            sxdp_shared_umem_fd: 0,
        };
        let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        let end_ns = now_ns() + RELEASE_NS;
        loop {
            let fd = self.fd.as_raw_fd();
            // SAFETY: the address is live and of the length given; the kernel only reads it.
            match check(unsafe { libc::bind(fd, (&raw const address).cast(), length) }) {
                Ok(_) => break,
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && now_ns() < end_ns => {
                    sleep_until_ns(now_ns() + PAUSE_NS);
                }
                Err(error) => return Err(error),
            }
        }
        let options: libc::xdp_options = get_option(self.fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_OPTIONS)?;
        self.is_zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        if self.is_zero_copy {
            self.transmitter.lift_budget();
        }
        Ok(())
    }

    /// The queue of the device.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether the device reads and writes the frames itself. Otherwise the kernel copies them.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// The most frames that can wait to be read.
    pub fn receives(&self) -> usize {
        self.share as usize
    }

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
    fn send(&mut self, frame: Frame, at: usize, length: usize, token: u64) -> bool {
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
    /// Up to Linux 6.16 the kernel does not say which frame of a call it refused. Then the number of tokens is right,
    /// but a token may be that of another frame of the same call.
    pub fn flush(&mut self, mut refused: impl FnMut(u64)) -> io::Result<usize> {
        (0..std::mem::take(&mut self.not_sent_back)).for_each(|_| refused(SENT_BACK));
        // What the device itself took since the last call.
        let mut taken = self.transmitter.look();
        while !self.transmitter.is_settled() {
            self.transmitter.publish();
            let outcome =
                if self.is_zero_copy && !self.transmitter.needs_wakeup() { Ok(()) } else { self.kick() };
            let error = outcome.as_ref().err().and_then(io::Error::raw_os_error);
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
            let is_later =
                matches!(error, None | Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR));
            if !is_later && taken == 0 {
                return outcome.map(|()| 0);
            }
            // A call that took frames may have ended because it takes no more at once.
            if !is_later || new == 0 || self.is_zero_copy {
                break;
            }
        }
        Ok(taken)
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
    fn reap(&mut self) {
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
    fn refill(&mut self) {
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

    /// Waits until a frame can be read. Returns false after `most_ns` nanoseconds or a signal. Fails while frames wait
    /// to be sent: the kernel would send them from within the wait, and not say what the device refused.
    pub fn wait(&self, most_ns: u64) -> io::Result<bool> {
        if self.waiting() > 0 {
            let what = format!("{} frames wait to be sent", self.waiting());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        wait_any(&[self], most_ns)
    }

    /// The counts of the socket so far.
    pub fn statistics(&self) -> io::Result<XdpStatistics> {
        if !self.has_kernel {
            return Ok(XdpStatistics::default());
        }
        let counts: libc::xdp_statistics =
            get_option(self.fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_STATISTICS)?;
        Ok(XdpStatistics {
            rx_dropped: counts.rx_dropped,
            rx_ring_full: counts.rx_ring_full,
            no_empty_frame: counts.rx_fill_ring_empty_descs,
            rx_invalid: counts.rx_invalid_descs,
            tx_invalid: counts.tx_invalid_descs,
        })
    }
}

impl AsRawFd for XdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The four rings of a socket.
struct Rings {
    empty: Outgoing<u64>,
    received: Incoming<libc::xdp_desc>,
    transmitter: Transmitter,
    sent: Incoming<u64>,
}

impl Rings {
    /// Makes the rings and maps them. All frames can wait to be sent at once, if received frames are sent back.
    fn make(fd: &OwnedFd, frames: u32, share: u32) -> io::Result<Self> {
        let set = |name, count: u32| set_option(fd.as_raw_fd(), libc::SOL_XDP, name, count as libc::c_int);
        let sizes = [
            (libc::XDP_UMEM_FILL_RING, share),
            (libc::XDP_RX_RING, share),
            (libc::XDP_TX_RING, frames * ENTRIES_PER_FRAME),
            (libc::XDP_UMEM_COMPLETION_RING, frames),
        ];
        sizes.into_iter().try_for_each(|(name, count)| set(name, count)).map_err(failed("making rings"))?;
        let budget = if set(XDP_MAX_TX_SKB_BUDGET, frames).is_ok() { frames } else { USUAL_BUDGET };
        // Without the right to more, the usual buffer must do.
        let _ = set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES);
        let offsets = offsets(fd)?;
        Self::map(fd, &offsets, frames, share, budget).map_err(failed("mapping rings"))
    }

    fn map(
        fd: &OwnedFd,
        offsets: &libc::xdp_mmap_offsets,
        frames: u32,
        share: u32,
        budget: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            empty: Outgoing::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, share)?,
            received: Incoming::map(fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, share)?,
            transmitter: Transmitter::map(fd, &offsets.tx, frames * ENTRIES_PER_FRAME, budget)?,
            sent: Incoming::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, frames)?,
        })
    }
}

/// Where the numbers and entries of the rings are.
fn offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    let offsets: libc::xdp_mmap_offsets = get_option(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
        .map_err(failed("locating rings"))?;
    // The shorter answer of older kernels leaves the end as it was.
    if offsets.cr.desc == 0 {
        let what = "AF_XDP without flags in its rings: it needs Linux 5.4";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(offsets)
}
