//! A compiled zone: its names and records as ready wire bytes, found by the hash of a name.

pub(crate) mod denial;
pub(crate) mod index;
pub(crate) mod node;
pub(crate) mod part;

use std::fmt;

use kqps_message::rtype;

use crate::hash;
use crate::name::{Name, same};
use denial::{Chain, Denial};
use node::{CUT, DNAME, Node, OCCLUDED};
use part::ZonePart;

/// A zone, ready to be served. It never changes. Two zones are equal if they have the same records; records of one name
/// must also be in the same order.
#[derive(PartialEq)]
pub struct Zone {
    pub(crate) apex: Box<[u8]>,
    pub(crate) apex_labels: u8,
    /// How many bits of a hash select the part.
    pub(crate) part_bits: u32,
    pub(crate) parts: Box<[ZonePart]>,
    /// The apex.
    pub(crate) top: NodeRef,
    pub(crate) denial: Denial,
    /// NSEC3 records of a zone that denies by NSEC, since its apex does not announce their chain. A signer is
    /// building or has abandoned the chain (RFC 5155, sections 10.4 and 10.5). They are only transferred.
    pub(crate) idle_nsec3: Option<Box<Chain>>,
    /// Whether a name begins with the label `*`.
    pub(crate) has_wildcards: bool,
    pub(crate) records: u64,
}

/// The place of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeRef {
    pub part: u32,
    /// Its position in the part, divided by [`node::ALIGNMENT`].
    pub place: u32,
}

impl NodeRef {
    /// The node at this position in the memory of a part.
    pub(crate) fn new(part: u32, at: usize) -> Self {
        let place = u32::try_from(at / node::ALIGNMENT).expect("no node of a part is beyond 16 GiB");
        Self { part, place }
    }
}

