//! Names, composed from the first label on, both as text and in wire form. A zone file and a query file need the
//! text, and the digest of an answer the wire form.

use super::draw::Stream;
use super::label::{Labels, append_decimal, append_letters};

/// A name, or the first labels of one.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    /// Every label with a dot after it; empty for the root.
    pub(super) text: Vec<u8>,
    /// In wire form and lower case, without the root label until it is finished.
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

    /// Adds a label of a word, a hyphen and a number. It differs from all labels of [`Self::numbered`], which
    /// have no hyphen.
    #[inline]
    pub(super) fn counted(&mut self, word: &[u8], number: u64) {
        self.add(|text| {
            text.extend_from_slice(word);
            text.push(b'-');
            append_decimal(number, text);
        });
    }

    /// Adds a label of random letters. It differs from all labels of [`Self::numbered`], which have digits.
    #[inline]
    pub(super) fn random(&mut self, stream: &mut Stream, letters: usize) {
        self.add(|text| append_letters(stream, letters, text));
    }

    #[inline]
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        self.wire.push(u8::try_from(self.text.len() - start).expect("a label has 63 bytes at most"));
        self.wire.extend_from_slice(&self.text[start..]);
        self.text.push(b'.');
    }

    /// Adds the labels of another name. This name is finished if the other one is.
    #[inline]
    pub(super) fn append(&mut self, rest: &Self) {
        self.text.extend_from_slice(&rest.text);
        self.wire.extend_from_slice(&rest.wire);
    }

    /// Removes the first label.
    pub(super) fn drop_first(&mut self) {
        let label_bytes = usize::from(self.wire.first().copied().unwrap_or(0));
        self.wire.drain(..=label_bytes);
        self.text.drain(..=label_bytes);
    }

    /// The name relative to an origin: without the last dot, or `@` if there is no label.
    #[inline]
    pub(super) fn relative(&self) -> &[u8] {
        self.text.split_last().map_or(&b"@"[..], |(_, labels)| labels)
    }

    /// The absolute name.
    #[inline]
    pub(super) fn absolute(&self) -> &[u8] {
        if self.text.is_empty() { b"." } else { &self.text }
    }
}
