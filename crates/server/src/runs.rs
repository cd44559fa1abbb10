//! Datagrams that are written one by one and sent as few messages. Those of one flow are grouped and sorted by
//! length, so that the kernel can cut runs of equal length (`UDP_SEGMENT`) however receivers and lengths alternate.
//! DNS over UDP promises no order (RFC 1035, section 4.2.1).

use std::cmp::Reverse;
use std::io;

use kqps_kernel::batch::{Piece, RunBatch, SEGMENTS, cannot_cut, run_of};
use kqps_kernel::{Address, LocalAddress, UdpSocket};

/// The longest run that a socket sends: 1 datagram if its device refuses segmented messages, which some do although
/// the socket accepted the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest(usize);

impl Longest {
    /// As many segments as the kernel takes.
    pub const ANY: Self = Self(SEGMENTS);
    /// A single datagram per message.
    pub const ONE: Self = Self(1);
}

/// Datagrams that wait to be sent, with their bytes.
pub struct Runs {
    batch: RunBatch,
    /// Datagrams that are in no message yet, in the order in which they were written.
    pieces: Vec<Piece>,
    /// Their destinations; the last one is that of the next datagrams.
    turns: Vec<Turn>,
    /// The datagrams of one flow, while they are combined into messages.
    gathered: Vec<Piece>,
}

/// Consecutive datagrams to one receiver.
#[derive(Clone, Copy)]
struct Turn {
    to: Address,
    from: Option<LocalAddress>,
    /// The key of the receiver, by which turns of one flow are grouped.
    key: u64,
    /// The index of its first piece.
    first: usize,
    /// The index after its last piece.
    end: usize,
}

impl Turn {
    /// A turn without datagrams, which begins at this piece.
    #[inline]
    fn new(to: Address, from: Option<LocalAddress>, first: usize) -> Self {
        Self { to, from, key: to.key(), first, end: first }
    }

    #[inline]
    fn flow(&self) -> (Address, Option<LocalAddress>) {
        (self.to, self.from)
    }
}

impl Runs {
    /// Makes room for `datagrams` datagrams of `bytes` bytes in total.
    pub fn new(datagrams: usize, bytes: usize) -> Self {
        let pieces = || Vec::with_capacity(datagrams);
        // Every datagram may have a different receiver, and there is one more turn without datagrams.
        let mut turns = Vec::with_capacity(datagrams + 1);
        turns.push(Turn::new(Address::default(), None, 0));
        Self { batch: RunBatch::new(datagrams, bytes), pieces: pieces(), turns, gathered: pieces() }
    }

    /// Sets the destination of the next datagrams.
    #[inline]
    pub fn turn_to(&mut self, to: Address, from: Option<LocalAddress>) {
        let present = self.present();
        if (to, from) != present.flow() {
            let first = self.pieces.len();
            if present.first == first {
                self.turns.pop();
            }
            self.turns.push(Turn::new(to, from, first));
        }
    }

    #[inline]
    fn present(&self) -> Turn {
        *self.turns.last().expect("there is always a turn")
    }

    /// Destination of the next datagrams.
    #[inline]
    pub fn to(&self) -> Address {
        self.present().to
    }

    /// Whether another datagram of this length fits.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.batch.has_room(bytes)
    }

    /// The free part of the buffer, in which the caller writes the next datagram.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        self.batch.room()
    }

    /// Keeps the first `bytes` bytes of [`Self::room`] as a datagram. Panics without [`Self::has_room`].
    #[inline]
    pub fn keep(&mut self, bytes: usize) {
        let piece = self.batch.keep(bytes);
        self.pieces.push(piece);
        self.turns.last_mut().expect("there is always a turn").end = self.pieces.len();
    }

    /// Combines all datagrams into messages. The destination of the next datagrams stays.
    fn put_together(&mut self, longest: Longest) {
        let Self { batch, pieces, turns, gathered } = self;
        let present = *turns.last().expect("there is always a turn");
        cut_into_runs(pieces, turns, gathered, longest, |turn, run| {
            batch.add(&turn.to, turn.from.as_ref(), run);
        });
        pieces.clear();
        turns.clear();
        turns.push(Turn::new(present.to, present.from, 0));
    }

    /// Sends all datagrams. Calls `report` with how many the kernel took, or why it refused one. A run that the kernel
    /// cannot segment is sent again datagram by datagram.
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        longest: &mut Longest,
        mut report: impl FnMut(io::Result<usize>),
    ) {
        self.put_together(*longest);
        let batch = &mut self.batch;
        let mut first = 0;
        while first < batch.messages() {
            match batch.send(socket, first) {
                Ok(sent) => {
                    report(Ok((first..first + sent).map(|message| batch.segments(message)).sum()));
                    first += sent;
                }
                Err(error) => {
                    let (segments, errno) = (batch.segments(first), error.raw_os_error().unwrap_or(0));
                    if segments > 1 && cannot_cut(errno) {
                        batch.send_apart(socket, first, |outcome| {
                            if outcome.is_ok() {
                                *longest = Longest::ONE;
                            }
                            report(outcome.map(|()| 1));
                            true
                        });
                    } else {
                        (0..segments).for_each(|_| report(Err(io::Error::from_raw_os_error(errno))));
                    }
                    first += 1;
                }
            }
        }
        batch.clear();
    }
}

