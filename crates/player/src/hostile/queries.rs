//! The queries of attackers, of which only parts may be sent.

use kqps_dataset::{Dataset, Position};
use kqps_message::header;

/// The queries of a dataset, one after the other and again from the first.
pub(super) struct Queries<'a> {
    dataset: &'a Dataset,
    next: Position,
}

impl<'a> Queries<'a> {
    /// The queries from the first on.
    pub(super) fn new(dataset: &'a Dataset) -> Self {
        Self { dataset, next: dataset.first() }
    }

    /// The next query after its length, with a random ID.
    pub(super) fn next(&mut self) -> Vec<u8> {
        let message = self.dataset.query(self.next).message;
        let mut framed = (message.len() as u16).to_be_bytes().to_vec();
        framed.extend_from_slice(message);
        if message.len() >= 2 {
            header::set_id(&mut framed[2..], fastrand::u16(..));
        }
        self.next = self.dataset.after(self.next);
        if self.next == self.dataset.end() {
            self.next = self.dataset.first();
        }
        framed
    }
}

/// Counts the whole messages in these bytes and those before them, of which `partial` keeps the rest.
pub(super) fn messages(partial: &mut Vec<u8>, bytes: &[u8]) -> u64 {
    partial.extend_from_slice(bytes);
    let (mut used, mut count) = (0, 0);
    while let Some((length, rest)) = partial[used..].split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        if rest.len() < length {
            break;
        }
        used += 2 + length;
        count += 1;
    }
    partial.drain(..used);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_counts_when_it_is_whole() {
        let mut partial = Vec::new();
        let counts = [&[0][..], &[2, 7], &[8, 0, 0, 0], &[1, 5, 0]].map(|part| messages(&mut partial, part));
        assert_eq!((counts, partial), ([0, 0, 2, 1], vec![0]));
    }
}
