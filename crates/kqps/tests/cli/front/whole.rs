//! A client by TCP gets a whole answer or SERVFAIL. It has no other way to ask for the rest, and may take a
//! truncated answer for an empty one.

use std::net::SocketAddr;
use std::time::Duration;

use super::peer::Datagrams;
use super::{PATIENT, authority, front, stop};
use crate::auth::dns::{A, TXT, ask, ask_by, connect, query, query_edns};
use crate::auth::{Rig, SERVFAIL};
use crate::serve::running::Running;
use crate::serve::sent::flow;

/// An authoritative server that a front can reach by datagrams only, and its URL.
fn by_datagrams(rig: &Rig, more: &[&str]) -> (Running, String) {
    let server = rig.start(&[&["--listen", "127.0.0.1:0", "--no-tcp"], more].concat());
    let url = format!("udp://{}", server.addresses[0]);
    (server, url)
}

#[test]
fn what_the_only_back_end_cuts_is_servfail_by_tcp() {
    let rig = Rig::new();
    let (_authority, url) = by_datagrams(&rig, &[]);
    let server = front(&[&url], &[]);
    let mut stream = connect(server.addresses[0]);
    let asked = query_edns(1, "big.auth.test", TXT, 1232);
    let by_udp = ask(server.addresses[0], &asked);
    assert!(by_udp.is_truncated() && by_udp.rcode() == 0, "{by_udp:?}");
    let by_tcp = ask_by(&mut stream, &asked);
    assert_eq!((by_tcp.rcode(), by_tcp.is_truncated(), by_tcp.answers()), (SERVFAIL, false, 0));
    assert_eq!(by_tcp.0[12..], query_edns(1, "big.auth.test", TXT, 1232)[12..], "with an OPT record");
    // Whole answers reach TCP clients although no connection leads to the back end.
    assert_eq!(ask_by(&mut stream, &query(2, "www.auth.test", A)).answers(), 1);
    let report = stop(server);
    let counts = &report.back_ends[&url];
    assert_eq!((counts.cut_short, counts.second_tries, counts.downs), (1, 0, 0), "{counts:?}");
}

#[test]
fn what_one_back_end_cuts_another_gives_whole() {
    let rig = Rig::new();
    let (_whole, ways) = authority(&rig);
    let (_cuts, url) = by_datagrams(&rig, &[]);
    let (_large, large) = by_datagrams(&rig, &["--payload", "4096"]);
    // By a connection beside datagrams, by connections alone, or by datagrams that are long enough.
    for (other, payload) in [(&ways[0], 1232), (&ways[1], 1232), (&ways[2], 512), (&large, 4096)] {
        let (first, second) = (format!("cuts={url}"), format!("other={other}"));
        let server = front(&[&first, &second], &["--policy", "round-robin"]);
        let mut stream = connect(server.addresses[0]);
        for id in 0..20 {
            let reply = ask_by(&mut stream, &query_edns(id, "big.auth.test", TXT, payload));
            assert_eq!((reply.id(), reply.answers(), reply.is_truncated()), (id, 40, false), "{other}");
        }
        let report = stop(server);
        let (cuts, other) = (&report.back_ends["cuts"], &report.back_ends["other"]);
        assert!(cuts.cut_short >= 10 && other.second_tries == cuts.cut_short, "{report:?}");
        assert_eq!(report.tcp.unwrap().response_rcodes, [("NOERROR".to_owned(), 20)].into());
    }
}

#[test]
fn of_those_that_have_no_connection_each_is_asked_once() {
    let rig = Rig::new();
    let servers = [by_datagrams(&rig, &[]), by_datagrams(&rig, &[])];
    let urls = servers.each_ref().map(|(_, url)| &**url);
    let server = front(&urls, &["--retry-servfail"]);
    let mut stream = connect(server.addresses[0]);
    for id in 0..10 {
        assert_eq!(ask_by(&mut stream, &query(id, "big.auth.test", TXT)).rcode(), SERVFAIL);
    }
    let report = stop(server);
    assert_eq!(urls.map(|url| super::asked(&report, url)), [10, 10]);
    assert_eq!(urls.map(|url| report.back_ends[url].cut_short), [10, 10]);
}

#[test]
fn one_without_connections_is_passed_over_for_one_that_has_some() {
    let rig = Rig::new();
    let (_whole, [by_udp, ..]) = authority(&rig);
    let small: Vec<(Running, String)> = (0..3).map(|_| by_datagrams(&rig, &[])).collect();
    let mut urls: Vec<&str> = small.iter().map(|(_, url)| &**url).collect();
    urls.push(&by_udp);
    let server = front(&urls, &["--policy", "random"]);
    let mut stream = connect(server.addresses[0]);
    for id in 0..40 {
        assert_eq!(ask_by(&mut stream, &query(id, "big.auth.test", TXT)).answers(), 40);
    }
    stop(server);
}

/// Asks until a back end is up and answers. Earlier queries get no answer, and nothing is outstanding
/// afterwards.
fn until_answered(front: SocketAddr) {
    let flow = flow(front);
    flow.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    for id in 100_u16.. {
        flow.send(&query(id, "www.auth.test", A)).unwrap();
        let mut reply = [0; 512];
        while flow.recv(&mut reply).is_ok() {
            if reply[..2] == id.to_be_bytes() {
                return;
            }
        }
    }
}

#[test]
fn where_the_other_one_is_full_the_client_gets_servfail_and_not_silence() {
    let rig = Rig::new();
    let (_authority, cuts) = by_datagrams(&rig, &[]);
    let silent = Datagrams::new();
    let limits = ["--backend-outstanding", "1", "--policy", "round-robin"];
    let server = front(&[&cuts, &silent.url()], &[&PATIENT[..], &limits].concat());
    until_answered(server.addresses[0]);
    silent.pass();
    let flow = flow(server.addresses[0]);
    for id in 0..2 {
        flow.send(&query(id, "www.auth.test", A)).unwrap();
    }
    // A query of the two has filled the silent back end, and the other is answered. Until then the other back end
    // is full as well.
    silent.query();
    flow.recv(&mut [0; 512]).unwrap();
    let reply = ask_by(&mut connect(server.addresses[0]), &query_edns(2, "big.auth.test", TXT, 1232));
    assert_eq!((reply.rcode(), reply.is_truncated(), reply.answers()), (SERVFAIL, false, 0));
    let report = stop(server);
    assert_eq!(report.back_ends[&cuts].cut_short, 1, "{report:?}");
}
