//! Answers come back to the client as the back end gave them, by every transport on both sides.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

use kqps_kernel::probe;
use kqps_skips::{Capability, skip};

use super::peer::{Host, answer};
use super::{PATIENT, authority, echo, front, models, stop};
use crate::auth::dns::{A, TXT, ask, ask_by, connect, query, query_edns};
use crate::auth::{NOERROR, Rig, ask_in_segments, replies, replies_in_short};
use crate::serve::sent::flow;

const WORKERS: [&[&str]; 3] = [
    &[],
    &["--threads", "2", "--sockets", "reuseport", "--reply", "own"],
    &["--threads", "2", "--batch", "1", "--backend-connections", "3"],
];

#[test]
fn every_way_gives_the_answers_of_the_back_end_itself() {
    let rig = Rig::new();
    let (authority, ways) = authority(&rig);
    let mut direct = replies(authority.addresses[0]);
    // The last is truncated, and a server may leave out as much as it likes of it.
    direct.pop();
    for (model, way) in models().flat_map(|model| ways.iter().map(move |way| (model, way))) {
        for workers in WORKERS {
            println!("{model} {way} {workers:?}");
            let server = front(&[way], &[&["--listen", "[::1]:0", "--io", model], workers].concat());
            for &address in &server.addresses {
                assert_eq!(replies(address)[..direct.len()], direct);
            }
            let report = stop(server);
            assert_eq!((report.received, report.answered), (20, 20));
            let rcodes = [("NOERROR", 16), ("NXDOMAIN", 2), ("REFUSED", 2)];
            let rcodes = rcodes.map(|(rcode, count)| (rcode.to_owned(), count));
            assert_eq!(report.response_rcodes, rcodes.clone().into());
            let tcp = report.tcp.as_ref().unwrap();
            assert_eq!((tcp.connections, tcp.received, tcp.answered), (2, 20, 20));
            assert_eq!(tcp.response_rcodes, rcodes.into());
            assert_eq!(super::asked(&report, way), 40);
        }
    }
}

#[test]
fn a_wildcard_address_answers_from_where_it_was_asked() {
    let rig = Rig::new();
    let (_authority, ways) = authority(&rig);
    for model in models() {
        let server = front(&[&ways[2]], &["--io", model, "--listen", "0.0.0.0:0", "--listen", "[::]:0"]);
        for (ip, address) in ["127.0.0.2", "::1"].into_iter().zip(&server.addresses[1..]) {
            // The flow takes replies only from the address that it asks.
            replies_in_short(SocketAddr::new(ip.parse().unwrap(), address.port()));
        }
        stop(server);
    }
}

#[test]
fn a_segmented_message_of_queries_gets_all_its_replies() {
    if let Err(reason) = probe::probe_one("gso") {
        return skip(Capability::Segmentation, reason);
    }
    let rig = Rig::new();
    let (_authority, ways) = authority(&rig);
    for (model, way) in models().flat_map(|model| ways.iter().map(move |way| (model, way))) {
        let server = front(&[way], &["--io", model]);
        ask_in_segments(server.addresses[0]);
        let report = stop(server);
        assert_eq!((report.received, report.answered), (64, 64), "{model} {way}");
    }
}

#[test]
fn clients_with_the_same_ids_get_each_their_own_answers() {
    let (_echo, by_udp) = echo();
    let rig = Rig::new();
    let (_authority, [_, by_tcp, _]) = authority(&rig);
    for way in [by_udp, by_tcp] {
        let server = front(&[&way], &["--batch", "8"]);
        let flows: Vec<UdpSocket> = (0..50).map(|_| flow(server.addresses[0])).collect();
        let asked = |flow: usize, id: u16| query(id, &format!("f{flow}.n{id}.WiLd.auth.test"), TXT);
        for id in 0..20 {
            flows.iter().enumerate().for_each(|(number, flow)| {
                flow.send(&asked(number, id)).unwrap();
            });
        }
        for (number, flow) in flows.iter().enumerate() {
            let mut expected: BTreeSet<Vec<u8>> =
                (0..20_u16).map(|id| [&id.to_be_bytes()[..], &asked(number, id)[12..]].concat()).collect();
            while !expected.is_empty() {
                let mut buffer = [0; 512];
                let bytes = flow.recv(&mut buffer).unwrap();
                let end = 12 + question_bytes(&buffer[12..bytes]);
                assert!(
                    expected.remove(&[&buffer[..2], &buffer[12..end]].concat()),
                    "{:x?}",
                    &buffer[..bytes]
                );
            }
        }
        let report = stop(server);
        assert_eq!((report.received, report.answered), (1000, 1000));
    }
}

/// The length of the question at the beginning of `bytes`.
fn question_bytes(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| byte == 0).unwrap() + 5
}

#[test]
fn what_is_too_long_for_a_datagram_is_cut_and_whole_by_tcp() {
    let rig = Rig::new();
    let (_authority, ways) = authority(&rig);
    for way in ways {
        let server = front(&[&way], &[]);
        let address = server.addresses[0];
        // 40 texts take more than 1232 bytes.
        for (asked, most) in [
            (query(1, "big.auth.test", TXT), 512),
            (query_edns(2, "big.auth.test", TXT, 100), 512),
            (query_edns(3, "big.auth.test", TXT, 1232), 1232),
        ] {
            let reply = ask(address, &asked);
            assert!(reply.is_truncated() && reply.0.len() <= most, "{way}: {reply:?}");
            assert_eq!((reply.rcode(), reply.0[11]), (NOERROR, asked[11]), "the OPT record is as asked");
            let end = asked.len() - 11 * usize::from(asked[11]);
            assert_eq!(reply.0[12..end], asked[12..end]);
            let whole = ask_by(&mut connect(address), &asked);
            assert_eq!((whole.answers(), whole.is_truncated()), (40, false), "{way}");
        }
        let whole = ask(address, &query_edns(4, "big.auth.test", TXT, 4096));
        assert_eq!((whole.answers(), whole.is_truncated()), (40, false), "{way}");
        assert_eq!(ask(address, &query(5, "www.auth.test", A)).answers(), 1);
        stop(server);
    }
}

#[test]
fn what_no_datagram_holds_is_cut() {
    let host = Host::new();
    let server = front(&[&host.url()], &[&PATIENT[..], &["--listen", "[::1]:0"]].concat());
    let mut back_end = host.peer();
    // The client accepts any size.
    let asked = query_edns(7, "big.test", TXT, 65_535);
    for (&address, most) in server.addresses.iter().zip([65_507, 65_527]) {
        for (bytes, is_whole) in [(most, true), (most + 1, false), (65_535, false)] {
            let reply = std::thread::scope(|scope| {
                let client = scope.spawn(|| ask(address, &asked));
                let mut whole = answer(&back_end.query());
                whole.resize(bytes, 0);
                back_end.say(&whole);
                client.join().unwrap()
            });
            let expected = if is_whole { bytes } else { asked.len() };
            assert_eq!((reply.0.len(), reply.is_truncated()), (expected, !is_whole), "{address} {bytes}");
        }
    }
    let report = stop(server);
    assert_eq!((report.received, report.answered), (6, 6));
}
