//! Queries to servers: they have nothing of the client's but its question, and much that an attacker would have to
//! guess.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::upstream::{Question, Upstream, address, question_end};
use super::{asks, cache, stop};
use crate::auth::dns::{A, ask};

/// A query as a server saw it: its port, its ID, its name as it was written, its flags, and its options.
#[derive(Clone, Debug)]
struct ReceivedQuery {
    port: u16,
    id: u16,
    name: Vec<u8>,
    flags: [u8; 2],
    options: Vec<u8>,
}

/// A server that notes what it sees, and answers with a cookie if it gets one.
fn noting() -> (Upstream, Arc<Mutex<Vec<ReceivedQuery>>>) {
    let seen = Arc::<Mutex<Vec<ReceivedQuery>>>::default();
    let notes = seen.clone();
    let upstream = Upstream::new(move |Question { query, from, .. }: &Question| {
        let end = question_end(query);
        // An OPT record alone follows.
        let options = query[end + 11..].to_vec();
        notes.lock().unwrap().push(ReceivedQuery {
            port: from.port(),
            id: u16::from_be_bytes([query[0], query[1]]),
            name: query[12..end - 4].to_vec(),
            flags: [query[2], query[3]],
            options: options.clone(),
        });
        let mut reply = address(query, 300, 7);
        reply[11] = 1;
        reply.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\x14\0\x0a\0\x10");
        reply.extend(&options[4..12]);
        reply.extend(b"cookie.8");
        vec![reply]
    });
    (upstream, seen)
}

#[test]
fn ports_ids_and_letters_are_random() {
    let (upstream, seen) = noting();
    let server = cache(&[&upstream.flag()], &[]);
    for id in 0..300 {
        let name = format!("abcdefghijklmnop-{id}.example.test");
        assert_eq!(ask(server.addresses[0], &asks(id, &name, A)).answers(), 1);
    }
    stop(server);
    let seen = seen.lock().unwrap();
    let ports: BTreeSet<u16> = seen.iter().map(|seen| seen.port).collect();
    let ids: BTreeSet<u16> = seen.iter().map(|seen| seen.id).collect();
    let cases: BTreeSet<&[u8]> = seen.iter().map(|seen| &seen.name[1..17]).collect();
    // 300 of 65,536 values, drawn at random: about one pair is equal.
    let counts = [ports.len(), ids.len(), cases.len()];
    assert!(counts[0] >= 16 && counts[1] > 285 && counts[2] > 285, "{counts:?}");
    assert!(seen.iter().all(|seen| seen.name.is_ascii() && seen.flags == [1, 0x20]), "RD and AD");
}

#[test]
fn a_cookie_goes_there_and_back() {
    let (upstream, seen) = noting();
    let server = cache(&[&upstream.flag()], &[]);
    for id in 0..3 {
        assert_eq!(ask(server.addresses[0], &asks(id, &format!("host-{id}.test"), A)).answers(), 1);
    }
    stop(server);
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].options[..4], [0, 10, 0, 8]);
    let client = &seen[0].options[4..];
    for later in &seen[1..] {
        assert_eq!(later.options, [&[0, 10, 0, 16], client, b"cookie.8"].concat());
    }
}

#[test]
fn a_server_of_a_zone_is_not_asked_to_find_the_answer() {
    let (upstream, seen) = noting();
    let server = cache(&[&format!("example.test={}", upstream.flag())], &[]);
    assert_eq!(ask(server.addresses[0], &asks(1, "www.example.test", A)).answers(), 1);
    stop(server);
    assert_eq!(seen.lock().unwrap()[0].flags, [0, 0x20]);
}
