//! Queries over connections: their places, beginnings and ends.

use std::fs;
use std::os::unix::fs::MetadataExt;

use kqps_dataset::{Carried, Dataset};

use super::bench::{
    Bench, MS, SECOND, START_NS, capture, captured, end, facts, labels, positions, query, response,
};

#[test]
fn connections_that_are_open_together_have_places_of_their_own() {
    let server = end("198.51.100.1:53");
    let [one, other, third] = ["192.0.2.1:1001", "192.0.2.2:1002", "192.0.2.1:1003"].map(end);
    let traffic = capture(|writer| {
        writer.tcp_connect(START_NS, one, server)?;
        writer.tcp_message(START_NS + MS, one, server, &query(1, "a"))?;
        writer.tcp_message(START_NS + 2 * MS, server, one, &response(&query(1, "a"), [0x84, 0], 1))?;
        writer.tcp_connect(START_NS + 3 * MS, other, server)?;
        writer.tcp_message(START_NS + 4 * MS, other, server, &query(2, "b"))?;
        writer.tcp_message(START_NS + 5 * MS, one, server, &query(3, "c"))?;
        writer.tcp_close(START_NS + 255 * MS, one, server)?;
        writer.tcp_connect(START_NS + 300 * MS, third, server)?;
        writer.tcp_message(START_NS + 301 * MS, third, server, &query(4, "d"))?;
        writer.tcp_reset(START_NS + 2301 * MS, server, third)?;
        writer.udp(START_NS + 2400 * MS, one, server, &query(5, "e"))?;
        writer.tcp_message(START_NS + 2500 * MS, other, server, &query(6, "f"))
    });
    let dataset = Bench::new().open(&traffic).expect("a capture");
    assert_eq!(labels(&dataset), ["a", "b", "c", "d", "e", "f"]);
    let all = captured(&dataset);
    let places: Vec<u32> = all.iter().map(|captured| captured.place).collect();
    assert_eq!(places, [0, 1, 0, 0, 0, 1]);
    let begins: Vec<bool> = all.iter().map(|captured| captured.begins).collect();
    assert_eq!(begins, [true, true, false, true, false, false]);
    let ends: Vec<(bool, u32)> = all.iter().map(|captured| (captured.ends, captured.idle_ms)).collect();
    let expected = [(false, 0), (false, 0), (true, 250), (true, 2000), (false, 0), (true, u32::MAX)];
    assert_eq!(ends, expected, "the second is open when the capture ends");
    let clients: Vec<u32> = all.iter().map(|captured| captured.client).collect();
    assert_eq!(clients, [0, 1, 0, 0, 0, 1]);
    let facts = facts(&dataset);
    assert_eq!((facts.places, facts.connections, facts.answered), (2, 3, 1));
    assert_eq!(facts.by_transport, [(Carried::Udp, 1), (Carried::Tcp, 5)].into());
}

#[test]
fn a_connection_for_each_query_begins_and_ends_with_it() {
    let server = end("198.51.100.1:53");
    let traffic = capture(|writer| {
        (0..2000_u64).try_for_each(|index| {
            let client = end(&format!("192.0.2.1:{}", 2000 + index));
            let (at_ns, asked) = (START_NS + index * 10 * MS, query(index as u16, "www"));
            let answer = response(&asked, [0x84, 3], 0);
            writer.tcp_query(at_ns, client, server, &asked, Some((at_ns + 5 * MS, &answer[..])))
        })
    });
    let dataset = Bench::new().open(&traffic).expect("a capture");
    for (index, captured) in captured(&dataset).iter().enumerate() {
        assert_eq!((captured.carried, captured.place), (Carried::Tcp, 0), "{index}");
        assert_eq!((captured.begins, captured.ends, captured.idle_ms), (true, true, 0), "{index}");
        assert_eq!(captured.due_ns, index as u64 * 10 * MS);
    }
    let facts = facts(&dataset);
    assert_eq!((facts.places, facts.connections, facts.answered, facts.retried), (1, 2000, 2000, 0));
}

