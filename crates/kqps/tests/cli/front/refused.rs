//! Queries that go to no back end: each gets no answer or the front's own, and is counted by its cause.

use super::{asked, echo, front, models, stop};
use crate::auth::REFUSED;
use crate::auth::dns::{A, AXFR, Reply, ask, ask_by, connect, framed, next, query};
use crate::serve::sent::flow;
use std::io::Write as _;

const FORMERR: u8 = 1;
const IXFR: u16 = 251;

/// Queries that the front answers itself, with their rcodes.
fn answered_here() -> [(Vec<u8>, u8); 4] {
    let mut two = query(11, "a.test", A);
    two[5] = 2;
    let cut = query(12, "a.test", A)[..18].to_vec();
    [(two, FORMERR), (cut, FORMERR), (query(13, "test", AXFR), REFUSED), (query(14, "test", IXFR), REFUSED)]
}

fn assert_made_here(reply: &Reply, query: &[u8], rcode: u8) {
    assert_eq!((reply.id(), reply.rcode(), reply.answers()), (u16::from(query[1]), rcode, 0));
    if rcode == REFUSED {
        assert_eq!(reply.0[12..], query[12..], "the question is whole and comes back");
    }
}

#[test]
fn no_back_end_hears_what_is_refused() {
    let (_echo, way) = echo();
    for model in models() {
        let server = front(&[&way], &["--io", model]);
        let flow = flow(server.addresses[0]);
        let mut response = query(1, "a.test", A);
        response[2] |= 0x80;
        for bytes in [&[][..], &[0; 11], &response, &[0; 4097]] {
            flow.send(bytes).unwrap();
        }
        for (query, rcode) in answered_here() {
            assert_made_here(&ask(server.addresses[0], &query), &query, rcode);
        }
        assert_eq!(ask(server.addresses[0], &query(2, "a.test", A)).rcode(), 0);
        let report = stop(server);
        let causes = [("is-response", 1), ("query-too-long", 1), ("query-too-short", 2)];
        assert_eq!(report.dropped, causes.map(|(cause, count)| (cause.to_owned(), count)).into());
        assert_eq!((report.received, report.answered), (9, 5), "{model}");
        let rcodes = [("FORMERR", 2), ("NOERROR", 1), ("REFUSED", 2)];
        assert_eq!(report.response_rcodes, rcodes.map(|(rcode, count)| (rcode.to_owned(), count)).into());
        assert_eq!(asked(&report, &way), 1);
    }
}

#[test]
fn the_same_is_refused_by_a_connection() {
    let rig = crate::auth::Rig::new();
    let (_authority, [_, way, _]) = super::authority(&rig);
    let server = front(&[&way], &[]);
    let mut stream = connect(server.addresses[0]);
    for (query, rcode) in answered_here() {
        assert_made_here(&ask_by(&mut stream, &query), &query, rcode);
    }
    // A frame that is too long for a query is dropped. The front answers the query after it.
    stream.write_all(&[framed(&[0; 4097]), framed(&query(2, "www.auth.test", A))].concat()).unwrap();
    assert_eq!(next(&mut stream).answers(), 1);
    let report = stop(server);
    assert_eq!(asked(&report, &way), 1);
    let tcp = report.tcp.unwrap();
    assert_eq!((tcp.received, tcp.answered), (6, 5));
    assert_eq!(tcp.dropped, [("query-too-long".to_owned(), 1)].into());
}
