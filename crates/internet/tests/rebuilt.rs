//! A tree from the replies that a resolver saw: what they show, and what is filled in by rule.

use std::net::IpAddr;

use kqps_internet::{RebuiltServer, RebuiltTree, SightingCounts, Sightings};
use kqps_message::header::{AA, QR, RD, TC};
use kqps_message::{query, rcode, rtype};

use crate::book::{Book, small, wire};

/// A record: owner, type and data.
type Record<'a> = (&'a str, u16, Vec<u8>);

/// A reply about the address of a name with these flags, rcode and records.
fn reply(qname: &str, codes: (u8, u16), sections: [&[Record<'_>]; 3]) -> Vec<u8> {
    reply_of_type(rtype::A, qname, codes, sections)
}

fn reply_of_type(
    qtype: u16,
    qname: &str,
    (flags, rcode): (u8, u16),
    sections: [&[Record<'_>]; 3],
) -> Vec<u8> {
    let mut message = vec![0, 7, QR | flags, rcode as u8, 0, 1];
    for records in sections {
        message.extend((records.len() as u16).to_be_bytes());
    }
    message.extend(wire(qname));
    message.extend([qtype, query::CLASS_IN].map(u16::to_be_bytes).concat());
    for (owner, rtype, data) in sections.concat() {
        message.extend(wire(owner));
        message.extend([rtype, query::CLASS_IN].map(u16::to_be_bytes).concat());
        message.extend([0, 0, 1, 44]);
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(data);
    }
    message
}

fn a(address: [u8; 4]) -> (u16, Vec<u8>) {
    (rtype::A, address.to_vec())
}

fn record(owner: &str, (rtype, data): (u16, Vec<u8>)) -> Record<'_> {
    (owner, rtype, data)
}

fn ns<'a>(owner: &'a str, server: &str) -> Record<'a> {
    (owner, rtype::NS, wire(server))
}

fn soa(owner: &str) -> Record<'_> {
    let data = [wire("ns."), wire("host."), [0, 0, 0, 7].to_vec(), vec![0; 16]].concat();
    (owner, rtype::SOA, data)
}

/// The tree of these replies, each from a server, and the counts of them.
fn rebuilt(replies: &[(&str, Vec<u8>)]) -> (RebuiltTree, SightingCounts) {
    let mut sightings = Sightings::default();
    for (server, reply) in replies {
        sightings.take(server.parse().unwrap(), reply, Some(3_000_000));
    }
    let counts = sightings.counts();
    (sightings.tree(), counts)
}

/// The text of a zone.
fn zone<'t>(tree: &'t RebuiltTree, name: &str) -> &'t str {
    &tree
        .zones
        .iter()
        .find(|zone| *zone.apex == *wire(name))
        .unwrap_or_else(|| panic!("{name}: {tree:?}"))
        .text
}

/// The names of a server's zones, in wire form.
fn zones_of<'t>(tree: &'t RebuiltTree, address: &str) -> Vec<&'t [u8]> {
    let address: IpAddr = address.parse().unwrap();
    let server = tree.servers.iter().find(|server| server.address == address);
    let RebuiltServer { zones, .. } = server.unwrap_or_else(|| panic!("{address}: {tree:?}"));
    zones.iter().map(|number| &*tree.zones[*number].apex).collect()
}

/// A walk from the root to an answer: the root and `test.` refer, and `example.test.` answers.
fn walk() -> Vec<(&'static str, Vec<u8>)> {
    let glue = |name, last| record(name, a([192, 0, 2, last]));
    vec![
        (
            "198.41.0.4",
            reply("www.example.test.", (0, 0), [&[], &[ns("test.", "ns.test.")], &[glue("ns.test.", 1)]]),
        ),
        (
            "192.0.2.1",
            reply(
                "www.example.test.",
                (0, 0),
                [&[], &[ns("example.test.", "NS1.example.test.")], &[glue("ns1.example.test.", 2)]],
            ),
        ),
        (
            "192.0.2.2",
            reply(
                "www.example.test.",
                (AA, 0),
                [&[record("WWW.example.test.", a([192, 0, 2, 80]))], &[], &[]],
            ),
        ),
    ]
}

