//! The answer that a resolver must give, and how many questions a resolver without a cache asks for it.

use kqps_message::{rcode, rtype};
use kqps_zone::Name;

use crate::internet::Internet;
use crate::locate::{Found, label};
use crate::place::Node;
use crate::recipe::ALIASES_MAX;
use crate::rrset::Rrset;
use crate::tree::{Tree, Zone};

/// The right answer of a resolver, if no server makes a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The rcode.
    pub rcode: u16,
    /// The records of the answer, without signatures: CNAMEs in their order, then the records of the type.
    pub answers: Vec<ExpectedRecord>,
    /// Whether a validating resolver sets AD: every zone on the way is signed, and no proof has opt-out (RFC 5155, section 9.2).
    pub is_secure: bool,
    /// The number of questions that a resolver by the book asks: it begins at the root for each name, has no cache, asks one
    /// server at a time for the whole question, over IPv4, takes the first server of a referral, and asks for that server's
    /// IPv4 address alone, if the referral does not have it. It believes a CNAME's target if that is in the same zone.
    pub upstream: u64,
}

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedRecord {
    /// The owner in wire form and lower case, unless a wildcard stands for it: then it is the name as it was asked for.
    pub owner: Vec<u8>,
    /// The type.
    pub rtype: u16,
    /// The TTL in seconds, before it counts down.
    pub ttl_s: u32,
    /// The data, without compression.
    pub data: Vec<u8>,
}

impl Internet {
    /// The right answer to a question for a name in wire form. `None` if that is no name, or for types that do not ask for
    /// records of one type, such as ANY and RRSIG.
    pub fn expected(&self, qname: &[u8], qtype: u16) -> Option<Expected> {
        let mut name = Name::root();
        let is_of_records = !(249..=rtype::ANY).contains(&qtype)
            && ![rtype::OPT, rtype::RRSIG, rtype::NSEC, rtype::NSEC3].contains(&qtype);
        if !name.set(qname) || !is_of_records {
            return None;
        }
        let mut walk = Walk {
            tree: &self.tree,
            name,
            set: Rrset::default(),
            spare: Vec::new(),
            expected: Expected { rcode: rcode::NOERROR, answers: Vec::new(), is_secure: true, upstream: 0 },
        };
        walk.run(qtype);
        Some(walk.expected)
    }
}

struct Walk<'t> {
    tree: &'t Tree,
    name: Name,
    set: Rrset,
    spare: Vec<u8>,
    expected: Expected,
}

impl Walk<'_> {
    fn run(&mut self, qtype: u16) {
        let mut last = None;
        for _ in 0..=ALIASES_MAX {
            let zone = self.authority(qtype);
            if last != Some(zone.id()) {
                self.expected.upstream += self.cost(&zone);
                last = Some(zone.id());
            }
            self.expected.is_secure &= self.tree.algorithm(&zone) != 0;
            let node = match self.tree.locate(&zone, &self.name, &mut self.spare) {
                Found::Here(node) | Found::Wildcard(node, _) => node,
                Found::Below(_) | Found::Nowhere(_) => {
                    self.expected.rcode = rcode::NXDOMAIN;
                    // The proof of a top-level domain has opt-out.
                    self.expected.is_secure &= !matches!(zone, Zone::Tld(_));
                    return;
                }
            };
            let types = self.tree.types(&zone, node);
            if types.has(rtype::CNAME) && qtype != rtype::CNAME {
                self.add(&zone, node, rtype::CNAME);
                let (home, target) = self.tree.target(&zone, node);
                self.spare.clear();
                self.tree.append_name(&home, target, &mut self.spare);
                self.name.set(&self.spare);
                continue;
            }
            if types.has(qtype) {
                self.add(&zone, node, qtype);
            } else if matches!((zone, node), (Zone::Tld(_), Node::Site(_) | Node::Company(_))) {
                // There is no DS record, and opt-out left the delegation out.
                self.expected.is_secure = false;
            }
            return;
        }
    }

    /// The zone that answers for the name.
    fn authority(&mut self, qtype: u16) -> Zone {
        let labels = self.name.labels();
        // DS records are in the zone above (RFC 4035, section 3.1.4.1).
        let depth = labels.saturating_sub(usize::from(qtype == rtype::DS));
        let above = |count: usize| labels.checked_sub(count).filter(|_| count <= depth);
        let Some(tld) = above(1).and_then(|index| self.tree.tld(label(&self.name, index))) else {
            return Zone::Root;
        };
        let child =
            above(2).and_then(|index| self.tree.child(tld, label(&self.name, index), &mut self.spare));
        child.unwrap_or(Zone::Tld(tld))
    }

    /// The number of questions until a server of the zone has answered.
    fn cost(&self, zone: &Zone) -> u64 {
        match zone {
            Zone::Root => 1,
            Zone::Tld(_) => 2,
            // The address of a company's server costs as much as any answer of the company's zone.
            Zone::Site(_) if !self.tree.has_glue(zone) => 6,
            Zone::Company(_) | Zone::Site(_) => 3,
        }
    }

    fn add(&mut self, zone: &Zone, node: Node, rtype: u16) {
        self.tree.fill(zone, node, rtype, &mut self.set);
        let owner = if node == Node::Wildcard { self.name.wire() } else { &self.set.owner };
        for data in self.set.iter() {
            self.expected.answers.push(ExpectedRecord {
                owner: owner.to_vec(),
                rtype,
                ttl_s: self.set.ttl_s,
                data: data.to_vec(),
            });
        }
    }
}
