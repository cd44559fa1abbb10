//! Segments that are lost, or come in another order, and directions that are seen from the middle.

use super::super::half::{GAP_NS, GAP_SEGMENTS_MOST};
use super::*;

#[test]
fn what_the_capture_left_out_of_a_segment_is_not_waited_for() {
    let mut wire = Wire::new();
    wire.connect();
    let two = [asked(1), asked(2)].concat();
    // The first message was captured, and a part of the second one.
    let cut = Segment { missing: 24, ..wire.query(1, &two[..40]) };
    assert_eq!(wire.take(cut), Ok(1));
    assert_eq!(wire.take(wire.query(65, &asked(3))), Ok(1));
    // Nothing but the header was captured, and the flag behind it counts.
    assert_eq!(wire.take(Segment { missing: 32, ..wire.query(97, &[]) }), Err(Why::Cut));
    assert_eq!(wire.take(wire.query(129, &asked(5))), Ok(1));
    assert_eq!(wire.take(Segment { missing: 32, fin: true, ..wire.query(161, &[]) }), Err(Why::Cut));
    assert_eq!(wire.ids(), [1, 3, 5]);
    assert_eq!(wire.take(Segment { fin: true, ..wire.reply(1001, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.closed(), [(0, wire.now_ns)]);
    assert_eq!(wire.streams.held_bytes, 0);
}

#[test]
fn segments_in_another_order() {
    let mut wire = Wire::new();
    wire.connect();
    let stream = [asked(1), asked(2), asked(3), asked(4)].concat();
    let part = |from: usize, to: usize| (1 + from as u32, &stream[from..to]);
    let segments = [part(40, 80), part(100, 128), part(0, 10), part(80, 90), part(5, 45), part(85, 110)];
    let outcomes = segments.map(|(sequence, bytes)| wire.take(wire.query(sequence, bytes)));
    let held = Err(Why::TcpPart);
    assert_eq!(outcomes, [held, held, held, held, Ok(2), Ok(2)]);
    assert_eq!(wire.ids(), [1, 2, 3, 4]);
    assert_eq!(wire.streams.held_bytes, 0);
}

#[test]
fn the_time_of_a_message_is_that_of_its_last_byte() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(11, &asked(1)[10..])), Err(Why::TcpPart));
    let at_ns = wire.now_ns;
    assert_eq!(wire.take(wire.query(11, &asked(1)[10..])), Err(Why::TcpRepeated));
    assert_eq!(wire.take(wire.query(1, &asked(1)[..10])), Ok(1));
    let expected = OwnedEvent::Message { connection: 0, to_server: true, at_ns, bytes: query(1, 30) };
    assert_eq!(wire.seen(), [expected]);
}

#[test]
fn a_direction_is_seen_from_the_middle() {
    let mut wire = Wire::new();
    let middle = [&asked(1)[13..], &asked(2)].concat();
    assert_eq!(wire.take(wire.query(5_000, &[])), Err(Why::TcpControl));
    assert_eq!(wire.streams.connections, 0);
    assert_eq!(wire.take(wire.query(5_000, &middle)), Err(Why::TcpGap));
    assert_eq!(wire.take(wire.query(5_000 + middle.len() as u32, &asked(3))), Ok(1));
    // The other direction begins by itself, here with the first half of a reply.
    assert_eq!(wire.take(wire.reply(9_000, &replied(3)[..20])), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.reply(9_020, &replied(3)[20..])), Ok(1));
    assert_eq!(wire.ids(), [3, 3]);
}

#[test]
fn a_direction_from_the_middle_begins_with_a_length_prefix_alone() {
    let mut wire = Wire::new();
    assert_eq!(wire.take(wire.query(10, &query(1, 30))), Err(Why::TcpGap));
    assert_eq!(wire.take(wire.query(40, &asked(2)[..2])), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.query(42, &asked(2)[2..])), Ok(1));
    assert_eq!(wire.ids(), [2]);
    // Two bytes that could be a length and were none do not hide the message that begins after them.
    let mut wire = Wire::new();
    assert_eq!(wire.take(wire.query(10, &[1, 0])), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.query(12, &asked(3))), Ok(1));
    assert_eq!(wire.ids(), [3]);
}

