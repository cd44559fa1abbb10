//! Retransmission, probes and delayed ACKs, by the clock.

use std::time::Duration;

use kqps_stack::tcp::{Close, Flags, Phase, Settings, State};

use super::rig::{ACK, FIN_ACK, MS, PSH_ACK, Rig, S, SYN_ACK, about, plain};

#[test]
fn a_syn_is_sent_again_after_one_two_four_seconds() {
    for (syn_timeout, first_ns) in [(Duration::from_secs(1), S), (Duration::from_millis(250), 250 * MS)] {
        let mut rig = Rig::new(&Settings { syn_timeout, syn_retries: 4, ..plain() });
        let syn = rig.one();
        for number in 0..4 {
            about(rig.wait_for_segment().unwrap(), first_ns << number);
            let again = rig.one();
            assert_eq!((again.header.flags, again.header.sequence), (Flags::SYN, syn.header.sequence));
            assert_eq!(rig.connections.status(rig.id).unwrap().retransmitted.syn, number + 1);
        }
        let began_ns = rig.now_ns;
        let over = rig.wait_for_segment().unwrap_err();
        assert_eq!((over.connection, over.tag, over.phase), (rig.id, 42, Phase::Syn));
        about(rig.now_ns - began_ns, first_ns << 4);
        let counts = *rig.connections.counts();
        assert_eq!((counts.retransmitted.syn, counts.retransmitted.total(), counts.timed_out.syn), (4, 4, 1));
        assert_eq!((rig.state(), rig.connections.count()), (None, 0));
    }
}

#[test]
fn a_syn_and_ack_is_sent_again_too() {
    let mut rig = Rig::new(&plain());
    rig.one();
    rig.hand(Flags::SYN, b"");
    rig.one();
    about(rig.wait_for_segment().unwrap(), S);
    assert_eq!(rig.one().header.flags, SYN_ACK);
    assert_eq!(rig.connections.counts().retransmitted.syn, 1);
    assert!(rig.hand(ACK, b"").unwrap().is_established);
}

#[test]
fn data_is_sent_again_with_doubled_times() {
    let mut rig = Rig::established(&Settings { data_retries: 3, ..plain() });
    rig.send(b"query");
    let query = rig.one();
    for number in 0..3 {
        about(rig.wait_for_segment().unwrap(), (200 * MS) << number);
        let again = rig.one();
        assert_eq!((again.header.sequence, &again.payload), (query.header.sequence, &query.payload));
    }
    let began_ns = rig.now_ns;
    assert_eq!(rig.wait_for_segment().unwrap_err().phase, Phase::Data);
    about(rig.now_ns - began_ns, 1600 * MS);
    let counts = *rig.connections.counts();
    assert_eq!((counts.retransmitted.data, counts.retransmitted.total(), counts.timed_out.data), (3, 3, 1));
    assert_eq!(rig.connections.count(), 0);
}

#[test]
fn an_ack_begins_anew() {
    let mut rig = Rig::established(&plain());
    for _ in 0..3 {
        rig.send(b"query");
        rig.one();
        about(rig.wait_for_segment().unwrap(), 200 * MS);
        rig.one();
        about(rig.wait_for_segment().unwrap(), 400 * MS);
        rig.one();
        assert_eq!(rig.hand(ACK, b"").unwrap().acknowledged, 5);
    }
    assert_eq!(rig.connections.status(rig.id).unwrap().retransmitted.data, 6);
    // Nothing is due any more.
    while let Some(at_ns) = rig.connections.next_timeout(rig.now_ns) {
        rig.now_ns = at_ns;
        assert_eq!(rig.wait(0), None);
    }
    rig.none();
}

#[test]
fn a_fin_is_sent_again_and_a_caller_that_let_go_hears_nothing() {
    for is_released in [false, true] {
        let mut rig = Rig::established(&Settings { fin_retries: 2, ..plain() });
        if is_released {
            rig.close(Close::Fin);
        } else {
            rig.shut_down();
        }
        rig.one();
        for number in 0..2 {
            about(rig.wait_for_segment().unwrap(), (200 * MS) << number);
            assert_eq!(rig.one().header.flags, FIN_ACK);
        }
        let over = rig.wait(10 * S);
        assert_eq!(over.map(|over| over.phase), (!is_released).then_some(Phase::Fin));
        let counts = *rig.connections.counts();
        assert_eq!((counts.retransmitted.fin, counts.retransmitted.total(), counts.timed_out.fin), (2, 2, 1));
        assert_eq!(rig.connections.count(), 0);
    }
}