/// Cuts datagrams into runs, each of one flow, and calls `each` with them. `gathered` is working memory, empty
/// before and after.
fn cut_into_runs(
    pieces: &[Piece],
    turns: &mut [Turn],
    gathered: &mut Vec<Piece>,
    longest: Longest,
    mut each: impl FnMut(&Turn, &[Piece]),
) {
    let in_order = longest == Longest::ONE;
    if !in_order {
        turns.sort_unstable_by_key(|turn| turn.key);
    }
    for turns in turns.chunk_by(|one, other| one.flow() == other.flow()) {
        for turn in turns {
            gathered.extend_from_slice(&pieces[turn.first..turn.end]);
        }
        if !in_order {
            gathered.sort_unstable_by_key(|piece| Reverse(piece.bytes()));
        }
        let mut rest = &gathered[..];
        while !rest.is_empty() {
            let run;
            (run, rest) = rest.split_at(run_of(rest.iter().map(|piece| piece.bytes()), longest.0));
            each(&turns[0], run);
        }
        gathered.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// The destination port of each message and the lengths of its datagrams, after writing datagrams of these
    /// lengths to these ports.
    fn runs_to(datagrams: &[(u16, usize)], longest: usize) -> Vec<(u16, Vec<usize>)> {
        let mut waiting = Runs::new(100, 200_000);
        for &(port, bytes) in datagrams {
            waiting.turn_to(SocketAddr::from(([127, 0, 0, 1], port)).into(), None);
            waiting.keep(bytes);
        }
        let (mut runs, mut gathered) = (Vec::new(), Vec::new());
        cut_into_runs(&waiting.pieces, &mut waiting.turns, &mut gathered, Longest(longest), |turn, run| {
            runs.push((turn.to.port(), run.iter().map(|piece| piece.bytes()).collect()));
        });
        runs
    }

    fn runs(lengths: &[usize], longest: usize) -> Vec<Vec<usize>> {
        let datagrams: Vec<_> = lengths.iter().map(|&bytes| (53, bytes)).collect();
        runs_to(&datagrams, longest).into_iter().map(|(_, lengths)| lengths).collect()
    }

    #[test]
    fn however_lengths_alternate_the_runs_are_few() {
        assert_eq!(runs(&[50, 90, 50, 90, 50, 90], 64), [vec![90, 90, 90, 50], vec![50, 50]]);
        assert_eq!(runs(&[50, 60, 70], 64), [vec![70, 60], vec![50]]);
        assert_eq!(runs(&[50; 5], 2), [vec![50, 50], vec![50, 50], vec![50]]);
        assert_eq!(runs(&[50, 40], 1), [vec![50], vec![40]]);
    }

    #[test]
    fn however_receivers_alternate_each_gets_few_messages() {
        let alternating = [(1, 50), (2, 60), (1, 50), (2, 50), (1, 40)];
        assert_eq!(runs_to(&alternating, 64), [(1, vec![50, 50, 40]), (2, vec![60, 50])]);
        let one_by_one: Vec<_> = alternating.iter().map(|&(port, bytes)| (port, vec![bytes])).collect();
        assert_eq!(runs_to(&alternating, 1), one_by_one, "without segments nothing is put in order");
    }

    #[test]
    fn what_is_written_goes_to_whom_it_was_last_turned_to() {
        let port = |port| Address::from(SocketAddr::from(([127, 0, 0, 1], port)));
        let mut waiting = Runs::new(4, 1_000);
        waiting.turn_to(port(1), None);
        waiting.turn_to(port(2), None);
        waiting.keep(10);
        waiting.put_together(Longest::ANY);
        assert_eq!((waiting.batch.messages(), waiting.to()), (1, port(2)));
        waiting.keep(10);
        let (to, turns) = (waiting.to(), waiting.turns.len());
        assert_eq!((to, turns), (port(2), 1));
    }
}
