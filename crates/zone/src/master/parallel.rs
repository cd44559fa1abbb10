//! Reads a master file in pieces on several threads, and makes one whole of what they found.
//!
//! The pieces are cut by guess (see `splitter.rs`). A piece is right if the one before it ended where an entry
//! ends and left the state in which this one was begun. Where that is not so, everything from there on is
//! read again from what is now known; so the outcome is that of reading from the first byte to the last.

use std::iter::Take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lexer::Lexer;
use super::reader::{Ended, File, Harvest, LastTtl, Reader, Start};
use super::splitter::{Piece, Splitter};

/// Reads a text that begins like this. Also what holds at its end.
pub(super) fn read(file: &File<'_>, text: &[u8], start: Start) -> (Harvest, Start) {
    let mut whole = Whole { harvest: Harvest::default(), start, at: (0, 1) };
    while whole.at.0 < text.len() && !whole.harvest.gave_up {
        let from = whole.at.0;
        let whole_to = from + Lexer::entry_bytes(&text[from..]);
        let splitter =
            Splitter::new(text, whole.at, whole.start.state.clone(), whole_to, file.options.piece_bytes);
        // The head is read alone: what it says of TTLs holds for all the rest.
        let pieces_max = if from == 0 { 1 } else { usize::MAX };
        for (piece, ended) in read_pieces(file, text, splitter.take(pieces_max), &whole.start) {
            // That there is a TTL elsewhere was a guess as well.
            let no_ttl = ended.harvest.ttl_open && whole.start.last_ttl == LastTtl::None;
            if piece.number > 0 && (piece.state != whole.start.state || no_ttl) {
                break;
            }
            let is_whole = ended.unfinished.is_none();
            whole.add(&piece, ended);
            if !is_whole || whole.harvest.gave_up {
                break;
            }
        }
    }
    (whole.harvest, whole.start)
}

/// What was found up to a place, and what holds there.
struct Whole {
    harvest: Harvest,
    start: Start,
    /// The place: the next byte, and its line.
    at: (usize, u32),
}

impl Whole {
    fn add(&mut self, piece: &Piece, mut ended: Ended) {
        let begun_with = self.start.last_ttl;
        if let LastTtl::Known(ttl_s) = begun_with
            && ended.harvest.ttl_open
        {
            ended.harvest.batches.iter_mut().for_each(|batch| batch.fill_ttl(ttl_s));
            ended.harvest.ttl_open = false;
        }
        self.at = match ended.unfinished {
            Some((at, line)) => (piece.range.start + at, line),
            None => (piece.range.end, piece.line_after),
        };
        self.harvest.add(ended.harvest);
        self.start = ended.next;
        if self.start.last_ttl == LastTtl::Elsewhere {
            self.start.last_ttl = begun_with;
        }
    }
}

/// Reads pieces until there are no more, or one turns out to be cut wrongly. They come back in their order.
fn read_pieces(
    file: &File<'_>,
    text: &[u8],
    pieces: Take<Splitter<'_>>,
    start: &Start,
) -> Vec<(Piece, Ended)> {
    let threads = file.options.threads.min(pieces.size_hint().1.unwrap_or(1));
    let splitter = Mutex::new(pieces);
    let found = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let Some(piece) = lock(&splitter).next() else { break };
            let begins = if piece.number == 0 {
                start.clone()
            } else {
                Start { state: piece.state.clone(), last_ttl: LastTtl::Elsewhere, owner: Vec::new() }
            };
            let bytes = &text[piece.range.clone()];
            let is_last = piece.range.end == text.len();
            let ended = Reader::new(file, bytes, piece.line, begins).run(is_last);
            if ended.unfinished.is_some() || ended.harvest.gave_up {
                stop.store(true, Ordering::Relaxed);
            }
            if file.includer.is_none() {
                (file.options.advance)(bytes.len() as u64);
            }
            lock(&found).push((piece, ended));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(piece, _)| piece.number);
    found
}

/// No thread panics with one of these locked, so that what they guard is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
