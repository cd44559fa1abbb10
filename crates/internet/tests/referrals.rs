//! Replies of servers, one by one: who answers what, and how.

use std::net::IpAddr;

use kqps_internet::{Internet, Kind, Level, Server, ZoneId};
use kqps_message::edns::Edns;
use kqps_message::name::is_at_or_below;
use kqps_message::{rcode, rtype};

use crate::book::{Reply, ask, servers, small, wire};

fn at(internet: &Internet, server: Server, name: &[u8], qtype: u16) -> Reply {
    let address = internet.addresses(server)[0];
    ask(internet, address, (name, qtype), Some(Edns::default()), false).expect("a reply")
}

#[test]
fn a_server_answers_for_its_own_zone_alone() {
    let internet = small(&[]);
    for number in 0..300 {
        let name = internet.zone_name(ZoneId::Site(number));
        let mut kinds = Vec::new();
        for tld in 0..100 {
            let reply = at(&internet, Server::Tld(tld, 0), &name, rtype::A);
            let is_own = is_at_or_below(&name, &internet.zone_name(ZoneId::Tld(tld)));
            assert_eq!(reply.answered.kind == Kind::Referral, is_own);
            assert_eq!(reply.rcode, if is_own { rcode::NOERROR } else { rcode::REFUSED });
            assert_eq!(reply.answered.level, if is_own { Level::Tld } else { Level::Nothing });
            kinds.push(reply.answered.kind);
        }
        assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Referral).count(), 1);
        let hosts = (0..50).filter(|&company| {
            at(&internet, Server::Company(company, 0), &name, rtype::SOA).answered.kind == Kind::Answer
        });
        assert_eq!(hosts.count(), 1, "one company hosts a zone");
        let reply = at(&internet, Server::Root(0), &name, rtype::A);
        assert_eq!((reply.answered.kind, reply.answered.level), (Kind::Referral, Level::Root));
    }
    assert_eq!(at(&internet, Server::Company(0, 0), b"\0", rtype::NS).rcode, rcode::REFUSED);
    assert_eq!(at(&internet, Server::Tld(0, 0), b"\0", rtype::NS).rcode, rcode::REFUSED);
}

#[test]
fn a_referral_has_servers_glue_and_no_authority() {
    let internet = small(&["root.algorithm=0"]);
    let [mut with_glue, mut without] = [0; 2];
    for number in 0..500 {
        let name = internet.zone_name(ZoneId::Site(number));
        let tld = (0..100).find(|&tld| is_at_or_below(&name, &internet.zone_name(ZoneId::Tld(tld)))).unwrap();
        let above = internet.zone_name(ZoneId::Tld(tld));
        let reply = at(&internet, Server::Tld(tld, 0), &[b"\x03www", &*name].concat(), rtype::A);
        assert!(!reply.is_authoritative && reply.sections[0].is_empty());
        let servers = &reply.sections[1];
        assert!(servers.len() >= 2 && servers.iter().all(|rec| rec.rtype == rtype::NS && rec.owner == name));
        for rec in &reply.sections[2] {
            assert!(servers.iter().any(|server| server.data == rec.owner), "glue is of a server");
            assert!(is_at_or_below(&rec.owner, &above), "glue is in the zone of the server that gives it");
            assert!(matches!(rec.rtype, rtype::A | rtype::AAAA));
        }
        // Servers in the zone itself need glue, all of them (RFC 9471).
        for server in servers.iter().filter(|server| is_at_or_below(&server.data, &name)) {
            assert!(reply.sections[2].iter().any(|rec| rec.rtype == rtype::A && rec.owner == server.data));
        }
        if reply.sections[2].is_empty() { without += 1 } else { with_glue += 1 }
    }
    assert!(with_glue > 50 && without > 50, "{with_glue} {without}");
}

/// Whether an address is in a prefix of 1 bit or more.
fn holds((prefix, bits): (IpAddr, u8), address: IpAddr) -> bool {
    match (prefix, address) {
        (IpAddr::V4(prefix), IpAddr::V4(address)) => {
            (prefix.to_bits() ^ address.to_bits()) >> (32 - bits) == 0
        }
        (IpAddr::V6(prefix), IpAddr::V6(address)) => {
            (prefix.to_bits() ^ address.to_bits()) >> (128 - bits) == 0
        }
        _ => false,
    }
}

