//! Outcomes of the queries of another server of this process, kept until it takes them.

use std::ops::Range;

use kqps_server::counts::Cause;

/// The outcomes of a turn, in the order in which they came.
#[derive(Debug, Default)]
pub struct Answers {
    bytes: Vec<u8>,
    each: Vec<(u32, Kept)>,
}

#[derive(Debug)]
enum Kept {
    Reply(Range<usize>),
    Failed,
    Dropped(Cause),
}

/// The outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The message that a back end sent, which answers the query.
    Reply(&'a [u8]),
    /// No back end answered in time, or none is up.
    Failed,
    /// The query was dropped.
    Dropped(Cause),
}

impl Answers {
    /// The outcomes, each with the number of its query.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Outcome<'_>)> {
        self.each.iter().map(|(number, kept)| {
            let outcome = match kept {
                Kept::Reply(range) => Outcome::Reply(&self.bytes[range.clone()]),
                Kept::Failed => Outcome::Failed,
                Kept::Dropped(cause) => Outcome::Dropped(*cause),
            };
            (*number, outcome)
        })
    }

    /// Removes all outcomes, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.each.clear();
    }

    /// Whether there are no outcomes.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    pub(super) fn replied(&mut self, number: u32, message: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.each.push((number, Kept::Reply(start..self.bytes.len())));
    }

    pub(super) fn failed(&mut self, number: u32) {
        self.each.push((number, Kept::Failed));
    }

    pub(super) fn dropped(&mut self, number: u32, cause: Cause) {
        self.each.push((number, Kept::Dropped(cause)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_out_as_they_went_in() {
        let mut answers = Answers::default();
        for _ in 0..2 {
            answers.replied(7, b"one");
            answers.failed(8);
            answers.dropped(9, Cause::Stopped);
            answers.replied(1, b"");
            let outcomes: Vec<_> = answers.iter().collect();
            let expected = [
                (7, Outcome::Reply(&b"one"[..])),
                (8, Outcome::Failed),
                (9, Outcome::Dropped(Cause::Stopped)),
                (1, Outcome::Reply(&b""[..])),
            ];
            assert_eq!(outcomes, expected);
            answers.clear();
            assert!(answers.is_empty());
        }
    }
}
