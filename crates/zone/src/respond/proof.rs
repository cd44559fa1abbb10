//! The records that prove that something does not exist (RFC 4035, section 3.1.3; RFC 5155, section 7.2). They are
//! chosen when it is known what to prove, and written with the authority section.

use kqps_message::rtype;

use crate::name::{Name, canonical};
use crate::zone::denial::{Chain, Denial, LABEL_BYTES, Link};
use crate::zone::node::{Node, Rrset};
use crate::zone::{NodeRef, Zone};

/// A chain of aliases may come through several wildcards, each with a proof of one record. Its end needs up to
/// three.
const PROOFS_MAX: usize = 20;

/// A record that proves something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'z> {
    /// The first label of its owner, or the whole owner.
    label: &'z [u8],
    /// The rest of its owner.
    parent: &'z [u8],
    /// The record and its signatures.
    pub rrset: Rrset<'z>,
}

impl Proof<'_> {
    /// The record's owner in wire form.
    pub(crate) fn owner<'w>(&self, wire: &'w mut [u8; 255]) -> &'w [u8] {
        let length = self.label.len() + self.parent.len();
        wire[..self.label.len()].copy_from_slice(self.label);
        wire[self.label.len()..length].copy_from_slice(self.parent);
        &wire[..length]
    }
}

/// The records that prove what a reply denies, each once.
#[derive(Debug, Default)]
pub(crate) struct Proofs<'z> {
    chosen: [Option<Proof<'z>>; PROOFS_MAX],
    count: usize,
}

