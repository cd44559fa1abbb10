//! The answer of a zone (RFC 1034, section 4.3.2; RFC 4035, section 3.1; RFC 5155, section 7.2).

use kqps_message::{rcode, rtype};
use kqps_zone::{Full, Name, Section};

use crate::locate::Found;
use crate::order::{Order, Orders};
use crate::place::Node;
use crate::recipe::ALIASES_MAX;
use crate::rrset::Rrset;
use crate::tree::{Tree, Zone};
use crate::writer::Writer;

/// The kind of an answer, without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answer,
    Referral,
    NxDomain,
    NoData,
}

/// Buffers of an answer, kept for the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) spare: Vec<u8>,
    pub(crate) set: Rrset,
    pub(crate) signature: Rrset,
    pub(crate) order: Order,
    pub(crate) target: Vec<u8>,
}

/// An answer that is being written.
pub(crate) struct Reply<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) orders: &'a Orders,
    pub(crate) zone: Zone,
    pub(crate) writer: Writer<'a>,
    pub(crate) name: &'a mut Name,
    pub(crate) buffers: &'a mut Buffers,
    /// Whether signatures and proofs are wanted and the zone has them.
    pub(crate) is_secure: bool,
    pub(crate) rcode: u16,
    pub(crate) is_authoritative: bool,
}

