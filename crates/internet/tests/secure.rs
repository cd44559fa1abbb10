//! Signatures and proofs, checked by an implementation of their own: the test computes what RFC 4034 says is signed.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kqps_internet::{Internet, Kind, Server, ZoneId};
use kqps_message::edns::Edns;
use kqps_message::name::{NameText, is_at_or_below};
use kqps_message::{name, rcode, rtype};
use kqps_zone::{canonical, nsec3_hash, nsec3_letters};

use crate::book::{Book, Rec, Reply, ask, is_signed, small};

/// The key of a zone, from its server's answer, checked by the DS record above.
fn key(internet: &Internet, zone: &[u8]) -> Vec<u8> {
    let mut book = Book::new(internet);
    let key = book.resolve(zone, rtype::DNSKEY).1.pop().expect("a key").data;
    if zone.len() > 1 {
        let ds = book.resolve(zone, rtype::DS).1.pop().expect("a DS record").data;
        let hashed = [zone, &key].concat();
        assert_eq!(&ds[4..], digest(&SHA256, &hashed).as_ref(), "the DS record is of the key");
        assert_eq!(ds[3], 2);
        assert_eq!(ds[2], key[3]);
    }
    key
}

/// The tag of a key (RFC 4034, appendix B).
fn tag(key: &[u8]) -> u16 {
    let sum: u32 =
        key.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    ((sum + (sum >> 16)) & 0xffff) as u16
}

/// Checks a signature of a set.
fn check(set: &[Rec], signature: &Rec, key: &[u8]) {
    let data = &signature.data;
    let signer_end = name::end(data, 18).unwrap();
    let (head, bytes) = data.split_at(signer_end);
    assert_eq!(u16::from_be_bytes([head[0], head[1]]), set[0].rtype);
    assert_eq!(head[2], key[3], "the algorithm of the key");
    assert_eq!(u16::from_be_bytes([head[16], head[17]]), tag(key));
    let mut owner = set[0].owner.clone();
    let labels = |name: &[u8]| NameText(name).to_string().matches('.').count() - usize::from(name.len() == 1);
    while labels(&owner) > usize::from(head[3]) {
        let first = 1 + usize::from(owner[0]);
        owner = owner[first..].to_vec();
        if labels(&owner) == usize::from(head[3]) {
            owner.splice(0..0, *b"\x01*");
            break;
        }
    }
    let mut sorted: Vec<&Rec> = set.iter().collect();
    sorted.sort_by(|one, other| one.data.cmp(&other.data));
    let mut signed = head.to_vec();
    for rec in sorted {
        signed.extend_from_slice(&owner);
        signed.extend_from_slice(&rec.rtype.to_be_bytes());
        signed.extend_from_slice(&[0, 1]);
        signed.extend_from_slice(&head[4..8]);
        signed.extend_from_slice(&(rec.data.len() as u16).to_be_bytes());
        signed.extend_from_slice(&rec.data);
    }
    let public = &key[4..];
    let checked = if key[3] == 13 {
        let point = [&[4][..], public].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(&signed, bytes)
    } else {
        let (e, n) = public[1..].split_at(usize::from(public[0]));
        RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, &signed, bytes)
    };
    assert!(checked.is_ok(), "{} {}", NameText(&set[0].owner), set[0].rtype);
}

/// Checks every set of a reply but delegations and glue. Returns how many signatures there were.
fn check_reply(reply: &Reply, zone: &[u8], key: &[u8]) -> usize {
    let mut count = 0;
    for section in &reply.sections[..2] {
        let mut sets: Vec<Vec<Rec>> = Vec::new();
        for rec in section.iter().filter(|rec| rec.rtype != rtype::RRSIG) {
            match sets.iter_mut().find(|set| set[0].owner == rec.owner && set[0].rtype == rec.rtype) {
                Some(set) => set.push(rec.clone()),
                None => sets.push(vec![rec.clone()]),
            }
        }
        for set in sets {
            let is_delegation = set[0].rtype == rtype::NS && set[0].owner != zone;
            let mut signatures = section.iter().filter(|rec| {
                rec.rtype == rtype::RRSIG
                    && rec.owner == set[0].owner
                    && rec.data[..2] == set[0].rtype.to_be_bytes()
            });
            if is_delegation {
                assert!(signatures.next().is_none(), "a delegation is not signed");
                continue;
            }
            check(&set, signatures.next().unwrap_or_else(|| panic!("{set:?} has no signature")), key);
            count += 1;
        }
    }
    count
}