impl<'z> Proofs<'z> {
    /// The chosen records, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Proof<'z>> {
        self.chosen.iter().flatten()
    }

    /// Proves that an existing name, which is at `node`, has no records of a type.
    pub(crate) fn no_data(&mut self, zone: &'z Zone, node: Node<'z>, name: &Name) {
        match &zone.denial {
            Denial::None => {}
            Denial::Nsec(order) => match node.rrset(rtype::NSEC) {
                Some(rrset) => self.add_nsec(node, rrset),
                // An empty non-terminal: the record that spans it also shows that there is a name below it.
                None => self.nsec_covers(zone, order, name.wire()),
            },
            Denial::Nsec3(chain) => match node.chained() {
                Some(place) => self.add_link(zone, chain.link(place)),
                // Opt-out left the name out of the chain (RFC 5155, section 7.2.4).
                None => self.nearest_in_chain(zone, chain, name, 1, |_| {}),
            },
        }
    }

    /// Proves that a name and its wildcard do not exist. The closest encloser of the name comes after `labels`
    /// labels.
    pub(crate) fn no_name(&mut self, zone: &'z Zone, name: &Name, labels: usize) {
        match &zone.denial {
            Denial::None => {}
            Denial::Nsec(order) => {
                self.nsec_covers(zone, order, name.wire());
                let mut wire = [0; 257];
                self.nsec_covers(zone, order, wildcard(name.suffix(labels), &mut wire));
            }
            Denial::Nsec3(chain) => {
                let mut wildcard_labels = labels;
                self.nearest_in_chain(zone, chain, name, labels, |found| wildcard_labels = found);
                let mut wire = [0; 257];
                let wildcard = wildcard(name.suffix(wildcard_labels), &mut wire);
                self.add_link(
                    zone,
                    chain.covering(&chain.hash(wildcard)).and_then(|place| chain.link(place)),
                );
            }
        }
    }

    /// Proves that a name does not exist, and that its wildcard, at `node`, has no records of a type.
    pub(crate) fn wildcard_no_data(&mut self, zone: &'z Zone, node: Node<'z>, name: &Name, labels: usize) {
        match &zone.denial {
            Denial::None => {}
            Denial::Nsec(order) => {
                match node.rrset(rtype::NSEC) {
                    Some(rrset) => self.add_nsec(node, rrset),
                    None => self.nsec_covers(zone, order, node.name()),
                }
                self.nsec_covers(zone, order, name.wire());
            }
            Denial::Nsec3(chain) => {
                self.nearest_in_chain(zone, chain, name, labels, |_| {});
                let own = node.chained().or_else(|| chain.covering(&chain.hash(node.name())));
                self.add_link(zone, own.and_then(|place| chain.link(place)));
            }
        }
    }

    /// Proves that a name does not exist, so that its wildcard applies. The closest encloser comes after `labels`
    /// labels.
    pub(crate) fn expanded(&mut self, zone: &'z Zone, name: &Name, labels: usize) {
        match &zone.denial {
            Denial::None => {}
            Denial::Nsec(order) => self.nsec_covers(zone, order, name.wire()),
            Denial::Nsec3(chain) => {
                let next_closer = name.suffix(labels.saturating_sub(1));
                self.add_link(
                    zone,
                    chain.covering(&chain.hash(next_closer)).and_then(|place| chain.link(place)),
                );
            }
        }
    }

    /// Proves that the cut at `node`, which comes after `labels` labels of a name, has no DS records.
    pub(crate) fn unsigned(&mut self, zone: &'z Zone, node: Node<'z>, name: &Name, labels: usize) {
        match &zone.denial {
            Denial::None => {}
            Denial::Nsec(_) => {
                if let Some(rrset) = node.rrset(rtype::NSEC) {
                    self.add_nsec(node, rrset);
                }
            }
            Denial::Nsec3(chain) => match node.chained() {
                Some(place) => self.add_link(zone, chain.link(place)),
                None => self.nearest_in_chain(zone, chain, name, labels + 1, |_| {}),
            },
        }
    }

    /// Proves the nearest ancestor that is in the chain, from the one after `labels` labels on, and that the next
    /// name below it is not in the chain (RFC 5155, section 7.2.1). Calls `found` with the number of labels before
    /// that ancestor.
    fn nearest_in_chain(
        &mut self,
        zone: &'z Zone,
        chain: &'z Chain,
        name: &Name,
        labels: usize,
        found: impl FnOnce(usize),
    ) {
        let nearest = (labels..=zone.above(name))
            .find_map(|labels| Some((labels, zone.find(name, labels)?.chained()?)));
        if let Some((labels, place)) = nearest {
            found(labels);
            self.add_link(zone, chain.link(place));
            let next_closer = name.suffix(labels.saturating_sub(1));
            self.add_link(zone, chain.covering(&chain.hash(next_closer)).and_then(|place| chain.link(place)));
        }
    }

    /// Adds the NSEC record of the last name that does not come after this one.
    fn nsec_covers(&mut self, zone: &'z Zone, order: &'z [NodeRef], name: &[u8]) {
        let own = |name: &'_ [u8]| name.len().saturating_sub(zone.apex.len());
        let target = &name[..own(name)];
        let behind = order.partition_point(|&place| {
            let known = zone.node(place).name();
            canonical(&known[..own(known)], target).is_le()
        });
        let place = behind.checked_sub(1).and_then(|place| order.get(place)).or(order.last());
        if let Some(node) = place.map(|&place| zone.node(place))
            && let Some(rrset) = node.rrset(rtype::NSEC)
        {
            self.add_nsec(node, rrset);
        }
    }

    fn add_nsec(&mut self, node: Node<'z>, rrset: Rrset<'z>) {
        self.add(Proof { label: node.name(), parent: &[], rrset });
    }

    fn add_link(&mut self, zone: &'z Zone, link: Option<Link<'z>>) {
        if let Some(Link { label, rrset }) = link
            && LABEL_BYTES + zone.apex.len() <= 255
        {
            self.add(Proof { label, parent: &zone.apex, rrset });
        }
    }

    fn add(&mut self, proof: Proof<'z>) {
        let is_known = self.iter().any(|known| std::ptr::eq(known.rrset.records, proof.rrset.records));
        if !is_known && let Some(place) = self.chosen.get_mut(self.count) {
            *place = Some(proof);
            self.count += 1;
        }
    }
}

/// The wildcard below a name. It may be too long for a name, and then it need not be denied.
fn wildcard<'w>(encloser: &[u8], wire: &'w mut [u8; 257]) -> &'w [u8] {
    wire[..2].copy_from_slice(b"\x01*");
    wire[2..2 + encloser.len()].copy_from_slice(encloser);
    &wire[..2 + encloser.len()]
}
