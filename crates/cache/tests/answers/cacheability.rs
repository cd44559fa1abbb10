//! The parts of a reply that are kept, and replies that are not: forged records, records of other zones, chains of
//! aliases, ANY (RFC 8482).

use kqps_cache::{Put, Settings, Why};

use super::support::{DO, PLAIN, Server, check, reply};

const WWW: &str = "www.example. A";
const REPLY: &str = "NOERROR\nan www.example. 60 IN A 192.0.2.1";
const SHOWN: &str = "NOERROR\nan www.example. 60 A 192.0.2.1";

#[test]
fn only_records_that_answer_the_question_are_kept() {
    let text = "NOERROR aa
        an www.example. 60 IN A 192.0.2.1
        an www.bank.test. 60 IN A 203.0.113.1
        an www.example. 60 IN TXT more
        ns example. 60 IN NS ns.example.
        ns bank.test. 60 IN NS ns.example.
        ar ns.example. 60 IN A 203.0.113.2
        ar www.bank.test. 60 IN A 203.0.113.3";
    let mut server = Server::new(&Settings::default());
    server.put(WWW, PLAIN, text);
    check(&mut server, WWW, PLAIN, SHOWN);
    for question in ["www.bank.test. A", "www.example. TXT", "ns.example. A", "bank.test. NS", "example. NS"]
    {
        check(&mut server, question, PLAIN, "miss");
    }
}

#[test]
fn records_outside_the_zone_of_the_server_are_dropped() {
    let question = "alias.example. A";
    let text = "NOERROR
        an alias.example. 60 IN CNAME www.bank.test.
        an www.bank.test. 60 IN A 203.0.113.1";
    let mut server = Server::new(&Settings::default());
    let put = server.put_of("example.", question, PLAIN, &reply(question, text));
    assert_eq!(put, Put::Kept { ttl_s: 60 });
    check(&mut server, question, PLAIN, "NOERROR\nan alias.example. 60 CNAME www.bank.test.");
    server.put(question, PLAIN, text);
    check(&mut server, question, PLAIN, &text.replace(" IN ", " "));
    // The whole answer is outside.
    let outside = "NXDOMAIN\nns test. 60 IN SOA ns. host. 1 2 3 4 60";
    let put = server.put_of("example.", "x.test. A", PLAIN, &reply("x.test. A", outside));
    assert_eq!(put, Put::NotKept(Why::NoSoa));
    let put = server.put_of("ample.", WWW, PLAIN, &reply(WWW, REPLY));
    assert_eq!(put, Put::NotKept(Why::NoSoa), "a zone ends where a label begins");
}

#[test]
fn a_chain_is_followed_in_any_order_and_not_beyond() {
    let text = "NOERROR
        an c.example. 60 IN A 192.0.2.3
        an b.example. 60 IN CNAME C.example.
        an a.example. 60 IN CNAME b.example.
        an d.example. 60 IN A 192.0.2.4";
    let mut server = Server::new(&Settings::default());
    server.put("a.example. A", PLAIN, text);
    let expected = "NOERROR
        an c.example. 60 A 192.0.2.3
        an b.example. 60 CNAME c.example.
        an a.example. 60 CNAME b.example.";
    check(&mut server, "a.example. A", PLAIN, expected);
    server.put("a.example. CNAME", PLAIN, text);
    check(&mut server, "a.example. CNAME", PLAIN, "NOERROR\nan a.example. 60 CNAME b.example.");
}

#[test]
fn a_chain_that_is_a_circle_or_too_long_is_no_answer() {
    let circle = "NOERROR
        an a.example. 60 IN CNAME b.example.
        an b.example. 60 IN CNAME A.example.";
    let itself = "NOERROR\nan a.example. 60 IN CNAME a.example.";
    let mut server = Server::new(&Settings::default());
    for text in [circle, itself] {
        assert_eq!(server.put("a.example. A", PLAIN, text), Put::NotKept(Why::Chain), "{text}");
        check(&mut server, "a.example. A", PLAIN, "miss");
    }
    // The record itself is an answer.
    server.put("a.example. CNAME", PLAIN, circle);
    check(&mut server, "a.example. CNAME", PLAIN, "NOERROR\nan a.example. 60 CNAME b.example.");
    let chain = |aliases: usize| {
        let links =
            (0..aliases).map(|from| format!("\nan {from}.example. 60 IN CNAME {}.example.", from + 1));
        format!("NOERROR{}\nan {aliases}.example. 60 IN A 192.0.2.1", links.collect::<String>())
    };
    assert_eq!(server.put("0.example. A", PLAIN, &chain(17)), Put::NotKept(Why::Chain));
    check(&mut server, "0.example. A", PLAIN, "miss");
    assert_eq!(server.put("0.example. A", PLAIN, &chain(16)), Put::Kept { ttl_s: 60 });
    check(&mut server, "0.example. A", PLAIN, &chain(16).replace(" IN ", " "));
}

