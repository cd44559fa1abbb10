//! EDNS in the front's own replies (RFC 6891): one OPT record if the query has one, and none otherwise.

use super::peer::{Datagrams, Host, answer};
use super::{PATIENT, asked, echo, front, models, stop};
use crate::auth::dns::{A, AXFR, TXT, ask, ask_by, connect, query, query_edns};

/// An OPT record with these values of class, TTL and data.
fn opt(payload: [u8; 2], ttl: [u8; 4], data: &[u8]) -> Vec<u8> {
    [&[0, 0, 41][..], &payload, &ttl, &(data.len() as u16).to_be_bytes(), data].concat()
}

/// A query with these records after its question.
fn with(mut query: Vec<u8>, records: &[&[u8]]) -> Vec<u8> {
    query[11] = records.len() as u8;
    query.extend(records.concat());
    query
}

/// The front's own reply to a query with one question: the rcode's lower part, and with `opt` an OPT record
/// with the rcode's upper part and the DO bit.
fn own_reply(asked: &[u8], question_end: usize, rcode: u8, opt: Option<(u8, bool)>) -> Vec<u8> {
    let counts = [0, 1, 0, 0, 0, 0, 0, u8::from(opt.is_some())];
    let head = [&asked[..2], &[0x80 | asked[2] & 0x79, asked[3] & 0x10 | rcode], &counts].concat();
    let opt = opt.map(|(upper, dnssec_ok)| {
        // 1232 bytes, version 0, no flag but DO, no options.
        [0, 0, 41, 0x04, 0xd0, upper, 0, if dnssec_ok { 0x80 } else { 0 }, 0, 0, 0].to_vec()
    });
    [head, asked[12..question_end].to_vec(), opt.unwrap_or_default()].concat()
}

const FORMERR: u8 = 1;
const SERVFAIL: u8 = 2;
const REFUSED: u8 = 5;

/// Queries with and without EDNS, and the front's own replies. A front with back ends would hand on the first
/// of them.
fn cases() -> Vec<(Vec<u8>, Vec<u8>)> {
    let address = || query(0x0102, "wWw.edns.test", A);
    let end = address().len();
    let plain = opt([16, 0], [0; 4], &[]);
    let all = opt([2, 0], [0xff, 0, 0xff, 0xff], &[0xfd, 0xe9, 0, 2, 0, 0xff]);
    let version_1 = opt([16, 0], [0, 1, 0x80, 0], &[1, 2, 3]);
    let other = with(query(0x0102, "x", A), &[])[12..][..3].to_vec();
    let mut flagged = with(address(), &[&plain]);
    (flagged[2], flagged[3]) = (0x01, 0x30);
    let mut transfer = with(query(0x0102, "wWw.edns.test", AXFR), &[&all]);
    transfer[2] = 1;
    let mut cases = vec![
        (with(address(), &[]), SERVFAIL, None),
        (with(address(), &[&plain]), SERVFAIL, Some((0, false))),
        (flagged, SERVFAIL, Some((0, false))),
        (with(address(), &[&all]), SERVFAIL, Some((0, true))),
        (with(address(), &[&version_1]), 0, Some((1, true))),
        (transfer, REFUSED, Some((0, true))),
        (query(0x0102, "wWw.edns.test", AXFR), REFUSED, None),
        (with(address(), &[&plain, &all]), FORMERR, Some((0, false))),
        (with(address(), &[&[&other[..], &plain[1..]].concat()]), FORMERR, Some((0, false))),
        // An option that is longer than the record.
        (with(address(), &[&opt([4, 0], [0; 4], &[0, 10, 0, 9, 1])]), FORMERR, Some((0, false))),
        // The count includes a record that is missing.
        (with(address(), &[&[]]), FORMERR, None),
    ];
    // An OPT record in the answer section, where it must not be.
    let mut misplaced = with(address(), &[&plain]);
    (misplaced[7], misplaced[11]) = (1, 0);
    cases.push((misplaced, FORMERR, Some((0, false))));
    let made = |(asked, rcode, opt): (Vec<u8>, u8, _)| {
        let reply = own_reply(&asked, end, rcode, opt);
        (asked, reply)
    };
    cases.into_iter().map(made).collect()
}

/// Whether only a front without back ends gives a reply of this rcode.
fn could_be_handed_on(reply: &[u8]) -> bool {
    reply[3] & 0x0f == SERVFAIL
}

#[test]
fn a_reply_of_the_fronts_own_has_edns_as_its_query_has() {
    let nowhere = Datagrams::new().url();
    for model in models() {
        let server = front(&[&nowhere], &["--io", model, "--listen", "[::1]:0"]);
        let mut asked_in_all = 0;
        for &address in &server.addresses {
            let mut stream = connect(address);
            for (asked, expected) in cases() {
                assert_eq!(ask(address, &asked).0, expected, "{model}: {asked:x?}");
                assert_eq!(ask_by(&mut stream, &asked).0, expected, "{model} by TCP: {asked:x?}");
                asked_in_all += 1;
            }
        }
        let report = stop(server);
        assert_eq!((report.received, report.answered), (asked_in_all, asked_in_all));
        let rcodes = [("BADVERS", 2), ("FORMERR", 10), ("REFUSED", 4), ("SERVFAIL", 8)];
        let rcodes = rcodes.map(|(rcode, count)| (rcode.to_owned(), count));
        assert_eq!(report.response_rcodes, rcodes.clone().into());
        assert_eq!(report.tcp.unwrap().response_rcodes, rcodes.into());
    }
}

