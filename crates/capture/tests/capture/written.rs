//! The writer's captures: read back, and their checksums compared by another implementation.

use std::net::SocketAddr;

use etherparse::checksum::Sum16BitWords;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use kqps_capture::write::{Segment, Writer};
use kqps_capture::{Kind, Transport, Why};

use super::bytes::{AT_NS, client, client6, query, read, reply, server, server6};

/// The first packets of a capture: times, and frames.
fn frames(capture: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut rest = &capture[24..];
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<16>() {
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        assert_eq!(word(8), word(12));
        let (frame, after) = after.split_at(word(8) as usize);
        frames.push((u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)), frame.to_vec()));
        rest = after;
    }
    frames
}

/// Whether all checksums of a packet are right.
fn has_right_checksums(packet: &[u8]) -> bool {
    let sliced = SlicedPacket::from_ip(packet).expect("a packet");
    let (addresses, is_header_right, start) = match sliced.net.expect("a header") {
        NetSlice::Ipv4(_) => {
            let header = Sum16BitWords::new().add_slice(&packet[..20]);
            (&packet[12..20], header.ones_complement() == 0, 20)
        }
        NetSlice::Ipv6(_) => (&packet[8..40], true, 40),
        NetSlice::Arp(_) => return false,
    };
    let protocol = match sliced.transport.expect("a transport") {
        TransportSlice::Udp(_) => 17_u8,
        TransportSlice::Tcp(_) => 6,
        _ => return false,
    };
    let content = &packet[start..];
    let end = [&[0, protocol][..], &(content.len() as u16).to_be_bytes()].concat();
    let all = Sum16BitWords::new().add_slice(addresses).add_slice(&end).add_slice(content);
    is_header_right && all.ones_complement() == 0
}

#[test]
fn the_bytes_of_a_capture_are_known() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    writer.udp(AT_NS, client(), server(), &query(1)).expect("memory takes all");
    let capture = writer.finish().expect("memory takes all");
    let header = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    assert_eq!(capture[..24], header);
    // 1,700,000,000 s, 1000 ns, and 47 bytes twice.
    assert_eq!(capture[24..40], [0x00, 0xf1, 0x53, 0x65, 0xe8, 3, 0, 0, 47, 0, 0, 0, 47, 0, 0, 0]);
    assert_eq!(capture[40..50], [0x45, 0, 0, 47, 0, 0, 0x40, 0, 64, 17]);
    assert_eq!(capture.len(), 24 + 16 + 47);
}

#[test]
fn checksums_are_right_and_messages_come_back() {
    for (client, server) in [(client(), server()), (client6(), server6())] {
        for length in [19, 20, 511, 512, 1232] {
            let mut message = query(1);
            message.resize(length, 0xa5);
            let mut writer = Writer::new(Vec::new()).expect("memory takes all");
            writer.udp(AT_NS, client, server, &message).expect("memory takes all");
            let response = reply(1);
            let answered = Some((AT_NS + 5, &response[..]));
            writer.tcp_query(AT_NS, client, server, &message, answered).expect("memory takes all");
            let capture = writer.finish().expect("memory takes all");
            assert!(frames(&capture).iter().all(|(_, packet)| has_right_checksums(packet)));
            let outcome = read(capture);
            assert_eq!(outcome.error, None);
            let messages: Vec<_> =
                outcome.messages.iter().map(|one| (one.at_ns, one.kind, one.transport, &one.bytes)).collect();
            let expected = [
                (AT_NS, Kind::Query, Transport::Udp, &message),
                (AT_NS, Kind::Query, Transport::Tcp, &message),
                (AT_NS + 5, Kind::Response, Transport::Tcp, &response),
            ];
            assert_eq!(messages, expected);
            assert_eq!(outcome.messages[1].connection, outcome.messages[2].connection);
            assert_eq!(outcome.closed, [outcome.messages[1].connection.expect("a connection")]);
        }
    }
}

#[test]
fn ethernet_has_its_frames() {
    let mut writer = Writer::ethernet(Vec::new()).expect("memory takes all");
    writer.udp(AT_NS, client(), server(), &query(1)).expect("memory takes all");
    writer.udp(AT_NS, client6(), server6(), &query(2)).expect("memory takes all");
    let capture = writer.finish().expect("memory takes all");
    assert_eq!(capture[20..24], [1, 0, 0, 0]);
    let kinds: Vec<_> = frames(&capture).iter().map(|(_, frame)| [frame[12], frame[13]]).collect();
    assert_eq!(kinds, [[0x08, 0x00], [0x86, 0xdd]]);
    assert!(frames(&capture).iter().all(|(_, frame)| has_right_checksums(&frame[14..])));
    assert_eq!(read(capture).ids(), [1, 2]);
}

