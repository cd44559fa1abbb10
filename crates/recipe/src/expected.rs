//! The digest of a right answer. It follows from the zone, without asking any server.

use kqps_message::query::CLASS_IN;
use kqps_message::{rcode, rtype};

use super::data::{Data, SERVERS};
use super::layout::Kind;
use super::name::Name;
use super::plan::{Plan, Target, Zone};
use kqps_dataset::Digest;

/// Makes digests, if the recipe asks for them.
pub(super) struct Answers<'a> {
    plan: &'a Plan<'a>,
    asked: bool,
    /// Buffers of one digest, kept for the next.
    owner: Name,
    data: Data,
    record: Vec<u8>,
}

impl<'a> Answers<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, asked: bool) -> Self {
        Self { plan, asked, owner: Name::default(), data: Data::default(), record: Vec::new() }
    }

    /// The digest of an answer without records.
    #[inline]
    pub(super) fn none(&self, rcode: u16, authoritative: bool) -> Option<Digest> {
        self.asked.then(|| Digest::of_none(rcode, authoritative))
    }

    /// The digest of the apex's records of a type, SOA or NS; `None` for other types, which the apex may get
    /// when the zone is signed.
    pub(super) fn of_apex(&mut self, zone: &Zone, qtype: u16) -> Option<Digest> {
        let digest = self.none(rcode::NOERROR, true)?;
        match qtype {
            rtype::SOA => Some(self.and(digest, &zone.origin.wire, qtype, |data| data.soa(zone))),
            rtype::NS => Some(SERVERS.iter().fold(digest, |digest, (label, _)| {
                self.and(digest, &zone.origin.wire, qtype, |data| data.server(zone, label))
            })),
            _ => None,
        }
    }

    /// The digest of an entry's records of a type that the entry has, for a query with this name.
    pub(super) fn of_entry(
        &mut self,
        zone: &Zone,
        kind: Kind,
        number: u64,
        qtype: u16,
        name: &Name,
    ) -> Option<Digest> {
        let digest = self.none(rcode::NOERROR, true)?;
        let plan = self.plan;
        Some(match kind {
            Kind::Alias if qtype == rtype::A => self.of_chain(digest, zone, number, name),
            Kind::Delegation => self.and(digest, &name.wire, qtype, |data| data.ds(zone, number)),
            _ => self.and(digest, &name.wire, qtype, |data| data.of_entry(plan, zone, kind, number)),
        })
    }

    /// The digest of a chain of CNAMEs and the address at its end.
    fn of_chain(&mut self, mut digest: Digest, zone: &Zone, first: u64, name: &Name) -> Digest {
        let plan = self.plan;
        let mut owner = std::mem::take(&mut self.owner);
        owner.clone_from(name);
        let mut target = Target::Alias(first);
        while let Target::Alias(number) = target {
            digest = self.and(digest, &owner.wire, rtype::CNAME, |data| {
                data.of_entry(plan, zone, Kind::Alias, number);
            });
            target = plan.target(number);
            owner.clear();
            plan.append_target(zone, target, &mut owner);
            owner.append(&zone.origin);
        }
        digest = self.and(digest, &owner.wire, rtype::A, |data| match target {
            Target::Address(number) => data.of_entry(plan, zone, Kind::Data(rtype::A), number),
            Target::Server | Target::Alias(_) => data.server_address(SERVERS[0].1),
        });
        self.owner = owner;
        digest
    }

    fn and(&mut self, digest: Digest, owner: &[u8], rtype: u16, write: impl FnOnce(&mut Data)) -> Digest {
        self.data.clear();
        write(&mut self.data);
        self.record.clear();
        self.record.extend_from_slice(owner);
        self.record.extend_from_slice(&rtype.to_be_bytes());
        self.record.extend_from_slice(&CLASS_IN.to_be_bytes());
        self.record.extend_from_slice(&self.data.wire);
        digest.and(&self.record)
    }
}
