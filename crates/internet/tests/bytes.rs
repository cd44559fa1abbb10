//! Arbitrary bytes.

use std::net::IpAddr;
use std::sync::LazyLock;

use kqps_internet::{Internet, Kind, Server, ZoneId};
use kqps_message::edns::Edns;
use kqps_message::{canonical, rtype};
use proptest::prelude::*;

use crate::book::{query, small};

/// Types that names have, and types that ask for something else.
const TYPES: [u16; 18] = [1, 2, 5, 6, 15, 16, 28, 33, 41, 43, 46, 47, 48, 50, 51, 65, 255, 257];

static INTERNET: LazyLock<Internet> = LazyLock::new(|| small(&["zone.signed=0.5"]));

fn servers() -> Vec<IpAddr> {
    let servers = [Server::Root(0), Server::Tld(0, 0), Server::Tld(1, 1), Server::Company(0, 0)];
    servers.into_iter().flat_map(|server| INTERNET.addresses(server)).collect()
}

/// Asks all of a few servers over both transports, and checks what no reply may lack.
fn check(message: &[u8]) {
    let mut reply = Vec::new();
    for server in servers() {
        for is_tcp in [false, true] {
            let answered = INTERNET.answer(server, message, is_tcp, 0, &mut reply);
            assert_eq!(answered.kind == Kind::Silent, reply.is_empty());
            if !reply.is_empty() {
                assert!(canonical::can_be_read(&reply), "{}", reply.escape_ascii());
                assert!(is_tcp || reply.len() <= 1232);
            }
            let first = reply.clone();
            INTERNET.answer(server, message, is_tcp, 0, &mut reply);
            assert_eq!(first, reply, "the same query has the same reply");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_answered_or_not(message in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&message);
    }

    #[test]
    fn arbitrary_names_are_answered(
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..6),
        zone in 0_u64..1000,
        level in 0..4,
        qtype in prop::sample::select(&TYPES[..]),
        dnssec_ok: bool,
    ) {
        let mut name = Vec::new();
        for label in labels {
            name.push(label.len() as u8);
            name.extend(label);
        }
        name.extend(match level {
            0 => vec![0],
            1 => INTERNET.zone_name(ZoneId::Tld((zone % 100) as u32)),
            2 => INTERNET.zone_name(ZoneId::Company((zone % 50) as u32)),
            _ => INTERNET.zone_name(ZoneId::Site(zone)),
        });
        check(&query(&name, qtype, Some(Edns { dnssec_ok, ..Edns::default() })));
        INTERNET.expected(&name, qtype);
    }

    #[test]
    fn changed_queries_are_answered_or_not(number in 0_u64..1000, at in 0_usize..60, byte: u8) {
        let (name, qtype) = INTERNET.question(number);
        let mut message = query(&name, qtype, Some(Edns { dnssec_ok: true, ..Edns::default() }));
        if let Some(place) = message.get_mut(at) {
            *place = byte;
        }
        check(&message);
    }
}

#[test]
fn the_longest_names_are_answered() {
    let zone = INTERNET.zone_name(ZoneId::Site(3));
    for label in [1, 63] {
        let mut name = Vec::new();
        while name.len() + label + 1 + zone.len() <= 255 {
            name.push(label as u8);
            name.extend(vec![b'x'; label]);
        }
        name.extend_from_slice(&zone);
        for dnssec_ok in [false, true] {
            check(&query(&name, rtype::A, Some(Edns { dnssec_ok, ..Edns::default() })));
        }
    }
}
