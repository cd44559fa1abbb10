//! The answers of an unsigned zone, section by section.

use super::support::{DO, EDNS, PLAIN, Server, TCP, fixture, lines, zone};

const SOA: &str = "ns example. 300 SOA ns1.example. hostmaster.example. 7 7200 3600 1209600 300";

fn server() -> Server {
    Server::new([zone("example.", &fixture("example"))])
}

#[track_caller]
fn check(server: &mut Server, question: &str, expected: &str) {
    let expected = lines(&expected.replace("SOA!", SOA));
    assert_eq!(server.ask(question, &PLAIN), expected, "{question}");
    // An unsigned zone gives the same answer with EDNS or DO.
    assert_eq!(server.ask(question, &EDNS), expected, "{question} with EDNS");
    assert_eq!(server.ask(question, &DO), expected, "{question} with DO");
}

#[test]
fn names_that_exist() {
    let server = &mut server();
    check(
        server,
        "www.example. A",
        "NOERROR aa
         an www.example. 3600 A 192.0.2.3
         an www.example. 3600 A 192.0.2.4",
    );
    check(
        server,
        "WwW.ExAmPlE. A",
        "NOERROR aa
         an WwW.ExAmPlE. 3600 A 192.0.2.3
         an WwW.ExAmPlE. 3600 A 192.0.2.4",
    );
    check(server, "www.example. AAAA", "NOERROR aa\nSOA!");
    check(
        server,
        "example. SOA",
        "NOERROR aa
         an example. 3600 SOA ns1.example. hostmaster.example. 7 7200 3600 1209600 300",
    );
    check(
        server,
        "example. NS",
        "NOERROR aa
         an example. 3600 NS ns.elsewhere.test.
         an example. 3600 NS ns1.example.
         ar ns1.example. 3600 A 192.0.2.1
         ar ns1.example. 3600 AAAA 2001:db8::1",
    );
    check(server, "other.example. TYPE65280", "NOERROR aa\nan other.example. 3600 TYPE65280 \\# 3 01 02 03");
    check(server, "example. DS", "NOERROR aa\nSOA!");
}

#[test]
fn names_that_do_not_exist() {
    let server = &mut server();
    check(server, "nothing.example. A", "NXDOMAIN aa\nSOA!");
    check(server, "a.b.c.nothing.example. A", "NXDOMAIN aa\nSOA!");
    check(server, "below.www.example. A", "NXDOMAIN aa\nSOA!");
    // Empty non-terminals exist (RFC 8020).
    check(server, "deep.example. A", "NOERROR aa\nSOA!");
    check(server, "ent.deep.example. A", "NOERROR aa\nSOA!");
    check(server, "ent.deep.example. ANY", "NOERROR aa\nSOA!");
    check(server, "b.ent.deep.example. A", "NXDOMAIN aa\nSOA!");
}

#[test]
fn names_of_others() {
    let server = &mut server();
    for question in ["example.net. A", ". NS", "xexample. A", "elsewhere.test. SOA"] {
        check(server, question, "REFUSED");
    }
}

#[test]
fn wildcards() {
    let server = &mut server();
    check(server, "x.wild.example. A", "NOERROR aa\nan x.wild.example. 3600 A 192.0.2.6");
    check(server, "x.y.wild.example. TXT", "NOERROR aa\nan x.y.wild.example. 3600 TXT \"wild\"");
    check(server, "*.wild.example. A", "NOERROR aa\nan *.wild.example. 3600 A 192.0.2.6");
    check(server, "x.*.wild.example. A", "NXDOMAIN aa\nSOA!");
    check(server, "x.wild.example. AAAA", "NOERROR aa\nSOA!");
    // An existing name, with records or without, is not covered, nor are names below it (RFC 4592, section
    // 2.2.1).
    check(server, "there.wild.example. A", "NOERROR aa\nSOA!");
    check(server, "x.there.wild.example. A", "NXDOMAIN aa\nSOA!");
    check(server, "ent.wild.example. A", "NOERROR aa\nSOA!");
    check(server, "x.ent.wild.example. A", "NXDOMAIN aa\nSOA!");
    check(server, "wild.example. A", "NOERROR aa\nSOA!");
    check(
        server,
        "q.walias.example. A",
        "NOERROR aa
         an q.walias.example. 3600 CNAME x.wild.example.
         an x.wild.example. 3600 A 192.0.2.6",
    );
    check(server, "q.walias.example. CNAME", "NOERROR aa\nan q.walias.example. 3600 CNAME x.wild.example.");
}

#[test]
fn aliases() {
    let server = &mut server();
    check(
        server,
        "one.example. A",
        "NOERROR aa
         an alias.example. 3600 CNAME www.example.
         an one.example. 3600 CNAME two.example.
         an two.example. 3600 CNAME alias.example.
         an www.example. 3600 A 192.0.2.3
         an www.example. 3600 A 192.0.2.4",
    );
    check(server, "alias.example. CNAME", "NOERROR aa\nan alias.example. 3600 CNAME www.example.");
    check(server, "alias.example. AAAA", "NOERROR aa\nan alias.example. 3600 CNAME www.example.\nSOA!");
    check(
        server,
        "loop.example. A",
        "NOERROR aa
         an loop.example. 3600 CNAME pool.example.
         an pool.example. 3600 CNAME loop.example.",
    );
    check(server, "out.example. A", "NOERROR aa\nan out.example. 3600 CNAME www.elsewhere.test.");
    check(
        server,
        "dangling.example. A",
        "NXDOMAIN aa\nan dangling.example. 3600 CNAME nothing.example.\nSOA!",
    );
    check(
        server,
        "tocut.example. A",
        "NOERROR aa
         an tocut.example. 3600 CNAME deep.sub.example.
         ns sub.example. 3600 NS ns.sub.example.
         ns sub.example. 3600 NS ns1.example.
         ar ns.sub.example. 3600 A 192.0.2.7
         ar ns.sub.example. 3600 AAAA 2001:db8::7
         ar ns1.example. 3600 A 192.0.2.1
         ar ns1.example. 3600 AAAA 2001:db8::1",
    );
}

