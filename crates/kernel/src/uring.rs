//! `io_uring` for UDP: one multishot receive per socket fills buffers that were provided in advance. Replies are
//! sent from the same buffers, many of them submitted by one system call.

mod provided;
pub mod stream;

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};

use crate::address::{Address, LocalAddress};
use crate::cmsg::{self, CONTROL_BYTES, Control, ControlData};
use crate::headers;
use crate::memory::Block;
use crate::udp::UdpSocket;
pub use provided::Buffer;
use provided::{GROUP, ProvidedBuffers};

/// A ring with its provided buffers. Only the thread that made it may use and drop it.
pub struct Ring {
    // Dropped first, after `drop` has cancelled pending operations: the kernel must not use the blocks below any
    // more.
    ring: IoUring,
    /// Completions that were read to make room for others, in order.
    reaped: Reaped,
    template: Block<libc::mmsghdr>,
    replies: Block<libc::mmsghdr>,
    slices: Block<libc::iovec>,
    controls: Block<Control>,
    buffers: ProvidedBuffers,
    /// Prevents sending the ring to another thread: the kernel would refuse calls of that thread, even those of
    /// `drop`.
    _stays: PhantomData<*mut ()>,
}

/// A completed operation.
#[derive(Debug)]
#[allow(missing_docs)] // the fields' names say it
pub enum Completion {
    /// A datagram arrived on the socket with this key. If `armed` is false, the multishot receive ended with it.
    Received { key: u32, buffer: Buffer, armed: bool },
    /// A receive ended without a datagram and must be armed again. It has an error if the reason is not a lack of
    /// buffers.
    Unarmed(u32, Option<io::Error>),
    /// A reply was sent or refused, and its buffer belongs to the caller again.
    Sent(Buffer, io::Result<()>),
    /// The readers of a socket were woken (see [`UdpSocket::wake_readers`]).
    Woken,
}

/// The size of `struct io_uring_recvmsg_out` (`io_uring.h`): lengths of name, control bytes and payload, and flags.
const HEAD_BYTES: usize = 16;
const NAME_BYTES: usize = size_of::<Address>();
const PAYLOAD_AT: usize = HEAD_BYTES + NAME_BYTES + CONTROL_BYTES;

/// `IORING_ENTER_GETEVENTS`: with deferred task work the kernel completes operations only on request.
const GET_EVENTS: u32 = 1;

const RECEIVED: u64 = 1 << 32;
const SENT: u64 = 2 << 32;
const WOKEN: u64 = 3 << 32;

