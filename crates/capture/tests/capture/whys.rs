//! Every cause for which packets are skipped. Gaps of TCP and the causes of dnstap are tested where they are found.

use std::io::Cursor;
use std::net::{IpAddr, SocketAddr};

use kqps_capture::{Settings, Why};

use super::bytes::{
    AT_NS, GAP_NS, TCP, UDP, asked, client, client6, ip, pcap, pcap_header, pcap_packet, query, read,
    read_from, reply, server, server6, tcp, udp,
};

const RAW: u32 = 101;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A datagram between these ends.
fn sent(from: SocketAddr, to: SocketAddr, message: &[u8]) -> Vec<u8> {
    ip(from, to, UDP, 1, &udp(from, to, message))
}

fn at_port(port: u16) -> SocketAddr {
    SocketAddr::new(server().ip(), port)
}

/// Checks that a capture of this packet alone has this cause alone.
fn check(why: Why, packet: Vec<u8>) {
    let outcome = read(pcap(RAW, &[packet]));
    assert_eq!((outcome.error.clone(), outcome.skipped()), (None, vec![(why, 1)]));
}

#[test]
fn packets_that_are_not_dns_are_counted_by_cause() {
    check(Why::NotIp, vec![0x10; 40]);
    check(Why::OtherProtocol, ip(client(), server(), 1, 1, &[8, 0, 0, 0, 0, 0, 0, 0]));
    check(Why::OtherPort, sent(client(), at_port(123), &query(1)));
    check(Why::OtherPort, sent(client(), at_port(443), &query(1)));
    check(Why::Encrypted, sent(client(), at_port(853), &query(1)));
    check(Why::Encrypted, ip(at_port(853), client(), TCP, 1, &tcp(at_port(853), client(), 1, ACK, &[1])));
}

#[test]
fn servers_that_were_not_asked_for_are_counted() {
    let of = |servers: Vec<IpAddr>, packet| {
        let settings = Settings { servers, ..Settings::default() };
        read_from(Cursor::new(pcap(RAW, &[packet])), &settings).skipped()
    };
    assert_eq!(of(vec![client().ip()], asked(1)), [(Why::OtherServer, 1)]);
    assert!(of(vec![server().ip()], asked(1)).is_empty());
    // With its address known, a server is one of DNS over HTTPS.
    let packet = sent(client(), at_port(443), &query(1));
    assert_eq!(of(vec![server().ip()], packet.clone()), [(Why::Encrypted, 1)]);
    assert_eq!(of(vec![client().ip()], packet), [(Why::OtherPort, 1)]);
}

#[test]
fn packets_that_the_capture_cut_are_counted() {
    let whole = asked(1);
    for bytes in 0..whole.len() {
        let mut capture = pcap_header(0xa1b2_3c4d, RAW, false);
        capture.extend(pcap_packet(1_700_000_000, 0, &whole[..bytes], whole.len()));
        assert_eq!(read(capture).skipped(), [(Why::Cut, 1)], "{bytes} bytes");
    }
    // Packets that are known not to be DNS are not counted as cut.
    let other = sent(client(), at_port(123), &query(1));
    let mut capture = pcap_header(0xa1b2_3c4d, RAW, false);
    capture.extend(pcap_packet(1_700_000_000, 0, &other[..24], other.len()));
    // Only the frame's padding is missing.
    capture.extend(pcap_packet(1_700_000_001, 0, &whole, 60));
    let outcome = read(capture);
    assert_eq!((outcome.ids(), outcome.skipped()), (vec![1], vec![(Why::OtherPort, 1)]));
}

#[test]
fn what_a_capture_cut_of_a_connection_does_not_stop_it() {
    let whole = |number, id| {
        let payload = [&[0_u8, 19][..], &query(id)].concat();
        let sequence = 1001 + 21 * u32::from(number);
        ip(client(), server(), TCP, number, &tcp(client(), server(), sequence, ACK, &payload))
    };
    let mut capture = pcap_header(0xa1b2_3c4d, RAW, false);
    for number in 0..6_u16 {
        let packet = whole(number, number);
        // The second one is cut within its header, the third one behind it, the fourth one within its message.
        let bytes = [packet.len(), 39, 40, 50, packet.len(), packet.len()][usize::from(number)];
        capture.extend(pcap_packet(1_700_000_000, u32::from(number) * 1000, &packet[..bytes], packet.len()));
    }
    let outcome = read(capture);
    assert_eq!((outcome.ids(), outcome.skipped()), (vec![0, 4, 5], vec![(Why::Cut, 3)]));
}