/// The match of a zone for a name (RFC 1034, section 4.3.2, step 3). The number counts the labels of the name before
/// the node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameMatch<'z> {
    /// The name exists, with this node.
    Here(Node<'z>),
    /// The name is at or below this cut.
    Cut(Node<'z>, usize),
    /// The name is below the owner of this DNAME record.
    Dname(Node<'z>, usize),
    /// The name does not exist, but this wildcard directly below its closest encloser is its source of synthesis
    /// (RFC 4592, section 3.3.1). The number counts the labels before the encloser.
    Wildcard(Node<'z>, usize),
    /// The name does not exist. The number counts the labels before its closest encloser.
    Nowhere(usize),
}

impl Zone {
    /// The name of the zone in wire form.
    pub fn apex(&self) -> &[u8] {
        &self.apex
    }

    /// The serial number of its SOA record.
    pub fn serial(&self) -> u32 {
        let soa = self.top().rrset(rtype::SOA).map(node::Rrset::first).unwrap_or_default();
        let numbers = soa.len().saturating_sub(20);
        soa.get(numbers..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    /// The number of records in the zone.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The memory that it uses, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let denial = match &self.denial {
            Denial::None => 0,
            Denial::Nsec(order) => size_of_val(&**order),
            Denial::Nsec3(chain) => chain.memory_bytes(),
        };
        let idle = self.idle_nsec3.as_ref().map_or(0, |chain| size_of::<Chain>() + chain.memory_bytes());
        let parts: usize = self.parts.iter().map(ZonePart::memory_bytes).sum();
        size_of::<Self>() + self.apex.len() + size_of_val(&*self.parts) + parts + denial + idle
    }

    /// Its NSEC3 records, whether they are used or not.
    pub(crate) fn nsec3(&self) -> Option<&Chain> {
        match &self.denial {
            Denial::Nsec3(chain) => Some(chain),
            _ => self.idle_nsec3.as_deref(),
        }
    }

    /// The node of its apex.
    #[inline]
    pub(crate) fn top(&self) -> Node<'_> {
        self.node(self.top)
    }

    /// The node at a place.
    #[inline]
    pub(crate) fn node(&self, at: NodeRef) -> Node<'_> {
        self.parts[at.part as usize].node(at.place as usize * node::ALIGNMENT)
    }

    /// The node of a name's suffix without its first `labels` labels.
    #[inline]
    pub(crate) fn find(&self, name: &Name, labels: usize) -> Option<Node<'_>> {
        Some(self.node(self.find_place(name, labels)?))
    }

    /// The place of that node.
    #[inline]
    pub(crate) fn find_place(&self, name: &Name, labels: usize) -> Option<NodeRef> {
        let suffix = name.suffix(labels);
        self.of_hash(name.hash(labels), |node| same(node.name(), suffix))
    }

    /// The node of the wildcard directly below that suffix.
    pub(crate) fn wildcard(&self, name: &Name, labels: usize) -> Option<Node<'_>> {
        if !self.has_wildcards {
            return None;
        }
        let suffix = name.suffix(labels);
        let place = self.of_hash(hash::child(name.hash(labels), b"\x01*", 0), |node| {
            node.name().split_at_checked(2).is_some_and(|(star, rest)| star == b"\x01*" && same(rest, suffix))
        })?;
        Some(self.node(place))
    }

    #[inline]
    fn of_hash(&self, hash: u64, is_it: impl FnMut(Node<'_>) -> bool) -> Option<NodeRef> {
        let (part, key) = part::address(hash, self.part_bits);
        let place = self.parts[part as usize].find(key, is_it)?;
        Some(NodeRef { part, place })
    }

    /// The place of a node with this hash, or with the same first bits. It is usually the right node.
    #[inline]
    pub(crate) fn first_of(&self, hash: u64) -> Option<NodeRef> {
        self.of_hash(hash, |_| true)
    }

    /// The number of labels of a name before the apex. The name must be the apex or below it.
    #[inline]
    pub(crate) fn above(&self, name: &Name) -> usize {
        name.labels().saturating_sub(usize::from(self.apex_labels))
    }

    /// Finds the match for a name and `qtype`. The name must be the apex or below it.
    #[inline]
    pub(crate) fn locate(&self, name: &Name, qtype: u16) -> NameMatch<'_> {
        let Some(node) = self.find(name, 0) else { return self.without(name) };
        if !node.is(CUT | OCCLUDED) {
            return NameMatch::Here(node);
        }
        if !node.is(OCCLUDED) {
            return if qtype == rtype::DS { NameMatch::Here(node) } else { NameMatch::Cut(node, 0) };
        }
        self.occluder(name).unwrap_or(NameMatch::Here(node))
    }

    /// Finds the match for a name that does not exist.
    fn without(&self, name: &Name) -> NameMatch<'_> {
        let (encloser, labels) = self.closest_encloser(name);
        if encloser.is(CUT | DNAME | OCCLUDED) {
            if !encloser.is(OCCLUDED) {
                let is_cut = encloser.is(CUT);
                return if is_cut {
                    NameMatch::Cut(encloser, labels)
                } else {
                    NameMatch::Dname(encloser, labels)
                };
            }
            if let Some(place) = self.occluder(name) {
                return place;
            }
        }
        let wildcard = self.wildcard(name, labels);
        wildcard.map_or(NameMatch::Nowhere(labels), |node| NameMatch::Wildcard(node, labels))
    }

    /// The nearest existing ancestor of a name, and the number of labels before it. The ancestors of an existing
    /// name exist too, if only as empty non-terminals, so a binary search finds it.
    pub(crate) fn closest_encloser(&self, name: &Name) -> (Node<'_>, usize) {
        let (mut low, mut high) = (1, self.above(name));
        let mut found = self.top();
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.find(name, middle) {
                Some(node) => (found, high) = (node, middle),
                None => low = middle + 1,
            }
        }
        (found, high)
    }

    /// The topmost cut or DNAME record above a name.
    fn occluder(&self, name: &Name) -> Option<NameMatch<'_>> {
        (1..=self.above(name)).rev().find_map(|labels| {
            let node = self.find(name, labels).filter(|node| node.is(CUT | DNAME))?;
            let is_cut = node.is(CUT);
            Some(if is_cut { NameMatch::Cut(node, labels) } else { NameMatch::Dname(node, labels) })
        })
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let apex = kqps_message::name::NameText(&self.apex);
        write!(out, "Zone({apex} {}, {} records)", self.serial(), self.records)
    }
}
