//! Names as they are put together: from the first label on, as text and at once on the wire, because a zone file
//! and a query file want the one, and the digest of an answer the other.

use super::draw::Stream;
use super::label::{Labels, append_decimal, append_letters};

/// A name, or the labels that begin one.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    /// Every label with a dot behind it; nothing for the root.
    pub(super) text: Vec<u8>,
    /// In wire form and lower case, without the root label where it is not finished.
    pub(super) wire: Vec<u8>,
}

impl Name {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.wire.clear();
    }

    /// Adds a label of lower-case letters, digits, hyphens or underscores.
    #[inline]
    pub(super) fn label(&mut self, label: &[u8]) {
        self.add(|text| text.extend_from_slice(label));
    }

    /// Adds the label of a number.
    #[inline]
    pub(super) fn numbered(&mut self, labels: &Labels, seed: u64, number: u64) {
        self.add(|text| labels.append(seed, number, text));
    }

    /// Adds a label of a word, a hyphen and a number: none that [`Self::numbered`] gives has a hyphen.
    #[inline]
    pub(super) fn counted(&mut self, word: &[u8], number: u64) {
        self.add(|text| {
            text.extend_from_slice(word);
            text.push(b'-');
            append_decimal(number, text);
        });
    }

    /// Adds a label of random letters: none that [`Self::numbered`] gives is without digits.
    #[inline]
    pub(super) fn random(&mut self, stream: &mut Stream, letters: usize) {
        self.add(|text| append_letters(stream, letters, text));
    }

    #[inline]
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        self.wire.push((self.text.len() - start) as u8);
        self.wire.extend_from_slice(&self.text[start..]);
        self.text.push(b'.');
    }

    /// Adds the labels of another name, which ends this one if it ends that one.
    #[inline]
    pub(super) fn append(&mut self, rest: &Self) {
        self.text.extend_from_slice(&rest.text);
        self.wire.extend_from_slice(&rest.wire);
    }

    /// Takes the first label away.
    pub(super) fn drop_first(&mut self) {
        let label_bytes = usize::from(self.wire.first().copied().unwrap_or(0));
        self.wire.drain(..=label_bytes);
        self.text.drain(..=label_bytes);
    }

    /// As a name relative to an origin: without the last dot, `@` where there is no label.
    #[inline]
    pub(super) fn relative(&self) -> &[u8] {
        self.text.split_last().map_or(&b"@"[..], |(_, labels)| labels)
    }

    /// As an absolute name.
    #[inline]
    pub(super) fn absolute(&self) -> &[u8] {
        if self.text.is_empty() { b"." } else { &self.text }
    }
}
