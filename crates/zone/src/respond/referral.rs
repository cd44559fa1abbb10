//! Referrals: the servers of a delegated zone, whether it is signed, and the addresses of its servers.

use kqps_message::rtype;

use crate::name;
use crate::respond::answer::{End, HOSTS_MAX, Reply};
use crate::respond::shape;
use crate::respond::writer::{Full, Owner};
use crate::zone::denial::Denial;
use crate::zone::node::{Node, OCCLUDED, Rrset};
use crate::zone::{NameMatch, Zone};

impl<'z> Reply<'_, 'z> {
    /// Writes the NS records of the cut at `node`, which comes after `labels` labels of the name. Also writes
    /// its DS records or the proof that it has none (RFC 4035, section 3.1.4).
    pub(crate) fn referral(&mut self, zone: &'z Zone, node: Node<'z>, labels: usize) -> Result<(), Full> {
        let Some(servers) = node.rrset(rtype::NS) else { return Ok(()) };
        let at = (self.name_at == kqps_message::HEADER_BYTES).then(|| self.name_at + self.name.start(labels));
        let owner = Owner::new(node.name(), at);
        self.writer.rrset(owner, &servers, None, false)?;
        if let Some(proofs) = &mut self.proofs {
            match node.rrset(rtype::DS) {
                Some(ds) if !matches!(zone.denial, Denial::None) => {
                    self.writer.rrset(owner, &ds, None, true)?;
                }
                // An unsigned zone has no proofs.
                Some(_) => {}
                None => proofs.unsigned(zone, node, self.name, labels),
            }
        }
        Ok(())
    }

    /// Writes the additional section. Only the addresses of servers within the delegated zone are required (RFC
    /// 9471). Others are left out if there is no room.
    #[inline]
    pub(crate) fn additional(&mut self, end: End<'z>) -> Result<(), Full> {
        match end {
            End::Found(zone, Some(rrset)) => {
                if let Some(host_at) = shape::host(rrset.rtype) {
                    self.hosts(zone, &rrset, host_at);
                }
                Ok(())
            }
            End::Referral(zone, node, _) => self.glue(zone, node),
            End::Found(_, None) | End::Nothing(_) | End::Elsewhere => Ok(()),
        }
    }

    fn glue(&mut self, zone: &'z Zone, cut: Node<'z>) -> Result<(), Full> {
        let Some(servers) = cut.rrset(rtype::NS) else { return Ok(()) };
        let cut_labels = name::labels(cut.name());
        for must in [true, false] {
            for server in servers.data() {
                if !self.other.set(server) || !self.is_in(zone) {
                    continue;
                }
                let is_inside = self.other.above(cut.name(), cut_labels).is_some();
                let Some(node) = (is_inside == must).then(|| zone.find(self.other, 0)).flatten() else {
                    continue;
                };
                let written = self.addresses(node, server);
                if must {
                    written?;
                }
            }
        }
        Ok(())
    }

    /// Writes the addresses of hosts in the data of records, at `host_at` bytes of the data.
    fn hosts(&mut self, zone: &'z Zone, rrset: &Rrset<'z>, host_at: usize) {
        for data in rrset.data() {
            if !data.get(host_at..).is_some_and(|host| self.other.set(host)) {
                continue;
            }
            let is_service = shape::is_service(rrset.rtype);
            if is_service && self.other.labels() == 0 {
                // The target "." is the owner itself. In an alias, it means that there is no service.
                if data.starts_with(&[0, 0]) {
                    continue;
                }
                let owner = self.name.wire();
                self.other.set(owner);
            }
            if !self.is_in(zone) {
                continue;
            }
            let node = match zone.locate(self.other, rtype::A) {
                NameMatch::Here(node) => node,
                // A client that wants proofs would also need a proof for a wildcard.
                NameMatch::Wildcard(node, _) if !self.dnssec_ok => node,
                NameMatch::Cut(..) => match zone.find(self.other, 0) {
                    Some(glue) => glue,
                    None => continue,
                },
                _ => continue,
            };
            let mut wire = [0; 255];
            let length = self.other.wire().len();
            wire[..length].copy_from_slice(self.other.wire());
            let host = &wire[..length];
            // An alias leads to the records of the same type at its target (RFC 9460, section 4.1).
            if is_service
                && data.starts_with(&[0, 0])
                && !name::same(host, self.name.wire())
                && let Some(next) = node.rrset(rrset.rtype)
            {
                let _ = self.writer.rrset(Owner::Named(host), &next, None, self.dnssec_ok);
            }
            let _ = self.addresses(node, host);
        }
    }

    /// Whether the other name is in the zone.
    fn is_in(&self, zone: &Zone) -> bool {
        self.other.above(&zone.apex, usize::from(zone.apex_labels)).is_some()
    }

    /// Writes the addresses of a host, all or none of each family. Glue has no signatures.
    fn addresses(&mut self, node: Node<'z>, host: &[u8]) -> Result<(), Full> {
        let hosts = self.hosts.get_or_insert([None; HOSTS_MAX]);
        match hosts.iter_mut().find(|known| known.is_none_or(|known| known.is_at(node))) {
            Some(Some(_)) => return Ok(()),
            Some(free) => *free = Some(node),
            None => {}
        }
        let with_signatures = self.dnssec_ok && !node.is(OCCLUDED);
        let mut outcome = Ok(());
        for rtype in [rtype::A, rtype::AAAA] {
            if let Some(rrset) = node.rrset(rtype) {
                let written = self.writer.rrset(Owner::Named(host), &rrset, None, with_signatures);
                outcome = outcome.and(written);
            }
        }
        outcome
    }
}
