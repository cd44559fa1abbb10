//! The lines of all files of a zone in one row, in the order in which they are read, so that a record needs no more
//! than a number for its place.

use std::path::Path;
use std::sync::Arc;

use crate::batch::Batch;

/// Where in that row the lines of included files are, and those of the zone's own file that come after one.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    stretches: Vec<Stretch>,
    /// The last line of the row so far, and that of its file.
    last: (u32, u32),
}

#[derive(Debug)]
struct Stretch {
    /// Its first line in the row.
    from: u32,
    /// What is added to a file's line, modulo 2^32.
    shift: u32,
    file: Option<Arc<Path>>,
}

impl Lines {
    /// Gives the records that come next their places in the row.
    pub(crate) fn place(&mut self, batch: &mut Batch) {
        let Some((first, last)) = batch.lines() else { return };
        let known = match self.stretches.last() {
            None if batch.file().is_none() => Some(0),
            Some(stretch) if stretch.file.as_ref() == batch.file() && first >= self.last.1 => {
                Some(stretch.shift)
            }
            _ => None,
        };
        let shift = known.unwrap_or_else(|| {
            let from = self.last.0.wrapping_add(1);
            let shift = from.wrapping_sub(first);
            self.stretches.push(Stretch { from, shift, file: batch.file().cloned() });
            shift
        });
        if shift != 0 {
            batch.shift_lines(shift);
        }
        self.last = (last.wrapping_add(shift), last);
    }

    /// The file and the line that a place in the row stands for. No file: the zone's own.
    pub(crate) fn find(&self, line: u32) -> (Option<Arc<Path>>, u32) {
        let after = self.stretches.partition_point(|stretch| stretch.from <= line);
        match after.checked_sub(1).and_then(|place| self.stretches.get(place)) {
            Some(stretch) if line > 0 => (stretch.file.clone(), line.wrapping_sub(stretch.shift)),
            _ => (None, line),
        }
    }
}
