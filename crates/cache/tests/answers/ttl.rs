//! How long a reply is kept, and the TTLs of its answers (RFC 1034; RFC 2181, sections 5.2 and 8; RFC 4035, section
//! 4.5).

use kqps_cache::{Bailiwick, Form, Put, Question, Settings, Shared, Why};

use super::support::{PLAIN, Server, check, lines, query, reply, shown, wire};

const WWW: &str = "www.example. A";

#[test]
fn a_ttl_counts_down_and_ends() {
    let mut server = Server::new(&Settings::default());
    check(&mut server, WWW, PLAIN, "miss");
    let put = server.put(WWW, PLAIN, "NOERROR aa\nan www.example. 60 IN A 192.0.2.1");
    assert_eq!(put, Put::Kept { ttl_s: 60 });
    check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 60 A 192.0.2.1");
    server.now_s += 59;
    check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 1 A 192.0.2.1");
    server.now_s += 1;
    check(&mut server, WWW, PLAIN, "miss");
    let counts = server.cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.kept, counts.entries), (2, 2, 1, 1));
}

#[test]
fn a_new_reply_takes_the_place_of_the_old_one() {
    let mut server = Server::new(&Settings::default());
    let short = "NOERROR\nan www.example. 60 IN A 192.0.2.1";
    let long = "NOERROR\nan www.example. 90 IN A 192.0.2.2\nan www.example. 90 IN A 192.0.2.3";
    for _ in 0..3 {
        server.put(WWW, PLAIN, short);
        check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 60 A 192.0.2.1");
        server.put(WWW, PLAIN, long);
        let both = "NOERROR\nan www.example. 90 A 192.0.2.2\nan www.example. 90 A 192.0.2.3";
        check(&mut server, WWW, PLAIN, both);
    }
    assert_eq!(server.cache.counts().entries, 1);
}

#[test]
fn the_records_of_an_rrset_have_its_lowest_ttl() {
    let mut server = Server::new(&Settings::default());
    let text = "NOERROR
        an www.example. 60 IN A 192.0.2.1
        an www.example. 30 IN A 192.0.2.2
        an www.example. 90 IN A 192.0.2.3";
    assert_eq!(server.put(WWW, PLAIN, text), Put::Kept { ttl_s: 30 });
    server.now_s += 10;
    let expected = "NOERROR
        an www.example. 20 A 192.0.2.1
        an www.example. 20 A 192.0.2.2
        an www.example. 20 A 192.0.2.3";
    check(&mut server, WWW, PLAIN, expected);
}

#[test]
fn a_reply_ends_with_the_first_of_its_rrsets() {
    let mut server = Server::new(&Settings::default());
    let text = "NOERROR
        an alias.example. 20 IN CNAME www.example.
        an www.example. 60 IN A 192.0.2.1";
    assert_eq!(server.put("alias.example. A", PLAIN, text), Put::Kept { ttl_s: 20 });
    server.now_s += 19;
    let expected = "NOERROR
        an alias.example. 1 CNAME www.example.
        an www.example. 41 A 192.0.2.1";
    check(&mut server, "alias.example. A", PLAIN, expected);
    server.now_s += 1;
    check(&mut server, "alias.example. A", PLAIN, "miss");
}

