//! `io_uring` for connections of a client. Each is connected by one operation, read by one multishot receive into
//! buffers that were provided in advance, and written by one send at a time.

use std::io;
use std::marker::PhantomData;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::provided::{Buffer, GROUP, ProvidedBuffers};
use super::{GET_EVENTS, HEAD_BYTES, Reaped, build, done_or_busy, next_completion, outcome, push};
use crate::address::Address;
use crate::cmsg;
use crate::headers;
use crate::memory::Block;
use crate::tcp_client::TcpClient;

/// Operations that wait to be submitted, at most.
const ENTRIES: u32 = 1024;

/// Room for the control message with the time of arrival. With it the payload begins at a cache line.
const CONTROL_BYTES: usize = 48;
const PAYLOAD_AT: usize = HEAD_BYTES + CONTROL_BYTES;

// The kinds of operations, one bit each.
const CONNECT: u8 = 1;
const RECEIVE: u8 = 2;
const SEND: u8 = 4;
const CANCEL: u8 = 8;

/// How long dropping a ring waits for operations to end, and how often without an effect.
const LAST_WAIT_NS: u64 = 10_000_000;
const LAST_WAITS_MOST: u32 = 20;

/// A ring for connections, with its provided buffers. It owns the sockets, and closes each when the last operation on
/// it has ended: until then the kernel keeps the connection, even if its descriptor is closed. Only the thread that
/// made the ring may use and drop it.
pub struct StreamRing {
    // Dropped first, after `drop` has ended all operations: the kernel must not use the memory below any more.
    ring: IoUring,
    /// Completions that were read to make room for others, in order.
    reaped: Reaped,
    template: Block<libc::mmsghdr>,
    /// The peers of connects that wait to be submitted, in turn.
    addresses: Block<Address>,
    next_address: usize,
    buffers: ProvidedBuffers,
    slots: Vec<Slot>,
    /// The numbers of slots without a connection.
    free: Vec<u32>,
    /// Operations that are queued or running.
    operations: u64,
    /// Whether a receive found no free buffer since the caller asked.
    has_starved: bool,
    /// Prevents sending the ring to another thread: the kernel would refuse calls of that thread, even those of
    /// `drop`.
    _stays: PhantomData<*mut ()>,
}

/// The place of one connection after the other.
#[derive(Default)]
struct Slot {
    /// `None` while no connection has the slot.
    client: Option<TcpClient>,
    /// The caller's key.
    key: u32,
    /// The kinds of operations that are queued or running.
    running: u8,
    /// Requests to cancel them that are queued or running.
    cancels: u32,
    /// Whether the caller gave the connection up.
    has_ended: bool,
    /// The bytes of the present send. While it runs the kernel reads them, and nothing else touches them.
    output: Vec<u8>,
    /// How many of them the kernel took.
    taken: usize,
}

/// The handle of a connection. A handle of another ring stands for a connection of this one, or panics.
#[derive(Debug)]
#[must_use]
pub struct Stream {
    slot: u32,
}

/// The outcome of an operation on the connection with this key.
#[derive(Debug)]
#[allow(missing_docs)] // the fields' names say it
pub enum StreamCompletion {
    /// The connection was made, and is now read; or it failed.
    Connected { key: u32, outcome: io::Result<()> },
    /// Bytes arrived.
    Received { key: u32, buffer: Buffer },
    /// Nothing more will arrive: the peer closed its direction, or the connection failed.
    Ended { key: u32, outcome: io::Result<()> },
    /// The kernel took bytes of the present send, and so many are left, which are sent by themselves. If it failed,
    /// what has arrived is still reported, and then the end.
    Sent { key: u32, outcome: io::Result<usize> },
}

impl StreamRing {
    /// Makes a ring with `buffers` buffers (a power of two up to 32768) of at least `bytes_each` bytes.
    pub fn new(buffers: u16, bytes_each: usize) -> io::Result<Self> {
        let mut all = Self {
            ring: build(ENTRIES)?,
            reaped: Reaped::new(),
            template: Block::new(1),
            // The oldest address must outlast a full queue, to which one more is added.
            addresses: Block::new(ENTRIES as usize + 1),
            next_address: 0,
            buffers: ProvidedBuffers::new(buffers, PAYLOAD_AT + bytes_each)?,
            slots: Vec::new(),
            free: Vec::new(),
            operations: 0,
            has_starved: false,
            _stays: PhantomData,
        };
        headers::set_control_bytes(&mut all.template[0].msg_hdr, CONTROL_BYTES);
        all.buffers.register(&all.ring)?;
        Ok(all)
    }

