//! Whole connections over a link: every byte arrives once and in order, and what was lost was sent again as often.

use kqps_stack::tcp::{Counts, End, Flags, Retransmitted, Segment, Settings};

use super::link::{Client, Fate, Link, Rule, STEADY, bytes};
use super::peer::Peer;
use super::rig::{MS, ends, plain};

const BEGAN_NS: u64 = 1 << 50;

/// Plays a query and its reply over a link with a rule, and returns what the client's machine counted.
fn play(
    rule: &mut Rule<'_>,
    (query, reply): (usize, usize),
    settings: &Settings,
    (closes_first, seed, delay_ns): (bool, u64, (u64, u64)),
) -> Counts {
    let mut ends = ends();
    ends.path.vlan = (seed % 2 == 1).then_some(5);
    if seed % 3 == 1 {
        ends.from = "[2001:db8::1]:40000".parse().unwrap();
        ends.to = "[2001:db8::35]:53".parse().unwrap();
    }
    let (query, reply) = (bytes(query, 0x55), bytes(reply, 0xaa));
    let mut client = Client::new(settings, &ends, (query.clone(), reply.len()), BEGAN_NS);
    let ways = (closes_first, settings.timestamps);
    let mut peer = Peer::new(ends.turned(), query.len(), reply.clone(), ways);
    Link::new(rule, seed, delay_ns).run([&mut client, &mut peer], BEGAN_NS);
    assert!(peer.received == query, "{} of {} bytes of the query", peer.received.len(), query.len());
    assert!(client.received == reply, "{} of {} bytes of the reply", client.received.len(), reply.len());
    assert_eq!(client.ended, Some(End::Finished));
    assert!(!peer.was_reset);
    let counts = *client.connections.counts();
    assert_eq!((counts.attempts, counts.established, counts.finished), (1, 1, 1));
    counts
}

/// Settings for a bad link.
fn patient(timestamps: bool) -> Settings {
    Settings { timestamps, data_retries: 60, syn_retries: 60, fin_retries: 60, ..plain() }
}

/// Plays a short query over a link that loses the first frame for which `which` holds. Returns what the client sent
/// again.
fn lose_once(which: fn(usize, &Segment<'_>) -> bool) -> Retransmitted {
    let mut is_lost = false;
    let mut rule = |from: usize, segment: &Segment<'_>| {
        if !is_lost && which(from, segment) {
            is_lost = true;
            return Fate::Lost;
        }
        Fate::Once
    };
    let counts = play(&mut rule, (50, 200), &plain(), (false, 2, STEADY));
    assert!(is_lost);
    counts.retransmitted
}

#[test]
fn nothing_is_sent_again_over_a_good_link() {
    for closes_first in [false, true] {
        for (query, reply) in [(1, 1), (50, 65_000), (70_000, 100)] {
            let mut rule = |_: usize, _: &Segment<'_>| Fate::Once;
            let counts = play(&mut rule, (query, reply), &plain(), (closes_first, 1, STEADY));
            assert_eq!(counts.retransmitted, Retransmitted::default(), "{query} and {reply} bytes");
            assert_eq!((counts.out_of_order, counts.challenges, counts.strangers), (0, 0, 0));
        }
    }
}

#[test]
fn a_query_takes_few_segments() {
    let mut sent = 0;
    let mut rule = |from: usize, _: &Segment<'_>| {
        sent += usize::from(from == 0);
        Fate::Once
    };
    play(&mut rule, (50, 200), &plain(), (false, 1, STEADY));
    // SYN; query with the ACK of the handshake; FIN with the ACK of the reply; ACK of the FIN.
    assert_eq!(sent, 4);
}