#[test]
fn a_connection_has_its_segments() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    writer.tcp_connect(AT_NS, client(), server()).expect("memory takes all");
    let message = [query(1), vec![0; 3000]].concat();
    writer.tcp_message(AT_NS + 1, client(), server(), &message).expect("memory takes all");
    writer.tcp_reset(AT_NS + 2, server(), client()).expect("memory takes all");
    let capture = writer.finish().expect("memory takes all");
    let seen: Vec<_> = frames(&capture)
        .iter()
        .map(|(_, packet)| {
            let sequence = u32::from_be_bytes([packet[24], packet[25], packet[26], packet[27]]);
            (packet[33], packet.len() - 40, sequence)
        })
        .collect();
    let (flags, lengths): (Vec<_>, Vec<_>) = seen.iter().map(|(flags, bytes, _)| (*flags, *bytes)).unzip();
    let data = Segment::PSH | Segment::ACK;
    let (ack, reset) = (Segment::ACK, Segment::RST | Segment::ACK);
    assert_eq!(flags, [Segment::SYN, Segment::SYN | ack, ack, data, data, data, reset]);
    assert_eq!(lengths, [0, 0, 0, 1220, 1220, 3021 - 2440, 0]);
    let first = seen[0].2;
    let sequences = [seen[2].2, seen[3].2, seen[4].2, seen[5].2].map(|sequence| sequence.wrapping_sub(first));
    assert_eq!(sequences, [1, 1, 1221, 2441]);
    let outcome = read(capture);
    assert_eq!(outcome.messages.iter().map(|one| &one.bytes).collect::<Vec<_>>(), [&message]);
    assert_eq!((outcome.messages[0].at_ns, outcome.closed.len()), (AT_NS + 1, 1));
}

#[test]
fn a_capture_may_begin_in_the_middle_of_a_connection() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    for id in [1, 2] {
        writer.tcp_message(AT_NS, client(), server(), &query(id)).expect("memory takes all");
        writer.tcp_message(AT_NS, server(), client(), &reply(id)).expect("memory takes all");
    }
    let outcome = read(writer.finish().expect("memory takes all"));
    assert_eq!(outcome.ids(), [1, 1, 2, 2]);
}

#[test]
fn connections_without_messages_have_no_end() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    for port in 0..100 {
        let flood = SocketAddr::new(client().ip(), 10_000 + port);
        writer.tcp_connect(AT_NS, flood, server()).expect("memory takes all");
        writer.tcp_reset(AT_NS, server(), flood).expect("memory takes all");
    }
    writer.tcp_query(AT_NS, client(), server(), &query(1), None).expect("memory takes all");
    let outcome = read(writer.finish().expect("memory takes all"));
    assert_eq!((outcome.ids(), outcome.closed), (vec![1], vec![100]));
}

#[test]
fn equal_messages_are_no_duplicates() {
    for (client, server) in [(client(), server()), (client6(), server6())] {
        let mut writer = Writer::new(Vec::new()).expect("memory takes all");
        for _ in 0..10 {
            writer.udp(AT_NS, client, server, &query(1)).expect("memory takes all");
        }
        let outcome = read(writer.finish().expect("memory takes all"));
        assert_eq!((outcome.counts.queries, outcome.counts.skipped_by(Why::Duplicate)), (10, 0));
    }
}

#[test]
fn what_no_packet_holds_is_refused() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    let said = writer.udp(AT_NS, client(), server6(), &query(1)).expect_err("two versions").to_string();
    assert_eq!(said, "the addresses of a packet are of two versions of IP");
    let said = writer.udp(AT_NS, client(), server(), &vec![0; 65_508]).expect_err("too long").to_string();
    assert_eq!(said, "a message too long for a packet");
    writer.udp(AT_NS, client(), server(), &vec![0; 65_507]).expect("the longest datagram");
    let refused = writer.tcp_message(AT_NS, client(), server(), &vec![0; 65_536]);
    assert_eq!(refused.expect_err("too long").to_string(), "a message too long for a packet");
    let said = writer.udp(u64::MAX, client(), server(), &query(1)).expect_err("too late").to_string();
    assert_eq!(said, "a time after the year 2106");
}
