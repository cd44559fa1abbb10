//! Equal questions wait for one query, and what is no question is refused.

use std::sync::mpsc;
use std::time::Duration;

use super::upstream::{Upstream, address};
use super::{asks, cache, stop};
use crate::auth::REFUSED;
use crate::auth::dns::{A, AXFR, ask, query};
use crate::serve::sent::flow;

/// Clients that ask the same at one time.
const CLIENTS: u16 = 50;

#[test]
fn equal_questions_wait_for_one_query() {
    for sharing in [&["--threads", "1"][..], &["--threads", "2", "--sockets", "reuseport"]] {
        let (answer, may_answer) = mpsc::channel::<()>();
        let upstream = Upstream::new(move |asked| {
            may_answer.recv().unwrap();
            vec![address(&asked.query, 300, 7)]
        });
        let server = cache(&[&upstream.flag()], sharing);
        let flows: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let flow = flow(server.addresses[0]);
                let name = if id % 2 == 0 { "www.example.test" } else { "WWW.EXAMPLE.TEST" };
                flow.send(&asks(id, name, A)).unwrap();
                flow
            })
            .collect();
        upstream.wait_for(1);
        // The others come in meanwhile. Those that do not are answered from the cache.
        std::thread::sleep(Duration::from_millis(200));
        answer.send(()).unwrap();
        for (flow, id) in flows.iter().zip(0_u16..) {
            let mut buffer = [0; 512];
            let bytes = flow.recv(&mut buffer).unwrap();
            assert_eq!((&buffer[..2], buffer[7]), (&id.to_be_bytes()[..], 1), "{:x?}", &buffer[..bytes]);
            let is_upper = buffer[13] == b'W';
            assert_eq!(is_upper, id % 2 == 1, "each has its own case");
        }
        assert_eq!(upstream.asked(), 1);
        let (report, counts) = stop(server);
        assert_eq!(counts.hits + counts.misses, u64::from(CLIENTS), "{report:?}");
        assert!(counts.coalesced > 0, "{report:?}");
        assert_eq!(counts.misses, 1 + counts.coalesced + counts.overtaken, "{report:?}");
    }
}

#[test]
fn what_is_no_question_for_it_is_refused() {
    let upstream = Upstream::new(|asked| vec![address(&asked.query, 300, 7)]);
    let server = cache(&[&format!("example.test={}", upstream.flag())], &[]);
    let at = server.addresses[0];
    assert_eq!(ask(at, &asks(1, "www.example.test", A)).answers(), 1);
    for query in [query(2, "www.example.test", A), asks(3, "example.test", AXFR), asks(4, "other.test", A)] {
        let reply = ask(at, &query);
        assert_eq!((reply.rcode(), reply.answers()), (REFUSED, 0), "{query:x?}");
    }
    let mut update = asks(5, "www.example.test", A);
    update[2] |= 5 << 3;
    assert_eq!(ask(at, &update).rcode(), 4, "NOTIMP");
    assert_eq!(upstream.asked(), 1);
    let (report, counts) = stop(server);
    assert_eq!((counts.refused, counts.misses), (4, 1), "{report:?}");
}

#[test]
fn no_more_clients_wait_than_may() {
    let (answer, may_answer) = mpsc::channel::<()>();
    let upstream = Upstream::new(move |asked| {
        let _ = may_answer.recv();
        vec![address(&asked.query, 300, 7)]
    });
    let server = cache(&[&upstream.flag()], &["--waiting", "4", "--timeout", "10s"]);
    let flow = flow(server.addresses[0]);
    for id in 0..10 {
        flow.send(&asks(id, "www.example.test", A)).unwrap();
    }
    upstream.wait_for(1);
    std::thread::sleep(Duration::from_millis(200));
    answer.send(()).unwrap();
    let mut buffer = [0; 512];
    flow.recv(&mut buffer).unwrap();
    drop(answer);
    let (report, _) = stop(server);
    assert!(report.dropped["overload-newest"] >= 1, "{report:?}");
    assert_eq!(report.received, 10, "{report:?}");
}
