//! Sending a batch of messages from one buffer.

use std::io;
use std::mem;

use crate::address::{Address, LocalAddress};
use crate::batch::{Headers, send_headers};
use crate::headers;
use crate::memory::Block;
use crate::udp::UdpSocket;

/// Messages that are written one after the other into one buffer and sent by one `sendmmsg`.
pub struct SendBatch {
    headers: Headers,
    buffer: Block<u8>,
    messages: usize,
    used_bytes: usize,
}

impl SendBatch {
    /// Allocates room for `messages` messages of `bytes` bytes in total. Both must be at least 1.
    pub fn new(messages: usize, bytes: usize) -> Self {
        Self { headers: Headers::new(messages), buffer: Block::new(bytes), messages: 0, used_bytes: 0 }
    }

    /// Discards all messages and continues in other memory of the same size. The old memory is never freed: the kernel
    /// may still read it.
    pub(crate) fn leak(&mut self) {
        let successor = Self::new(self.headers.len(), self.buffer.len());
        mem::forget(mem::replace(self, successor));
    }

    /// Discards all messages.
    #[inline]
    pub fn clear(&mut self) {
        self.messages = 0;
        self.used_bytes = 0;
    }

    /// Whether the batch holds no message.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// The number of messages in the batch.
    #[inline]
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Whether another message of this length fits.
    #[inline]
    pub fn room(&self, bytes: usize) -> bool {
        self.messages < self.headers.len() && bytes <= self.buffer.len() - self.used_bytes
    }

    /// Appends a message of `bytes` bytes and returns its bytes for the caller to fill. With `segment_bytes`
    /// the kernel cuts the message into datagrams of that length; the last may be shorter. A message of one
    /// datagram carries no segment size, since some devices refuse it. Requires [`Self::room`].
    #[inline]
    pub fn add(&mut self, to: &Address, bytes: usize, segment_bytes: Option<u16>) -> &mut [u8] {
        self.add_from(to, None, bytes, segment_bytes)
    }

    /// Like [`Self::add`], but sends from the given address of this host.
    #[inline]
    pub fn add_from(
        &mut self,
        to: &Address,
        from: Option<&LocalAddress>,
        bytes: usize,
        segment_bytes: Option<u16>,
    ) -> &mut [u8] {
        let (index, start) = (self.messages, self.used_bytes);
        let segment_bytes = segment_bytes.filter(|&segment| bytes > usize::from(segment));
        self.headers.slices[index] = libc::iovec { iov_base: self.buffer.at(start).cast(), iov_len: bytes };
        self.headers.names[index] = *to;
        let header = &mut self.headers.headers[index].msg_hdr;
        header.msg_namelen = to.length();
        headers::set_control_bytes(header, self.headers.controls[index].write(segment_bytes, from));
        let place = &mut self.buffer[start..start + bytes];
        self.messages += 1;
        self.used_bytes += bytes;
        place
    }

    /// The headers of all messages, for a ring that sends them while it borrows this batch.
    pub(crate) fn headers(&self) -> impl Iterator<Item = *const libc::msghdr> {
        (0..self.messages).map(|index| &raw const self.headers.headers[index].msg_hdr)
    }

    /// Sends the messages from `first` on. Returns how many the kernel took; 0 if the socket has no room at
    /// present. If it took fewer than all, the next message failed, and sending again from there returns the
    /// error.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket, first: usize) -> io::Result<usize> {
        // SAFETY: headers, names, control bytes and buffer are blocks that `self` owns, and `add_from` took
        // each slice from within the buffer.
        unsafe { send_headers(&mut self.headers.headers, socket, first, self.messages) }
    }
}