/// Whether an NSEC record denies a name: the name is between its owner and the next name.
fn nsec_denies(rec: &Rec, denied: &[u8], apex: &[u8]) -> bool {
    let next = &rec.data[..name::end(&rec.data, 0).unwrap()];
    let is_last = next == apex;
    canonical(&rec.owner, denied).is_lt() && (is_last || canonical(denied, next).is_lt())
}

/// Whether an NSEC3 record denies a name.
fn nsec3_denies(rec: &Rec, denied: &[u8]) -> bool {
    let hash = nsec3_letters(&nsec3_hash(denied, b"", 0));
    let own = &rec.owner[1..33];
    let next = nsec3_letters(rec.data[6..26].try_into().unwrap());
    if own < &next[..] { own < &hash[..] && hash < next } else { own < &hash[..] || hash < next }
}

/// Whether an NSEC3 record is that of a name.
fn nsec3_is_of(rec: &Rec, name: &[u8]) -> bool {
    rec.owner[1..33] == nsec3_letters(&nsec3_hash(name, b"", 0))
}

fn above(name: &[u8]) -> &[u8] {
    &name[1 + usize::from(name[0])..]
}

/// Checks that the authority section proves that a name does not exist.
fn check_no_name(reply: &Reply, zone: &[u8], asked: &[u8]) {
    let proofs = |rtype: u16| reply.sections[1].iter().filter(move |rec| rec.rtype == rtype);
    let star = |encloser: &[u8]| [b"\x01*", encloser].concat();
    if proofs(rtype::NSEC).next().is_some() {
        let denied = |name: &[u8]| proofs(rtype::NSEC).any(|rec| nsec_denies(rec, name, zone));
        assert!(denied(asked), "{}", NameText(asked));
        let mut encloser = above(asked);
        while !denied(&star(encloser)) {
            assert!(encloser != zone, "no wildcard is denied for {}", NameText(asked));
            encloser = above(encloser);
        }
        return;
    }
    let mut next_closer = asked;
    while !proofs(rtype::NSEC3).any(|rec| nsec3_is_of(rec, above(next_closer))) {
        next_closer = above(next_closer);
        assert!(is_at_or_below(next_closer, zone) && next_closer != zone, "{}", NameText(asked));
    }
    let denied = |name: &[u8]| proofs(rtype::NSEC3).any(|rec| nsec3_denies(rec, name));
    assert!(denied(next_closer) && denied(&star(above(next_closer))), "{}", NameText(asked));
}

/// Resolves many names, and checks every signature and every proof on the way.
fn check_names(settings: &[&str], names: u64) {
    let internet = small(settings);
    let (mut signatures, mut denials, mut insecure) = (0, 0, 0);
    let mut keys: std::collections::HashMap<Vec<u8>, Option<Vec<u8>>> = std::collections::HashMap::new();
    let mut signed: std::collections::HashSet<Vec<u8>> = (0..internet.zones())
        .map(ZoneId::Site)
        .filter(|id| is_signed(&internet, *id))
        .map(|id| internet.zone_name(id))
        .collect();
    signed.extend(
        (0..100).map(ZoneId::Tld).filter(|id| is_signed(&internet, *id)).map(|id| internet.zone_name(id)),
    );
    signed.insert(vec![0]);
    for number in 0..names {
        let (name, qtype) = internet.question(number);
        let mut book = Book { dnssec_ok: true, ..Book::new(&internet) };
        let (rcode, answers) = book.resolve(&name, qtype);
        let expected = internet.expected(&name, qtype).unwrap();
        assert_eq!((rcode, book.upstream), (expected.rcode, expected.upstream));
        // Servers' names may be in zones that are not signed.
        let aliases = answers.iter().filter(|rec| rec.rtype == rtype::CNAME).map(|rec| &rec.data);
        let names: Vec<&Vec<u8>> = aliases.chain([&name]).collect();
        let mut on_the_way = book.seen.iter().filter(|(_, asked, ..)| names.contains(&asked));
        let are_signed = on_the_way.all(|(zone, ..)| signed.contains(zone));
        let (last_zone, .., last) = book.seen.last().unwrap();
        let is_opt_out = last.sections[1].iter().any(|rec| rec.rtype == rtype::NSEC3 && rec.data[1] == 1)
            && last_zone.len() > 1;
        assert_eq!(are_signed && !is_opt_out, expected.is_secure, "{}", NameText(&name));
        insecure += u32::from(!expected.is_secure);
        for (zone, asked, _, reply) in &book.seen {
            if !signed.contains(zone) {
                assert!(reply.sections.iter().flatten().all(|rec| rec.rtype != rtype::RRSIG));
                continue;
            }
            let key = keys.entry(zone.clone()).or_insert_with(|| Some(key(&internet, zone)));
            signatures += check_reply(reply, zone, key.as_ref().unwrap());
            if reply.rcode == rcode::NXDOMAIN {
                check_no_name(reply, zone, asked);
                denials += 1;
            }
            check_negative(reply, zone, asked);
        }
    }
    assert!(
        signatures > names as usize && denials > 20 && insecure > 50,
        "{signatures} {denials} {insecure}"
    );
}

