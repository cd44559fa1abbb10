//! Replies that are written apart from their queries, and sent as runs of equal length.

use std::io;

use crate::address::{Address, LocalAddress};
use crate::batch::{Headers, send_headers};
use crate::control;
use crate::memory::Block;
use crate::udp::UdpSocket;

/// The most bytes in one message: the largest payload of a packet, less than its length field says (RFC 768).
const MESSAGE_BYTES: usize = 65_000;

/// The longest datagram that is a segment. A segment must fit the link, here Ethernet with IPv6 (1500 − 48 bytes),
/// whereas a datagram by itself may be cut into fragments.
const SEGMENT_BYTES: usize = 1452;

/// How many datagrams of these lengths, the longest of which comes first, make one message of at most `most` segments:
/// equal ones, and one shorter, since the kernel cuts every so many bytes and the rest is the last (`UDP_SEGMENT`,
/// udp(7)).
#[inline]
pub fn run_of(lengths: impl IntoIterator<Item = usize>, most: usize) -> usize {
    let mut lengths = lengths.into_iter();
    let Some(segment) = lengths.next() else { return 0 };
    if segment == 0 || segment > SEGMENT_BYTES {
        return 1;
    }
    let most = most.min(MESSAGE_BYTES / segment);
    let mut run = 1;
    for bytes in lengths.take(most.saturating_sub(1)) {
        // Of a datagram without bytes nothing would be left to cut off.
        if bytes > 0 {
            run += 1;
        }
        if bytes < segment {
            break;
        }
    }
    run
}

/// Whether a message of several segments was refused because the kernel cannot cut it for this socket: its device may
/// not, or a segment is longer than the frames are (`udp_send_skb`, net/ipv4/udp.c). Any other refusal would have been
/// one of single datagrams, too.
pub fn cannot_cut(errno: i32) -> bool {
    matches!(errno, libc::EIO | libc::EINVAL | libc::EMSGSIZE)
}

/// Datagrams written one after the other into one buffer, and put together afterwards: a message is any number
/// of them to one receiver, in any order, gathered by the kernel from where they lie. All datagrams of a message
/// are equally long, but for the last, which may be shorter.
pub struct RunBatch {
    headers: Headers,
    gathered: Block<libc::iovec>,
    gathered_used: usize,
    /// The segment length of every message, 0 where it is one datagram.
    segments: Box<[u16]>,
    messages: usize,
    buffer: Block<u8>,
    used_bytes: usize,
    pieces: usize,
}

/// A datagram that was written into a [`RunBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    start: u32,
    bytes: u16,
}

impl Piece {
    /// Its length.
    #[inline]
    pub fn bytes(self) -> usize {
        usize::from(self.bytes)
    }
}

impl RunBatch {
    /// Allocates room for `pieces` datagrams of `bytes` bytes together, both at least 1; `bytes` below 4 GiB.
    pub fn new(pieces: usize, bytes: usize) -> Self {
        assert!(u32::try_from(bytes).is_ok(), "a batch of 4 GiB");
        Self {
            headers: Headers::new(pieces),
            gathered: Block::new(pieces),
            gathered_used: 0,
            segments: vec![0; pieces].into(),
            messages: 0,
            buffer: Block::new(bytes),
            used_bytes: 0,
            pieces: 0,
        }
    }

    /// Forgets all datagrams and messages.
    #[inline]
    pub fn clear(&mut self) {
        (self.messages, self.gathered_used, self.used_bytes, self.pieces) = (0, 0, 0, 0);
    }

