//! Chains of aliases from one zone to another: where they end without data, and answers that are joined.

use kqps_cache::{Put, Question, Settings, join, unfinished};

use crate::support::{PLAIN, Server, check, reply, wire};

const ALIAS: &str = "NOERROR ad
    an alias.example. 60 IN CNAME www.other.test.
    an www.other.test. 60 IN A 203.0.113.1";
const DATA: &str = "NOERROR
    an www.other.test. 30 IN CNAME end.other.test.
    an end.other.test. 90 IN A 192.0.2.1
    an alias.example. 60 IN A 203.0.113.2";

fn question(name: &[u8]) -> Question<'_> {
    Question { name, rtype: 1, class: 1, dnssec_ok: false, checking_disabled: false }
}

/// The last name of an unfinished chain, in an answer of the server of a zone.
fn ends_at(asked: &str, text: &str, zone: &str) -> Option<Vec<u8>> {
    unfinished(&question(&wire(asked)), &reply(&format!("{asked} A"), text), &wire(zone))
}

#[test]
fn a_chain_that_leaves_its_zone_ends_at_the_name_outside() {
    assert_eq!(ends_at("alias.example.", ALIAS, "example."), Some(wire("www.other.test.")));
    assert_eq!(ends_at("alias.example.", ALIAS, "."), None, "a server for all names completes it");
    for complete in [
        "NOERROR\nan alias.example. 60 IN A 192.0.2.1",
        "NOERROR\nan alias.example. 60 IN CNAME b.example.\nns example. 60 IN SOA ns. host. 1 2 3 4 60",
        "NXDOMAIN\nan alias.example. 60 IN CNAME b.example.\nns example. 60 IN SOA ns. host. 1 2 3 4 60",
        "NOERROR",
    ] {
        assert_eq!(ends_at("alias.example.", complete, "example."), None, "{complete}");
    }
    let in_zone = "NOERROR\nan alias.example. 60 IN CNAME b.example.";
    assert_eq!(ends_at("alias.example.", in_zone, "example."), Some(wire("b.example.")));
}

#[test]
fn joined_answers_have_what_is_of_their_servers_and_answer_the_question() {
    let name = wire("alias.example.");
    let parts = [reply("alias.example. A", ALIAS), reply("www.other.test. A", DATA)];
    let zones = [wire("example."), wire("other.test.")];
    let of_first = (&parts[0][..], &zones[0][..]);
    let whole = join(&question(&name), &[of_first, (&parts[1][..], &zones[1][..])]).expect("it can be read");
    let mut server = Server::new(&Settings::default());
    assert_eq!(server.put_of(".", "alias.example. A", PLAIN, &whole), Put::Kept { ttl_s: 30 });
    let expected = "NOERROR
        an alias.example. 60 CNAME www.other.test.
        an www.other.test. 30 CNAME end.other.test.
        an end.other.test. 90 A 192.0.2.1";
    check(&mut server, "alias.example. A", PLAIN, expected);
    let cut = &parts[1][..parts[1].len() - 1];
    assert_eq!(join(&question(&name), &[of_first, (cut, &zones[1][..])]), None);
}

#[test]
fn a_denial_at_the_end_is_that_of_the_whole() {
    let name = wire("alias.example.");
    let first = reply("alias.example. A", "NOERROR\nan alias.example. 60 IN CNAME gone.test.");
    let last = reply("gone.test. A", "NXDOMAIN\nns test. 20 IN SOA ns.test. host.test. 1 2 3 4 20");
    let (one, other) = (wire("example."), wire("test."));
    let whole = join(&question(&name), &[(&first[..], &one[..]), (&last[..], &other[..])]).unwrap();
    let mut server = Server::new(&Settings::default());
    server.put_of(".", "alias.example. A", PLAIN, &whole);
    let expected = "NXDOMAIN
        an alias.example. 60 CNAME gone.test.
        ns test. 20 SOA ns.test. host.test. 1 2 3 4 20";
    check(&mut server, "alias.example. A", PLAIN, expected);
}
