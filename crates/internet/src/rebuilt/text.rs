//! The master files of a rebuilt tree.

use std::collections::{BTreeMap, BTreeSet};

use kqps_message::name::is_at_or_below;
use kqps_message::rtype;

use super::record::{Known, Set};
use super::{Name, parent, zone_of};
use crate::text::write_record;

/// The text of each zone, in their order. The SOA record comes first, since it names the zone.
pub(super) fn zones(known: &Known, apexes: &BTreeSet<Name>) -> Vec<String> {
    let mut texts: BTreeMap<&[u8], String> = BTreeMap::new();
    for apex in apexes {
        let text = texts.entry(apex).or_default();
        write(known, apex, rtype::SOA, text);
    }
    for ((owner, rtype), set) in &known.sets {
        let is_at_apex = apexes.contains(owner);
        if *rtype == rtype::SOA && is_at_apex {
            continue;
        }
        // Servers of a zone are named at its apex alone: a name with others is a zone, too.
        let is_stray = !is_at_apex && [rtype::SOA, rtype::NS].contains(rtype);
        if let Some(text) = texts.get_mut(zone_of(apexes, owner)).filter(|_| !is_stray) {
            write_set(owner, *rtype, set, text);
        }
    }
    for apex in apexes {
        let Some(above) = parent(apex).map(|above| zone_of(apexes, above)) else { continue };
        if let Some(text) = texts.get_mut(above) {
            delegate(known, apex, above, text, apexes);
        }
    }
    texts.into_values().collect()
}

/// Writes the delegation of a zone into the one above it, with the addresses of those servers whose names are below that one.
fn delegate(known: &Known, apex: &[u8], above: &[u8], text: &mut String, apexes: &BTreeSet<Name>) {
    write(known, apex, rtype::NS, text);
    for name in known.servers(apex) {
        // The zone above has the other addresses among its own records.
        if is_at_or_below(name, above) && zone_of(apexes, name) != above {
            write(known, name, rtype::A, text);
            write(known, name, rtype::AAAA, text);
        }
    }
}

fn write(known: &Known, owner: &[u8], rtype: u16, text: &mut String) {
    if let Some(set) = known.get(owner, rtype) {
        write_set(owner, rtype, set, text);
    }
}

fn write_set(owner: &[u8], rtype: u16, set: &Set, text: &mut String) {
    for data in &set.data {
        write_record(owner, (rtype, set.ttl_s), data, text);
    }
}
