//! Connections are closed: all ways from ESTABLISHED to the end.

use kqps_stack::tcp::{Close, End, Flags, Settings, State};

use super::rig::{ACK, FIN_ACK, MS, News, PSH_ACK, RST_ACK, Rig, S, about, plain};

fn finished() -> News {
    News { ended: Some(End::Finished), ..News::default() }
}

/// Nothing is left but what the machine remembers of ended pairs.
fn is_over(rig: &mut Rig) {
    rig.none();
    assert_eq!((rig.state(), rig.connections.count(), rig.connections.counts().finished), (None, 0, 1));
    assert_eq!(rig.connections.next_timeout(rig.now_ns), None);
}

#[test]
fn this_side_closes_first() {
    let mut rig = Rig::established(&plain());
    rig.shut_down();
    assert_eq!(rig.state(), Some(State::FinWait1));
    let fin = rig.one();
    assert_eq!(fin.header.flags, FIN_ACK);
    assert_eq!(rig.hand(ACK, b""), None);
    assert_eq!(rig.state(), Some(State::FinWait2));
    let news = rig.hand(FIN_ACK, b"").unwrap();
    assert_eq!(news, News { is_peer_closed: true, ..finished() });
    // It stays until its ACK was written.
    assert_eq!(rig.state(), Some(State::TimeWait));
    let last = rig.one();
    assert_eq!((last.header.flags, last.header.acknowledgment), (ACK, rig.peer));
    assert_eq!(last.header.sequence, fin.header.sequence.wrapping_add(1));
    is_over(&mut rig);

    // The FIN comes once more, and so does its ACK.
    for _ in 0..2 {
        let fin = rig.peer.wrapping_sub(1);
        assert_eq!(rig.hand_at((fin, rig.ours), FIN_ACK, b""), None);
        let again = rig.one();
        assert_eq!(again.header.flags, ACK);
        assert_eq!((again.header.sequence, again.header.acknowledgment), (last.header.sequence, rig.peer));
    }
    // An ACK alone gets none, and a new SYN of the peer is refused.
    rig.hand_at((rig.peer, rig.ours), ACK, b"");
    rig.none();
    rig.hand_at((rig.peer, 0), Flags::SYN, b"");
    assert_eq!(rig.one().header.flags, RST_ACK);
    assert_eq!(rig.connections.counts().late, 2);
    // After a while it is forgotten.
    rig.wait(300 * S);
    rig.hand_at((rig.peer.wrapping_sub(1), rig.ours), FIN_ACK, b"");
    assert_eq!(rig.one().header.flags, Flags::RST);
}

#[test]
fn a_fin_may_acknowledge_a_fin() {
    let mut rig = Rig::established(&plain());
    rig.shut_down();
    rig.one();
    let news = rig.hand(FIN_ACK, b"bye").unwrap();
    assert_eq!(news, News { bytes: b"bye".to_vec(), is_peer_closed: true, ..finished() });
    assert_eq!(rig.one().header.flags, ACK);
    is_over(&mut rig);
}

#[test]
fn the_peer_closes_first() {
    let mut rig = Rig::established(&plain());
    let news = rig.hand(FIN_ACK, b"last").unwrap();
    assert_eq!(news, News { bytes: b"last".to_vec(), is_peer_closed: true, ..News::default() });
    assert_eq!(rig.state(), Some(State::CloseWait));
    assert_eq!(rig.one().header.acknowledgment, rig.peer);
    // This side may go on, and its FIN goes with the last data.
    rig.send(b"more");
    assert_eq!(rig.one().payload, b"more");
    rig.hand(ACK, b"");
    rig.send(b"end");
    rig.shut_down();
    assert_eq!(rig.state(), Some(State::LastAck));
    let last = rig.one();
    assert_eq!((last.header.flags, &last.payload[..]), (PSH_ACK.with(Flags::FIN), &b"end"[..]));
    assert_eq!(rig.hand(ACK, b""), Some(News { acknowledged: 3, ..finished() }));
    is_over(&mut rig);
}

#[test]
fn the_ack_of_a_fin_goes_with_the_fin() {
    let mut rig = Rig::established(&plain());
    rig.hand(FIN_ACK, b"reply").unwrap();
    let acks = rig.connections.counts().bare_acks;
    rig.close(Close::Fin);
    let fin = rig.one();
    assert_eq!((fin.header.flags, fin.header.acknowledgment, fin.sent.tag), (FIN_ACK, rig.peer, None));
    // The caller has closed, and hears no more.
    assert_eq!(rig.hand(ACK, b""), None);
    assert_eq!(rig.connections.counts().bare_acks, acks);
    is_over(&mut rig);
}

