//! The bad lines and messages of a source: the first few with their places and faults, and how many there are.

use std::path::Path;

/// Bad lines that are named; a few show what is wrong.
const NAMED_MOST: usize = 5;

/// A source that is refused is read on until it has so many.
const COUNTED_MOST: u64 = 1000;

/// A source that is refused is read on for so many bytes at most, so that one without end is refused, too.
pub(crate) const READ_ON_MOST: u64 = 16 << 20;

/// The bad lines or messages of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bad {
    /// The first of them: place and fault, as they stand after the path and a colon.
    first: Vec<String>,
    /// How many there are.
    count: u64,
    /// Bytes that were read after the first of them.
    read_on: u64,
    /// Whether there may be more, since the rest of the source was not read.
    has_rest: bool,
}

impl Bad {
    /// The bad lines or messages of a source that was read before. `first` has `count` at most.
    pub(crate) fn known(first: Vec<String>, count: u64) -> Self {
        Self { first, count, read_on: 0, has_rest: false }
    }

    /// Adds the next one. `words` returns its place and its fault.
    pub(crate) fn add(&mut self, words: impl FnOnce() -> String) {
        if self.first.len() < NAMED_MOST {
            self.first.push(words());
        }
        self.count += 1;
    }

    /// Notes that the rest of the source is not read.
    pub(crate) fn end_early(&mut self) {
        self.has_rest = true;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Notes that so many more bytes were read.
    pub(crate) fn read(&mut self, bytes: u64) {
        self.read_on += if self.is_empty() { 0 } else { bytes };
    }

    /// Whether a source that is refused is not worth reading on.
    pub(crate) fn are_enough(&self) -> bool {
        self.count >= COUNTED_MOST || self.read_on > READ_ON_MOST
    }

    pub(crate) fn first(&self) -> &[String] {
        &self.first
    }

    /// A line for each of the first ones, and a line about the others if there are any: `queries: and 7 more are bad`.
    pub fn lines(&self, path: &Path) -> Vec<String> {
        let path = path.display();
        let named = self.first.iter().map(|words| format!("{path}:{words}"));
        let more = self.count - self.first.len() as u64;
        let rest = match (more, self.has_rest) {
            (0, false) => None,
            (0, true) => Some(format!("{path}: the rest was not read")),
            (more, true) => Some(format!("{path}: and {more} or more are bad")),
            (1, false) => Some(format!("{path}: and 1 more is bad")),
            (more, false) => Some(format!("{path}: and {more} more are bad")),
        };
        named.chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: u64, has_rest: bool) -> Vec<String> {
        let mut bad = Bad::default();
        (1..=count).for_each(|line| bad.add(|| format!("{line}:2: why")));
        if has_rest {
            bad.end_early();
        }
        bad.lines(Path::new("q"))
    }

    #[test]
    fn the_first_are_named_and_the_others_counted() {
        assert!(lines(0, false).is_empty());
        assert_eq!(lines(1, false), ["q:1:2: why"]);
        assert_eq!(lines(5, false).len(), 5);
        assert_eq!(lines(6, false)[4..], ["q:5:2: why", "q: and 1 more is bad"]);
        assert_eq!(lines(12, false)[5..], ["q: and 7 more are bad"]);
        assert_eq!(lines(1000, true)[5..], ["q: and 995 or more are bad"]);
        assert_eq!(lines(1, true)[1..], ["q: the rest was not read"]);
    }
}
