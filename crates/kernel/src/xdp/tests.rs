use kqps_skips::{Capability, skip};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};

use super::trial::{FAR, NEAR, PORT, client, near_end, open, pair, turn_round};
use super::*;
use crate::clock::now_ns;
use crate::namespace::NetNs;
use crate::namespace::netlink::{Netlink, RequestMode};
use crate::udp::{Peer, UdpOptions, UdpSocket, Wait};

/// Longer than any frame takes over a veth pair.
const PATIENCE_NS: u64 = 30_000_000_000;

/// The headers of Ethernet, IPv4 and UDP.
const HEADER_BYTES: usize = 42;

/// Two joined networks, if frames get past the stack here.
fn networks() -> Option<(NetNs, NetNs)> {
    if let Err(reason) = crate::probe::probe_one("af-xdp") {
        skip(Capability::Networks, reason);
        return None;
    }
    Some(pair().unwrap())
}

/// An ordinary socket at the near end.
fn ordinary(near: &NetNs, port: u16) -> UdpSocket {
    near.within(|| UdpSocket::bind((NEAR, port).into(), &UdpOptions::default())).unwrap()
}

/// The next datagram of a socket, which must come.
fn next(socket: &UdpSocket) -> Vec<u8> {
    assert!(socket.wait_readable(PATIENCE_NS).unwrap(), "no datagram arrived");
    let mut buffer = [0; 256];
    let bytes = socket.recv(&mut buffer, &mut Peer::default(), Wait::No).unwrap().unwrap();
    buffer[..bytes].to_vec()
}

/// Waits until a program has counted so many frames.
fn await_count(what: &str, wanted: u64, count: impl Fn() -> u64) {
    let end_ns = now_ns() + PATIENCE_NS;
    while count() < wanted {
        assert!(now_ns() < end_ns, "{} of {wanted} frames {what}", count());
        std::thread::yield_now();
    }
    assert_eq!(count(), wanted, "{what}");
}

#[test]
fn frames_arrive_with_their_time_and_go_back() {
    const COUNT: u8 = 64;
    let Some((near, far)) = networks() else { return };
    let (attached, mut socket) = open(&near, 256).unwrap();
    assert!(attached.is_native());
    assert!(!socket.is_zero_copy());
    let client = client(&far).unwrap();
    let start_ns = now_ns();
    (0..COUNT).for_each(|number| client.send(&[number; 20], &near_end()).unwrap());
    let (mut received, mut sent) = (0, 0);
    while received < usize::from(COUNT) {
        assert!(socket.wait(PATIENCE_NS).unwrap(), "{received} frames arrived");
        received += socket.receive(16, |frame, bytes, arrived_ns| {
            assert_eq!(bytes, HEADER_BYTES + 20);
            assert!((start_ns..=now_ns()).contains(&arrived_ns), "{arrived_ns}");
            turn_round(frame);
            Some(bytes)
        });
        sent += socket.flush(|token| panic!("frame {token} was refused")).unwrap();
    }
    assert_eq!((received, sent, socket.waiting()), (64, 64, 0));
    for number in 0..COUNT {
        assert_eq!(next(&client), [number; 20]);
    }
    assert_eq!((attached.matched().unwrap(), attached.unclaimed().unwrap()), (64, 0));
    assert_eq!(socket.statistics().unwrap(), XdpStatistics::default());
    assert_eq!(socket.room(), 128);
}

#[test]
fn frames_are_written_and_sent_with_their_tokens() {
    let Some((near, far)) = networks() else { return };
    let (_attached, mut socket) = open(&near, 64).unwrap();
    let client = client(&far).unwrap();
    // A frame of the client is the pattern.
    client.send(&[7; 20], &near_end()).unwrap();
    assert!(socket.wait(PATIENCE_NS).unwrap());
    let mut pattern = Vec::new();
    socket.receive(1, |frame, bytes, _| {
        turn_round(frame);
        pattern = frame[..bytes].to_vec();
        None
    });
    let put = |socket: &mut XdpSocket, token| {
        let write = |frame: &mut [u8]| {
            assert_eq!(frame.len(), ROOM_BYTES);
            frame[..pattern.len()].copy_from_slice(&pattern);
            pattern.len()
        };
        socket.put(write, token)
    };
    // More frames than the socket has, in several rounds.
    for _ in 0..10 {
        let room = socket.room();
        assert_eq!(room, 32);
        assert!((0..32).all(|token| put(&mut socket, token)));
        assert!(!put(&mut socket, 32));
        assert_eq!(socket.waiting(), 32);
        assert!(socket.wait(0).is_err(), "a wait would send");
        assert_eq!(socket.flush(|token| panic!("frame {token} was refused")).unwrap(), 32);
        for _ in 0..32 {
            assert_eq!(next(&client), [7; 20]);
        }
    }
    assert!(!socket.wait(0).unwrap());
}

