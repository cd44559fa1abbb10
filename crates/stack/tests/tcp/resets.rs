//! Resets, and what looks like an attack (RFC 5961).

use kqps_stack::tcp::{Close, End, Flags, Options, Settings, State};

use super::rig::{ACK, FIN_ACK, News, RST_ACK, Rig, S, SYN_ACK, plain};

/// A connection in each state that has a peer, with nothing left to send.
fn in_every_state() -> Vec<(State, Rig)> {
    let mut all = Vec::new();
    let mut received = Rig::new(&plain());
    received.one();
    received.hand(Flags::SYN, b"");
    received.one();
    all.push((State::SynReceived, received));
    all.push((State::Established, Rig::established(&plain())));
    let mut wait = Rig::established(&plain());
    wait.hand(FIN_ACK, b"");
    wait.one();
    all.push((State::CloseWait, wait));
    let mut last = Rig::established(&plain());
    last.hand(FIN_ACK, b"");
    last.shut_down();
    last.one();
    all.push((State::LastAck, last));
    for (state, has_ack, has_fin) in
        [(State::FinWait1, false, false), (State::FinWait2, true, false), (State::Closing, false, true)]
    {
        let mut rig = Rig::established(&plain());
        rig.shut_down();
        rig.one();
        let unacknowledged = rig.ours.wrapping_sub(1);
        if has_ack {
            rig.hand(ACK, b"");
        }
        if has_fin {
            rig.hand_at((rig.peer, unacknowledged), FIN_ACK, b"");
            rig.peer = rig.peer.wrapping_add(1);
            rig.one();
        }
        all.push((state, rig));
    }
    for (state, rig) in &all {
        assert_eq!(rig.state(), Some(*state));
    }
    all
}

#[test]
fn a_reset_with_the_exact_number_ends_every_state() {
    for (state, mut rig) in in_every_state() {
        let news = rig.hand(RST_ACK, b"").unwrap();
        let end = if state == State::SynReceived { End::Refused } else { End::Reset };
        assert_eq!(news, News { ended: Some(end), ..News::default() }, "{state:?}");
        assert_eq!((rig.state(), rig.connections.count()), (None, 0));
        rig.none();
        let counts = *rig.connections.counts();
        assert_eq!(counts.refused + counts.resets_received, 1);
        assert_eq!(rig.connections.next_timeout(rig.now_ns), None);
    }
}

#[test]
fn a_reset_within_the_window_gets_a_challenge_and_one_outside_nothing() {
    for (state, mut rig) in in_every_state() {
        let at = rig.peer.wrapping_add(1000);
        assert_eq!(rig.hand_at((at, rig.ours), RST_ACK, b""), None);
        let challenge = rig.one();
        assert_eq!((challenge.header.flags, challenge.header.acknowledgment), (ACK, rig.peer), "{state:?}");
        for at in [rig.peer.wrapping_sub(1), rig.peer.wrapping_add(1 << 20)] {
            assert_eq!(rig.hand_at((at, rig.ours), RST_ACK, b""), None);
            rig.none();
        }
        assert_eq!((rig.state(), rig.connections.counts().challenges), (Some(state), 1));
    }
}

#[test]
fn a_syn_within_the_window_gets_a_challenge() {
    for (state, mut rig) in in_every_state() {
        assert_eq!(rig.hand_at((rig.peer, rig.ours), SYN_ACK, b""), None);
        assert_eq!((rig.one().header.flags, rig.state()), (ACK, Some(state)));
        assert_eq!(rig.connections.counts().challenges, 1);
    }
}

#[test]
fn a_repeated_syn_and_ack_is_acknowledged_again() {
    let mut rig = Rig::established(&plain());
    assert_eq!(rig.hand_at((rig.peer.wrapping_sub(1), rig.ours), SYN_ACK, b""), None);
    assert_eq!((rig.one().header.flags, rig.state()), (ACK, Some(State::Established)));
    assert_eq!((rig.connections.counts().outside, rig.connections.counts().challenges), (1, 0));
}

