//! Datagrams that are lost, and servers and connections that are slow.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::upstream::{Upstream, address, texts, truncated};
use super::{asks, cache, stop, ttl_s};
use crate::auth::dns::{A, TXT, ask, ask_by, connect};
use crate::serve::PATIENCE;

#[test]
fn a_lost_datagram_is_sent_again_to_the_only_server() {
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let notes = seen.clone();
    let upstream = Upstream::new(move |asked| {
        let mut seen = notes.lock().unwrap();
        seen.push((asked.from, asked.query.clone()));
        if seen.len() == 1 { Vec::new() } else { vec![address(&asked.query, 300, 7)] }
    });
    // It is sent again after 2 s, and its answer has 2 s more.
    let server = cache(&[&upstream.flag()], &["--timeout", "4s"]);
    assert_eq!(ask(server.addresses[0], &asks(1, "www.example.test", A)).answers(), 1);
    let (report, counts) = stop(server);
    let seen = seen.lock().unwrap();
    // The port, the ID and the case of the letters are the same, so an attacker has no second chance.
    assert!(seen.len() == 2 && seen[0] == seen[1], "{seen:?}");
    let back_end = report.back_ends.values().next().unwrap();
    assert_eq!((counts.kept, back_end.timed_out, back_end.second_tries), (1, 0, 0), "{report:?}");
}

#[test]
fn the_only_server_of_a_name_has_the_whole_time() {
    // The first of several servers has half of the time. This server answers only after that, when it is asked again, and
    // then it answers the first datagram.
    let mut first: Option<Vec<u8>> = None;
    let slow = Upstream::new(move |asked| {
        if let Some(query) = first.take() {
            return vec![address(&query, 300, 8)];
        }
        first = Some(asked.query.clone());
        Vec::new()
    });
    let others = [7, 9].map(|last| Upstream::new(move |asked| vec![address(&asked.query, 300, last)]));
    let stub = format!("slow.test={}", slow.flag());
    let server = cache(&[&stub, &others[0].flag(), &others[1].flag()], &["--timeout", "4s"]);
    assert_eq!(ask(server.addresses[0], &asks(1, "www.slow.test", A)).records(), [(A, vec![192, 0, 2, 8])]);
    stop(server);
}

#[test]
fn a_truncated_answer_waits_for_a_connection() {
    const TEXTS: u8 = 30;
    let upstream = Upstream::new(|asked| {
        vec![if asked.by_tcp { texts(&asked.query, TEXTS) } else { truncated(&asked.query) }]
    });
    upstream.close_after_replies();
    let server = cache(&[&upstream.flag()], &["--timeout", "10s"]);
    let mut stream = connect(server.addresses[0]);
    for id in 0..10 {
        // Each time the connection to the server has just ended.
        let reply = ask_by(&mut stream, &asks(id, &format!("long-{id}.test"), TXT));
        assert_eq!(reply.answers(), u16::from(TEXTS), "{id}");
    }
    drop(stream);
    let (report, counts) = stop(server);
    assert_eq!((counts.kept, counts.unusable), (10, 0), "{report:?}");
}

#[test]
fn a_query_whose_connection_breaks_waits_for_the_next() {
    const TEXTS: u8 = 30;
    let mut is_first = true;
    let upstream = Upstream::new(move |asked| {
        if !asked.by_tcp {
            return vec![truncated(&asked.query)];
        }
        if std::mem::take(&mut is_first) { Vec::new() } else { vec![texts(&asked.query, TEXTS)] }
    });
    // It closes the first connection without a reply.
    upstream.close_after_replies();
    let server = cache(&[&upstream.flag()], &["--timeout", "10s"]);
    let reply = ask_by(&mut connect(server.addresses[0]), &asks(1, "long.test", TXT));
    assert_eq!(reply.answers(), u16::from(TEXTS));
    let (report, counts) = stop(server);
    assert_eq!((counts.kept, counts.unusable, counts.failures), (1, 0, 0), "{report:?}");
    assert_eq!(report.back_ends.values().next().unwrap().cut_off, 1, "{report:?}");
}

#[test]
fn a_stale_answer_comes_before_the_server_is_given_up() {
    let mut is_first = true;
    let upstream = Upstream::new(move |asked| {
        let answers = std::mem::take(&mut is_first);
        if answers { vec![address(&asked.query, 1, 7)] } else { Vec::new() }
    });
    let server = cache(&[&upstream.flag()], &["--prefetch", "0", "--stale", "1h", "--timeout", "30s"]);
    let at = server.addresses[0];
    assert_eq!(ttl_s(&ask(at, &asks(1, "www.example.test", A))), 1);
    let begin = Instant::now();
    while upstream.asked() < 2 {
        assert!(begin.elapsed() < PATIENCE, "the TTL does not end");
        let (asked_at, reply) = (Instant::now(), ask(at, &asks(2, "www.example.test", A)));
        if upstream.asked() == 2 {
            let waited = asked_at.elapsed();
            assert_eq!(ttl_s(&reply), 30);
            assert!((Duration::from_millis(1500)..Duration::from_secs(10)).contains(&waited), "{waited:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // The question goes on, and those that ask meanwhile need not wait. On a busy host the first of them may.
    let mut meanwhile = 0;
    loop {
        let asked_at = Instant::now();
        assert_eq!(ttl_s(&ask(at, &asks(3, "www.example.test", A))), 30);
        meanwhile += 1;
        if asked_at.elapsed() < Duration::from_millis(1500) {
            break;
        }
        assert!(meanwhile < 5, "they wait");
    }
    let (report, counts) = stop(server);
    let stale = (counts.stale_after_failure, counts.coalesced, counts.failures);
    assert_eq!(stale, (1 + meanwhile, meanwhile, 0), "{report:?}");
}
