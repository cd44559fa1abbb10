//! Connections are made: SYN-SENT and SYN-RECEIVED.

use kqps_stack::tcp::{Close, ConnectError, End, Flags, Options, Settings, State};

use super::rig::{ACK, News, PEER, PSH_ACK, RST_ACK, Rig, SYN_ACK, ends, plain};

#[test]
fn a_syn_offers_all_options() {
    let mut rig = Rig::new(&Settings { timestamps: true, ..plain() });
    assert_eq!(rig.state(), Some(State::SynSent));
    let syn = rig.one();
    assert_eq!((syn.header.flags, syn.header.acknowledgment, syn.header.window), (Flags::SYN, 0, 65_535));
    let timestamps = Some(((rig.now_ns >> 20) as u32, 0));
    assert_eq!(syn.header.options, Options { mss: Some(1460), window_scale: Some(3), timestamps });
    assert_eq!((syn.sent.tag, syn.sent.payload_bytes), (Some(42), 0));
    rig.none();

    let mut six = ends();
    six.from = "[2001:db8::1]:40000".parse().unwrap();
    six.to = "[2001:db8::35]:53".parse().unwrap();
    six.path.vlan = Some(7);
    let mut rig = Rig::between(&Settings { mtu: 1400, ..plain() }, six, 0);
    let expected = Options { mss: Some(1340), window_scale: Some(3), timestamps: None };
    assert_eq!(rig.one().header.options, expected);
}

#[test]
fn the_ack_goes_with_the_query() {
    let mut rig = Rig::new(&plain());
    let syn = rig.one();
    assert!(rig.hand(SYN_ACK, b"").unwrap().is_established);
    rig.send(b"query");
    let query = rig.one();
    assert_eq!((query.header.flags, &query.payload[..]), (PSH_ACK, &b"query"[..]));
    assert_eq!(query.header.sequence, syn.header.sequence.wrapping_add(1));
    assert_eq!(query.header.acknowledgment, PEER.wrapping_add(1));
    assert_eq!(rig.connections.counts().bare_acks, 0);
    let status = rig.connections.status(rig.id).unwrap();
    assert_eq!((status.acknowledged_bytes, status.unsent_bytes, status.unacknowledged_bytes), (1, 0, 5));
    assert_eq!(rig.hand(ACK, b"").unwrap().acknowledged, 5);
    let status = rig.connections.status(rig.id).unwrap();
    assert_eq!((status.acknowledged_bytes, status.unacknowledged_bytes), (6, 0));
}

#[test]
fn what_is_sent_early_waits() {
    let mut rig = Rig::new(&plain());
    rig.send(b"early");
    assert_eq!(rig.one().header.flags, Flags::SYN);
    rig.none();
    let status = rig.connections.status(rig.id).unwrap();
    assert_eq!((status.unsent_bytes, status.acknowledged_bytes), (5, 0));
    rig.hand(SYN_ACK, b"");
    assert_eq!(rig.one().payload, b"early");
}

#[test]
fn a_connection_that_was_shut_down_early_closes_when_it_is_made() {
    let mut rig = Rig::new(&plain());
    rig.send(b"all");
    rig.shut_down();
    assert_eq!(rig.connections.send(rig.id, b"more", rig.now_ns), 0);
    assert_eq!(rig.one().header.flags, Flags::SYN);
    rig.hand(SYN_ACK, b"");
    let last = rig.one();
    assert_eq!((last.header.flags, &last.payload[..]), (PSH_ACK.with(Flags::FIN), &b"all"[..]));
    assert_eq!(rig.state(), Some(State::FinWait1));
}

#[test]
fn both_sides_open_at_once() {
    let mut rig = Rig::new(&plain());
    let syn = rig.one();
    assert_eq!(rig.hand(Flags::SYN, b""), None);
    assert_eq!(rig.state(), Some(State::SynReceived));
    let both = rig.one();
    assert_eq!((both.header.flags, both.header.sequence), (SYN_ACK, syn.header.sequence));
    assert_eq!(both.header.acknowledgment, PEER.wrapping_add(1));
    assert_eq!(both.header.options.mss, Some(1460));
    // The peer's SYN and ACK is a repeated SYN, which is acknowledged.
    assert_eq!(rig.hand_at((PEER, rig.ours), SYN_ACK, b""), None);
    assert_eq!(rig.one().header.flags, ACK);
    let news = rig.hand(ACK, b"hello").unwrap();
    assert_eq!((news.is_established, &news.bytes[..]), (true, &b"hello"[..]));
    assert_eq!(rig.state(), Some(State::Established));
    assert_eq!(rig.connections.counts().retransmitted.total(), 0);
}

