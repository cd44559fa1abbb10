//! Failures (RFC 9520) and stale answers (RFC 8767).

use kqps_cache::{Failure, Put, Settings, Stale, Why};

use super::support::{CD, EDNS, PLAIN, Server, check};

const WWW: &str = "www.example. A";
const REPLY: &str = "NOERROR ad\nan www.example. 60 IN A 192.0.2.1";
const STALE: &str = "stale NOERROR\nan www.example. 30 A 192.0.2.1";

fn with_stale() -> Server {
    let stale = Some(Stale { most_s: 1000, answer_ttl_s: 30 });
    Server::new(&Settings { stale, ..Settings::default() })
}

#[test]
fn a_failure_is_cached_for_its_question() {
    let mut server = Server::new(&Settings::default());
    server.failed(WWW, PLAIN);
    server.now_s += 4;
    for ask in [PLAIN, EDNS] {
        check(&mut server, WWW, ask, "failed SERVFAIL");
    }
    check(&mut server, WWW, CD, "miss");
    check(&mut server, "www.example. AAAA", PLAIN, "miss");
    server.now_s += 1;
    check(&mut server, WWW, PLAIN, "miss");
    let counts = server.cache.counts();
    assert_eq!((counts.failures, counts.failed, counts.misses), (1, 2, 3));
}

#[test]
fn failures_that_go_on_are_cached_twice_as_long_each_up_to_five_minutes() {
    let mut server = Server::new(&Settings { failure_s: 7, ..Settings::default() });
    for lasts_s in [7, 14, 28, 56, 112, 224, 300, 300] {
        server.failed(WWW, PLAIN);
        server.now_s += lasts_s - 1;
        check(&mut server, WWW, PLAIN, "failed SERVFAIL");
        // A failure for another client, too, is nothing new.
        server.failed(WWW, PLAIN);
        server.now_s += 1;
        check(&mut server, WWW, PLAIN, "miss");
    }
    // After a longer time the failure is a new one.
    server.now_s += 300;
    server.failed(WWW, PLAIN);
    server.now_s += 7;
    check(&mut server, WWW, PLAIN, "miss");
}

#[test]
fn an_outage_is_not_remembered_for_longer_the_longer_it_lasts() {
    let mut server = Server::new(&Settings { failure_s: 7, ..Settings::default() });
    for _ in 0..5 {
        server.fails(WWW, PLAIN, Failure::Silent);
        server.now_s += 6;
        check(&mut server, WWW, PLAIN, "failed SERVFAIL");
        server.now_s += 1;
        check(&mut server, WWW, PLAIN, "miss");
    }
}

#[test]
fn the_time_of_a_failure_is_within_one_second_and_five_minutes() {
    for (failure_s, lasts_s) in [(0, 1), (1, 1), (300, 300), (301, 300)] {
        let mut server = Server::new(&Settings { failure_s, ..Settings::default() });
        server.failed(WWW, PLAIN);
        server.now_s += lasts_s - 1;
        check(&mut server, WWW, PLAIN, "failed SERVFAIL");
        server.now_s += 1;
        check(&mut server, WWW, PLAIN, "miss");
    }
}

#[test]
fn an_answer_ends_a_failure() {
    let mut server = Server::new(&Settings::default());
    server.failed(WWW, PLAIN);
    assert_eq!(server.put(WWW, PLAIN, "SERVFAIL"), Put::NotKept(Why::Rcode(2)));
    check(&mut server, WWW, PLAIN, "failed SERVFAIL");
    server.put(WWW, PLAIN, REPLY);
    server.now_s += 60;
    check(&mut server, WWW, PLAIN, "miss");
    // It failed once since then.
    server.failed(WWW, PLAIN);
    server.now_s += 5;
    check(&mut server, WWW, PLAIN, "miss");
}

#[test]
fn a_failure_does_not_hide_an_answer() {
    let mut server = Server::new(&Settings::default());
    server.put(WWW, PLAIN, REPLY);
    server.failed(WWW, PLAIN);
    check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 60 A 192.0.2.1");
}

#[test]
fn a_stale_answer_is_used_while_the_question_fails() {
    let mut server = with_stale();
    server.put(WWW, PLAIN, REPLY);
    server.now_s += 60;
    check(&mut server, WWW, PLAIN, "miss");
    server.failed(WWW, PLAIN);
    check(&mut server, WWW, PLAIN, STALE);
    server.now_s += 5;
    check(&mut server, WWW, PLAIN, "miss");
    server.failed(WWW, PLAIN);
    check(&mut server, WWW, PLAIN, STALE);
    server.put(WWW, PLAIN, REPLY);
    check(&mut server, WWW, PLAIN, "NOERROR\nan www.example. 60 A 192.0.2.1");
    assert_eq!(server.cache.counts().stale, 2);
}

#[test]
fn a_stale_answer_is_used_for_a_time() {
    let mut server = with_stale();
    server.put(WWW, PLAIN, REPLY);
    server.now_s += 60 + 999;
    server.failed(WWW, PLAIN);
    check(&mut server, WWW, PLAIN, STALE);
    server.now_s += 1;
    check(&mut server, WWW, PLAIN, "failed SERVFAIL");
}

#[test]
fn without_the_setting_no_answer_is_stale() {
    let mut server = Server::new(&Settings::default());
    server.put(WWW, PLAIN, REPLY);
    server.now_s += 60;
    server.failed(WWW, PLAIN);
    check(&mut server, WWW, PLAIN, "failed SERVFAIL");
}

#[test]
fn a_denial_may_be_stale() {
    let mut server = with_stale();
    server.put(WWW, PLAIN, "NXDOMAIN\nns example. 60 IN SOA ns. host. 1 2 3 4 60");
    server.now_s += 60;
    server.failed("www.example. TXT", PLAIN);
    let expected = "stale NXDOMAIN\nns example. 30 SOA ns. host. 1 2 3 4 60";
    check(&mut server, "www.example. TXT", PLAIN, expected);
    check(&mut server, WWW, PLAIN, "miss");
}