#[test]
fn what_a_device_refuses_is_known_by_its_token() {
    let Some((near, far)) = networks() else { return };
    let (_attached, mut socket) = open(&near, 128).unwrap();
    let device = far.within(|| route::to(NEAR.into())).unwrap().device;
    let set_up = |is_up: bool| {
        let mut link = LinkMessage::default();
        link.header.index = device;
        link.header.flags = if is_up { LinkFlags::Up } else { LinkFlags::empty() };
        link.header.change_mask = LinkFlags::Up;
        far.within(|| Netlink::open()?.request(RouteNetlinkMessage::SetLink(link), RequestMode::Changed))
            .unwrap();
    };
    let put = |socket: &mut XdpSocket, token| {
        let write = |frame: &mut [u8]| {
            frame[..60].fill(0);
            60
        };
        assert!(socket.put(write, token));
    };
    // Without its other end, the device has no carrier and drops.
    set_up(false);
    (0..40).for_each(|token| put(&mut socket, token));
    let mut refused = Vec::new();
    assert_eq!(socket.flush(|token| refused.push(token)).unwrap(), 0);
    assert_eq!(refused, (0..40).collect::<Vec<u64>>());
    assert_eq!((socket.waiting(), socket.room()), (0, 64));
    set_up(true);
    (40..50).for_each(|token| put(&mut socket, token));
    assert_eq!(socket.flush(|token| panic!("frame {token} was refused")).unwrap(), 10);
    assert_eq!(socket.waiting(), 0);
    // They are free again when the other end has thrown them away.
    let end_ns = now_ns() + PATIENCE_NS;
    while socket.room() < 64 {
        assert!(now_ns() < end_ns, "{} of 64 frames are free", socket.room());
        std::thread::yield_now();
    }
}

/// For flushes in which the device refuses nothing.
fn refused(token: u64) {
    panic!("frame {token} was refused");
}

#[test]
fn a_device_that_is_down_takes_frames_when_it_is_up_again_and_none_when_it_is_gone() {
    let Some((near, far)) = networks() else { return };
    let (_attached, mut socket) = open(&near, 64).unwrap();
    let device = near.within(|| route::to(FAR.into())).unwrap().device;
    let set_up = |is_up: bool| {
        let mut link = LinkMessage::default();
        link.header.index = device;
        link.header.flags = if is_up { LinkFlags::Up } else { LinkFlags::empty() };
        link.header.change_mask = LinkFlags::Up;
        let request = || Netlink::open()?.request(RouteNetlinkMessage::SetLink(link), RequestMode::Changed);
        near.within(request).unwrap();
    };
    let write = |frame: &mut [u8]| {
        frame[..60].fill(0);
        60
    };
    socket.check_device().unwrap();
    set_up(false);
    socket.check_device().unwrap();
    assert!((0..3).all(|token| socket.put(write, token)));
    for _ in 0..3 {
        assert_eq!(socket.flush(refused).unwrap(), 0);
        assert_eq!((socket.is_down(), socket.downs(), socket.waiting()), (true, 1, 3));
    }
    set_up(true);
    assert_eq!((socket.flush(refused).unwrap(), socket.is_down(), socket.waiting()), (3, false, 0));
    set_up(false);
    assert!(socket.put(write, 3));
    assert_eq!((socket.flush(refused).unwrap(), socket.downs(), socket.taken()), (0, 2, 0));
    // Both devices of a pair go with the namespace of either.
    drop(far);
    let end_ns = now_ns() + PATIENCE_NS;
    let gone = loop {
        if let Err(error) = socket.flush(refused) {
            break error.to_string();
        }
        assert!(now_ns() < end_ns, "the device is still there");
        std::thread::yield_now();
    };
    assert!(gone.contains("the device is gone"), "{gone}");
}

#[test]
fn what_matched_was_read_or_dropped() {
    let Some((near, far)) = networks() else { return };
    let (attached, mut socket) = open(&near, 8).unwrap();
    let client = client(&far).unwrap();
    (0..10_u8).for_each(|number| client.send(&[number; 20], &near_end()).unwrap());
    await_count("matched", 10, || attached.matched().unwrap());
    let mut first = Vec::new();
    let read = socket.receive(100, |frame, _, _| {
        first.push(frame[HEADER_BYTES]);
        None
    });
    let statistics = socket.statistics().unwrap();
    assert_eq!((read, first), (4, vec![0, 1, 2, 3]));
    assert_eq!(statistics.dropped(), 6, "{statistics:?}");
    // The frames that were read are empty again.
    client.send(&[10; 20], &near_end()).unwrap();
    assert!(socket.wait(PATIENCE_NS).unwrap());
    assert_eq!(socket.receive(100, |_, _, _| None), 1);
}