#[test]
fn idle_time_counts_from_the_last_response() {
    let (client, server) = (end("192.0.2.1:1001"), end("198.51.100.1:53"));
    let (one, two) = (query(1, "a"), query(2, "b"));
    // Responses in the other order, the second one after its query has left those that wait.
    let traffic = capture(|writer| {
        writer.tcp_connect(START_NS, client, server)?;
        writer.tcp_message(START_NS, client, server, &one)?;
        writer.tcp_message(START_NS + MS, client, server, &two)?;
        writer.tcp_message(START_NS + 101 * MS, server, client, &response(&two, [0x84, 0], 1))?;
        writer.udp(START_NS + 5050 * MS, client, server, &query(3, "c"))?;
        writer.tcp_message(START_NS + 4990 * MS, server, client, &response(&one, [0x84, 3], 0))?;
        writer.tcp_close(START_NS + 5240 * MS, client, server)
    });
    let dataset = Bench::new().open(&traffic).expect("a capture");
    let all = captured(&dataset);
    assert_eq!((all[1].ends, all[1].idle_ms), (true, 250));
    assert_eq!(facts(&dataset).answered, 2);
}

#[test]
fn a_capture_may_begin_in_the_middle_of_a_connection() {
    let (client, server) = (end("192.0.2.1:1001"), end("198.51.100.1:53"));
    let traffic = capture(|writer| {
        writer.tcp_message(START_NS, server, client, &response(&query(9, "before"), [0x84, 0], 1))?;
        writer.tcp_message(START_NS + MS, client, server, &query(1, "a"))?;
        writer.tcp_message(START_NS + 2 * MS, client, server, &query(2, "b"))?;
        writer.tcp_close(START_NS + SECOND, client, server)
    });
    let dataset = Bench::new().open(&traffic).expect("a capture");
    let all = captured(&dataset);
    assert_eq!(labels(&dataset), ["a", "b"]);
    let ends: Vec<(bool, bool)> = all.iter().map(|one| (one.begins, one.ends)).collect();
    assert_eq!(ends, [(true, false), (false, true)]);
    assert_eq!(all[1].idle_ms, 998);
    assert_eq!((facts(&dataset).responses, facts(&dataset).answered), (1, 0));
}

#[test]
fn an_end_reaches_a_record_that_was_written_long_before() {
    let (client, server) = (end("192.0.2.1:1001"), end("198.51.100.1:53"));
    // More records between query and end than any buffer holds, and more time than queries wait.
    let traffic = capture(|writer| {
        writer.tcp_connect(START_NS, client, server)?;
        writer.tcp_message(START_NS, client, server, &query(1, "kept"))?;
        for index in 0..30_000 {
            writer.udp(START_NS + index * MS, end("192.0.2.2:7"), server, &query(index as u16, "between"))?;
        }
        writer.tcp_close(START_NS + 30 * SECOND, client, server)?;
        writer.udp(START_NS + 31 * SECOND, end("192.0.2.2:7"), server, &query(1, "after"))
    });
    let bench = Bench::new();
    let dataset = bench.open(&traffic).expect("a capture");
    let check = |dataset: &Dataset| {
        assert_eq!(dataset.queries(), 30_002);
        let all = captured(dataset);
        assert_eq!(labels(dataset)[0], "kept");
        assert_eq!((all[0].begins, all[0].ends, all[0].idle_ms), (true, true, 30_000));
        assert!(all[1..].iter().all(|captured| !captured.ends && captured.idle_ms == 0));
        assert_eq!(positions(dataset).last().map(|last| dataset.after(*last)), Some(dataset.end()));
    };
    check(&dataset);
    let inode = || fs::metadata(bench.cached().remove(0)).expect("the encoded form").ino();
    let before = inode();
    check(&bench.open(&traffic).expect("a capture"));
    assert_eq!(inode(), before, "its hash is right, so it is not made again");
}
