//! The names for which the answers of a server count (RFC 9499, section 7, "in-bailiwick").

use kqps_message::name::is_at_or_below;
use kqps_message::rtype;

/// The names that a server speaks for: those of a zone, without those of the zones below that have servers of their
/// own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bailiwick {
    zone: Vec<u8>,
    cuts: Vec<Vec<u8>>,
}

impl Bailiwick {
    /// All names of a zone, whose name is in wire form: the root for a resolver.
    pub fn from_zone(zone: &[u8]) -> Self {
        Self { zone: zone.to_vec(), cuts: Vec::new() }
    }

    /// Leaves out the names of other zones. Zones that are not below this one have no effect.
    #[must_use]
    pub fn without<'z>(mut self, zones: impl Iterator<Item = &'z [u8]>) -> Self {
        let zone = &self.zone;
        let is_below = |other: &&[u8]| other.len() > zone.len() && is_at_or_below(other, zone);
        self.cuts.extend(zones.filter(is_below).map(<[u8]>::to_vec));
        self
    }

    /// Whether records with this owner, in wire form, and of this type are the server's. Those of types DS and NSEC at
    /// the top of a zone below also stand above it (RFC 4035, sections 2.3 and 2.4).
    pub(crate) fn holds(&self, owner: &[u8], rtype: u16) -> bool {
        let stands_above = |cut: &[u8]| matches!(rtype, rtype::DS | rtype::NSEC) && cut.len() == owner.len();
        let is_cut_off = |cut: &Vec<u8>| is_at_or_below(owner, cut) && !stands_above(cut);
        is_at_or_below(owner, &self.zone) && !self.cuts.iter().any(is_cut_off)
    }
}

#[cfg(test)]
mod tests {
    use kqps_message::rtype::{A, DS, NSEC};

    use super::*;

    #[test]
    fn names_of_zones_below_are_not_those_of_the_server() {
        let others = [&b"\x01a\x04test\0"[..], b"\x04test\0", b"\x05other\0", b"\0"];
        let test = Bailiwick::from_zone(b"\x04test\0").without(others.into_iter());
        assert_eq!(test.cuts, [b"\x01a\x04test\0"]);
        for (owner, rtype, holds) in [
            (&b"\x04TEST\0"[..], A, true),
            (b"\x02xa\x04test\0", A, true),
            (b"\x01A\x04test\0", A, false),
            (b"\x01x\x01a\x04test\0", A, false),
            (b"\x01a\x04test\0", DS, true),
            (b"\x01a\x04test\0", NSEC, true),
            (b"\x01x\x01a\x04test\0", DS, false),
            (b"\x05other\0", A, false),
        ] {
            assert_eq!(test.holds(owner, rtype), holds, "{owner:x?} {rtype}");
        }
        let root = Bailiwick::from_zone(b"\0").without(others.into_iter());
        assert!(root.holds(b"\0", A) && root.holds(b"\x03net\0", A) && !root.holds(b"\x05other\0", A));
    }
}
