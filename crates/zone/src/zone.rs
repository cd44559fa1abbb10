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
use part::Part;

/// One zone, ready to be answered from. It does not change once it is compiled. Two are equal if they have the same
/// records, in the same order where they are of one name.
#[derive(PartialEq)]
pub struct Zone {
    pub(crate) apex: Box<[u8]>,
    pub(crate) apex_labels: u8,
    /// How many bits of a hash tell the part.
    pub(crate) part_bits: u32,
    pub(crate) parts: Box<[Part]>,
    /// Where the apex is.
    pub(crate) top: NodeRef,
    pub(crate) denial: Denial,
    /// NSEC3 records of a zone that denies by NSEC since its apex announces no chain of them: a signer is building
    /// it, or has given it up (RFC 5155, sections 10.4 and 10.5). They are only transferred.
    pub(crate) idle_nsec3: Option<Box<Chain>>,
    /// Whether a name begins with the label `*`.
    pub(crate) has_wildcards: bool,
    pub(crate) records: u64,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeRef {
    /// In which part.
    pub part: u32,
    /// Its position there, divided by [`node::ALIGNMENT`].
    pub place: u32,
}

impl NodeRef {
    /// The node at this position in memory in a part.
    pub(crate) fn new(part: usize, at: usize) -> Self {
        Self { part: part as u32, place: (at / node::ALIGNMENT) as u32 }
    }
}

/// What a zone has for a name (RFC 1034, section 4.3.2, step 3). "Labels" is how many of the name's first
/// labels come before that.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'z> {
    /// The name itself.
    Here(Node<'z>),
    /// The name is at or below this cut, which stands after so many labels.
    Cut(Node<'z>, usize),
    /// The name is below this DNAME record's owner, which stands after so many labels.
    Dname(Node<'z>, usize),
    /// The name does not exist, but this wildcard below its closest encloser (after so many labels) is its
    /// source of synthesis (RFC 4592, section 3.3.1).
    Wildcard(Node<'z>, usize),
    /// The name does not exist; its closest encloser stands after so many labels.
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

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How much memory it holds, bytes.
    pub fn memory_bytes(&self) -> usize {
        let denial = match &self.denial {
            Denial::None => 0,
            Denial::Nsec(order) => size_of_val(&**order),
            Denial::Nsec3(chain) => chain.memory_bytes(),
        };
        let idle = self.idle_nsec3.as_ref().map_or(0, |chain| size_of::<Chain>() + chain.memory_bytes());
        let parts: usize = self.parts.iter().map(Part::memory_bytes).sum();
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

    /// Where that node is.
    #[inline]
    pub(crate) fn find_place(&self, name: &Name, labels: usize) -> Option<NodeRef> {
        let suffix = name.suffix(labels);
        self.of_hash(name.hash(labels), |node| same(node.name(), suffix))
    }

    /// The node of the wildcard just below that suffix.
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
        let place = self.parts[part].find(key, is_it)?;
        Some(NodeRef { part: part as u32, place })
    }

    /// The place of a node whose hash is this one, or part of it: mostly the one.
    #[inline]
    pub(crate) fn first_of(&self, hash: u64) -> Option<NodeRef> {
        self.of_hash(hash, |_| true)
    }

    /// How many labels of a name come before the apex. The name is the apex or below it.
    #[inline]
    pub(crate) fn above(&self, name: &Name) -> usize {
        name.labels().saturating_sub(usize::from(self.apex_labels))
    }

    /// What there is for a name, which is the apex or below it, if `qtype` is asked.
    #[inline]
    pub(crate) fn locate(&self, name: &Name, qtype: u16) -> Place<'_> {
        let Some(node) = self.find(name, 0) else { return self.without(name) };
        if !node.is(CUT | OCCLUDED) {
            return Place::Here(node);
        }
        if !node.is(OCCLUDED) {
            return if qtype == rtype::DS { Place::Here(node) } else { Place::Cut(node, 0) };
        }
        self.occluder(name).unwrap_or(Place::Here(node))
    }

    /// What there is for a name that the zone does not have.
    fn without(&self, name: &Name) -> Place<'_> {
        let (encloser, labels) = self.closest_encloser(name);
        if encloser.is(CUT | DNAME | OCCLUDED) {
            if !encloser.is(OCCLUDED) {
                let is_cut = encloser.is(CUT);
                return if is_cut { Place::Cut(encloser, labels) } else { Place::Dname(encloser, labels) };
            }
            if let Some(place) = self.occluder(name) {
                return place;
            }
        }
        self.wildcard(name, labels).map_or(Place::Nowhere(labels), |node| Place::Wildcard(node, labels))
    }

    /// The nearest ancestor of a name that exists, and how many labels come before it. An ancestor of what
    /// exists does so too, if only as an empty non-terminal, so the range can be halved.
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

    /// The topmost cut or DNAME record that a name is below.
    fn occluder(&self, name: &Name) -> Option<Place<'_>> {
        (1..=self.above(name)).rev().find_map(|labels| {
            let node = self.find(name, labels).filter(|node| node.is(CUT | DNAME))?;
            let is_cut = node.is(CUT);
            Some(if is_cut { Place::Cut(node, labels) } else { Place::Dname(node, labels) })
        })
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let apex = kqps_message::name::Shown(&self.apex);
        write!(out, "Zone({apex} {}, {} records)", self.serial(), self.records)
    }
}