#[test]
fn each_lost_segment_is_sent_again_once() {
    let (syn, data, fin) = (
        Retransmitted { syn: 1, ..Retransmitted::default() },
        Retransmitted { data: 1, ..Retransmitted::default() },
        Retransmitted { fin: 1, ..Retransmitted::default() },
    );
    // The client's SYN, query and FIN.
    assert_eq!(lose_once(|from, segment| from == 0 && segment.header.flags.has(Flags::SYN)), syn);
    assert_eq!(lose_once(|from, segment| from == 0 && !segment.payload.is_empty()), data);
    assert_eq!(lose_once(|from, segment| from == 0 && segment.header.flags.has(Flags::FIN)), fin);
    // The peer's SYN, which the peer sends again before the client does.
    let nothing = Retransmitted::default();
    assert_eq!(lose_once(|from, segment| from == 1 && segment.header.flags.has(Flags::SYN)), nothing);
    // The reply, which acknowledges the query, and the peer's FIN, which acknowledges the client's.
    assert_eq!(lose_once(|from, segment| from == 1 && !segment.payload.is_empty()), data);
    assert_eq!(lose_once(|from, segment| from == 1 && segment.header.flags.has(Flags::FIN)), fin);
}

#[test]
fn the_last_ack_is_sent_again_although_the_connection_is_gone() {
    let mut lost = 0;
    let mut is_closed = false;
    let mut rule = |from: usize, segment: &Segment<'_>| {
        is_closed |= from == 1 && segment.header.flags.has(Flags::FIN);
        if from == 0 && is_closed && lost < 3 {
            lost += 1;
            return Fate::Lost;
        }
        Fate::Once
    };
    let counts = play(&mut rule, (50, 200), &plain(), (false, 2, STEADY));
    assert_eq!((lost, counts.late, counts.strangers_reset), (3, 3, 0));
    assert_eq!(counts.retransmitted, Retransmitted::default());
}

#[test]
fn every_byte_arrives_once_over_a_bad_link() {
    let mut random = fastrand::Rng::with_seed(17);
    let (mut lost, mut again) = (0, 0);
    for seed in 0..60_u64 {
        let (per_mille, ahead) = ([20, 100, 300][seed as usize % 3], [0, 50][seed as usize / 3 % 2]);
        let mut rule = |_: usize, _: &Segment<'_>| match random.u32(0..1000) {
            dice if dice < per_mille => {
                lost += 1;
                Fate::Lost
            }
            dice if dice < per_mille + ahead => Fate::Twice,
            _ => Fate::Once,
        };
        let settings = patient(seed.is_multiple_of(2));
        let sizes = [(50, 500), (4000, 9000), (30_000, 1)][seed as usize % 3];
        let counts = play(&mut rule, sizes, &settings, (seed.is_multiple_of(5), seed, (10 * MS, 15 * MS)));
        again += counts.retransmitted.total();
    }
    assert!(lost > 100 && again > 50, "{lost} lost, {again} sent again");
}

#[test]
fn two_machines_that_open_and_close_at_once() {
    let mut random = fastrand::Rng::with_seed(23);
    for (seed, per_mille) in (0..30_u64).zip([0, 100, 250].into_iter().cycle()) {
        let mut rule = |_: usize, _: &Segment<'_>| {
            if random.u32(0..1000) < per_mille { Fate::Lost } else { Fate::Once }
        };
        let settings = patient(seed.is_multiple_of(2));
        let (one, other) = (bytes(5000, 1), bytes(7000, 2));
        let mut first = Client::new(&settings, &ends(), (one.clone(), other.len()), BEGAN_NS);
        let mut second = Client::new(&settings, &ends().turned(), (other.clone(), one.len()), BEGAN_NS);
        Link::new(&mut rule, seed, (10 * MS, 8 * MS)).run([&mut first, &mut second], BEGAN_NS);
        assert!(first.received == other && second.received == one, "seed {seed}");
        let counts = [*first.connections.counts(), *second.connections.counts()];
        assert!(counts.iter().all(|counts| counts.established == 1 && counts.finished == 1));
        if per_mille == 0 {
            assert!(counts.iter().all(|counts| counts.retransmitted == Retransmitted::default()));
        }
    }
}