impl Ring {
    /// Makes a ring with `buffers` buffers (a power of two up to 32768) for datagrams of up to `bytes_each` bytes.
    /// The error names the step that the kernel refused.
    pub fn new(buffers: u16, bytes_each: usize) -> io::Result<Self> {
        let refused = |step: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{step}: {error}"))
        };
        let count = usize::from(buffers);
        let mut all = Self {
            ring: build(u32::from(buffers)).map_err(refused("io_uring_setup"))?,
            reaped: Reaped::new(),
            template: Block::new(1),
            replies: Block::new(count),
            slices: Block::new(count),
            controls: Block::new(count),
            buffers: ProvidedBuffers::new(buffers, PAYLOAD_AT + bytes_each)?,
            _stays: PhantomData,
        };
        all.template[0].msg_hdr.msg_namelen = NAME_BYTES as libc::socklen_t;
        headers::set_control_bytes(&mut all.template[0].msg_hdr, CONTROL_BYTES);
        all.buffers.register(&all.ring).map_err(refused("provided buffer ring"))?;
        Ok(all)
    }

    /// Starts a multishot receive on a socket. It continues until a completion reports that it is not armed.
    pub fn receive(&mut self, socket: &UdpSocket, key: u32) -> io::Result<()> {
        let template = &raw const self.template[0].msg_hdr;
        let entry = opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), template, GROUP)
            .build()
            .user_data(RECEIVED | u64::from(key));
        // SAFETY: the template lives in a block as long as the ring, and buffers come from the group.
        unsafe { push(&mut self.ring, &mut self.reaped, &entry) }
    }

    /// Requests a [`Completion::Woken`] for when the readers of a socket are woken.
    pub fn watch_wake(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let entry =
            opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLRDHUP as u32).build().user_data(WOKEN);
        // SAFETY: polling touches no memory of this process.
        unsafe { push(&mut self.ring, &mut self.reaped, &entry) }
    }

    /// Returns an eventfd that becomes readable whenever operations can complete, for callers that poll several
    /// descriptors. It is edge-triggered and never read. The ring's own descriptor would not work: with deferred
    /// task work it becomes readable only after the caller has asked for completions.
    pub fn bell(&mut self) -> io::Result<OwnedFd> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.ring.submitter().register_eventfd(bell.as_raw_fd())?;
        Ok(bell)
    }

    /// Submits all queued operations, and waits until an operation completes or a signal arrives.
    pub fn submit_and_wait(&mut self) -> io::Result<()> {
        done_or_busy(self.ring.submit_and_wait(1))
    }

    /// Submits all queued operations, and lets the kernel complete what is ready, without waiting.
    pub fn submit_and_look(&mut self) -> io::Result<()> {
        self.ring.submission().sync();
        let waiting = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed; the callers of `push` guarantee what the entries point to.
        done_or_busy(unsafe { self.ring.submitter().enter::<libc::sigset_t>(waiting, 0, GET_EVENTS, None) })
    }

    /// Ends all receives. Each completes as unarmed with `ECANCELED`, after the datagrams that it received before.
    pub fn stop_receiving(&mut self) -> io::Result<()> {
        self.submit_and_look()?;
        match self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    /// The next completed operation, if any.
    #[inline]
    pub fn completion(&mut self) -> Option<Completion> {
        let entry = next_completion(&mut self.ring, &mut self.reaped)?;
        let key = entry.user_data() as u32;
        Some(match entry.user_data() & !u64::from(u32::MAX) {
            RECEIVED => self.received(key, &entry),
            SENT => Completion::Sent(self.buffers.buffer(key as u16), outcome(entry.result())),
            _ => Completion::Woken,
        })
    }

    fn received(&mut self, key: u32, entry: &cqueue::Entry) -> Completion {
        let buffer = cqueue::buffer_select(entry.flags()).map(|id| self.buffers.buffer(id));
        match (buffer, outcome(entry.result())) {
            (Some(buffer), Ok(())) => {
                Completion::Received { key, buffer, armed: cqueue::more(entry.flags()) }
            }
            (buffer, result) => {
                if let Some(buffer) = buffer {
                    self.give_back(buffer);
                }
                let error = result.err().filter(|error| error.raw_os_error() != Some(libc::ENOBUFS));
                Completion::Unarmed(key, error)
            }
        }
    }

    /// The datagram in a buffer.
    #[inline]
    pub fn payload(&mut self, buffer: &Buffer) -> &mut [u8] {
        let whole = self.buffers.whole_mut(buffer);
        let length = u32::from_ne_bytes([whole[8], whole[9], whole[10], whole[11]]) as usize;
        let room = whole.len() - PAYLOAD_AT;
        &mut whole[PAYLOAD_AT..][..length.min(room)]
    }

    /// A datagram in its buffer: the whole space of the buffer for payload, the length of the datagram in bytes, and
    /// its sender.
    #[inline]
    pub fn slot(&mut self, buffer: &Buffer) -> (&mut [u8], usize, Address) {
        let (bytes, from) = (self.payload(buffer).len(), self.sender(buffer));
        (&mut self.buffers.whole_mut(buffer)[PAYLOAD_AT..], bytes, from)
    }

    /// The sender of the datagram in a buffer.
    #[inline]
    pub fn sender(&mut self, buffer: &Buffer) -> Address {
        let name: [u8; NAME_BYTES] = self.buffers.whole_mut(buffer)[HEAD_BYTES..][..NAME_BYTES]
            .try_into()
            .expect("it was cut to size");
        Address::from_kernel(name)
    }

    /// When the kernel received the datagram in a buffer, in nanoseconds of `CLOCK_REALTIME`; `None` without
    /// [`crate::UdpOptions::timestamps`].
    #[inline]
    pub fn arrived_ns(&mut self, buffer: &Buffer) -> Option<u64> {
        self.control_data(buffer).arrived_ns
    }

    /// The address to which the datagram was sent; `None` without [`crate::UdpOptions::pktinfo`].
    pub fn asked(&mut self, buffer: &Buffer) -> Option<LocalAddress> {
        self.control_data(buffer).to
    }

    /// Reads the control messages of the datagram.
    fn control_data(&mut self, buffer: &Buffer) -> ControlData {
        let whole = self.buffers.whole_mut(buffer);
        let length = u32::from_ne_bytes([whole[4], whole[5], whole[6], whole[7]]) as usize;
        cmsg::read(&whole[HEAD_BYTES + NAME_BYTES..][..length.min(CONTROL_BYTES)])
    }

    /// Queues the first `bytes` bytes of a buffer's payload as the reply to its sender. Panics if the buffer is
    /// shorter.
    #[inline]
    #[allow(clippy::needless_pass_by_value)] // giving the handle up is the point
    pub fn reply(&mut self, socket: &UdpSocket, buffer: Buffer, bytes: usize) -> io::Result<()> {
        let index = self.buffers.index(&buffer);
        assert!(PAYLOAD_AT + bytes <= self.buffers.bytes_each(), "a reply lies within its query's buffer");
        let asked = self.asked(&buffer);
        let name_length = self.sender(&buffer).length();
        let payload = self.buffers.at(&buffer, PAYLOAD_AT).cast();
        self.slices[index] = libc::iovec { iov_base: payload, iov_len: bytes };
        let header = &mut self.replies[index].msg_hdr;
        header.msg_iov = self.slices.at(index);
        header.msg_iovlen = 1;
        header.msg_name = self.buffers.at(&buffer, HEAD_BYTES).cast();
        header.msg_namelen = name_length;
        header.msg_control = self.controls.at(index).cast();
        headers::set_control_bytes(header, self.controls[index].write(None, asked.as_ref()));
        let entry = opcode::SendMsg::new(Fd(socket.as_raw_fd()), &raw const *header)
            .build()
            .user_data(SENT | u64::from(buffer.id));
        // SAFETY: header, slice, name, control bytes and payload live in blocks as long as the ring. The buffer is this
        // ring's, as `index` checked. The caller gave up its handle, which is the only way to touch them before the
        // kernel is done.
        unsafe { push(&mut self.ring, &mut self.reaped, &entry) }
    }

    /// Returns a buffer to the kernel, for datagrams to come.
    #[inline]
    pub fn give_back(&mut self, buffer: Buffer) {
        self.buffers.give_back(buffer);
    }
}

