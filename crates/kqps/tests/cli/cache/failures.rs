//! Servers that fail: clients get SERVFAIL, or stale answers if that is asked for, and no server is asked too often.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use kqps_kernel::port;

use super::upstream::{Upstream, address, empty, texts, truncated};
use super::{asks, asks_edns, cache, stop, ttl_s};
use crate::auth::dns::{A, Reply, TXT, ask, ask_by, connect};
use crate::auth::{NOERROR, REFUSED, SERVFAIL};
use crate::serve::PATIENCE;
use crate::serve::sent::flow;

/// An address at which nothing listens until a test does. No other test uses it, and the kernel chooses neither this address
/// nor a port like this one by itself.
fn nowhere() -> SocketAddr {
    port::free(IpAddr::from([127, 0, 53, 5]), 1).unwrap()
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
fn an_outage_is_over_soon_after_the_server_is_back() {
    let away = nowhere();
    let flags = ["--timeout", "200ms", "--failure-ttl", "1s"];
    let server = cache(&[&away.to_string()], &flags);
    let (begin, mut id) = (Instant::now(), 0);
    // Each query with this question fails.
    while begin.elapsed() < Duration::from_secs(5) {
        id += 1;
        assert_eq!(ask(server.addresses[0], &asks(id, "www.example.test", A)).rcode(), SERVFAIL);
        std::thread::sleep(Duration::from_millis(50));
    }
    let _upstream = Upstream::at(away, |asked| vec![address(&asked.query, 300, 7)]);
    // The time since then, without that in which other programs had the cores: a round takes little more than its sleep.
    let mut back = Duration::ZERO;
    loop {
        let round = Instant::now();
        if ask(server.addresses[0], &asks(0, "www.example.test", A)).rcode() == NOERROR {
            break;
        }
        // Twice 1 s to notice that it is back, and 1 s of the failure. Doubled, the failure would last 4 s and more.
        assert!(back < Duration::from_millis(3800), "the outage goes on");
        std::thread::sleep(Duration::from_millis(20));
        back += round.elapsed().min(Duration::from_millis(250));
    }
    stop(server);
}

#[test]
fn another_server_answers_if_one_is_silent() {
    let silent = Upstream::new(|_| Vec::new());
    let other = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
    // The other server has 2 s for its answer.
    let server = cache(&[&silent.flag(), &other.flag()], &["--timeout", "4s"]);
    let flow = flow(server.addresses[0]);
    for id in 0..8 {
        flow.send(&asks(id, &format!("host-{id}.test"), A)).unwrap();
    }
    let mut ids: Vec<u16> = (0..8)
        .map(|_| {
            let mut buffer = [0; 512];
            let bytes = flow.recv(&mut buffer).unwrap();
            let reply = Reply(buffer[..bytes].to_vec());
            assert_eq!(reply.records(), [(A, vec![192, 0, 2, 7])]);
            reply.id()
        })
        .collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..8), "{ids:?}");
    assert!(silent.asked() > 0);
    // Two further names, asked one after the other.
    for id in 8..10 {
        let reply = ask(server.addresses[0], &asks(id, &format!("host-{id}.test"), A));
        assert_eq!(reply.records(), [(A, vec![192, 0, 2, 7])]);
    }
    assert!(silent.asked() + other.asked() <= 20, "no question is asked more than twice");
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

/// Texts in a long answer: together more than 1232 bytes, and less than 4096.
const TEXTS: u8 = 30;

#[test]
fn a_truncated_answer_is_fetched_by_tcp() {
    let upstream = Upstream::new(|asked| {
        vec![if asked.by_tcp { texts(&asked.query, TEXTS) } else { truncated(&asked.query) }]
    });
    let server = cache(&[&upstream.flag()], &[]);
    let at = server.addresses[0];
    assert_eq!(ask_by(&mut connect(at), &asks(1, "long.test", TXT)).answers(), u16::from(TEXTS));
    for query in [asks(2, "long.test", TXT), asks_edns(3, "long.test", TXT, 4096)] {
        let reply = ask(at, &query);
        assert!(reply.is_truncated() && reply.answers() == 0, "{reply:?}");
    }
    stop(server);
    let server = cache(&[&upstream.flag()], &["--payload", "4096"]);
    let at = server.addresses[0];
    assert_eq!(ask(at, &asks_edns(1, "long.test", TXT, 65_535)).answers(), u16::from(TEXTS));
    stop(server);
}

#[test]
fn a_query_without_an_answer_has_a_fate_at_the_end() {
    let upstream = Upstream::new(|_| Vec::new());
    let server = cache(&[&upstream.flag()], &["--timeout", "1m"]);
    let flow = flow(server.addresses[0]);
    for id in 0..5 {
        flow.send(&asks(id, &format!("host-{id}.test"), A)).unwrap();
    }
    upstream.wait_for(5);
    let (report, _) = stop(server);
    assert_eq!((report.received, report.dropped["stopped"]), (5, 5), "{report:?}");
}