    /// Begins to connect a socket, which this ring then owns.
    pub fn connect(&mut self, client: TcpClient, to: SocketAddr, key: u32) -> io::Result<Stream> {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let at = self.next_address;
        self.next_address = (at + 1) % self.addresses.len();
        self.addresses[at] = to.into();
        let length = self.addresses[at].length();
        let address = self.addresses.at(at).cast::<libc::sockaddr>();
        let entry = opcode::Connect::new(Fd(client.as_raw_fd()), address, length)
            .build()
            .user_data(user_data(CONNECT, number));
        // SAFETY: the kernel copies the address when it takes the entry (`IORING_FEAT_SUBMIT_STABLE`, Linux 5.5). Until
        // then no other connect writes there, since there are more addresses than entries.
        unsafe { push(&mut self.ring, &mut self.reaped, &entry) }?;
        let slot = &mut self.slots[number as usize];
        slot.client = Some(client);
        slot.key = key;
        slot.running = CONNECT;
        self.operations += 1;
        Ok(Stream { slot: number })
    }

    /// Begins to send bytes, and leaves an empty vector in their place. Returns whether it did: a connection has one
    /// send at a time.
    pub fn send(&mut self, stream: &Stream, bytes: &mut Vec<u8>) -> io::Result<bool> {
        let slot = &mut self.slots[stream.slot as usize];
        if slot.running & SEND != 0 {
            return Ok(false);
        }
        slot.output.clear();
        slot.taken = 0;
        mem::swap(&mut slot.output, bytes);
        self.send_rest(stream.slot)?;
        Ok(true)
    }

    /// How many bytes of the present send the kernel has not taken.
    #[inline]
    pub fn unsent(&self, stream: &Stream) -> usize {
        let slot = &self.slots[stream.slot as usize];
        if slot.running & SEND == 0 { 0 } else { slot.output.len() - slot.taken }
    }

    /// The socket of a connection.
    #[inline]
    pub fn client(&self, stream: &Stream) -> &TcpClient {
        let client = self.slots[stream.slot as usize].client.as_ref();
        client.expect("a connection that was not given up has its socket")
    }

    /// Gives a connection up: cancels its operations, and closes its socket after the last of them. Completions of it
    /// are not returned any more.
    #[allow(clippy::needless_pass_by_value)] // giving the handle up is the point
    pub fn end(&mut self, stream: Stream) -> io::Result<()> {
        self.slots[stream.slot as usize].has_ended = true;
        let cancelled = self.cancel(stream.slot);
        self.settle(stream.slot);
        cancelled
    }

    /// Whether operations wait to be submitted.
    #[inline]
    pub fn has_queued(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Submits all queued operations, and lets the kernel complete what is ready, without waiting.
    pub fn submit_and_look(&mut self) -> io::Result<()> {
        let waiting = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed; the callers of `push` guarantee what the entries point to.
        done_or_busy(unsafe { self.ring.submitter().enter::<libc::sigset_t>(waiting, 0, GET_EVENTS, None) })
    }

    /// Submits all queued operations, and waits until an operation completes, a signal arrives, or `most_ns`
    /// nanoseconds are over.
    pub fn submit_and_wait_for(&mut self, most_ns: u64) -> io::Result<()> {
        let time = Timespec::new().sec(most_ns / 1_000_000_000).nsec((most_ns % 1_000_000_000) as u32);
        let args = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &args) {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            submitted => done_or_busy(submitted),
        }
    }

