//! The search for the answer (RFC 1034, section 4.3.2, with RFC 2181, 4592 and 6672). It goes from zone to zone along
//! aliases, until there are records, nothing, or another server's zone.

use kqps_message::{rcode, rtype};

use crate::name::{self, Name};
use crate::respond::Transport;
use crate::respond::proof::Proofs;
use crate::respond::writer::{Full, Owner, Section, Writer};
use crate::zone::node::{self, Node, Rrset};
use crate::zone::{NameMatch, Zone};
use crate::zones::{Entry, Zones};

/// The most aliases that are followed.
const ALIASES_MAX: usize = 16;

/// The most hosts that are remembered, so that a host is not written several times if several records name it.
pub(crate) const HOSTS_MAX: usize = 32;

/// A reply that is being written.
#[derive(Debug)]
pub(crate) struct Reply<'r, 'z> {
    pub zones: &'z Zones,
    pub writer: Writer<'r>,
    /// The name that is looked up: the question's, or the target of the last alias.
    pub name: &'r mut Name,
    /// The position of that name in the message.
    pub name_at: usize,
    /// Room for another name.
    pub other: &'r mut Name,
    pub qtype: u16,
    pub transport: Transport,
    /// Whether the client wants signatures and proofs.
    pub dnssec_ok: bool,
    /// The proofs, if the client wants them.
    pub proofs: Option<Proofs<'z>>,
    /// Hosts whose addresses have been written, if there are any.
    pub hosts: Option<[Option<Node<'z>>; HOSTS_MAX]>,
    /// DNAME records that have been written, if there are any.
    pub renames: Option<[Option<Node<'z>>; ALIASES_MAX]>,
    pub rcode: u16,
    pub is_authoritative: bool,
    pub is_truncated: bool,
}

/// The content after the answer section.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'z> {
    /// Addresses of hosts that this RRset names.
    Found(&'z Zone, Option<Rrset<'z>>),
    /// The SOA record of the zone that has no answer.
    Nothing(&'z Zone),
    /// The servers of a zone that is delegated at this cut, which comes after this many labels of the name.
    Referral(&'z Zone, Node<'z>, usize),
    Elsewhere,
}

/// The next step of the search.
enum Step<'z> {
    End(End<'z>),
    /// An alias. The name that is looked up has changed.
    Follow,
}

impl<'z> Reply<'_, 'z> {
    /// Answers from `zone`, which contains the question's name.
    #[inline]
    pub(crate) fn answer(&mut self, zone: &'z Zone) {
        let written = self.follow(zone).and_then(|end| {
            self.writer.section(Section::Authority);
            self.authority(end)?;
            self.writer.section(Section::Additional);
            self.additional(end)
        });
        self.is_truncated = written.is_err();
    }

    /// Writes the answer section.
    #[inline]
    fn follow(&mut self, zone: &'z Zone) -> Result<End<'z>, Full> {
        let mut zone = zone;
        let mut seen = [0; ALIASES_MAX];
        for aliases in 0..ALIASES_MAX {
            seen[aliases] = self.name.hash(0);
            let place = zone.locate(self.name, self.qtype);
            // AA refers to the first name (RFC 1035, section 4.1.1).
            if aliases == 0 {
                self.is_authoritative = !matches!(place, NameMatch::Cut(..));
            }
            match self.step(zone, place)? {
                Step::End(end) => return Ok(end),
                Step::Follow => {
                    let Some(Entry::Loaded(next)) = for_name(self.zones, self.name, self.qtype) else {
                        break;
                    };
                    zone = next;
                }
            }
            if seen[..=aliases].contains(&self.name.hash(0)) {
                break;
            }
        }
        Ok(End::Elsewhere)
    }

    #[inline]
    fn step(&mut self, zone: &'z Zone, place: NameMatch<'z>) -> Result<Step<'z>, Full> {
        match place {
            NameMatch::Here(node) => self.at(zone, node, None),
            NameMatch::Wildcard(node, labels) => self.at(zone, node, Some(labels)),
            NameMatch::Cut(node, labels) => Ok(Step::End(End::Referral(zone, node, labels))),
            NameMatch::Dname(node, labels) => self.rename(node, labels),
            NameMatch::Nowhere(labels) => {
                // The last name of a chain decides (RFC 6604, section 3).
                self.rcode = rcode::NXDOMAIN;
                if let Some(proofs) = &mut self.proofs {
                    proofs.no_name(zone, self.name, labels);
                }
                Ok(Step::End(End::Nothing(zone)))
            }
        }
    }

    /// Answers from a node: the name's own, or that of a wildcard for it. For a wildcard, its closest encloser comes
    /// after `wildcard` labels.
    #[inline]
    fn at(&mut self, zone: &'z Zone, node: Node<'z>, wildcard: Option<usize>) -> Result<Step<'z>, Full> {
        let found = match self.qtype {
            rtype::ANY => self.everything(node)?,
            rtype::RRSIG => self.signatures(node)?,
            qtype => match node.rrset(qtype) {
                Some(rrset) => {
                    self.put(&rrset)?;
                    Some(End::Found(zone, Some(rrset)))
                }
                None => None,
            },
        };
        // These two types stand beside a CNAME record, so they do not follow it (RFC 4034, sections 3 and 4).
        let can_follow = !matches!(self.qtype, rtype::RRSIG | rtype::NSEC);
        let alias = if found.is_none() && can_follow && node.is(node::ALIAS) {
            node.rrset(rtype::CNAME)
        } else {
            None
        };
        if let Some(proofs) = &mut self.proofs
            && let Some(labels) = wildcard
            && (found.is_some() || alias.is_some())
        {
            proofs.expanded(zone, self.name, labels);
        }
        if let Some(end) = found {
            return Ok(Step::End(match end {
                End::Elsewhere => End::Found(zone, None),
                end => end,
            }));
        }
        if let Some(alias) = alias {
            self.put(&alias)?;
            self.name_at = self.writer.data_at();
            return Ok(if self.name.set(alias.first()) { Step::Follow } else { Step::End(End::Elsewhere) });
        }
        if let Some(proofs) = &mut self.proofs {
            match wildcard {
                None => proofs.no_data(zone, node, self.name),
                Some(labels) => proofs.wildcard_no_data(zone, node, self.name, labels),
            }
        }
        Ok(Step::End(End::Nothing(zone)))
    }

