//! Residence over a veth pair between two private networks, at a server that holds each query for a known time.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::thread;

use kqps_kernel::address::Address;
use kqps_kernel::namespace::NetNs;
use kqps_kernel::namespace::veth::{DEVICE, End, VethSettings, join};
use kqps_kernel::udp::{Peer, UdpOptions, UdpSocket, Wait};
use kqps_observation::Histogram;

use super::datagram::tests::query;
use super::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PORT: u16 = 5300;

/// How long the server holds a query.
const HELD_NS: u64 = 4_000_000;

/// Two networks, joined; `None` if this host has none, or cannot tap them.
fn pair() -> Option<(NetNs, NetNs)> {
    for needed in ["veth", "packet-stamps"] {
        if let Err(reason) = kqps_kernel::probe::probe_one(needed) {
            kqps_skips::skip(kqps_skips::Capability::Networks, format!("no residence: {needed}: {reason}"));
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

/// Answers as many queries as `count`, each after it was held. Queries whose ID `is_kept` are kept.
fn serve(socket: &UdpSocket, count: usize, is_kept: impl Fn(u16) -> bool) {
    let (mut held, mut came) = (VecDeque::new(), 0);
    let mut buffer = [0; 512];
    while came < count || !held.is_empty() {
        while let Some(&(due_ns, ref reply, peer)) = held.front()
            && due_ns <= clock::now_ns()
        {
            let reply: &Vec<u8> = reply;
            socket.send(reply, &peer).unwrap();
            held.pop_front();
        }
        let mut peer = Peer::default();
        if let Some(bytes) = socket.recv(&mut buffer, &mut peer, Wait::No).unwrap() {
            came += 1;
            if !is_kept(u16::from_be_bytes([buffer[0], buffer[1]])) {
                held.push_back((clock::now_ns() + HELD_NS, buffer[..bytes].to_vec(), peer));
            }
            continue;
        }
        socket.wait_readable(200_000).unwrap();
    }
}

/// Asks for these IDs and waits for the replies to all that are not kept. Returns the longest round trip, microseconds.
fn ask(socket: &UdpSocket, ids: &[u16], is_kept: impl Fn(u16) -> bool) -> u64 {
    let peer = Peer { address: Address::from(SocketAddr::from((SERVER, PORT))), asked: None };
    let (mut longest_ns, mut buffer) = (0, [0; 512]);
    for few in ids.chunks(100) {
        let began_ns = clock::now_ns();
        for id in few {
            socket.send(&query(*id, &format!("n{id}")), &peer).unwrap();
        }
        for _ in few.iter().filter(|id| !is_kept(**id)) {
            assert!(socket.wait_readable(5_000_000_000).unwrap(), "a reply did not come within 5 s");
            socket.recv(&mut buffer, &mut Peer::default(), Wait::No).unwrap().unwrap();
            longest_ns = longest_ns.max(clock::now_ns() - began_ns);
        }
    }
    longest_ns.div_ceil(1_000)
}

#[test]
fn residence_is_what_the_server_holds_a_query_and_every_sampled_query_has_its_own() {
    let Some((server, client)) = pair() else { return };
    for (one_in, first) in [(1, 65_000_u16), (4, 0)] {
        let (to, from) = (bound(&server, (SERVER, PORT).into()), bound(&client, (CLIENT, 0).into()));
        let stamped = Stamped { servers: vec![(SERVER, PORT).into()], one_in };
        let watch = server.within(|| ResidenceWatch::begin(DEVICE, &stamped, &[])).unwrap();
        let ids: Vec<u16> = (0..2_000).map(|more| first.wrapping_add(more)).collect();
        let is_kept = |id: u16| id.is_multiple_of(50);
        let longest_us = thread::scope(|scope| {
            scope.spawn(|| serve(&to, ids.len(), is_kept));
            ask(&from, &ids, is_kept)
        });
        let facts = watch.end().unwrap();
        let sample = Sample::one_in(one_in);
        let sampled = ids.iter().filter(|id| sample.takes(**id));
        let (kept, answered): (Vec<u16>, Vec<u16>) = sampled.partition(|id| is_kept(**id));
        assert_eq!((facts.device.as_str(), facts.one_in, facts.dropped), (DEVICE, one_in, 0));
        let (kept, answered) = (kept.len() as u64, answered.len() as u64);
        assert_eq!((facts.queries, facts.replies), (kept + answered, answered), "{facts:?}");
        assert_eq!((facts.pairs, facts.unanswered, facts.unasked), (answered, kept, 0), "{facts:?}");
        assert_eq!((facts.contradiction(), facts.unreadable), (None, 0));
        assert_eq!(Histogram::decode(&facts.histogram).unwrap().len(), answered);
        let (least_us, most_us) = (facts.residence_us.min.unwrap(), facts.residence_us.max.unwrap());
        assert!(least_us >= HELD_NS / 1_000, "{least_us} µs");
        // A histogram keeps three digits.
        assert!(most_us <= longest_us + longest_us / 500, "{most_us} of {longest_us} µs");
    }
}

#[test]
fn a_watch_that_is_dropped_ends_and_one_that_cannot_begin_says_why() {
    let Some((server, _client)) = pair() else { return };
    let stamped = Stamped { servers: vec![(SERVER, PORT).into()], one_in: 1 };
    let watch = server.within(|| ResidenceWatch::begin(DEVICE, &stamped, &[])).unwrap();
    let is_over = Arc::clone(&watch.is_over);
    drop(watch);
    assert_eq!(Arc::strong_count(&is_over), 1, "its thread has ended");
    let error = server.within(|| ResidenceWatch::begin("none0", &stamped, &[])).unwrap_err();
    assert!(error.to_string().contains("`none0`"), "{error}");
}

#[test]
fn at_high_rates_a_part_is_stamped() {
    let one_in = |rate_qps| Stamped::new(&[], rate_qps).one_in;
    assert_eq!([0.0, 1e3, 50e3, 51e3, 200e3, 201e3, 1e9].map(one_in), [1, 1, 1, 2, 4, 8, 4096]);
}

#[test]
fn a_clock_that_was_set_is_farther_from_the_monotonic_one_than_readings_scatter() {
    assert!(!was_set(7_000_000, 8_000_000), "a millisecond");
    assert!(was_set(7_000_000, 8_000_001));
    assert!(was_set(7_000_000, -1_000_000_000));
}