#[test]
fn a_walk_from_the_root_is_a_tree() {
    let (tree, counts) = rebuilt(&walk());
    assert_eq!((counts.used, tree.zones.len(), tree.servers.len()), (3, 3, 3));
    assert_eq!(zones_of(&tree, "198.41.0.4"), [&wire(".")[..]]);
    assert_eq!(zones_of(&tree, "192.0.2.1"), [&wire("test.")[..]]);
    assert_eq!(zones_of(&tree, "192.0.2.2"), [&wire("example.test.")[..]]);
    assert!(tree.servers.iter().all(|server| server.delay_ns == 3_000_000));
    let root = zone(&tree, ".");
    assert!(root.starts_with(". 3600 IN SOA "), "{root}");
    assert!(
        root.contains("\ntest. 300 IN NS ns.test.\n") && root.contains("\nns.test. 300 IN A 192.0.2.1\n"),
        "{root}"
    );
    let test = zone(&tree, "test.");
    assert!(test.contains("\nns1.example.test. 300 IN A 192.0.2.2\n"), "the glue: {test}");
    assert!(zone(&tree, "example.test.").contains("\nwww.example.test. 300 IN A 192.0.2.80\n"));
    // The root's servers were not seen by name, and no SOA record was.
    assert_eq!((tree.made_up_names, tree.made_up_soas, tree.invented_zones), (1, 3, 0));
}

#[test]
fn a_denial_names_its_zone() {
    let denied = reply("no.test.", (AA, rcode::NXDOMAIN), [&[], &[soa("test.")], &[]]);
    let (tree, _) = rebuilt(&[("192.0.2.1", denied)]);
    assert_eq!(zones_of(&tree, "192.0.2.1"), [&wire("test.")[..]]);
    assert!(zone(&tree, "test.").starts_with("test. 300 IN SOA ns. host. 7 0 0 0 0\n"));
    // Nothing was seen of the root: it has a server, and refers to the zone, whose server has a made-up name.
    assert_eq!(zones_of(&tree, "198.41.0.4"), [&wire(".")[..]]);
    assert!(zone(&tree, ".").contains("\nns1-filled-in.test. 3600 IN A 192.0.2.1\n"), "{}", zone(&tree, "."));
}

#[test]
fn a_name_without_records_of_a_type_exists() {
    let mut replies = walk();
    let nodata = |name| reply(name, (AA, 0), [&[], &[soa("example.test.")], &[]]);
    replies.push(("192.0.2.2", nodata("bare.example.test.")));
    replies.push(("192.0.2.2", nodata("www.example.test.")));
    let (tree, _) = rebuilt(&replies);
    let text = zone(&tree, "example.test.");
    assert!(text.contains("\nbare.example.test. 3600 IN TYPE65280 \\# 1 00\n"), "{text}");
    assert_eq!(tree.bare_names, 1, "the other name has an address");
}

#[test]
fn the_end_of_aliases_without_records_of_a_type_exists() {
    let alias = |to: &str| ("two.example.test.", rtype::CNAME, wire(to));
    let led_to = |end: &str, authority: &[Record<'_>]| {
        let answer = reply("two.example.test.", (AA, 0), [&[alias(end)], authority, &[]]);
        let mut replies = walk();
        replies.push(("192.0.2.2", answer));
        let (tree, _) = rebuilt(&replies);
        (tree.bare_names, zone(&tree, "example.test.").contains("\nend.example.test. 3600 IN TYPE65280 "))
    };
    assert_eq!(led_to("end.example.test.", &[soa("example.test.")]), (1, true));
    // Nothing is known of names of others.
    assert_eq!(led_to("end.other.", &[soa("example.test.")]), (0, false));
    assert_eq!(led_to("end.other.", &[]), (0, false));
}

