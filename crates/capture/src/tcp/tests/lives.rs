//! How connections begin and end: SYN, FIN, RST, silence, and other connections between the same ends.

use super::super::half::GAP_NS;
use super::*;

/// Ends a capture's silence of so many ns with the SYN of another client.
fn wait(wire: &mut Wire, ns: u64) {
    wire.now_ns += ns;
    let client = wire.client;
    wire.client.set_port(client.port() + 1);
    let _ = wire.syn(77);
    wire.client = client;
}

#[test]
fn a_fin_waits_for_the_bytes_before_it() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(Segment { fin: true, ..wire.query(33, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.take(Segment { fin: true, ..wire.reply(1001, &[]) }), Err(Why::TcpControl));
    assert!(wire.seen().is_empty());
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    let at_ns = wire.now_ns;
    let message = OwnedEvent::Message { connection: 0, to_server: true, at_ns, bytes: query(1, 30) };
    assert_eq!(wire.seen(), [message, OwnedEvent::Closed { connection: 0, at_ns }]);
}

#[test]
fn a_fin_does_not_wait_for_ever() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(Segment { fin: true, ..wire.query(33, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.take(Segment { fin: true, ..wire.reply(1001, &[]) }), Err(Why::TcpControl));
    let at_ns = wire.now_ns;
    wait(&mut wire, GAP_NS);
    assert_eq!(wire.closed(), [(0, at_ns)]);
}

#[test]
fn a_capture_of_one_direction_ends_a_connection_with_its_fin() {
    for is_seen in [false, true] {
        let mut wire = Wire::new();
        assert_eq!(wire.syn(0), Err(Why::TcpControl));
        assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
        if is_seen {
            assert_eq!(wire.take(wire.reply(1001, &[])), Err(Why::TcpControl), "an ACK");
        }
        assert_eq!(wire.take(Segment { fin: true, ..wire.query(33, &[]) }), Err(Why::TcpControl));
        let at_ns = wire.now_ns;
        assert_eq!(wire.seen().len(), 1);
        wait(&mut wire, GAP_NS);
        assert_eq!(wire.closed(), if is_seen { vec![] } else { vec![(0, at_ns)] });
    }
}

#[test]
fn a_client_that_has_sent_its_fin_still_gets_replies() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(Segment { fin: true, ..wire.query(1, &asked(1)) }), Ok(1));
    assert_eq!(wire.take(wire.reply(1001, &replied(1))), Ok(1));
    assert_eq!(wire.seen().len(), 2);
    assert_eq!(wire.take(Segment { fin: true, ..wire.reply(1033, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.closed(), [(0, wire.now_ns)]);
}

#[test]
fn a_reset_ends_a_connection_if_its_number_fits() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    assert_eq!(wire.take(Segment { rst: true, ..wire.query(1, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.seen().len(), 1);
    // It shows the end of what was lost, so what waited for that comes out.
    assert_eq!(wire.take(wire.query(65, &asked(3))), Err(Why::TcpPart));
    assert_eq!(wire.take(Segment { rst: true, ..wire.query(97, &[]) }), Ok(1));
    assert_eq!(wire.closed(), [(0, wire.now_ns)]);
    assert_eq!(wire.take(Segment { rst: true, ..wire.reply(1001, &[]) }), Err(Why::TcpControl));
    assert!(wire.seen().is_empty());
}

#[test]
fn a_refused_connection_ends() {
    let mut wire = Wire::new();
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert_eq!(wire.take(Segment { rst: true, ..wire.reply(0, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.closed(), [(0, wire.now_ns)]);
}

#[test]
fn what_comes_after_the_end_begins_no_connection() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    assert_eq!(wire.take(Segment { rst: true, ..wire.query(33, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.seen().len(), 2);
    assert_eq!(wire.take(wire.query(1, &asked(1))), Err(Why::TcpRepeated));
    assert_eq!(wire.take(wire.query(33, &asked(2))), Err(Why::TcpGap));
    assert_eq!(wire.take(wire.reply(1001, &replied(1))), Err(Why::TcpGap));
    assert_eq!(wire.take(Segment { fin: true, ..wire.query(33, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert_eq!((wire.seen(), wire.streams.connections), (vec![], 1));
    // Numbers that are not those of the old connection belong to one whose SYN the capture has not.
    assert_eq!(wire.take(wire.query(1 << 30, &asked(3))), Ok(1));
    assert_eq!((wire.ids(), wire.streams.connections), (vec![3], 2));
}

#[test]
fn a_closed_connection_is_forgotten_after_a_while() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(Segment { rst: true, ..wire.query(1, &[]) }), Err(Why::TcpControl));
    wait(&mut wire, 10 * S_NS);
    assert_eq!(wire.closed().len(), 1);
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    assert_eq!((wire.ids(), wire.streams.connections), (vec![1], 3));
}

#[test]
fn a_syn_begins_another_connection_between_the_same_ends() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    assert_eq!(wire.take(wire.query(65, &asked(3))), Err(Why::TcpPart));
    // The old one ends with what it still had.
    assert_eq!(wire.syn(40), Ok(1));
    assert_eq!(wire.closed(), [(0, wire.now_ns)]);
    assert_eq!(wire.syn_ack(500), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.query(41, &asked(4))), Ok(1));
    let at_ns = wire.now_ns;
    let message = OwnedEvent::Message { connection: 1, to_server: true, at_ns, bytes: query(4, 30) };
    assert_eq!(wire.seen(), [message]);
}

#[test]
fn a_syn_begins_another_connection_after_one_seen_from_the_middle_or_closed() {
    let mut wire = Wire::new();
    assert_eq!(wire.take(wire.reply(9_000, &replied(1))), Ok(1));
    wire.connect();
    assert_eq!(wire.closed().len(), 1);
    assert_eq!(wire.take(Segment { rst: true, ..wire.reply(1001, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.closed().len(), 1);
    assert_eq!(wire.syn(100), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.query(101, &asked(2))), Ok(1));
    assert_eq!((wire.ids(), wire.streams.connections), (vec![2], 3));
}

#[test]
fn a_syn_that_comes_after_its_first_bytes_belongs_to_them() {
    let mut wire = Wire::new();
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.reply(1001, &replied(1))), Ok(1));
    assert_eq!(wire.syn_ack(1000), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.query(33, &asked(2))), Ok(1));
    assert_eq!(wire.take(wire.reply(1033, &replied(2))), Ok(1));
    assert_eq!((wire.ids(), wire.streams.connections), (vec![1, 1, 2, 2], 1));
}

#[test]
fn a_syn_may_carry_a_query() {
    let mut wire = Wire::new();
    let bytes = asked(1);
    assert_eq!(wire.take(Segment { syn: true, ..wire.query(0, &bytes) }), Ok(1));
    assert_eq!(wire.take(Segment { syn: true, ..wire.query(0, &bytes) }), Err(Why::TcpRepeated));
    assert_eq!(wire.syn_ack(1000), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.query(33, &asked(2))), Ok(1));
    assert_eq!(wire.ids(), [1, 2]);
}

#[test]
fn the_syn_of_the_server_may_come_first() {
    let mut wire = Wire::new();
    assert_eq!(wire.syn_ack(1000), Err(Why::TcpControl));
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    assert_eq!((wire.ids(), wire.streams.connections), (vec![1], 1));
}

#[test]
fn silence_ends_a_connection_at_the_time_when_it_has_lasted_too_long() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    let last_ns = wire.now_ns;
    wait(&mut wire, 299 * S_NS);
    assert!(wire.closed().is_empty());
    wait(&mut wire, S_NS);
    assert_eq!(wire.closed(), [(0, last_ns + 300 * S_NS)]);
    // Without payload, silence is over sooner: that of the SYN of `wait`, which has been sent again since.
    let last_ns = wire.now_ns;
    wire.now_ns += 61 * S_NS;
    assert_eq!(wire.take(wire.query(33, &asked(2))), Ok(1));
    assert_eq!(wire.closed(), [(1, last_ns + 60 * S_NS)]);
    assert_eq!(wire.streams.connections, 3);
}

#[test]
fn segments_without_payload_keep_a_connection() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    for _ in 0..10 {
        wire.now_ns += 200 * S_NS;
        assert_eq!(wire.take(wire.query(32, &[])), Err(Why::TcpControl));
        assert_eq!(wire.take(wire.reply(1001, &[])), Err(Why::TcpControl));
    }
    assert!(wire.closed().is_empty());
    assert_eq!(wire.take(wire.reply(1001, &replied(1))), Ok(1));
    assert_eq!(wire.streams.connections, 1);
}
