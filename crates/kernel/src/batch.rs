//! Batches of datagrams: `recvmmsg` and `sendmmsg` take many messages per call, and with `UDP_GRO` and
//! `UDP_SEGMENT` one message holds many datagrams of equal length. Headers, names, control bytes and buffers
//! are allocated once.

mod outbox;
mod recv;
mod run;
mod send;
mod turn;

pub use outbox::Outbox;
pub use recv::{Received, RecvBatch, Slot};
pub use run::{Piece, RunBatch, cannot_cut, run_of};
pub use send::SendBatch;
pub use turn::TurnBatch;

pub use crate::udp::Wait;

use crate::address::Address;
use crate::cmsg::{CONTROL_BYTES, Control};
use crate::headers;
use crate::memory::Block;

/// The largest message that segmentation offload sends or receives, in bytes.
pub const SEGMENTED_BYTES: usize = 65_536;

/// The maximum number of segments per message (`UDP_MAX_SEGMENTS`, which was 64 until Linux 6.9).
pub const SEGMENTS: usize = 64;

/// The arrays of `recvmmsg` and `sendmmsg`: header, slice, name and control bytes of every message.
struct Headers {
    headers: Block<libc::mmsghdr>,
    slices: Block<libc::iovec>,
    names: Block<Address>,
    controls: Block<Control>,
}

impl Headers {
    /// Headers that point to their own slice, name and control bytes; the slices are empty.
    fn new(messages: usize) -> Self {
        let mut all = Self {
            headers: Block::new(messages),
            slices: Block::new(messages),
            names: Block::new(messages),
            controls: Block::new(messages),
        };
        for index in 0..messages {
            let header = &mut all.headers[index].msg_hdr;
            header.msg_iov = all.slices.at(index);
            header.msg_iovlen = 1;
            header.msg_name = all.names.at(index).cast();
            header.msg_control = all.controls.at(index).cast();
        }
        all
    }

    fn len(&self) -> usize {
        self.headers.len()
    }

    /// Prepares a header for receiving: every call shortens its name and control lengths.
    #[inline]
    fn reset(&mut self, index: usize) {
        let header = &mut self.headers[index].msg_hdr;
        header.msg_namelen = size_of::<Address>() as libc::socklen_t;
        headers::set_control_bytes(header, CONTROL_BYTES);
    }

    /// Copies the kernel's results for a received message to the previous index.
    fn copy_up(&mut self, index: usize) {
        self.names[index - 1] = self.names[index];
        self.controls[index - 1] = self.controls[index];
        let copied = self.headers[index];
        let header = &mut self.headers[index - 1];
        header.msg_len = copied.msg_len;
        header.msg_hdr.msg_namelen = copied.msg_hdr.msg_namelen;
        header.msg_hdr.msg_controllen = copied.msg_hdr.msg_controllen;
    }
}

/// Sends messages `first..end`. Returns how many the kernel took; 0 if there was no room.
///
/// # Safety
/// Slices, names and control bytes of these headers must point to live memory of the lengths given.
unsafe fn send_headers(
    headers: &mut Block<libc::mmsghdr>,
    socket: &crate::udp::UdpSocket,
    first: usize,
    end: usize,
) -> std::io::Result<usize> {
    use std::os::fd::AsRawFd as _;
    let part = &mut headers[first..end];
    if part.is_empty() {
        return Ok(0);
    }
    // SAFETY: the slice of headers is live, and the caller guarantees what they point to.
    let sent =
        unsafe { headers::send_many(socket.as_raw_fd(), part.as_mut_ptr(), part.len() as libc::c_uint) };
    match crate::sys::check(sent) {
        Ok(sent) => Ok(sent as usize),
        Err(error) if crate::sys::is_not_now(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
