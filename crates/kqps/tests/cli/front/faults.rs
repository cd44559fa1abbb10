//! Back ends that fail: their queries go to another one, and if none is left, no client waits in vain.

use std::net::UdpSocket;
use std::time::Instant;

use kqps_kernel::process::{Signal, signal};

use super::peer::{Datagrams, Host, answer};
use super::{PATIENT, Running, asked, authority, echo, front, stop};
use crate::auth::dns::{A, ask, ask_by, connect, query};
use crate::auth::{Rig, SERVFAIL};
use crate::serve::PATIENCE;
use crate::serve::sent::flow;

/// Sends `count` queries by one flow, in turn for two back ends.
fn send(server: &Running, count: u16) -> UdpSocket {
    let flow = flow(server.addresses[0]);
    (0..count).for_each(|id| {
        flow.send(&query(id, &format!("n{id}.wild.auth.test"), A)).unwrap();
    });
    flow
}

/// Receives `count` replies, all of which must have this rcode.
fn take(flow: &UdpSocket, count: u16, rcode: u8) {
    for _ in 0..count {
        let mut buffer = [0; 512];
        flow.recv(&mut buffer).unwrap();
        assert_eq!(buffer[3] & 0x0f, rcode);
    }
}

/// A fault of a back end, instead of answers to its queries.
type Fault = fn(&mut super::peer::Peer);

