//! Bounded memory: who goes first, and that what is held stays within its bounds.

use super::*;

/// The beginning of a message of 3,000 bytes.
fn begun(bytes: usize) -> Vec<u8> {
    let mut message = query(1, 30);
    message.resize(3_000, 0);
    framed(&message)[..bytes].to_vec()
}

/// Switches to the client with this number.
fn client(wire: &mut Wire, number: u16) {
    wire.client.set_port(CLIENT.port() + number);
}

#[test]
fn the_connection_used_least_recently_goes_first() {
    let mut wire = Wire::with_limits(Limits { connections: 3, ..LIMITS });
    for number in 0..3 {
        client(&mut wire, number);
        assert_eq!(wire.syn(0), Err(Why::TcpControl));
    }
    client(&mut wire, 0);
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    assert!(wire.closed().is_empty());
    client(&mut wire, 3);
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert_eq!(wire.closed(), [(1, wire.now_ns)]);
    // A connection that has ended goes before all others, and without a word.
    assert_eq!(wire.take(Segment { rst: true, ..wire.query(1, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.closed(), [(3, wire.now_ns)]);
    client(&mut wire, 4);
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert!(wire.closed().is_empty());
    client(&mut wire, 5);
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert_eq!(wire.closed(), [(2, wire.now_ns)]);
}

#[test]
fn a_flood_of_syns_pushes_out_no_connection_with_messages() {
    let mut wire = Wire::with_limits(Limits { connections: 3, ..LIMITS });
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    for number in 1..100 {
        client(&mut wire, number);
        assert_eq!(wire.syn(0), Err(Why::TcpControl));
    }
    assert!(wire.closed().iter().all(|(connection, _)| *connection != 0));
    client(&mut wire, 0);
    assert_eq!(wire.take(wire.reply(1001, &replied(1))), Ok(1));
    assert_eq!(wire.take(wire.query(33, &asked(2))), Ok(1));
    assert_eq!(wire.streams.connections, 100);
}

#[test]
fn the_connection_that_holds_bytes_for_the_longest_time_goes_first() {
    let mut wire = Wire::with_limits(Limits { held_bytes: 2_000, ..LIMITS });
    for number in 0..4 {
        client(&mut wire, number);
        wire.connect();
        let is_idle = number == 0;
        let bytes = if is_idle { asked(7) } else { begun(600) };
        let outcome = wire.take(wire.query(1, &bytes));
        assert_eq!(outcome, if is_idle { Ok(1) } else { Err(Why::TcpPart) });
    }
    assert!(wire.closed().is_empty());
    client(&mut wire, 4);
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &begun(600))), Err(Why::TcpPart));
    // The client without held bytes stays, though it is idle for longer.
    assert_eq!(wire.closed(), [(1, wire.now_ns)]);
    // Bytes that the forgotten client still sends are seen from the middle.
    client(&mut wire, 1);
    assert_eq!(wire.take(wire.query(601, &asked(2))), Ok(1));
    assert_eq!(wire.streams.connections, 6);
}

#[test]
fn a_message_that_is_announced_takes_no_memory_before_it_comes() {
    let mut wire = Wire::new();
    for number in 0..1_000 {
        client(&mut wire, number);
        wire.connect();
        assert_eq!(wire.take(wire.query(1, &[0xff, 0xff, 0, 1, 0, 0])), Err(Why::TcpPart));
    }
    assert!(wire.streams.held_bytes < 1_000 * 100, "{} bytes", wire.streams.held_bytes);
    assert!(wire.closed().is_empty());
}

#[test]
fn nothing_is_held_of_a_connection_that_has_ended() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &begun(600))), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.query(900, &begun(600))), Err(Why::TcpPart));
    assert!(wire.streams.held_bytes >= 1_200);
    assert_eq!(wire.take(Segment { rst: true, ..wire.reply(1001, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.streams.held_bytes, 0);
}

#[test]
fn every_connection_ends_once() {
    let mut wire = Wire::with_limits(Limits { connections: 16, held_bytes: 4_096 });
    let mut random = 1_u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = random >> 33;
        client(&mut wire, (bits % 24) as u16);
        let sequence = ((bits >> 5) % 64) as u32 * 32;
        let bytes = [asked(1), begun(32), begun(700), vec![0; 5]];
        let bytes = &bytes[(bits >> 11) as usize % 4];
        let flags = (bits >> 13) % 16;
        let (syn, fin, rst) = (flags == 0, flags == 1, flags == 2);
        let _ = wire.take(Segment { syn, fin, rst, ..wire.query(sequence, bytes) });
    }
    let mut closed: Vec<u64> = wire.closed().into_iter().map(|(connection, _)| connection).collect();
    let ended = closed.len();
    closed.sort_unstable();
    closed.dedup();
    assert_eq!(closed.len(), ended);
    assert!(wire.streams.connections - ended as u64 <= 16);
    assert!(ended > 500, "{ended} connections ended");
}
