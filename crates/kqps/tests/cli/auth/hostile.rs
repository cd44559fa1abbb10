//! Hostile bytes by datagrams, TCP and the Unix socket, to workers that are threads or processes: each query
//! gets one reply, all else gets none, and the server counts every message.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use fastrand::Rng;
use kqps_kernel::process::Signal;

use super::connections::is_closed;
use super::dns::{A, ask, ask_by, connect, framed, next, query};
use super::{Rig, WORKERS};
use crate::front::hostile::{fate, packet, play};

/// Messages to each server by each transport.
const PACKETS: u16 = 1000;

/// The cause of dropping a datagram that is too long. Connections take messages of any length.
const TOO_LONG: &str = "query-too-long";

/// Counts that the server must report.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    answered: u64,
    dropped: BTreeMap<String, u64>,
    not_dns: u64,
}

/// Sends messages by connections, each after the reply to the previous one.
fn play_by<S: Read + Write>(connect: impl Fn() -> S, rng: &mut Rng, counts: &mut Counts) {
    let mut stream = connect();
    for number in 0..PACKETS {
        let packet = packet(rng, number);
        stream.write_all(&framed(&packet)).unwrap();
        if packet.len() < 12 {
            assert!(is_closed(&mut stream), "what has no header ends the connection");
            stream = connect();
            counts.not_dns += 1;
        } else if let Some(cause) = fate(&packet).filter(|cause| *cause != TOO_LONG) {
            *counts.dropped.entry(cause.to_owned()).or_default() += 1;
        } else {
            let reply = next(&mut stream);
            assert!(reply.0[2] & 0x80 != 0 && reply.0[..2] == packet[..2], "{reply:x?} to {packet:x?}");
            counts.answered += 1;
        }
    }
    assert_eq!(ask_by(&mut stream, &query(1, "www.auth.test", A)).answers(), 1);
    counts.answered += 1;
}

#[test]
fn every_message_has_the_fate_that_its_bytes_give_it_however_it_comes() {
    let rig = Rig::new();
    for workers in WORKERS {
        let server = rig.start_with_socket(workers);
        let mut rng = Rng::with_seed(13);
        let mut counts = Counts::default();
        play_by(|| rig.connect(), &mut rng, &mut counts);
        play_by(|| connect(server.addresses[0]), &mut rng, &mut counts);
        let (answered, dropped) = play(server.addresses[0], &mut rng);
        assert_eq!(ask(server.addresses[0], &query(1, "www.auth.test", A)).answers(), 1);
        let report = server.stop(Signal::Terminate);
        assert_eq!((report.answered, &report.dropped), (answered + 1, &dropped), "{workers:?}");
        let tcp = report.tcp.unwrap();
        let not_dns = tcp.ended["not-dns"];
        let by_connections = Counts { answered: tcp.answered, dropped: tcp.dropped, not_dns };
        assert_eq!(by_connections, counts, "{workers:?}");
    }
}
