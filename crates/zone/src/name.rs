//! A name in wire form, split into labels: the position of each label, and the hash of every suffix.

use std::cmp::Ordering;

use kqps_message::name::NAME_BYTES_MAX;

use crate::hash;

/// The most labels of a name, without the root's.
const LABELS_MAX: usize = 127;

/// A name, with room to split the next one in the same place. Suffix `n` is the name without its first `n`
/// labels; suffix [`Name::labels`] is the root.
#[derive(Clone, Debug)]
pub struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    length: usize,
    labels: usize,
    starts: [u8; LABELS_MAX + 1],
    hashes: [u64; LABELS_MAX + 1],
}

impl Name {
    /// The root.
    pub fn root() -> Self {
        Self {
            bytes: [0; NAME_BYTES_MAX],
            length: 1,
            labels: 0,
            starts: [0; LABELS_MAX + 1],
            hashes: [hash::ROOT; LABELS_MAX + 1],
        }
    }

    /// Becomes the uncompressed name at the front of `wire`, as with [`Name::set`]. Does nothing if it is that
    /// name already.
    #[inline]
    pub(crate) fn turn_to(&mut self, wire: &[u8]) -> bool {
        self.length > 0 && wire.starts_with(self.wire()) || self.set(wire)
    }

    /// Becomes the uncompressed name at the front of `wire`. Returns whether there is one. If there is none,
    /// this name must be set again before it is used.
    #[inline]
    pub fn set(&mut self, wire: &[u8]) -> bool {
        self.length = 0;
        // A name has 255 bytes at most, so a position in it is its lowest byte.
        let mut at: usize = 0;
        let mut labels = 0;
        loop {
            match wire.get(at) {
                Some(0) if at < NAME_BYTES_MAX => break,
                Some(&length @ 1..=63) if at + usize::from(length) < NAME_BYTES_MAX - 1 => {
                    self.starts[labels] = at.to_le_bytes()[0];
                    labels += 1;
                    at += 1 + usize::from(length);
                }
                _ => return false,
            }
        }
        self.starts[labels] = at.to_le_bytes()[0];
        self.labels = labels;
        self.length = at + 1;
        self.bytes[..=at].copy_from_slice(&wire[..=at]);
        let mut hash = hash::ROOT;
        self.hashes[labels] = hash;
        for label in (0..labels).rev() {
            hash = hash::child(hash, &self.bytes, usize::from(self.starts[label]));
            self.hashes[label] = hash;
        }
        true
    }

    /// The number of labels, without the root's.
    #[inline]
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// The wire form.
    #[inline]
    pub fn wire(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The position of the suffix without the first `labels` labels.
    #[inline]
    pub fn start(&self, labels: usize) -> usize {
        usize::from(self.starts[labels])
    }

    /// The suffix without the first `labels` labels.
    #[inline]
    pub fn suffix(&self, labels: usize) -> &[u8] {
        &self.bytes[self.start(labels)..self.length]
    }

    /// The hash of that suffix.
    #[inline]
    pub fn hash(&self, labels: usize) -> u64 {
        self.hashes[labels]
    }

    /// The number of labels before the ancestor `apex`, which has `apex_labels` labels; `None` if it is not an
    /// ancestor.
    pub(crate) fn above(&self, apex: &[u8], apex_labels: usize) -> Option<usize> {
        let above = self.labels.checked_sub(apex_labels)?;
        same(self.suffix(above), apex).then_some(above)
    }
}

/// Whether two names in wire form are equal. The lengths of labels are below the letters, so they can be
/// compared like the rest.
#[inline]
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    one == other || one.eq_ignore_ascii_case(other)
}

/// The number of labels of a name in wire form, without the root's.
pub fn labels(wire: &[u8]) -> usize {
    label_starts(wire).count()
}

fn label_starts(wire: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let length = *wire.get(start).filter(|&&length| length > 0)?;
        at += 1 + usize::from(length);
        Some(start)
    })
}