#[test]
fn bad_headers_are_counted() {
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut packet = asked(1);
        change(&mut packet);
        check(Why::BadHeader, packet);
    };
    // The header's length, twice.
    changed(|packet| packet[0] = 0x44);
    changed(|packet| packet[0] = 0x4f);
    // The packet's length: less than its header, more than there is.
    changed(|packet| packet[3] = 19);
    changed(|packet| packet[3] += 1);
    // The length of UDP: less than its header, more than there is.
    changed(|packet| packet[25] = 7);
    changed(|packet| packet[25] = 0);
    changed(|packet| packet[25] += 1);
    // No room for the header of UDP.
    changed(|packet| packet[3] = 20 + 6);
    // An offset of TCP that is less than its header, and one beyond its segment.
    for offset in [0x40, 0xf0] {
        let mut segment = tcp(client(), server(), 1, ACK, &[0; 4]);
        segment[12] = offset;
        check(Why::BadHeader, ip(client(), server(), TCP, 1, &segment));
    }
    // An extension header beyond the packet.
    let header = [17, 200, 0, 0, 0, 0, 0, 0];
    check(Why::BadHeader, ip(client6(), server6(), 0, 1, &header));
}

#[test]
fn messages_that_are_no_queries_are_counted() {
    check(Why::BadMessage, sent(client(), server(), &query(1)[..11]));
    check(Why::BadMessage, sent(client(), server(), &reply(1)));
    check(Why::BadMessage, sent(server(), client(), &query(1)));
    // The name, or its type and class, ends beyond the message; two questions of which one is there.
    check(Why::BadMessage, sent(client(), server(), &query(1)[..14]));
    check(Why::BadMessage, sent(client(), server(), &query(1)[..18]));
    let mut two = query(1);
    two[5] = 2;
    check(Why::BadMessage, sent(client(), server(), &two));
    let mut update = query(1);
    update[2] |= 5 << 3;
    check(Why::NotAQuery, sent(client(), server(), &update));
    update[2] |= 0x80;
    check(Why::NotAQuery, sent(server(), client(), &update));
}

#[test]
fn between_two_servers_the_message_says_what_it_is() {
    let other = SocketAddr::from(([192, 0, 2, 54], 53));
    let outcome = read(pcap(RAW, &[sent(server(), other, &query(1)), sent(other, server(), &reply(1))]));
    assert!(outcome.skipped().is_empty());
    let ends: Vec<_> = outcome.messages.iter().map(|message| (message.client, message.server)).collect();
    assert_eq!(ends, [(server(), other); 2]);
}

#[test]
fn between_two_servers_a_handshake_or_a_message_says_which_one_is_asked() {
    let framed = |message: Vec<u8>| [vec![0, 19], message].concat();
    for other in [[192, 0, 2, 1], [192, 0, 2, 99]] {
        let other = SocketAddr::from((other, 53));
        let segment = |number: u16, is_reply: bool, sequence, flags, payload: &[u8]| {
            let (from, to) = if is_reply { (server(), other) } else { (other, server()) };
            ip(from, to, TCP, number, &tcp(from, to, sequence, flags, payload))
        };
        let packets = [
            segment(1, false, 1000, SYN, &[]),
            segment(2, true, 5000, SYN | ACK, &[]),
            segment(3, false, 1001, ACK, &[]),
            segment(4, false, 1001, ACK, &framed(query(1))),
            segment(5, true, 5001, ACK, &framed(reply(1))),
        ];
        for packets in [&packets[..], &packets[3..], &packets[4..]] {
            let outcome = read(pcap(RAW, packets));
            assert_eq!(outcome.messages.len(), packets.len().min(2));
            assert_eq!(outcome.counts.skipped_by(Why::BadMessage), 0);
            for message in outcome.messages {
                assert_eq!((message.client, message.server, message.connection), (other, server(), Some(0)));
            }
        }
    }
}

