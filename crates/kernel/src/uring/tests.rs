//! Rings on real loopback sockets.

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
