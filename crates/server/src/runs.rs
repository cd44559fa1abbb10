//! Datagrams that wait to be sent, written one by one and sent as few messages: those to one flow are put in order
//! of length, so that runs of equal ones can be cut by the kernel (`UDP_SEGMENT`) however their lengths alternate.
//! DNS over UDP promises no order (RFC 1035, section 4.2.1).

use std::io;

use kqps_kernel::batch::{Piece, RunBatch, SEGMENTS};
use kqps_kernel::{Address, LocalAddress, UdpSocket};

/// The most bytes in one message: the largest payload of a packet, less than its length field says (RFC 768).
const MESSAGE_BYTES: usize = 65_000;

/// The longest datagram that is a segment. A segment must fit the link, here Ethernet with IPv6 (1500 − 48 bytes),
/// whereas a datagram by itself may be cut into fragments.
const SEGMENT_BYTES: usize = 1452;

/// How long a run a socket sends: 1 datagram where its device refuses segmented messages, which some do although
/// the socket took the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Longest(usize);

impl Longest {
    /// As long as the kernel takes.
    pub(crate) const ANY: Self = Self(SEGMENTS);
    /// Each datagram is a message.
    pub(crate) const ONE: Self = Self(1);
}

/// Datagrams that wait to be sent.
pub(crate) struct Runs {
    batch: RunBatch,
    /// Those to the present flow, which are in no message yet.
    pieces: Vec<Piece>,
    to: Address,
    from: Option<LocalAddress>,
}

impl Runs {
    /// Room for `datagrams` datagrams of `bytes` bytes together.
    pub(crate) fn new(datagrams: usize, bytes: usize) -> Self {
        let pieces = Vec::with_capacity(datagrams);
        Self { batch: RunBatch::new(datagrams, bytes), pieces, to: Address::default(), from: None }
    }

    /// What follows goes to this flow.
    #[inline]
    pub(crate) fn turn_to(&mut self, to: Address, from: Option<LocalAddress>, longest: Longest) {
        if (to, from) != (self.to, self.from) {
            self.put_together(longest);
            (self.to, self.from) = (to, from);
        }
    }

    /// Whom what follows goes to.
    #[inline]
    pub(crate) fn to(&self) -> Address {
        self.to
    }

    /// Whether one more datagram of this length can be written.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.batch.has_room(bytes)
    }

    /// Where the next datagram is to be written: all that is left of the buffer.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.batch.room()
    }

    /// Keeps the first `bytes` bytes of the room as a datagram. To be called with [`Self::has_room`] only.
    #[inline]
    pub(crate) fn keep(&mut self, bytes: usize) {
        let piece = self.batch.keep(bytes);
        self.pieces.push(piece);
    }

    /// Makes messages of the present flow's datagrams.
    fn put_together(&mut self, longest: Longest) {
        self.pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.bytes()));
        let mut rest = &self.pieces[..];
        while !rest.is_empty() {
            let run;
            (run, rest) = rest.split_at(run_of(rest, longest));
            self.batch.add(&self.to, self.from.as_ref(), run);
        }
        self.pieces.clear();
    }

    /// Sends all, and tells how many datagrams the kernel took, or why it did not take one. A run that is refused
    /// is sent again datagram by datagram.
    pub(crate) fn send(
        &mut self,
        socket: &UdpSocket,
        longest: &mut Longest,
        mut told: impl FnMut(io::Result<usize>),
    ) {
        self.put_together(*longest);
        let batch = &mut self.batch;
        let mut first = 0;
        while first < batch.messages() {
            match batch.send(socket, first) {
                Ok(sent) => {
                    told(Ok((first..first + sent).map(|message| batch.segments(message)).sum()));
                    first += sent;
                }
                Err(error) if batch.segments(first) == 1 => {
                    told(Err(error));
                    first += 1;
                }
                Err(_) => {
                    batch.send_apart(socket, first, |outcome| {
                        if outcome.is_ok() {
                            *longest = Longest::ONE;
                        }
                        told(outcome.map(|()| 1));
                    });
                    first += 1;
                }
            }
        }
        batch.clear();
    }
}

/// How many of these datagrams, the longest of which comes first, make one message: equal ones, and one shorter.
fn run_of(pieces: &[Piece], longest: Longest) -> usize {
    let segment = pieces[0].bytes();
    if segment > SEGMENT_BYTES || segment == 0 {
        return 1;
    }
    let most = longest.0.min(MESSAGE_BYTES / segment).min(pieces.len());
    let equal = pieces[..most].iter().take_while(|piece| piece.bytes() == segment).count();
    // A shorter one ends the message, and need not be equal.
    if equal < most { equal + 1 } else { equal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(lengths: &[usize], longest: usize) -> Vec<Vec<usize>> {
        let mut waiting = Runs::new(100, 200_000);
        for &bytes in lengths {
            waiting.keep(bytes);
        }
        waiting.pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.bytes()));
        let (mut rest, mut runs) = (&waiting.pieces[..], Vec::new());
        while !rest.is_empty() {
            let run;
            (run, rest) = rest.split_at(run_of(rest, Longest(longest)));
            runs.push(run.iter().map(|piece| piece.bytes()).collect());
        }
        runs
    }

    #[test]
    fn however_lengths_alternate_the_runs_are_few() {
        assert_eq!(runs(&[50, 90, 50, 90, 50, 90], 64), [vec![90, 90, 90, 50], vec![50, 50]]);
        assert_eq!(runs(&[50, 60, 70], 64), [vec![70, 60], vec![50]]);
        assert_eq!(runs(&[50; 5], 2), [vec![50, 50], vec![50, 50], vec![50]]);
        assert_eq!(runs(&[50, 40], 1), [vec![50], vec![40]]);
    }

    #[test]
    fn a_message_fits_a_packet_and_its_segments_the_link() {
        let of_many = runs(&[1452; 64], 64);
        assert_eq!(of_many.iter().map(Vec::len).collect::<Vec<_>>(), [44, 20]);
        assert_eq!(runs(&[1453, 1453, 100], 64), [vec![1453], vec![1453], vec![100]]);
    }
}