#[test]
fn both_sides_close_at_once() {
    let mut rig = Rig::established(&plain());
    rig.shut_down();
    rig.one();
    // The peer's FIN crossed this side's.
    let unacknowledged = rig.ours.wrapping_sub(1);
    let news = rig.hand_at((rig.peer, unacknowledged), FIN_ACK, b"");
    assert_eq!(news, Some(News { is_peer_closed: true, ..News::default() }));
    rig.peer = rig.peer.wrapping_add(1);
    assert_eq!(rig.state(), Some(State::Closing));
    assert_eq!(rig.one().header.flags, ACK);
    // The peer's FIN comes again, in CLOSING.
    assert_eq!(rig.hand_at((rig.peer.wrapping_sub(1), unacknowledged), FIN_ACK, b""), None);
    assert_eq!(rig.one().header.acknowledgment, rig.peer);
    assert_eq!(rig.hand(ACK, b""), Some(finished()));
    is_over(&mut rig);
}

#[test]
fn a_half_closed_connection_still_receives() {
    let mut rig = Rig::established(&Settings { ack_delay: std::time::Duration::ZERO, ..plain() });
    rig.send(b"query");
    rig.shut_down();
    assert_eq!(rig.one().header.flags, PSH_ACK.with(Flags::FIN));
    for part in [&b"one"[..], b"two", b"three"] {
        assert_eq!(rig.hand(ACK, part).unwrap().bytes, part);
        assert_eq!(rig.one().header.acknowledgment, rig.peer);
    }
    assert_eq!(rig.state(), Some(State::FinWait2));
    // No timer ends it.
    while let Some(at_ns) = rig.connections.next_timeout(rig.now_ns) {
        rig.now_ns = at_ns;
        assert_eq!(rig.wait(0), None);
    }
    assert_eq!(rig.state(), Some(State::FinWait2));
    rig.none();
    assert_eq!(rig.hand(FIN_ACK, b""), Some(News { is_peer_closed: true, ..finished() }));
    rig.one();
    is_over(&mut rig);
}

#[test]
fn a_closed_connection_waits_for_the_fin_and_not_for_ever() {
    let settings = Settings { fin_wait: std::time::Duration::from_secs(5), ..plain() };
    // The FIN is acknowledged before the caller lets go, or after.
    for is_early in [true, false] {
        let mut rig = Rig::established(&settings);
        if is_early {
            rig.shut_down();
        } else {
            rig.close(Close::Fin);
        }
        rig.one();
        assert_eq!(rig.hand(ACK, b""), None);
        if is_early {
            rig.close(Close::Fin);
        }
        assert_eq!(rig.state(), Some(State::FinWait2));
        let began_ns = rig.now_ns;
        while let Some(at_ns) = rig.connections.next_timeout(rig.now_ns) {
            rig.now_ns = at_ns;
            assert_eq!(rig.wait(0), None);
        }
        about(rig.now_ns - began_ns, 5 * S);
        assert_eq!((rig.connections.count(), rig.connections.counts().fin_wait_expired), (0, 1));
    }
}

#[test]
fn data_for_a_closed_connection_is_answered_by_a_reset() {
    let mut rig = Rig::established(&plain());
    rig.close(Close::Fin);
    assert_eq!(rig.one().header.flags, FIN_ACK);
    assert_eq!(rig.hand(ACK, b"too late"), None);
    let reset = rig.one();
    assert_eq!((reset.header.flags, reset.header.sequence), (RST_ACK, rig.ours));
    assert_eq!((rig.connections.count(), rig.connections.counts().resets_sent), (0, 1));
    // It was not closed in good order, so that nothing is remembered.
    rig.hand(FIN_ACK, b"");
    assert_eq!(rig.one().header.flags, Flags::RST);
}

#[test]
fn a_fin_that_comes_before_data_waits_for_it() {
    let mut rig = Rig::established(&plain());
    let start = rig.peer;
    assert_eq!(rig.hand_at((start.wrapping_add(6), rig.ours), FIN_ACK, b"ghi"), None);
    assert_eq!(rig.one().header.acknowledgment, start);
    assert_eq!(rig.hand_at((start.wrapping_add(3), rig.ours), ACK, b"def"), None);
    assert_eq!(rig.one().header.acknowledgment, start);
    // Bytes that would come after the FIN are cut.
    let news = rig.hand_at((start, rig.ours), ACK, b"abcdefghijkl").unwrap();
    assert_eq!(news, News { bytes: b"abcdefghi".to_vec(), is_peer_closed: true, ..News::default() });
    assert_eq!(rig.one().header.acknowledgment, start.wrapping_add(10));
    assert_eq!(rig.state(), Some(State::CloseWait));
    assert_eq!(rig.connections.counts().out_of_order, 2);
}

#[test]
fn closing_waits_for_data_to_leave() {
    let mut rig = Rig::established(&plain());
    rig.window = 4;
    rig.hand(ACK, b"");
    rig.send(b"abcdefgh");
    rig.close(Close::Fin);
    assert_eq!((rig.one().payload, rig.state()), (b"abcd".to_vec(), Some(State::FinWait1)));
    rig.wait(MS);
    rig.hand(ACK, b"");
    let last = rig.one();
    assert_eq!((last.header.flags, &last.payload[..]), (PSH_ACK.with(Flags::FIN), &b"efgh"[..]));
}
