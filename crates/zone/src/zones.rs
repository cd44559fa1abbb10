//! Finds the zone that answers for a name: the zone whose apex is the name's nearest ancestor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::name::{Name, same};
use crate::zone::Zone;
use crate::zone::index::{Index, key_of};

/// A zone for which the server answers.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A zone that was loaded.
    Loaded(Arc<Zone>),
    /// The apex, in wire form, of a zone that could not be loaded. Queries for it get SERVFAIL.
    Broken(Box<[u8]>),
}

impl Entry {
    /// The name of the zone in wire form.
    pub fn apex(&self) -> &[u8] {
        match self {
            Self::Loaded(zone) => zone.apex(),
            Self::Broken(apex) => apex,
        }
    }
}

/// All zones of a server. They do not change. A reload makes new ones, which may share unchanged zones.
#[derive(Debug, Default)]
pub struct Zones {
    entries: Box<[Entry]>,
    index: Index,
    /// A bit for every number of labels that an apex has.
    depths: u128,
    /// The zones, in wire form, of files whose content names another zone than the file's name does. A reload
    /// needs them if such a file no longer names a zone.
    named: HashMap<PathBuf, Box<[u8]>>,
}

impl Zones {
    /// Zones for a server. Of several with one apex the last is used. An apex that is not a name is left out.
    pub fn build(entries: impl Iterator<Item = Entry>) -> Self {
        let mut name = Name::root();
        let mut depths = 0;
        let mut hashed: Vec<(u64, Entry)> = entries
            .filter_map(|entry| name.set(entry.apex()).then(|| (name.hash(0), name.labels(), entry)))
            .map(|(hash, labels, entry)| {
                depths |= 1 << labels;
                (hash, entry)
            })
            .collect();
        hashed.sort_by_key(|&(hash, _)| hash);
        hashed.reverse();
        let mut kept: Vec<(u64, Entry)> = Vec::with_capacity(hashed.len());
        for (hash, entry) in hashed {
            let of_hash = kept.iter().rev().take_while(|known| known.0 == hash);
            if !of_hash.into_iter().any(|known| same(known.1.apex(), entry.apex())) {
                kept.push((hash, entry));
            }
        }
        kept.reverse();
        let keys = kept.iter().map(|&(hash, _)| key_of(hash));
        let index = Index::build(keys.zip(0..u32::MAX));
        let entries = kept.into_iter().map(|(_, entry)| entry).collect();
        Self { entries, index, depths, named: HashMap::new() }
    }

    /// Remembers the names that these files gave.
    pub(crate) fn remembering(self, named: HashMap<PathBuf, Box<[u8]>>) -> Self {
        Self { named, ..self }
    }

    /// The zone that this file named, in wire form, if it was another one than that of the file's name.
    pub(crate) fn named_by(&self, path: &Path) -> Option<&[u8]> {
        self.named.get(path).map(|apex| &**apex)
    }

    /// The number of zones.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no zones.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every zone, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The zone with this apex, in wire form.
    pub fn get(&self, apex: &[u8]) -> Option<&Entry> {
        let mut name = Name::root();
        if !name.set(apex) || name.wire().len() != apex.len() {
            return None;
        }
        self.at(&name, 0)
    }

    /// The zone whose apex is the name's suffix without its first `labels` labels, or the nearest ancestor of
    /// that suffix.
    #[inline]
    pub(crate) fn find(&self, name: &Name, labels: usize) -> Option<&Entry> {
        let mut depths = self.depths & (u128::MAX >> (127 - (name.labels() - labels)));
        while depths != 0 {
            let depth = depths.ilog2();
            let entry = self.at(name, name.labels() - depth as usize);
            if entry.is_some() {
                return entry;
            }
            depths &= !(1 << depth);
        }
        None
    }

    #[inline]
    fn at(&self, name: &Name, labels: usize) -> Option<&Entry> {
        let suffix = name.suffix(labels);
        let is_it =
            |place: u32| self.entries.get(place as usize).is_some_and(|entry| same(entry.apex(), suffix));
        let place = self.index.find(key_of(name.hash(labels)), is_it)?;
        self.entries.get(place as usize)
    }

    /// The memory that the zones and their index use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let zones: usize = self
            .entries
            .iter()
            .map(|entry| match entry {
                Entry::Loaded(zone) => zone.memory_bytes(),
                Entry::Broken(apex) => apex.len(),
            })
            .sum();
        let named = self
            .named
            .iter()
            .map(|(path, apex)| size_of_val(&(path, apex)) + path.as_os_str().len() + apex.len());
        size_of::<Self>()
            + size_of_val(&*self.entries)
            + self.index.memory_bytes()
            + zones
            + named.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(apex: &[u8]) -> Entry {
        Entry::Broken(apex.into())
    }

    #[test]
    fn the_nearest_apex_answers() {
        let apexes: [&[u8]; 4] =
            [b"\x03org\0", b"\x07eXample\x03org\0", b"\x01b\x01a\x07example\x03org\0", b"\x03ORG\0"];
        let zones = Zones::build(apexes.iter().map(|apex| broken(apex)));
        assert_eq!(zones.len(), 3);
        let mut name = Name::root();
        for (wire, expected) in [
            (&b"\x03oRG\0"[..], Some(apexes[3])),
            (b"\x03net\0", None),
            (b"\0", None),
            (b"\x01a\x07Example\x03org\0", Some(apexes[1])),
            (b"\x01x\x01b\x01a\x07example\x03org\0", Some(apexes[2])),
            (b"\x07xxample\x03org\0", Some(apexes[3])),
        ] {
            assert!(name.set(wire));
            assert_eq!(zones.find(&name, 0).map(Entry::apex), expected, "{}", wire.escape_ascii());
        }
        assert!(zones.get(b"\x07example\x03org\0").is_some());
        assert!(zones.get(b"\x01a\x07example\x03org\0").is_none());
    }

    #[test]
    fn the_root_answers_for_everything() {
        let zones = Zones::build(std::iter::once(broken(b"\0")));
        let mut name = Name::root();
        assert!(zones.find(&name, 0).is_some());
        assert!(name.set(b"\x01a\0"));
        assert_eq!(zones.find(&name, 0).map(Entry::apex), Some(&b"\0"[..]));
    }
}
