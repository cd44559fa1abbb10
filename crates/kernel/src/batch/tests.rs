//! Batches on real loopback sockets.

use std::net::SocketAddr;

use super::*;
use crate::address::LocalAddress;
use crate::poll::{FOREVER_NS, wait_any};
use crate::udp::{Peer, UdpOptions, UdpSocket};

fn bind(address: &str, options: UdpOptions) -> UdpSocket {
    UdpSocket::bind(address.parse().unwrap(), &options).unwrap()
}

fn address_of(socket: &UdpSocket) -> Address {
    socket.local_addr().unwrap().into()
}

#[test]
fn equal_segments_and_a_shorter_tail_arrive_as_one_message_call_after_call() {
    let from = bind("127.0.0.1:0", UdpOptions::default());
    let to = bind("127.0.0.1:0", UdpOptions { gro: true, timestamps: true, ..UdpOptions::default() });
    let mut sent = SendBatch::new(4, 4096);
    let mut received = RecvBatch::new(4, SEGMENTED_BYTES);
    // Every call reuses the headers. If the control length were not restored, segment sizes would get lost.
    for turn in 0..5 {
        sent.clear();
        let bytes: Vec<u8> = (0..130).map(|byte| byte + turn).collect();
        sent.add(&address_of(&to), 130, Some(40)).copy_from_slice(&bytes);
        assert_eq!(sent.send(&from, 0).unwrap(), 1);

        assert_eq!(received.recv(&to, Wait::ForOne).unwrap(), 1);
        let message = received.message(0);
        assert_eq!(message.bytes, bytes);
        assert_eq!(message.segment_bytes, 40);
        assert_eq!(message.from, address_of(&from));
        let now_ns = crate::clock::now_ns() as i64 + crate::clock::realtime_offset_ns();
        let age_ns = now_ns - message.arrived_ns.unwrap() as i64;
        assert!((-1_000_000..10_000_000_000).contains(&age_ns), "arrived {age_ns} ns ago");
    }
    assert_eq!(received.recv(&to, Wait::No).unwrap(), 0);
}

#[test]
fn without_gro_the_segments_arrive_one_by_one() {
    let from = bind("[::1]:0", UdpOptions::default());
    let to = bind("[::1]:0", UdpOptions::default());
    let mut sent = SendBatch::new(4, 4096);
    sent.add(&address_of(&to), 100, Some(40)).fill(1);
    sent.add(&address_of(&to), 40, Some(40)).fill(2);
    assert!(sent.room(3956) && !sent.room(3957));
    assert_eq!((sent.messages(), sent.send(&from, 0).unwrap()), (2, 2));
    let mut received = RecvBatch::new(8, 50);
    let mut lengths = Vec::new();
    while lengths.len() < 4 {
        let count = received.recv(&to, Wait::ForOne).unwrap();
        lengths.extend((0..count).map(|index| received.message(index).bytes.len()));
    }
    assert_eq!(lengths, [40, 40, 20, 40]);
}

#[test]
fn a_wildcard_socket_learns_which_address_was_asked_and_answers_from_it() {
    for (wildcard, asked) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::1")] {
        let server = bind(wildcard, UdpOptions { pktinfo: true, ..UdpOptions::default() });
        let port = server.local_addr().unwrap().port();
        let asked = SocketAddr::new(asked.parse().unwrap(), port);
        let client = bind(if asked.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }, UdpOptions::default());
        let peer = Peer { address: asked.into(), asked: None };
        client.send(b"batch", &peer).unwrap();
        client.send(b"single", &peer).unwrap();

        let mut turn = TurnBatch::new(1, 512, 1);
        assert_eq!(turn.recv(&server, Wait::ForOne).unwrap(), 1);
        assert_eq!(turn.message(0).to.unwrap().ip, asked.ip());
        turn.message_mut(0)[0] = b'B';
        turn.reply(0, 0, 5, None);
        assert!(!turn.room());
        assert_eq!(turn.send(&server, 0).unwrap(), 1);

        let (mut buffer, mut from) = ([0; 64], Peer::default());
        assert_eq!(server.recv(&mut buffer, &mut from, Wait::ForOne).unwrap(), Some(6));
        assert_eq!(from.asked.unwrap().ip, asked.ip());
        server.send(&buffer[..6], &from).unwrap();

        for text in [b"Batch".as_slice(), b"single"] {
            let length = client.recv(&mut buffer, &mut from, Wait::ForOne).unwrap().unwrap();
            assert_eq!(&buffer[..length], text);
            assert_eq!(from.address.to_socket_addr(), Some(asked));
        }
    }
}

