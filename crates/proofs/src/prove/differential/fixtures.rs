//! The zones of every server, and the names in them. One text has a case for every branch of an answer. It is
//! served unsigned and signed in three ways, each with a child zone below one of its cuts.
//! `fixtures/differential/sign.sh` has made the signed forms, so that the proof needs no signer.

use std::path::Path;
use std::str::FromStr as _;

use anyhow::{Context as _, Result};
use domain::base::{Name, Rtype};
use kqps_testbed::subject::Zone;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/differential/", $name))
    };
}

struct Fixture {
    origin: &'static str,
    text: &'static str,
    /// How many of 100 names are in this zone.
    share: u32,
    /// The source of its owners: a text with a record in each line, and the origin in that text.
    owners: (&'static str, &'static str),
}

const MAIN: &str = fixture!("main.zone");
const CHILD: &str = fixture!("child.zone");
const MAIN_NSEC: &str = fixture!("main.nsec.zone");
const CHILD_NSEC: &str = fixture!("child.nsec.zone");
const MAIN_NSEC3: &str = fixture!("main.nsec3.zone");
const CHILD_NSEC3: &str = fixture!("child.nsec3.zone");
const MAIN_OPTOUT: &str = fixture!("main.optout.zone");
const CHILD_OPTOUT: &str = fixture!("child.optout.zone");
const OTHER: &str = fixture!("other.zone");

#[rustfmt::skip]
const FIXTURES: [Fixture; 9] = [
    Fixture { origin: "plain.test.", text: MAIN, share: 19, owners: (MAIN_NSEC, "nsec.test.") },
    Fixture { origin: "nsec.test.", text: MAIN_NSEC, share: 19, owners: (MAIN_NSEC, "nsec.test.") },
    Fixture { origin: "nsec3.test.", text: MAIN_NSEC3, share: 20, owners: (MAIN_NSEC3, "nsec3.test.") },
    Fixture { origin: "optout.test.", text: MAIN_OPTOUT, share: 20, owners: (MAIN_OPTOUT, "optout.test.") },
    Fixture { origin: "child.plain.test.", text: CHILD, share: 4, owners: (CHILD_NSEC, "child.nsec.test.") },
    Fixture { origin: "child.nsec.test.", text: CHILD_NSEC, share: 5, owners: (CHILD_NSEC, "child.nsec.test.") },
    Fixture { origin: "child.nsec3.test.", text: CHILD_NSEC3, share: 4, owners: (CHILD_NSEC3, "child.nsec3.test.") },
    Fixture { origin: "child.optout.test.", text: CHILD_OPTOUT, share: 4, owners: (CHILD_OPTOUT, "child.optout.test.") },
    Fixture { origin: "other.test.", text: OTHER, share: 5, owners: ("", "") },
];

/// A zone whose master file is missing.
const BROKEN: &str = "broken.test.";

/// Writes the zones into a folder, and returns their places.
pub(super) fn write(folder: &Path) -> Result<Vec<Zone>> {
    let mut zones = Vec::new();
    for fixture in &FIXTURES {
        let file = folder.join(format!("{}zone", fixture.origin));
        std::fs::write(&file, fixture.text).with_context(|| format!("cannot write {}", file.display()))?;
        zones.push(Zone::new(fixture.origin, file));
    }
    zones.push(Zone::new(BROKEN, folder.join("this-file-is-not-there")));
    Ok(zones)
}

/// The zone of a name in wire format without upper case; `None` if it is in none of ours.
pub(super) fn zone_of(name: &[u8]) -> Option<&'static str> {
    let origins = FIXTURES.iter().map(|fixture| fixture.origin);
    let is_above = |origin: &&str| {
        let wire = |label: &str| {
            let length = u8::try_from(label.len()).expect("a label has 63 bytes at most");
            [&[length], label.as_bytes()].concat()
        };
        let origin: Vec<u8> = origin.split('.').flat_map(wire).collect();
        name.ends_with(&origin)
    };
    origins.filter(is_above).max_by_key(|origin| origin.len())
}

/// A zone as its clients see it.
pub(super) struct ZoneNames {
    /// Its labels, from the left.
    pub(super) origin: Vec<Vec<u8>>,
    /// How many of 100 names are asked for in it.
    pub(super) share: u32,
    pub(super) owners: Vec<Owner>,
    /// The owners of NSEC3 records, which are no names of the zone (RFC 5155, section 7.2.8).
    pub(super) hashes: Vec<Owner>,
}

/// A name that has records.
pub(super) struct Owner {
    /// Its labels before those of the origin.
    pub(super) labels: Vec<Vec<u8>>,
    pub(super) types: Vec<u16>,
}

