//! When queries are due.

use kqps_dataset::Carried;

use super::bench::{
    Bench, MS, SECOND, START_NS, asked, capture, captured, end, facts, labels, positions, query, response,
};

#[test]
fn gaps_are_those_of_the_capture_to_the_nanosecond() {
    let bench = Bench::new();
    let dataset = bench.open(&asked(&[(0, "a"), (1_500_001, "b"), (2 * SECOND, "c")])).expect("a capture");
    let dues: Vec<u64> = captured(&dataset).iter().map(|captured| captured.due_ns).collect();
    assert_eq!(dues, [0, 1_500_001, 2 * SECOND]);
    assert_eq!(labels(&dataset), ["a", "b", "c"]);
    let facts = facts(&dataset);
    assert_eq!((facts.packets, facts.queries, facts.responses), (3, 3, 0));
    assert_eq!((facts.first_unix_ns, facts.duration_ns), (START_NS, 2 * SECOND));
    assert_eq!((facts.sorted, facts.late, facts.clients), (0, 0, 1));
    assert_eq!(facts.by_transport, [(Carried::Udp, 3)].into());
}

#[test]
fn a_captured_message_is_kept_but_for_its_id() {
    let dataset = Bench::new().open(&asked(&[(0, "www")])).expect("a capture");
    let only = dataset.query(dataset.first());
    assert_eq!((only.message, only.question_bytes), (&query(0, "www")[..], 14));
    let captured = dataset.captured(dataset.first());
    assert_eq!((captured.client, captured.place, captured.idle_ms), (0, 0, 0));
    assert_eq!((captured.carried, captured.begins, captured.ends), (Carried::Udp, false, false));
}

#[test]
fn what_is_out_of_order_is_sorted_and_counted() {
    let traffic = asked(&[(0, "a"), (30 * MS, "d"), (10 * MS, "b"), (20 * MS, "c"), (30 * MS, "e")]);
    let dataset = Bench::new().open(&traffic).expect("a capture");
    assert_eq!(labels(&dataset), ["a", "b", "c", "d", "e"]);
    let dues: Vec<u64> = captured(&dataset).iter().map(|captured| captured.due_ns / MS).collect();
    assert_eq!(dues, [0, 10, 20, 30, 30]);
    assert_eq!((facts(&dataset).sorted, facts(&dataset).late), (2, 0));
}

#[test]
fn the_first_packet_need_not_have_the_first_query() {
    let dataset = Bench::new().open(&asked(&[(5 * MS, "b"), (0, "a")])).expect("a capture");
    assert_eq!(labels(&dataset), ["a", "b"]);
    assert_eq!(facts(&dataset).first_unix_ns, START_NS);
    assert_eq!(captured(&dataset)[1].due_ns, 5 * MS);
}

#[test]
fn a_stamp_long_before_all_others_is_due_with_the_query_before_it() {
    let traffic = asked(&[(0, "a"), (20 * SECOND, "b"), (40 * SECOND, "d"), (SECOND, "c")]);
    let dataset = Bench::new().open(&traffic).expect("a capture");
    assert_eq!(labels(&dataset), ["a", "b", "d", "c"]);
    let dues: Vec<u64> = captured(&dataset).iter().map(|captured| captured.due_ns / SECOND).collect();
    assert_eq!(dues, [0, 20, 40, 40]);
    let facts = facts(&dataset);
    assert_eq!((facts.sorted, facts.late, facts.steps, facts.strays), (0, 0, 0, 1));
}

