//! Queries from a seed. The query with a given index does not depend on the others, so that a query that
//! showed a difference can be asked again alone.

use domain::base::Rtype;
use fastrand::Rng;

use super::fixtures::{self, Owner, ZoneNames};
use super::odd;
use super::query::{AD, CD, Edns, Plain, Query, Question, RD, Transport, option};

/// How many of 100 queries have odd bytes.
const ODD_SHARE: u32 = 12;

/// How many of 100 names in a zone with NSEC3 are owners of such records.
const HASH_SHARE: u32 = 3;

/// The longest name, bytes (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// Labels of names that may not exist, or that a wildcard may match.
const LABELS: [&[u8]; 16] = [
    b"www", b"a", b"nowhere", b"host", b"ns", b"*", b"some", b"zzzz", b"-", b"_tcp", b"0", b"\0", b"\xff",
    b"b", b"x.y", b"deep",
];

/// Types to ask for, whether a name has them or not.
#[rustfmt::skip]
const TYPES: [Rtype; 30] = [
    Rtype::A, Rtype::A, Rtype::A, Rtype::AAAA, Rtype::AAAA, Rtype::NS, Rtype::NS, Rtype::SOA, Rtype::CNAME, Rtype::DNAME,
    Rtype::MX, Rtype::TXT, Rtype::SRV, Rtype::SVCB, Rtype::HTTPS, Rtype::PTR, Rtype::DS, Rtype::DS, Rtype::DS,
    Rtype::DNSKEY, Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::CAA, Rtype::TLSA, Rtype::ANY,
    Rtype::ANY, Rtype::CDS, Rtype::HINFO,
];

/// Types that are no data of a zone: meta types and query types, old and reserved ones (RFC 6895, section
/// 3.1).
const META_TYPES: [u16; 14] = [0, 41, 128, 249, 250, 251, 251, 252, 252, 253, 254, 3, 10, 65535];

pub(super) struct Generator {
    seed: u64,
    zones: Vec<ZoneNames>,
}

impl Generator {
    pub(super) fn new(seed: u64) -> anyhow::Result<Self> {
        Ok(Self { seed, zones: fixtures::known()? })
    }

    /// The query with this index.
    pub(super) fn query(&self, index: u64) -> Query {
        let mut rng = Rng::with_seed(mixed(self.seed, index));
        let plain = self.plain(&mut rng);
        let id = Query::id(index);
        let is_odd = rng.u32(..100) < ODD_SHARE;
        // A server may close a connection after an odd query, which makes such queries slow: few of them use
        // TCP.
        let tcp_share = if is_odd { 1 } else { 15 };
        let is_transfer = [Rtype::AXFR, Rtype::IXFR].contains(&plain.question.rtype());
        let is_tcp = rng.u32(..100) < tcp_share && !is_transfer;
        let transport = if is_tcp { Transport::Tcp } else { Transport::Udp };
        let (mut bytes, mut words) = (plain.bytes(id), plain.words(transport));
        if is_odd {
            words = format!("{words} ({})", odd::make(&plain, &mut bytes, &mut rng));
        }
        Query { index, transport, bytes, words, question: plain.question }
    }

    fn plain(&self, rng: &mut Rng) -> Plain {
        let zone = self.zone(rng);
        let hash = if rng.u32(..100) < HASH_SHARE { rng.choice(&zone.hashes) } else { None };
        let owner = hash.or_else(|| rng.choice(&zone.owners)).expect("each zone has an apex");
        let mut qname = wire(&[&prefix(owner, rng), &zone.origin]);
        if rng.u8(..10) < 3 {
            qname
                .iter_mut()
                .filter(|byte| byte.is_ascii_alphabetic() && rng.bool())
                .for_each(|byte| *byte ^= 0x20);
        }
        let qtype = qtype(owner, rng);
        let bits = [(RD, 50), (CD, 25), (AD, 20)];
        let bits = bits.into_iter().filter(|(_, share)| rng.u16(..100) < *share).map(|(bit, _)| bit).sum();
        let has_soa = qtype == Rtype::IXFR.to_int() && rng.bool();
        let question = Question { qname, qtype, qclass: 1 };
        Plain { question, bits, edns: (rng.u8(..4) != 0).then(|| edns(rng)), has_soa }
    }

    fn zone(&self, rng: &mut Rng) -> &ZoneNames {
        let all: u32 = self.zones.iter().map(|zone| zone.share).sum();
        let mut left = rng.u32(..all);
        self.zones
            .iter()
            .find(|zone| {
                let is_it = left < zone.share;
                left = left.saturating_sub(zone.share);
                is_it
            })
            .expect("the shares were summed up")
    }
}

/// The labels before the origin: those of an owner, or of a name derived from it.
fn prefix(owner: &Owner, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut labels = owner.labels.clone();
    match rng.u8(..100) {
        0..40 => (),
        40..62 => labels.insert(0, label(rng)),
        62..68 => {
            labels.insert(0, label(rng));
            labels.insert(0, label(rng));
        }
        // Names above it may be empty non-terminals.
        68..76 if !labels.is_empty() => drop(labels.drain(..rng.usize(1..=labels.len()))),
        76..88 if !labels.is_empty() => beside(&mut labels[0], rng),
        88..92 => {
            // As long as possible; a DNAME may make it longer.
            for _ in 0..rng.usize(1..8) {
                labels.insert(0, vec![b'l'; rng.usize(1..64)]);
            }
        }
        92..94 => labels = Vec::new(),
        _ => labels = vec![label(rng)],
    }
    labels
}

