//! Changes to the messages: parts that are removed, EDNS that is added, and messages that are left out.

use kqps_dataset::Check;
use kqps_message::edns;

use super::bench::{Bench, START_NS, capture, end, facts, labels, query, response};

const COOKIE: &[u8] = b"\x00\x0a\x00\x08abcdefgh";
const SUBNET: &[u8] = b"\x00\x08\x00\x07\x00\x01\x18\x00\xc0\x00\x02";
const TSIG: &[u8] = b"\x03key\0\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x05stale";

/// An OPT record with these options.
fn opt(options: &[u8]) -> Vec<u8> {
    [&b"\0\x00\x29\x04\xd0\x00\x00\x00\x00"[..], &(options.len() as u16).to_be_bytes(), options].concat()
}

/// A query with additional records.
fn with(label: &str, additionals: &[&[u8]]) -> Vec<u8> {
    let mut message = [query(0, label), additionals.concat()].concat();
    message[11] = additionals.len() as u8;
    message
}

/// A capture of queries over UDP, with a response to each with these flags, if there are any.
fn asked(queries: &[Vec<u8>], flags: Option<[u8; 2]>) -> Vec<u8> {
    let (client, server) = (end("192.0.2.1:1000"), end("198.51.100.1:53"));
    capture(|writer| {
        for (at_ns, query) in (START_NS..).zip(queries) {
            writer.udp(at_ns, client, server, query)?;
            if let Some(flags) = flags {
                writer.udp(at_ns, server, client, &response(query, flags, 0))?;
            }
        }
        Ok(())
    })
}

#[test]
fn signatures_and_cookies_are_removed_and_counted() {
    let (cookie, both, subnet) = (opt(COOKIE), opt(&[COOKIE, SUBNET].concat()), opt(SUBNET));
    let queries = [
        with("plain", &[]),
        with("signed", &[TSIG]),
        with("cookie", &[&cookie]),
        with("both", &[&both, TSIG]),
        with("subnet", &[&subnet]),
    ];
    let dataset = Bench::new().open(&asked(&queries, None)).expect("a capture");
    let messages: Vec<&[u8]> = dataset.iter().map(|query| query.message).collect();
    let expected = [
        with("plain", &[]),
        with("signed", &[]),
        with("cookie", &[&opt(b"")]),
        with("both", &[&subnet]),
        with("subnet", &[&subnet]),
    ];
    assert_eq!(messages, expected);
    assert_eq!((facts(&dataset).signatures, facts(&dataset).cookies), (2, 2));
}

#[test]
fn what_names_a_client_is_shortened_or_removed_and_counted() {
    let long = opt(b"\x00\x08\x00\x08\x00\x01\x20\x00\xc0\x00\x02\x07");
    let mac = opt(b"\xfd\xe9\x00\x06\x02\x00\x00\x00\x00\x01");
    let queries = [with("long", &[&long]), with("mac", &[&mac]), with("short", &[&opt(SUBNET)])];
    let dataset = Bench::new().open(&asked(&queries, None)).expect("a capture");
    let messages: Vec<&[u8]> = dataset.iter().map(|query| query.message).collect();
    let expected = [with("long", &[&opt(SUBNET)]), with("mac", &[&opt(b"")]), with("short", &[&opt(SUBNET)])];
    assert_eq!(messages, expected);
    assert_eq!((facts(&dataset).subnets, facts(&dataset).identities, facts(&dataset).cookies), (1, 1, 0));
}

#[test]
fn edns_is_added_to_captured_queries_as_to_others() {
    let queries = [with("without", &[]), with("signed", &[TSIG]), with("with", &[&opt(SUBNET)])];
    let flags = |bench: &Bench| {
        let dataset = bench.open(&asked(&queries, None)).expect("a capture");
        let flags = |message: &[u8]| {
            let found = edns::find(message).expect("well formed");
            found.map(|opt| (opt.ttl_s & edns::DO != 0, opt.data.to_vec()))
        };
        dataset.iter().map(|query| flags(query.message)).collect::<Vec<_>>()
    };
    let (without, subnet) = (vec![], SUBNET.to_vec());
    assert_eq!(flags(&Bench::new()), [None, None, Some((false, subnet.clone()))]);
    let edns = Bench::with(|options| options.edns = true);
    let expected = [without.clone(), without.clone(), subnet.clone()];
    assert_eq!(flags(&edns), expected.clone().map(|data| Some((false, data))));
    let dnssec = Bench::with(|options| options.dnssec = true);
    assert_eq!(flags(&dnssec), expected.map(|data| Some((true, data))));
}

#[test]
fn a_query_that_cannot_be_read_is_left_out_and_counted() {
    let mut two_questions = query(0, "short");
    two_questions[5] = 2;
    let mut counts_a_record = query(0, "counts");
    counts_a_record[11] = 1;
    let queries = [query(0, "a"), two_questions, counts_a_record, query(0, "b")];
    let traffic = asked(&queries, None);
    let dataset = Bench::new().open(&traffic).expect("a capture");
    assert_eq!(labels(&dataset), ["a", "counts", "b"], "what can be sent as it is, is");
    let counts = facts(&dataset);
    assert_eq!((counts.queries, counts.skipped.get("bad-message"), dataset.skipped()), (3, Some(&1), 0));
    let edns = Bench::with(|options| options.edns = true).open(&traffic).expect("a capture");
    assert_eq!((labels(&edns), edns.skipped()), (vec!["a".to_owned(), "b".to_owned()], 1));
    assert_eq!(facts(&edns).queries, 3);
}

#[test]
fn a_response_to_what_was_removed_says_nothing() {
    let queries = [with("signed", &[TSIG]), with("plain", &[])];
    let dataset = Bench::new().open(&asked(&queries, Some([0x80, 9]))).expect("a capture");
    let dataset = dataset.checked(Check::Answers);
    let rcodes: Vec<Option<u16>> = dataset.iter().map(|query| query.expected_rcode).collect();
    assert_eq!(rcodes, [None, Some(9)], "NOTAUTH");
    assert_eq!(facts(&dataset).answered, 2);
}
