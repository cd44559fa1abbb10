//! The relay as a player sees it: one query, one fault, and the replies.

use std::net::UdpSocket;
use std::time::Duration;

use kqps_kernel::clock;

use super::*;

const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02n1\x04test\x00\x00\x01\x00\x01";

/// The replies: their bytes, and whether they came from the address that was asked.
type Replies = Vec<(Vec<u8>, bool)>;

/// Sends one query, reads `awaited` replies, stops the relay, and reads any further replies.
fn ask(fault: Fault, awaited: usize, subject: Option<SocketAddr>) -> (Replies, Counts) {
    let plan = Plan::from_shares(&[format!("{fault}=1").parse().unwrap()]).unwrap();
    let settings =
        RelaySettings { plan, subject, fault_delay_us: 1_000, late_us: 2_000, ..RelaySettings::default() };
    let relay = Relay::start(settings).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let asked = relay.address();
    socket.send_to(QUERY, asked).unwrap();
    let mut buffer = [0; 512];
    let mut read = || {
        let (length, from) = socket.recv_from(&mut buffer).ok()?;
        Some((buffer[..length].to_vec(), from == asked))
    };
    let mut replies: Replies = (0..awaited).map(|_| read().expect("a reply")).collect();
    let counts = relay.stop().unwrap();
    socket.set_nonblocking(true).unwrap();
    replies.extend(std::iter::from_fn(read));
    (replies, counts)
}

#[test]
fn each_fault_does_what_it_says_and_is_counted() {
    for &fault in Fault::ALL {
        let awaited = match fault {
            Fault::DropQuery | Fault::DropReply => 0,
            Fault::Duplicate => 2,
            _ => 1,
        };
        let (replies, counts) = ask(fault, awaited, None);
        assert_eq!(replies.len(), awaited, "{fault}");
        assert_eq!((counts.queries, counts.count(fault), counts.doubt()), (1, 1, None), "{fault}");
        counts.expected().check().unwrap();
        for (reply, from_asked) in replies {
            assert_eq!(from_asked, fault != Fault::WrongPort, "{fault}");
            assert_eq!(reply[..2] == QUERY[..2], fault != Fault::WrongId, "{fault}");
            assert_eq!(reply[2] & 0x80 == 0, fault == Fault::NotAReply, "{fault}");
            assert_eq!(reply[2] & 0x02 != 0, fault == Fault::Truncate, "{fault}");
            assert_eq!(reply[3] & 0x0f == 2, fault == Fault::WrongRcode, "{fault}");
            assert_eq!(reply.len() < QUERY.len(), fault == Fault::CutShort, "{fault}");
            let asks_for_another = matches!(fault, Fault::WrongQuestion | Fault::Corrupt | Fault::CutShort);
            assert_eq!(!reply[12..].starts_with(&QUERY[12..]), asks_for_another, "{fault}");
            let has_address = reply.ends_with(&[192, 0, 2, 1]);
            assert_eq!(has_address, !matches!(fault, Fault::WrongData | Fault::CutShort), "{fault}");
        }
    }
}

#[test]
fn a_subject_behind_it_answers_and_what_it_leaves_unanswered_is_lost() {
    let subject = Relay::start(RelaySettings::default()).unwrap();
    let (replies, counts) = ask(Fault::Truncate, 1, Some(subject.address()));
    assert_eq!(replies.len(), 1);
    assert_eq!((counts.count(Fault::Truncate), counts.unanswered, counts.expected().correct), (1, 0, 1));

    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (replies, counts) = ask(Fault::Truncate, 0, Some(silent.local_addr().unwrap()));
    assert!(replies.is_empty());
    assert_eq!((counts.count(Fault::Truncate), counts.unanswered, counts.expected().lost), (0, 1, 1));
}

#[test]
fn a_witness_dates_every_reply_after_its_query_and_before_it_is_read() {
    const DELAY_US: u64 = 3_000;
    let subject = Relay::start(RelaySettings::default()).unwrap();
    for (subject, delay_us) in [(None, 0), (None, DELAY_US), (Some(subject.address()), DELAY_US)] {
        let relay =
            Relay::start(RelaySettings { subject, delay_us, witness: true, ..RelaySettings::default() })
                .unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut between = Vec::new();
        for id in 0..20 {
            let mut query = QUERY.to_vec();
            query[1] = id;
            let asked_ns = clock::now_ns();
            socket.send_to(&query, relay.address()).unwrap();
            socket.recv(&mut [0; 512]).unwrap();
            between.push((asked_ns + delay_us * 1000, clock::now_ns()));
        }
        let (counts, witness) = relay.stop_with_witness().unwrap();
        assert_eq!((counts.queries, witness.replies.len()), (20, 20));
        for ((earliest_ns, read_ns), handed) in between.into_iter().zip(witness.replies) {
            let handed = handed.unwrap();
            assert!((earliest_ns..=read_ns).contains(&handed.before_ns));
            assert!(handed.before_ns <= handed.after_ns);
        }
    }
}

#[test]
fn a_reordered_reply_comes_after_the_next_one() {
    // The first of two queries is held. The second would be held too, but leaves at once together with the
    // first.
    let plan = Plan::from_shares(&["reorder=1".parse().unwrap()]).unwrap();
    let relay = Relay::start(RelaySettings { plan, spin: true, ..RelaySettings::default() }).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut orders = Vec::new();
    for _ in 0..50 {
        for id in [1, 2] {
            let mut query = QUERY.to_vec();
            query[1] = id;
            socket.send_to(&query, relay.address()).unwrap();
        }
        let mut buffer = [0; 512];
        orders.push([(); 2].map(|()| {
            socket.recv_from(&mut buffer).unwrap();
            buffer[1]
        }));
    }
    assert!(orders.contains(&[2, 1]), "{orders:?}");
    assert_eq!(relay.stop().unwrap().count(Fault::Reorder), 100);
}

#[test]
fn the_same_seed_makes_the_same_faults() {
    let faults = || {
        let plan = Plan::every(0.05).unwrap();
        let relay = Relay::start(RelaySettings { plan, seed: 7, ..RelaySettings::default() }).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for id in 0..200_u8 {
            let mut query = QUERY.to_vec();
            query[1] = id;
            socket.send_to(&query, relay.address()).unwrap();
        }
        relay.stop().unwrap().faults
    };
    assert_eq!(faults(), faults());
}