    /// The next thing that became of connections, if any.
    #[inline]
    pub fn completion(&mut self) -> io::Result<Option<StreamCompletion>> {
        loop {
            let Some(entry) = next_completion(&mut self.ring, &mut self.reaped) else { return Ok(None) };
            let (kind, number) = ((entry.user_data() >> 32) as u8, entry.user_data() as u32);
            let found = match kind {
                CONNECT => self.connected(number, &entry)?,
                RECEIVE => self.received(number, &entry)?,
                SEND => self.sent(number, &entry)?,
                _ => {
                    self.cancelled(number, &entry)?;
                    None
                }
            };
            self.settle(number);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// The bytes in a buffer, and when the kernel received the last of them, in nanoseconds of `CLOCK_REALTIME`.
    #[inline]
    pub fn bytes(&mut self, buffer: &Buffer) -> (&mut [u8], Option<u64>) {
        let whole = self.buffers.whole_mut(buffer);
        let control_bytes = u32::from_ne_bytes([whole[4], whole[5], whole[6], whole[7]]) as usize;
        let bytes = u32::from_ne_bytes([whole[8], whole[9], whole[10], whole[11]]) as usize;
        let (head, payload) = whole.split_at_mut(PAYLOAD_AT);
        let arrived_ns = cmsg::read(&head[HEAD_BYTES..][..control_bytes.min(CONTROL_BYTES)]).arrived_ns;
        let bytes = bytes.min(payload.len());
        (&mut payload[..bytes], arrived_ns)
    }

    /// Returns a buffer to the kernel, for bytes to come.
    #[inline]
    pub fn give_back(&mut self, buffer: Buffer) {
        self.buffers.give_back(buffer);
    }

    /// Whether a receive found no free buffer since the last call, so that bytes of its connection wait in the kernel.
    /// The next submission reads them.
    #[inline]
    pub fn has_starved(&mut self) -> bool {
        mem::take(&mut self.has_starved)
    }

    fn connected(&mut self, number: u32, entry: &cqueue::Entry) -> io::Result<Option<StreamCompletion>> {
        let slot = self.over(number, CONNECT);
        let (key, outcome) = (slot.key, outcome(entry.result()));
        if slot.has_ended {
            return Ok(None);
        }
        if outcome.is_ok() {
            self.receive(number)?;
        }
        Ok(Some(StreamCompletion::Connected { key, outcome }))
    }

    #[inline]
    fn received(&mut self, number: u32, entry: &cqueue::Entry) -> io::Result<Option<StreamCompletion>> {
        let is_armed = cqueue::more(entry.flags());
        if !is_armed {
            self.over(number, RECEIVE);
        }
        let Slot { key, has_ended, .. } = self.slots[number as usize];
        let buffer = cqueue::buffer_select(entry.flags()).map(|id| self.buffers.buffer(id));
        let outcome = outcome(entry.result());
        if let Some(buffer) = buffer {
            let has_bytes = !self.bytes(&buffer).0.is_empty();
            if outcome.is_ok() && has_bytes && !has_ended {
                if !is_armed {
                    self.receive(number)?;
                }
                return Ok(Some(StreamCompletion::Received { key, buffer }));
            }
            self.give_back(buffer);
        }
        match outcome {
            _ if has_ended => Ok(None),
            // No buffer was free. The loop has given them back since.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.has_starved = true;
                self.receive(number).map(|()| None)
            }
            outcome => Ok(Some(StreamCompletion::Ended { key, outcome })),
        }
    }

    fn sent(&mut self, number: u32, entry: &cqueue::Entry) -> io::Result<Option<StreamCompletion>> {
        let slot = self.over(number, SEND);
        if slot.has_ended {
            return Ok(None);
        }
        let key = slot.key;
        if let Err(error) = outcome(entry.result()) {
            // Bytes that have arrived are read, and then the receive ends, whatever the error is.
            if let Some(client) = &slot.client {
                client.end_reading();
            }
            return Ok(Some(StreamCompletion::Sent { key, outcome: Err(error) }));
        }
        slot.taken += entry.result() as usize;
        let left = slot.output.len() - slot.taken;
        if left > 0 {
            self.send_rest(number)?;
        }
        Ok(Some(StreamCompletion::Sent { key, outcome: Ok(left) }))
    }

    fn cancelled(&mut self, number: u32, entry: &cqueue::Entry) -> io::Result<()> {
        self.operations -= 1;
        let slot = &mut self.slots[number as usize];
        slot.cancels -= 1;
        // The kernel does not find an operation between two of its steps. It is there after the next one.
        if entry.result() < 0 && slot.cancels == 0 { self.cancel(number) } else { Ok(()) }
    }

    /// Notes that an operation has ended.
    #[inline]
    fn over(&mut self, number: u32, kind: u8) -> &mut Slot {
        self.operations -= 1;
        let slot = &mut self.slots[number as usize];
        slot.running &= !kind;
        slot
    }

    /// Starts the multishot receive of a connection.
    fn receive(&mut self, number: u32) -> io::Result<()> {
        let slot = &mut self.slots[number as usize];
        let Some(client) = &slot.client else { return Ok(()) };
        let template = &raw const self.template[0].msg_hdr;
        let entry = opcode::RecvMsgMulti::new(Fd(client.as_raw_fd()), template, GROUP)
            .build()
            .user_data(user_data(RECEIVE, number));
        // SAFETY: the template lives in a block as long as the ring, and buffers come from the group.
        unsafe { push(&mut self.ring, &mut self.reaped, &entry) }?;
        slot.running |= RECEIVE;
        self.operations += 1;
        Ok(())
    }

    /// Sends what is left of a connection's bytes.
    fn send_rest(&mut self, number: u32) -> io::Result<()> {
        let slot = &mut self.slots[number as usize];
        let Some(client) = &slot.client else { return Ok(()) };
        let rest = &slot.output[slot.taken..];
        // The kernel takes what fits into its type, and reports how much it took.
        let length = rest.len().min(i32::MAX as usize) as u32;
        let entry = opcode::Send::new(Fd(client.as_raw_fd()), rest.as_ptr(), length)
            .flags(libc::MSG_NOSIGNAL)
            .build()
            .user_data(user_data(SEND, number));
        // SAFETY: the bytes are on the heap, so that they stay where they are when the slot moves. Nothing touches the
        // vector while `SEND` is among the running kinds. If the ring is dropped meanwhile, its memory is leaked.
        unsafe { push(&mut self.ring, &mut self.reaped, &entry) }?;
        slot.running |= SEND;
        self.operations += 1;
        Ok(())
    }

    /// Requests the end of all operations of a connection.
    fn cancel(&mut self, number: u32) -> io::Result<()> {
        for kind in [CONNECT, RECEIVE, SEND] {
            let slot = &mut self.slots[number as usize];
            if slot.running & kind == 0 {
                continue;
            }
            let entry = opcode::AsyncCancel::new(user_data(kind, number))
                .build()
                .user_data(user_data(CANCEL, number));
            // SAFETY: cancelling touches no memory of this process.
            unsafe { push(&mut self.ring, &mut self.reaped, &entry) }?;
            slot.cancels += 1;
            self.operations += 1;
        }
        Ok(())
    }

    /// Closes a connection that was given up, if no operation on it is left.
    #[inline]
    fn settle(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        if slot.has_ended && slot.running == 0 && slot.cancels == 0 {
            slot.client = None;
            slot.has_ended = false;
            self.free.push(number);
        }
    }

    /// Gives all connections up, and waits until their operations have ended, as far as they do soon.
    fn end_all(&mut self) -> io::Result<()> {
        for number in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[number as usize];
            if slot.client.is_some() && !slot.has_ended {
                slot.has_ended = true;
                self.cancel(number)?;
                self.settle(number);
            }
            if number % ENTRIES == ENTRIES - 1 {
                self.submit_and_look()?;
                while self.completion()?.is_some() {}
            }
        }
        let mut vain = 0;
        while self.operations > 0 && vain < LAST_WAITS_MOST {
            let before = self.operations;
            self.submit_and_wait_for(LAST_WAIT_NS)?;
            while self.completion()?.is_some() {}
            vain = if self.operations < before { 0 } else { vain + 1 };
        }
        Ok(())
    }
}

impl Drop for StreamRing {
    fn drop(&mut self) {
        if self.end_all().is_err() || self.operations > 0 {
            // The kernel may still use them, so they are never freed.
            self.template.leak();
            self.addresses.leak();
            self.buffers.leak();
            for slot in &mut self.slots {
                mem::forget(mem::take(&mut slot.output));
            }
        }
    }
}

fn user_data(kind: u8, number: u32) -> u64 {
    u64::from(kind) << 32 | u64::from(number)
}

#[cfg(test)]
mod tests;