#[test]
fn a_ttl_of_zero_is_not_kept() {
    let mut server = Server::new(&Settings::default());
    let put = server.put(WWW, PLAIN, "NOERROR\nan www.example. 0 IN A 192.0.2.1");
    assert_eq!(put, Put::NotKept(Why::TtlZero));
    // Nor is one whose most significant bit is set: it counts as zero.
    let mut message = reply(WWW, "NOERROR\nan www.example. 60 IN A 192.0.2.1");
    let ttl_at = message.len() - 10;
    message[ttl_at..ttl_at + 4].copy_from_slice(&0x8000_0001_u32.to_be_bytes());
    assert_eq!(server.put_of(".", WWW, PLAIN, &message), Put::NotKept(Why::TtlZero));
    message[ttl_at..ttl_at + 4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    assert_eq!(server.put_of(".", WWW, PLAIN, &message), Put::Kept { ttl_s: 86_400 });
}

#[test]
fn ttls_are_within_the_settings() {
    let mut server = Server::new(&Settings { ttl: 30..=40, ..Settings::default() });
    for (ttl_s, kept_s) in [(0, 30), (29, 30), (35, 35), (40, 40), (3600, 40)] {
        let text = format!("NOERROR\nan www.example. {ttl_s} IN A 192.0.2.1");
        assert_eq!(server.put(WWW, PLAIN, &text), Put::Kept { ttl_s: kept_s });
        check(&mut server, WWW, PLAIN, &format!("NOERROR\nan www.example. {kept_s} A 192.0.2.1"));
    }
}

#[test]
fn a_hit_near_the_end_asks_for_a_new_answer_once() {
    let mut server = Server::new(&Settings { prefetch_share: Some(0.1), ..Settings::default() });
    let text = "NOERROR\nan www.example. 100 IN A 192.0.2.1";
    for _ in 0..2 {
        server.put(WWW, PLAIN, text);
        server.now_s += 89;
        check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 11 A 192.0.2.1");
        server.now_s += 1;
        check(&mut server, WWW, PLAIN, "prefetch NOERROR\nan www.example. 10 A 192.0.2.1");
        check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 10 A 192.0.2.1");
    }
    assert_eq!(server.cache.counts().prefetches, 2);
}

#[test]
fn the_last_second_of_a_short_ttl_asks_for_a_new_answer() {
    for (share, word) in [(Some(0.1), "prefetch "), (Some(0.0), ""), (None, "")] {
        let mut server = Server::new(&Settings { prefetch_share: share, ..Settings::default() });
        server.put(WWW, PLAIN, "NOERROR\nan www.example. 2 IN A 192.0.2.1");
        check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 2 A 192.0.2.1");
        server.now_s += 1;
        check(&mut server, WWW, PLAIN, &format!("{word}NOERROR\nan www.example. 1 A 192.0.2.1"));
    }
    // With a TTL of 1 s every hit would be in the last second.
    let mut server = Server::new(&Settings { prefetch_share: Some(0.1), ..Settings::default() });
    server.put(WWW, PLAIN, "NOERROR\nan www.example. 1 IN A 192.0.2.1");
    check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 1 A 192.0.2.1");
}

#[test]
fn the_case_of_the_name_is_that_of_the_query() {
    let mut server = Server::new(&Settings::default());
    server.put("wWw.eXample. A", PLAIN, "NOERROR\nan WWW.example. 60 IN A 192.0.2.1");
    for name in ["www.example.", "WwW.ExAmPlE."] {
        let expected = format!("NOERROR\nan {name} 60 A 192.0.2.1");
        check(&mut server, &format!("{name} A"), PLAIN, &expected);
    }
}

#[test]
fn an_answer_that_is_not_kept_has_the_ttls_of_the_settings() {
    let cache = Shared::for_one(&Settings::default(), [1, 2]);
    let name = wire("www.example.");
    let question = Question { name: &name, rtype: 1, class: 1, dnssec_ok: false, checking_disabled: false };
    let seen = |message: &[u8]| {
        let reply = cache.read(&question, message, &Bailiwick::from_zone(&[0])).expect("an answer");
        let kept = cache.keep(&question, &reply, 0);
        let mut buffer = query(WWW, PLAIN);
        let form = Form { question_end: buffer.len(), dnssec_ok: None };
        buffer.resize(512, 0);
        let bytes = reply.answer(form, &mut buffer, 512);
        (kept, shown(&buffer[..bytes]))
    };
    let with_ttl = |text: &str, places: &[usize], ttl: u32| {
        let mut message = reply(WWW, text);
        for place in places {
            let at = message.len() - place;
            message[at..at + 4].copy_from_slice(&ttl.to_be_bytes());
        }
        message
    };
    // With the top bit a TTL is 0, in SOA records and their MINIMUM, too (RFC 2181, section 8).
    let address = "NOERROR\nan www.example. 60 IN A 192.0.2.1";
    for ttl in [1 << 31, u32::MAX, 0] {
        let (kept, shown) = seen(&with_ttl(address, &[10], ttl));
        assert_eq!(kept, Put::NotKept(Why::TtlZero));
        assert_eq!(shown, lines("NOERROR\nan www.example. 0 A 192.0.2.1"), "{ttl}");
    }
    let denial = "NXDOMAIN\nns example. 60 IN SOA . . 1 2 3 4 60";
    let (kept, shown) = seen(&with_ttl(denial, &[28, 4], u32::MAX));
    assert_eq!(kept, Put::NotKept(Why::TtlZero));
    assert_eq!(shown, lines("NXDOMAIN\nns example. 0 SOA . . 1 2 3 4 4294967295"));
    // A record beside one with TTL 0 has the longest TTL at most.
    let two = "NOERROR\nan www.example. 0 IN CNAME b.example.\nan b.example. 60 IN A 192.0.2.1";
    let (kept, shown) = seen(&with_ttl(two, &[10], i32::MAX as u32));
    assert_eq!(kept, Put::NotKept(Why::TtlZero));
    let expected = "NOERROR\nan www.example. 0 CNAME b.example.\nan b.example. 86400 A 192.0.2.1";
    assert_eq!(shown, lines(expected));
}
