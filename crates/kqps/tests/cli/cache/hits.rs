//! Answers in the cache are not asked for again, until their TTL has run out.

use std::time::Instant;

use kqps_server::Model;

use super::upstream::{Upstream, address, negative, question_end};
use super::{asks, asks_edns, cache, stop, ttl_s};
use crate::auth::dns::{A, TXT, ask, ask_by, connect};
use crate::auth::{NOERROR, NXDOMAIN};
use crate::serve::{PATIENCE, available};

#[test]
fn a_second_query_is_answered_from_the_cache_under_every_model() {
    for model in available().map(Model::name) {
        let upstream = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
        let server = cache(&[&upstream.flag()], &["--io", model]);
        let at = server.addresses[0];
        let first = ask(at, &asks(1, "www.example.test", A));
        assert_eq!(first.records(), [(A, vec![192, 0, 2, 7])], "{model}");
        let again = ask(at, &asks_edns(2, "wWw.eXample.test", A, 1232));
        assert_eq!(again.records(), first.records(), "{model}");
        assert!(again.0[12..].starts_with(b"\x03wWw\x07eXample"), "{model}: the case is the client's");
        assert_eq!((again.0[3] & 0x80, again.is_authoritative()), (0x80, false), "RA and no AA");
        let by_tcp = ask_by(&mut connect(at), &asks(3, "WWW.example.test", A));
        assert_eq!(by_tcp.records(), first.records(), "{model}");
        assert_eq!(upstream.asked(), 1, "{model}");
        let (report, counts) = stop(server);
        assert_eq!((counts.hits, counts.misses, counts.kept), (2, 1, 1), "{report:?}");
        assert_eq!((report.received, report.workers[0].later), (2, 1), "{report:?}");
    }
}

#[test]
fn workers_share_a_cache_or_have_one_each() {
    for (sharing, most) in [("shared", 1), ("split", 2)] {
        let upstream = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
        let flags = ["--cache", sharing, "--threads", "2", "--sockets", "reuseport", "--memory", "2MiB"];
        let server = cache(&[&upstream.flag()], &flags);
        for id in 0..64 {
            assert_eq!(ask(server.addresses[0], &asks(id, "www.example.test", A)).answers(), 1);
        }
        let asked = upstream.asked();
        let (report, counts) = stop(server);
        assert!((1..=most).contains(&asked), "{sharing}: {asked}");
        assert_eq!((counts.misses, counts.hits), (asked as u64, 64 - asked as u64), "{report:?}");
        assert!(counts.memory_bytes <= 2 << 20, "{report:?}");
    }
}

#[test]
fn ttls_count_down_and_end() {
    let mut last = 0;
    let upstream = Upstream::new(move |asked| {
        last += 1;
        vec![address(&asked.query, 2, last)]
    });
    let server = cache(&[&upstream.flag()], &["--prefetch", "0"]);
    let (begin, mut id, mut ttls) = (Instant::now(), 0, Vec::new());
    while upstream.asked() < 2 {
        assert!(begin.elapsed() < PATIENCE, "it does not end");
        id += 1;
        ttls.push(ttl_s(&ask(server.addresses[0], &asks(id, "www.example.test", A))));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(begin.elapsed().as_millis() >= 1000, "it ended too early");
    let second = ttls.pop();
    assert_eq!((ttls[0], second), (2, Some(2)));
    assert!(ttls.is_sorted_by(|one, other| one >= other) && ttls.iter().all(|ttl_s| *ttl_s > 0), "{ttls:?}");
    stop(server);
}

#[test]
fn ttls_have_bounds() {
    let upstream = Upstream::new(|asked| {
        let ttl_s = if asked.name.starts_with("short") { 0 } else { 100_000 };
        vec![address(&asked.query, ttl_s, 7)]
    });
    let bounded = cache(&[&upstream.flag()], &["--min-ttl", "50s", "--max-ttl", "100s"]);
    assert_eq!(ttl_s(&ask(bounded.addresses[0], &asks(1, "short.test", A))), 50);
    assert_eq!(ttl_s(&ask(bounded.addresses[0], &asks(2, "long.test", A))), 100);
    stop(bounded);
    // Without a shortest TTL, an answer with a TTL of 0 is for the clients that wait, and is not kept.
    let plain = cache(&[&upstream.flag()], &[]);
    for id in 0..2 {
        assert_eq!(ttl_s(&ask(plain.addresses[0], &asks(id, "short.test", A))), 0);
    }
    assert_eq!(upstream.asked(), 4);
    let (report, counts) = stop(plain);
    assert_eq!((counts.misses, counts.not_kept), (2, 2), "{report:?}");
}

#[test]
fn negative_answers_are_kept() {
    let upstream = Upstream::new(|asked| {
        let rcode = if asked.name == "gone.test" { NXDOMAIN } else { NOERROR };
        vec![negative(&asked.query, rcode, 60)]
    });
    let server = cache(&[&upstream.flag()], &[]);
    for (name, rtype, rcode) in [("gone.test", A, NXDOMAIN), ("here.test", TXT, NOERROR)] {
        for id in 0..3 {
            let reply = ask(server.addresses[0], &asks(id, name, rtype));
            assert_eq!((reply.rcode(), reply.answers()), (rcode, 0), "{name}");
            assert_eq!(reply.0[8..10], [0, 1], "{name}: the SOA record says for how long");
        }
    }
    assert_eq!(upstream.asked(), 2);
    stop(server);
}

#[test]
fn an_answer_that_is_used_is_asked_for_before_it_ends() {
    let upstream = Upstream::new(|asked| vec![address(&asked.query, 1000, 7)]);
    // Nearly all of the TTL is the share at its end, so that the first second is in it.
    let server = cache(&[&upstream.flag()], &["--prefetch", "99.99%"]);
    let begin = Instant::now();
    let mut id = 0;
    while upstream.asked() < 2 {
        assert!(begin.elapsed() < PATIENCE, "it is not asked for again");
        id += 1;
        assert_eq!(ask(server.addresses[0], &asks(id, "www.example.test", A)).answers(), 1);
    }
    let (report, counts) = stop(server);
    assert_eq!(counts.misses, 1, "{report:?}");
    assert!(counts.prefetches >= 1 && counts.kept >= 1, "{report:?}");
}

#[test]
fn answers_with_and_without_dnssec_records_are_apart() {
    let mut last = 0;
    let upstream = Upstream::new(move |asked| {
        last += 1;
        // DO is in the OPT record, which follows the question.
        let flags = asked.query[question_end(&asked.query) + 7];
        let wanted = (flags & 0x80 != 0, asked.query[3] & 0x10 != 0);
        assert_eq!(wanted, [(false, false), (true, false), (false, true)][usize::from(last) - 1]);
        vec![address(&asked.query, 300, last)]
    });
    let server = cache(&[&upstream.flag()], &[]);
    let plain = asks_edns(1, "www.example.test", A, 1232);
    let (mut secure, mut unchecked) = (plain.clone(), plain.clone());
    let end = secure.len();
    secure[end - 4] = 0x80;
    unchecked[3] = 0x10;
    for _ in 0..2 {
        for (query, last) in [(&plain, 1), (&secure, 2), (&unchecked, 3)] {
            assert_eq!(ask(server.addresses[0], query).records(), [(A, vec![192, 0, 2, last])]);
        }
    }
    assert_eq!(upstream.asked(), 3);
    stop(server);
}
