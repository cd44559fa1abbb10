//! Reads a master file in pieces on several threads, and joins the results.
//!
//! The pieces are cut by guess (see `splitter.rs`). A piece is right if the one before it ended at the end of
//! an entry and left the state with which this one began. Otherwise everything from there on is read again
//! from the known state. So the result is always that of reading from the first byte to the last.

use std::iter::Take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kqps_message::text::without_mark;

use super::error::Parsed;
use super::harvest::{Ended, File, Harvest, LastTtl, Start};
use super::lexer::Lexer;
use super::reader::{Directives, Reader};
use super::splitter::{Piece, Splitter};
use super::{generate, include};

/// Reads a text from this state. Also returns the state at its end.
pub(super) fn read(file: &File<'_>, text: &[u8], start: Start) -> (Harvest, Start) {
    let mut whole = Whole { harvest: Harvest::default(), start, at: (0, 1) };
    while whole.at.0 < text.len() && !whole.harvest.gave_up {
        let from = whole.at.0;
        let whole_to = from + Lexer::entry_bytes(&text[from..]);
        let splitter =
            Splitter::new(text, whole.at, whole.start.state.clone(), whole_to, file.options.piece_bytes);
        // The head is read alone, since its TTLs affect all the rest.
        let pieces_max = if from == 0 { 1 } else { usize::MAX };
        for (piece, ended) in read_pieces(file, text, splitter.take(pieces_max), &whole.start) {
            // The TTL of an earlier record was a guess as well.
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

/// Expands directives: `$INCLUDE` by reading the file in pieces as well, `$GENERATE` record by record.
pub(super) struct Expander;

impl Directives for Expander {
    fn include(&self, file: &File<'_>, name: &[u8], start: Start) -> Result<(Harvest, Start), Box<str>> {
        let (path, content) = include::open(file, name)?;
        let text = without_mark(&content).map_err(|encoding| encoding.to_string())?;
        let included = File { path, options: file.options, includer: Some(file) };
        Ok(read(&included, text, start))
    }

    fn generate(&self, reader: &mut Reader<'_>, line: u32) -> Parsed<()> {
        generate::run(reader, line)
    }
}

/// The result up to a position, and the state there.
struct Whole {
    harvest: Harvest,
    start: Start,
    /// The position: the next byte, and its line.
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

/// Reads pieces until there are no more, or one turns out to be cut wrongly. Returns them in their order.
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
            let ended = Reader::new(file, bytes, piece.line, begins, &Expander).run(is_last);
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

/// No thread panics while it holds one of these locks, so their content is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