#[test]
fn a_server_that_answers_for_the_ds_records_of_a_zone_has_the_zone_above() {
    let ds = ("example.test.", rtype::DS, vec![0; 36]);
    for (answer, authority) in [(vec![ds], vec![]), (vec![], vec![soa("test.")])] {
        let mut replies = walk();
        let reply = reply_of_type(rtype::DS, "example.test.", (AA, 0), [&answer, &authority, &[]]);
        replies.push(("192.0.2.1", reply));
        let (tree, _) = rebuilt(&replies);
        assert_eq!(zones_of(&tree, "192.0.2.1"), [&wire("test.")[..]]);
        assert_eq!(zones_of(&tree, "192.0.2.2"), [&wire("example.test.")[..]]);
    }
    // A server that has the zone alone denies them itself.
    let mut replies = walk();
    let denied = reply_of_type(rtype::DS, "example.test.", (AA, 0), [&[], &[soa("example.test.")], &[]]);
    replies.push(("192.0.2.2", denied));
    let (tree, _) = rebuilt(&replies);
    assert_eq!(zones_of(&tree, "192.0.2.2"), [&wire("example.test.")[..]]);
}

#[test]
fn a_server_whose_name_is_an_alias_keeps_its_address() {
    let mut replies = walk();
    let alias = ("ns.test.", rtype::CNAME, wire("other.test."));
    replies.push(("192.0.2.1", reply("ns.test.", (AA, 0), [&[alias], &[], &[]])));
    let (tree, _) = rebuilt(&replies);
    assert_eq!((tree.contradictions, tree.zones_without_server), (1, 0));
    assert_eq!(zones_of(&tree, "192.0.2.1"), [&wire("test.")[..]]);
}

#[test]
fn records_that_no_zone_can_have_are_left_out() {
    let odd = ("www.example.test.", rtype::A, vec![192, 0, 2]);
    let alias = |to: &str| ("two.example.test.", rtype::CNAME, wire(to));
    let mut replies = walk();
    replies.push(("192.0.2.2", reply("www.example.test.", (AA, 0), [&[odd], &[], &[]])));
    let two = [alias("a.test."), alias("b.test.")];
    replies.push(("192.0.2.2", reply("two.example.test.", (AA, 0), [&two, &[], &[]])));
    let (tree, _) = rebuilt(&replies);
    let text = zone(&tree, "example.test.");
    assert!(text.contains(" A 192.0.2.80\n") && text.matches(" CNAME ").count() == 1, "{text}");
}

#[test]
fn an_answer_below_an_unknown_zone_gets_one() {
    // The resolver knew the servers of test. and of b.test. before the capture began.
    let answer = |name, last| reply(name, (AA, 0), [&[record(name, a([192, 0, 2, last]))], &[], &[]]);
    let mut replies = walk();
    replies.push(("192.0.2.3", answer("www.b.test.", 81)));
    replies.push(("192.0.2.3", answer("mail.b.test.", 82)));
    replies.push(("192.0.2.4", answer("www.b.other.", 83)));
    let (tree, _) = rebuilt(&replies);
    assert_eq!(zones_of(&tree, "192.0.2.3"), [&wire("b.test.")[..]]);
    assert_eq!(zones_of(&tree, "192.0.2.4"), [&wire("other.")[..]], "one label below the root");
    assert_eq!(tree.invented_zones, 2);
    assert!(zone(&tree, "b.test.").contains("\nmail.b.test. 300 IN A 192.0.2.82\n"));
    assert!(zone(&tree, "test.").contains("\nb.test. 3600 IN NS ns1-filled-in.b.test.\n"));
}

#[test]
fn servers_whose_names_have_no_address_get_those_that_answered() {
    let mut replies = walk();
    let cut = ns("c.test.", "ns.elsewhere.");
    replies.push(("192.0.2.1", reply("www.c.test.", (0, 0), [&[], &[cut], &[]])));
    replies
        .push(("192.0.2.9", reply("www.c.test.", (AA, 0), [&[record("www.c.test.", a([1; 4]))], &[], &[]])));
    replies.push(("192.0.2.1", reply("d.test.", (0, 0), [&[], &[ns("d.test.", "ns.nowhere.")], &[]])));
    let (tree, _) = rebuilt(&replies);
    assert_eq!(zones_of(&tree, "192.0.2.9"), [&wire("c.test.")[..]]);
    assert_eq!((tree.made_up_addresses, tree.zones_without_server), (1, 1), "nobody ever asked for d.test.");
    assert!(zone(&tree, ".").contains("\nns.elsewhere. 3600 IN A 192.0.2.9\n"), "{}", zone(&tree, "."));
}