#[test]
fn what_was_under_way_at_a_connection_that_ends_is_answered_by_another() {
    use std::io::Write as _;
    let (_echo, url) = echo();
    let faults: [(Fault, u64); 4] = [
        // Between two messages.
        (|_| {}, 0),
        // In the middle of a message.
        (|peer| peer.stream.write_all(&[0, 40, 1, 2, 3]).unwrap(), 0),
        // A message without a whole header is none.
        (|peer| peer.stream.write_all(&[0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap(), 1),
        (|peer| socket2::SockRef::from(&peer.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap(), 0),
    ];
    for (fault, garbled) in faults {
        let host = Host::new();
        let (first, second) = (format!("host={}", host.url()), format!("echo={url}"));
        let server = front(&[&first, &second], &[&PATIENT[..], &["--policy", "round-robin"]].concat());
        let mut back_end = host.peer();
        let flow = send(&server, 20);
        (0..10).for_each(|_| drop(back_end.query()));
        fault(&mut back_end);
        drop((back_end, host));
        take(&flow, 20, 0);
        let report = stop(server);
        assert_eq!((report.received, report.answered), (20, 20));
        let (host, echo) = (&report.back_ends["host"], &report.back_ends["echo"]);
        // On a busy host a check may have been outstanding too.
        let checks = host.checks - host.answered;
        assert_eq!((host.cut_off - checks, host.garbled, echo.second_tries), (10, garbled, 10), "{host:?}");
        assert_eq!(asked(&report, "echo"), 20);
    }
}

#[test]
fn what_was_under_way_goes_to_another_though_its_own_back_end_has_a_connection_left() {
    let (_echo, url) = echo();
    let host = Host::new();
    let (first, second) = (format!("host={}", host.url()), format!("echo={url}"));
    let by_turns = ["--policy", "round-robin", "--backend-connections", "2", "--batch", "1"];
    let server = front(&[&first, &second], &[&PATIENT[..], &by_turns].concat());
    let (mut ends, mut stays) = (host.peer(), host.peer());
    let flow = send(&server, 20);
    (0..5).for_each(|_| drop(ends.query()));
    drop(ends);
    for _ in 0..5 {
        let query = stays.query();
        stays.say(&answer(&query));
    }
    take(&flow, 20, 0);
    let report = stop(server);
    let (host, echo) = (&report.back_ends["host"], &report.back_ends["echo"]);
    assert_eq!((host.second_tries, echo.second_tries), (0, 5), "{report:?}");
    assert_eq!(asked(&report, "echo"), 15);
}

#[test]
fn a_process_that_stands_still_is_found_out_and_used_again() {
    let rig = Rig::new();
    for way in 0..3 {
        let ((frozen, ways), (_echo, url)) = (authority(&rig), echo());
        let (first, second) = (format!("frozen={}", ways[way]), format!("echo={url}"));
        let health = ["--policy", "round-robin", "--check-interval", "50ms", "--silence", "200ms"];
        let server = front(&[&first, &second], &[&health[..], &["--timeout", "20s"]].concat());
        freeze(frozen.child.id());
        let flow = send(&server, 20);
        // Long before any of them times out.
        let begin = Instant::now();
        for _ in 0..20 {
            flow.recv(&mut [0; 512]).unwrap();
        }
        assert!(begin.elapsed().as_secs() < 8, "{:?}", begin.elapsed());
        signal(frozen.child.id(), Signal::Continue).unwrap();
        // Only the zone's server refuses names outside of its zone; the echo answers them.
        wait_for(&server, crate::auth::REFUSED);
        let report = stop(server);
        assert!(report.back_ends["frozen"].downs >= 1, "{report:?}");
        assert_eq!(report.back_ends["echo"].downs, 0);
        frozen.stop(Signal::Terminate);
    }
}

/// Stops a process, and waits until each of its threads has stopped: they stop one after the other.
fn freeze(pid: u32) {
    signal(pid, Signal::Stop).unwrap();
    let stands_still = |tid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap();
        // The state is behind the name, which may have spaces (proc(5)).
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    let begin = Instant::now();
    while !kqps_host::threads_of(pid).iter().all(stands_still) {
        assert!(begin.elapsed() < PATIENCE, "it goes on");
    }
}

/// Asks until an answer has this rcode.
fn wait_for(server: &Running, rcode: u8) {
    let begin = Instant::now();
    while ask(server.addresses[0], &query(1, "www.other.test", A)).rcode() != rcode {
        assert!(begin.elapsed() < PATIENCE, "rcode {rcode} never comes");
    }
}

#[test]
fn without_a_back_end_no_client_waits_and_one_that_comes_back_is_used() {
    let rig = Rig::new();
    for way in 0..3 {
        let (gone, ways) = authority(&rig);
        let address = gone.addresses[0].to_string();
        gone.stop(Signal::Terminate);
        let server = front(&[&ways[way]], &["--check-interval", "50ms", "--timeout", "20s"]);
        let begin = Instant::now();
        let mut stream = connect(server.addresses[0]);
        for id in 0..50 {
            let asked = query(id, "wWw.auth.test", A);
            for reply in [ask(server.addresses[0], &asked), ask_by(&mut stream, &asked)] {
                assert_eq!((reply.rcode(), &reply.0[12..]), (SERVFAIL, &asked[12..]));
            }
        }
        assert!(begin.elapsed().as_secs() < 8, "{:?}", begin.elapsed());
        let path = rig.folder.path().join("batches");
        let again = rig.start(&["--listen", &address, "--unix", path.to_str().unwrap()]);
        wait_for(&server, crate::auth::REFUSED);
        while ask_by(&mut stream, &query(1, "www.auth.test", A)).answers() != 1 {
            assert!(begin.elapsed() < PATIENCE);
        }
        let report = stop(server);
        assert_eq!(report.back_ends[&ways[way]].up, 1);
        again.stop(Signal::Terminate);
    }
}

#[test]
fn only_the_reply_to_its_query_is_believed() {
    let back_end = Datagrams::new();
    let server = front(&[&back_end.url()], &PATIENT);
    back_end.pass();
    let flow = flow(server.addresses[0]);
    let asked = query(7, "a.test", A);
    flow.send(&asked).unwrap();
    let (query, from) = back_end.query();
    let good = answer(&query);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut reply = good.clone();
        change(&mut reply);
        reply
    };
    let wrong = [
        // An ID that is not outstanding.
        with(&|reply| reply[0] ^= 1),
        // Another name, another type, no response, no question, another opcode, cut in the question.
        with(&|reply| reply[13] = b'b'),
        with(&|reply| reply[good.len() - 3] = 2),
        query.clone(),
        with(&|reply| reply[5] = 0),
        with(&|reply| reply[2] |= 0x20),
        good[..20].to_vec(),
        // Too short for an ID, and empty.
        vec![query[0]],
        vec![],
    ];
    for reply in &wrong {
        back_end.say(reply, from);
    }
    // From another address than the queries went to: the kernel drops it.
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&good, from).unwrap();
    let mut right = good.clone();
    right[3] = 3;
    back_end.say(&right, from);
    // A second reply to the same query.
    back_end.say(&good, from);
    let mut buffer = [0; 512];
    let bytes = flow.recv(&mut buffer).unwrap();
    assert_eq!((&buffer[..2], &buffer[2..bytes]), (&asked[..2], &right[2..]));
    // This query comes after the duplicate reply.
    flow.send(&asked).unwrap();
    let (query, from) = back_end.query();
    back_end.say(&answer(&query), from);
    flow.recv(&mut buffer).unwrap();
    let report = stop(server);
    let counts = &report.back_ends[&back_end.url()];
    assert_eq!((counts.mismatched, counts.garbled), (6, 2), "{counts:?}");
    assert_eq!((counts.unsolicited, report.answered), (2, 2));
}

#[test]
fn a_query_is_tried_twice_and_no_more() {
    let (one, two) = (Datagrams::new(), Datagrams::new());
    let health = ["--silence", "1m", "--check-interval", "1m", "--timeout", "400ms"];
    let server = front(&[&one.url(), &two.url()], &health);
    one.pass();
    two.pass();
    assert_eq!(ask(server.addresses[0], &query(1, "a.test", A)).rcode(), SERVFAIL);
    assert_eq!(one.query().0[2..], two.query().0[2..]);
    let report = stop(server);
    for (back_end, second_tries) in [(one, 0), (two, 1)] {
        let counts = &report.back_ends[&back_end.url()];
        assert_eq!((counts.sent, counts.timed_out, counts.second_tries), (2, 1, second_tries));
    }
}
