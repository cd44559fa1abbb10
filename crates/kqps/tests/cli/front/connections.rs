//! Clients by TCP (RFC 7766): pipelining, frames cut anywhere, limits, and clients that misbehave.

use std::collections::BTreeSet;
use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::peer::{Host, answer};
use super::{PATIENT, Running, authority, front, stop};
use crate::auth::Rig;
use crate::auth::connections::{IDLE, ask_cut_and_joined, is_closed, many};
use crate::auth::dns::{A, ask_by, connect, framed, next, query};
use crate::serve::sent::flow;

/// Asserts that `count` queries are answered, in any order.
fn assert_all_answered(stream: &mut impl Read, count: u16) {
    let mut expected: BTreeSet<u16> = (0..count).collect();
    for _ in 0..count {
        let reply = next(stream);
        assert!(expected.remove(&reply.id()) && reply.answers() == 1, "{reply:?}");
    }
}

#[test]
fn queries_are_answered_wherever_they_are_cut_and_joined() {
    let rig = Rig::new();
    let (_authority, ways) = authority(&rig);
    for way in ways {
        let server = front(&[&way], &["--threads", "2"]);
        let mut stream = connect(server.addresses[0]);
        // More than may be outstanding at one time.
        ask_cut_and_joined(&mut stream, 3000, assert_all_answered);
        // The last queries come with the end of the stream. The front answers them before it closes.
        stream.write_all(&[&many(10)[..], &[0, 40, 1]].concat()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_all_answered(&mut stream, 10);
        assert!(is_closed(&mut stream));
        let tcp = stop(server).tcp.unwrap();
        assert_eq!((tcp.connections, tcp.received, tcp.answered), (1, 3513, 3513), "{way}");
        assert_eq!(tcp.ended, [("by-peer".to_owned(), 1)].into());
    }
}

/// A client that has sent its last query still gets its reply and delays no other client: even with a flush time
/// of a second, the front sends a lone query at once.
#[test]
fn a_client_that_has_sent_everything_gets_everything_and_delays_no_other() {
    let host = Host::new();
    let arguments = ["--batch", "64", "--flush", "1s"];
    let server = front(&[&host.url()], &[&PATIENT[..], &arguments].concat());
    let mut back_end = host.peer();
    // Before a query comes that could leave in the same batch.
    back_end.pass();
    let mut client = connect(server.addresses[0]);
    client.write_all(&framed(&query(7, "held.test", A))).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let held = back_end.query();
    let others = flow(server.addresses[0]);
    let begin = Instant::now();
    for id in 0..20 {
        others.send(&query(id, "lone.test", A)).unwrap();
        let lone = back_end.query();
        back_end.say(&answer(&lone));
        assert_eq!(others.recv(&mut [0; 512]).unwrap(), lone.len());
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?} for what would wait 20 s", begin.elapsed());
    back_end.say(&answer(&held));
    assert_eq!(next(&mut client).id(), 7);
    assert!(is_closed(&mut client));
    let report = stop(server);
    assert_eq!((report.answered, report.tcp.unwrap().ended["by-peer"]), (20, 1));
    // The check, and each query by itself.
    assert_eq!(report.back_ends[&host.url()].flushes, 22);
}

/// The CPU time of a process, in ticks of 10 ms (`proc_pid_stat(5)`: the 14th and 15th field).
fn ticks(server: &Running) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    let behind_name = stat.rsplit_once(") ").unwrap().1;
    behind_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_waiting_client_costs_nothing() {
    let host = Host::new();
    let server = front(&[&host.url()], &PATIENT);
    let mut back_end = host.peer();
    let (idle, mut said_all) = (connect(server.addresses[0]), connect(server.addresses[0]));
    said_all.write_all(&framed(&query(7, "held.test", A))).unwrap();
    said_all.shutdown(Shutdown::Write).unwrap();
    let held = back_end.query();
    let (begin, before) = (Instant::now(), ticks(&server));
    std::thread::sleep(Duration::from_millis(800));
    let (elapsed, used) = (begin.elapsed(), ticks(&server) - before);
    assert!(u128::from(used) * 10 < elapsed.as_millis() / 4, "{used} ticks in {elapsed:?}");
    back_end.say(&answer(&held));
    assert_eq!(next(&mut said_all).id(), 7);
    drop(idle);
    stop(server);
}

#[test]
fn what_is_no_message_ends_its_connection_only() {
    let rig = Rig::new();
    let (_authority, ways) = authority(&rig);
    for way in ways {
        let server = front(&[&way], &[]);
        let address = server.addresses[0];
        let mut other = connect(address);
        let mut stream = connect(address);
        // The front answers what came before it (RFC 7766, section 6.2.1.1).
        let no_message = [&framed(&query(6, "www.auth.test", A))[..], &[0, 11], &[0; 11]].concat();
        stream.write_all(&no_message).unwrap();
        assert_eq!(next(&mut stream).id(), 6);
        assert!(is_closed(&mut stream));
        // A response gets no answer, but the query after it does.
        let response = answer(&query(7, "www.auth.test", A));
        other.write_all(&[framed(&response), framed(&query(8, "www.auth.test", A))].concat()).unwrap();
        assert_eq!(next(&mut other).id(), 8);
        drop(other);
        // Half of a length, and nothing more.
        let mut short = connect(address);
        short.write_all(&[0]).unwrap();
        short.shutdown(Shutdown::Write).unwrap();
        assert!(is_closed(&mut short));
        let tcp = stop(server).tcp.unwrap();
        assert_eq!((tcp.connections, tcp.ended["not-dns"]), (3, 1), "{way}");
        assert_eq!(tcp.dropped, [("is-response".to_owned(), 1)].into());
        assert_eq!((tcp.received, tcp.answered), (3, 2));
    }
}

#[test]
fn a_newcomer_takes_the_place_of_who_was_idle_longest() {
    let rig = Rig::new();
    let (_authority, ways) = authority(&rig);
    let server = front(&[&ways[1]], &["--tcp-connections", "20", "--tcp-idle", "1m"]);
    let mut open: Vec<TcpStream> = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(server.addresses[0]);
        assert_eq!(ask_by(&mut stream, &query(1, "www.auth.test", A)).answers(), 1);
        open.push(stream);
    }
    let (closed, kept) = open.split_at_mut(80);
    assert!(closed.iter_mut().all(is_closed));
    for stream in kept {
        assert_eq!(ask_by(stream, &query(2, "www.auth.test", A)).answers(), 1);
    }
    let tcp = stop(server).tcp.unwrap();
    assert_eq!((tcp.connections, tcp.ended["displaced"], tcp.ended["stopped"]), (100, 80, 20));
}

