//! Rings on real loopback sockets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use kqps_skips::{Capability, skip};

use super::*;
use crate::sys::check;
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

/// Has the kernel refuse each submission to a ring by the calling thread with `EBUSY`, as `io_uring_enter(2)` does while
/// completions must be read first.
fn refuse_submissions() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The number of the system call stands first in `struct seccomp_data`.
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_enter as u32)
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EBUSY as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the first call touches no memory. The second reads the program, which outlives it.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)).unwrap();
        check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)).unwrap();
    }
}

#[test]
fn a_submission_that_the_kernel_refuses_as_busy_reads_completions_and_then_fails() {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let Ok(mut ring) = Ring::new(4, 512) else { return sender.send(None).unwrap() };
        let socket = bind(UdpOptions::default());
        socket.wake_readers();
        (0..3).for_each(|_| ring.watch_wake(&socket).unwrap());
        // All three complete at once.
        ring.submit_and_look().unwrap();
        refuse_submissions();
        (0..4).for_each(|_| ring.watch_wake(&socket).unwrap());
        let refused = ring.watch_wake(&socket).map_err(|error| error.raw_os_error());
        let woken = std::iter::from_fn(|| ring.completion()).filter(|done| matches!(done, Completion::Woken));
        sender.send(Some((refused, woken.count()))).unwrap();
    });
    match receiver.recv_timeout(Duration::from_secs(10)).expect("a submission ends") {
        None => skip(Capability::Uring, "this kernel offers no io_uring"),
        Some(found) => assert_eq!(found, (Err(Some(libc::EBUSY)), 3)),
    }
}
