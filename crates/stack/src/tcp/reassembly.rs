//! Data that arrived before what comes first: pieces in the order of their sequence numbers, none of which overlap.

use super::pool::{NONE, Pool};
use super::sequence::at_most;

/// Bytes of one piece at most: a segment of Ethernet without jumbo frames is one piece.
const PIECE_BYTES: usize = 1536;

/// Pieces that one connection has at most, 45 KiB if segments are full.
const PIECES_MOST: u8 = 32;

/// The pieces of all connections.
pub(super) struct Reassembly {
    pool: Pool,
    /// The piece in each block of the pool.
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    sequence: u32,
    bytes: u32,
    next: u32,
}

/// The pieces of one connection. They must go back by [`Reassembly::clear`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    first: u32,
    pieces: u8,
}

impl Held {
    pub(super) const NONE: Self = Self { first: NONE, pieces: 0 };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.pieces == 0
    }
}

impl Reassembly {
    /// Room for pieces that grows up to so many bytes.
    pub(super) fn new(bytes_most: usize) -> Self {
        Self {
            pool: Pool::new(PIECE_BYTES, bytes_most),
            pieces: Vec::with_capacity(bytes_most / PIECE_BYTES),
        }
    }

    /// Keeps bytes that begin at this sequence number, apart from those that are held. Returns whether there was room
    /// for all of them.
    pub(super) fn hold(&mut self, held: &mut Held, mut sequence: u32, mut bytes: &[u8]) -> bool {
        let (mut previous, mut next) = (NONE, held.first);
        while !bytes.is_empty() {
            while next != NONE && at_most(self.end(next), sequence) {
                (previous, next) = (next, self.pieces[next as usize].next);
            }
            let mut gap = bytes.len();
            if next != NONE {
                let begins = self.pieces[next as usize].sequence;
                if at_most(begins, sequence) {
                    let covered = bytes.len().min(self.end(next).wrapping_sub(sequence) as usize);
                    sequence = sequence.wrapping_add(covered as u32);
                    bytes = &bytes[covered..];
                    continue;
                }
                gap = gap.min(begins.wrapping_sub(sequence) as usize);
            }
            let (piece, rest) = bytes.split_at(gap.min(self.pool.block_bytes()));
            let Some(block) = self.keep(held, sequence, piece, next) else { return false };
            if previous == NONE {
                held.first = block;
            } else {
                self.pieces[previous as usize].next = block;
            }
            previous = block;
            sequence = sequence.wrapping_add(piece.len() as u32);
            bytes = rest;
        }
        true
    }

    /// Copies a piece into a block, before the piece `next`.
    fn keep(&mut self, held: &mut Held, sequence: u32, bytes: &[u8], next: u32) -> Option<u32> {
        if held.pieces == PIECES_MOST {
            return None;
        }
        let block = self.pool.take()?;
        self.pool.block_mut(block)[..bytes.len()].copy_from_slice(bytes);
        let piece = Piece { sequence, bytes: bytes.len() as u32, next };
        if block as usize == self.pieces.len() {
            self.pieces.push(piece);
        } else {
            self.pieces[block as usize] = piece;
        }
        held.pieces += 1;
        Some(block)
    }

    /// The sequence number after a piece.
    fn end(&self, piece: u32) -> u32 {
        let piece = &self.pieces[piece as usize];
        piece.sequence.wrapping_add(piece.bytes)
    }

    /// Appends what follows this sequence number without a gap, and removes it. Returns the number after it.
    pub(super) fn drain(&mut self, held: &mut Held, mut sequence: u32, into: &mut Vec<u8>) -> u32 {
        while held.first != NONE {
            let Piece { sequence: begins, bytes, next } = self.pieces[held.first as usize];
            if !at_most(begins, sequence) {
                break;
            }
            let known = sequence.wrapping_sub(begins);
            if known < bytes {
                into.extend_from_slice(&self.pool.block(held.first)[known as usize..bytes as usize]);
                sequence = begins.wrapping_add(bytes);
            }
            self.pool.give(held.first);
            held.first = next;
            held.pieces -= 1;
        }
        sequence
    }

    /// Gives all pieces of a connection back.
    #[inline]
    pub(super) fn clear(&mut self, held: &mut Held) {
        while held.first != NONE {
            let block = held.first;
            held.first = self.pieces[block as usize].next;
            self.pool.give(block);
        }
        held.pieces = 0;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.pool.memory_bytes() + size_of_val(&*self.pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The byte with this sequence number.
    fn byte(sequence: u32) -> u8 {
        (sequence ^ (sequence >> 8)) as u8
    }

    fn bytes(from: u32, count: u32) -> Vec<u8> {
        (0..count).map(|number| byte(from.wrapping_add(number))).collect()
    }

    #[test]
    fn pieces_of_any_order_and_overlap_come_out_once() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut all = Reassembly::new(1 << 20);
        for round in 0..500_u32 {
            let begin = if round.is_multiple_of(2) { u32::MAX - 1000 } else { random.u32(..) };
            let (mut held, mut expected, mut out) = (Held::NONE, begin, Vec::new());
            let mut rest = 4000_u32;
            while rest > 0 {
                // A piece from anywhere in the window, or the one that comes first.
                let from = if random.u8(..) < 60 { 0 } else { random.u32(0..rest) };
                let count = random.u32(1..=(rest - from).min(300));
                if from == 0 {
                    let start = expected;
                    out.extend(bytes(start, count));
                    expected = all.drain(&mut held, start.wrapping_add(count), &mut out);
                    rest -= expected.wrapping_sub(start);
                } else {
                    let at = expected.wrapping_add(from);
                    all.hold(&mut held, at, &bytes(at, count));
                }
            }
            assert!(out == bytes(begin, 4000), "round {round}");
            assert!(held.is_empty());
        }
        assert_eq!(all.pool.used(), 0);
    }

    #[test]
    fn what_one_connection_holds_is_bounded() {
        let mut all = Reassembly::new(1 << 20);
        let mut held = Held::NONE;
        let kept = (0..100_u32).filter(|number| all.hold(&mut held, 10 + number * 4, &[1, 2])).count();
        assert_eq!(kept, usize::from(PIECES_MOST));
        // A long stretch that fills the gaps finds no room, and the first piece stays what it was.
        assert!(!all.hold(&mut held, 8, &[9; 600]));
        let mut out = Vec::new();
        assert_eq!(all.drain(&mut held, 10, &mut out), 12);
        assert_eq!(out, [1, 2]);
        all.clear(&mut held);
        assert_eq!(all.pool.used(), 0);
        // And so is what all hold.
        let mut small = Reassembly::new(PIECE_BYTES);
        let (mut one, mut other) = (Held::NONE, Held::NONE);
        assert!(small.hold(&mut one, 5, &[1]));
        assert!(!small.hold(&mut other, 5, &[1]));
        small.clear(&mut one);
        assert!(small.hold(&mut other, 5, &[1]));
    }
}
