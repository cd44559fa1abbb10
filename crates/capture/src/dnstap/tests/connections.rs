//! Connections, which frames do not name.

use super::super::connections::{CONNECTIONS_MOST, IDLE_NS};
use super::*;

/// A query over TLS from the client with this port in this second.
fn over_tls(port: u32, second: u64) -> Tap {
    Tap {
        socket_protocol: Some(proto::DOT),
        query_port: Some(port),
        response_port: Some(853),
        query_time_sec: Some(second),
        ..client_query()
    }
}

/// The connection of a message, or the number and the time of an end.
type Event = (Option<u64>, Option<(u64, u64)>);

/// The connections of the messages, and the ends, in their order.
fn connections(seen: &[OwnedEvent]) -> Vec<Event> {
    let event = |seen: &OwnedEvent| match *seen {
        OwnedEvent::Message { connection, .. } => (connection, None),
        OwnedEvent::Closed { connection, at_ns } => (None, Some((connection, at_ns))),
    };
    seen.iter().map(event).collect()
}

#[test]
fn ends_and_transport_make_a_connection() {
    let over_tcp = Tap { socket_protocol: Some(proto::TCP), ..over_tls(1, 1) };
    let response = Tap { socket_protocol: Some(proto::DOT), query_port: Some(2), ..client_response() };
    let response = Tap { response_port: Some(853), ..response };
    let (seen, _) = read(&stream(&[over_tls(1, 1), over_tls(2, 1), over_tcp, response, over_tls(1, 2)]));
    let numbers: Vec<_> = connections(&seen).into_iter().map(|(connection, _)| connection).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2), Some(1), Some(0)]);
}

#[test]
fn a_connection_that_is_idle_for_too_long_counts_as_closed_since_its_last_message() {
    let idle_s = IDLE_NS / S_NS;
    let later = Tap { query_time_sec: Some(5 + idle_s), ..client_query() };
    let (seen, _) = read(&stream(&[over_tls(1, 1), over_tls(2, 2), over_tls(1, 5), later, over_tls(1, 40)]));
    let expected = [
        (Some(0), None),
        (Some(1), None),
        (Some(0), None),
        (None, Some((1, 2 * S_NS))),
        (None, Some((0, 5 * S_NS))),
        (None, None),
        (Some(2), None),
    ];
    assert_eq!(connections(&seen), expected);
}

#[test]
fn the_number_of_connections_is_bounded() {
    let taps: Vec<Tap> = (0..CONNECTIONS_MOST as u32 + 2).map(|port| over_tls(port, 1)).collect();
    let (seen, _) = read(&stream(&taps));
    let closed: Vec<_> = connections(&seen).into_iter().filter_map(|(_, closed)| closed).collect();
    assert_eq!(closed, [(0, S_NS), (1, S_NS)]);
}
