//! Connections of a ring to listeners on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kqps_skips::{Capability, skip};

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

/// A ring with `buffers` buffers of 256 bytes; `None` if this host offers none.
fn ring(buffers: u16) -> Option<StreamRing> {
    let ring = StreamRing::new(buffers, 256);
    if ring.is_err() {
        skip(Capability::Uring, "this kernel offers no io_uring");
    }
    ring.ok()
}

/// The next completion of a ring.
fn next(ring: &mut StreamRing) -> StreamCompletion {
    let since = Instant::now();
    loop {
        if let Some(completion) = ring.completion().unwrap() {
            return completion;
        }
        assert!(since.elapsed() < PATIENCE, "nothing completes");
        ring.submit_and_wait_for(10_000_000).unwrap();
    }
}

/// A connection with this key, and its other end.
fn pair(ring: &mut StreamRing, key: u32) -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let stream = ring.connect(TcpClient::bound(to, None).unwrap(), to, key).unwrap();
    match next(ring) {
        StreamCompletion::Connected { key: made, outcome: Ok(()) } => assert_eq!(made, key),
        other => panic!("{other:?}"),
    }
    (stream, listener.accept().unwrap().0)
}

#[test]
fn bytes_go_both_ways_and_arrive_with_their_time() {
    let Some(mut ring) = ring(4) else { return };
    let (stream, mut peer) = pair(&mut ring, 7);
    let mut output = b"abc".to_vec();
    assert!(ring.send(&stream, &mut output).unwrap() && output.is_empty());
    output = b"d".to_vec();
    assert!(!ring.send(&stream, &mut output).unwrap(), "there is one send at a time");
    assert_eq!((ring.unsent(&stream), output.as_slice()), (3, &b"d"[..]));
    assert!(matches!(next(&mut ring), StreamCompletion::Sent { key: 7, outcome: Ok(0) }));
    assert_eq!(ring.unsent(&stream), 0);
    let mut read = [0; 3];
    peer.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"abc");
    // The kernel begins to take times shortly after the first socket asked for them.
    let since = Instant::now();
    loop {
        peer.write_all(b"reply").unwrap();
        let StreamCompletion::Received { key: 7, buffer } = next(&mut ring) else { panic!("no bytes") };
        let (bytes, arrived_ns) = ring.bytes(&buffer);
        assert_eq!(bytes, b"reply");
        let has_time = arrived_ns.is_some();
        ring.give_back(buffer);
        if has_time {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "no time of arrival");
    }
    drop(peer);
    assert!(matches!(next(&mut ring), StreamCompletion::Ended { key: 7, outcome: Ok(()) }));
    ring.end(stream).unwrap();
}

#[test]
fn more_bytes_arrive_than_all_buffers_hold_and_are_sent_than_the_kernel_has_room_for() {
    const BYTES: usize = 8 << 20;
    let Some(mut ring) = ring(2) else { return };
    let (stream, mut peer) = pair(&mut ring, 0);
    let sent: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let expected = sent.clone();
    // The peer reads nothing before it has written everything.
    let other = std::thread::spawn(move || {
        let mut writer = peer.try_clone().unwrap();
        writer.write_all(&expected[..1 << 20]).unwrap();
        let mut read = vec![0; BYTES];
        peer.read_exact(&mut read).unwrap();
        assert!(read == expected);
        peer
    });
    assert!(ring.send(&stream, &mut sent.clone()).unwrap());
    let (mut received, mut left) = (Vec::new(), BYTES);
    while received.len() < 1 << 20 || left > 0 {
        match next(&mut ring) {
            StreamCompletion::Received { buffer, .. } => {
                received.extend_from_slice(ring.bytes(&buffer).0);
                ring.give_back(buffer);
            }
            StreamCompletion::Sent { outcome, .. } => {
                let now = outcome.unwrap();
                assert!(now < left);
                left = now;
            }
            unexpected => panic!("{unexpected:?}"),
        }
    }
    assert!(received == sent[..1 << 20]);
    assert!(ring.has_starved() && !ring.has_starved(), "it is reported once");
    drop(other.join().unwrap());
    ring.end(stream).unwrap();
}

#[test]
fn a_refused_connection_is_an_error() {
    let Some(mut ring) = ring(2) else { return };
    // 127.0.0.2: no test listens there.
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let to = listener.local_addr().unwrap();
    drop(listener);
    let stream = ring.connect(TcpClient::bound(to, None).unwrap(), to, 3).unwrap();
    let StreamCompletion::Connected { key: 3, outcome } = next(&mut ring) else { panic!("no outcome") };
    assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    ring.end(stream).unwrap();
}

#[test]
fn a_connection_that_is_given_up_closes_and_its_slot_is_used_again() {
    let Some(mut ring) = ring(2) else { return };
    for reset in [false, true, false] {
        let (stream, mut peer) = pair(&mut ring, 1);
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.write_all(b"late").unwrap();
        if reset {
            ring.client(&stream).close_by_reset().unwrap();
        }
        ring.end(stream).unwrap();
        let since = Instant::now();
        while ring.operations > 0 {
            ring.submit_and_wait_for(10_000_000).unwrap();
            assert!(ring.completion().unwrap().is_none(), "nothing of it is returned");
            assert!(since.elapsed() < PATIENCE, "it does not end");
        }
        // Bytes that were not read end a connection by a reset, too.
        let end = peer.read(&mut [0]);
        assert!(end.map_or(true, |bytes| bytes == 0 && !reset), "{reset}");
        assert_eq!((ring.slots.len(), ring.free.len()), (1, 1));
    }
}

#[test]
fn dropping_a_ring_closes_its_connections() {
    let Some(mut ring) = ring(2) else { return };
    let (_stream, mut peer) = pair(&mut ring, 0);
    // Its receive runs.
    drop(ring);
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}