#[test]
fn due_times_go_on_when_the_clock_is_set_back() {
    let (client, server) = (end("192.0.2.1:1000"), end("198.51.100.1:53"));
    let other = end("192.0.2.2:1000");
    // A query every millisecond. After a second the clock is set back by 10 s.
    let stamp = |index: u64| START_NS + index * MS - if index < 1000 { 0 } else { 10 * SECOND };
    let traffic = capture(|writer| {
        writer.tcp_connect(stamp(0), other, server)?;
        writer.tcp_message(stamp(0), other, server, &query(1, "kept"))?;
        for index in 0..2000 {
            writer.udp(stamp(index), client, server, &query(index as u16, "www"))?;
        }
        writer.tcp_close(stamp(2000), other, server)
    });
    let dataset = Bench::new().open(&traffic).expect("a capture");
    let all = captured(&dataset);
    assert_eq!((all[0].carried, all[0].ends, all[0].idle_ms), (Carried::Tcp, true, 1999));
    for (index, captured) in all[1..].iter().enumerate() {
        let index = index as u64;
        // The first one after the step is due with the one before it.
        assert_eq!(captured.due_ns, if index < 1000 { index * MS } else { (index - 1) * MS });
    }
    let facts = facts(&dataset);
    assert_eq!((facts.steps, facts.strays, facts.sorted, facts.late), (1, 0, 0, 0));
    assert_eq!((facts.first_unix_ns, facts.duration_ns), (START_NS, 1998 * MS));
}

#[test]
fn a_time_far_from_all_others_disturbs_no_other_query() {
    let (client, server) = (end("192.0.2.1:1000"), end("198.51.100.1:53"));
    let traffic = capture(|writer| {
        for (at_ns, label) in
            [(0, "a"), (10 * MS, "b"), (3600 * SECOND, "far"), (20 * MS, "c"), (30 * MS, "d")]
        {
            let asked = query(at_ns as u16, label);
            writer.udp(START_NS + at_ns, client, server, &asked)?;
            writer.udp(START_NS + at_ns + 1, server, client, &response(&asked, [0x84, 0], 1))?;
        }
        Ok(())
    });
    let dataset = Bench::new().open(&traffic).expect("a capture");
    assert_eq!(labels(&dataset), ["a", "b", "far", "c", "d"]);
    let dues: Vec<u64> = captured(&dataset).iter().map(|captured| captured.due_ns / MS).collect();
    assert_eq!(dues, [0, 10, 10, 20, 30]);
    assert_eq!((facts(&dataset).answered, facts(&dataset).late, facts(&dataset).strays), (5, 0, 2));
}

#[test]
fn a_window_begins_with_the_first_query_that_is_due_in_it() {
    // Three queries at a time, every 10 µs, over several stretches of the table.
    let traffic = capture(|writer| {
        (0..5000_u64).try_for_each(|index| {
            let at_ns = START_NS + index / 3 * 10_000;
            let client = end(&format!("192.0.2.{}:1000", index % 200));
            writer.udp(at_ns, client, end("198.51.100.1:53"), &query(0, &"x".repeat(1 + index as usize % 60)))
        })
    });
    let dataset = Bench::new().open(&traffic).expect("a capture");
    let positions = positions(&dataset);
    for (index, position) in positions.iter().enumerate() {
        assert_eq!(dataset.position(index as u64), *position);
        assert_eq!(dataset.captured(*position).due_ns, index as u64 / 3 * 10_000);
        assert_eq!(dataset.query(*position).message[12], 1 + (index % 60) as u8);
    }
    for index in (0..5000).step_by(7).chain(1020..1030) {
        let first = positions[index / 3 * 3];
        let due_ns = dataset.captured(positions[index]).due_ns;
        assert_eq!(dataset.position_at(due_ns), first, "{due_ns}");
        if due_ns > 0 {
            assert_eq!(dataset.position_at(due_ns - 1), first, "{due_ns}");
        }
    }
    assert_eq!(dataset.position_at(0), dataset.first());
    let last_ns = facts(&dataset).duration_ns;
    assert_eq!(dataset.captured(dataset.position_at(last_ns)).due_ns, last_ns);
    assert_eq!(dataset.position_at(last_ns + 1), dataset.end());
    assert_eq!(dataset.position_at(u64::MAX), dataset.end());
}
