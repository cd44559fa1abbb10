//! Replies that are sent from the buffers in which their queries arrived.

use std::io;

use crate::batch::recv::{Received, RecvBatch, Slot};
use crate::batch::{Headers, send_headers};
use crate::cmsg;
use crate::headers;
use crate::udp::{UdpSocket, Wait};

/// A received batch and the replies to it. Nothing is copied: a reply is a part of its query's buffer. It goes
/// to the query's sender, from the address to which the query was sent if that is known.
pub struct TurnBatch {
    received: RecvBatch,
    replies: Headers,
    /// The segment length of every reply, 0 for a single datagram.
    segments: Box<[u16]>,
    queued: usize,
}

impl TurnBatch {
    /// Allocates buffers for `messages` messages of up to `bytes_each` bytes, and headers for `replies`
    /// replies.
    pub fn new(messages: usize, bytes_each: usize, replies: usize) -> Self {
        let received = RecvBatch::new(messages, bytes_each);
        Self { received, replies: Headers::new(replies), segments: vec![0; replies].into(), queued: 0 }
    }

    /// Receives up to a batch, as [`RecvBatch::recv`] does, and discards all replies.
    #[inline]
    pub fn recv(&mut self, socket: &UdpSocket, wait: Wait) -> io::Result<usize> {
        self.queued = 0;
        self.received.recv(socket, wait)
    }

    /// A received message with the kernel's data about it.
    #[inline]
    pub fn message(&self, index: usize) -> Received<'_> {
        self.received.message(index)
    }

    /// The bytes of a received message, for turning them into a reply in place.
    #[inline]
    pub fn message_mut(&mut self, index: usize) -> &mut [u8] {
        self.received.message_mut(index)
    }

    /// A received message with the free space behind it, for a reply that is longer than its query.
    #[inline]
    pub fn slot(&mut self, index: usize) -> Slot<'_> {
        self.received.slot(index)
    }

    /// Whether another reply can be queued.
    #[inline]
    pub fn room(&self) -> bool {
        self.queued < self.replies.len()
    }

    /// The number of queued replies.
    #[inline]
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Discards the queued replies, after they were sent.
    #[inline]
    pub fn clear_replies(&mut self) {
        self.queued = 0;
    }

    /// Queues `bytes` bytes from `offset` of a message's buffer as a reply. If that is more than
    /// `segment_bytes`, the kernel cuts the reply into datagrams of that length. Requires [`Self::room`].
    #[inline]
    pub fn reply(&mut self, index: usize, offset: usize, bytes: usize, segment_bytes: Option<u16>) {
        let message = self.received.message(index);
        assert!(offset + bytes <= self.received.bytes_each(), "a reply lies within its query's buffer");
        let segment_bytes = segment_bytes.filter(|&segment| bytes > usize::from(segment));
        let (from, to) = (message.to, message.from);
        let reply = self.queued;
        self.replies.slices[reply] =
            libc::iovec { iov_base: self.received.at(index, offset).cast(), iov_len: bytes };
        self.replies.names[reply] = to;
        let header = &mut self.replies.headers[reply].msg_hdr;
        header.msg_namelen = to.length();
        headers::set_control_bytes(header, self.replies.controls[reply].write(segment_bytes, from.as_ref()));
        self.segments[reply] = segment_bytes.unwrap_or(0);
        self.queued += 1;
    }

    /// Sends the queued replies from `first` on, as [`crate::SendBatch::send`] does.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket, first: usize) -> io::Result<usize> {
        // SAFETY: headers, names and control bytes are blocks that `self` owns, and `reply` took each slice
        // from within the receive buffer, which `self` owns too.
        unsafe { send_headers(&mut self.replies.headers, socket, first, self.queued) }
    }

    /// The number of datagrams in a queued reply.
    #[inline]
    pub fn segments(&self, reply: usize) -> usize {
        match self.segments[reply] {
            0 => 1,
            segment => self.replies.slices[reply].iov_len.div_ceil(usize::from(segment)),
        }
    }

    /// Sends the datagrams of a segmented reply one by one, for devices that refuse segmentation. Calls `each`
    /// with the outcome of each datagram.
    pub fn send_apart(&mut self, socket: &UdpSocket, reply: usize, mut each: impl FnMut(io::Result<()>)) {
        assert!(reply < self.queued && self.segments[reply] > 0, "a segmented reply that is queued");
        let segment = usize::from(self.segments[reply]);
        let whole = self.replies.slices[reply];
        let header = &mut self.replies.headers[reply].msg_hdr;
        let (control, control_bytes) = (header.msg_control, headers::control_bytes(header));
        // The segment size is the first control message; the source address follows.
        header.msg_control = control.wrapping_byte_add(cmsg::SEGMENT_BYTES);
        headers::set_control_bytes(header, control_bytes - cmsg::SEGMENT_BYTES);
        for offset in (0..whole.iov_len).step_by(segment) {
            self.replies.slices[reply] = libc::iovec {
                iov_base: whole.iov_base.wrapping_byte_add(offset),
                iov_len: segment.min(whole.iov_len - offset),
            };
            // SAFETY: as in `send`; each slice is a part of the whole one, and the control bytes are the end of
            // those that `reply` wrote.
            let sent = unsafe { send_headers(&mut self.replies.headers, socket, reply, reply + 1) };
            each(
                sent.and_then(|sent| if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }),
            );
        }
        self.replies.slices[reply] = whole;
        let header = &mut self.replies.headers[reply].msg_hdr;
        header.msg_control = control;
        headers::set_control_bytes(header, control_bytes);
    }
}
