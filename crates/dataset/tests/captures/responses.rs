//! The right answers, as far as responses show them.

use kqps_dataset::{Check, Dataset, Digest, Expected};

use super::bench::{
    Bench, MS, SECOND, START_NS, capture, end, facts, labels, packets, positions, query, response,
};

const CLIENT: &str = "192.0.2.1:1000";
const SERVER: &str = "198.51.100.1:53";
const NOERROR: [u8; 2] = [0x84, 0];
const NXDOMAIN: [u8; 2] = [0x84, 3];

/// A capture of messages over UDP: the time of each from the start, whether it is a response, and its bytes.
fn exchanged(messages: &[(u64, bool, Vec<u8>)]) -> Vec<u8> {
    let (client, server) = (end(CLIENT), end(SERVER));
    capture(|writer| {
        messages.iter().try_for_each(|(at_ns, is_response, message)| {
            let (from, to) = if *is_response { (server, client) } else { (client, server) };
            writer.udp(START_NS + at_ns, from, to, message)
        })
    })
}

/// The rcode and the digest that each query expects.
fn expected(dataset: Dataset) -> Vec<(Option<u16>, Option<Digest>)> {
    let dataset = dataset.checked(Check::Answers);
    dataset.iter().map(|query| (query.expected_rcode, query.expected_answer)).collect()
}

fn digest(response: &[u8], rcode: u16) -> Option<Digest> {
    Digest::of_reply(response, rcode, &mut Vec::new())
}

#[test]
fn responses_become_expectations_that_are_checked_when_asked_for() {
    let (a, b, c) = (query(1, "a"), query(2, "b"), query(3, "c"));
    let (answer, denial) = (response(&a, NOERROR, 2), response(&b, NXDOMAIN, 0));
    let bench = Bench::new();
    let traffic = exchanged(&[
        (0, false, a),
        (1, false, b),
        (2, false, c),
        // In another order than the queries.
        (3, true, denial.clone()),
        (4, true, answer.clone()),
    ]);
    let dataset = bench.open(&traffic).expect("a capture");
    assert_eq!((dataset.check(), dataset.answers()), (Check::Off, 2));
    assert!(dataset.iter().all(|query| (query.expected_rcode, query.expected_answer) == (None, None)));
    let known: Vec<Expected> =
        positions(&dataset).into_iter().map(|position| dataset.expected(position)).collect();
    assert_eq!(known, [Expected::Rcode(0), Expected::Rcode(3), Expected::Unknown]);
    assert_eq!((facts(&dataset).queries, facts(&dataset).responses, facts(&dataset).answered), (3, 2, 2));
    let by_rcode = bench.open(&traffic).expect("a capture").checked(Check::Rcode);
    assert!(by_rcode.iter().all(|query| query.expected_answer.is_none()));
    assert_eq!(
        expected(dataset),
        [(Some(0), digest(&answer, 0)), (Some(3), digest(&denial, 3)), (None, None)]
    );
}

#[test]
fn a_response_matches_by_ends_id_and_question() {
    let asked = query(1, "a");
    let upper = response(&query(1, "A"), NOERROR, 1);
    let matched = Bench::new().open(&exchanged(&[(0, false, asked.clone()), (1, true, upper)]));
    assert_eq!(facts(&matched.expect("a capture")).answered, 1, "case does not matter");
    for other in [query(2, "a"), query(1, "b")] {
        let traffic = exchanged(&[(0, false, asked.clone()), (1, true, response(&other, NOERROR, 1))]);
        let dataset = Bench::new().open(&traffic).expect("a capture");
        assert_eq!((facts(&dataset).responses, facts(&dataset).answered), (1, 0));
        assert_eq!(expected(dataset), [(None, None)]);
    }
    let elsewhere = capture(|writer| {
        writer.udp(START_NS, end(CLIENT), end(SERVER), &asked)?;
        writer.udp(START_NS + 1, end(SERVER), end("192.0.2.1:1001"), &response(&asked, NOERROR, 1))
    });
    assert_eq!(facts(&Bench::new().open(&elsewhere).expect("a capture")).answered, 0);
}

#[test]
fn a_query_that_was_sent_again_has_a_response_of_its_own() {
    let asked = query(1, "a");
    let (denial, answer) = (response(&asked, NXDOMAIN, 0), response(&asked, NOERROR, 1));
    let traffic = exchanged(&[
        (0, false, asked.clone()),
        (MS, false, asked.clone()),
        (2 * MS, true, answer.clone()),
        (3 * MS, false, asked.clone()),
        (4 * MS, true, denial.clone()),
        (5 * MS, false, asked),
    ]);
    let dataset = Bench::new().open(&traffic).expect("a capture");
    let rcodes: Vec<Option<u16>> = expected(dataset).into_iter().map(|(rcode, _)| rcode).collect();
    assert_eq!(rcodes, [None, Some(0), Some(3), None]);
}