#[test]
fn every_server_has_its_own_address_and_other_addresses_have_none() {
    let internet = small(&[]);
    let servers = servers(&internet);
    assert!(servers.len() > 13 + 200 + 100);
    let mut addresses = std::collections::HashSet::new();
    for &server in &servers {
        for address in internet.addresses(server) {
            assert_eq!(internet.server(address), Some(server));
            assert!(addresses.insert(address));
            let prefixes = internet.prefixes();
            assert!(prefixes.iter().any(|prefix| holds(*prefix, address)), "{address}");
        }
    }
    for address in
        ["198.18.0.1", "198.19.255.255", "192.0.2.1", "2001:2::1", "::1", "255.255.255.255", "2001:2:0:1::20"]
    {
        let address = address.parse().unwrap();
        assert!(internet.server(address).is_none(), "{address}");
        assert!(ask(&internet, address, (b"\0", rtype::NS), None, false).is_none());
    }
}

#[test]
fn the_root_answers_a_priming_query_with_all_addresses() {
    let internet = small(&["root.algorithm=0"]);
    let reply = at(&internet, Server::Root(3), b"\0", rtype::NS);
    assert_eq!((reply.sections[0].len(), reply.sections[2].len()), (13, 26));
    assert!(reply.is_authoritative && reply.has_opt);
}

#[test]
fn a_reply_that_is_too_long_is_truncated() {
    let internet = small(&["tld.servers=[13,13]", "root.algorithm=0"]);
    let name = internet.zone_name(ZoneId::Tld(0));
    let root = internet.addresses(Server::Root(0))[0];
    let short = ask(&internet, root, (&name, rtype::A), None, false).unwrap();
    assert!(short.is_truncated && short.bytes <= 512 && !short.has_opt);
    assert_eq!(short.answered.kind, Kind::Truncated);
    assert!(short.sections.iter().all(Vec::is_empty));
    let stream = ask(&internet, root, (&name, rtype::A), None, true).unwrap();
    assert!(!stream.is_truncated && stream.bytes > 512);
    assert_eq!(stream.sections[1].len(), 13);
    let edns = Edns { udp_payload_bytes: 65_535, ..Edns::default() };
    let wide = ask(&internet, root, (&name, rtype::A), Some(edns), false).unwrap();
    assert!(!wide.is_truncated && wide.bytes <= 1232 && wide.has_opt);
}

#[test]
fn messages_that_are_no_questions_are_answered_as_such() {
    let internet = small(&[]);
    let root = internet.addresses(Server::Root(0))[0];
    let asked = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut query = crate::book::query(&wire("a.test."), rtype::A, Some(Edns::default()));
        change(&mut query);
        let mut reply = Vec::new();
        let answered = internet.answer(root, &query, false, 0, &mut reply);
        (answered.kind, reply.get(3).map(|byte| byte & 15))
    };
    assert_eq!(asked(&|_| {}), (Kind::NxDomain, Some(3)));
    assert_eq!(asked(&|query| query[2] = 0x80), (Kind::Silent, None), "a reply");
    assert_eq!(asked(&|query| query.truncate(11)), (Kind::Silent, None));
    assert_eq!(asked(&|query| query[2] = 0x28), (Kind::NotImp, Some(4)), "an update");
    assert_eq!(asked(&|query| query.truncate(20)), (Kind::FormErr, Some(1)));
    assert_eq!(asked(&|query| query[5] = 0), (Kind::FormErr, Some(1)), "no question");
    assert_eq!(asked(&|query| query[22] = 3), (Kind::Refused, Some(5)), "another class");
    assert_eq!(asked(&|query| query[21] = 252), (Kind::Refused, Some(5)), "a transfer");
    let end = 12 + 8 + 4;
    assert_eq!(asked(&|query| query[end + 6] = 1), (Kind::FormErr, Some(0)), "another version of EDNS");
}
