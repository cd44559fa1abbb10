//! Servers that fail: clients get SERVFAIL, or stale answers if that is asked for, and no server is asked too often.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal};

use super::upstream::{Upstream, address, empty, texts, truncated};
use super::{asks, asks_edns, cache, stop, ttl_s};
use crate::auth::dns::{A, TXT, ask, ask_by, connect};
use crate::auth::{NOERROR, REFUSED, SERVFAIL};
use crate::serve::PATIENCE;

/// An address at which nothing listens.
fn nowhere() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_failure_is_answered_at_once_when_it_is_asked_again() {
    for rcode in [SERVFAIL, REFUSED] {
        let upstream = Upstream::new(move |asked| vec![empty(&asked.query, rcode)]);
        let server = cache(&[&upstream.flag()], &[]);
        for id in 0..5 {
            let reply = ask(server.addresses[0], &asks(id, "broken.test", A));
            assert_eq!((reply.rcode(), reply.answers()), (SERVFAIL, 0));
        }
        assert_eq!(upstream.asked(), 1);
        let (report, counts) = stop(server);
        assert_eq!((counts.misses, counts.failures, counts.unusable), (1, 4, 1), "{report:?}");
    }
}

#[test]
fn a_server_that_is_not_there_comes_back() {
    let away = nowhere();
    let server = cache(&[&away.to_string()], &["--timeout", "500ms", "--failure-ttl", "1s"]);
    assert_eq!(ask(server.addresses[0], &asks(1, "www.example.test", A)).rcode(), SERVFAIL);
    let upstream = Upstream::at(away, |asked| vec![address(&asked.query, 300, 7)]);
    let (begin, mut id) = (Instant::now(), 1);
    loop {
        id += 1;
        let reply = ask(server.addresses[0], &asks(id, "www.example.test", A));
        if reply.rcode() == NOERROR {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "it does not come back");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(upstream.asked(), 1);
    stop(server);
}

#[test]
fn another_server_answers_if_one_is_silent() {
    let silent = Upstream::new(|_| Vec::new());
    let other = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
    let server = cache(&[&silent.flag(), &other.flag()], &["--timeout", "600ms"]);
    for id in 0..8 {
        let reply = ask(server.addresses[0], &asks(id, &format!("host-{id}.test"), A));
        assert_eq!(reply.records(), [(A, vec![192, 0, 2, 7])]);
    }
    assert!(silent.asked() > 0 && silent.asked() + other.asked() <= 16, "no question is asked more than twice");
    stop(server);
}

#[test]
fn a_stale_answer_is_better_than_none() {
    for (flags, expected) in [(&["--stale", "1h"][..], Some(30)), (&[][..], None)] {
        let mut is_first = true;
        let upstream = Upstream::new(move |asked| {
            let answers = std::mem::take(&mut is_first);
            vec![if answers { address(&asked.query, 1, 7) } else { empty(&asked.query, SERVFAIL) }]
        });
        let server = cache(&[&upstream.flag()], &[&["--prefetch", "0"], flags].concat());
        assert_eq!(ask(server.addresses[0], &asks(1, "www.example.test", A)).answers(), 1);
        let (begin, mut id) = (Instant::now(), 1);
        let late = loop {
            id += 1;
            let reply = ask(server.addresses[0], &asks(id, "www.example.test", A));
            if upstream.asked() == 2 {
                break reply;
            }
            assert!(begin.elapsed() < PATIENCE, "the TTL does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let again = ask(server.addresses[0], &asks(0, "www.example.test", A));
        for reply in [&late, &again] {
            let ttl_s = (reply.rcode() == NOERROR).then(|| ttl_s(reply));
            assert_eq!(ttl_s, expected);
        }
        assert_eq!(upstream.asked(), 2, "the failure is remembered");
        let (report, counts) = stop(server);
        let stale = (counts.stale_after_failure, counts.stale);
        assert_eq!(stale, if expected.is_some() { (1, 1) } else { (0, 0) }, "{report:?}");
    }
}

#[test]
fn a_truncated_answer_is_fetched_by_tcp() {
    let upstream = Upstream::new(|asked| {
        vec![if asked.by_tcp { texts(&asked.query, 40) } else { truncated(&asked.query) }]
    });
    let server = cache(&[&upstream.flag()], &[]);
    let at = server.addresses[0];
    let begin = Instant::now();
    // The connection to the server may not be open yet.
    let mut id = 0;
    loop {
        let reply = ask_by(&mut connect(at), &asks(id, &format!("big-{id}.test"), TXT));
        if reply.rcode() == NOERROR {
            assert_eq!(reply.answers(), 40);
            break;
        }
        assert!(begin.elapsed() < PATIENCE);
        id += 1;
    }
    let name = format!("big-{id}.test");
    for (query, is_whole) in [(asks(1, &name, TXT), false), (asks_edns(2, &name, TXT, 4096), false)] {
        let reply = ask(at, &query);
        assert_eq!((reply.is_truncated(), reply.answers() == 40), (!is_whole, is_whole));
    }
    stop(server);
    let server = cache(&[&upstream.flag()], &["--payload", "4096"]);
    let begin = Instant::now();
    while ask(server.addresses[0], &asks_edns(1, &format!("{:?}.test", begin.elapsed().as_nanos()), TXT, 65_535)).is_truncated() {
        assert!(begin.elapsed() < PATIENCE);
    }
    stop(server);
}

#[test]
fn a_query_without_an_answer_has_a_fate_at_the_end() {
    let upstream = Upstream::new(|_| Vec::new());
    let server = cache(&[&upstream.flag()], &["--timeout", "1m"]);
    let flow = crate::serve::sent::flow(server.addresses[0]);
    for id in 0..5 {
        flow.send(&asks(id, &format!("host-{id}.test"), A)).unwrap();
    }
    upstream.wait_for(5);
    signal(server.child.id(), Signal::Interrupt).unwrap();
    let mut server = server;
    let report = server.report();
    assert_eq!((report.received, report.dropped["stopped"]), (5, 5), "{report:?}");
}