/// Checks that a referral without DS records and an answer without data are proved.
fn check_negative(reply: &Reply, zone: &[u8], asked: &[u8]) {
    let has = |rtype: u16| reply.sections[1].iter().any(|rec| rec.rtype == rtype);
    let has_proof = has(rtype::NSEC) || has(rtype::NSEC3);
    let is_referral = !reply.is_authoritative;
    if is_referral {
        assert!(has(rtype::DS) != has_proof, "{} {}", NameText(zone), NameText(asked));
    } else if reply.sections[0].is_empty() {
        assert!(has_proof && has(rtype::SOA));
    }
}

#[test]
fn every_signature_and_proof_holds() {
    let mixed = [
        "zone.signed=0.7",
        "tld.signed=0.9",
        "zone.wildcard=0.4",
        "queries.no_name=0.2",
        "queries.no_zone=0.1",
        "queries.no_tld=0.1",
        "queries.types={A=5,AAAA=2,HTTPS=1,MX=1,TXT=1,NS=1,SOA=1,DS=2,DNSKEY=1,SRV=1,CAA=1}",
        "zone.algorithms=[[13,9],[8,1]]",
        "root.algorithm=8",
    ];
    check_names(&mixed, 1500);
}

#[test]
fn the_trust_anchor_is_of_the_root_s_key() {
    for algorithm in ["root.algorithm=8", "root.algorithm=13"] {
        let internet = small(&[algorithm]);
        let key = key(&internet, b"\0");
        let anchor = internet.trust_anchor();
        let data = format!("257 3 {} {}", key[3], STANDARD.encode(&key[4..]));
        assert!(anchor.starts_with(". ") && anchor.ends_with(&format!(" IN DNSKEY {data}\n")), "{anchor}");
    }
    assert_eq!(small(&["root.algorithm=0"]).trust_anchor(), "");
}

#[test]
fn signatures_that_are_asked_for_are_those_of_the_records() {
    let internet = small(&["tld.signed=1"]);
    let at_root = [rtype::NS, rtype::SOA, rtype::DNSKEY, rtype::NSEC];
    let at_tld = [rtype::NS, rtype::SOA, rtype::DNSKEY, rtype::NSEC3PARAM];
    for (server, zone, types) in
        [(Server::Root(0), ZoneId::Root, at_root), (Server::Tld(0, 0), ZoneId::Tld(0), at_tld)]
    {
        let (name, address) = (internet.zone_name(zone), internet.addresses(server)[0]);
        let asked = |qtype| {
            let edns = Edns { dnssec_ok: true, ..Edns::default() };
            ask(&internet, address, (&name, qtype), Some(edns), true).unwrap()
        };
        let reply = asked(rtype::RRSIG);
        assert_eq!((reply.rcode, reply.answered.kind), (rcode::NOERROR, Kind::Answer));
        let expected = types.map(|qtype| {
            let records = asked(qtype).sections[0].clone();
            let mut own = records.into_iter().filter(|rec| rec.rtype == rtype::RRSIG);
            own.next().expect("a signature")
        });
        assert_eq!(reply.sections[0], expected);
    }
}

#[test]
fn signatures_that_were_made_before_are_those_that_are_made_later() {
    let (early, late) = (small(&[]), small(&[]));
    early.prepare(0, 2);
    early.prepare(1, 2);
    let mut replies = [Vec::new(), Vec::new()];
    for number in 0..300 {
        let (name, qtype) = early.question(number);
        for (internet, replies) in [&early, &late].into_iter().zip(&mut replies) {
            let mut book = Book { dnssec_ok: true, ..Book::new(internet) };
            book.resolve(&name, qtype);
            replies.extend(book.seen.into_iter().map(|(.., reply)| reply.sections));
        }
    }
    assert!(replies[0] == replies[1]);
}
