//! Windows of both sides, segment sizes, buffers, and sequence numbers that wrap.

use kqps_stack::tcp::{Options, Settings};

use super::rig::{ACK, PEER, PSH_ACK, Rig, SYN_ACK, ends, plain};

/// The lengths of the data that is sent now.
fn lengths(rig: &mut Rig) -> Vec<usize> {
    rig.out().iter().map(|seen| seen.payload.len()).collect()
}

#[test]
fn the_peers_window_is_obeyed() {
    let mut rig = Rig::established(&plain());
    rig.window = 3000;
    rig.hand(ACK, b"");
    rig.send(&[7; 10_000]);
    // The 80 bytes that would still fit wait, to be a whole segment later.
    assert_eq!(lengths(&mut rig), [1460, 1460]);
    let first = rig.ours.wrapping_sub(1460);
    assert_eq!(rig.hand_at((rig.peer, first), ACK, b"").unwrap().acknowledged, 1460);
    assert_eq!(lengths(&mut rig), [1460]);
    // The window moves back by nothing but what was acknowledged.
    rig.window = 1000;
    rig.hand(ACK, b"");
    assert_eq!(lengths(&mut rig), [1000]);
    rig.window = 65_535;
    rig.hand(ACK, b"");
    assert_eq!(lengths(&mut rig), [1460, 1460, 1460, 240]);
}

#[test]
fn the_first_window_has_ten_segments_and_grows_with_acks() {
    let mut rig = Rig::established(&plain());
    rig.send(&vec![7; 40_000]);
    assert_eq!(lengths(&mut rig), [1460; 10]);
    let first = rig.ours.wrapping_sub(9 * 1460);
    rig.hand_at((rig.peer, first), ACK, b"");
    assert_eq!(lengths(&mut rig), [1460; 2]);
    // An ACK of several segments opens it by one (RFC 5681, section 3.1).
    rig.hand(ACK, b"");
    assert_eq!(lengths(&mut rig), [1460; 12]);
}

#[test]
fn after_a_timeout_one_segment_is_sent_and_an_ack_may_cover_all() {
    let mut rig = Rig::established(&plain());
    rig.send(&[7; 5 * 1460]);
    assert_eq!(lengths(&mut rig), [1460; 5]);
    let end = rig.ours;
    rig.wait_for_segment().unwrap();
    assert_eq!(lengths(&mut rig), [1460]);
    // Only the first segment was lost.
    assert_eq!(rig.hand_at((rig.peer, end), ACK, b"").unwrap().acknowledged, 5 * 1460);
    rig.none();
    assert_eq!(rig.connections.status(rig.id).unwrap().retransmitted.data, 1);
    rig.send(&[8; 1460]);
    assert_eq!(rig.one().header.sequence, end);
}

#[test]
fn a_window_that_opens_is_used_at_once() {
    let mut rig = Rig::established(&plain());
    rig.window = 0;
    rig.hand(ACK, b"");
    rig.send(b"query");
    rig.wait_for_segment().unwrap();
    let probe = rig.one();
    rig.window = 1000;
    // The peer did not take the probe, and its byte is sent with the others.
    assert_eq!(rig.hand_at((rig.peer, probe.header.sequence), ACK, b""), None);
    let query = rig.one();
    assert_eq!((query.header.sequence, &query.payload[..]), (probe.header.sequence, &b"query"[..]));
    assert_eq!(rig.hand(ACK, b"").unwrap().acknowledged, 5);
    let counts = *rig.connections.counts();
    assert_eq!((counts.probes, counts.retransmitted.total()), (1, 0));
}

#[test]
fn a_probe_may_be_taken() {
    let mut rig = Rig::established(&plain());
    rig.window = 0;
    rig.hand(ACK, b"");
    rig.send(b"query");
    rig.wait_for_segment().unwrap();
    rig.one();
    assert_eq!(rig.hand(ACK, b"").unwrap().acknowledged, 1);
    rig.none();
    rig.wait_for_segment().unwrap();
    assert_eq!(rig.one().payload, b"u");
    rig.window = 1000;
    assert_eq!(rig.hand(ACK, b"").unwrap().acknowledged, 1);
    assert_eq!(rig.one().payload, b"ery");
}

#[test]
fn segments_are_as_long_as_the_peer_takes() {
    let six = {
        let mut six = ends();
        (six.from, six.to) = ("[2001:db8::1]:1".parse().unwrap(), "[2001:db8::35]:53".parse().unwrap());
        six
    };
    for (mss, ends, timestamps, expected) in [
        (None, ends(), false, 536),
        (None, six, false, 1220),
        (Some(1000), ends(), true, 988),
        (Some(9000), ends(), false, 1460),
        (Some(9000), six, true, 1428),
        (Some(1), ends(), false, 48),
    ] {
        let mut rig = Rig::between(&Settings { timestamps, ..plain() }, ends, 1 << 50);
        rig.options = Options { mss, timestamps: timestamps.then_some((1, 1)), ..Options::default() };
        rig.one();
        rig.hand(SYN_ACK, b"");
        rig.send(&vec![7; 20_000]);
        assert_eq!(lengths(&mut rig), [expected; 10], "{mss:?}");
    }
}

