//! The answers of signed zones: the fixtures that `tests/zones/sign.sh` made.

use kqps_zone::{Entry, Outcome, ResponderSettings, Transport};

use super::support::{DO, EDNS, Server, TCP, fixture, lines, query, section, zone};

fn server(name: &str) -> Server {
    Server::new([zone("example.", &fixture(name))])
}

const SOA: &str = "ns example. 300 RRSIG SOA
    ns example. 300 SOA ns1.example. hostmaster.example. 7 7200 3600 1209600 300";

#[track_caller]
fn check(server: &mut Server, question: &str, expected: &str) {
    assert_eq!(server.ask(question, &DO), lines(&expected.replace("SOA!", SOA)), "{question}");
}

#[test]
fn signatures_come_only_to_those_who_ask() {
    for name in ["nsec", "nsec3", "optout"] {
        let server = &mut server(name);
        check(
            server,
            "www.example. A",
            "NOERROR aa
             an www.example. 3600 A 192.0.2.3
             an www.example. 3600 A 192.0.2.4
             an www.example. 3600 RRSIG A",
        );
        for question in
            ["www.example. A", "nothing.example. A", "x.wild.example. A", "sub.example. A", "www.example. MX"]
        {
            let text = server.ask(question, &EDNS);
            assert!(!text.contains("RRSIG") && !text.contains("NSEC"), "{text}");
        }
        let asked = server.ask("www.example. RRSIG", &EDNS);
        assert!(asked.contains("an www.example. 3600 RRSIG A"), "{asked}");
    }
}

#[test]
fn nsec_denies() {
    let server = &mut server("nsec");
    check(
        server,
        "nothing.example. A",
        "NXDOMAIN aa
         ns example. 300 NSEC _sip._tcp.example. NS SOA MX RRSIG NSEC DNSKEY
         ns example. 300 RRSIG NSEC
         SOA!
         ns mail.example. 300 NSEC ns1.example. A AAAA RRSIG NSEC
         ns mail.example. 300 RRSIG NSEC",
    );
    check(
        server,
        "www.example. MX",
        "NOERROR aa
         SOA!
         ns www.example. 300 NSEC example. A RRSIG NSEC
         ns www.example. 300 RRSIG NSEC",
    );
    check(
        server,
        "x.wild.example. A",
        "NOERROR aa
         an x.wild.example. 3600 A 192.0.2.6
         an x.wild.example. 3600 RRSIG A
         ns there.wild.example. 300 NSEC www.example. TXT RRSIG NSEC
         ns there.wild.example. 300 RRSIG NSEC",
    );
    check(
        server,
        "sub.example. A",
        "NOERROR
         ns sub.example. 300 NSEC svc.example. NS RRSIG NSEC
         ns sub.example. 300 RRSIG NSEC
         ns sub.example. 3600 NS ns.sub.example.
         ns sub.example. 3600 NS ns1.example.
         ar ns.sub.example. 3600 A 192.0.2.7
         ar ns.sub.example. 3600 AAAA 2001:db8::7
         ar ns1.example. 3600 A 192.0.2.1
         ar ns1.example. 3600 AAAA 2001:db8::1
         ar ns1.example. 3600 RRSIG A
         ar ns1.example. 3600 RRSIG AAAA",
    );
    check(
        server,
        "www.example. NSEC",
        "NOERROR aa
         an www.example. 3600 NSEC example. A RRSIG NSEC
         an www.example. 3600 RRSIG NSEC"
            .replace("3600", "300")
            .as_str(),
    );
}

#[test]
fn ds_records_come_with_the_referral() {
    for name in ["nsec", "nsec3", "optout"] {
        let server = &mut server(name);
        let reply = server.ask("x.secure.example. A", &DO);
        assert!(reply.contains("ns secure.example. 3600 DS 12345"), "{reply}");
        assert!(reply.contains("ns secure.example. 3600 RRSIG DS"), "{reply}");
        assert!(!reply.contains("NSEC"), "{reply}");
        let reply = server.ask("secure.example. DS", &DO);
        assert!(reply.starts_with("NOERROR aa\nan secure.example. 3600 DS 12345"), "{reply}");
        assert!(server.ask("sub.example. DS", &DO).contains("NSEC"));
    }
}

#[test]
fn owners_of_nsec3_records_are_no_names() {
    for name in ["nsec3", "optout"] {
        let text = fixture(name);
        let owner = text
            .lines()
            .find(|line| line.contains("NSEC3") && !line.starts_with("example."))
            .and_then(|line| line.split_whitespace().next())
            .expect("an NSEC3 record");
        let reply = server(name).ask(&format!("{owner} NSEC3"), &DO);
        assert!(reply.starts_with("NXDOMAIN aa\n"), "{reply}");
        // Closest encloser, next closer name and wildcard, each signed.
        let proofs = reply.matches(" NSEC3 ").count();
        assert!((2..=3).contains(&proofs), "{reply}");
        assert_eq!(reply.matches("RRSIG NSEC3\n").count(), proofs, "{reply}");
    }
}

