//! Taps of a veth pair between two private networks, and of loopback in one. What is sent there is known to the last
//! packet.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use super::*;
use crate::address::Address;
use crate::batch::{RecvBatch, SendBatch};
use crate::namespace::NetNs;
use crate::namespace::veth::{DEVICE, End, VethSettings, join};
use crate::udp::{Peer, UdpOptions, UdpSocket, Wait};

const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PORT: u16 = 5300;

/// Two networks, joined; `None` if this host has none, or cannot tap them.
fn pair() -> Option<(NetNs, NetNs)> {
    for needed in ["veth", "packet-stamps"] {
        if let Err(reason) = crate::probe::probe_one(needed) {
            kqps_skips::skip(kqps_skips::Capability::Networks, format!("no taps: {needed}: {reason}"));
            return None;
        }
    }
    let (server, client) = (NetNs::new().unwrap(), NetNs::new().unwrap());
    let end = |namespace, address| End { namespace, address };
    join(end(&server, SERVER), end(&client, CLIENT), &VethSettings::default()).unwrap();
    Some((server, client))
}

fn bound(namespace: &NetNs, address: SocketAddr) -> UdpSocket {
    let options = UdpOptions { recv_buffer: Some(1 << 20), ..UdpOptions::default() };
    namespace.within(|| UdpSocket::bind(address, &options)).unwrap()
}

fn tap(namespace: &NetNs, interface: &str, one_in: u32) -> Tap {
    let settings = TapSettings {
        interface: interface.into(),
        ports: vec![53, PORT],
        sample: Sample::one_in(one_in),
        snap_bytes: 128,
    };
    namespace.within(|| Tap::open(&settings)).unwrap()
}

/// A packet, kept.
#[derive(Clone, Debug)]
struct Kept {
    is_outgoing: bool,
    stamped_ns: u64,
    bytes: Vec<u8>,
    segment_bytes: Option<u16>,
}

impl Kept {
    /// The first two bytes of the payload behind IP and UDP headers of this length.
    fn id(&self, headers: usize) -> u16 {
        u16::from_be_bytes(self.bytes[headers..headers + 2].try_into().unwrap())
    }
}

fn finish(tap: Tap) -> (Vec<Kept>, TapCounts) {
    let mut kept = Vec::new();
    let counts = tap.finish(0, &mut |packet: &Tapped<'_>| {
        let Tapped { is_outgoing, stamped_ns, bytes, segment_bytes } = *packet;
        kept.push(Kept { is_outgoing, stamped_ns, bytes: bytes.to_vec(), segment_bytes });
    });
    (kept, counts.unwrap())
}

/// Answers as many datagrams as `count`, each with `reply_bytes` of which the first two are those of the question.
fn answer(socket: &UdpSocket, count: usize, reply_bytes: usize) {
    let mut buffer = vec![0; 2048];
    for _ in 0..count {
        let mut peer = Peer::default();
        assert!(socket.wait_readable(5_000_000_000).unwrap(), "a datagram did not come within 5 s");
        socket.recv(&mut buffer, &mut peer, Wait::No).unwrap().unwrap();
        let mut reply = vec![7; reply_bytes];
        reply[..2].copy_from_slice(&buffer[..2]);
        socket.send(&reply, &peer).unwrap();
    }
}

/// Sends `count` datagrams with these numbers, some at once, and waits for the reply to each.
fn ask(socket: &UdpSocket, to: SocketAddr, ids: std::ops::Range<u16>, bytes: usize) {
    let peer = Peer { address: to.into(), asked: None };
    let mut buffer = vec![0; 65_535];
    let ids: Vec<u16> = ids.collect();
    for few in ids.chunks(50) {
        for id in few {
            let mut query = vec![3; bytes];
            query[..2].copy_from_slice(&id.to_be_bytes());
            socket.send(&query, &peer).unwrap();
        }
        for _ in few {
            assert!(socket.wait_readable(5_000_000_000).unwrap(), "a reply did not come within 5 s");
            socket.recv(&mut buffer, &mut Peer::default(), Wait::No).unwrap().unwrap();
        }
    }
}

#[test]
fn every_query_of_the_sample_and_its_reply_are_tapped_and_nothing_else() {
    let Some((server, client)) = pair() else { return };
    for (one_in, first) in [(1, 0), (8, 60_000)] {
        let (taken, other) = (bound(&server, (SERVER, PORT).into()), bound(&server, (SERVER, 5301).into()));
        let from = bound(&client, (CLIENT, 0).into());
        let mut tap = tap(&server, DEVICE, one_in);
        let ids = first..first + 2_000;
        for (to, port) in [(&taken, PORT), (&other, 5301)] {
            thread::scope(|scope| {
                scope.spawn(|| answer(to, 2_000, 80));
                ask(&from, (SERVER, port).into(), ids.clone(), 40);
            });
        }
        // Queries of the server itself go out to the port, and come back from it.
        let upstream = bound(&client, (CLIENT, 53).into());
        thread::scope(|scope| {
            scope.spawn(|| answer(&upstream, 100, 90));
            ask(&other, (CLIENT, 53).into(), 0..100, 40);
        });
        assert_eq!(tap.counts().unwrap().dropped, 0);
        let (kept, counts) = finish(tap);
        let sampled: Vec<u16> = ids.filter(|id| Sample::one_in(one_in).takes(*id)).collect();
        assert_eq!(counts, TapCounts { passed: 2 * sampled.len() as u64, dropped: 0 });
        for is_outgoing in [false, true] {
            let of: Vec<&Kept> = kept.iter().filter(|one| one.is_outgoing == is_outgoing).collect();
            let mut found: Vec<u16> = of.iter().map(|one| one.id(28)).collect();
            found.sort_unstable();
            assert_eq!(found, sampled, "one in {one_in}");
            let length = 28 + if is_outgoing { 80 } else { 40 };
            assert!(of.iter().all(|one| one.segment_bytes.is_none() && one.bytes.len() == length));
        }
        for id in sampled {
            let times: Vec<u64> =
                kept.iter().filter(|one| one.id(28) == id).map(|one| one.stamped_ns).collect();
            assert!(times[0] < times[1] && times[1] - times[0] < 5_000_000_000, "{times:?}");
        }
    }
}

