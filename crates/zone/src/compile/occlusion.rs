//! The third step. It marks names below a cut or a DNAME record, since they are not data of the zone, and
//! finds name servers without an address.

use kqps_message::rtype;

use crate::compile::fault::{Faults, Owner, What};
use crate::compile::gather::Gathered;
use crate::compile::parallel;
use crate::name::{Name, labels, same};
use crate::zone::node::{CUT, DNAME, Node, OCCLUDED};
use crate::zone::{NameMatch, NodeRef, Zone};

/// Positions of nodes in one part.
type Places = Vec<usize>;

/// The positions, by part, of the nodes below a cut or a DNAME record.
pub(crate) fn occluded(zone: &Zone, threads: usize) -> Vec<Places> {
    parallel::map(zone.parts.iter().collect(), threads, |part| {
        let mut name = Name::root();
        part.nodes(0)
            // Only the apex can hide a name directly below it.
            .filter(|(_, node)| {
                let above = labels(node.name()).saturating_sub(usize::from(zone.apex_labels));
                above > 1 || above == 1 && zone.top().is(DNAME)
            })
            .filter(|(_, node)| {
                name.set(node.name());
                (1..=zone.above(&name))
                    .any(|labels| zone.find(&name, labels).is_some_and(|node| node.is(CUT | DNAME)))
            })
            .map(|(at, _)| at)
            .collect()
    })
}

/// Finds name servers without addresses, and hidden names that are not the name server of a delegation. The
/// nodes below cuts must already be marked.
pub(crate) fn check(zone: &Zone, gathered: &[Gathered], has_occluders: bool, threads: usize) -> Faults {
    let new = || Servers { zone, glue: Vec::new(), faults: Faults::default(), name: Name::root() };
    if !has_occluders {
        // The zone has no delegations, so only its own servers need addresses.
        let mut found = new();
        found.check(zone.top(), gathered.get(zone.top.part as usize).map_or(0, |gathered| gathered.top_line));
        return found.faults;
    }
    let servers = parallel::map(zone.parts.iter().zip(gathered).collect(), threads, |(part, gathered)| {
        let mut found = new();
        for ((_, node), &line) in part.nodes(0).zip(&gathered.lines) {
            found.check(node, line);
        }
        found.glue.sort_unstable();
        found.glue.dedup();
        (found.glue, found.faults)
    });
    let mut faults = Faults::default();
    let mut glue = Vec::new();
    for (theirs, found) in servers {
        glue.extend(theirs);
        faults.join(found);
    }
    glue.sort_unstable();
    let parts = (0_u32..).zip(zone.parts.iter().zip(gathered)).collect();
    let hidden = parallel::map(parts, threads, |(number, (part, gathered))| {
        let mut faults = Faults::default();
        for ((at, node), &line) in part.nodes(0).zip(&gathered.lines) {
            let place = NodeRef::new(number, at);
            if node.is(OCCLUDED) && !node.is_empty() && glue.binary_search(&place).is_err() {
                faults.add(line, What::Occluded(Owner::new(node.name())));
            }
        }
        faults
    });
    for found in hidden {
        faults.join(found);
    }
    faults
}

/// The name servers in the NS records of one part.
struct Servers<'z> {
    zone: &'z Zone,
    /// Hidden nodes that are name servers.
    glue: Vec<NodeRef>,
    faults: Faults,
    name: Name,
}

impl Servers<'_> {
    fn check(&mut self, node: Node<'_>, line: u32) {
        let is_apex = same(node.name(), &self.zone.apex);
        if node.is(OCCLUDED) || !is_apex && !node.is(CUT) {
            return;
        }
        for server in node.rrset(rtype::NS).iter().flat_map(|rrset| rrset.data()) {
            if !self.name.set(server) {
                continue;
            }
            let apex_labels = usize::from(self.zone.apex_labels);
            if self.name.above(&self.zone.apex, apex_labels).is_none() {
                continue;
            }
            let found = self.zone.find_place(&self.name, 0);
            if let Some((at, node)) = found.map(|at| (at, self.zone.node(at)))
                && (node.rrset(rtype::A).is_some() || node.rrset(rtype::AAAA).is_some())
            {
                if node.is(OCCLUDED) {
                    self.glue.push(at);
                }
                continue;
            }
            let below = !is_apex && self.name.above(node.name(), labels(node.name())).is_some();
            if below {
                self.faults.add(line, What::NoGlue(Owner::new(server)));
            } else if !self.zone.has_wildcards
                && matches!(
                    self.zone.locate(&self.name, rtype::A),
                    NameMatch::Here(_) | NameMatch::Nowhere(_)
                )
            {
                self.faults.add(line, What::NoAddress(Owner::new(server)));
            }
        }
    }
}
