//! How a server handles messages, whatever the question: malformed ones, EDNS, cookies, sizes, class CH,
//! transfers.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kqps_zone::{Entry, Outcome, ResponderSettings, Silence, Transport};

use super::support::{
    DO, EDNS, IDLE_DS, PLAIN, Server, TCP, fixture, lines, query, records, section, shown, zone,
};

fn server() -> Server {
    Server::new([zone("example.", &fixture("example"))])
}

/// The rcode with the bits of the OPT record, if there is one.
fn rcode(reply: &[u8]) -> u16 {
    domain::base::Message::from_octets(reply).expect("a header").opt_rcode().to_int()
}

fn counts(message: &[u8]) -> [u8; 4] {
    [5, 7, 9, 11].map(|at| message[at])
}

const REFUSED: u16 = 5;
const FORMERR: u16 = 1;

/// Appends an OPT record with these options.
fn with_options(mut query: Vec<u8>, flags: u32, options: &[u8]) -> Vec<u8> {
    query[11] += 1;
    query.extend([0, 0, 41, 4, 208]);
    query.extend(flags.to_be_bytes());
    query.extend((options.len() as u16).to_be_bytes());
    query.extend(options);
    query
}

/// The options in the OPT record of a reply, which comes last.
fn options(reply: &[u8]) -> &[u8] {
    let at = (12..reply.len()).rev().find(|&at| reply[at..].starts_with(&[0, 0, 41])).expect("an OPT record");
    &reply[at + 11..]
}

#[test]
fn some_messages_get_no_reply() {
    let server = &mut server();
    let mut reply = query("www.example. A", &PLAIN);
    reply[2] |= 0x80;
    for (message, silence) in [
        (&reply[..], Silence::IsReply),
        (&reply[..12], Silence::IsReply),
        (&reply[..11], Silence::TooShort),
        (&[], Silence::TooShort),
    ] {
        let (outcome, _) = server.respond(message, Transport::Udp);
        assert!(matches!(outcome, Outcome::Silence(why) if why == silence), "{outcome:?}");
    }
}

#[test]
fn a_reply_keeps_what_it_must_of_the_query() {
    let server = &mut server();
    let query = query("wWw.Example. A", &PLAIN);
    let reply = server.reply(&query, Transport::Udp);
    assert_eq!(reply[..2], query[..2]);
    // QR, AA, RD; no CD, which is for validating servers (RFC 4035, section 3.1.6).
    assert_eq!(reply[2..4], [0x85, 0]);
    assert_eq!(reply[12..query.len()], query[12..]);
    assert_eq!(reply[query.len()..query.len() + 2], [0xc0, 0x0c]);
    let mut flags = query.clone();
    (flags[2], flags[3]) = (0x06, 0xe0);
    assert_eq!(server.reply(&flags, Transport::Udp)[2..4], [0x84, 0]);
}

#[test]
fn other_opcodes_are_not_implemented() {
    let server = &mut server();
    let whole = query("www.example. A", &PLAIN);
    for opcode in 1..16 {
        let mut message = whole.clone();
        message[2] = opcode << 3 | 1;
        let reply = server.reply(&message, Transport::Udp);
        let expected = if opcode == 4 { 9 } else { 4 };
        assert_eq!((rcode(&reply), counts(&reply)), (expected, [1, 0, 0, 0]), "{opcode}");
        assert_eq!(reply[2], 0x80 | opcode << 3 | 1);
        let mut header = message[..12].to_vec();
        header[5] = 0;
        let reply = server.reply(&header, Transport::Udp);
        let expected = if opcode == 4 { 1 } else { 4 };
        assert_eq!((rcode(&reply), reply.len()), (expected, 12), "{opcode}");
    }
}

