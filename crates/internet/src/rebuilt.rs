//! A tree from what a resolver saw: the replies of name servers become zones, and servers that have them.
//!
//! [`Sightings`] takes reply by reply. [`zones`] finds the zones, their servers and the records of each, and fills in by rule
//! what no reply showed; [`text`] writes them as master files. Records of DNSSEC are left out: their signatures would have
//! expired when the tree is served.

mod record;
mod text;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kqps_message::name::is_at_or_below;
use kqps_message::{Header, edns, rcode, rtype};

use record::{Known, Question, Rank, Seen, sections};
pub use zones::{RebuiltServer, RebuiltTree, RebuiltZone};

/// The most delays of a server that are kept for their median.
const DELAYS_MOST: usize = 1000;

/// The name of the root in wire form.
pub(crate) const ROOT: &[u8] = &[0];

/// A name in wire form, in lower case.
pub(crate) type Name = Box<[u8]>;

/// Zones, servers and records that replies showed. Names are in lower case.
#[derive(Debug, Default)]
pub struct Sightings {
    /// The records of authoritative answers, of authority sections, and of glue.
    known: Known,
    /// Names of zones: those that servers have, and those to which referrals led.
    apexes: BTreeSet<Name>,
    /// Zone → servers whose replies show that they have it.
    serving: BTreeMap<Name, BTreeSet<IpAddr>>,
    /// Names for which servers answered with authority.
    answering: BTreeSet<(Name, IpAddr)>,
    /// Names just above the zones to which servers referred.
    referring: BTreeSet<(Name, IpAddr)>,
    /// Names that exist, as answers without records of the type show (NODATA).
    existing: BTreeSet<Name>,
    /// Server → delays of its replies, nanoseconds.
    delays_ns: BTreeMap<IpAddr, Vec<u64>>,
    counts: SightingCounts,
}

/// The replies of servers, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SightingCounts {
    /// Replies that show something of the tree.
    pub used: u64,
    /// Replies to queries with RD: those of a resolver to its clients, or of a forwarder's server.
    pub recursive: u64,
    /// Truncated replies, which a resolver repeats by TCP.
    pub truncated: u64,
    /// Replies with an rcode other than NOERROR and NXDOMAIN.
    pub failed: u64,
    /// Replies without authority and without a referral: of caches, or of servers that lack the zone.
    pub without_authority: u64,
    /// Replies that cannot be read, or without a question of class IN.
    pub malformed: u64,
    /// Records of DNSSEC, which are left out.
    pub dnssec: u64,
    /// Sets of records that a later reply showed otherwise. The first one counts.
    pub changed: u64,
}

impl Sightings {
    /// The counts so far.
    pub fn counts(&self) -> SightingCounts {
        SightingCounts { dnssec: self.known.dnssec, changed: self.known.changed, ..self.counts }
    }

    /// Takes a reply of the server at an address, which came so many nanoseconds after its query if that is known.
    pub fn take(&mut self, server: IpAddr, reply: &[u8], delay_ns: Option<u64>) {
        let counted = match self.taken(server, reply) {
            Ok(()) => {
                let delays_ns = self.delays_ns.entry(server).or_default();
                delays_ns.extend(delay_ns.filter(|_| delays_ns.len() < DELAYS_MOST));
                &mut self.counts.used
            }
            Err(why) => match why {
                Unused::Recursive => &mut self.counts.recursive,
                Unused::Truncated => &mut self.counts.truncated,
                Unused::Failed => &mut self.counts.failed,
                Unused::WithoutAuthority => &mut self.counts.without_authority,
                Unused::Malformed => &mut self.counts.malformed,
            },
        };
        *counted += 1;
    }

    fn taken(&mut self, server: IpAddr, reply: &[u8]) -> Result<(), Unused> {
        let header = Header::from_bytes(reply).filter(|header| header.is_reply()).ok_or(Unused::Malformed)?;
        if header.wants_recursion() {
            return Err(Unused::Recursive);
        }
        if header.is_truncated() {
            return Err(Unused::Truncated);
        }
        let rcode = edns::rcode(header, reply);
        if ![rcode::NOERROR, rcode::NXDOMAIN].contains(&rcode) {
            return Err(Unused::Failed);
        }
        let ((qname, qtype), [answer, authority, additional]) = sections(reply).ok_or(Unused::Malformed)?;
        if header.is_authoritative() && !is_referral(&qname, &answer, &authority) {
            self.existing.extend(bare_name(&qname, &answer, &authority).filter(|_| rcode == rcode::NOERROR));
            self.take_answer(server, (qname, qtype), (answer, authority, additional));
            return Ok(());
        }
        match cut(&qname, &authority).filter(|_| answer.is_empty()) {
            Some(cut) => {
                self.take_referral(server, cut, (authority, additional));
                Ok(())
            }
            None => Err(Unused::WithoutAuthority),
        }
    }

