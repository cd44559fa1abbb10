//! Hostile bytes from clients: each query gets one reply, all else gets none, the front counts every message,
//! and keeps nothing of them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, UdpSocket};

use fastrand::Rng;

use super::{echo, front, models, stop};
use crate::auth::connections::{IDLE, is_closed};
use crate::auth::dns::{A, ask, ask_by, connect, framed, next, query, query_edns};
use crate::serve::sent::{flow, wait_until_read};

/// Packets to each model.
const PACKETS: usize = 4000;

/// Invalid names: a pointer to itself, two pointers to each other, a pointer past the end, a label of an
/// unknown kind, a label longer than the packet, and more than 255 bytes of labels.
fn bad_names() -> Vec<Vec<u8>> {
    let long = [&[63][..], &[b'a'; 63]].concat().repeat(5);
    vec![
        vec![0xc0, 12],
        vec![0xc0, 14, 0xc0, 12],
        vec![0xff, 0xff],
        vec![0x40, 1, 2],
        vec![0x80],
        vec![63, b'a'],
        long,
        vec![],
    ]
}

/// Fewer than `most` random bytes.
fn noise(rng: &mut Rng, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; rng.usize(..most)];
    rng.fill(&mut bytes);
    bytes
}

/// A packet of a random kind. Most begin like a query.
pub(crate) fn packet(rng: &mut Rng, id: u16) -> Vec<u8> {
    let good = if rng.bool() { query(id, "www.hostile.test", A) } else { query_edns(id, "a.test", A, 1232) };
    let mut packet = good.clone();
    match rng.u8(..12) {
        0 => packet.truncate(rng.usize(..=good.len())),
        1 => packet[2] |= 0x80,
        // Wrong flags, opcodes and counts.
        2 => (2..4).for_each(|at| packet[at] = rng.u8(..)),
        3 => (4..12).for_each(|at| packet[at] = rng.u8(..)),
        4 => packet[4 + 2 * rng.usize(..4)..][..2].fill(0xff),
        5 => {
            packet.truncate(12);
            packet.extend(rng.choice(bad_names()).unwrap());
            packet.extend([0, 1, 0, 1]);
        }
        6 => packet.extend(noise(rng, 400)),
        7 => {
            let at = rng.usize(2..packet.len());
            packet[at] ^= 1 << rng.u8(..8);
        }
        8 => packet = noise(rng, 600),
        9 => packet.resize(rng.usize(4090..4100), 0),
        10 => {
            // Many questions, as many as the header counts.
            packet[5] = rng.u8(2..);
            let question = good[12..].to_vec();
            (1..packet[5]).for_each(|_| packet.extend(&question));
            packet.truncate(4097);
        }
        // A transfer, an update, a notification, another version of EDNS.
        _ => packet[good.len() - 3] = rng.u8(..),
    }
    packet
}

/// Why a packet gets no reply, if it gets none. This follows the DNS standards and not the front's parser.
pub(crate) fn fate(packet: &[u8]) -> Option<&'static str> {
    match packet {
        _ if packet.len() < 12 => Some("query-too-short"),
        _ if packet.len() > 4096 => Some("query-too-long"),
        _ if packet[2] & 0x80 != 0 => Some("is-response"),
        _ => None,
    }
}

/// Sends packets, and awaits the reply to each that must have one. Returns the numbers of answered and
/// dropped packets.
pub(crate) fn play(address: SocketAddr, rng: &mut Rng) -> (u64, BTreeMap<String, u64>) {
    let flow: UdpSocket = flow(address);
    let (mut answered, mut dropped) = (0, BTreeMap::new());
    let mut buffer = vec![0; 65_535];
    for number in 0..PACKETS {
        let packet = packet(rng, number as u16);
        flow.send(&packet).unwrap();
        if let Some(cause) = fate(&packet) {
            *dropped.entry(cause.to_owned()).or_default() += 1;
            continue;
        }
        let bytes = flow.recv(&mut buffer).unwrap_or_else(|error| panic!("{error}: no reply to {packet:x?}"));
        let reply = &buffer[..bytes];
        assert!(
            bytes >= 12 && reply[2] & 0x80 != 0 && reply[..2] == packet[..2],
            "{reply:x?} to {packet:x?}"
        );
        assert!(bytes <= packet.len(), "{reply:x?} to {packet:x?}");
        answered += 1;
    }
    wait_until_read(address.port());
    (answered, dropped)
}