#[test]
fn data_with_a_fin_counts_as_data_until_it_was_acknowledged() {
    let mut rig = Rig::established(&plain());
    rig.send(b"bye");
    rig.shut_down();
    rig.one();
    rig.wait_for_segment().unwrap();
    assert_eq!(rig.one().header.flags, PSH_ACK.with(Flags::FIN));
    // The data arrived, and its FIN did not.
    assert_eq!(rig.hand_at((rig.peer, rig.ours.wrapping_sub(1)), ACK, b"").unwrap().acknowledged, 3);
    rig.wait_for_segment().unwrap();
    assert_eq!(rig.one().header.flags, FIN_ACK);
    let again = rig.connections.status(rig.id).unwrap().retransmitted;
    assert_eq!((again.syn, again.data, again.fin), (0, 1, 1));
}

#[test]
fn times_follow_the_round_trip() {
    let mut rig = Rig::new(&plain());
    rig.one();
    rig.wait(80 * MS);
    rig.hand(SYN_ACK, b"");
    rig.one();
    assert_eq!(rig.connections.status(rig.id).unwrap().round_trip_us, Some(80_000));
    rig.send(b"query");
    rig.one();
    // 80 ms and four times half of that.
    about(rig.wait_for_segment().unwrap(), 240 * MS);
}

#[test]
fn after_a_lost_syn_times_are_long_and_the_first_window_is_short() {
    let mut rig = Rig::new(&plain());
    rig.one();
    rig.wait_for_segment().unwrap();
    rig.one();
    rig.hand(SYN_ACK, b"");
    assert_eq!(rig.connections.status(rig.id).unwrap().round_trip_us, None);
    rig.send(&[1; 5000]);
    assert_eq!(rig.one().payload.len(), 1460);
    about(rig.wait_for_segment().unwrap(), 3 * S);
}

#[test]
fn acks_wait_for_data_but_not_long() {
    let mut rig = Rig::established(&plain());
    rig.hand(ACK, b"one");
    rig.none();
    about(rig.wait_for_segment().unwrap(), 40 * MS);
    assert_eq!((rig.one().header.flags, rig.connections.counts().bare_acks), (ACK, 2));
    // The second segment is acknowledged at once.
    rig.hand(ACK, b"two");
    rig.none();
    rig.hand(ACK, b"three");
    assert_eq!(rig.one().header.acknowledgment, rig.peer);
    // Data takes the ACK along, and nothing is due afterwards.
    rig.hand(ACK, b"four");
    rig.send(b"query");
    assert_eq!(rig.one().header.acknowledgment, rig.peer);
    rig.hand(ACK, b"");
    rig.wait(S);
    rig.none();
    assert_eq!((rig.connections.counts().bare_acks, rig.connections.counts().delayed_acks), (3, 1));
}

#[test]
fn acks_that_do_not_wait() {
    let mut rig = Rig::established(&Settings { ack_delay: Duration::ZERO, ..plain() });
    rig.hand(ACK, b"one");
    assert_eq!(rig.one().header.flags, ACK);
    // The caller's next query is still in time.
    rig.hand(ACK, b"two");
    rig.send(b"query");
    assert_eq!(rig.one().payload, b"query");
}

#[test]
fn a_closed_window_is_probed_as_long_as_the_peer_answers() {
    let mut rig = Rig::established(&Settings { data_retries: 2, ..plain() });
    rig.window = 0;
    rig.hand(ACK, b"");
    rig.send(b"query");
    rig.none();
    for number in 0..6 {
        about(rig.wait_for_segment().unwrap(), (200 * MS) << number);
        let probe = rig.one();
        assert_eq!((probe.header.flags, &probe.payload[..]), (ACK, &b"q"[..]));
        assert_eq!(rig.hand_at((rig.peer, probe.header.sequence), ACK, b""), None);
        rig.none();
    }
    let counts = *rig.connections.counts();
    assert_eq!((counts.probes, counts.retransmitted.total()), (6, 0));
    // A peer that answers no more times out.
    for _ in 0..2 {
        rig.wait_for_segment().unwrap();
        rig.one();
    }
    assert_eq!(rig.wait_for_segment().unwrap_err().phase, Phase::Data);
    assert_eq!(rig.connections.counts().probes, 8);
}

#[test]
fn a_late_call_does_all_that_was_due() {
    let mut rig = Rig::established(&plain());
    rig.send(b"query");
    rig.one();
    // A minute later, one retransmission is due, and not one for each timeout that would have passed.
    assert_eq!(rig.wait(60 * S), None);
    assert_eq!((rig.one().payload, rig.state()), (b"query".to_vec(), Some(State::Established)));
    about(rig.wait_for_segment().unwrap(), 400 * MS);
}