#[test]
fn a_response_may_stand_before_its_query() {
    let asked = query(1, "a");
    let traffic = exchanged(&[
        (0, false, query(7, "first")),
        (2 * MS, true, response(&asked, NXDOMAIN, 0)),
        (MS, false, asked.clone()),
        // This one came after the response in time too.
        (3 * MS, false, asked),
    ]);
    let dataset = Bench::new().open(&traffic).expect("a capture");
    assert_eq!(facts(&dataset).answered, 1);
    let rcodes: Vec<Option<u16>> = expected(dataset).into_iter().map(|(rcode, _)| rcode).collect();
    assert_eq!(rcodes, [None, Some(3), None]);
}

#[test]
fn a_response_that_is_too_late_says_nothing() {
    let asked = query(1, "a");
    let traffic = exchanged(&[
        (0, false, asked.clone()),
        (6 * SECOND, false, query(2, "b")),
        (6 * SECOND + 1, true, response(&asked, NOERROR, 1)),
    ]);
    let dataset = Bench::new().open(&traffic).expect("a capture");
    assert_eq!((facts(&dataset).responses, facts(&dataset).answered), (1, 0));
}

#[test]
fn of_a_zone_transfer_the_rcode_alone_is_expected() {
    let mut transfer = query(1, "zone");
    let qtype = transfer.len() - 3;
    transfer[qtype] = 252;
    let first = response(&transfer, NOERROR, 3);
    let dataset = Bench::new().open(&exchanged(&[(0, false, transfer), (1, true, first)]));
    let dataset = dataset.expect("a capture");
    assert_eq!((facts(&dataset).transfers, facts(&dataset).answered, dataset.answers()), (1, 1, 0));
    assert_eq!(expected(dataset), [(Some(0), None)]);
}

#[test]
fn a_slow_response_reaches_a_record_that_was_written_before() {
    let slow = [query(1, "slow"), query(2, "refused"), query(3, "cut")];
    let flags = [NXDOMAIN, [0x84, 5], [0x86, 0]];
    let answers: Vec<_> = slow.iter().zip(flags).map(|(query, flags)| response(query, flags, 0)).collect();
    // More queries than can wait, and more than a buffer holds.
    let between = (10..110_000_u64).map(|index| (index * 10_000, false, query(index as u16, "between")));
    let messages: Vec<_> = (0..3_u64)
        .map(|index| (index, false, slow[index as usize].clone()))
        .chain(between)
        .chain((0..3).map(|index| (2 * SECOND + index as u64, true, answers[index].clone())))
        .collect();
    let bench = Bench::new();
    let traffic = exchanged(&messages);
    for _ in 0..2 {
        let dataset = bench.open(&traffic).expect("a capture");
        assert_eq!((facts(&dataset).answered, dataset.answers(), bench.cached().len()), (3, 2, 1));
        let known = expected(dataset);
        assert_eq!(known[0], (Some(3), digest(&answers[0], 3)));
        assert_eq!(known[1], (Some(5), digest(&answers[1], 5)));
        assert_eq!(known[2], (Some(0), None), "it was truncated");
        assert!(known[3..].iter().all(|known| *known == (None, None)));
    }
}

#[test]
fn a_retry_over_tcp_is_counted_and_kept() {
    let server = end(SERVER);
    let [udp, tcp, unrelated] = [CLIENT, "192.0.2.1:2000", "192.0.2.2:2000"].map(end);
    let (first, again, other) = (query(1, "a"), query(9, "a"), query(10, "a"));
    let answer = response(&again, NOERROR, 3);
    let traffic = capture(|writer| {
        writer.udp(START_NS, udp, server, &first)?;
        writer.udp(START_NS + 1, server, udp, &response(&first, [0x86, 0], 0))?;
        writer.tcp_query(START_NS + MS, tcp, server, &again, Some((START_NS + 2 * MS, &answer[..])))?;
        writer.tcp_query(START_NS + 3 * MS, unrelated, server, &other, None)
    });
    let dataset = Bench::new().open(&traffic).expect("a capture");
    assert_eq!(labels(&dataset), ["a", "a", "a"]);
    assert_eq!((facts(&dataset).retried, facts(&dataset).answered, dataset.answers()), (1, 2, 1));
    assert_eq!(expected(dataset), [(Some(0), None), (Some(0), digest(&answer, 0)), (None, None)]);
}

#[test]
fn a_mirrored_capture_is_the_same_dataset() {
    let asked = query(1, "a");
    let once = exchanged(&[(0, false, asked.clone()), (MS, true, response(&asked, NOERROR, 1))]);
    let mut twice = once[..24].to_vec();
    for packet in packets(&once) {
        twice.extend_from_slice(packet);
        twice.extend_from_slice(packet);
    }
    let dataset = Bench::new().open(&twice).expect("a capture");
    let facts = facts(&dataset);
    assert_eq!((facts.packets, facts.queries, facts.responses, facts.answered), (4, 1, 1, 1));
    assert_eq!(facts.skipped, [("duplicate".to_owned(), 2)].into());
}
