//! The order of a signed zone's names: by name for NSEC (RFC 4034, section 4), or by hash for NSEC3 (RFC 5155).

use std::ops::Range;

use kqps_message::rtype;
use kqps_zone::{HASH_BYTES, canonical, nsec3_hash, nsec3_letters};

use crate::place::Node;
use crate::rrset::{Rrset, Types};
use crate::tree::{Tree, Zone};

/// The algorithm of NSEC3 hashes: SHA-1 (RFC 5155, section 11).
const SHA1: u8 = 1;

#[derive(Clone, Debug)]
struct Link {
    hash: [u8; HASH_BYTES],
    /// The place of its name.
    name: Range<usize>,
    node: Node,
}

/// The names of a zone in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    is_hashed: bool,
    links: Vec<Link>,
    /// The names, one after the other, of an order by name.
    names: Vec<u8>,
}

impl Order {
    /// Becomes the order of a signed zone.
    pub(crate) fn turn_to(&mut self, tree: &Tree, zone: &Zone, cuts: &mut dyn Iterator<Item = Node>) {
        self.is_hashed = zone.has_nsec3();
        self.links.clear();
        self.names.clear();
        let (links, names, is_hashed) = (&mut self.links, &mut self.names, self.is_hashed);
        let mut add = |node: Node| {
            // An empty name has no NSEC record (RFC 4034, section 2.3), but an NSEC3 record.
            if !is_hashed && tree.types(zone, node).as_slice().is_empty() {
                return;
            }
            let start = names.len();
            tree.append_name(zone, node, names);
            if is_hashed {
                links.push(Link { hash: nsec3_hash(&names[start..], b"", 0), name: 0..0, node });
                names.truncate(start);
            } else {
                links.push(Link { hash: [0; HASH_BYTES], name: start..names.len(), node });
            }
        };
        tree.nodes(zone, &mut add);
        cuts.for_each(add);
        if is_hashed {
            self.links.sort_unstable_by_key(|link| link.hash);
        } else {
            let names = &self.names;
            self.links.sort_unstable_by(|one, other| {
                canonical(&names[one.name.clone()], &names[other.name.clone()])
            });
        }
    }

    /// Whether the order is that of NSEC3.
    pub(crate) fn is_hashed(&self) -> bool {
        self.is_hashed
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// The last name that does not come after this one, and whether it is this one.
    pub(crate) fn place(&self, name: &[u8]) -> (usize, bool) {
        let (behind, is_there) = if self.is_hashed {
            let hash = nsec3_hash(name, b"", 0);
            let behind = self.links.partition_point(|link| link.hash <= hash);
            (behind, behind.checked_sub(1).is_some_and(|place| self.links[place].hash == hash))
        } else {
            let name_at = |link: &Link| &self.names[link.name.clone()];
            let behind = self.links.partition_point(|link| canonical(name_at(link), name).is_le());
            let place = behind.checked_sub(1);
            (behind, place.is_some_and(|place| canonical(name_at(&self.links[place]), name).is_eq()))
        };
        (behind.checked_sub(1).unwrap_or(self.links.len().saturating_sub(1)), is_there)
    }

    /// Turns a set into the NSEC or NSEC3 record at a place of the order.
    pub(crate) fn fill(&self, tree: &Tree, zone: &Zone, place: usize, set: &mut Rrset) {
        let link = &self.links[place];
        let next = &self.links[(place + 1) % self.links.len()];
        let types = tree.types(zone, link.node);
        let ttl_s = tree.negative_ttl_s(zone);
        if !self.is_hashed {
            set.begin(rtype::NSEC, ttl_s);
            set.owner.extend_from_slice(&self.names[link.name.clone()]);
            set.add(|out| {
                out.extend_from_slice(&self.names[next.name.clone()]);
                bitmap(with(&types, &[rtype::RRSIG, rtype::NSEC]).as_slice(), out);
            });
            return;
        }
        set.begin(rtype::NSEC3, ttl_s);
        set.owner.push(32);
        set.owner.extend_from_slice(&nsec3_letters(&link.hash));
        tree.append_apex(zone, &mut set.owner);
        // Opt-out (RFC 5155, section 6): delegations without DS have no record of their own in a top-level domain.
        let flags = u8::from(matches!(zone, Zone::Tld(_)));
        let is_signed = if link.node.is_cut() { types.has(rtype::DS) } else { !types.as_slice().is_empty() };
        let types = if is_signed { with(&types, &[rtype::RRSIG]) } else { types };
        set.add(|out| {
            out.extend_from_slice(&[SHA1, flags, 0, 0, 0, 20]);
            out.extend_from_slice(&next.hash);
            bitmap(types.as_slice(), out);
        });
    }
}

/// Types and more types in ascending order.
fn with(types: &Types, more: &[u16]) -> Types {
    let mut all = Types::default();
    let mut more = more.iter().copied().peekable();
    for &rtype in types.as_slice() {
        while let Some(other) = more.next_if(|other| *other < rtype) {
            all.push(other);
        }
        all.push(rtype);
    }
    more.for_each(|other| all.push(other));
    all
}

/// Appends a type bit map (RFC 4034, section 4.1.2) of types below 256, in ascending order.
fn bitmap(types: &[u16], out: &mut Vec<u8>) {
    let mut bits = [0_u8; 32];
    for rtype in types {
        let [_, low] = rtype.to_be_bytes();
        bits[usize::from(low / 8)] |= 0x80 >> (low % 8);
    }
    let bytes = bits.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if bytes > 0 {
        out.extend_from_slice(&[0, u8::try_from(bytes).expect("it is 32 at most")]);
        out.extend_from_slice(&bits[..bytes]);
    }
}

/// The orders of the root and of top-level domains, which are made at the start.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) root: Order,
    pub(crate) tlds: Vec<Order>,
}

impl Orders {
    pub(crate) fn new(tree: &Tree) -> Self {
        let mut orders = Self { root: Order::default(), tlds: vec![Order::default(); tree.tlds.len()] };
        if tree.recipe.root.algorithm == 0 {
            return orders;
        }
        let tlds = (0..tree.recipe.tld.count).map(Node::Tld);
        orders.root.turn_to(tree, &Zone::Root, &mut { tlds });
        let mut signed: Vec<Vec<Node>> = vec![Vec::new(); tree.tlds.len()];
        for number in 0..tree.recipe.zone.count {
            let site = tree.site(number);
            if site.algorithm != 0 {
                signed[site.tld as usize].push(Node::Site(number));
            }
        }
        for ((number, order), cuts) in (0..).zip(&mut orders.tlds).zip(signed) {
            if tree.tlds[number as usize].algorithm != 0 {
                order.turn_to(tree, &Zone::Tld(number), &mut cuts.into_iter());
            }
        }
        orders
    }
}
