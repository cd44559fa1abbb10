//! The names of a message that later ones can point to (RFC 1035, section 4.1.4).

/// The highest position that a pointer can have.
const PLACE_MOST: usize = 0x3fff;

/// The most suffixes that are known, which bounds the time that a name takes.
const SUFFIXES_MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Suffixes {
    known: Vec<Suffix>,
    /// Names without pointers.
    names: Vec<u8>,
}

#[derive(Debug)]
struct Suffix {
    /// The position in the message.
    place: u16,
    /// The position in `names`.
    at: usize,
    bytes: usize,
}

impl Suffixes {
    /// The position of a name in the message, if it is known. Case does not matter.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u16> {
        let is_it = |suffix: &&Suffix| {
            suffix.bytes == name.len()
                && self.names[suffix.at..suffix.at + suffix.bytes].eq_ignore_ascii_case(name)
        };
        self.known.iter().find(is_it).map(|suffix| suffix.place)
    }

    /// Adds a name that begins at `place` of the message and whose first `literal_bytes` bytes are written there
    /// without a pointer.
    pub(crate) fn add(&mut self, name: &[u8], literal_bytes: usize, place: usize) {
        if self.known.len() >= SUFFIXES_MOST {
            return;
        }
        let start = self.names.len();
        self.names.extend_from_slice(name);
        let mut at = 0;
        while at < literal_bytes && name[at] != 0 {
            if self.known.len() == SUFFIXES_MOST || place + at > PLACE_MOST {
                return;
            }
            let place = u16::try_from(place + at).expect("a pointer has 14 bits");
            self.known.push(Suffix { place, at: start + at, bytes: name.len() - at });
            at += 1 + usize::from(name[at]);
        }
    }
}