#[test]
fn a_client_has_its_share_and_an_idle_connection_its_time() {
    let host = Host::new();
    let limits = ["--tcp-per-client", "3", "--tcp-idle", IDLE];
    let server = front(&[&host.url()], &[&PATIENT[..], &limits].concat());
    let mut back_end = host.peer();
    let mut waiting = connect(server.addresses[0]);
    waiting.write_all(&framed(&query(9, "held.test", A))).unwrap();
    let held = back_end.query();
    let mut idle: Vec<TcpStream> = (0..2).map(|_| connect(server.addresses[0])).collect();
    // The front accepts them in this order.
    assert!(is_closed(&mut connect(server.addresses[0])));
    // Half a query is no progress.
    idle[0].write_all(&[0, 40, 1]).unwrap();
    assert!(idle.iter_mut().all(is_closed));
    // A client that waits for an answer is not idle.
    back_end.say(&answer(&held));
    assert_eq!(next(&mut waiting).id(), 9);
    assert!(is_closed(&mut waiting));
    let tcp = stop(server).tcp.unwrap();
    assert_eq!((tcp.ended["too-many-of-client"], tcp.ended["idle"]), (1, 3));
}

#[test]
fn an_answer_for_a_client_that_has_gone_goes_to_no_other() {
    let host = Host::new();
    let server = front(&[&host.url()], &PATIENT);
    let mut back_end = host.peer();
    let address = server.addresses[0];
    let gone = connect(address);
    (&gone).write_all(&framed(&query(1, "gone.test", A))).unwrap();
    let held = back_end.query();
    // A reset instead of an end.
    socket2::SockRef::from(&gone).set_linger(Some(Duration::ZERO)).unwrap();
    drop(gone);
    // The next client uses the same ID.
    let mut other = connect(address);
    other.write_all(&framed(&query(1, "other.test", A))).unwrap();
    let asked = back_end.query();
    back_end.say(&answer(&held));
    back_end.say(&answer(&asked));
    assert_eq!(next(&mut other).0, answer(&query(1, "other.test", A)));
    let tcp = stop(server).tcp.unwrap();
    assert_eq!((tcp.received, tcp.answered), (2, 1));
    assert_eq!(tcp.dropped, [("client-gone".to_owned(), 1)].into());
}

/// A worker that had to wait for a larger kernel table of open files would answer no client meanwhile.
#[test]
fn there_is_room_for_all_connections_from_the_start() {
    let host = Host::new();
    let server = front(&[&host.url()], &["--threads", "2", "--tcp-connections", "200"]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
    assert!(size.trim().parse::<u32>().unwrap() >= 400, "{size}");
    stop(server);
}