#[test]
fn mirrored_packets_are_counted_once() {
    let at = |after_us: u32, packet: &[u8]| pcap_packet(1_700_000_000, after_us * 1000, packet, packet.len());
    let mut hopped = asked(1);
    // A hop later, with other checksums, of which the device computed that of UDP.
    hopped[8] -= 1;
    hopped[10] = 0xaa;
    hopped[26..28].copy_from_slice(&[0x12, 0x34]);
    let mut capture = pcap_header(0xa1b2_3c4d, RAW, false);
    capture.extend(at(100_000, &asked(1)));
    capture.extend(at(100_010, &hopped));
    // Another packet with the same message: the client sent it again.
    capture.extend(at(100_020, &ip(client(), server(), UDP, 77, &udp(client(), server(), &query(1)))));
    // Its number was used again.
    capture.extend(at(102_001, &asked(1)));
    let outcome = read(capture);
    assert_eq!((outcome.ids(), outcome.skipped()), (vec![1, 1, 1], vec![(Why::Duplicate, 1)]));
}

#[test]
fn a_flood_of_equal_packets_is_not_taken_for_copies_alone() {
    let mut capture = pcap_header(0xa1b2_3c4d, RAW, false);
    for number in 0..100 {
        capture.extend(pcap_packet(1_700_000_000, number * 1000, &asked(0), asked(0).len()));
    }
    let outcome = read(capture);
    assert_eq!((outcome.counts.queries, outcome.skipped()), (50, vec![(Why::Duplicate, 50)]));
}

#[test]
fn segments_that_complete_no_message_are_counted() {
    check(Why::TcpControl, ip(client(), server(), TCP, 1, &tcp(client(), server(), 1000, SYN, &[])));
    let whole = [&[0_u8, 19][..], &query(1)].concat();
    let segment = |number, sequence, flags, payload: &[u8]| {
        ip(client(), server(), TCP, number, &tcp(client(), server(), sequence, flags, payload))
    };
    let outcome = read(pcap(
        RAW,
        &[
            segment(1, 1000, SYN, &[]),
            segment(2, 1001, ACK, &whole[..7]),
            segment(3, 1008, ACK, &whole[7..]),
            segment(4, 1001, ACK, &whole[..7]),
        ],
    ));
    assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1]));
    assert_eq!(outcome.messages[0].at_ns, AT_NS + 2 * GAP_NS);
    let skipped = [(Why::TcpControl, 1), (Why::TcpPart, 1), (Why::TcpRepeated, 1)];
    assert_eq!(outcome.skipped(), skipped);
}

#[test]
fn what_waits_for_missing_bytes_comes_out_at_the_end() {
    let payload = |id| [&[0_u8, 19][..], &query(id)].concat();
    let segment = |number, sequence, payload: &[u8]| {
        ip(client(), server(), TCP, number, &tcp(client(), server(), sequence, ACK, payload))
    };
    // The bytes from 1022 to 1042 are missing.
    let packets = [
        segment(1, 1001, &payload(1)),
        segment(2, 1043, &payload(3)),
        segment(3, 1064, &[payload(4), payload(5)].concat()),
    ];
    let outcome = read(pcap(RAW, &packets));
    assert_eq!((outcome.ids(), outcome.counts.further), (vec![1, 3, 4, 5], 3));
    assert_eq!(outcome.skipped(), [(Why::TcpPart, 2)]);
    assert!(outcome.closed.is_empty(), "the connection is open when the capture ends");
}

#[test]
fn messages_of_one_segment_are_counted_each() {
    let mut update = query(2);
    update[2] |= 5 << 3;
    let messages = [query(1), update, query(3)];
    let payload: Vec<u8> = messages.into_iter().flat_map(|message| [vec![0, 19], message].concat()).collect();
    let packets = [
        ip(client(), server(), TCP, 1, &tcp(client(), server(), 1000, SYN, &[])),
        ip(client(), server(), TCP, 2, &tcp(client(), server(), 1001, ACK, &payload)),
    ];
    let outcome = read(pcap(RAW, &packets));
    assert_eq!((outcome.ids(), outcome.counts.further), (vec![1, 3], 2));
    assert_eq!(outcome.skipped(), [(Why::TcpControl, 1), (Why::NotAQuery, 1)]);
}
