//! Rings on real loopback sockets.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kqps_skips::{Capability, skip};

use super::*;
use crate::udp::{Peer, UdpOptions, Wait};

fn bind(options: UdpOptions) -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap()
}

/// Inverts the first byte of every datagram and sends it back, until `count` were answered.
fn echo(ring: &mut Ring, socket: &UdpSocket, count: usize) {
    let mut answered = 0;
    while answered < count {
        ring.submit_and_wait().unwrap();
        while let Some(completion) = ring.completion() {
            match completion {
                Completion::Received { key, buffer, armed } => {
                    assert_eq!(key, 7);
                    if !armed {
                        ring.receive(socket, key).unwrap();
                    }
                    let payload = ring.payload(&buffer);
                    payload[0] += 1;
                    let bytes = payload.len();
                    ring.reply(socket, buffer, bytes).unwrap();
                }
                Completion::Unarmed(key, None) => ring.receive(socket, key).unwrap(),
                Completion::Sent(buffer, Ok(())) => {
                    answered += 1;
                    ring.give_back(buffer);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_ring_of_four_buffers_answers_a_hundred_datagrams() {
    let Ok(mut ring) = Ring::new(4, 512) else {
        skip(Capability::Uring, "this kernel offers no io_uring");
        return;
    };
    let server = bind(UdpOptions { pktinfo: true, ..UdpOptions::default() });
    let client = bind(UdpOptions::default());
    ring.receive(&server, 7).unwrap();
    let peer = Peer { address: server.local_addr().unwrap().into(), asked: None };
    for byte in 0..100 {
        client.send(&[byte, 9, 9], &peer).unwrap();
    }
    echo(&mut ring, &server, 100);
    let mut from = Peer::default();
    for byte in 1..=100 {
        let mut buffer = [0; 8];
        assert_eq!(client.recv(&mut buffer, &mut from, Wait::ForOne).unwrap(), Some(3));
        assert_eq!((buffer[0], from.address), (byte, peer.address));
    }
}

/// Whether a call panics because a buffer belongs to another ring.
fn is_refused<T>(call: impl FnOnce() -> T) -> bool {
    let panic = catch_unwind(AssertUnwindSafe(call)).err();
    panic.is_some_and(|cause| cause.downcast_ref::<&str>() == Some(&"a buffer of another ring"))
}

#[test]
fn a_ring_refuses_the_buffers_of_another_ring() {
    let (Ok(mut ring), Ok(mut other)) = (Ring::new(4, 512), Ring::new(4, 512)) else {
        skip(Capability::Uring, "this kernel offers no io_uring");
        return;
    };
    let server = bind(UdpOptions::default());
    let client = bind(UdpOptions::default());
    let peer = Peer { address: server.local_addr().unwrap().into(), asked: None };
    for text in [b"one", b"two", b"six"] {
        client.send(text, &peer).unwrap();
    }
    ring.receive(&server, 7).unwrap();
    let mut buffers = Vec::new();
    while buffers.len() < 3 {
        ring.submit_and_wait().unwrap();
        while let Some(completion) = ring.completion() {
            match completion {
                Completion::Received { key, buffer, armed } => {
                    buffers.push(buffer);
                    if !armed {
                        ring.receive(&server, key).unwrap();
                    }
                }
                unexpected => panic!("{unexpected:?}"),
            }
        }
    }
    let [first, second, third] = <[Buffer; 3]>::try_from(buffers).unwrap();
    assert!(is_refused(|| other.payload(&first).len()));
    assert!(is_refused(|| other.slot(&first).1));
    assert!(is_refused(|| other.sender(&first)));
    assert!(is_refused(|| other.arrived_ns(&first)));
    assert!(is_refused(|| other.asked(&first)));
    assert!(is_refused(|| other.reply(&server, second, 3)));
    assert!(is_refused(|| other.give_back(third)));
    assert_eq!(ring.payload(&first), b"one");
}

#[test]
fn a_ring_is_notified_when_readers_are_woken() {
    let Ok(mut ring) = Ring::new(4, 512) else {
        skip(Capability::Uring, "this kernel offers no io_uring");
        return;
    };
    let server = bind(UdpOptions::default());
    ring.receive(&server, 0).unwrap();
    ring.watch_wake(&server).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.wake_readers());
        loop {
            ring.submit_and_wait().unwrap();
            if std::iter::from_fn(|| ring.completion()).any(|done| matches!(done, Completion::Woken)) {
                break;
            }
        }
    });
}
