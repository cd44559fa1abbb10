//! Queries by connections: those that wait do not hold up the others, and every one has its fate.

use std::io::Write as _;
use std::sync::mpsc;

use super::upstream::{Upstream, address, texts, truncated};
use super::{asks, asks_edns, cache, stop};
use crate::auth::dns::{A, TXT, ask, ask_by, connect, framed, next};

#[test]
fn an_answer_that_waits_does_not_hold_up_others() {
    let (answer, may_answer) = mpsc::channel::<()>();
    let slow = Upstream::new(move |asked| {
        may_answer.recv().unwrap();
        vec![address(&asked.query, 300, 8)]
    });
    let fast = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
    let stub = format!("slow.test={}", slow.flag());
    let server = cache(&[&stub, &fast.flag()], &["--timeout", "10s"]);
    let mut stream = connect(server.addresses[0]);
    let both = [framed(&asks(1, "www.slow.test", A)), framed(&asks(2, "www.fast.test", A))].concat();
    stream.write_all(&both).unwrap();
    let reply = next(&mut stream);
    assert_eq!((reply.id(), reply.records()), (2, vec![(A, vec![192, 0, 2, 7])]));
    answer.send(()).unwrap();
    let reply = next(&mut stream);
    assert_eq!((reply.id(), reply.records()), (1, vec![(A, vec![192, 0, 2, 8])]));
    drop(stream);
    let (report, counts) = stop(server);
    let tcp = report.tcp.unwrap();
    assert_eq!((tcp.received, tcp.answered, counts.misses), (2, 2, 2));
}

#[test]
fn many_queries_of_one_connection_wait_at_a_time() {
    const QUERIES: u16 = 1000;
    let upstream = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
    let server = cache(&[&upstream.flag()], &["--timeout", "10s"]);
    let mut stream = connect(server.addresses[0]);
    let mut writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for id in 0..QUERIES {
            writing.write_all(&framed(&asks(id, &format!("host-{id}.test"), A))).unwrap();
        }
    });
    let mut ids: Vec<u16> = (0..QUERIES)
        .map(|_| {
            let reply = next(&mut stream);
            assert_eq!(reply.answers(), 1);
            reply.id()
        })
        .collect();
    writer.join().unwrap();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..QUERIES));
    // They are in the cache of all now.
    assert_eq!(ask(server.addresses[0], &asks(1, "host-999.test", A)).answers(), 1);
    assert_eq!(upstream.asked(), usize::from(QUERIES));
    stop(server);
}

#[test]
fn a_client_that_reads_nothing_gets_no_more_than_fits() {
    // With one more, as many as a connection may have under way.
    const QUERIES: u16 = 255;
    const TEXTS: u8 = 250;
    let (answer, may_answer) = mpsc::channel::<()>();
    let upstream = Upstream::new(move |asked| {
        if asked.name == "last.test" {
            return vec![address(&asked.query, 300, 7)];
        }
        if !asked.by_tcp {
            return vec![truncated(&asked.query)];
        }
        may_answer.recv().unwrap();
        vec![texts(&asked.query, TEXTS)]
    });
    let server = cache(&[&upstream.flag()], &["--timeout", "10s"]);
    let mut stream = connect(server.addresses[0]);
    let mut all: Vec<u8> = (0..QUERIES).flat_map(|id| framed(&asks(id, "long.test", TXT))).collect();
    all.extend(framed(&asks(QUERIES, "last.test", A)));
    stream.write_all(&all).unwrap();
    // They wait for one answer of 28 KB, which would be 7 MB on their connection at once. The server has read all of them
    // when it asks the last question, after two for the others.
    upstream.wait_for(3);
    answer.send(()).unwrap();
    // A later query shows that all of them were answered.
    assert_eq!(
        ask_by(&mut connect(server.addresses[0]), &asks(1, "long.test", TXT)).answers(),
        u16::from(TEXTS)
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (report, counts) = stop(server);
    assert!(report.tcp.as_ref().unwrap().dropped["client-slow"] > 0, "{report:?}");
    assert!(counts.kept == 2 && counts.coalesced >= u64::from(QUERIES) - 1, "{report:?}");
    drop(stream);
}

#[test]
fn what_a_client_sends_beside_its_question_is_not_kept() {
    let (answer, may_answer) = mpsc::channel::<()>();
    let upstream = Upstream::new(move |asked| {
        may_answer.recv().unwrap();
        vec![address(&asked.query, 300, 7)]
    });
    let server = cache(&[&upstream.flag()], &["--timeout", "10s"]);
    // An option of 60,000 bytes, which the resolver has no use for.
    let mut long = asks_edns(1, "www.example.test", A, 1232);
    let end = long.len();
    long[end - 2..].copy_from_slice(&60_004_u16.to_be_bytes());
    long.extend([0, 65, 0xea, 0x60]);
    long.resize(end + 60_004, 7);
    let mut stream = connect(server.addresses[0]);
    stream.write_all(&framed(&long)).unwrap();
    upstream.wait_for(1);
    answer.send(()).unwrap();
    let reply = next(&mut stream);
    assert_eq!((reply.id(), reply.answers()), (1, 1));
    assert!(reply.0.len() < 100 && reply.0[11] == 1, "its EDNS has no options");
    drop(stream);
    stop(server);
}

#[test]
fn a_client_that_leaves_before_the_answer_is_counted() {
    let (answer, may_answer) = mpsc::channel::<()>();
    let upstream = Upstream::new(move |asked| {
        may_answer.recv().unwrap();
        vec![address(&asked.query, 300, 7)]
    });
    let server = cache(&[&upstream.flag()], &["--timeout", "10s", "--tcp-idle", "100ms"]);
    let mut stream = connect(server.addresses[0]);
    stream.write_all(&framed(&asks(1, "www.example.test", A))).unwrap();
    upstream.wait_for(1);
    // The connection ends since it makes no progress for so long. The server counts its query before that.
    assert_eq!(std::io::Read::read(&mut stream, &mut [0; 2]).unwrap(), 0);
    answer.send(()).unwrap();
    assert_eq!(ask_by(&mut connect(server.addresses[0]), &asks(2, "www.example.test", A)).answers(), 1);
    let (report, _) = stop(server);
    assert_eq!(report.tcp.unwrap().dropped["client-gone"], 1);
}
