//! The lines of all files of a zone in one row, in the order in which they are read. A record's place is then a
//! single number.

use std::path::Path;
use std::sync::Arc;

use crate::batch::Batch;

/// The parts of the row that come from included files, and the parts of the zone's own file after them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    stretches: Vec<Stretch>,
    /// The last line of the row so far, and the same line's number in its file.
    last: (u32, u32),
    /// Lines of the row that do not begin with their record, in order, with the column of the record.
    indented: Vec<(u32, u32)>,
}

/// Where a record begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LinePlace {
    /// The file; `None` for the zone's own file.
    pub file: Option<Arc<Path>>,
    /// Line and column are counted from 1.
    pub line: u32,
    pub column: u32,
}

#[derive(Debug)]
struct Stretch {
    /// Its first line in the row.
    from: u32,
    /// The number that is added to a file's line, modulo 2^32.
    shift: u32,
    file: Option<Arc<Path>>,
}

impl Lines {
    /// Gives the next records their places in the row.
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
        self.indented.extend(batch.take_indented());
    }

    /// The place for a line of the row. Line 0, which is no line, stands for the beginning of the zone's own file.
    pub(crate) fn find(&self, line: u32) -> LinePlace {
        if line == 0 {
            return LinePlace { file: None, line: 1, column: 1 };
        }
        let indented = self.indented.binary_search_by_key(&line, |&(line, _)| line);
        let column = indented.map_or(1, |place| self.indented[place].1);
        let after = self.stretches.partition_point(|stretch| stretch.from <= line);
        match after.checked_sub(1).and_then(|place| self.stretches.get(place)) {
            Some(stretch) => {
                LinePlace { file: stretch.file.clone(), line: line.wrapping_sub(stretch.shift), column }
            }
            None => LinePlace { file: None, line, column },
        }
    }
}