#[test]
fn what_does_not_match_goes_to_the_kernel() {
    let Some((near, far)) = networks() else { return };
    let (attached, mut socket) = open(&near, 64).unwrap();
    let (client, other, same) = (client(&far).unwrap(), ordinary(&near, PORT + 1), ordinary(&near, PORT));
    let mut to_other = near_end();
    to_other.address = std::net::SocketAddr::from((NEAR, PORT + 1)).into();
    client.send(b"past it", &near_end()).unwrap();
    client.send(b"other", &to_other).unwrap();
    assert_eq!(next(&other), b"other");
    assert!(socket.wait(PATIENCE_NS).unwrap());
    assert_eq!((socket.receive(100, |_, _, _| None), attached.matched().unwrap()), (1, 1));
    assert!(!same.wait_readable(0).unwrap());
    // A frame for a queue without a socket goes to the kernel too, and so do all without the program.
    drop(socket);
    client.send(b"unclaimed", &near_end()).unwrap();
    assert_eq!(next(&same), b"unclaimed");
    assert_eq!((attached.matched().unwrap(), attached.unclaimed().unwrap()), (1, 1));
    drop(attached);
    client.send(b"detached", &near_end()).unwrap();
    assert_eq!(next(&same), b"detached");
}

#[test]
fn a_device_has_one_program_and_a_queue_one_socket() {
    let Some((near, _far)) = networks() else { return };
    let (attached, socket) = open(&near, 64).unwrap();
    let error = |opened: io::Result<(Attached, XdpSocket)>| opened.map(drop).unwrap_err().to_string();
    let busy = error(open(&near, 64));
    assert!(busy.contains("attaching an XDP program: the device has one already"), "{busy}");
    drop(attached);
    let busy = error(open(&near, 64));
    assert!(busy.contains("binding an AF_XDP socket"), "{busy}");
    drop(socket);
    open(&near, 64).unwrap();
}

#[test]
fn impossible_settings_are_errors() {
    let Some((near, _far)) = networks() else { return };
    let device = near.within(|| route::to(FAR.into())).unwrap().device;
    let usual = XdpSettings { device, queue: 0, frames: 64, mode: XdpMode::Copy };
    let opened = |settings: XdpSettings| near.within(move || XdpSocket::open(&settings)).map(drop);
    opened(usual).unwrap();
    for frames in [0, 1, 3, 1 << 21] {
        assert_eq!(opened(XdpSettings { frames, ..usual }).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    assert!(opened(XdpSettings { device: 999, ..usual }).is_err());
    assert!(opened(XdpSettings { queue: 1, ..usual }).is_err());
    // A veth device cannot read frames itself.
    assert!(opened(XdpSettings { mode: XdpMode::ZeroCopy, ..usual }).is_err());
}

#[test]
fn frames_can_be_looked_at_before_they_are_read() {
    let Some((near, far)) = networks() else { return };
    let (attached, mut socket) = open(&near, 64).unwrap();
    let client = client(&far).unwrap();
    (0..5_u8).for_each(|number| client.send(&[number; 20], &near_end()).unwrap());
    await_count("matched", 5, || attached.matched().unwrap());
    let firsts = |socket: &mut XdpSocket, most| -> Vec<u8> {
        let frames = socket.arrived(most);
        assert_eq!(frames.len(), most.min(5));
        let first = |frame: &[u8]| {
            assert_eq!(frame.len(), HEADER_BYTES + 20);
            frame[HEADER_BYTES]
        };
        frames.map(first).collect()
    };
    assert_eq!(firsts(&mut socket, 3), [0, 1, 2]);
    assert_eq!(firsts(&mut socket, 64), [0, 1, 2, 3, 4]);
    let mut read = Vec::new();
    socket.receive(64, |frame, _, _| {
        read.push(frame[HEADER_BYTES]);
        None
    });
    assert_eq!(read, [0, 1, 2, 3, 4]);
    assert_eq!(socket.arrived(64).len(), 0);
}

#[test]
fn a_program_that_was_detached_matches_nothing_and_keeps_its_counts() {
    let Some((near, far)) = networks() else { return };
    let (attached, mut socket) = open(&near, 64).unwrap();
    let (client, same) = (client(&far).unwrap(), ordinary(&near, PORT));
    client.send(&[1; 20], &near_end()).unwrap();
    assert!(socket.wait(PATIENCE_NS).unwrap());
    attached.detach().unwrap();
    client.send(&[2; 20], &near_end()).unwrap();
    assert_eq!(next(&same), [2; 20]);
    assert_eq!((attached.matched().unwrap(), socket.receive(64, |_, _, _| None)), (1, 1));
    // The device is free again.
    open(&near, 64).map(drop).unwrap_err();
    drop(socket);
    open(&near, 64).map(drop).unwrap();
    attached.detach().unwrap();
}
