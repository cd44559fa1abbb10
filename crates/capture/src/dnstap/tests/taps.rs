//! The contents of frames.

use std::net::IpAddr;

use super::*;

/// A frame written by hand from `dnstap.proto`.
const BY_HAND: &[u8] = b"\x0a\x04host\
    \x72\x38\
    \x08\x05\
    \x10\x01\
    \x18\x03\
    \x22\x04\xc0\x00\x02\x01\
    \x2a\x04\xc6\x33\x64\x07\
    \x30\xc0\xb8\x02\
    \x38\xd5\x06\
    \x40\x01\
    \x4d\x05\x00\x00\x00\
    \x52\x13\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01\
    \x5a\x01\0\
    \x78\x01";

fn ends() -> (SocketAddr, SocketAddr) {
    let address = |text: &str| text.parse().expect("an address");
    (address("192.0.2.1:40000"), address("198.51.100.7:53"))
}

fn message(at_ns: u64, kind: Kind, bytes: &[u8]) -> OwnedEvent {
    let (transport, connection) = (Transport::Udp, None);
    OwnedEvent::Message { at_ns, kind, ends: ends(), transport, connection, bytes: bytes.to_vec() }
}

/// Reads one frame, which is skipped. Returns the cause.
fn why(tap: Tap) -> Why {
    let (seen, counts) = read(&stream(&[tap]));
    assert!(seen.is_empty() && counts.packets == 1, "{seen:?}");
    let [(why, 1)] = skipped(&counts)[..] else { panic!("{counts:?}") };
    why
}

#[test]
fn a_frame_by_hand() {
    let (seen, counts) = read(&[START, &data(BY_HAND), STOP].concat());
    let (client, mut server) = ends();
    server.set_port(853);
    let expected = OwnedEvent::Message {
        at_ns: S_NS + 5,
        kind: Kind::Query,
        ends: (client, server),
        transport: Transport::Tls,
        connection: Some(0),
        bytes: QUERY.to_vec(),
    };
    assert_eq!(seen, [expected]);
    assert_eq!((counts.packets, counts.queries), (1, 1));
}

#[test]
fn a_query_and_its_response() {
    let (seen, counts) = read(&stream(&[client_query(), client_response()]));
    let response = message(S_NS + S_NS / 2, Kind::Response, REPLY);
    assert_eq!(seen, [message(S_NS, Kind::Query, QUERY), response]);
    assert_eq!((counts.packets, counts.queries, counts.responses, counts.further), (2, 1, 1, 0));
}

#[test]
fn a_response_brings_its_query_unless_that_had_a_frame() {
    let both = [message(S_NS, Kind::Query, QUERY), message(S_NS + S_NS / 2, Kind::Response, REPLY)];
    let (seen, counts) = read(&stream(&[client_response()]));
    assert_eq!(seen, both);
    assert_eq!((counts.packets, counts.queries, counts.responses, counts.further), (1, 1, 1, 1));
    // Another client with the same query, a query without a time, and one after its response.
    let other = Tap { query_port: Some(40_001), ..client_response() };
    let (_, counts) = read(&stream(&[client_query(), client_response(), other]));
    assert_eq!((counts.packets, counts.queries, counts.responses, counts.further), (3, 2, 2, 1));
    for query_time_sec in [None, Some(2)] {
        let (seen, _) = read(&stream(&[Tap { query_time_sec, ..client_response() }]));
        assert_eq!(seen[0], message(S_NS + S_NS / 2, Kind::Query, QUERY));
    }
    // A query that cannot be taken leaves the response alone.
    let bad = Tap { query_message: Some(REPLY.to_vec()), ..client_response() };
    let (seen, counts) = read(&stream(&[bad]));
    assert_eq!((seen, counts.further), (both[1..].to_vec(), 0));
}

#[test]
fn what_the_server_received_is_taken_as_a_resolver_or_as_an_authority() {
    let of_type = |tap: Tap, kind: i32| Tap { kind: Some(kind), ..tap };
    let auth = [of_type(client_query(), proto::AUTH_QUERY), of_type(client_response(), proto::AUTH_RESPONSE)];
    let resolver = [of_type(client_query(), 3), of_type(client_response(), 4), of_type(client_query(), 99)];
    let client = [client_query(), client_response()];
    for (first, second) in [(&client, &auth), (&auth, &client)] {
        let taps: Vec<Tap> = resolver.iter().chain(first).chain(second).chain(first).cloned().collect();
        let (seen, counts) = read(&stream(&taps));
        assert_eq!(seen.len(), 6);
        assert_eq!((counts.packets, counts.queries, counts.responses), (9, 3, 3));
        assert_eq!(skipped(&counts), [(Why::OtherTap, 3)]);
    }
    // BIND writes a query without RD as one to an authority, whatever the response's kind is.
    let (seen, counts) = read(&stream(&[auth[0].clone(), client[1].clone()]));
    assert_eq!((seen.len(), counts.queries, counts.responses), (2, 1, 1));
}

