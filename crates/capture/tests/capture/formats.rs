//! The format of libpcap in its four forms, and streams that come in pieces.

use std::io::{self, Cursor, Read};
use std::net::{IpAddr, SocketAddr};

use kqps_capture::{Kind, Settings, Transport};

use super::bytes::{
    AT_NS, Copied, GAP_NS, PACKET, UDP, asked, client, ip, pcap, pcap_header, pcap_packet, query, read,
    read_from, reply, server, udp,
};

const RAW: u32 = 101;

fn the_query() -> Copied {
    Copied {
        at_ns: AT_NS,
        kind: Kind::Query,
        client: client(),
        server: server(),
        transport: Transport::Udp,
        connection: None,
        bytes: query(1),
    }
}

#[test]
fn microseconds_and_nanoseconds_are_read_in_both_byte_orders() {
    for (magic, fraction) in [(0xa1b2_c3d4, 1), (0xa1b2_3c4d, 1000)] {
        let mut little = pcap_header(magic, RAW, false);
        little.extend(pcap_packet(1_700_000_000, fraction, &PACKET, PACKET.len()));
        assert_eq!(read(little).messages, [the_query()]);

        let mut big = pcap_header(magic, RAW, true);
        let words = [1_700_000_000, fraction, PACKET.len() as u32, PACKET.len() as u32];
        big.extend(words.map(u32::to_be_bytes).concat());
        big.extend(PACKET);
        assert_eq!(read(big).messages, [the_query()]);
    }
}

#[test]
fn the_modified_format_has_eight_more_bytes_for_each_packet() {
    for is_big in [false, true] {
        let order = |word: u32| if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
        let mut capture = pcap_header(0xa1b2_cd34, RAW, is_big);
        for id in [1, 2] {
            let packet = asked(id);
            capture.extend([1_700_000_000, 1, 47, 47].map(order).concat());
            // The interface, and the protocol, direction and a byte of padding.
            capture.extend([order(1), [8, 0, 0, 0]].concat());
            capture.extend(packet);
        }
        let outcome = read(capture);
        assert_eq!((outcome.error.clone(), outcome.ids()), (None, vec![1, 2]));
        assert_eq!(outcome.messages[0], the_query());
    }
}

#[test]
fn the_first_bytes_of_a_capture_are_known() {
    assert_eq!(pcap_header(0xa1b2_c3d4, RAW, false)[..8], [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
    assert_eq!(pcap_header(0xa1b2_3c4d, RAW, true)[..8], [0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4]);
}

#[test]
fn queries_and_responses_are_known_by_direction_and_bit() {
    let back = ip(server(), client(), UDP, 2, &udp(server(), client(), &reply(1)));
    let outcome = read(pcap(RAW, &[asked(1), back]));
    assert_eq!(outcome.error, None);
    let response = Copied { at_ns: AT_NS + GAP_NS, kind: Kind::Response, bytes: reply(1), ..the_query() };
    assert_eq!(outcome.messages, [the_query(), response]);
}

#[test]
fn the_snap_length_of_the_header_does_not_matter() {
    let mut capture = pcap(RAW, &[asked(1)]);
    capture[16..20].copy_from_slice(&[0xff; 4]);
    assert_eq!(read(capture.clone()).messages, [the_query()]);
    capture[16..20].copy_from_slice(&[0; 4]);
    assert_eq!(read(capture).messages, [the_query()]);
}

#[test]
fn bits_beside_the_type_of_the_link_do_not_matter() {
    // Frames with a checksum of four bytes at their end.
    let capture = pcap(RAW | 0x4400_0000, &[[&PACKET[..], &[1, 2, 3, 4]].concat()]);
    assert_eq!(read(capture).messages, [the_query()]);
}

#[test]
fn other_ports_and_servers_are_taken_if_the_settings_say_so() {
    let other = SocketAddr::new(server().ip(), 5353);
    let packet = ip(client(), other, UDP, 1, &udp(client(), other, &query(1)));
    let capture = pcap(RAW, &[packet, asked(2)]);
    let settings = Settings { ports: vec![53, 5353], servers: vec![server().ip()], ..Settings::default() };
    assert_eq!(read_from(Cursor::new(capture.clone()), &settings).ids(), [1, 2]);
    let servers = vec![IpAddr::from([192, 0, 2, 99]), server().ip()];
    let settings = Settings { servers, ..Settings::default() };
    assert_eq!(read_from(Cursor::new(capture), &settings).ids(), [2]);
}

/// A pipe that gives few bytes at a time, and is interrupted now and then.
struct Trickle {
    source: Cursor<Vec<u8>>,
    reads: usize,
}

impl Read for Trickle {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads.is_multiple_of(7) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = into.len().min(self.reads % 5 + 1);
        self.source.read(&mut into[..most])
    }
}

#[test]
fn a_pipe_is_read_as_a_file() {
    let capture = pcap(RAW, &(1..100).map(asked).collect::<Vec<_>>());
    let piped = read_from(Trickle { source: Cursor::new(capture.clone()), reads: 0 }, &Settings::default());
    assert_eq!(piped.messages.len(), 99);
    assert_eq!(piped, read(capture));
}

/// A source that fails after its content.
struct Failing(Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::Error::from_raw_os_error(5)),
            bytes => Ok(bytes),
        }
    }
}

#[test]
fn an_error_of_the_system_is_reported_as_such() {
    let outcome = read_from(Failing(Cursor::new(pcap(RAW, &[asked(1)]))), &Settings::default());
    assert_eq!(outcome.messages.len(), 1);
    let said = outcome.error.expect("an error");
    assert!(said.starts_with("cannot read the capture: ") && said.contains("os error 5"), "{said}");
}

#[test]
fn more_packets_than_a_window_holds_are_read() {
    let packets: Vec<_> = (0..20_000).map(asked).collect();
    let outcome = read(pcap(RAW, &packets));
    assert_eq!((outcome.error, outcome.counts.queries), (None, 20_000));
    assert!(outcome.messages.iter().zip(0..).all(|(message, id)| message.bytes == query(id)));
}
