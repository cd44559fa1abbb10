//! Turning a batch round: replies leave from the very buffers that the queries came in.

use std::io;

use crate::batch::recv::{Received, RecvBatch};
use crate::batch::{Headers, send_headers};
use crate::udp::{UdpSocket, Wait};

/// A received batch and the replies to it. Nothing is copied: a reply is a part of its query's buffer, goes
/// to the query's sender, and leaves from the address that was asked where that is known.
pub struct TurnBatch {
    received: RecvBatch,
    replies: Headers,
    queued: usize,
}

impl TurnBatch {
    /// Allocates buffers for `messages` messages of up to `bytes_each` bytes, and for `replies` replies.
    pub fn new(messages: usize, bytes_each: usize, replies: usize) -> Self {
        let received = RecvBatch::new(messages, bytes_each);
        Self { received, replies: Headers::new(replies), queued: 0 }
    }

    /// Receives up to a batch, as [`RecvBatch::recv`] does, and forgets all replies.
    #[inline]
    pub fn recv(&mut self, socket: &UdpSocket, wait: Wait) -> io::Result<usize> {
        self.queued = 0;
        self.received.recv(socket, wait)
    }

    /// One of the received messages.
    #[inline]
    pub fn message(&self, index: usize) -> Received<'_> {
        self.received.message(index)
    }

    /// Its bytes, to be turned into a reply in place.
    #[inline]
    pub fn message_mut(&mut self, index: usize) -> &mut [u8] {
        self.received.message_mut(index)
    }

    /// Whether one more reply can be queued.
    #[inline]
    pub fn room(&self) -> bool {
        self.queued < self.replies.len()
    }

    /// How many replies are queued.
    #[inline]
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Forgets the queued replies, once they were sent.
    #[inline]
    pub fn clear_replies(&mut self) {
        self.queued = 0;
    }

    /// Queues `bytes` bytes from `offset` of a message as a reply, cut by the kernel into datagrams of
    /// `segment_bytes` when it is longer than that. To be called with [`Self::room`] only.
    #[inline]
    pub fn reply(&mut self, index: usize, offset: usize, bytes: usize, segment_bytes: Option<u16>) {
        let message = self.received.message(index);
        assert!(offset + bytes <= message.bytes.len(), "a reply lies within its query");
        let segment_bytes = segment_bytes.filter(|&segment| bytes > usize::from(segment));
        let (from, to) = (message.to, message.from);
        let reply = self.queued;
        self.replies.slices[reply] =
            libc::iovec { iov_base: self.received.at(index, offset).cast(), iov_len: bytes };
        self.replies.names[reply] = to;
        let header = &mut self.replies.headers[reply].msg_hdr;
        header.msg_namelen = to.length();
        header.msg_controllen = self.replies.controls[reply].write(segment_bytes, from.as_ref());
        self.queued += 1;
    }

    /// Sends queued replies from `first` on, as [`crate::SendBatch::send`] does.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket, first: usize) -> io::Result<usize> {
        // SAFETY: headers, names and control bytes are blocks that `self` owns, and `reply` took each slice
        // from within the receive buffer, which `self` owns too.
        unsafe { send_headers(&mut self.replies.headers, socket, first, self.queued) }
    }

    /// The length and segment length of a queued reply, bytes.
    #[inline]
    pub fn queued_bytes(&self, reply: usize) -> usize {
        self.replies.slices[reply].iov_len
    }
}
