//! Name compression (RFC 1035, section 4.1.4): the positions of names in a message.

use crate::name::Name;

/// The largest position to which a pointer can lead: pointers have 14 bits.
pub const PLACE_MAX: usize = 0x3fff;
/// The most suffixes that are remembered. Later names are compressed against these.
const KNOWN_MAX: usize = 160;

/// The suffixes of names in a message.
#[derive(Debug)]
pub struct Names {
    hashes: [u64; KNOWN_MAX],
    places: [u16; KNOWN_MAX],
    known: usize,
    name: Name,
    /// Whether names that differ in case are different.
    in_case: bool,
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

impl Names {
    /// No names yet.
    pub fn new() -> Self {
        let name = Name::root();
        Self { hashes: [0; KNOWN_MAX], places: [0; KNOWN_MAX], known: 0, name, in_case: false }
    }

    /// For messages whose names keep their case (RFC 5936, section 3.4).
    pub(crate) fn in_case() -> Self {
        Self { in_case: true, ..Self::new() }
    }

    /// The number of known suffixes, for [`Names::forget`].
    #[inline]
    pub fn known(&self) -> usize {
        self.known
    }

    /// Forgets all except the first `known` suffixes.
    #[inline]
    pub fn forget(&mut self, known: usize) {
        self.known = known;
    }

    /// Remembers that the first `labels` labels of `name` stand at `at` without pointers.
    #[inline]
    pub fn note(&mut self, name: &Name, at: usize, labels: usize) {
        note(&mut self.hashes, &mut self.places, &mut self.known, name, at, labels);
    }

    /// Writes the name at the front of `wire` at `at`, as short as possible, and returns the position after it.
    /// `None` if it would go beyond `limit`. If `wire` does not begin with a name, nothing is written.
    pub fn put(&mut self, message: &mut [u8], at: usize, limit: usize, wire: &[u8]) -> Option<usize> {
        if !self.name.set(wire) {
            return Some(at);
        }
        let labels = self.name.labels();
        let known = (0..labels).find_map(|skipped| Some((skipped, self.place(message, skipped)?)));
        let (literal, pointer) = known.map_or((labels, None), |(skipped, place)| (skipped, Some(place)));
        let bytes = self.name.start(literal);
        let end = at + bytes + if pointer.is_some() { 2 } else { 1 };
        if end > limit {
            return None;
        }
        message[at..at + bytes].copy_from_slice(&self.name.wire()[..bytes]);
        match pointer {
            Some(place) => message[at + bytes..end].copy_from_slice(&(0xc000 | place).to_be_bytes()),
            None => message[at + bytes] = 0,
        }
        note(&mut self.hashes, &mut self.places, &mut self.known, &self.name, at, literal);
        Some(end)
    }

    /// The position of the name's suffix without its first `labels` labels.
    fn place(&self, message: &[u8], labels: usize) -> Option<u16> {
        let hash = self.name.hash(labels);
        let known = self.hashes[..self.known].iter().zip(&self.places[..self.known]);
        known
            .filter(|&(&known, _)| known == hash)
            .map(|(_, &place)| place)
            .find(|&place| stands(message, usize::from(place), self.name.suffix(labels), self.in_case))
    }
}

fn note(
    hashes: &mut [u64; KNOWN_MAX],
    places: &mut [u16; KNOWN_MAX],
    known: &mut usize,
    name: &Name,
    at: usize,
    labels: usize,
) {
    for label in 0..labels {
        let place = at + name.start(label);
        if *known == KNOWN_MAX || place > PLACE_MAX {
            return;
        }
        hashes[*known] = name.hash(label);
        places[*known] = u16::try_from(place).expect("a pointer has 14 bits");
        *known += 1;
    }
}

/// Whether `name` stands at `at` in a message that this server wrote; with `in_case`, in the same case.
fn stands(message: &[u8], mut at: usize, name: &[u8], in_case: bool) -> bool {
    let mut rest = name;
    loop {
        match message.get(at) {
            Some(&high @ 192..) => {
                let Some(&low) = message.get(at + 1) else { return false };
                at = usize::from(high & 63) << 8 | usize::from(low);
            }
            Some(&length) => {
                let label = message.get(at..=at + usize::from(length));
                let Some((expected, more)) = rest.split_at_checked(1 + usize::from(length)) else {
                    return false;
                };
                let Some(label) = label else { return false };
                if label != expected && (in_case || !label.eq_ignore_ascii_case(expected)) {
                    return false;
                }
                if length == 0 {
                    return true;
                }
                at += 1 + usize::from(length);
                rest = more;
            }
            None => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_share_their_suffixes() {
        let mut names = Names::new();
        let mut message = [0; 100];
        let mut at = 12;
        for wire in [
            &b"\x03www\x07example\x03org\0"[..],
            b"\x04mail\x07EXAMPLE\x03org\0",
            b"\x03WWW\x07example\x03org\0",
            b"\0",
            b"\x03ORG\0",
        ] {
            at = names.put(&mut message, at, 100, wire).expect("room");
        }
        let expected = b"\x03www\x07example\x03org\0\x04mail\xc0\x10\xc0\x0c\0\xc0\x18";
        assert_eq!(message[12..at].escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn a_transfer_keeps_the_case() {
        let mut names = Names::in_case();
        let mut message = [0; 100];
        let mut at = 0;
        for wire in [&b"\x03www\x03org\0"[..], b"\x03www\x03ORG\0", b"\x03ftp\x03ORG\0", b"\x03org\0"] {
            at = names.put(&mut message, at, 100, wire).expect("room");
        }
        let expected = b"\x03www\x03org\0\x03www\x03ORG\0\x03ftp\xc0\x0d\xc0\x04";
        assert_eq!(message[..at].escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn nothing_is_written_beyond_the_limit() {
        let mut names = Names::new();
        let mut message = [0xff; 20];
        assert_eq!(names.put(&mut message, 12, 16, b"\x03www\0"), None);
        assert_eq!(message, [0xff; 20]);
        assert_eq!(names.put(&mut message, 12, 17, b"\x03www\0"), Some(17));
    }

    #[test]
    fn no_pointer_leads_beyond_its_bits() {
        let mut names = Names::new();
        let mut message = vec![0; 0x4100];
        let at = names.put(&mut message, 0x3ffe, 0x4100, b"\x01a\x01b\0").expect("room");
        let end = names.put(&mut message, at, 0x4100, b"\x01b\0").expect("room");
        assert_eq!(end, at + 3);
        assert_eq!(names.put(&mut message, end, 0x4100, b"\x01a\x01b\0"), Some(end + 2));
    }
}
