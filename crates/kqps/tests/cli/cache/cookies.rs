//! Servers whose cookies change, or that have cookies no longer (RFC 7873).

use std::sync::{Arc, Mutex};

use super::upstream::{Upstream, address, empty, question_end};
use super::{asks, cache, stop};
use crate::auth::dns::{A, ask};

/// A reply with a cookie: that of the query, and 8 bytes of the server. `upper` are the upper bits of its rcode.
fn with_cookie(mut reply: Vec<u8>, query: &[u8], upper: u8, server: [u8; 8]) -> Vec<u8> {
    let options = &query[question_end(query) + 11..];
    reply[11] = 1;
    reply.extend([0, 0, 41, 4, 0xd0, upper, 0, 0, 0, 0, 20, 0, 10, 0, 16]);
    reply.extend(&options[4..12]);
    reply.extend(server);
    reply
}

/// Asks three names one after the other. Returns whether each question came by TCP.
fn ways(say: impl Fn(usize, &[u8]) -> Vec<u8> + Send + 'static) -> Vec<bool> {
    let ways = Arc::<Mutex<Vec<bool>>>::default();
    let notes = ways.clone();
    let upstream = Upstream::new(move |asked| {
        let mut ways = notes.lock().unwrap();
        ways.push(asked.by_tcp);
        vec![say(ways.len(), &asked.query)]
    });
    let server = cache(&[&upstream.flag()], &["--timeout", "10s"]);
    for id in 0..3 {
        assert_eq!(ask(server.addresses[0], &asks(id, &format!("host-{id}.test"), A)).answers(), 1);
    }
    stop(server);
    let ways = ways.lock().unwrap();
    ways.clone()
}

#[test]
fn a_server_that_has_cookies_no_longer_is_asked_by_tcp_once() {
    let ways = ways(|number, query| {
        let reply = address(query, 300, 7);
        if number == 1 { with_cookie(reply, query, 0, *b"cookie.8") } else { reply }
    });
    assert_eq!(ways, [false, false, true, false]);
}

#[test]
fn a_refused_cookie_is_replaced_without_a_connection() {
    let ways = ways(|number, query| {
        let options = &query[question_end(query) + 11..];
        if number == 1 {
            // BADCOOKIE is 23.
            return with_cookie(empty(query, 7), query, 1, *b"cookie.1");
        }
        assert_eq!(options[12..], b"cookie.1"[..], "question {number}");
        with_cookie(address(query, 300, 7), query, 0, *b"cookie.1")
    });
    assert_eq!(ways, [false; 4]);
}