#[test]
fn referrals() {
    let server = &mut server();
    let referral = "NOERROR
         ns sub.example. 3600 NS ns.sub.example.
         ns sub.example. 3600 NS ns1.example.
         ar ns.sub.example. 3600 A 192.0.2.7
         ar ns.sub.example. 3600 AAAA 2001:db8::7
         ar ns1.example. 3600 A 192.0.2.1
         ar ns1.example. 3600 AAAA 2001:db8::1";
    for question in [
        "sub.example. A",
        "sub.example. NS",
        "sub.example. ANY",
        "x.y.sub.example. A",
        "ns.sub.example. A",
        "ns.sub.example. DS",
    ] {
        check(server, question, referral);
    }
    // The parent's side of the cut (RFC 4035, section 3.1.4.1).
    check(server, "sub.example. DS", "NOERROR aa\nSOA!");
    check(
        server,
        "sibling.example. A",
        "NOERROR
         ns sibling.example. 3600 NS ns.elsewhere.test.
         ns sibling.example. 3600 NS ns.sub.example.
         ar ns.sub.example. 3600 A 192.0.2.7
         ar ns.sub.example. 3600 AAAA 2001:db8::7",
    );
}

/// A DNAME record is written once, however often a chain comes below it. A DNAME that leads below itself ends
/// the chain.
fn rename_twice() {
    let text = "example. 300 IN SOA ns1.example. hostmaster.example. 7 7200 3600 1209600 300
        example. 300 IN NS ns1.example.
        d.example. 60 IN DNAME t.example.
        a.t.example. 60 IN CNAME b.d.example.
        b.t.example. 60 IN A 192.0.2.1
        deep.example. 60 IN DNAME x.deep.example.";
    let text: Vec<_> = text.lines().map(str::trim).collect();
    let server = &mut Server::new([zone("example.", &text.join("\n"))]);
    check(
        server,
        "a.d.example. A",
        "NOERROR aa
         an a.d.example. 60 CNAME a.t.example.
         an a.t.example. 60 CNAME b.d.example.
         an b.d.example. 60 CNAME b.t.example.
         an b.t.example. 60 A 192.0.2.1
         an d.example. 60 DNAME t.example.",
    );
    check(
        server,
        "a.deep.example. A",
        "NOERROR aa
         an a.deep.example. 60 CNAME a.x.deep.example.
         an deep.example. 60 DNAME x.deep.example.",
    );
}

#[test]
fn renamed_subtrees() {
    let server = &mut server();
    check(
        server,
        "x.dname.example. A",
        "NOERROR aa
         an dname.example. 3600 DNAME target.example.
         an x.dname.example. 3600 CNAME x.target.example.
         an x.target.example. 3600 A 192.0.2.9",
    );
    check(
        server,
        "a.b.dname.example. A",
        "NXDOMAIN aa
         an a.b.dname.example. 3600 CNAME a.b.target.example.
         an dname.example. 3600 DNAME target.example.
         SOA!",
    );
    check(server, "dname.example. DNAME", "NOERROR aa\nan dname.example. 3600 DNAME target.example.");
    check(server, "dname.example. TXT", "NOERROR aa\nan dname.example. 3600 TXT \"beside\"");
    rename_twice();
    let label = "x".repeat(60);
    let long = format!("{label}.{label}.{label}.{}.dname.example. A", "y".repeat(56));
    check(server, &long, "YXDOMAIN aa\nan dname.example. 3600 DNAME target.example.");
}

#[test]
fn hosts_come_with_their_addresses() {
    let server = &mut server();
    check(
        server,
        "example. MX",
        "NOERROR aa
         an example. 3600 MX 10 mail.example.
         an example. 3600 MX 20 mx.elsewhere.test.
         ar mail.example. 3600 A 192.0.2.2
         ar mail.example. 3600 AAAA 2001:db8::2",
    );
    check(
        server,
        "_sip._tcp.example. SRV",
        "NOERROR aa
         an _sip._tcp.example. 3600 SRV 0 5 5060 mail.example
         ar mail.example. 3600 A 192.0.2.2
         ar mail.example. 3600 AAAA 2001:db8::2",
    );
    check(
        server,
        "svc.example. HTTPS",
        "NOERROR aa
         an svc.example. 3600 HTTPS 1 . alpn=h2
         ar svc.example. 3600 A 192.0.2.10",
    );
    check(
        server,
        "svcalias.example. HTTPS",
        "NOERROR aa
         an svcalias.example. 3600 HTTPS 0 svc.example.
         ar svc.example. 3600 A 192.0.2.10
         ar svc.example. 3600 HTTPS 1 . alpn=h2",
    );
}

#[test]
fn any_is_small_over_udp_and_whole_over_tcp() {
    let server = &mut server();
    check(
        server,
        "mail.example. ANY",
        "NOERROR aa
         an mail.example. 3600 A 192.0.2.2",
    );
    assert_eq!(
        server.ask("mail.example. ANY", &TCP),
        lines(
            "NOERROR aa
             an mail.example. 3600 A 192.0.2.2
             an mail.example. 3600 AAAA 2001:db8::2"
        )
    );
    check(server, "alias.example. ANY", "NOERROR aa\nan alias.example. 3600 CNAME www.example.");
}