#[test]
fn a_segmented_reply_can_be_sent_apart() {
    let server = bind("0.0.0.0:0", UdpOptions { gro: true, pktinfo: true, ..UdpOptions::default() });
    let asked = SocketAddr::from(([127, 0, 0, 3], server.local_addr().unwrap().port()));
    let client = bind("127.0.0.1:0", UdpOptions::default());
    let mut sent = SendBatch::new(1, 100);
    sent.add(&asked.into(), 100, Some(40)).fill(7);
    assert_eq!(sent.send(&client, 0).unwrap(), 1);

    let mut turn = TurnBatch::new(1, SEGMENTED_BYTES, 2);
    assert_eq!(turn.recv(&server, Wait::ForOne).unwrap(), 1);
    turn.reply(0, 0, 100, Some(40));
    turn.reply(0, 0, 40, Some(40));
    assert_eq!((turn.segments(0), turn.segments(1)), (3, 1));
    let mut taken = 0;
    turn.send_apart(&server, 0, |outcome| taken += usize::from(outcome.is_ok()));
    assert_eq!(taken, 3);
    assert_eq!(turn.send(&server, 0).unwrap(), 2);
    for expected in [40, 40, 20, 40, 40, 20, 40] {
        let (mut buffer, mut from) = ([0; 64], Peer::default());
        assert_eq!(client.recv(&mut buffer, &mut from, Wait::ForOne).unwrap(), Some(expected));
        assert_eq!(from.address.to_socket_addr(), Some(asked));
    }
}

#[test]
fn datagrams_are_gathered_into_runs_wherever_they_lie() {
    let server = bind("0.0.0.0:0", UdpOptions { pktinfo: true, ..UdpOptions::default() });
    let client = bind("127.0.0.1:0", UdpOptions::default());
    let from = LocalAddress { ip: "127.0.0.4".parse().unwrap(), interface: 0 };
    let mut batch = RunBatch::new(6, 200);
    for _ in 0..2 {
        batch.clear();
        let lengths = [(0, 40), (1, 40), (2, 30), (3, 40), (4, 20), (5, 30)];
        let pieces = lengths.map(|(number, bytes)| {
            assert!(batch.has_room(bytes));
            batch.room()[..bytes].fill(number);
            batch.keep(bytes)
        });
        assert!(!batch.has_room(1), "six pieces");
        assert_eq!(pieces.map(Piece::bytes), lengths.map(|(_, bytes)| bytes));
        let pick =
            |numbers: &[usize]| -> Vec<Piece> { numbers.iter().map(|&number| pieces[number]).collect() };
        batch.add(&address_of(&client), Some(&from), &pick(&[0, 1, 3, 4]));
        batch.add(&address_of(&client), Some(&from), &pick(&[2, 5]));
        assert_eq!((batch.messages(), batch.segments(0), batch.segments(1)), (2, 4, 2));
        for most in [2, 4] {
            let mut taken = 0;
            batch.send_apart(&server, 0, |outcome| {
                taken += usize::from(outcome.is_ok());
                taken < most
            });
            assert_eq!(taken, most);
        }
        assert_eq!(batch.send(&server, 0).unwrap(), 2);
        for (number, bytes) in [0, 1, 0, 1, 3, 4, 0, 1, 3, 4, 2, 5].map(|number: usize| lengths[number]) {
            let (mut buffer, mut from) = ([0; 64], Peer::default());
            assert_eq!(client.recv(&mut buffer, &mut from, Wait::ForOne).unwrap(), Some(bytes));
            assert!(buffer[..bytes].iter().all(|&byte| byte == number));
            assert_eq!(from.address.ip(), Some("127.0.0.4".parse().unwrap()));
        }
    }
}

#[test]
#[should_panic(expected = "a run of equal datagrams")]
fn a_run_of_unequal_datagrams_is_a_mistake() {
    let mut batch = RunBatch::new(2, 100);
    let pieces = [batch.keep(10), batch.keep(11)];
    batch.add(&Address::default(), None, &pieces);
}

#[test]
fn a_slot_has_room_behind_its_message() {
    let (to, from) = (bind("127.0.0.1:0", UdpOptions::default()), bind("127.0.0.1:0", UdpOptions::default()));
    let peer = Peer { address: address_of(&to), asked: None };
    from.send(b"query", &peer).unwrap();
    let mut turn = TurnBatch::new(1, 64, 1);
    assert_eq!(turn.recv(&to, Wait::ForOne).unwrap(), 1);
    let slot = turn.slot(0);
    assert_eq!((&slot.buffer[..slot.bytes], *slot.from), (&b"query"[..], address_of(&from)));
    slot.buffer[5..].fill(b'+');
    turn.reply(0, 0, 64, None);
    assert_eq!(turn.send(&to, 0).unwrap(), 1);
    let mut buffer = [0; 100];
    assert_eq!(from.recv(&mut buffer, &mut Peer::default(), Wait::ForOne).unwrap(), Some(64));
    assert_eq!(&buffer[..8], b"query+++");
}