    /// Whether one more datagram of this length can be written.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.pieces < self.headers.len() && bytes <= self.buffer.len() - self.used_bytes
    }

    /// Where the next datagram is to be written: all that is left of the buffer.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.used_bytes..]
    }

    /// Keeps the first `bytes` bytes of the room as a datagram; at most 65,535 of them. To be called with
    /// [`Self::has_room`] only.
    #[inline]
    pub fn keep(&mut self, bytes: usize) -> Piece {
        assert!(self.has_room(bytes), "a datagram that was written has its place");
        let piece = Piece { start: self.used_bytes as u32, bytes: u16::try_from(bytes).expect("a datagram") };
        self.used_bytes += bytes;
        self.pieces += 1;
        piece
    }

    /// Makes a message of these datagrams, at least one, each of which is used once. All but the last are equally long, and
    /// the last is no longer than they.
    #[inline]
    pub fn add(&mut self, to: &Address, from: Option<&LocalAddress>, pieces: &[Piece]) {
        let (message, first) = (self.messages, self.gathered_used);
        let segment = pieces[0].bytes;
        let mut end = usize::MAX;
        for (place, piece) in pieces.iter().enumerate() {
            let is_even = piece.bytes == segment || piece.bytes < segment && place + 1 == pieces.len();
            assert!(is_even, "a run of equal datagrams");
            let start = piece.start as usize;
            assert!(start + piece.bytes() <= self.used_bytes, "a datagram of this batch");
            if start == end {
                self.gathered[self.gathered_used - 1].iov_len += piece.bytes();
            } else {
                self.gathered[self.gathered_used] =
                    libc::iovec { iov_base: self.buffer.at(start).cast(), iov_len: piece.bytes() };
                self.gathered_used += 1;
            }
            end = start + piece.bytes();
        }
        let segment = (pieces.len() > 1).then_some(segment);
        self.headers.names[message] = *to;
        let header = &mut self.headers.headers[message].msg_hdr;
        header.msg_iov = self.gathered.at(first);
        header.msg_iovlen = self.gathered_used - first;
        header.msg_namelen = to.length();
        header.msg_controllen = self.headers.controls[message].write(segment, from);
        self.segments[message] = segment.unwrap_or(0);
        self.messages += 1;
    }

    /// How many messages were made.
    #[inline]
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Hands messages from `first` on to the kernel, as [`crate::SendBatch::send`] does.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket, first: usize) -> io::Result<usize> {
        // SAFETY: headers, slices, names, control bytes and buffer are blocks that `self` owns, and `add` took
        // each slice from within the buffer.
        unsafe { send_headers(&mut self.headers.headers, socket, first, self.messages) }
    }

    /// How many datagrams a message makes.
    #[inline]
    pub fn segments(&self, message: usize) -> usize {
        match self.segments[message] {
            0 => 1,
            segment => {
                let bytes: usize = self.slices_of(message).iter().map(|slice| slice.iov_len).sum();
                bytes.div_ceil(usize::from(segment))
            }
        }
    }

    fn slices_of(&self, message: usize) -> &[libc::iovec] {
        let header = &self.headers.headers[message].msg_hdr;
        let first = (header.msg_iov as usize - self.gathered.at(0) as usize) / size_of::<libc::iovec>();
        &self.gathered[first..][..header.msg_iovlen]
    }

    /// Sends the datagrams of one segmented message as messages of their own, and tells of each whether the
    /// kernel took it: for devices that refuse segmentation.
    pub fn send_apart(&mut self, socket: &UdpSocket, message: usize, mut each: impl FnMut(io::Result<()>)) {
        assert!(message < self.messages && self.segments[message] > 0, "a segmented message that was made");
        let segment = usize::from(self.segments[message]);
        let slices = self.slices_of(message).to_vec();
        let own = self.headers.slices.at(message);
        let whole = self.headers.headers[message].msg_hdr;
        let header = &mut self.headers.headers[message].msg_hdr;
        header.msg_iov = own;
        header.msg_iovlen = 1;
        // The segment size was written first; what follows says where to send from.
        header.msg_control = header.msg_control.wrapping_byte_add(control::SEGMENT_BYTES);
        header.msg_controllen -= control::SEGMENT_BYTES;
        for slice in slices {
            for offset in (0..slice.iov_len).step_by(segment) {
                self.headers.slices[message] = libc::iovec {
                    iov_base: slice.iov_base.wrapping_byte_add(offset),
                    iov_len: segment.min(slice.iov_len - offset),
                };
                // SAFETY: as in `send`; each slice is a part of one that `add` made, and the control bytes are
                // the end of those that it wrote.
                let sent = unsafe { send_headers(&mut self.headers.headers, socket, message, message + 1) };
                each(sent.and_then(
                    |sent| {
                        if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
                    },
                ));
            }
        }
        self.headers.headers[message].msg_hdr = whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_of_one_length_but_for_a_shorter_end() {
        assert_eq!(run_of([90, 90, 90, 50, 50], 64), 4);
        assert_eq!(run_of([70, 60, 50], 64), 2);
        assert_eq!(run_of([50; 5], 64), 5);
        assert_eq!(run_of([50; 5], 2), 2);
        assert_eq!(run_of([50, 40], 1), 1);
        assert_eq!(run_of([50, 0], 64), 1);
        assert_eq!(run_of([], 64), 0);
    }

    #[test]
    fn a_message_fits_a_packet_and_its_segments_the_link() {
        assert_eq!(run_of([1452; 64], 64), 44);
        assert_eq!(run_of([1453, 1453, 100], 64), 1);
    }
}