#[test]
fn a_message_in_the_middle_must_be_plausible() {
    let change = |at: usize, byte: u8| {
        let mut bytes = asked(1);
        bytes[at] = byte;
        bytes
    };
    let implausible = [
        change(1, 11),    // shorter than a header
        change(1, 20),    // the name goes on behind the end
        change(4, 0x81),  // a reply
        change(4, 0x79),  // an opcode that is not assigned
        change(5, 0x40),  // the reserved bit
        change(5, 0x02),  // a query with an rcode
        change(7, 2),     // two questions
        change(7, 0),     // no question, no record
        change(9, 2),     // more records than bytes
        change(14, 0xc0), // a question that is a pointer
    ];
    for bytes in implausible {
        let mut wire = Wire::new();
        assert_eq!(wire.take(wire.query(10, &bytes)), Err(Why::TcpGap), "{bytes:?}");
    }
    for bytes in [asked(1), change(0, 1), change(4, 0x21)] {
        let mut wire = Wire::new();
        let is_whole = bytes[0] == 0;
        let expected = if is_whole { Ok(1) } else { Err(Why::TcpPart) };
        assert_eq!(wire.take(wire.query(10, &bytes)), expected, "{bytes:?}");
    }
}

#[test]
fn a_lost_segment_is_skipped_when_later_ones_have_waited_for_too_long() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &asked(1)[..20])), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.query(65, &asked(3))), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.query(97, &asked(4))), Err(Why::TcpPart));
    wire.now_ns += GAP_NS;
    assert_eq!(wire.take(wire.query(129, &asked(5))), Ok(3));
    assert_eq!(wire.take(wire.query(21, &asked(1)[20..])), Err(Why::TcpRepeated));
    assert_eq!(wire.ids(), [3, 4, 5]);
    assert_eq!(wire.streams.connections, 1);
}

#[test]
fn a_lost_segment_is_skipped_when_another_connection_shows_that_time_has_passed() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(33, &asked(2))), Err(Why::TcpPart));
    let at_ns = wire.now_ns;
    wire.now_ns += GAP_NS;
    wire.client.set_port(40_001);
    assert_eq!(wire.syn(0), Ok(1));
    let expected = OwnedEvent::Message { connection: 0, to_server: true, at_ns, bytes: query(2, 30) };
    assert_eq!(wire.seen(), [expected]);
    wire.client.set_port(40_000);
    assert_eq!(wire.take(wire.query(65, &asked(3))), Ok(1));
    assert_eq!(wire.seen().len(), 1);
}

#[test]
fn a_lost_segment_is_skipped_after_so_many_later_ones() {
    let mut wire = Wire::new();
    wire.connect();
    for number in 0..GAP_SEGMENTS_MOST {
        let outcome = wire.take(wire.query(33 + 32 * number as u32, &asked(number as u16)));
        assert_eq!(outcome, Err(Why::TcpPart));
    }
    let sequence = 33 + 32 * GAP_SEGMENTS_MOST as u32;
    assert_eq!(wire.take(wire.query(sequence, &asked(999))), Ok(GAP_SEGMENTS_MOST + 1));
    assert!(wire.ids().into_iter().eq((0..GAP_SEGMENTS_MOST as u16).chain([999])));
}

#[test]
fn a_segment_behind_a_gap_that_begins_with_no_message_is_counted_as_gap() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(11, &asked(1)[10..14])), Err(Why::TcpPart));
    wire.now_ns += GAP_NS;
    assert_eq!(wire.take(wire.query(15, &asked(1)[14..])), Err(Why::TcpGap));
    assert_eq!(wire.take(wire.query(33, &asked(2))), Ok(1));
    assert_eq!(wire.ids(), [2]);
}

#[test]
fn a_jump_of_sequence_numbers_is_no_gap() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(33, &asked(2))), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.query(1 << 31, &asked(3))), Ok(2));
    assert_eq!(wire.take(wire.query((1 << 31) + 32, &asked(4))), Ok(1));
    assert_eq!(wire.take(wire.query(0, &asked(5))), Ok(1));
    assert_eq!(wire.ids(), [2, 3, 4, 5]);
    assert_eq!(wire.streams.connections, 1);
}