#[test]
fn a_denial_that_does_not_fit_is_truncated() {
    let server = &mut server("nsec3");
    let ask = super::support::Ask { edns: Some(512), ..DO };
    let reply = server.reply(&query("a.b.nothing.example. A", &ask), ask.transport);
    assert!(reply.len() <= 512 && reply[2] & 2 != 0);
    assert!(section(&reply, 1).iter().all(|record| record.rtype() != domain::base::iana::Rtype::OPT));
}

/// The number of transferred records of a zone, without one of the SOA records.
fn transferred(zone: Entry) -> usize {
    let settings = ResponderSettings { transfers: true, ..ResponderSettings::default() };
    let mut server = Server::with([zone], settings);
    let (outcome, _) = server.respond(&query("example. AXFR", &TCP), Transport::Tcp);
    let Outcome::Transfer(mut transfer) = outcome else { panic!("{outcome:?}") };
    let mut buffer = vec![0; 65_535];
    let mut records = 0;
    while let Some(bytes) = transfer.next(&mut buffer) {
        records += section(&buffer[..bytes], 0).len();
    }
    records - 1
}

/// A signer that changes from NSEC to NSEC3 announces the new chain when it is whole (RFC 5155, section 10.4).
#[test]
fn a_chain_that_is_not_announced_is_only_transferred() {
    let nsec3 = fixture("nsec3");
    let chain: Vec<&str> = nsec3.lines().filter(|line| line.contains("NSEC3\t")).collect();
    assert!(chain.len() > 20 && !chain.concat().contains("NSEC3PARAM\t"));
    let text = format!("{}{}\n", fixture("nsec"), chain.join("\n"));
    let mut plain = server("nsec");
    let mut changing = Server::new([zone("example.", &text)]);
    for question in [
        "www.example. MX",
        "nothing.example. A",
        "x.wild.example. A",
        "sub.example. A",
        "example. NSEC3PARAM",
    ] {
        let expected = plain.ask(question, &DO);
        assert!(expected.contains(" NSEC "), "{expected}");
        assert_eq!(changing.ask(question, &DO), expected, "{question}");
    }
    assert_eq!(transferred(zone("example.", &text)), text.lines().count());
    // A chain that is announced but missing is not used either.
    let other = text + "example. 0 IN NSEC3PARAM 1 0 7 -\n";
    let expected = plain.ask("nothing.example. A", &DO);
    assert_eq!(Server::new([zone("example.", &other)]).ask("nothing.example. A", &DO), expected);
}

#[test]
fn an_nsec3_record_whose_owner_is_no_hash_is_like_others() {
    let text =
        fixture("nsec3") + "nohash.example. 300 IN NSEC3 1 0 3 AABBCCDD 59Q7LQ5DKQIQBG2L1U57BRQL8EFNUSS4 A\n";
    let answer = Server::new([zone("example.", &text)]).ask("nohash.example. NSEC3", &EDNS);
    assert!(answer.contains("an nohash.example. 300 NSEC3 1 0 3 AABBCCDD"), "{answer}");
    assert_eq!(transferred(zone("example.", &text)), text.lines().count());
}

/// RFC 8482, section 4.1: one RRset with data, even if it comes after those of the zone's signing.
#[test]
fn any_gets_what_stands_there_and_not_the_proof_of_it() {
    let signed = |name: &str, types: &[&str]| {
        let all = types.join("\n").replace('@', name);
        format!(
            "{all}\n{name} 60 IN NSEC z.example. A NSEC\n{name} 60 IN RRSIG NSEC 13 2 60 1 1 1 example. Zm9v\n"
        )
    };
    let text = [
        "example. 60 IN SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 IN NS ns.elsewhere.\n".to_owned(),
        signed("example.", &["@ 60 IN DNSKEY 256 3 13 Zm9v"]),
        signed("svcb.example.", &["@ 60 IN SVCB 1 ."]),
        signed("caa.example.", &["@ 60 IN CAA 0 issue \"x\""]),
        signed("key.example.", &["@ 60 IN CDS 1 13 2 00", "@ 60 IN TLSA 3 1 1 00"]),
        signed("cds.example.", &["@ 60 IN CDS 1 13 2 00"]),
        signed("only.example.", &[]),
    ];
    let server = &mut Server::new([zone("example.", &text.concat())]);
    for (name, expected) in [
        ("example.", "NS"),
        ("svcb.example.", "SVCB"),
        ("caa.example.", "CAA"),
        ("key.example.", "TLSA"),
        ("cds.example.", "CDS"),
        ("only.example.", "NSEC"),
    ] {
        let shown = server.ask(&format!("{name} ANY"), &EDNS);
        let types: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split(' ').nth(3)).collect();
        assert_eq!(types, [expected], "{shown}");
    }
    let whole = server.ask("svcb.example. ANY", &TCP);
    assert_eq!(whole.lines().count(), 4, "{whole}");
}
