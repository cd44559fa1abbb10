//! Negative answers (RFC 2308).

use kqps_cache::{Put, Settings, Why};

use super::support::{DO, PLAIN, Server, check};

/// A SOA record, which lives for 3600 s, and whose field MINIMUM is 300.
const SOA: &str = "ns example. 3600 IN SOA ns1.example. hostmaster.example. 7 7200 3600 1209600 300";
const SOA_SHOWN: &str = "ns example. 300 SOA ns1.example. hostmaster.example. 7 7200 3600 1209600 300";

#[test]
fn a_name_that_does_not_exist_has_no_type() {
    let mut server = Server::new(&Settings::default());
    let put = server.put("no.example. A", PLAIN, &format!("NXDOMAIN aa\n{SOA}"));
    assert_eq!(put, Put::Kept { ttl_s: 300 });
    for question in ["no.example. A", "no.example. AAAA", "NO.example. TXT"] {
        check(&mut server, question, PLAIN, &format!("NXDOMAIN\n{SOA_SHOWN}"));
    }
    // Another name, and a name below, are other questions.
    check(&mut server, "www.example. A", PLAIN, "miss");
    check(&mut server, "www.no.example. A", PLAIN, "miss");
    check(&mut server, "no.example. A", DO, "miss");
    server.now_s += 300;
    check(&mut server, "no.example. A", PLAIN, "miss");
}

#[test]
fn a_name_without_a_type_is_denied_for_this_type() {
    let mut server = Server::new(&Settings::default());
    let put = server.put("www.example. AAAA", PLAIN, &format!("NOERROR aa\n{SOA}"));
    assert_eq!(put, Put::Kept { ttl_s: 300 });
    server.now_s += 100;
    let expected = format!("NOERROR\n{}", SOA_SHOWN.replacen("300", "200", 1));
    check(&mut server, "www.example. AAAA", PLAIN, &expected);
    check(&mut server, "www.example. A", PLAIN, "miss");
}

#[test]
fn the_lower_of_ttl_and_minimum_counts() {
    let settings = Settings { negative_ttl_most: 900, ..Settings::default() };
    let mut server = Server::new(&settings);
    for (ttl_s, minimum_s, kept_s) in [(60, 300, 60), (300, 60, 60), (3600, 3600, 900), (899, 900, 899)] {
        let text = format!("NXDOMAIN\nns example. {ttl_s} IN SOA ns. host. 1 2 3 4 {minimum_s}");
        assert_eq!(server.put("no.example. A", PLAIN, &text), Put::Kept { ttl_s: kept_s });
    }
    let text = "NXDOMAIN\nns example. 60 IN SOA ns. host. 1 2 3 4 0";
    assert_eq!(server.put("no.example. A", PLAIN, text), Put::NotKept(Why::TtlZero));
}

#[test]
fn without_a_soa_record_of_the_name_nothing_is_kept() {
    let mut server = Server::new(&Settings::default());
    let referral = "NOERROR
        ns example. 3600 IN NS ns1.example.
        ar ns1.example. 3600 IN A 192.0.2.53";
    let of_another_zone = "NXDOMAIN\nns other. 3600 IN SOA ns. host. 1 2 3 4 300";
    let in_the_answer = "NOERROR\nan example. 3600 IN SOA ns. host. 1 2 3 4 300";
    for text in ["NXDOMAIN", "NOERROR", referral, of_another_zone, in_the_answer] {
        assert_eq!(server.put("no.example. A", PLAIN, text), Put::NotKept(Why::NoSoa), "{text}");
        check(&mut server, "no.example. A", PLAIN, "miss");
    }
}

#[test]
fn the_target_of_an_alias_may_be_denied() {
    let mut server = Server::new(&Settings::default());
    let alias = "an alias.example. 600 IN CNAME no.example.";
    let alias_shown = "an alias.example. 600 CNAME no.example.";
    for (rcode, question) in [("NXDOMAIN", "alias.example. A"), ("NOERROR", "alias.example. AAAA")] {
        let put = server.put(question, PLAIN, &format!("{rcode}\n{alias}\n{SOA}"));
        assert_eq!(put, Put::Kept { ttl_s: 300 });
        check(&mut server, question, PLAIN, &format!("{rcode}\n{alias_shown}\n{SOA_SHOWN}"));
    }
    // The alias itself exists.
    check(&mut server, "alias.example. CNAME", PLAIN, "miss");
    check(&mut server, "alias.example. TXT", PLAIN, "miss");
}

#[test]
fn what_is_new_contradicts_what_is_old() {
    let mut server = Server::new(&Settings::default());
    let denied = format!("NXDOMAIN\n{SOA}");
    let (a, aaaa) = ("x.example. A", "x.example. AAAA");
    server.put(a, PLAIN, &denied);
    server.put(aaaa, PLAIN, "NOERROR\nan x.example. 60 IN AAAA 2001:db8::1");
    check(&mut server, a, PLAIN, "miss");
    check(&mut server, aaaa, PLAIN, "NOERROR\nan x.example. 60 AAAA 2001:db8::1");
    server.put(aaaa, PLAIN, &denied);
    check(&mut server, aaaa, PLAIN, &format!("NXDOMAIN\n{SOA_SHOWN}"));
}

#[test]
fn proofs_are_kept_for_a_client_that_asks_for_them() {
    let signature = "13 1 3600 20460101000000 20260101000000 59044 example. AAAA";
    let text = format!(
        "NXDOMAIN ad
        {SOA}
        ns example. 3600 IN RRSIG SOA {signature}
        ns example. 200 IN NSEC www.example. NS SOA RRSIG NSEC
        ns example. 200 IN RRSIG NSEC {signature}
        ns example. 3600 IN NS ns1.example."
    );
    let mut server = Server::new(&Settings::default());
    for ask in [DO, PLAIN] {
        server.put("no.example. A", ask, &text);
    }
    let expected = format!(
        "NXDOMAIN ad
        {SOA_SHOWN}
        ns example. 300 RRSIG SOA
        ns example. 200 NSEC www.example. NS SOA RRSIG NSEC
        ns example. 200 RRSIG NSEC"
    );
    check(&mut server, "no.example. A", DO, &expected);
    check(&mut server, "no.example. A", PLAIN, &format!("NXDOMAIN\n{SOA_SHOWN}"));
    server.now_s += 200;
    check(&mut server, "no.example. A", DO, "miss");
}
