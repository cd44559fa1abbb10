//! The rows of the first study (ISC, 2015): with all interrupts on core 7, the core or the cores that are best for
//! the echo. Its processes share one socket.

use kqps_tuning::advise::{Ask, Kind};

use crate::rigs::{Rig, assignments, x5355, x5355_receiving_on};

/// A row of the article: the variation, the workers, the best queue cores, and the best cores of the server.
type Row = (&'static str, Option<u32>, &'static [u32], &'static [u32]);

const ROWS: [Row; 6] = [
    ("(d) one process, locked to each core in turn", Some(1), &[7], &[5]),
    ("(e) two processes, every pair of cores", Some(2), &[7], &[5, 7]),
    ("(f) three cores are no better", Some(3), &[7], &[5, 7]),
    ("(f) four cores are no better", Some(4), &[7], &[5, 7]),
    ("all cores are much slower", Some(8), &[7], &[5, 7]),
    ("the best of all", None, &[7], &[5, 7]),
];

fn ask(workers: Option<u32>) -> Ask {
    Ask { workers, one_socket: true, ..Ask::default() }
}

#[test]
fn every_row_has_the_queue_cores_and_the_cores_of_the_server() {
    for rig in [x5355(), x5355_receiving_on(7)] {
        for (row, workers, queue_cpus, worker_cpus) in ROWS {
            let advice = rig.advice(&ask(workers));
            let first = &advice.layouts[0];
            assert_eq!(first.kind, Kind::Neighbours, "{row}");
            assert_eq!((&*first.queue_cpus, &*first.worker_cpus), (queue_cpus, worker_cpus), "{row}");
            assert_eq!(first.interrupt_cpus, first.queue_cpus, "{row}");
        }
    }
}

#[test]
fn more_workers_than_share_the_cache_are_refused_with_the_reason() {
    let advice = x5355().advice(&ask(Some(4)));
    assert!(advice.layouts[0].reason.contains("2 of the 4 workers"), "{}", advice.layouts[0].reason);
    let two = x5355().advice(&ask(Some(2)));
    assert!(!two.layouts[0].reason.contains("asked for"), "{}", two.layouts[0].reason);
}

#[test]
fn interrupts_move_to_one_core_once() {
    // (c) All interrupts on core 7. The number of queues stays, and the link stays up.
    let spread = x5355().advice(&ask(Some(2)));
    assert!(assignments(&spread).contains(&"irqs.eth0=7".to_owned()), "{:?}", assignments(&spread));
    assert!(spread.pieces.iter().all(|piece| !piece.takes_link_down));
    let there = x5355_receiving_on(7).advice(&ask(Some(2)));
    assert!(there.layouts[0].changes.is_empty(), "{:?}", there.layouts[0].changes);
}

#[test]
fn the_neighbour_is_that_of_the_core_which_is_interrupted() {
    for cpu in 0..8 {
        let rig: Rig = x5355_receiving_on(cpu);
        let cores = |workers| rig.advice(&ask(Some(workers))).layouts[0].worker_cpus.clone();
        let neighbour = cpu ^ 2;
        assert_eq!(cores(1), [neighbour], "interrupts on {cpu}");
        assert_eq!(cores(2), [cpu.min(neighbour), cpu.max(neighbour)], "interrupts on {cpu}");
    }
}

#[test]
fn a_table_with_three_of_eight_queues_is_found() {
    // (b) Only 3 of 8 receive queues carried traffic.
    let mut rig = x5355();
    rig.device().rss = Some(kqps_host::setup::Rss {
        queues: [0, 3, 6].repeat(42),
        fields_udp4: Some("sd".into()),
        fields_udp6: None,
    });
    let advice = rig.advice(&ask(None));
    let found = assignments(&advice);
    for wanted in ["rss.eth0=equal=8", "rss-fields.eth0.udp4=sdfn"] {
        assert!(found.iter().any(|one| one == wanted), "no {wanted} in {found:?}");
    }
    assert!(advice.pieces.iter().any(|piece| piece.reason.contains("3 of 8 queues")));
}

#[test]
fn with_a_socket_for_each_worker_every_core_receives_what_it_answers() {
    let first = x5355().first(None);
    let all: Vec<u32> = (0..8).collect();
    assert_eq!((first.kind, first.queues), (Kind::Together, 8));
    assert_eq!((&first.queue_cpus, &first.interrupt_cpus, &first.worker_cpus), (&all, &all, &all));
}