#[test]
fn what_is_refused_for_its_edns_is_refused_though_a_back_end_is_up() {
    let (_echo, way) = echo();
    let server = front(&[&way], &[]);
    let mut stream = connect(server.addresses[0]);
    for (asked, expected) in cases() {
        if !could_be_handed_on(&expected) {
            assert_eq!(ask(server.addresses[0], &asked).0, expected, "{asked:x?}");
            assert_eq!(ask_by(&mut stream, &asked).0, expected, "{asked:x?}");
        }
    }
    // An echo returns the query, and so does a front before it.
    let handed_on = query_edns(1, "www.edns.test", A, 1232);
    assert_eq!(ask(server.addresses[0], &handed_on).0, answer(&handed_on));
    let report = stop(server);
    assert_eq!(asked(&report, &way), 1);
}

#[test]
fn behind_two_questions_an_opt_record_is_seen() {
    let (_echo, way) = echo();
    let server = front(&[&way], &[]);
    let first = query(0x0304, "a.test", A);
    let mut two = with([&first[..], &first[12..]].concat(), &[&opt([16, 0], [0, 0, 0x80, 0], &[])]);
    two[5] = 2;
    let expected = [&[3, 4, 0x80, FORMERR, 0, 0, 0, 0, 0, 0, 0, 1][..], b"\0\0\x29\x04\xd0\0\0\x80\0\0\0"];
    assert_eq!(ask(server.addresses[0], &two).0, expected.concat());
    stop(server);
}

#[test]
fn a_reply_that_is_cut_has_edns_as_its_query_has() {
    let host = Host::new();
    let server = front(&[&host.url()], &PATIENT);
    let mut back_end = host.peer();
    // The client's OPT record, the back end's, and that of the reply, which has the client's size or none.
    let from_back_end = opt([2, 0], [0, 0, 0, 0x7f], &[0, 3, 0, 1, b'x']);
    for (asks, says, expected) in [
        (opt([2, 0], [0, 0, 0x80, 0], &[]), Some(&from_back_end), opt([2, 0], [0, 0, 0x80, 0], &[])),
        (opt([2, 0], [0, 0, 0x80, 0], &[]), None, opt([4, 0xd0], [0, 0, 0x80, 0], &[])),
        (vec![], Some(&from_back_end), vec![]),
        (vec![], None, vec![]),
    ] {
        let records: &[&[u8]] = if asks.is_empty() { &[] } else { &[&asks] };
        let asked = with(query(7, "big.test", TXT), records);
        let question_end = query(7, "big.test", TXT).len();
        let reply = std::thread::scope(|scope| {
            let client = scope.spawn(|| ask(server.addresses[0], &asked));
            let heard = back_end.query();
            let mut reply = answer(&heard[..question_end]);
            // A text of 700 bytes, and the OPT record of the back end.
            (reply[7], reply[11]) = (1, u8::from(says.is_some()));
            reply.extend(b"\xc0\x0c\0\x10\0\x01\0\0\0\0\x02\xbc");
            reply.extend([1; 700]);
            reply.extend(says.into_iter().flatten());
            back_end.say(&reply);
            client.join().unwrap()
        });
        let counts = [0, 1, 0, 0, 0, 0, 0, u8::from(!expected.is_empty())];
        let cut = [&[0, 7, 0x82, 0][..], &counts, &asked[12..question_end], &expected].concat();
        assert_eq!(reply.0, cut, "{asks:x?} {says:x?}");
    }
    stop(server);
}

#[test]
fn an_rcode_is_counted_with_the_bits_in_its_opt_record() {
    let host = Host::new();
    let server = front(&[&host.url()], &PATIENT);
    let mut back_end = host.peer();
    let (asked, mut stream) = (query_edns(9, "cookie.test", A, 1232), connect(server.addresses[0]));
    for by_tcp in [false, true] {
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                if by_tcp { ask_by(&mut stream, &asked) } else { ask(server.addresses[0], &asked) }
            });
            let mut reply = answer(&back_end.query());
            // BADCOOKIE is 23: 7 in the header and 1 in the OPT record.
            let upper = reply.len() - 6;
            (reply[3], reply[upper]) = (7, 1);
            back_end.say(&reply);
            assert_eq!(client.join().unwrap().0[2..], reply[2..]);
        });
    }
    let report = stop(server);
    let rcodes = [("BADCOOKIE".to_owned(), 1)].into();
    assert_eq!((&report.response_rcodes, &report.tcp.unwrap().response_rcodes), (&rcodes, &rcodes));
}
