//! Records of replies, and the sets of records that are known.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kqps_message::query::CLASS_IN;
use kqps_message::{Header, canonical, header, name, record, rtype};

use super::Name;

/// Records that only signed zones have.
const DNSSEC: [u16; 7] =
    [rtype::DS, rtype::RRSIG, rtype::NSEC, rtype::DNSKEY, rtype::NSEC3, rtype::NSEC3PARAM, rtype::TSIG];

/// A record of a reply. Names in it are in lower case and not compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) owner: Name,
    pub(super) rtype: u16,
    pub(super) ttl_s: u32,
    pub(super) data: Box<[u8]>,
}

impl Seen {
    /// Whether an address is as long as it must be.
    fn has_its_length(&self) -> bool {
        match self.rtype {
            rtype::A => self.data.len() == 4,
            rtype::AAAA => self.data.len() == 16,
            _ => true,
        }
    }

    /// Whether it is an address.
    pub(super) fn is_address(&self) -> bool {
        [rtype::A, rtype::AAAA].contains(&self.rtype)
    }
}

/// The trust in records, by where they stood (RFC 2181, section 5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Made up by rule.
    Filled,
    /// The additional section.
    Glue,
    /// A referral.
    Referral,
    /// The authority section of an authoritative answer.
    Authority,
    /// An authoritative answer.
    Answer,
}

/// A set of records with one owner and type.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) rank: Rank,
    /// The longest TTL that was seen, seconds: copies in caches have shorter ones.
    pub(super) ttl_s: u32,
    /// The data of each record, in their order.
    pub(super) data: Vec<Box<[u8]>>,
}

/// All sets of records by owner and type.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) sets: BTreeMap<(Name, u16), Set>,
    pub(super) dnssec: u64,
    pub(super) changed: u64,
}

impl Known {
    /// Adds the records of a section. The first of equally trusted sets counts.
    pub(super) fn add(&mut self, records: impl IntoIterator<Item = Seen>, rank: Rank) {
        let mut sets: BTreeMap<(Name, u16), Set> = BTreeMap::new();
        for Seen { owner, rtype, ttl_s, data } in records {
            if rtype == rtype::OPT {
                continue;
            }
            if DNSSEC.contains(&rtype) {
                self.dnssec += 1;
                continue;
            }
            let set = sets.entry((owner, rtype)).or_insert_with(|| Set { rank, ttl_s, data: Vec::new() });
            set.ttl_s = set.ttl_s.max(ttl_s);
            // A name has one of these at most (RFC 2181, section 10.1).
            let is_single = [rtype::CNAME, rtype::DNAME, rtype::SOA].contains(&rtype);
            if !is_single || set.data.is_empty() {
                set.data.push(data);
            }
        }
        for (key, mut set) in sets {
            set.data.sort_unstable();
            set.data.dedup();
            self.put(key, set);
        }
    }

    /// Adds a set of records.
    pub(super) fn put(&mut self, key: (Name, u16), set: Set) {
        match self.sets.get_mut(&key) {
            Some(known) if known.rank >= set.rank => {
                let is_other = known.rank == set.rank && known.data != set.data;
                // The serial of a zone is a number that changes by nature.
                self.changed += u64::from(is_other && key.1 != rtype::SOA);
                known.ttl_s = known.ttl_s.max(set.ttl_s);
            }
            _ => {
                self.sets.insert(key, set);
            }
        }
    }

    pub(super) fn get(&self, owner: &[u8], rtype: u16) -> Option<&Set> {
        self.sets.get(&(Name::from(owner), rtype))
    }

    /// The names of a zone's servers.
    pub(super) fn servers(&self, apex: &[u8]) -> &[Name] {
        self.get(apex, rtype::NS).map_or(&[], |set| &set.data)
    }

    /// The addresses of a name.
    pub(super) fn addresses(&self, owner: &[u8]) -> impl Iterator<Item = IpAddr> {
        let sets = [rtype::A, rtype::AAAA].map(|rtype| self.get(owner, rtype));
        sets.into_iter().flatten().flat_map(|set| &set.data).filter_map(|data| address(data))
    }
}

/// The address of A or AAAA data.
fn address(data: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(data) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(data).ok().map(|octets| Ipv6Addr::from(octets).into())
}

/// The name and the type in a question.
pub(super) type Question = (Name, u16);

/// The question of a reply, and the records of its three sections; `None` if it cannot be read, or is of
/// another class.
pub(super) fn sections(reply: &[u8]) -> Option<(Question, [Vec<Seen>; 3])> {
    let head = Header::from_bytes(reply).filter(|head| head.questions() == 1)?;
    let mut qname = Vec::new();
    let mut at = canonical::append_name(reply, header::HEADER_BYTES, &mut qname)?;
    let &[t0, t1, c0, c1] = reply.get(at..)?.first_chunk::<4>()?;
    at += 4;
    if u16::from_be_bytes([c0, c1]) != CLASS_IN {
        return None;
    }
    let mut sections =
        [head.answers(), head.authorities(), head.additionals()].map(|count| (count, Vec::new()));
    for (count, records) in &mut sections {
        for _ in 0..*count {
            let (record, end) = seen(reply, at)?;
            records.extend(record);
            at = end;
        }
    }
    Some(((qname.into(), u16::from_be_bytes([t0, t1])), sections.map(|(_, records)| records)))
}

/// The record at a place, and the end of it. Records of other classes, as OPT, and addresses of a wrong length are left out.
fn seen(reply: &[u8], at: usize) -> Option<(Option<Seen>, usize)> {
    let found = record::read(reply, at)?;
    if found.class != CLASS_IN {
        return Some((None, found.end));
    }
    let mut bytes = Vec::new();
    canonical::append_record(reply, at, &mut bytes)?;
    let owner_bytes = name::end(&bytes, 0)?;
    // Type and class follow the owner.
    let data: Box<[u8]> = bytes.get(owner_bytes + 4..)?.into();
    let owner = bytes[..owner_bytes].into();
    let seen = Seen { owner, rtype: found.rtype, ttl_s: found.ttl_s, data };
    Some((Some(seen).filter(Seen::has_its_length), found.end))
}