#[test]
fn the_protocol_gives_the_transport() {
    let transports = [
        (1, Transport::Udp),
        (2, Transport::Tcp),
        (3, Transport::Tls),
        (4, Transport::Https),
        (7, Transport::Quic),
    ];
    for (protocol, expected) in transports {
        let tap = Tap { socket_protocol: Some(protocol), ..client_query() };
        let (seen, _) = read(&stream(&[tap]));
        let [OwnedEvent::Message { transport, connection, .. }] = seen[..] else { panic!("{seen:?}") };
        assert_eq!((transport, connection.is_some()), (expected, expected != Transport::Udp));
    }
    for protocol in [5, 6, 8] {
        let tap = Tap { socket_protocol: Some(protocol), ..client_query() };
        assert_eq!(why(tap), Why::OtherProtocol);
    }
    assert_eq!(why(Tap { socket_protocol: None, ..client_query() }), Why::BadTap);
}

#[test]
fn addresses_have_the_length_of_their_family() {
    let client: IpAddr = "2001:db8::1".parse().expect("an address");
    let octets = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].to_vec();
    for socket_family in [Some(proto::INET6), None] {
        let tap = Tap { socket_family, query_address: Some(octets.clone()), ..client_query() };
        let tap = Tap { response_address: None, response_port: None, query_port: None, ..tap };
        let (seen, _) = read(&stream(&[tap]));
        let [OwnedEvent::Message { ends, .. }] = seen[..] else { panic!("{seen:?}") };
        assert_eq!(ends.0, SocketAddr::new(client, 0));
        assert_eq!(ends.1.to_string(), "[::]:53");
    }
    let bad = [
        Tap { socket_family: Some(proto::INET6), ..client_query() },
        Tap { query_address: Some(octets), ..client_query() },
        Tap { query_address: Some(vec![192, 0, 2]), ..client_query() },
        Tap { query_address: None, ..client_query() },
        Tap { response_address: Some(Vec::new()), ..client_query() },
        Tap { socket_family: Some(3), ..client_query() },
        Tap { query_port: Some(65_536), ..client_query() },
        Tap { response_port: Some(u32::MAX), ..client_query() },
    ];
    for tap in bad {
        assert_eq!(why(tap), Why::BadTap);
    }
}

#[test]
fn a_frame_needs_a_time_and_a_message() {
    let bad = [
        Tap { query_time_sec: None, ..client_query() },
        Tap { query_time_nsec: Some(1_000_000_000), ..client_query() },
        Tap { query_time_sec: Some(u64::MAX), ..client_query() },
        Tap { query_message: None, ..client_query() },
        Tap { response_message: None, ..client_response() },
        Tap { kind: None, ..client_query() },
    ];
    for tap in bad {
        assert_eq!(why(tap), Why::BadTap);
    }
    let (seen, _) = read(&stream(&[Tap { query_time_nsec: None, ..client_query() }]));
    assert_eq!(seen, [message(S_NS, Kind::Query, QUERY)]);
}

#[test]
fn a_message_is_what_its_frame_says() {
    let query = |message: Vec<u8>| Tap { query_message: Some(message), ..client_query() };
    for message in [vec![], QUERY[..11].to_vec(), REPLY.to_vec(), [QUERY, &vec![0; 65_536]].concat()] {
        assert_eq!(why(query(message)), Why::BadMessage);
    }
    let other_way = Tap { response_message: Some(QUERY.to_vec()), ..client_response() };
    assert_eq!(why(other_way), Why::BadMessage);
    let mut notify = QUERY.to_vec();
    notify[2] = 0x20;
    assert_eq!(why(query(notify)), Why::NotAQuery);
}

#[test]
fn frames_that_are_no_messages_are_counted() {
    let tap = Some(client_query());
    let frames = [
        vec![0xff; 10],
        Dnstap { message: None, kind: Some(proto::MESSAGE) }.encode_to_vec(),
        Dnstap { message: tap.clone(), kind: Some(2) }.encode_to_vec(),
        Dnstap { message: tap, kind: None }.encode_to_vec(),
    ];
    let frames: Vec<u8> = frames.iter().flat_map(|frame| data(frame)).collect();
    let (seen, counts) = read(&[START, &frames, STOP].concat());
    assert!(seen.is_empty());
    assert_eq!(skipped(&counts), [(Why::BadTap, 4)]);
}

#[test]
fn only_the_servers_of_the_settings_are_taken_and_all_ports() {
    let stream = stream(&[
        client_query(),
        Tap { response_address: Some(vec![198, 51, 100, 8]), ..client_query() },
        Tap { response_address: None, response_port: Some(5353), ..client_query() },
    ]);
    let settings =
        Settings { servers: vec!["198.51.100.7".parse().expect("an address")], ..Settings::default() };
    let (seen, counts, failed) = read_with(&stream, &settings);
    assert!(failed.is_none());
    assert_eq!((seen.len(), skipped(&counts)), (2, vec![(Why::OtherServer, 1)]));
}