#[test]
fn replies_that_show_nothing_are_counted_by_their_reason() {
    let record = || record("a.test.", a([1; 4]));
    let with = |flags, rcode| reply("a.test.", (flags, rcode), [&[record()], &[], &[]]);
    let upward = reply("a.test.", (0, 0), [&[], &[ns(".", "a.root-servers.net.")], &[]]);
    let replies =
        [with(AA | RD, 0), with(AA | TC, 0), with(0, rcode::SERVFAIL), with(0, 0), upward, vec![0; 5]];
    let (_, counts) = rebuilt(&replies.map(|reply| ("192.0.2.1", reply)));
    let wanted = SightingCounts {
        recursive: 1,
        truncated: 1,
        failed: 1,
        without_authority: 2,
        malformed: 1,
        ..SightingCounts::default()
    };
    assert_eq!(counts, wanted);
}

#[test]
fn the_first_of_two_answers_counts_and_glue_gives_way() {
    let mut replies = walk();
    let answer = |last| {
        reply("www.example.test.", (AA, 0), [&[record("www.example.test.", a([192, 0, 2, last]))], &[], &[]])
    };
    replies.push(("192.0.2.2", answer(99)));
    let own = record("ns.test.", a([192, 0, 2, 77]));
    replies.push(("192.0.2.1", reply("ns.test.", (AA, 0), [&[own], &[], &[]])));
    let (tree, counts) = rebuilt(&replies);
    assert_eq!(counts.changed, 1);
    assert!(zone(&tree, "example.test.").contains(" 192.0.2.80\n"));
    // Both addresses have the zone: the glue's server answered, and the answer named another one.
    assert!(zone(&tree, ".").contains("\nns.test. 300 IN A 192.0.2.77\n"), "{}", zone(&tree, "."));
    assert_eq!(zones_of(&tree, "192.0.2.77"), [&wire("test.")[..]]);
    assert_eq!(zones_of(&tree, "192.0.2.1"), [&wire("test.")[..]]);
}

#[test]
fn no_zone_is_signed_and_an_alias_stands_alone() {
    let alias = || ("www.example.test.", rtype::CNAME, wire("edge.test."));
    let signature = ("www.example.test.", rtype::RRSIG, vec![0; 20]);
    let mut replies = walk();
    replies.push(("192.0.2.2", reply("www.example.test.", (AA, 0), [&[alias(), signature], &[], &[]])));
    let (tree, counts) = rebuilt(&replies);
    assert_eq!((counts.dnssec, tree.contradictions), (1, 1));
    let text = zone(&tree, "example.test.");
    assert!(text.contains("\nwww.example.test. 300 IN CNAME edge.test.\n"), "{text}");
    assert!(!text.contains("RRSIG") && !text.contains(" A 192.0.2.80"), "{text}");
}

#[test]
fn all_zones_of_a_whole_walk_are_there() {
    let internet = small(&["root.algorithm=0"]);
    let mut sightings = Sightings::default();
    for number in 0..300 {
        let (qname, qtype) = internet.question(number);
        let mut book = Book::new(&internet);
        book.resolve(&qname, qtype);
        for (server, reply) in book.heard {
            sightings.take(server, &reply, None);
        }
    }
    let counts = sightings.counts();
    assert_eq!(SightingCounts { used: 0, ..counts }, SightingCounts::default(), "{counts:?}");
    let tree = sightings.tree();
    let fills = (tree.invented_zones, tree.made_up_addresses, tree.contradictions);
    assert_eq!(fills, (0, 0, 0));
    for server in &tree.servers {
        for number in &server.zones {
            let apex = &*tree.zones[*number].apex;
            let mut answer = Vec::new();
            let asked = crate::book::query(apex, rtype::SOA, None);
            internet.answer(server.address, &asked, false, 0, &mut answer);
            let rcode = answer[3] % 16;
            assert!(answer.len() > 7 && rcode == 0, "{} has no {apex:?}", server.address);
        }
    }
}
