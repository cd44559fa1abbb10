//! Past the kernel's network stack (`AF_XDP`): what UDP and connections have in common there. A program on the device
//! hands the frames of a trial to the sockets of its queues. Each thread has a queue, or several by which its flows
//! send in turn, so that all queues of the path are in use. The devices spread frames over their queues as they like,
//! so threads hand each other the frames that are not their own.

mod counts;
mod opening;
mod ports;
mod post;
mod shared;

use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use kqps_kernel::clock;
use kqps_kernel::poll::wait_any;
use kqps_kernel::xdp::XdpSocket;
use kqps_stack::Path;

use counts::Selected;
pub(crate) use counts::{PastCounts, check, notes};
pub(crate) use opening::{XdpRequest, in_memory, open};
pub(crate) use ports::{for_connections, quiet, random_port};
pub(crate) use post::Post;
use shared::Shared;

/// The name of the I/O model in records.
pub(crate) const IO: &str = "xdp";

/// The pause before a device is asked again that did not take all frames.
pub(crate) const ROOM_NAP_NS: u64 = 50_000;

/// The longest wait of a thread to which others may hand frames, since they do not wake it.
const POST_NAP_NS: u64 = 200_000;

/// The pause between looks at the queues while others finish.
const CLOSE_NAP_NS: u64 = 1_000_000;

/// How long the last frames may take from the program to their sockets.
const LAST_FRAMES_NS: u64 = 100_000_000;

/// How frames get to a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) path: Path,
    /// The address of this host from which the kernel would send.
    pub(crate) source: IpAddr,
    /// The length of the longest IP packet, bytes.
    pub(crate) mtu: usize,
}

/// When a frame arrived, nanoseconds of the monotonic clock: by the program's stamp, or else now, since it has just
/// been read. Counts those without a stamp.
#[inline]
pub(crate) fn arrival_ns(stamp_ns: u64, unstamped: &mut u64) -> u64 {
    if stamp_ns > 0 {
        return stamp_ns;
    }
    *unstamped += 1;
    clock::now_ns()
}

/// A thread's part of what was opened.
pub(crate) struct PastPart {
    /// The thread's number, and how many there are.
    pub(in crate::wire) number: usize,
    pub(in crate::wire) threads: usize,
    /// The sockets of the thread's queues.
    pub(in crate::wire) sockets: Vec<XdpSocket>,
    /// The ways to the targets, in their order.
    pub(in crate::wire) ways: Arc<[Way]>,
    /// The post, which hands frames to other threads; `None` if there are none.
    pub(in crate::wire) post: Option<Post>,
    /// The destination ports that the program selects.
    pub(in crate::wire) ports: RangeInclusive<u16>,
    /// Whether checksums are whole when frames arrive. On veth they are left to a device that does not exist.
    pub(in crate::wire) verifies: bool,
    /// Frames that were read from the sockets.
    pub(in crate::wire) read: u64,
    /// Frames that were read without a time of the program.
    pub(in crate::wire) unstamped: u64,
    has_opened: bool,
    has_finished: bool,
    shared: Arc<Shared>,
}

impl PastPart {
    /// The index of the queue by which a flow of the thread sends.
    #[inline]
    pub(crate) fn queue_of(&self, flow: usize) -> usize {
        // Most threads have one queue, and a division takes longer than this.
        if self.sockets.len() == 1 { 0 } else { flow % self.sockets.len() }
    }

    /// Whether the device is down, as far as one of the thread's queues knows.
    #[inline]
    pub(crate) fn is_down(&self) -> bool {
        self.sockets.iter().any(XdpSocket::is_down)
    }

    /// Notes that the thread has read, and handed over, all that had arrived at its queues at this time. Returns the
    /// time for which that holds at the queues of all threads. Times are nanoseconds of the monotonic clock.
    pub(crate) fn all_read(&self, clock_ns: u64) -> u64 {
        if self.post.is_none() { clock_ns } else { self.shared.all_read(self.number, clock_ns) }
    }

    /// Notes the same for a thread that settles no more queries. Others still do, and what is theirs comes by its
    /// queues.
    pub(crate) fn note_read(&self, clock_ns: u64) {
        self.shared.note_read(self.number, clock_ns);
    }

    /// Waits until a frame can be read, for `most_ns` nanoseconds at most. Does not wait for long while frames wait to
    /// be sent.
    pub(crate) fn wait(&self, most_ns: u64) -> io::Result<()> {
        if self.sockets.iter().any(|socket| socket.waiting() > 0) {
            clock::sleep_until_ns(clock::now_ns() + most_ns.min(ROOM_NAP_NS));
            return Ok(());
        }
        let most_ns = if self.post.is_some() { most_ns.min(POST_NAP_NS) } else { most_ns };
        match &self.sockets[..] {
            [socket] => socket.wait(most_ns).map(drop),
            sockets => wait_any(&sockets.iter().collect::<Vec<_>>(), most_ns).map(drop),
        }
    }

    /// Notes that the thread has opened what it opens before the start. Returns whether all threads have.
    pub(crate) fn have_all_opened(&mut self) -> bool {
        if !self.has_opened {
            self.has_opened = true;
            self.shared.opened();
        }
        self.shared.have_all_opened()
    }

    /// Waits until all threads have come to their end, takes the program off the device, and has the last frames read.
    /// `read` reads all that has arrived, and hands over what is not this thread's.
    pub(crate) fn close(
        &mut self,
        mut read: impl FnMut(&mut Self) -> io::Result<()>,
    ) -> io::Result<PastCounts> {
        self.finish();
        while !self.shared.have_all_finished() {
            let now_ns = clock::now_ns();
            read(self)?;
            self.note_read(now_ns);
            self.wait(CLOSE_NAP_NS)?;
        }
        let selected = self.shared.detach()?;
        let end_ns = clock::now_ns() + LAST_FRAMES_NS;
        loop {
            read(self)?;
            let accounted = self.shared.accounted(self.number, self.counts(selected)?.accounted());
            if selected.is_none_or(|selected| accounted >= selected.matched) || clock::now_ns() >= end_ns {
                // Other threads account for a frame after they have handed it over.
                read(self)?;
                return self.counts(selected);
            }
            self.wait(CLOSE_NAP_NS)?;
        }
    }

    /// The counts of the thread's frames so far.
    fn counts(&self, selected: Option<Selected>) -> io::Result<PastCounts> {
        let (read, unstamped) = (self.read, self.unstamped);
        let mut counts = PastCounts { selected, read, unstamped, ..PastCounts::default() };
        for socket in &self.sockets {
            counts.dropped(&socket.statistics()?);
            counts.downs += socket.downs();
        }
        Ok(counts)
    }

    fn finish(&mut self) {
        self.have_all_opened();
        if !self.has_finished {
            self.has_finished = true;
            self.shared.finished();
        }
    }
}

impl Drop for PastPart {
    /// The other threads do not wait for one that failed, and settle their queries without it.
    fn drop(&mut self) {
        self.note_read(u64::MAX);
        self.finish();
    }
}
