//! The records that prove that something does not exist: names with NSEC records in canonical order (RFC 4034,
//! section 6.1), or NSEC3 records in the order of their hashes (RFC 5155).

use crate::nsec3::{self, HASH_BYTES};
use crate::zone::NodeRef;
use crate::zone::node::{ALIGNMENT, Rrset, Rrsets};

/// The bytes of an NSEC3 owner's first label: its length and 32 letters for the 160 bits of SHA-1.
pub(crate) const LABEL_BYTES: usize = 33;

/// How a zone proves that something does not exist.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Denial {
    /// Not at all: it is not signed.
    #[default]
    None,
    /// By NSEC records; the names that have them, in canonical order.
    Nsec(Box<[NodeRef]>),
    /// By NSEC3 records.
    Nsec3(Chain),
}

/// NSEC3 records: the owner's first label, 8 zero bits, an RRset.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Chain {
    memory: Box<[u8]>,
    /// The first 32 bits of a hash and a position divided by [`ALIGNMENT`], in the order of the hashes.
    order: Box<[(u32, u32)]>,
    salt: Box<[u8]>,
    iterations: u16,
}

/// An NSEC3 record of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link<'z> {
    /// Its owner's first label, with its length.
    pub label: &'z [u8],
    /// The record and its signatures.
    pub rrset: Rrset<'z>,
}

impl Chain {
    /// A chain in `memory`, whose `order` must be sorted.
    pub(crate) fn new(memory: Vec<u8>, order: Vec<(u32, u32)>, salt: &[u8], iterations: u16) -> Self {
        Self { memory: memory.into(), order: order.into(), salt: salt.into(), iterations }
    }

    /// Whether the chain that the apex announces has no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The hash of a name in wire form (RFC 5155, section 5).
    pub(crate) fn hash(&self, name: &[u8]) -> [u8; HASH_BYTES] {
        nsec3::hash(name, &self.salt, self.iterations)
    }

    /// The record at a place of the order.
    pub(crate) fn link(&self, place: u32) -> Option<Link<'_>> {
        self.order.get(place as usize).and_then(|&(_, at)| self.link_at(at as usize * ALIGNMENT))
    }

    fn link_at(&self, at: usize) -> Option<Link<'_>> {
        let (label, rest) = self.memory.get(at..)?.split_at_checked(LABEL_BYTES)?;
        Some(Link { label, rrset: Rrsets::new(rest, 1).next()? })
    }

    /// Every record, in no order, including those of other chains, each with the position of the next. `at` is
    /// 0 or the position of a record.
    pub(crate) fn links(&self, mut at: usize) -> impl Iterator<Item = (Link<'_>, usize)> {
        std::iter::from_fn(move || {
            let link = self.link_at(at)?;
            let rrset = link.rrset;
            let signatures = if rrset.signatures.is_empty() { 0 } else { 6 + rrset.signatures.len() };
            at = (at + LABEL_BYTES + 8 + rrset.records.len() + signatures).next_multiple_of(ALIGNMENT);
            Some((link, at))
        })
    }

    /// The place of the record whose owner has this hash.
    pub(crate) fn matching(&self, hash: &[u8; HASH_BYTES]) -> Option<u32> {
        let place = u32::try_from(self.first_after(hash).checked_sub(1)?).ok()?;
        let link = self.link(place)?;
        link.label[1..].eq_ignore_ascii_case(&nsec3::letters(hash)).then_some(place)
    }

    /// The place of the record with the nearest hash before this one, or the same hash. Before the first record
    /// comes the last. `None` if the chain is empty.
    pub(crate) fn covering(&self, hash: &[u8; HASH_BYTES]) -> Option<u32> {
        let last = self.order.len().checked_sub(1)?;
        u32::try_from(self.first_after(hash).checked_sub(1).unwrap_or(last)).ok()
    }

    /// The place of the first record with a larger hash. Hashes are spread evenly, so the search begins at the
    /// expected place and doubles its steps from there.
    fn first_after(&self, hash: &[u8; HASH_BYTES]) -> usize {
        let [h0, h1, h2, h3, ..] = *hash;
        let prefix = u32::from_be_bytes([h0, h1, h2, h3]);
        let letters = nsec3::letters(hash);
        let is_after = |place: usize| {
            let (known, at) = self.order[place];
            known > prefix
                || known == prefix
                    && self.link_at(at as usize * ALIGNMENT).is_some_and(|link| {
                        link.label[1..].iter().map(u8::to_ascii_lowercase).gt(letters.iter().copied())
                    })
        };
        let count = self.order.len();
        let guess = ((u64::from(prefix) * count as u64) >> 32) as usize;
        let (mut low, mut high) = (guess, guess);
        let mut step = 8;
        while low > 0 && is_after(low - 1) {
            high = low - 1;
            low = low.saturating_sub(step);
            step *= 2;
        }
        while high < count && !is_after(high) {
            low = high + 1;
            high = (high + step).min(count);
            step *= 2;
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_after(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The memory that it uses besides itself, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.len() + size_of_val(&*self.order) + self.salt.len()
    }
}