#[test]
fn what_is_malformed_is_said_to_be() {
    let server = &mut server();
    let good = query("www.example. A", &EDNS);
    let question = 12 + 17;
    let change = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = good.clone();
        change(&mut message);
        message
    };
    // The fault of each message, and whether the question can be kept.
    let cases: [(&str, bool, Vec<u8>); 12] = [
        ("no question", false, change(&|m| m.truncate(12))),
        ("a count of no questions", false, change(&|m| m[5] = 0)),
        ("a count of two questions", false, change(&|m| m[5] = 2)),
        ("a question that is cut short", false, change(&|m| m.truncate(question - 1))),
        ("a pointer as a question", false, change(&|m| m[12] = 0xc0)),
        ("a label of an unknown type", false, change(&|m| m[12] = 0x43)),
        ("bytes behind the last record", true, change(&|m| m.push(0))),
        ("a record that is cut short", true, change(&|m| m.truncate(m.len() - 1))),
        ("a record too few", true, change(&|m| m[11] = 2)),
        ("an OPT record as an answer", true, change(&|m| (m[7], m[11]) = (1, 0))),
        ("two OPT records", true, with_options(good.clone(), 0, &[])),
        (
            "an OPT record that is not the root's",
            true,
            change(&|m| drop(m.splice(question..=question, [1, b'a', 0]))),
        ),
    ];
    for (what, keeps_question, message) in cases {
        let reply = server.reply(&message, Transport::Udp);
        assert_eq!(rcode(&reply), FORMERR, "{what}");
        assert_eq!(counts(&reply)[..3], [u8::from(keeps_question), 0, 0], "{what}");
        assert_eq!(reply[..2], message[..2], "{what}");
    }
    let twice = change(&|m| {
        m[5] = 2;
        m.extend_from_within(12..question);
        m[12..].rotate_right(question - 12);
    });
    let reply = server.reply(&twice, Transport::Udp);
    assert_eq!((rcode(&reply), counts(&reply)), (FORMERR, [0, 0, 0, 1]), "two questions, and the OPT record");
    let pointer = |target: u8| {
        let mut message = query("www.example. A", &PLAIN);
        message[11] = 1;
        message.extend([0xc0, target, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        rcode(&server.reply(&message, Transport::Udp))
    };
    let mut pointer = pointer;
    assert_eq!(pointer(12), 0);
    assert_eq!(pointer(question as u8), FORMERR, "a pointer to itself");
    assert_eq!(pointer(2), FORMERR, "a pointer into the header");
}

#[test]
fn looking_ahead_changes_no_answer() {
    let server = &mut server();
    let mut queries: Vec<Vec<u8>> = ["www", "WWW", "nothing", "x.dname", "alias", "a.b.c.wild", "sub", "www"]
        .iter()
        .flat_map(|name| [&PLAIN, &DO].map(|ask| query(&format!("{name}.example. A"), ask)))
        .collect();
    queries.extend([
        query("example.net. A", &PLAIN),
        query(". NS", &PLAIN),
        vec![0; 12],
        vec![0xff; 40],
        vec![],
    ]);
    queries.push(query("www.example. A", &PLAIN)[..20].to_vec());
    let reply_to = |server: &mut Server, query: &[u8]| {
        let (outcome, buffer) = server.respond(query, Transport::Udp);
        let Outcome::Reply(bytes) = outcome else { return Vec::new() };
        buffer[..bytes].to_vec()
    };
    let expected: Vec<_> = queries.iter().map(|query| reply_to(server, query)).collect();
    assert!(expected.iter().filter(|reply| !reply.is_empty()).count() > 18);
    // In the order that was foreseen, in reverse order, and with some left out.
    for (backwards, step) in [(false, 1), (true, 1), (false, 3)] {
        let mut order: Vec<usize> = (0..queries.len()).step_by(step).collect();
        if backwards {
            order.reverse();
        }
        server.responder.foresee(&server.zones, queries.iter().map(|query| &query[..]));
        for at in order {
            assert_eq!(reply_to(server, &queries[at]), expected[at], "{at}");
        }
    }
}

#[test]
fn edns_is_answered_with_edns() {
    let server = &mut server();
    assert_eq!(counts(&server.reply(&query("www.example. A", &PLAIN), Transport::Udp))[3], 0);
    let reply = server.reply(&query("www.example. A", &DO), Transport::Udp);
    assert_eq!(reply[reply.len() - 11..], [0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 0]);
    // Unknown flags and options.
    let odd = with_options(query("www.example. A", &PLAIN), 0x7fff, &[0xff, 0xf0, 0, 2, 1, 2]);
    let reply = server.reply(&odd, Transport::Udp);
    assert_eq!((rcode(&reply), counts(&reply)), (0, [1, 2, 0, 1]));
    assert_eq!(reply[reply.len() - 6..], [0; 6]);
    // An option that is longer than the record.
    let cut = with_options(query("www.example. A", &PLAIN), 0, &[0, 3, 0, 1]);
    assert_eq!(rcode(&server.reply(&cut, Transport::Udp)), FORMERR);
    let version = with_options(query("www.example. A", &PLAIN), 0x0001_8000, &[0, 3, 0, 1]);
    let reply = server.reply(&version, Transport::Udp);
    assert_eq!((rcode(&reply), counts(&reply)), (16, [1, 0, 0, 1]));
    assert_eq!(reply[reply.len() - 6..], [1, 0, 0x80, 0, 0, 0]);
}

#[test]
fn a_client_by_tcp_that_asks_for_it_gets_the_idle_time() {
    let server = &mut server();
    let mut reply = |transport, options: &[u8]| {
        let asked = with_options(query("www.example. A", &PLAIN), 0, options);
        let reply = server.reply(&asked, transport);
        let opt = kqps_message::edns::find(&reply).unwrap().unwrap();
        assert_eq!((rcode(&reply), opt.end), (0, reply.len()));
        opt.data.to_vec()
    };
    let [high, low] = IDLE_DS.to_be_bytes();
    let answered = [0, 11, 0, 2, high, low];
    // RFC 7828, section 3: the option has no data in a query, is ignored over UDP, and so is one with a time in it.
    assert_eq!(reply(Transport::Tcp, &[0, 11, 0, 0]), answered);
    assert_eq!(reply(Transport::Tcp, &[0, 3, 0, 0, 0, 11, 0, 0]), answered);
    for ignored in [&[][..], &[0, 11, 0, 2, 0, 9], &[0, 11, 0, 1, 7], &[0, 12, 0, 0]] {
        assert_eq!(reply(Transport::Tcp, ignored), [], "{ignored:?}");
    }
    assert_eq!(reply(Transport::Udp, &[0, 11, 0, 0]), []);
}

#[test]
fn replies_are_as_long_as_the_asker_takes() {
    let mut server = server();
    let mut ask = EDNS.clone();
    let question = "big.example. TXT";
    assert_eq!(server.ask(question, &PLAIN), "NOERROR aa tc\n");
    for (bytes, fits) in [(0, false), (512, false), (1232, true), (4096, true)] {
        ask.edns = Some(bytes);
        let reply = server.reply(&query(question, &ask), Transport::Udp);
        assert_eq!(counts(&reply), if fits { [1, 3, 0, 1] } else { [1, 0, 0, 1] }, "{bytes}");
        assert_eq!(reply[2] & 2 == 0, fits);
    }
    assert_eq!(counts(&server.reply(&query(question, &TCP), Transport::Tcp)), [1, 3, 0, 0]);
    // The server's own size, which is 1232 by default, limits a client that receives more.
    let settings = ResponderSettings { udp_payload_bytes: 600, ..ResponderSettings::default() };
    server.responder = kqps_zone::Responder::new(settings);
    assert_eq!(counts(&server.reply(&query(question, &EDNS), Transport::Udp)), [1, 0, 0, 1]);
}

#[test]
fn what_is_optional_goes_first() {
    // Eight servers, half of them within the delegated zone, with names that do not compress.
    let label = "x".repeat(40);
    let mut text = fixture("example");
    for number in 0..8 {
        let above = if number % 2 == 0 { "child.example." } else { "example." };
        let host = format!("{number}{label}.{above}");
        writeln!(text, "child.example. 60 IN NS {host}").unwrap();
        writeln!(text, "{host} 60 IN A 192.0.2.{number}\n{host} 60 IN AAAA 2001:db8::{number}").unwrap();
    }
    let server = &mut Server::new([zone("example.", &text)]);
    let whole = section(&server.reply(&query("a.child.example. A", &TCP), Transport::Tcp), 2).len();
    assert_eq!(whole, 16);
    for bytes in 512..1300 {
        let ask = super::support::Ask { edns: Some(bytes), ..EDNS };
        let reply = server.reply(&query("a.child.example. A", &ask), Transport::Udp);
        assert!(reply.len() <= bytes.into());
        let inside =
            section(&reply, 2).iter().filter(|record| record.owner().to_string().contains("child")).count();
        // All glue within the child or TC (RFC 9471), and then what fits of the rest.
        assert_eq!(reply[2] & 2 == 0, inside == 8, "{bytes}");
    }
}

#[test]
fn hosts_that_do_not_fit_are_left_out_silently() {
    let mut text = fixture("example");
    for number in 0..12 {
        let host = format!("host{number}.many.example.");
        writeln!(text, "many.example. 60 IN MX 1 {host}\n{host} 60 IN AAAA 2001:db8::{number}").unwrap();
    }
    let server = &mut Server::new([zone("example.", &text)]);
    let reply = server.reply(&query("many.example. MX", &PLAIN), Transport::Udp);
    assert_eq!(reply[2] & 2, 0);
    assert_eq!(section(&reply, 0).len(), 12);
    assert!((1..12).contains(&section(&reply, 2).len()));
}

#[test]
fn a_zone_that_did_not_load_is_a_failure() {
    let server = &mut Server::new([
        zone("example.", &fixture("example")),
        Entry::Broken(super::support::wire("sub.example.").into()),
    ]);
    assert_eq!(server.ask("x.sub.example. A", &PLAIN), "SERVFAIL\n");
    assert_eq!(server.ask("www.example. MX", &PLAIN).lines().next(), Some("NOERROR aa"));
    // Only the child's zone is broken.
    assert_eq!(server.ask("sub.example. DS", &PLAIN).lines().next(), Some("NOERROR aa"));
}

#[test]
fn zones_hand_over_to_each_other() {
    let child = "sub.example. 60 IN SOA ns.sub.example. h.example. 9 2 3 4 5\n\
                 sub.example. 60 IN NS ns.sub.example.\n\
                 ns.sub.example. 60 IN A 192.0.2.99\n\
                 deep.sub.example. 60 IN CNAME www.example.";
    let server = &mut Server::new([zone("example.", &fixture("example")), zone("sub.example.", child)]);
    assert_eq!(
        server.ask("tocut.example. A", &PLAIN),
        lines(
            "NOERROR aa
             an deep.sub.example. 60 CNAME www.example.
             an tocut.example. 3600 CNAME deep.sub.example.
             an www.example. 3600 A 192.0.2.3
             an www.example. 3600 A 192.0.2.4"
        )
    );
    // The parent has the DS records, or none (RFC 4035, section 3.1.4.1).
    let soa_of_parent = "ns example. 300 SOA ns1.example. hostmaster.example. 7 7200 3600 1209600 300";
    assert_eq!(server.ask("sub.example. DS", &PLAIN), lines(&format!("NOERROR aa\n{soa_of_parent}")));
    let alone = &mut Server::new([zone("sub.example.", child)]);
    assert!(alone.ask("sub.example. DS", &PLAIN).contains("ns sub.example. 5 SOA"));
}

#[test]
fn classes() {
    let server = &mut server();
    for (class, expected) in
        [(1, "NOERROR aa"), (255, "NOERROR"), (2, "REFUSED"), (3, "REFUSED"), (254, "REFUSED")]
    {
        let ask = super::support::Ask { class, ..PLAIN };
        assert_eq!(server.ask("www.example. A", &ask).lines().next(), Some(expected), "{class}");
    }
    let ask = super::support::Ask { class: 3, ..PLAIN };
    assert_eq!(server.ask("version.bind. TXT", &ask), "REFUSED\n");
    let settings = ResponderSettings {
        version: Some(b"kqps 1"[..].into()),
        identity: Some(b"host"[..].into()),
        nsid: Some(b"nsid"[..].into()),
        ..ResponderSettings::default()
    };
    let server = &mut Server::with([], settings);
    assert_eq!(server.ask("VERSION.bind. TXT", &ask), "NOERROR aa\nan VERSION.bind. 0 TXT \"kqps 1\"\n");
    assert_eq!(server.ask("version.server. TXT", &ask), "NOERROR aa\nan version.server. 0 TXT \"kqps 1\"\n");
    assert_eq!(server.ask("id.server. ANY", &ask), "NOERROR aa\nan id.server. 0 TXT \"host\"\n");
    assert_eq!(server.ask("hostname.bind. A", &ask), "NOERROR aa\n");
    assert_eq!(server.ask("other.bind. TXT", &ask), "REFUSED\n");
    let asking = with_options(query("www.example. A", &PLAIN), 0, &[0, 3, 0, 0]);
    assert_eq!(options(&server.reply(&asking, Transport::Udp)), b"\0\x03\0\x04nsid");
    assert_eq!(options(&server.reply(&query("www.example. A", &EDNS), Transport::Udp)), b"");
}

#[test]
fn cookies() {
    let secret = Some([7; 16]);
    let settings = ResponderSettings { cookie_secret: secret, ..ResponderSettings::default() };
    let server = &mut Server::with([zone("example.", &fixture("example"))], settings.clone());
    let asking = |cookie: &[u8]| {
        let option = [&[0, 10, 0, cookie.len() as u8], cookie].concat();
        with_options(query("www.example. A", &PLAIN), 0, &option)
    };
    let reply = server.reply(&asking(b"12345678"), Transport::Udp);
    assert_eq!(rcode(&reply), 0);
    let cookie = options(&reply)[4..].to_vec();
    assert_eq!((cookie.len(), &cookie[..8]), (24, &b"12345678"[..]));
    assert_eq!(options(&server.reply(&asking(&cookie), Transport::Udp))[4..], cookie);
    for length in [0, 7, 9, 15, 41] {
        let reply = server.reply(&asking(&vec![1; length]), Transport::Udp);
        assert_eq!(rcode(&reply), FORMERR, "{length}");
    }
    let mut forged = cookie.clone();
    forged[23] ^= 1;
    let reply = server.reply(&asking(&forged), Transport::Udp);
    assert_eq!((rcode(&reply), &options(&reply)[4..]), (0, &cookie[..]));

    let nothing = with_options(query("www.example. A", &PLAIN)[..12].to_vec(), 0, b"\0\x0a\0\x0812345678");
    let mut nothing = nothing;
    nothing[5] = 0;
    let reply = server.reply(&nothing, Transport::Udp);
    assert_eq!((rcode(&reply), counts(&reply), &options(&reply)[4..]), (0, [0, 0, 0, 1], &cookie[..]));
    for (server_part, expected) in [(&cookie[8..], 0), (&forged[8..], 23), (&[1; 8], 23)] {
        let mut option = [&[0, 10, 0, 8 + server_part.len() as u8], &b"12345678"[..], server_part].concat();
        let mut nothing = with_options(query("www.example. A", &PLAIN)[..12].to_vec(), 0, &option);
        nothing[5] = 0;
        assert_eq!(rcode(&server.reply(&nothing, Transport::Udp)), expected, "{option:?}");
        // In an unknown version of EDNS, the meaning of a cookie is unknown.
        option[4] ^= 1;
        let reply =
            server.reply(&with_options(query("www.example. A", &PLAIN), 1 << 16, &option), Transport::Udp);
        assert_eq!((rcode(&reply), options(&reply).len()), (16, 0));
    }

    let strict = ResponderSettings { must_cookie_be_good: true, ..settings };
    let server = &mut Server::with([zone("example.", &fixture("example"))], strict);
    let reply = server.reply(&asking(b"12345678"), Transport::Udp);
    assert_eq!((rcode(&reply), counts(&reply)), (23, [1, 0, 0, 1]));
    assert_eq!(rcode(&server.reply(&asking(&cookie), Transport::Udp)), 0);
    assert_eq!(rcode(&server.reply(&asking(b"12345678"), Transport::Tcp)), 0);
    assert_eq!(rcode(&server.reply(&query("www.example. A", &EDNS), Transport::Udp)), 0);
}

#[test]
fn a_signature_is_answered_with_badkey() {
    let server = &mut server();
    let mut message = query("www.example. A", &PLAIN);
    message[11] = 1;
    let at = message.len();
    let tail = [b"\0\0\x01\x02\x03\x04\x01\x2c", &b"\0\x10"[..], &[9; 16], b"\x12\x34\0\0\0\0"].concat();
    let data = [&b"\x0bhmac-sha256\0"[..], &tail].concat();
    message.extend(b"\x03key\0\0\xfa\0\xff\0\0\0\0\0");
    message.push(data.len() as u8);
    message.extend(&data);
    let reply = server.reply(&message, Transport::Udp);
    assert_eq!((rcode(&reply), counts(&reply)), (9, [1, 0, 0, 1]));
    assert!(reply.ends_with(b"\x0bhmac-sha256\0\0\0\x01\x02\x03\x04\x01\x2c\0\0\x12\x34\0\x11\0\0"));
    // With class IN, and with a TTL.
    for (field, value) in [(8, 1), (12, 1)] {
        let mut malformed = message.clone();
        malformed[at + field] = value;
        let reply = server.reply(&malformed, Transport::Udp);
        assert_eq!((rcode(&reply), counts(&reply)), (FORMERR, [1, 0, 0, 0]));
    }
    // A record after it, and one that is truncated.
    message[11] = 2;
    message.extend(b"\0\0\x01\0\x01\0\0\0\0\0\0");
    assert_eq!(rcode(&server.reply(&message, Transport::Udp)), FORMERR);
}

#[test]
fn transfers() {
    let text = fixture("nsec3");
    let settings = ResponderSettings { transfers: true, ..ResponderSettings::default() };
    let server = &mut Server::with([zone("example.", &text)], settings);
    assert_eq!(server.ask("example. AXFR", &PLAIN), "NOTIMP\n");
    assert_eq!(server.ask("example. IXFR", &PLAIN), "FORMERR\n");
    // Over UDP the SOA record shows the client that there is a newer version (RFC 1995, section 2).
    let behind = ixfr(6);
    let reply = shown(&server.reply(&behind, Transport::Udp));
    assert!(reply.starts_with("NOERROR aa\nan example. 3600 SOA") && reply.lines().count() == 2, "{reply}");
    assert_eq!(server.ask("www.example. AXFR", &TCP), "NOTAUTH\n");
    assert_eq!(server.ask("example.net. AXFR", &TCP), "NOTAUTH\n");

    for room in [700, 2000, 65_535] {
        let mut odd = query("example. AXFR", &TCP);
        (odd[2], odd[3]) = (odd[2] | 0x06, 0xff);
        let (outcome, _) = server.respond(&odd, Transport::Tcp);
        let Outcome::Transfer(mut transfer) = outcome else { panic!("{outcome:?}") };
        let mut buffer = vec![0; room];
        let mut sent = Vec::new();
        while let Some(bytes) = transfer.next(&mut buffer) {
            let message = &buffer[..bytes];
            assert_eq!((&message[2..4], counts(message)[0]), (&[0x85, 0][..], 1));
            sent.extend(section(message, 0).iter().map(whole));
        }
        assert!(sent.first() == sent.last() && sent[0].1 == 6);
        sent.pop();
        let expected: BTreeSet<_> = records(&text)
            .into_iter()
            .map(|(_, owner, rtype, ttl_s, data)| (owner, rtype, ttl_s, data))
            .collect();
        assert_eq!(sent.len(), expected.len());
        assert_eq!(sent.into_iter().collect::<BTreeSet<_>>(), expected);
    }

    assert_eq!(shown(&server.reply(&ixfr(7), Transport::Tcp)), reply);
    assert!(matches!(server.respond(&behind, Transport::Tcp).0, Outcome::Transfer(_)));

    let refusing = &mut Server::new([zone("example.", &text)]);
    assert_eq!(rcode(&refusing.reply(&query("example. AXFR", &TCP), Transport::Tcp)), REFUSED);
}

/// A query for the changes since this serial number.
fn ixfr(serial: u8) -> Vec<u8> {
    let mut query = query("example. IXFR", &TCP);
    query[9] = 1;
    query.extend(b"\xc0\x0c\0\x06\0\x01\0\0\0\0\0\x16\0\0\0\0\0");
    query.push(serial);
    query.extend([0; 16]);
    query
}

/// A record with its data in wire form: owner, type, TTL, data.
fn whole(
    record: &domain::base::Record<domain::base::ParsedName<bytes::Bytes>, super::support::Data>,
) -> (Vec<u8>, u16, u32, Vec<u8>) {
    use domain::base::ToName as _;
    use domain::base::rdata::ComposeRecordData as _;
    let (mut owner, mut data) = (Vec::new(), Vec::new());
    record.owner().compose(&mut owner).unwrap();
    record.data().compose_rdata(&mut data).unwrap();
    (owner, record.rtype().to_int(), record.ttl().as_secs(), data)
}
