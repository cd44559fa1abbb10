//! Replies of servers as clients get them: none that cannot be read, TTLs within the limits, and aliases that follow from
//! DNAME records.

use super::upstream::{Upstream, address, alias, empty, question_end};
use super::{asks, cache, stop, ttl_s};
use crate::auth::dns::{A, SOA, ask};
use crate::auth::{NOERROR, NXDOMAIN, SERVFAIL};

const NS: u16 = 2;
const MX: u16 = 15;
const SRV: u16 = 33;
const DNAME: u16 = 39;

/// A record with this owner.
fn record(owner: &[u8], rtype: u16, ttl_s: u32, data: &[u8]) -> Vec<u8> {
    let fixed = [&rtype.to_be_bytes()[..], &[0, 1], &ttl_s.to_be_bytes()].concat();
    [owner, &fixed, &(data.len() as u16).to_be_bytes(), data].concat()
}

/// A reply with this record in a section: 0 for answers, 1 for the authority section, 2 for additional records.
fn with(query: &[u8], section: usize, record: &[u8]) -> Vec<u8> {
    let mut reply = address(query, 300, 7);
    reply[7 + 2 * section] += 1;
    if section == 0 {
        let end = question_end(&reply);
        reply.splice(end..end, record.iter().copied());
    } else {
        reply.extend(record);
    }
    reply
}

#[test]
fn a_reply_with_a_name_that_cannot_be_read_is_a_failure() {
    let cases = [
        ("owner", A, 0),
        ("cname", 5, 0),
        ("ns", NS, 0),
        ("ns", NS, 1),
        ("mx", MX, 0),
        ("mx", MX, 2),
        ("soa", SOA, 1),
        ("srv", SRV, 0),
        ("dname", DNAME, 0),
        ("a", A, 0),
    ];
    // A name that points to itself, behind itself, and past the end.
    for pointer in 0..3 {
        let upstream = Upstream::new(move |asked| {
            let labels: Vec<&str> = asked.name.split('.').collect();
            let section: usize = labels[1].parse().unwrap();
            let kind = labels[0];
            if kind == "good" {
                return vec![with(&asked.query, section, &record(b"\x01x\xc0\x0c", A, 300, &[192, 0, 2, 8]))];
            }
            let records_at = if section == 0 { 0 } else { 16 };
            let at = question_end(&asked.query) + records_at;
            let name = |at: usize| match pointer {
                0 => (0xc000 | at as u16).to_be_bytes(),
                1 => (0xc000 | (at + 2) as u16).to_be_bytes(),
                _ => [0xff, 0xff],
            };
            let data_at = at + 12;
            let owner = [0xc0, 12];
            let made = match kind {
                "owner" => record(&name(at), A, 300, &[192, 0, 2, 9]),
                "a" => record(&owner, A, 300, &[192, 0, 2]),
                "mx" => record(&owner, MX, 300, &[&[0, 10][..], &name(data_at + 2)].concat()),
                "srv" => record(&owner, SRV, 300, &[&[0; 6][..], &name(data_at + 6)].concat()),
                "soa" => record(&owner, SOA, 300, &[&[0][..], &name(data_at + 1), &[0; 20]].concat()),
                "cname" => record(&owner, 5, 300, &name(data_at)),
                "ns" => record(&owner, NS, 300, &name(data_at)),
                _ => record(&owner, DNAME, 300, &name(data_at)),
            };
            vec![with(&asked.query, section, &made)]
        });
        let server = cache(&[&upstream.flag()], &[]);
        let at = server.addresses[0];
        for (id, (kind, rtype, section)) in (0..).zip(cases) {
            for rtype in [rtype, A] {
                let reply = ask(at, &asks(id, &format!("{kind}.{section}.test"), rtype));
                assert_eq!((reply.rcode(), reply.answers()), (SERVFAIL, 0), "{kind} in {section}, {pointer}");
            }
        }
        for section in 0..3 {
            let reply = ask(at, &asks(99, &format!("good.{section}.test"), A));
            assert_eq!((reply.rcode(), reply.answers()), (NOERROR, 1), "{section}");
        }
        stop(server);
    }
}

#[test]
fn ttls_are_within_the_limits_whether_the_answer_is_kept_or_not() {
    let upstream = Upstream::new(|asked| {
        let query = &asked.query;
        vec![match asked.name.split('.').next().unwrap() {
            "half" => address(query, 1 << 31, 7),
            "all" => address(query, u32::MAX, 7),
            "week" => address(query, 604_800, 7),
            "denied" => {
                let mut reply = empty(query, NXDOMAIN);
                reply[9] = 1;
                reply.extend(record(&[0], SOA, u32::MAX, &[&[0; 18][..], &[0xff; 4]].concat()));
                reply
            }
            // An alias with TTL 0, for which the address is not kept.
            _ => {
                let mut reply = alias(query, "b.test");
                let end = reply.len();
                reply[end - 14..end - 10].fill(0);
                reply[7] = 2;
                reply.extend(record(b"\x01b\x04test\0", A, 604_800, &[192, 0, 2, 7]));
                reply
            }
        }]
    });
    let server = cache(&[&upstream.flag()], &["--max-ttl", "1h"]);
    let at = server.addresses[0];
    for (id, (name, ttl)) in (0..).zip([("half", 0), ("all", 0), ("week", 3600), ("denied", 0)]) {
        let reply = ask(at, &asks(id, &format!("{name}.test"), A));
        let place = question_end(&reply.0) + if name == "denied" { 5 } else { 6 };
        assert_eq!(reply.0[place..place + 4], u32::to_be_bytes(ttl), "{name}");
    }
    for id in 10..12 {
        let reply = ask(at, &asks(id, "zero.test", A));
        assert_eq!((reply.answers(), ttl_s(&reply)), (2, 0));
        let end = reply.0.len();
        assert_eq!(reply.0[end - 10..end - 6], 3600_u32.to_be_bytes(), "beside an alias with TTL 0");
    }
    assert_eq!(upstream.asked(), 6, "answers with TTL 0 are not kept");
    stop(server);
}

#[test]
fn an_alias_below_a_dname_record_follows_from_it() {
    let upstream = Upstream::new(|asked| {
        let query = &asked.query;
        if !asked.name.ends_with("sub.test") {
            return vec![address(query, 300, 7)];
        }
        let mut reply = empty(query, 0);
        let sub = b"\x03sub\x04test\0";
        let said: &[u8] = if asked.name.starts_with("wrong") {
            b"\x09elsewhere\x04test\0"
        } else {
            b"\x05right\x06target\x04test\0"
        };
        reply.extend(record(sub, DNAME, 300, b"\x06target\x04test\0"));
        reply.extend(record(&[0xc0, 12], 5, 0, said));
        reply.extend(record(b"\x09elsewhere\x04test\0", A, 300, &[203, 0, 113, 1]));
        reply[7] = 3;
        vec![reply]
    });
    let server = cache(&[&format!("test={}", upstream.flag())], &[]);
    for (id, name) in (0..).zip(["wrong", "right", "wrong"]) {
        let reply = ask(server.addresses[0], &asks(id, &format!("{name}.sub.test"), A));
        let records = reply.records();
        let types: Vec<u16> = records.iter().map(|(rtype, _)| *rtype).collect();
        assert_eq!((reply.rcode(), types), (NOERROR, vec![DNAME, 5, A]), "{name}");
        assert_eq!(records[2].1, [192, 0, 2, 7], "{name}");
    }
    // Two names below the record, and their two targets. The alias has the TTL of the DNAME record, so it is kept.
    assert_eq!(upstream.asked(), 4);
    stop(server);
}