#[test]
fn windows_are_shifted_if_both_sides_say_so() {
    let mut rig = Rig::new(&plain());
    rig.options.window_scale = Some(7);
    rig.one();
    rig.window = 2000;
    rig.hand(SYN_ACK, b"");
    // 256 KiB, shifted by 3. The window of the peer's SYN is not shifted.
    assert_eq!(rig.one().header.window, 32_768);
    rig.send(&[7; 8000]);
    assert_eq!(lengths(&mut rig), [1460]);
    rig.window = 60;
    rig.hand(ACK, b"");
    // 60 × 128 bytes.
    assert_eq!(lengths(&mut rig), [1460, 1460, 1460, 1460, 700]);

    let mut rig = Rig::established(&plain());
    rig.hand(ACK, b"a");
    rig.hand(ACK, b"b");
    assert_eq!(rig.one().header.window, 65_535);
}

#[test]
fn buffers_are_bounded() {
    let mut rig = Rig::established(&Settings { send_buffer: 1000, ..plain() });
    assert_eq!(rig.connections.send(rig.id, &[7; 5000], rig.now_ns), 1000);
    assert_eq!(rig.connections.send(rig.id, &[7; 5000], rig.now_ns), 0);
    rig.one();
    let half = rig.ours.wrapping_sub(400);
    assert_eq!(rig.hand_at((rig.peer, half), ACK, b"").unwrap().acknowledged, 600);
    assert_eq!(rig.connections.send(rig.id, &[7; 5000], rig.now_ns), 600);
    // And so is what all connections have.
    let mut rig = Rig::established(&Settings { send_pool: 1024, ..plain() });
    assert_eq!(rig.connections.send(rig.id, &[7; 5000], rig.now_ns), 1024);
    rig.one();
    rig.hand(ACK, b"");
    assert_eq!(rig.connections.send(rig.id, &[7; 5000], rig.now_ns), 1024);
}

#[test]
fn what_is_beyond_our_window_is_not_taken() {
    let mut rig = Rig::established(&Settings { receive_window: 1000, ..plain() });
    let (start, data) = (rig.peer, [7; 1500]);
    assert_eq!(rig.hand_at((start, rig.ours), ACK, &data).unwrap().bytes.len(), 1000);
    let next = start.wrapping_add(1000);
    assert_eq!(rig.hand_at((start.wrapping_add(2000), rig.ours), ACK, b"x"), None);
    let ack = rig.one();
    assert_eq!((ack.header.acknowledgment, ack.header.window), (next, 1000));
    assert_eq!(rig.connections.counts().outside, 1);
    // Data that had arrived before is acknowledged again, and new data after it is taken.
    assert_eq!(rig.hand_at((start, rig.ours), ACK, &data[..1000]), None);
    assert_eq!(rig.one().header.acknowledgment, next);
    assert_eq!(rig.hand_at((start, rig.ours), ACK, &data).unwrap().bytes.len(), 500);
}

#[test]
fn gaps_are_filled_in_order() {
    let mut rig = Rig::established(&plain());
    let start = rig.peer;
    for at in [8, 2, 5, 4] {
        let bytes: Vec<u8> = (at..at + 2).map(|number| number as u8).collect();
        assert_eq!(rig.hand_at((start.wrapping_add(at), rig.ours), ACK, &bytes), None);
        assert_eq!(rig.one().header.acknowledgment, start);
    }
    assert_eq!(rig.hand_at((start, rig.ours), ACK, &[0, 1]).unwrap().bytes, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(rig.one().header.acknowledgment, start.wrapping_add(7));
    assert_eq!(rig.hand_at((start.wrapping_add(7), rig.ours), ACK, &[7]).unwrap().bytes, [7, 8, 9]);
    assert_eq!(rig.connections.counts().out_of_order, 4);
}

#[test]
fn sequence_numbers_wrap_on_both_sides() {
    // The first number grows by one in 4.096 µs: a time is chosen at which it is close to the wrap.
    let began_ns = 1_u64 << 50;
    let first = Rig::between(&plain(), ends(), began_ns).one().header.sequence;
    let wanted = u32::MAX - 100;
    let at_ns = began_ns + (u64::from(wanted.wrapping_sub(first)) << 12);
    let mut rig = Rig::between(&plain(), ends(), at_ns);
    let syn = rig.one();
    assert_eq!(syn.header.sequence, wanted);
    assert!(rig.hand(SYN_ACK, b"").unwrap().is_established);
    rig.one();
    for number in 0..20_u8 {
        rig.send(&[number; 50]);
        let sent = rig.one();
        assert_eq!((sent.header.flags, &sent.payload[..]), (PSH_ACK, &[number; 50][..]));
        rig.wait_for_segment().unwrap();
        assert_eq!(rig.one().header.sequence, sent.header.sequence);
        let news = rig.hand(ACK, &[number; 3]).unwrap();
        assert_eq!((news.acknowledged, &news.bytes[..]), (50, &[number; 3][..]));
    }
    assert_eq!(rig.ours, wanted.wrapping_add(1 + 20 * 50));
    assert!(rig.ours < wanted && rig.peer < PEER);
    assert_eq!(rig.connections.status(rig.id).unwrap().acknowledged_bytes, 1001);
}