/// Everything that may be asked for: all zones, the broken one, and names that no server has.
pub(super) fn known() -> Result<Vec<ZoneNames>> {
    let served = FIXTURES.iter().map(|fixture| {
        let (text, origin) = fixture.owners;
        let owners = if text.is_empty() { relative_owners(fixture.text) } else { owners(text, origin)? };
        let is_hash = |owner: &Owner| owner.types.contains(&Rtype::NSEC3.to_int());
        let (hashes, owners) = owners.into_iter().partition(is_hash);
        Ok(ZoneNames { origin: labels(fixture.origin)?, share: fixture.share, owners, hashes })
    });
    let mut known: Vec<ZoneNames> = served.collect::<Result<_>>()?;
    for (origin, share) in [(BROKEN, 2), ("outside.example.", 2), ("test.", 1), (".", 1)] {
        let apex = Owner { labels: Vec::new(), types: vec![Rtype::SOA.to_int()] };
        known.push(ZoneNames { origin: labels(origin)?, share, owners: vec![apex], hashes: Vec::new() });
    }
    Ok(known)
}

/// The owners of a zone that `dnssec-signzone -O full` wrote: whole names, one record in each line.
fn owners(text: &str, origin: &str) -> Result<Vec<Owner>> {
    let depth = labels(origin)?.len();
    let mut found: Vec<Owner> = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(owner), Some(rtype)) = (words.next(), words.nth(2)) else { continue };
        let mut labels = labels(owner)?;
        labels.truncate(labels.len() - depth);
        add(&mut found, labels, rtype_of(rtype)?);
    }
    Ok(found)
}

/// The owners of a zone with relative names, whose lines have no TTL, class or blank owner.
fn relative_owners(text: &str) -> Vec<Owner> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with([';', '$'])) {
        let mut words = line.split_whitespace();
        let (Some(owner), Some(rtype)) = (words.next(), words.next()) else { continue };
        let labels = owner.split('.').filter(|label| *label != "@").map(|label| label.as_bytes().to_vec());
        add(&mut found, labels.collect(), rtype_of(rtype).unwrap_or(Rtype::A.to_int()));
    }
    found
}

fn add(found: &mut Vec<Owner>, labels: Vec<Vec<u8>>, rtype: u16) {
    match found.iter_mut().find(|owner| owner.labels == labels) {
        Some(owner) if owner.types.contains(&rtype) => (),
        Some(owner) => owner.types.push(rtype),
        None => found.push(Owner { labels, types: vec![rtype] }),
    }
}

fn rtype_of(word: &str) -> Result<u16> {
    let rtype = Rtype::from_str(word).ok().with_context(|| format!("a fixture has the type {word}"))?;
    Ok(rtype.to_int())
}

/// The labels of a name, without the root's.
pub(super) fn labels(name: &str) -> Result<Vec<Vec<u8>>> {
    let name = Name::<Vec<u8>>::from_str(name).with_context(|| format!("a fixture has the name {name}"))?;
    Ok(name.iter().filter(|label| !label.is_root()).map(|label| label.as_slice().to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_with_their_types() {
        let known = known().unwrap();
        let plain = &known[0];
        let host = plain.owners.iter().find(|owner| owner.labels == [b"host"]).unwrap();
        assert!(host.types.contains(&Rtype::AAAA.to_int()) && host.types.contains(&Rtype::TXT.to_int()));
        assert!(plain.owners.iter().any(|owner| owner.labels == [b"odd\0zero"]));
        assert_eq!(known.iter().map(|zone| zone.share).sum::<u32>(), 106);
    }

    #[test]
    fn a_name_is_in_the_lowest_zone_above_it() {
        assert_eq!(zone_of(b"\x01a\x05child\x04nsec\x04test\0"), Some("child.nsec.test."));
        assert_eq!(zone_of(b"\x04nsec\x04test\0"), Some("nsec.test."));
        assert_eq!(zone_of(b"\x05insec\x04test\0"), None);
    }

    #[test]
    fn each_chain_is_of_its_kind() {
        assert!(MAIN_NSEC.contains(" NSEC ") && !MAIN_NSEC.contains(" NSEC3 "));
        for text in [MAIN_NSEC3, CHILD_NSEC3] {
            assert!(
                text.contains(" NSEC3 1 0 2 ") && !text.contains(" NSEC3 1 1 "),
                "salted, and no opt-out"
            );
        }
        for text in [MAIN_OPTOUT, CHILD_OPTOUT] {
            assert!(text.contains(" NSEC3 1 1 0 - "), "opt-out, and no salt");
        }
    }
}
