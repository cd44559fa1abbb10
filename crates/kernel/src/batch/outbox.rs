//! Datagrams that leave in the order in which they were written, in as few messages as their lengths allow.

use std::io;

use crate::address::{Address, LocalAddress};
use crate::batch::run::{Piece, RunBatch, cannot_cut};
use crate::udp::UdpSocket;

/// Datagrams of any receivers that wait for one socket.
pub struct Outbox {
    batch: RunBatch,
    /// The datagrams of one message, while it is made.
    pieces: Vec<Piece>,
    /// Whether the socket's device cuts messages into datagrams (`UDP_SEGMENT`), as far as is known.
    cuts: bool,
}

impl Outbox {
    /// Makes room for `datagrams` datagrams of `bytes` bytes in total.
    pub fn new(datagrams: usize, bytes: usize) -> Self {
        Self { batch: RunBatch::new(datagrams, bytes), pieces: Vec::with_capacity(datagrams), cuts: true }
    }

    /// Whether no datagram waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.batch.messages() == 0
    }

    /// Whether these bytes fit, as datagrams of `segment_bytes` bytes.
    #[inline]
    pub fn has_room(&self, bytes: usize, segment_bytes: usize) -> bool {
        self.batch.has_room_for(bytes.div_ceil(segment_bytes.max(1)), bytes)
    }

    /// Adds datagrams of `segment_bytes` bytes, of which the last may be shorter: at least one, and no more than one
    /// message can hold. Panics without [`Self::has_room`].
    pub fn add(&mut self, to: &Address, from: Option<&LocalAddress>, bytes: &[u8], segment_bytes: usize) {
        self.pieces.clear();
        for datagram in bytes.chunks(segment_bytes.max(1)) {
            self.batch.room()[..datagram.len()].copy_from_slice(datagram);
            self.pieces.push(self.batch.keep(datagram.len()));
        }
        let most = if self.cuts { self.pieces.len().max(1) } else { 1 };
        self.pieces.chunks(most).for_each(|message| self.batch.add(to, from, message));
    }

    /// Sends all datagrams. Calls `report` with how many the kernel took, or why it refused one. A message that the
    /// kernel cannot cut is sent again datagram by datagram, and so are all that follow.
    pub fn send(&mut self, socket: &UdpSocket, mut report: impl FnMut(io::Result<usize>)) {
        let mut first = 0;
        while first < self.batch.messages() {
            let mut kept = Vec::new();
            first = self.send_from(first, socket, &mut kept, &mut report);
            for _ in &kept {
                report(Err(io::ErrorKind::WouldBlock.into()));
            }
            if kept.is_empty() && first < self.batch.messages() {
                let segments = self.batch.segments(first);
                (0..segments).for_each(|_| report(Err(io::ErrorKind::WouldBlock.into())));
                first += 1;
            }
        }
        self.batch.clear();
    }

    /// Sends all datagrams as [`Self::send`] does, on a socket that does not block. From the first one on for which it
    /// has no room, datagrams are appended to `kept` and not reported. If there are such datagrams already, all join
    /// them.
    pub fn send_or_keep(
        &mut self,
        socket: &UdpSocket,
        kept: &mut Vec<Box<[u8]>>,
        mut report: impl FnMut(io::Result<usize>),
    ) {
        let first = if kept.is_empty() { self.send_from(0, socket, kept, &mut report) } else { 0 };
        for message in first..self.batch.messages() {
            kept.extend(self.batch.datagrams(message).map(Box::from));
        }
        self.batch.clear();
    }

    /// Sends messages from this one on. Returns the first for which a socket that does not block has no room, or the
    /// number of messages. Of a message that the kernel cannot cut, appends the datagrams from the first one on for which
    /// it has no room to `kept`.
    fn send_from(
        &mut self,
        mut first: usize,
        socket: &UdpSocket,
        kept: &mut Vec<Box<[u8]>>,
        report: &mut impl FnMut(io::Result<usize>),
    ) -> usize {
        let Self { batch, cuts, .. } = self;
        while first < batch.messages() {
            let segments = batch.segments(first);
            match batch.send(socket, first) {
                Ok(0) => break,
                Ok(sent) => {
                    report(Ok((first..first + sent).map(|message| batch.segments(message)).sum()));
                    first += sent;
                }
                Err(error) if segments > 1 && error.raw_os_error().is_some_and(cannot_cut) => {
                    let mut taken_or_refused = 0;
                    batch.send_apart(socket, first, |outcome| {
                        *cuts &= outcome.is_err();
                        let has_room = !is_without_room(&outcome);
                        if has_room {
                            report(outcome.map(|()| 1));
                            taken_or_refused += 1;
                        }
                        has_room
                    });
                    kept.extend(batch.datagrams(first).skip(taken_or_refused).map(Box::from));
                    first += 1;
                    if !kept.is_empty() {
                        break;
                    }
                }
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(0);
                    (0..segments).for_each(|_| report(Err(io::Error::from_raw_os_error(errno))));
                    first += 1;
                }
            }
        }
        first
    }
}

/// Whether the socket had no room for a datagram.
fn is_without_room(outcome: &io::Result<()>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{RecvBatch, Wait};
    use crate::udp::UdpOptions;

    #[test]
    fn datagrams_arrive_in_their_order_and_of_their_lengths() {
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let (from, to) = (bind(), bind());
        let address = to.local_addr().unwrap().into();
        let mut outbox = Outbox::new(8, 8000);
        assert!(outbox.is_empty() && !outbox.has_room(9, 1) && outbox.has_room(2500, 1200));
        let bytes: Vec<u8> = (0..2500_u32).map(|number| number as u8).collect();
        outbox.add(&address, None, &bytes, 1200);
        outbox.add(&address, None, b"last", 4);
        let mut taken = 0;
        outbox.send(&from, |outcome| taken += outcome.unwrap());
        assert_eq!((taken, outbox.is_empty()), (4, true));
        let (mut batch, mut arrived) = (RecvBatch::new(8, 2000), Vec::new());
        while arrived.len() < 4 {
            to.wait_readable(1_000_000_000).unwrap();
            let count = batch.recv(&to, Wait::No).unwrap();
            arrived.extend((0..count).map(|index| batch.message(index).bytes.to_vec()));
        }
        assert_eq!(arrived.concat(), [&bytes[..], b"last"].concat());
        assert_eq!(arrived.iter().map(Vec::len).collect::<Vec<_>>(), [1200, 1200, 100, 4]);
    }

    #[test]
    fn datagrams_behind_one_that_is_kept_are_kept_in_order() {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let address = socket.local_addr().unwrap().into();
        let mut outbox = Outbox::new(8, 8000);
        let mut kept = vec![Box::from(*b"before")];
        outbox.add(&address, None, b"onetwo3", 3);
        outbox.add(&address, None, b"four", 4);
        outbox.send_or_keep(&socket, &mut kept, |_| panic!("nothing is sent"));
        assert!(outbox.is_empty());
        assert_eq!(kept.concat(), b"beforeonetwo3four");
        assert_eq!(kept.iter().map(|one| one.len()).collect::<Vec<_>>(), [6, 3, 3, 1, 4]);
        // A socket with room takes all.
        kept.clear();
        outbox.add(&address, None, b"five", 4);
        let mut taken = 0;
        outbox.send_or_keep(&socket, &mut kept, |outcome| taken += outcome.unwrap());
        assert_eq!((taken, kept.len()), (1, 0));
    }
}