#[test]
fn every_packet_has_the_fate_that_its_bytes_give_it() {
    let (_echo, way) = echo();
    for model in models() {
        for workers in [&[][..], &["--threads", "2", "--sockets", "reuseport", "--reply", "own"]] {
            let server = front(&[&way], &[&["--io", model, "--listen", "[::1]:0"], workers].concat());
            let mut rng = Rng::with_seed(7);
            let (mut answered, mut dropped) = (0, BTreeMap::new());
            for &address in &server.addresses {
                let (more, causes) = play(address, &mut rng);
                answered += more;
                for (cause, count) in causes {
                    *dropped.entry(cause).or_default() += count;
                }
            }
            assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), 0);
            let report = stop(server);
            assert_eq!((report.answered, &report.dropped), (answered + 1, &dropped), "{model}");
            assert_eq!(report.received, 2 * PACKETS as u64 + 1);
            assert_eq!(report.response_rcodes.values().sum::<u64>(), answered + 1);
            // Nothing was outstanding any more.
            let back_end = &report.back_ends[&way];
            assert_eq!(
                (back_end.timed_out, back_end.mismatched, back_end.unsolicited),
                (0, 0, 0),
                "{back_end:?}"
            );
            assert!(back_end.unsettled <= 2, "but for a check of each worker: {back_end:?}");
        }
    }
}

#[test]
fn every_message_by_a_connection_has_the_fate_that_its_bytes_give_it() {
    let rig = crate::auth::Rig::new();
    let (_authority, [_, way, _]) = super::authority(&rig);
    let server = front(&[&way], &[]);
    let mut rng = Rng::with_seed(11);
    let (mut answered, mut dropped, mut not_dns) = (0, BTreeMap::new(), 0);
    let mut stream = connect(server.addresses[0]);
    for number in 0..PACKETS {
        let packet = packet(&mut rng, number as u16);
        stream.write_all(&framed(&packet)).unwrap();
        if packet.len() < 12 {
            // A message without a whole header ends the connection.
            assert!(is_closed(&mut stream));
            stream = connect(server.addresses[0]);
            not_dns += 1;
        } else if let Some(cause) = fate(&packet) {
            *dropped.entry(cause.to_owned()).or_default() += 1;
        } else {
            let reply = next(&mut stream);
            assert!(reply.0[2] & 0x80 != 0 && reply.0[..2] == packet[..2], "{reply:x?} to {packet:x?}");
            answered += 1;
        }
    }
    assert_eq!(ask_by(&mut stream, &query(1, "www.auth.test", A)).answers(), 1);
    let report = stop(server);
    let tcp = report.tcp.unwrap();
    assert_eq!((tcp.answered, &tcp.dropped), (answered + 1, &dropped));
    assert_eq!(tcp.ended["not-dns"], not_dns);
    assert_eq!(report.back_ends[&way].timed_out, 0);
}

/// Lengths of all kinds, and ends of all kinds behind them.
#[test]
fn a_connection_ends_as_it_has_to_wherever_it_is_cut() {
    let rig = crate::auth::Rig::new();
    let (_authority, [_, way, _]) = super::authority(&rig);
    let server = front(&[&way], &["--tcp-idle", IDLE]);
    let address = server.addresses[0];
    let good = framed(&query(5, "www.auth.test", A));
    let none = [0; 2];
    let whole = [&[0xff; 2][..], &vec![0; 65_535]].concat();
    let begun = [0xff, 0xff, 1, 2, 3];
    let cases = [
        (none.to_vec(), 0),
        ([&good, &none[..]].concat(), 1),
        // The longest frame: too long for a query. The front answers the query after it.
        ([&whole, &good[..]].concat(), 1),
        (begun.to_vec(), 0),
        ([&good, &begun[..]].concat(), 1),
        ([&good, &good[..1]].concat(), 1),
        ([&good, &good[..], &good[..9]].concat(), 2),
        (vec![], 0),
    ];
    let cut = |bytes: &[u8], replies: u32, says_all: bool| {
        let mut stream = connect(address);
        stream.write_all(bytes).unwrap();
        if says_all {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        for _ in 0..replies {
            assert_eq!(next(&mut stream).answers(), 1, "{bytes:x?}");
        }
        // At once if the client has ended its stream or sent no DNS, else after the idle time.
        assert!(is_closed(&mut stream), "{bytes:x?} {says_all}");
    };
    // All at the same time, since half of them wait.
    std::thread::scope(|scope| {
        for (bytes, replies) in &cases {
            for says_all in [true, false] {
                scope.spawn(move || cut(bytes, *replies, says_all));
            }
        }
    });
    let connections = 2 * cases.len() as u64;
    assert_eq!(ask_by(&mut connect(address), &query(6, "www.auth.test", A)).answers(), 1);
    let tcp = stop(server).tcp.unwrap();
    assert_eq!((tcp.connections, tcp.ended["not-dns"]), (connections + 1, 4));
    assert_eq!(tcp.dropped, [("query-too-long".to_owned(), 2)].into());
    assert_eq!((tcp.received, tcp.answered), (15, 13));
}