    /// A server answered with authority, or denied.
    fn take_answer(
        &mut self,
        server: IpAddr,
        (qname, qtype): Question,
        (answer, authority, additional): (Vec<Seen>, Vec<Seen>, Vec<Seen>),
    ) {
        for record in &authority {
            // Only a zone above the name is the server's.
            if [rtype::SOA, rtype::NS].contains(&record.rtype) && is_at_or_below(&qname, &record.owner) {
                self.has_zone(&record.owner, server);
            }
        }
        for record in &answer {
            if record.rtype == rtype::SOA && record.owner == qname {
                self.has_zone(&record.owner, server);
            }
        }
        // Only the zone of the name in question is surely the server's own, and not those to which an alias leads.
        let (own, led_to): (Vec<Seen>, Vec<Seen>) =
            answer.into_iter().partition(|record| record.owner == qname);
        // The zone above has the DS records of a zone (RFC 4035, section 2.4). A server that lacks the zone above
        // denies them from the zone itself.
        let is_own = authority.iter().any(|record| record.rtype == rtype::SOA && record.owner == qname);
        let is_above = qtype == rtype::DS && !is_own;
        let held = if is_above { parent(&qname).unwrap_or(ROOT).into() } else { qname };
        self.answering.insert((held, server));
        self.known.add(own, Rank::Answer);
        self.known.add(led_to, Rank::Authority);
        self.known.add(authority, Rank::Authority);
        self.known.add(additional.into_iter().filter(Seen::is_address), Rank::Glue);
    }

    /// A server referred to a zone below its own.
    fn take_referral(&mut self, server: IpAddr, cut: Name, (authority, additional): (Vec<Seen>, Vec<Seen>)) {
        // The server has the zone above the cut, whose name this reply does not show.
        if let Some(above) = parent(&cut) {
            self.referring.insert((above.into(), server));
        }
        let of_cut = authority.into_iter().filter(|record| record.rtype == rtype::NS && record.owner == cut);
        self.known.add(of_cut, Rank::Referral);
        self.known.add(additional.into_iter().filter(Seen::is_address), Rank::Glue);
        self.apexes.insert(cut);
    }

    fn has_zone(&mut self, apex: &Name, server: IpAddr) {
        self.apexes.insert(apex.clone());
        self.serving.entry(apex.clone()).or_default().insert(server);
    }
}

/// Why a reply shows nothing of the tree.
enum Unused {
    Recursive,
    Truncated,
    Failed,
    WithoutAuthority,
    Malformed,
}

/// Whether a reply refers to a zone below, although it has the AA bit: some servers set it in referrals.
fn is_referral(qname: &[u8], answer: &[Seen], authority: &[Seen]) -> bool {
    let has_soa = authority.iter().any(|record| record.rtype == rtype::SOA);
    answer.is_empty() && !has_soa && cut(qname, authority).is_some()
}

/// The zone to which a reply about a name refers. A referral to the root leads nowhere: servers that lack a zone send it.
fn cut(qname: &[u8], authority: &[Seen]) -> Option<Name> {
    let servers = authority.iter().find(|record| record.rtype == rtype::NS)?;
    let leads_on = *servers.owner != *ROOT && is_at_or_below(qname, &servers.owner);
    leads_on.then(|| servers.owner.clone())
}

/// The name of which an answer denies records of the type alone (NODATA; RFC 2308, section 2.2): the one in question, or the end
/// of its aliases if that is in the server's zone.
fn bare_name(qname: &Name, answer: &[Seen], authority: &[Seen]) -> Option<Name> {
    let mut end = qname;
    // No chain is longer than its records.
    for _ in answer {
        let is_alias = |record: &&Seen| record.rtype == rtype::CNAME && record.owner == *end;
        let Some(alias) = answer.iter().find(is_alias) else { break };
        end = &alias.data;
    }
    let is_above = |record: &Seen| record.rtype == rtype::SOA && is_at_or_below(end, &record.owner);
    let is_own = answer.is_empty() || authority.iter().any(is_above);
    (is_own && answer.iter().all(|record| record.owner != *end)).then(|| end.clone())
}

/// The name above a name; `None` above the root.
pub(crate) fn parent(name: &[u8]) -> Option<&[u8]> {
    match name.split_first() {
        Some((&label, rest)) if label > 0 => rest.get(usize::from(label)..),
        _ => None,
    }
}

/// The zone that a name is in, of several: the longest of its own name and those above it.
pub(crate) fn zone_of<'n>(apexes: &BTreeSet<Name>, name: &'n [u8]) -> &'n [u8] {
    let mut at = name;
    while !apexes.contains(at) {
        match parent(at) {
            Some(above) => at = above,
            None => break,
        }
    }
    at
}
