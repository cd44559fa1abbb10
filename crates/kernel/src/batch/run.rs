//! Replies that are written to a buffer of their own and sent as runs of equal length.

use std::io;

use crate::address::{Address, LocalAddress};
use crate::batch::{Headers, send_headers};
use crate::cmsg;
use crate::headers;
use crate::memory::Block;
use crate::udp::UdpSocket;

/// The maximum bytes of a message: about the largest payload of a packet, and less than the 65,535 of its length
/// field (RFC 768).
const MESSAGE_BYTES: usize = 65_000;

/// The longest datagram that may be a segment. A segment must fit the link, here Ethernet with IPv6 (1500 − 48
/// bytes). A single datagram may be fragmented instead.
const SEGMENT_BYTES: usize = 1452;

/// How many of these datagrams make one message of at most `most` segments. The first length must be the longest. A
/// message consists of datagrams of equal length and at most one shorter datagram at the end, since the kernel cuts
/// it at multiples of the segment size (`UDP_SEGMENT`, udp(7)).
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
        // A datagram of 0 bytes would leave nothing to cut off.
        if bytes > 0 {
            run += 1;
        }
        if bytes < segment {
            break;
        }
    }
    run
}

/// Whether this error says that the kernel cannot segment a message for this socket: its device does not support it,
/// or a segment is longer than a frame (`udp_send_skb`, net/ipv4/udp.c). Any other error would affect single
/// datagrams too.
pub fn cannot_cut(errno: i32) -> bool {
    matches!(errno, libc::EIO | libc::EINVAL | libc::EMSGSIZE)
}

/// Datagrams that are written one after the other into one buffer, and afterwards combined into messages. A message
/// is any number of datagrams to one receiver, in any order; the kernel gathers them from their places in the
/// buffer. All datagrams of a message have the same length, except that the last may be shorter.
pub struct RunBatch {
    headers: Headers,
    gathered: Block<libc::iovec>,
    gathered_used: usize,
    /// The segment length of every message, 0 for a single datagram.
    segments: Box<[u16]>,
    messages: usize,
    buffer: Block<u8>,
    used_bytes: usize,
    pieces: usize,
}

/// A datagram in the buffer of a [`RunBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    start: u32,
    bytes: u16,
}

impl Piece {
    /// The length of the datagram in bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        usize::from(self.bytes)
    }
}

impl RunBatch {
    /// Allocates room for `pieces` datagrams of `bytes` bytes in total. Both must be at least 1, and `bytes` below 4
    /// GiB.
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

    /// Discards all datagrams and messages.
    #[inline]
    pub fn clear(&mut self) {
        (self.messages, self.gathered_used, self.used_bytes, self.pieces) = (0, 0, 0, 0);
    }

    /// Whether another datagram of this length fits.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.pieces < self.headers.len() && bytes <= self.buffer.len() - self.used_bytes
    }

    /// Whether this many further datagrams of so many bytes in total fit.
    #[inline]
    pub fn has_room_for(&self, pieces: usize, bytes: usize) -> bool {
        self.pieces + pieces <= self.headers.len() && bytes <= self.buffer.len() - self.used_bytes
    }

    /// The free part of the buffer, in which the caller writes the next datagram.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.used_bytes..]
    }

    /// Keeps the first `bytes` bytes of [`Self::room`] as a datagram, at most 65,535. Panics without
    /// [`Self::has_room`].
    #[inline]
    pub fn keep(&mut self, bytes: usize) -> Piece {
        assert!(self.has_room(bytes), "a datagram that was written has its place");
        let piece = Piece { start: self.used_bytes as u32, bytes: u16::try_from(bytes).expect("a datagram") };
        self.used_bytes += bytes;
        self.pieces += 1;
        piece
    }

    /// Combines these datagrams, at least one, into a message. Each datagram may be used once. All must have the
    /// same length, except that the last may be shorter; otherwise the call panics.
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
        headers::set_slices(header, self.gathered_used - first);
        header.msg_namelen = to.length();
        headers::set_control_bytes(header, self.headers.controls[message].write(segment, from));
        self.segments[message] = segment.unwrap_or(0);
        self.messages += 1;
    }

    /// The number of messages in the batch.
    #[inline]
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Sends the messages from `first` on. Returns how many the kernel took, as [`crate::SendBatch::send`] does.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket, first: usize) -> io::Result<usize> {
        // SAFETY: headers, slices, names, control bytes and buffer are blocks that `self` owns, and `add` took
        // each slice from within the buffer.
        unsafe { send_headers(&mut self.headers.headers, socket, first, self.messages) }
    }

    /// The number of datagrams in a message.
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

    /// The datagrams of a message.
    pub fn datagrams(&self, message: usize) -> impl Iterator<Item = &[u8]> {
        let segment = match self.segments[message] {
            0 => usize::MAX,
            segment => usize::from(segment),
        };
        let first = self.buffer.at(0) as usize;
        self.slices_of(message).iter().flat_map(move |slice| {
            let start = slice.iov_base as usize - first;
            self.buffer[start..start + slice.iov_len].chunks(segment)
        })
    }

    fn slices_of(&self, message: usize) -> &[libc::iovec] {
        let header = &self.headers.headers[message].msg_hdr;
        let first = (header.msg_iov as usize - self.gathered.at(0) as usize) / size_of::<libc::iovec>();
        &self.gathered[first..][..headers::slices(header)]
    }

    /// Sends the datagrams of a segmented message one by one, for devices that refuse segmentation. Calls `each`
    /// with the outcome of each datagram, which returns whether to go on.
    pub fn send_apart(
        &mut self,
        socket: &UdpSocket,
        message: usize,
        mut each: impl FnMut(io::Result<()>) -> bool,
    ) {
        assert!(message < self.messages && self.segments[message] > 0, "a segmented message that was made");
        let segment = usize::from(self.segments[message]);
        let slices = self.slices_of(message).to_vec();
        let own = self.headers.slices.at(message);
        let whole = self.headers.headers[message].msg_hdr;
        let header = &mut self.headers.headers[message].msg_hdr;
        header.msg_iov = own;
        header.msg_iovlen = 1;
        // The segment size is the first control message; the source address follows.
        header.msg_control = header.msg_control.wrapping_byte_add(cmsg::SEGMENT_BYTES);
        headers::set_control_bytes(header, headers::control_bytes(header) - cmsg::SEGMENT_BYTES);
        let parts = slices.iter().flat_map(|slice| {
            let offsets = (0..slice.iov_len).step_by(segment);
            offsets.map(move |offset| libc::iovec {
                iov_base: slice.iov_base.wrapping_byte_add(offset),
                iov_len: segment.min(slice.iov_len - offset),
            })
        });
        for part in parts {
            self.headers.slices[message] = part;
            // SAFETY: as in `send`; each slice is a part of one that `add` made, and the control bytes are the
            // end of those that it wrote.
            let sent = unsafe { send_headers(&mut self.headers.headers, socket, message, message + 1) };
            let outcome =
                sent.and_then(|sent| if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) });
            if !each(outcome) {
                break;
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