fn label(rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..4) == 0 {
        let length = rng.usize(1..12);
        let letter = || u8::try_from(rng.lowercase()).expect("a letter of ASCII");
        return std::iter::repeat_with(letter).take(length).collect();
    }
    rng.choice(LABELS).expect("there are some").to_vec()
}

/// Changes a label to one shortly before or after it in canonical order, near the ends of NSEC records.
fn beside(label: &mut Vec<u8>, rng: &mut Rng) {
    match rng.u8(..4) {
        0 if label.len() < 63 => label.push(*rng.choice(&[0, b'-', b'a', 0xff]).expect("there are some")),
        1 if label.len() > 1 => drop(label.pop()),
        2 => {
            let last = label.last_mut().expect("a label is not empty");
            *last = last.wrapping_sub(1);
        }
        _ => {
            let last = label.last_mut().expect("a label is not empty");
            *last = last.wrapping_add(1);
        }
    }
}

/// A name of these labels. Labels that make it too long are left out from the left.
pub(super) fn wire(parts: &[&[Vec<u8>]]) -> Vec<u8> {
    let labels: Vec<&Vec<u8>> = parts.iter().copied().flatten().collect();
    let mut bytes_left = NAME_BYTES_MAX - 1;
    let fitting = labels.iter().rev().take_while(|label| {
        let fits = label.len() < bytes_left;
        bytes_left = bytes_left.saturating_sub(label.len() + 1);
        fits
    });
    let fitting = fitting.count();
    let mut name = Vec::with_capacity(NAME_BYTES_MAX);
    for label in &labels[labels.len() - fitting..] {
        name.push(u8::try_from(label.len()).expect("a label has 63 bytes at most"));
        name.extend(*label);
    }
    name.push(0);
    name
}

fn qtype(owner: &Owner, rng: &mut Rng) -> u16 {
    match rng.u8(..100) {
        0..40 => *rng.choice(&owner.types).expect("an owner has records"),
        40..60 => rng.choice([Rtype::A, Rtype::AAAA]).expect("there are some").to_int(),
        60..95 => rng.choice(TYPES).expect("there are some").to_int(),
        95..98 => *rng.choice(&META_TYPES).expect("there are some"),
        _ => rng.u16(..),
    }
}

fn edns(rng: &mut Rng) -> Edns {
    let udp_payload_bytes = match rng.u8(..100) {
        0..22 => 512,
        22..55 => 1232,
        55..88 => 4096,
        88..90 => 0,
        90..92 => u16::MAX,
        _ => rng.u16(513..2000),
    };
    let mut edns = Edns {
        udp_payload_bytes,
        version: if rng.u8(..50) == 0 { rng.u8(1..) } else { 0 },
        is_do: rng.u8(..10) < 6,
        options: Vec::new(),
        option_words: String::new(),
    };
    let client_cookie: [u8; 8] = rng.u64(..).to_be_bytes();
    let stale_cookie = [&client_cookie[..], &[1; 16]].concat();
    let options: [(u8, u16, &[u8], &str); 7] = [
        (5, 3, &[], "+nsid"),
        (6, 10, &client_cookie, "+cookie"),
        (2, 10, &stale_cookie, "+cookie=(with a server part)"),
        (4, 65001, b"who knows", "+ednsopt=65001"),
        (3, 8, &[0, 1, 24, 0, 192, 0, 2], "+subnet=192.0.2.0/24"),
        (2, 12, &[0; 10], "+padding"),
        (2, 11, &[], "+keepalive"),
    ];
    for (share, code, data, words) in options {
        if rng.u8(..100) < share {
            edns.options.extend(option(code, data));
            edns.option_words += " ";
            edns.option_words += words;
        }
    }
    edns
}

/// The seed of one query (the finaliser of `SplitMix64`, so that near indices give distant seeds).
fn mixed(seed: u64, index: u64) -> u64 {
    let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_depends_on_seed_and_index_alone() {
        let (one, another) = (Generator::new(7).unwrap(), Generator::new(7).unwrap());
        another.query(3);
        assert_eq!(one.query(12345).bytes, another.query(12345).bytes);
        assert_ne!(one.query(12345).bytes[2..], Generator::new(8).unwrap().query(12345).bytes[2..]);
    }

    #[test]
    fn every_kind_of_query_is_made() {
        let generator = Generator::new(1).unwrap();
        let queries: Vec<Query> = (0..20_000).map(|index| generator.query(index)).collect();
        let is_made = |wanted: &dyn Fn(&Query) -> bool| queries.iter().any(wanted);
        for words in ["+bufsize=512", "+edns=", "+cookie", "+nsid", "+tcp", "+dnssec", " ANY", "broken.test."]
        {
            assert!(is_made(&|query| query.words.contains(words)), "{words}");
        }
        assert!(is_made(&|query| query.question.qname.len() == NAME_BYTES_MAX));
        for oddity in odd::names() {
            assert!(is_made(&|query| query.words.ends_with(&format!("({oddity})"))), "{oddity}");
        }
    }

    #[test]
    fn a_name_that_would_be_too_long_loses_labels_on_the_left() {
        let long = vec![b"first1".to_vec(), vec![b'l'; 63], vec![b'l'; 63], vec![b'l'; 63], vec![b'm'; 50]];
        let name = wire(&[&long, &[b"test".to_vec()]]);
        assert_eq!((name.len(), &name[..2]), (249, &b"\x3fl"[..]));
    }
}