#[test]
fn acks_of_what_was_not_sent_or_is_too_old_get_a_challenge() {
    let mut rig = Rig::established(&plain());
    rig.send(b"abc");
    rig.one();
    for ack in [rig.ours.wrapping_add(1), rig.ours.wrapping_sub(100_000)] {
        assert_eq!(rig.hand_at((rig.peer, ack), ACK, b"data"), None);
        assert_eq!(rig.one().header.flags, ACK);
    }
    assert_eq!(rig.connections.counts().challenges, 2);
    // An old one within the window is no news, and its data is.
    let old = rig.ours.wrapping_sub(4);
    let news = rig.hand_at((rig.peer, old), ACK, b"data").unwrap();
    assert_eq!(news, News { bytes: b"data".to_vec(), ..News::default() });
    // A segment without ACK says nothing.
    assert_eq!(rig.hand_at((rig.peer.wrapping_add(4), 0), Flags::PSH, b"more"), None);
}

#[test]
fn challenges_are_bounded() {
    let mut rig = Rig::established(&plain());
    for _ in 0..5000 {
        rig.hand_at((rig.peer, rig.ours), SYN_ACK, b"");
        rig.out();
    }
    assert_eq!(rig.connections.counts().challenges, 1000);
    rig.wait(2 * S);
    rig.hand_at((rig.peer, rig.ours), SYN_ACK, b"");
    assert_eq!(rig.connections.counts().challenges, 1001);
}

#[test]
fn the_caller_resets_every_state() {
    for (state, mut rig) in in_every_state() {
        rig.close(Close::Rst);
        let reset = rig.one();
        assert_eq!((reset.header.flags, reset.header.sequence), (RST_ACK, rig.ours), "{state:?}");
        assert_eq!(reset.header.acknowledgment, rig.peer);
        assert_eq!((rig.state(), rig.connections.count()), (None, 0));
        let counts = *rig.connections.counts();
        assert_eq!(counts.resets_sent + counts.abandoned, 1);
        // Data that the peer had sent before gets a reset as well.
        rig.hand(ACK, b"data");
        assert_eq!(rig.one().header.flags, Flags::RST);
    }
}

#[test]
fn timestamps_are_echoed_and_old_ones_dropped() {
    let mut rig = Rig::new(&Settings { timestamps: true, ..plain() });
    let tick = |rig: &Rig| (rig.now_ns >> 20) as u32;
    rig.one();
    rig.options.timestamps = Some((5000, tick(&rig)));
    rig.hand(SYN_ACK, b"");
    assert_eq!(rig.one().header.options.timestamps, Some((tick(&rig), 5000)));
    assert!(rig.connections.status(rig.id).unwrap().has_timestamps);
    rig.options.timestamps = Some((5010, 0));
    rig.hand(ACK, b"one").unwrap();
    rig.send(b"x");
    assert_eq!(
        rig.one().header.options,
        Options { timestamps: Some((tick(&rig), 5010)), ..Options::default() }
    );
    // A timestamp out of order does not count as the last, and an older one is not heard at all.
    rig.options.timestamps = Some((5030, 0));
    assert_eq!(rig.hand_at((rig.peer.wrapping_add(10), rig.ours.wrapping_sub(1)), ACK, b"far"), None);
    assert_eq!(rig.one().header.options.timestamps.unwrap().1, 5010);
    for old in [Some((5009, 0)), None] {
        rig.options.timestamps = old;
        assert_eq!(rig.hand_at((rig.peer, rig.ours), ACK, b"old"), None);
        assert_eq!(rig.one().header.flags, ACK);
    }
    assert_eq!(rig.connections.counts().old_timestamps, 2);
    // A reset needs none.
    assert_eq!(rig.hand(RST_ACK, b"").unwrap().ended, Some(End::Reset));
}

#[test]
fn a_peer_without_timestamps_gets_none() {
    let mut rig = Rig::new(&Settings { timestamps: true, ..plain() });
    rig.one();
    rig.hand(SYN_ACK, b"");
    assert_eq!(rig.one().header.options, Options::default());
    assert!(!rig.connections.status(rig.id).unwrap().has_timestamps);
    rig.options.timestamps = Some((1, 1));
    assert_eq!(rig.hand(ACK, b"data").unwrap().bytes, b"data");
}