#[test]
fn in_syn_received_only_the_ack_of_the_syn_counts() {
    let mut rig = Rig::new(&plain());
    rig.one();
    rig.hand(Flags::SYN, b"");
    rig.one();
    let wrong = rig.ours.wrapping_add(1);
    assert_eq!(rig.hand_at((rig.peer, wrong), ACK, b""), None);
    let refusal = rig.one();
    assert_eq!((refusal.header.flags, refusal.header.sequence), (Flags::RST, wrong));
    assert_eq!(rig.state(), Some(State::SynReceived));
    let news = rig.hand(RST_ACK, b"").unwrap();
    assert_eq!(news.ended, Some(End::Refused));
    assert_eq!(rig.connections.count(), 0);
}

#[test]
fn a_refused_connection_ends() {
    let mut rig = Rig::new(&plain());
    rig.one();
    // Resets that acknowledge nothing, or something else, are not the peer's.
    assert_eq!(rig.hand_at((0, 0), Flags::RST, b""), None);
    assert_eq!(rig.hand_at((0, rig.ours.wrapping_sub(1)), RST_ACK, b""), None);
    rig.none();
    assert_eq!(rig.state(), Some(State::SynSent));
    let news = rig.hand_at((0, rig.ours), RST_ACK, b"");
    assert_eq!(news, Some(News { ended: Some(End::Refused), ..News::default() }));
    assert_eq!((rig.state(), rig.connections.count(), rig.connections.counts().refused), (None, 0, 1));
    rig.none();
    assert_eq!(rig.connections.next_timeout(rig.now_ns), None);
}

#[test]
fn an_ack_of_what_was_not_sent_is_refused() {
    for (offset, flags) in [(1, SYN_ACK), (u32::MAX, ACK), (u32::MAX, SYN_ACK)] {
        let mut rig = Rig::new(&plain());
        rig.one();
        let ack = rig.ours.wrapping_add(offset);
        assert_eq!(rig.hand_at((PEER, ack), flags, b""), None);
        let refusal = rig.one();
        assert_eq!((refusal.header.flags, refusal.header.sequence), (Flags::RST, ack));
        assert_eq!(rig.state(), Some(State::SynSent));
    }
    // An ACK without a SYN says nothing.
    let mut rig = Rig::new(&plain());
    rig.one();
    assert_eq!(rig.hand_at((PEER, rig.ours), ACK, b""), None);
    rig.none();
}

#[test]
fn an_abandoned_attempt_is_forgotten() {
    for how in [Close::Fin, Close::Rst] {
        let mut rig = Rig::new(&plain());
        rig.one();
        rig.close(how);
        rig.none();
        assert_eq!((rig.state(), rig.connections.counts().abandoned), (None, 1));
        // The peer that answers gets a reset.
        assert_eq!(rig.hand(SYN_ACK, b""), None);
        let reset = rig.one();
        assert_eq!((reset.header.flags, reset.header.sequence, reset.sent.tag), (Flags::RST, rig.ours, None));
    }
}

#[test]
fn segments_of_strangers_are_refused() {
    let mut rig = Rig::new(&plain());
    rig.one();
    rig.close(Close::Fin);
    assert_eq!(rig.hand_at((100, 0), Flags::SYN, b"abc"), None);
    let refusal = rig.one();
    assert_eq!((refusal.header.flags, refusal.header.acknowledgment), (RST_ACK, 104));
    assert_eq!(rig.hand_at((100, 7), Flags::RST, b""), None);
    rig.none();
    // The number of replies that wait to be written is bounded.
    for _ in 0..3000 {
        rig.hand_at((100, 7), ACK, b"");
    }
    let counts = *rig.connections.counts();
    assert_eq!((counts.strangers, counts.strangers_reset), (3002, 3001));
    assert_eq!(rig.out().len() as u64 + counts.replies_dropped, 3000);
}

#[test]
fn a_pair_belongs_to_one_connection_at_a_time() {
    let mut rig = Rig::new(&Settings { connections: 2, ..plain() });
    let connect = |rig: &mut Rig, port: u16| {
        let mut ends = ends();
        ends.from.set_port(port);
        rig.connections.connect(&ends, 1, rig.now_ns)
    };
    assert_eq!(connect(&mut rig, 40_000), Err(ConnectError::InUse));
    assert!(connect(&mut rig, 40_001).is_ok());
    assert_eq!(connect(&mut rig, 40_002), Err(ConnectError::Full));
    rig.close(Close::Fin);
    // A place is free when its turn to send has passed.
    let mut frame = [0; 1600];
    let sent = rig.connections.poll_transmit(&mut frame, rig.now_ns);
    assert_eq!(sent.unwrap().tag, Some(1));
    let again = connect(&mut rig, 40_000).unwrap();
    // The old name stands for no connection, though the place is used again.
    assert_ne!(again, rig.id);
    assert_eq!((rig.state(), rig.connections.send(rig.id, b"x", rig.now_ns)), (None, 0));
    rig.close(Close::Rst);
    assert_eq!(rig.connections.count(), 2);
    let mut mixed = ends();
    mixed.to = "[::1]:53".parse().unwrap();
    assert_eq!(rig.connections.connect(&mixed, 1, 0), Err(ConnectError::Families));
    assert!(!ConnectError::Families.to_string().is_empty());
}