#[test]
fn what_a_full_buffer_drops_is_counted() {
    const SENT: u64 = 200;
    let options = UdpOptions { recv_buffer: Some(2048), ..UdpOptions::default() };
    let to = bind("127.0.0.1:0", options);
    let from = bind("127.0.0.1:0", UdpOptions::default());
    let peer = Peer { address: address_of(&to), asked: None };
    for _ in 0..SENT {
        from.send(&[0; 100], &peer).unwrap();
    }
    let mut received = RecvBatch::new(64, 64);
    let mut taken = 0;
    while let count @ 1.. = received.recv(&to, Wait::No).unwrap() {
        assert_eq!(received.message(0).bytes.len(), 64, "what did not fit was cut off");
        taken += count as u64;
    }
    let dropped = to.drops().unwrap();
    assert!(dropped > 0);
    assert_eq!(taken + dropped, SENT);
}

#[test]
fn an_empty_datagram_is_a_message_and_a_woken_reader_gets_none() {
    let to = bind("127.0.0.1:0", UdpOptions::default());
    let from = bind("127.0.0.1:0", UdpOptions::default());
    let peer = Peer { address: address_of(&to), asked: None };
    let mut received = RecvBatch::new(2, 64);
    from.send(&[], &peer).unwrap();
    assert_eq!(received.recv(&to, Wait::ForOne).unwrap(), 1);
    assert_eq!(received.message(0).bytes, b"");

    std::thread::scope(|scope| {
        let batch = scope.spawn(|| RecvBatch::new(2, 64).recv(&to, Wait::ForOne).unwrap());
        let single = scope.spawn(|| to.recv(&mut [0; 64], &mut Peer::default(), Wait::ForOne).unwrap());
        to.wake_readers();
        assert_eq!(batch.join().unwrap(), 0);
        assert_eq!(single.join().unwrap(), None);
    });
    // From then on no wait blocks, and datagrams that arrive can still be read.
    assert!(wait_any(&[&to], FOREVER_NS).unwrap());
    assert_eq!(received.recv(&to, Wait::ForOne).unwrap(), 0);
    from.send(b"late", &peer).unwrap();
    assert_eq!(received.recv(&to, Wait::ForOne).unwrap(), 1);
    assert_eq!(received.message(0).bytes, b"late");
}

#[test]
fn a_message_behind_one_without_a_sender_moves_up() {
    let to = bind("127.0.0.1:0", UdpOptions { gro: true, ..UdpOptions::default() });
    let from = bind("127.0.0.1:0", UdpOptions::default());
    let mut sent = SendBatch::new(4, 4096);
    let mut received = RecvBatch::new(4, 512);
    for turn in 0..2 {
        sent.clear();
        sent.add(&address_of(&to), 0, None);
        sent.add(&address_of(&to), 100, Some(40)).fill(1 + turn);
        sent.add(&address_of(&to), 9, None).fill(3 + turn);
        assert_eq!(sent.send(&from, 0).unwrap(), 3);
        assert_eq!(received.recv(&to, Wait::ForOne).unwrap(), 3);

        received.forget_first();
        assert_eq!(received.messages(), 2);
        let (first, second) = (received.message(0), received.message(1));
        assert_eq!((first.bytes, first.segment_bytes), (&[1 + turn; 100][..], 40));
        assert_eq!((second.bytes, second.segment_bytes), (&[3 + turn; 9][..], 9));
        assert_eq!((first.from, second.from), (address_of(&from), address_of(&from)));
    }
}

#[test]
fn a_woken_reader_loses_nothing_of_what_still_comes() {
    const SENT: u64 = 50_000;
    let to = bind("127.0.0.1:0", UdpOptions::default());
    let from = bind("127.0.0.1:0", UdpOptions::default());
    let peer = Peer { address: address_of(&to), asked: None };
    to.wake_readers();
    let mut received = RecvBatch::new(64, 64);
    let taken = std::thread::scope(|scope| {
        let sender = scope.spawn(|| (0..SENT).for_each(|_| from.send(b"late", &peer).unwrap()));
        let mut taken = 0;
        loop {
            let is_last = sender.is_finished();
            let count = received.recv(&to, Wait::ForOne).unwrap();
            taken += count as u64;
            if is_last && count == 0 {
                break taken;
            }
        }
    });
    assert_eq!(taken + to.drops().unwrap(), SENT);
}
