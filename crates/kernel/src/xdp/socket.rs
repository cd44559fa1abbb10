//! A socket for frames: it sends them to a queue of a device, and receives those that a program hands to it.

mod receiving;
mod ring_set;
mod sending;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use socket2::{Socket, Type};

use super::rings::{Incoming, Outgoing};
use super::transmitter::Transmitter;
use super::umem::{FRAME_BYTES, Frame, RECEIVED_AT, SEND_BYTES, Umem};
use super::{XdpMode, XdpSettings, failed};
use crate::clock::{now_ns, sleep_until_ns};
use crate::poll::wait_any;
use crate::sys::{OptionValue, check, get_option, set_option};
use ring_set::Rings;

/// The bytes that a frame to be sent has room for.
pub const ROOM_BYTES: usize = SEND_BYTES;

/// The length of the longest frame that arrives, with the header of Ethernet. Longer ones are dropped.
pub const RECEIVED_BYTES: usize = FRAME_BYTES - RECEIVED_AT;

/// The token of frames that [`XdpSocket::receive`] sends back.
pub const SENT_BACK: u64 = u64::MAX;

const FRAMES_MOST: u32 = 1 << 20;

/// How long a queue may take to become free, and the pause between attempts: the kernel releases the queue of a closed
/// socket later, on a thread of its own (`net/xdp/xsk_buff_pool.c`, `xp_put_pool`).
const RELEASE_NS: u64 = 3_000_000_000;
const PAUSE_NS: u64 = 1_000_000;

/// So many frames ahead the processor is asked for the memory of a frame.
const AHEAD: usize = 4;

// SAFETY: integers without padding.
unsafe impl OptionValue for libc::xdp_umem_reg {}
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
    /// Whether the device was down at the last call to it.
    is_down: bool,
    /// How often the device was found down that was not before.
    downs: u64,
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
    /// all frames (`RLIMIT_MEMLOCK`), and Linux 5.4. Waits up to 3 s if another socket has the queue, since that may
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
            is_down: false,
            downs: 0,
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

    /// Whether the device was down when [`Self::flush`] asked it last (`ENETDOWN`). The frames that the kernel was
    /// handed by then wait, and leave when the device is up again.
    #[inline]
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// How often the device was found down that was not before.
    pub fn downs(&self) -> u64 {
        self.downs
    }

    /// The most frames that can wait to be read.
    pub fn receives(&self) -> usize {
        self.share as usize
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