    #[inline]
    fn put(&mut self, rrset: &Rrset<'_>) -> Result<(), Full> {
        let owner = Owner::new(self.name.wire(), Some(self.name_at));
        self.writer.rrset(owner, rrset, None, self.dnssec_ok)
    }

    /// Answers ANY: over UDP with one RRset, against amplification attacks (RFC 8482, section 4.1); over TCP with
    /// all.
    #[inline(never)]
    fn everything(&mut self, node: Node<'z>) -> Result<Option<End<'z>>, Full> {
        if self.transport == Transport::Udp {
            let with_records = node.rrsets().filter(|rrset| rrset.count > 0);
            // The most useful one, or the first of several.
            let one = with_records.min_by_key(|rrset| use_to_others(rrset.rtype));
            return one.map(|rrset| self.put(&rrset).map(|()| End::Elsewhere)).transpose();
        }
        let mut found = None;
        for rrset in node.rrsets().filter(|rrset| rrset.count > 0 || rrset.signature_count > 0) {
            let owner = Owner::new(self.name.wire(), Some(self.name_at));
            self.writer.rrset(owner, &rrset, None, true)?;
            found = Some(End::Elsewhere);
        }
        Ok(found)
    }

    /// Answers RRSIG: every signature of the name.
    #[inline(never)]
    fn signatures(&mut self, node: Node<'z>) -> Result<Option<End<'z>>, Full> {
        let mark = self.writer.mark();
        let mut owner = Owner::new(self.name.wire(), Some(self.name_at));
        let mut found = None;
        for rrset in node.rrsets().filter(|rrset| rrset.signature_count > 0) {
            if let Err(full) = self.writer.signatures(&mut owner, &rrset) {
                self.writer.back_to(mark);
                return Err(full);
            }
            found = Some(End::Elsewhere);
        }
        Ok(found)
    }

    /// Follows a DNAME record at the name's ancestor after `labels` labels (RFC 6672, section 3).
    #[inline(never)]
    fn rename(&mut self, node: Node<'z>, labels: usize) -> Result<Step<'z>, Full> {
        let Some(dname) = node.rrset(rtype::DNAME) else { return Ok(Step::End(End::Elsewhere)) };
        let (kept, target) = (self.name.start(labels), dname.first());
        let renames = self.renames.get_or_insert([None; ALIASES_MAX]);
        match renames.iter_mut().find(|known| known.is_none_or(|known| known.is_at(node))) {
            // A section must have an RRset only once (RFC 2181, section 5).
            Some(Some(_)) | None => {
                let leads_below_itself = self.other.set(target)
                    && self.other.above(node.name(), name::labels(node.name())).is_some();
                if leads_below_itself {
                    return Ok(Step::End(End::Elsewhere));
                }
            }
            Some(free) => {
                *free = Some(node);
                self.writer.rrset(Owner::Named(node.name()), &dname, None, self.dnssec_ok)?;
            }
        }
        if kept + target.len() > 255 {
            self.rcode = rcode::YXDOMAIN;
            return Ok(Step::End(End::Elsewhere));
        }
        let mut renamed = [0; 255];
        let renamed = &mut renamed[..kept + target.len()];
        renamed[..kept].copy_from_slice(&self.name.wire()[..kept]);
        renamed[kept..].copy_from_slice(target);
        let owner = Owner::new(self.name.wire(), Some(self.name_at));
        self.writer.alias(owner, dname.ttl_s(), renamed)?;
        if self.qtype == rtype::CNAME {
            return Ok(Step::End(End::Elsewhere));
        }
        self.name_at = self.writer.data_at();
        Ok(if self.name.set(renamed) { Step::Follow } else { Step::End(End::Elsewhere) })
    }

    /// Writes the authority section.
    #[inline]
    fn authority(&mut self, end: End<'z>) -> Result<(), Full> {
        match end {
            End::Found(..) | End::Elsewhere => {}
            End::Nothing(zone) => self.soa(zone)?,
            End::Referral(zone, node, labels) => self.referral(zone, node, labels)?,
        }
        for proof in self.proofs.iter().flat_map(Proofs::iter) {
            let mut wire = [0; 255];
            let owner = Owner::Named(proof.owner(&mut wire));
            self.writer.rrset(owner, &proof.rrset, None, true)?;
        }
        Ok(())
    }

    /// Writes the SOA record with the TTL of a negative answer: the smaller of its own and its MINIMUM field (RFC
    /// 2308, section 3).
    fn soa(&mut self, zone: &'z Zone) -> Result<(), Full> {
        let Some(soa) = zone.top().rrset(rtype::SOA) else { return Ok(()) };
        let minimum_s = soa.first().last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let ttl_s = soa.ttl_s().min(minimum_s);
        let labels = zone.above(self.name);
        // The apex is the end of the name that was looked up, which is in the question unchanged.
        let at = (self.name_at == kqps_message::HEADER_BYTES).then(|| self.name_at + self.name.start(labels));
        self.writer.rrset(Owner::new(&zone.apex, at), &soa, Some(ttl_s), self.dnssec_ok)
    }
}

/// The rank of an RRset of this type if one stands for all: first the data of the zone's users, then records of the
/// zone's signing, and last records that only list names and types.
fn use_to_others(rtype: u16) -> u8 {
    const SIG: u16 = 24;
    const KEY: u16 = 25;
    const NXT: u16 = 30;
    const CDS: u16 = 59;
    const CDNSKEY: u16 = 60;
    const CSYNC: u16 = 62;
    const ZONEMD: u16 = 63;
    match rtype {
        rtype::DS | rtype::DNSKEY | KEY | CDS | CDNSKEY | CSYNC | ZONEMD => 1,
        rtype::NSEC3PARAM => 2,
        rtype::NSEC | rtype::NSEC3 | rtype::RRSIG | SIG | NXT => 3,
        _ => 0,
    }
}

/// The zone that answers for a name. For DS records of an apex, it is the parent's, if that is here and delegates the
/// name (RFC 4035, section 3.1.4.1).
#[inline]
pub(crate) fn for_name<'z>(zones: &'z Zones, name: &Name, qtype: u16) -> Option<&'z Entry> {
    let entry = zones.find(name, 0)?;
    if qtype == rtype::DS && entry.apex().len() == name.wire().len() && name.labels() > 0 {
        let parent = zones.find(name, 1);
        if let Some(Entry::Loaded(zone)) = parent
            && matches!(zone.locate(name, rtype::DS), NameMatch::Here(node) if node.is(node::CUT))
        {
            return parent;
        }
    }
    Some(entry)
}
