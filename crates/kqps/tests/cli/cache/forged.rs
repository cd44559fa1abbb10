//! Answers that are not those of the server that was asked, or not to the question that was asked: none of them is
//! believed, and none is kept.

use std::net::UdpSocket;

use super::upstream::{Upstream, address, question_end};
use super::{asks, cache, stop};
use crate::auth::dns::{A, ask};

/// The last byte of the right address, and that of a forged one.
const RIGHT: u8 = 7;
const FORGED: u8 = 66;

/// Forged answers to each question, in every way that a datagram can be wrong. All fit into a small socket buffer.
const TRIES: u16 = 40;

#[test]
fn forged_answers_are_not_believed() {
    let upstream = Upstream::new(|asked| {
        let right = address(&asked.query, 300, RIGHT);
        if asked.by_tcp {
            return vec![right];
        }
        let forged = address(&asked.query, 300, FORGED);
        let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
        elsewhere.send_to(&forged, asked.from).unwrap();
        let other_address = UdpSocket::bind("127.0.0.2:0").unwrap();
        other_address.send_to(&forged, asked.from).unwrap();
        let mut said = Vec::new();
        for number in 1..=TRIES {
            let mut other_id = forged.clone();
            let id = u16::from_be_bytes([forged[0], forged[1]]) ^ number;
            other_id[..2].copy_from_slice(&id.to_be_bytes());
            let mut other_name = forged.clone();
            other_name[13] = b'a' + (number % 20) as u8;
            let mut other_type = forged.clone();
            other_type[question_end(&forged) - 3] ^= number as u8 | 1;
            let mut is_query = forged.clone();
            is_query[2] &= 0x7f;
            said.extend([other_id, other_name, other_type, is_query]);
        }
        said.push(right);
        said
    });
    let server = cache(&[&upstream.flag()], &["--timeout", "10s"]);
    for id in 0..20 {
        let name = format!("zzz-{id}.example.test");
        for _ in 0..2 {
            let reply = ask(server.addresses[0], &asks(id, &name, A));
            assert_eq!(reply.records(), [(A, vec![192, 0, 2, RIGHT])], "{name}");
        }
    }
    let (report, counts) = stop(server);
    assert_eq!((counts.kept, counts.hits), (20, 20), "{report:?}");
    let back_end = report.back_ends.values().next().unwrap();
    let tries = 20 * u64::from(TRIES);
    assert_eq!((back_end.unsolicited, back_end.mismatched), (tries, 3 * tries), "{report:?}");
}

#[test]
fn an_answer_in_another_case_is_asked_for_again_by_a_connection() {
    let upstream = Upstream::new(|asked| {
        let mut reply = address(&asked.query, 300, if asked.by_tcp { RIGHT } else { FORGED });
        if !asked.by_tcp {
            let end = question_end(&reply);
            // Every letter has the other case.
            let letters = reply[12..end - 4].iter_mut().filter(|byte| byte.is_ascii_alphabetic());
            letters.for_each(|byte| *byte ^= 0x20);
        }
        vec![reply]
    });
    let server = cache(&[&upstream.flag()], &["--timeout", "10s"]);
    for id in 0..50 {
        let reply = ask(server.addresses[0], &asks(id, &format!("host-{id}.example.test"), A));
        assert_eq!(reply.records(), [(A, vec![192, 0, 2, RIGHT])]);
    }
    let (report, counts) = stop(server);
    assert_eq!(counts.kept, 50, "{report:?}");
    assert_eq!(report.back_ends.values().next().unwrap().doubted, 50, "{report:?}");
}

#[test]
fn records_of_other_zones_are_not_believed() {
    let other = Upstream::new(|asked| vec![address(&asked.query, 300, RIGHT)]);
    let zone = Upstream::new(|asked| {
        let mut reply = address(&asked.query, 300, RIGHT);
        // A second answer and an additional record, of a name that is not the server's.
        let foreign =
            [&b"\x06victim\x04test\0\0\x01\0\x01\0\0\x10\0\0\x04\xc0\0\x02"[..], &[FORGED]].concat();
        reply[7] = 2;
        reply[11] = 1;
        reply.extend(&foreign);
        reply.extend(&foreign);
        vec![reply]
    });
    let stub = format!("evil.test={}", zone.flag());
    let server = cache(&[&stub, &other.flag()], &[]);
    let at = server.addresses[0];
    for id in 0..2 {
        let reply = ask(at, &asks(id, "www.evil.test", A));
        assert_eq!(reply.records(), [(A, vec![192, 0, 2, RIGHT])], "only what is the server's");
        let victim = ask(at, &asks(id, "victim.test", A));
        assert_eq!(victim.records(), [(A, vec![192, 0, 2, RIGHT])]);
    }
    assert_eq!((zone.asked(), other.asked()), (1, 1));
    stop(server);
}