#[test]
fn the_dname_record_of_an_alias_is_kept() {
    let text = "NOERROR
        an sub.example. 60 IN DNAME example.net.
        an x.sub.example. 60 IN CNAME x.example.net.
        an x.example.net. 60 IN A 192.0.2.1
        an other.example. 60 IN DNAME example.net.";
    let mut server = Server::new(&Settings::default());
    server.put("x.sub.example. A", PLAIN, text);
    let expected = "NOERROR
        an sub.example. 60 DNAME example.net.
        an x.sub.example. 60 CNAME x.example.net.
        an x.example.net. 60 A 192.0.2.1";
    check(&mut server, "x.sub.example. A", PLAIN, expected);
}

#[test]
fn an_alias_is_what_the_dname_record_above_makes_of_the_name() {
    let right = "NOERROR
        an sub.example. 90 DNAME target.example.
        an x.sub.example. 90 CNAME x.target.example.
        an x.target.example. 60 A 192.0.2.1";
    let wrong = "NOERROR
        an sub.example. 90 IN DNAME target.example.
        an x.sub.example. 90 IN CNAME elsewhere.example.
        an elsewhere.example. 60 IN A 203.0.113.1
        an x.target.example. 60 IN A 192.0.2.1";
    let expired = right.replace("90 CNAME", "0 CNAME");
    let absent: String = right
        .lines()
        .filter(|line| !line.contains("CNAME"))
        .fold(String::new(), |all, line| all + line + "\n");
    let in_class = |text: &str| {
        ["DNAME", "CNAME", "A "].iter().fold(text.to_owned(), |text, rtype| {
            text.replace(&format!("0 {rtype}"), &format!("0 IN {rtype}"))
        })
    };
    for text in [wrong, &in_class(&expired), &in_class(&absent), &in_class(right)] {
        let mut server = Server::new(&Settings::default());
        server.put("x.sub.example. A", PLAIN, text);
        check(&mut server, "x.sub.example. A", PLAIN, right);
        server.put("x.sub.example. CNAME", PLAIN, text);
        let alias = right.rsplit_once('\n').unwrap().0;
        check(&mut server, "x.sub.example. CNAME", PLAIN, alias);
    }
    // The name of the record is no alias.
    let mut server = Server::new(&Settings::default());
    let text = "NOERROR\nan sub.example. 90 IN DNAME target.example.";
    server.put("sub.example. DNAME", PLAIN, text);
    check(&mut server, "sub.example. DNAME", PLAIN, &text.replace(" IN ", " "));
    let around = "NOERROR\nan sub.example. 90 IN DNAME x.sub.example.";
    assert_eq!(server.put("x.sub.example. A", PLAIN, around), Put::NotKept(Why::Chain));
}

#[test]
fn a_name_that_a_dname_record_makes_too_long_has_no_alias() {
    let label = "x".repeat(63);
    let (owner, target) = (format!("{label}.{label}.{label}.sub.example."), format!("{label}.example."));
    let text = |rcode: &str| format!("{rcode}\nan sub.example. 90 IN DNAME {target}");
    let mut server = Server::new(&Settings::default());
    let question = format!("{owner} A");
    assert_eq!(server.put(&question, PLAIN, &text("NOERROR")), Put::NotKept(Why::Malformed));
    assert_eq!(server.put(&question, PLAIN, &text("YXDOMAIN")), Put::NotKept(Why::Rcode(6)));
}