/// The canonical order of names (RFC 4034, section 6.1): by labels from the root, ignoring case. Both names may
/// lack the same suffix.
pub fn canonical(one: &[u8], other: &[u8]) -> Ordering {
    let (one_starts, one_labels) = starts(one);
    let (other_starts, other_labels) = starts(other);
    for depth in 1..=one_labels.min(other_labels) {
        let label = |wire: &[u8], start: u8| {
            let start = usize::from(start);
            start + 1..start + 1 + usize::from(wire[start])
        };
        let left = &one[label(one, one_starts[one_labels - depth])];
        let right = &other[label(other, other_starts[other_labels - depth])];
        let order = left.iter().map(u8::to_ascii_lowercase).cmp(right.iter().map(u8::to_ascii_lowercase));
        if order.is_ne() {
            return order;
        }
    }
    one_labels.cmp(&other_labels)
}

fn starts(wire: &[u8]) -> ([u8; LABELS_MAX], usize) {
    let mut starts = [0; LABELS_MAX];
    let mut labels = 0;
    for (place, start) in starts.iter_mut().zip(label_starts(wire)) {
        *place = start.to_le_bytes()[0];
        labels += 1;
    }
    (starts, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(wire: &[u8]) -> Name {
        let mut name = Name::root();
        assert!(name.set(wire), "{}", wire.escape_ascii());
        name
    }

    #[test]
    fn every_suffix_has_its_own_hash() {
        let www = name(b"\x03wWw\x07eXample\x03org\0rest");
        assert_eq!((www.labels(), www.wire().len()), (3, 17));
        assert_eq!(www.suffix(1), b"\x07eXample\x03org\0");
        assert_eq!(www.suffix(3), b"\0");
        let org = name(b"\x07Example\x03ORG\0");
        assert_eq!(www.hash(1), org.hash(0));
        assert_ne!(www.hash(1), www.hash(0));
        assert_eq!(www.above(b"\x07example\x03org\0", 2), Some(1));
        assert_eq!(www.above(b"\x07example\x03net\0", 2), None);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let mut name = Name::root();
        let labels = |count: usize| [b"\x01a".repeat(count), vec![0]].concat();
        assert!(name.set(&labels(127)));
        assert!(!name.set(&labels(128)));
        for wire in [&b""[..], b"\x01", b"\x01a", b"\x40a\0", b"\xc0\x0c", &[63; 300]] {
            assert!(!name.set(wire) && !name.turn_to(wire), "{}", wire.escape_ascii());
        }
    }

    #[test]
    fn a_name_stays_what_it_is() {
        let mut name = name(b"\x01a\x02bc\0");
        for wire in [&b"\x01a\x02bc\0x"[..], b"\x01A\x02bc\0", b"\x01a\0", b"\0", b"\x01a\x02bc\0"] {
            assert!(name.turn_to(wire));
            let mut other = Name::root();
            assert!(other.set(wire));
            let hashes =
                |name: &Name| (0..=name.labels()).map(|labels| name.hash(labels)).collect::<Vec<_>>();
            assert_eq!((name.wire(), hashes(&name)), (other.wire(), hashes(&other)));
        }
        assert!(!name.turn_to(b"\x01"));
        assert!(!name.turn_to(b""), "what is left of another name is none");
    }

    #[test]
    fn the_order_is_that_of_rfc_4034() {
        // The example of section 6.1.
        let sorted: [&[u8]; 9] = [
            b"\x07example\0",
            b"\x01a\x07example\0",
            b"\x08yljkjljk\x01a\x07example\0",
            b"\x01Z\x01a\x07example\0",
            b"\x04zABC\x01a\x07EXAMPLE\0",
            b"\x01z\x07example\0",
            b"\x01\x01\x01z\x07example\0",
            b"\x01*\x01z\x07example\0",
            b"\x01\xc8\x01z\x07example\0",
        ];
        for pair in sorted.windows(2) {
            assert_eq!(canonical(pair[0], pair[1]), Ordering::Less);
            assert_eq!(canonical(pair[1], pair[0]), Ordering::Greater);
        }
        assert_eq!(canonical(b"\x01A\0", b"\x01a\0"), Ordering::Equal);
    }
}