#[test]
fn datagrams_that_travel_together_are_all_there_whatever_the_sample() {
    let Some((server, client)) = pair() else { return };
    if let Err(reason) = crate::probe::probe_one("gso") {
        return kqps_skips::skip(kqps_skips::Capability::Segmentation, &reason);
    }
    let (to, from) = (bound(&server, (SERVER, PORT).into()), bound(&client, (CLIENT, 0).into()));
    let tap = tap(&server, DEVICE, 64);
    let mut sent = SendBatch::new(1, 20 * 40);
    let bytes = sent.add(&Address::from(SocketAddr::from((SERVER, PORT))), 19 * 40 + 30, Some(40));
    for (id, datagram) in (0_u16..).zip(bytes.chunks_mut(40)) {
        datagram[..2].copy_from_slice(&id.to_be_bytes());
    }
    sent.send(&from, 0).unwrap();
    let mut received = RecvBatch::new(32, 64);
    let mut count = 0;
    while count < 20 {
        assert!(to.wait_readable(5_000_000_000).unwrap(), "{count} came");
        count += received.recv(&to, Wait::No).unwrap();
    }
    let (kept, counts) = finish(tap);
    assert_eq!(counts, TapCounts { passed: 1, dropped: 0 });
    assert_eq!((kept[0].segment_bytes, kept[0].bytes.len()), (Some(40), 28 + 19 * 40 + 30));
    assert_eq!(kept[0].id(28 + 7 * 40), 7, "longer than the snap, since each has its own number");
}

#[test]
fn of_fragments_the_first_one_is_tapped_and_loopback_is_read_on_the_servers_side() {
    if pair().is_none() {
        return;
    }
    let network = NetNs::new().unwrap();
    for (server, headers) in [("127.0.0.1", 28), ("::1", 48)] {
        let server = SocketAddr::new(server.parse().unwrap(), PORT);
        let (to, from) = (bound(&network, server), bound(&network, SocketAddr::new(server.ip(), 0)));
        let tap = tap(&network, "lo", 1);
        thread::scope(|scope| {
            scope.spawn(|| answer(&to, 100, 100));
            ask(&from, server, 0..100, 40);
        });
        let (kept, counts) = finish(tap);
        assert_eq!(
            counts,
            TapCounts { passed: 200, dropped: 0 },
            "a packet passes loopback in both directions"
        );
        for is_outgoing in [false, true] {
            let of: Vec<&Kept> = kept.iter().filter(|one| one.is_outgoing == is_outgoing).collect();
            let ids: Vec<u16> = of.iter().map(|one| one.id(headers)).collect();
            assert_eq!(ids, (0..100).collect::<Vec<u16>>());
        }
    }
    let Some((server, client)) = pair() else { return };
    let (to, from) = (bound(&server, (SERVER, PORT).into()), bound(&client, (CLIENT, 0).into()));
    let tap = tap(&server, DEVICE, 1);
    thread::scope(|scope| {
        scope.spawn(|| answer(&to, 10, 4_000));
        ask(&from, (SERVER, PORT).into(), 0..10, 40);
    });
    let (kept, counts) = finish(tap);
    assert_eq!(counts, TapCounts { passed: 20, dropped: 0 }, "a reply leaves in three fragments");
    assert!(kept.iter().all(|one| one.bytes.len() == if one.is_outgoing { 128 - 14 } else { 68 }));
}

#[test]
fn what_is_counted_is_read_or_dropped_however_fast_packets_come() {
    let Some((server, client)) = pair() else { return };
    let _to = bound(&server, (SERVER, PORT).into());
    let from = bound(&client, (CLIENT, 0).into());
    let tap = tap(&server, DEVICE, 1);
    // More than the ring holds, and nobody reads it meanwhile.
    let (bursts, each) = (4_000_u64, 64_u64);
    let mut sent = SendBatch::new(each as usize, each as usize * 40);
    let to = Address::from(SocketAddr::from((SERVER, PORT)));
    let mut count = 0;
    for _ in 0..bursts {
        for _ in 0..each {
            sent.add(&to, 40, None);
        }
        count += sent.send(&from, 0).unwrap() as u64;
        sent.clear();
    }
    let (kept, counts) = finish(tap);
    assert!(count > 0 && counts.dropped > 0, "the ring was to be too small: {counts:?}");
    assert_eq!((kept.len() as u64, counts.passed + counts.dropped), (counts.passed, count));
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let settings =
        TapSettings { interface: "none0".into(), ports: vec![53], sample: Sample::default(), snap_bytes: 64 };
    let error = Tap::open(&settings).unwrap_err().to_string();
    assert!(error.contains("`none0`"), "{error}");
}