#[test]
fn any_is_answered_with_one_rrset() {
    let text = "NOERROR
        an www.example. 60 IN RRSIG A 13 2 60 20460101000000 20260101000000 59044 example. AAAA
        an www.example. 60 IN A 192.0.2.1
        an www.example. 60 IN A 192.0.2.2
        an www.example. 60 IN TXT more";
    let shown = "an www.example. 60 A 192.0.2.1\nan www.example. 60 A 192.0.2.2";
    let mut server = Server::new(&Settings::default());
    server.put("www.example. ANY", PLAIN, text);
    check(&mut server, "www.example. ANY", PLAIN, &format!("NOERROR\n{shown}"));
    server.put("www.example. ANY", DO, text);
    let expected = format!("NOERROR\nan www.example. 60 RRSIG A\n{shown}");
    check(&mut server, "www.example. ANY", DO, &expected);
    // It is no answer to a question for one type.
    check(&mut server, WWW, PLAIN, "miss");
}

#[test]
fn names_in_data_survive() {
    for (question, record) in [
        ("example. MX", "example. 60 MX 10 mail.example."),
        ("example. NS", "example. 60 NS ns.sub.example."),
        ("_x.example. SRV", "_x.example. 60 SRV 1 2 53 host.example."),
        ("x.example. NAPTR", "x.example. 60 NAPTR 1 2 \"a\" \"b\" \"c\" host.example."),
        (". NS", ". 60 NS a.root-servers.net."),
    ] {
        let mut server = Server::new(&Settings::default());
        let (owner, rest) = record.split_once(" 60 ").unwrap();
        let put = server.put(question, PLAIN, &format!("NOERROR\nan {owner} 60 IN {rest}"));
        assert_eq!(put, Put::Kept { ttl_s: 60 }, "{record}");
        let shown = server.ask(question, PLAIN);
        // Not every type is shown with the dot of the root at the end.
        let wanted = record.trim_end_matches('.');
        assert!(shown.contains(wanted), "{shown} instead of {wanted}");
    }
}

#[test]
fn other_replies_are_not_kept() {
    let mut server = Server::new(&Settings::default());
    let good = reply(WWW, REPLY);
    let changed = |at: usize, value: u8| {
        let mut message = good.clone();
        message[at] = value;
        message
    };
    let refused = b"\0\0\x29\x04\xd0\x01\0\0\0\0\0";
    let mut badvers = [&good[..], refused].concat();
    badvers[11] = 1;
    for (message, why) in [
        (b"".to_vec(), Why::Malformed),
        (good[..11].to_vec(), Why::Malformed),
        (good[..good.len() - 1].to_vec(), Why::Malformed),
        // A query, an update, a reply without a question, one with two, and other questions.
        (changed(2, 0x01), Why::Malformed),
        (changed(2, 0xa8), Why::Malformed),
        (changed(5, 0), Why::OtherQuestion),
        (changed(5, 2), Why::OtherQuestion),
        (changed(13, b'x'), Why::OtherQuestion),
        (changed(26, 28), Why::OtherQuestion),
        (changed(28, 3), Why::OtherQuestion),
        (changed(2, 0x83), Why::Truncated),
        (changed(3, 0x82), Why::Rcode(2)),
        (changed(3, 0x85), Why::Rcode(5)),
        (badvers, Why::Rcode(16)),
    ] {
        assert_eq!(server.put_of(".", WWW, PLAIN, &message), Put::NotKept(why), "{message:x?}");
    }
    let transfer = reply("example. AXFR", "NOERROR\nan example. 60 IN SOA ns. host. 1 2 3 4 60");
    assert_eq!(server.put_of(".", "example. AXFR", PLAIN, &transfer), Put::NotKept(Why::Type));
    assert_eq!(server.cache.counts().entries, 0);
    assert_eq!(server.put_of(".", WWW, PLAIN, &changed(13, b'W')), Put::Kept { ttl_s: 60 });
}

#[test]
fn a_reply_that_needs_more_than_a_segment_is_not_kept() {
    let mut server = Server::new(&Settings { memory_bytes: 64 << 10, ..Settings::default() });
    let text = |records: usize| {
        let record = format!("an www.example. 60 IN TXT {}", "x".repeat(200));
        let records: Vec<_> = (0..records).map(|number| format!("{record}{number}")).collect();
        format!("NOERROR\n{}", records.join("\n"))
    };
    let question = "www.example. TXT";
    assert_eq!(server.put(question, PLAIN, &text(18)), Put::Kept { ttl_s: 60 });
    assert_eq!(server.put(question, PLAIN, &text(19)), Put::NotKept(Why::TooBig));
    check(&mut server, question, PLAIN, "miss");
}