impl Reply<'_> {
    /// Answers for the name, which must be in the zone.
    pub(crate) fn run(&mut self, qtype: u16) -> Result<Outcome, Full> {
        self.is_authoritative = true;
        let mut outcome = None;
        for _ in 0..=ALIASES_MAX {
            let (node, encloser) = match self.tree.locate(&self.zone, self.name, &mut self.buffers.spare) {
                Found::Here(cut) if cut.is_cut() && qtype != rtype::DS => {
                    return self.referral(cut, 0, outcome);
                }
                Found::Below(cut) => {
                    let labels = self.name.labels() - self.zone.labels() - 1;
                    return self.referral(cut, labels, outcome);
                }
                Found::Here(node) => (node, None),
                Found::Wildcard(node, encloser) => (node, Some(encloser)),
                Found::Nowhere(encloser) => {
                    self.rcode = rcode::NXDOMAIN;
                    self.soa()?;
                    self.prove_no_name(encloser)?;
                    return Ok(outcome.unwrap_or(Outcome::NxDomain));
                }
            };
            let types = self.tree.types(&self.zone, node);
            // Signatures stand beside a CNAME (RFC 4035, section 2.5).
            let is_of_signatures = qtype == rtype::RRSIG && self.tree.algorithm(&self.zone) != 0;
            let is_of_aliases = is_of_signatures || [rtype::CNAME, rtype::ANY].contains(&qtype);
            if types.has(rtype::CNAME) && !is_of_aliases {
                self.put(Section::Answer, node, rtype::CNAME, encloser.is_some())?;
                outcome = Some(Outcome::Answer);
                if self.follow(node) {
                    continue;
                }
                return Ok(Outcome::Answer);
            }
            let mut count = 0;
            for &rtype in types.as_slice().iter().filter(|&&rtype| rtype == qtype || qtype == rtype::ANY) {
                self.put(Section::Answer, node, rtype, encloser.is_some())?;
                count += 1;
            }
            if is_of_signatures {
                count = self.put_signatures(node, encloser.is_some())?;
            }
            if count == 0 && self.is_of_proofs(qtype) {
                return Ok(Outcome::Answer);
            }
            if count == 0 {
                self.soa()?;
                self.prove_no_data(encloser)?;
                return Ok(outcome.unwrap_or(Outcome::NoData));
            }
            if let Some(encloser) = encloser {
                self.prove_expanded(encloser)?;
            }
            if qtype == rtype::NS {
                self.server_addresses();
            }
            return Ok(Outcome::Answer);
        }
        Ok(Outcome::Answer)
    }

    /// Answers a query for NSEC records in a zone that has them at the name.
    fn is_of_proofs(&mut self, qtype: u16) -> bool {
        if qtype != rtype::NSEC || self.tree.algorithm(&self.zone) == 0 || self.zone.has_nsec3() {
            return false;
        }
        self.prepare_order();
        let order = order(self.orders, &self.zone, &self.buffers.order);
        let (place, is_there) = order.place(self.name.wire());
        is_there && self.proof(Section::Answer, place).is_ok()
    }

    /// Turns to the name to which a CNAME leads. Returns whether it is in the zone.
    fn follow(&mut self, node: Node) -> bool {
        let (home, target) = self.tree.target(&self.zone, node);
        let target_name = &mut self.buffers.target;
        target_name.clear();
        self.tree.append_name(&home, target, target_name);
        home.id() == self.zone.id() && self.name.set(target_name)
    }

    /// Writes the records of a type at a node, with their signature if it is wanted.
    fn put(&mut self, section: Section, node: Node, rtype: u16, is_expanded: bool) -> Result<(), Full> {
        let Buffers { spare, set, signature, .. } = &mut *self.buffers;
        self.tree.fill(&self.zone, node, rtype, set);
        let owner = is_expanded.then_some(self.name.wire());
        self.writer.rrset(section, set, owner)?;
        let is_delegation = node.is_cut() && rtype == rtype::NS;
        if self.is_secure && !is_delegation {
            self.tree.sign(&self.zone, set, signature, spare);
            self.writer.rrset(section, signature, owner)?;
        }
        Ok(())
    }

    /// Writes the signatures of all records at a node of a signed zone, which a client may ask for by themselves (RFC 4035,
    /// section 3.1). Returns the number of signed sets.
    fn put_signatures(&mut self, node: Node, is_expanded: bool) -> Result<usize, Full> {
        let types = self.tree.types(&self.zone, node);
        for &rtype in types.as_slice() {
            let Buffers { spare, set, signature, .. } = &mut *self.buffers;
            self.tree.fill(&self.zone, node, rtype, set);
            self.tree.sign(&self.zone, set, signature, spare);
            let owner = is_expanded.then_some(self.name.wire());
            self.writer.rrset(Section::Answer, signature, owner)?;
        }
        let count = types.as_slice().len();
        if count > 0 && !is_expanded && !self.zone.has_nsec3() {
            self.prepare_order();
            let Buffers { spare, set, signature, order: own, .. } = &mut *self.buffers;
            let order = order(self.orders, &self.zone, own);
            let (place, _) = order.place(self.name.wire());
            order.fill(self.tree, &self.zone, place, set);
            self.tree.sign(&self.zone, set, signature, spare);
            self.writer.rrset(Section::Answer, signature, None)?;
        }
        Ok(count)
    }

    fn soa(&mut self) -> Result<(), Full> {
        self.put(Section::Authority, Node::Apex, rtype::SOA, false)
    }

    /// Adds the addresses of the zone's servers that have names in it, as far as there is room.
    fn server_addresses(&mut self) {
        let (tree, zone) = (self.tree, self.zone);
        let is_secure = std::mem::replace(&mut self.is_secure, false);
        for own in 0..tree.servers(&zone) {
            let (_, home, node) = zone.server_name(own);
            if home.id() != zone.id() {
                break;
            }
            for &rtype in tree.types(&zone, node).as_slice() {
                // Without room, the client has to ask for it.
                let _ = self.put(Section::Additional, node, rtype, false);
            }
        }
        self.is_secure = is_secure;
    }

    /// Refers to the zone that begins at a cut, whose name comes after so many labels.
    fn referral(&mut self, cut: Node, labels: usize, outcome: Option<Outcome>) -> Result<Outcome, Full> {
        let (tree, zone) = (self.tree, self.zone);
        self.is_authoritative = outcome.is_some();
        self.put(Section::Authority, cut, rtype::NS, false)?;
        if self.is_secure {
            if tree.types(&zone, cut).has(rtype::DS) {
                self.put(Section::Authority, cut, rtype::DS, false)?;
            } else {
                self.prove_unsigned(labels)?;
            }
        }
        let below = tree.below(cut);
        if tree.has_glue(&below) {
            for own in 0..tree.servers(&below) {
                let (_, home, node) = below.server_name(own);
                let is_within = home.id() == below.id();
                for &rtype in tree.types(&home, node).as_slice() {
                    tree.fill(&home, node, rtype, &mut self.buffers.set);
                    let written = self.writer.rrset(Section::Additional, &self.buffers.set, None);
                    // Without the addresses of servers in the zone itself it cannot be reached (RFC 9471, section 3.1).
                    if written.is_err() && is_within {
                        return Err(Full);
                    }
                }
            }
        }
        Ok(outcome.unwrap_or(Outcome::Referral))
    }

    /// Makes the order of a small zone, if there is none.
    fn prepare_order(&mut self) {
        if matches!(self.zone, Zone::Site(_)) {
            self.buffers.order.turn_to(self.tree, &self.zone, &mut std::iter::empty());
        }
    }

    /// Proves that a name that exists has no records of a type. If a wildcard stands for it, the closest encloser comes after
    /// so many labels.
    fn prove_no_data(&mut self, encloser: Option<usize>) -> Result<(), Full> {
        self.prove(|order, name, chosen, spare| {
            if let Some(encloser) = encloser {
                chosen.add(order.place(wildcard(name, encloser, spare)).0);
                if order.is_hashed() {
                    chosen.add(order.place(name.suffix(encloser)).0);
                }
                chosen.add(order.place(name.suffix(if order.is_hashed() { encloser - 1 } else { 0 })).0);
                return;
            }
            let (place, is_there) = order.place(name.wire());
            chosen.add(place);
            if !is_there && order.is_hashed() {
                // A delegation that opt-out left out (RFC 5155, section 7.2.4).
                chosen.add(order.place(name.suffix(1)).0);
            }
        })
    }

    /// Proves that a name and its wildcard do not exist. The closest encloser comes after so many labels.
    fn prove_no_name(&mut self, encloser: usize) -> Result<(), Full> {
        self.prove(|order, name, chosen, spare| {
            if order.is_hashed() {
                chosen.add(order.place(name.suffix(encloser)).0);
                chosen.add(order.place(name.suffix(encloser - 1)).0);
            } else {
                chosen.add(order.place(name.wire()).0);
            }
            chosen.add(order.place(wildcard(name, encloser, spare)).0);
        })
    }

    /// Proves that a name does not exist, so that the wildcard of its closest encloser stands for it.
    fn prove_expanded(&mut self, encloser: usize) -> Result<(), Full> {
        self.prove(|order, name, chosen, _| {
            let denied = if order.is_hashed() { name.suffix(encloser - 1) } else { name.wire() };
            chosen.add(order.place(denied).0);
        })
    }

    /// Proves that the cut after so many labels has no DS record.
    fn prove_unsigned(&mut self, labels: usize) -> Result<(), Full> {
        self.prove(|order, name, chosen, _| {
            let (place, is_there) = order.place(name.suffix(labels));
            if !is_there {
                chosen.add(order.place(name.suffix(labels + 1)).0);
            }
            chosen.add(place);
        })
    }

    fn prove(&mut self, choose: impl Fn(&Order, &Name, &mut Chosen, &mut Vec<u8>)) -> Result<(), Full> {
        if !self.is_secure {
            return Ok(());
        }
        self.prepare_order();
        let mut chosen = Chosen::default();
        let order = order(self.orders, &self.zone, &self.buffers.order);
        choose(order, self.name, &mut chosen, &mut self.buffers.spare);
        chosen.places[..chosen.count].iter().try_for_each(|&place| self.proof(Section::Authority, place))
    }

    /// Writes the NSEC or NSEC3 record at a place of the order, with its signature.
    fn proof(&mut self, section: Section, place: usize) -> Result<(), Full> {
        let Buffers { spare, set, signature, order: own, .. } = &mut *self.buffers;
        order(self.orders, &self.zone, own).fill(self.tree, &self.zone, place, set);
        self.writer.rrset(section, set, None)?;
        if self.is_secure {
            self.tree.sign(&self.zone, set, signature, spare);
            self.writer.rrset(section, signature, None)?;
        }
        Ok(())
    }
}

/// The order of a zone; `own` is that of a small one.
fn order<'o>(orders: &'o Orders, zone: &Zone, own: &'o Order) -> &'o Order {
    match zone {
        Zone::Root => &orders.root,
        Zone::Tld(tld) => &orders.tlds[*tld as usize],
        Zone::Company(_) | Zone::Site(_) => own,
    }
}

/// The wildcard of the encloser after so many labels, written into a buffer.
fn wildcard<'s>(name: &Name, encloser: usize, spare: &'s mut Vec<u8>) -> &'s [u8] {
    spare.clear();
    spare.extend_from_slice(b"\x01*");
    spare.extend_from_slice(name.suffix(encloser));
    spare
}

/// Places of an order, each once.
#[derive(Clone, Copy, Debug, Default)]
struct Chosen {
    places: [usize; 3],
    count: usize,
}

impl Chosen {
    fn add(&mut self, place: usize) {
        if !self.places[..self.count].contains(&place) {
            self.places[self.count] = place;
            self.count += 1;
        }
    }
}
