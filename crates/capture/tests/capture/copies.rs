//! Copies of mirrored ports and of several interfaces, and clients that ask the same again.

use std::net::SocketAddr;

use kqps_capture::Why;

use super::bytes::{
    UDP, client, client6, ip, pcap_header, pcap_packet, query, read, reply, server, server6, udp,
};
use super::pcapng::LITTLE;

const RAW: u32 = 101;
const NS_MAGIC: u32 = 0xa1b2_3c4d;

/// Nanoseconds after a query at which it comes again, its reply comes, and that comes again.
struct Times {
    again_ns: u32,
    reply_ns: u32,
    reply_again_ns: u32,
}

const ANSWERED_BETWEEN: Times = Times { again_ns: 528_000, reply_ns: 100_000, reply_again_ns: 620_000 };
const TOGETHER: Times = Times { again_ns: 300_000, reply_ns: 400_000, reply_again_ns: 500_000 };
const MIRRORED: Times = Times { again_ns: 2_000, reply_ns: 100_000, reply_again_ns: 102_000 };
const LATER: Times = Times { again_ns: 3_000_000, reply_ns: 4_000_000, reply_again_ns: 5_000_000 };

/// The ends of a version of IP.
fn ends(is_ipv6: bool) -> (SocketAddr, SocketAddr) {
    if is_ipv6 { (client6(), server6()) } else { (client(), server()) }
}

/// A query and its reply, whose packets have no identification.
fn exchange(is_ipv6: bool, id: u16) -> (Vec<u8>, Vec<u8>) {
    let (client, server) = ends(is_ipv6);
    let packet = |from, to, message: &[u8]| ip(from, to, UDP, 0, &udp(from, to, message));
    (packet(client, server, &query(id)), packet(server, client, &reply(id)))
}

/// A capture of packets with their times in nanoseconds after its begin.
fn capture(mut packets: Vec<(u32, Vec<u8>)>) -> Vec<u8> {
    packets.sort_by_key(|(at_ns, _)| *at_ns);
    let mut capture = pcap_header(NS_MAGIC, RAW, false);
    for (at_ns, packet) in packets {
        capture.extend(pcap_packet(1_700_000_000, at_ns, &packet, packet.len()));
    }
    capture
}

/// Queries, responses and copies in ten exchanges of which every packet comes twice.
fn counted(is_ipv6: bool, times: &Times) -> (u64, u64, u64) {
    let mut packets = Vec::new();
    for number in 0..10 {
        let (query, reply) = exchange(is_ipv6, number);
        let at_ns = u32::from(number) * 10_000_000;
        packets.push((at_ns, query.clone()));
        packets.push((at_ns + times.again_ns, query));
        packets.push((at_ns + times.reply_ns, reply.clone()));
        packets.push((at_ns + times.reply_again_ns, reply));
    }
    let counts = read(capture(packets)).counts;
    (counts.queries, counts.responses, counts.skipped_by(Why::Duplicate))
}

#[test]
fn a_query_that_was_answered_twice_came_twice() {
    for is_ipv6 in [false, true] {
        assert_eq!(counted(is_ipv6, &ANSWERED_BETWEEN), (20, 20, 0), "{is_ipv6}");
        assert_eq!(counted(is_ipv6, &TOGETHER), (20, 20, 0), "{is_ipv6}");
        assert_eq!(counted(is_ipv6, &LATER), (20, 20, 0), "{is_ipv6}");
    }
}

#[test]
fn the_copies_of_a_mirrored_port_are_known_from_the_first_on() {
    for is_ipv6 in [false, true] {
        assert_eq!(counted(is_ipv6, &MIRRORED), (10, 10, 20), "{is_ipv6}");
    }
}

#[test]
fn one_query_again_among_a_thousand_is_a_query_wherever_it_is() {
    for (again, again_ns) in [(0, 10_000), (500, 10_000), (500, 400_000), (999, 10_000)] {
        let mut packets = Vec::new();
        for number in 0..1000 {
            let (query, reply) = exchange(true, number);
            let at_ns = u32::from(number) * 1_000_000;
            let reply_ns = at_ns + 50_000;
            if number == again {
                packets.push((at_ns + again_ns, query.clone()));
                packets.push((reply_ns + again_ns, reply.clone()));
            }
            packets.push((at_ns, query));
            packets.push((reply_ns, reply));
        }
        let outcome = read(capture(packets));
        assert_eq!(outcome.counts.queries, 1001, "{again}, {again_ns} ns later");
        assert_eq!(outcome.skipped(), []);
    }
}

#[test]
fn a_packet_of_another_interface_is_a_copy_without_a_rule() {
    let (query, reply) = exchange(true, 1);
    let at_us = 1_700_000_000_000_000;
    let others = (2..100).flat_map(|id| {
        let (query, reply) = exchange(true, id);
        let at_us = at_us + u64::from(id) * 1000;
        [LITTLE.packet(0, at_us, &query), LITTLE.packet(0, at_us + 50, &reply)].concat()
    });
    let blocks = [
        LITTLE.section(),
        LITTLE.interface(RAW as u16, 0, &[]),
        LITTLE.interface(RAW as u16, 0, &[]),
        // The packets of the second interface come in a row after those of the first.
        LITTLE.packet(0, at_us, &query),
        LITTLE.packet(0, at_us + 700, &reply),
        LITTLE.packet(1, at_us + 600, &query),
        LITTLE.packet(1, at_us + 650, &reply),
        others.collect(),
    ];
    let outcome = read(blocks.concat());
    assert_eq!((outcome.counts.queries, outcome.counts.responses), (99, 99));
    assert_eq!(outcome.skipped(), [(Why::Duplicate, 2)]);
}