/// Completions that were read, and not yet returned.
type Reaped = VecDeque<cqueue::Entry>;

/// Queues an entry. If the queue is full, submits it first. If the kernel takes nothing until completions are read
/// (`EBUSY`, `io_uring_enter(2)`), moves them to `reaped`. Fails with `EBUSY` if there are none.
///
/// # Safety
/// What the entry points to must stay valid until the operation completes.
unsafe fn push(ring: &mut IoUring, reaped: &mut Reaped, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: the caller guarantees it.
    while unsafe { ring.submission().push(entry) }.is_err() {
        match ring.submit() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let before = reaped.len();
                reaped.extend(ring.completion());
                if reaped.len() == before {
                    return Err(error);
                }
            }
            submitted => done_or_busy(submitted)?,
        }
    }
    Ok(())
}

/// The next completion: of those that were read to make room, and then of the ring.
#[inline]
fn next_completion(ring: &mut IoUring, reaped: &mut Reaped) -> Option<cqueue::Entry> {
    if !reaped.is_empty() {
        return reaped.pop_front();
    }
    ring.completion().next()
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Closing a ring cancels pending operations but does not wait for that, and the blocks are freed next.
        let cancelled = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        if cancelled.is_err_and(|error| error.raw_os_error() != Some(libc::ENOENT)) {
            // The kernel may still write to them, so they are never freed.
            self.template.leak();
            self.replies.leak();
            self.slices.leak();
            self.controls.leak();
            self.buffers.leak();
        }
    }
}

/// Builds a ring whose task work runs only when this thread asks for completions (`DEFER_TASKRUN`, Linux 6.1). Then the
/// kernel writes to the buffers only during calls that borrow the ring mutably, on which [`Block`] rests. With
/// `COOP_TASKRUN`, which older kernels have, it would write during any system call of this thread.
fn build(entries: u32) -> io::Result<IoUring> {
    // Every buffer can have one received and one sent completion waiting.
    let completions = entries * 4;
    let ring = IoUring::builder()
        .setup_cqsize(completions)
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries);
    ring.map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => {
            io::Error::new(io::ErrorKind::Unsupported, "it needs Linux 6.1 (IORING_SETUP_DEFER_TASKRUN)")
        }
        _ => error,
    })
}

/// A signal, or completions that must be read first, are no failure of a submission: its callers read completions next.
fn done_or_busy(submitted: io::Result<usize>) -> io::Result<()> {
    match submitted {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => Ok(()),
        other => other.map(drop),
    }
}

fn outcome(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
