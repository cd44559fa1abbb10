//! Advice as it would have been on the machines of the other four studies.

use kqps_tuning::advise::{Ask, Kind};

use crate::rigs::{epyc_128, epyc_256, four_cores, four_slow_cores, layout, twenty_cores};

/// Microsoft published 260k q/s, 300k q/s with spread source addresses, and that 4 receive queues are enough beyond
/// 150k q/s. The time of a packet and of an answer are assumed: with 10.6 µs, 4 cores take 300k q/s at 80 %.
fn windows(rate_qps: f64) -> Ask {
    Ask {
        workers: Some(8),
        rate_qps: Some(rate_qps),
        softirq_s_per_packet: Some(10e-6),
        server_s_per_answer: Some(22e-6),
        ..Ask::default()
    }
}

#[test]
fn four_cores_with_one_queue_all_answer_and_packets_are_steered() {
    let rig = four_slow_cores();
    for workers in 1..=4 {
        let first = rig.first(Some(workers));
        assert_eq!((first.kind, first.queues), (Kind::Together, 1));
        assert_eq!(first.worker_cpus.len(), workers as usize);
    }
    let four = rig.first(Some(4));
    assert_eq!(
        (four.is_steered, &*four.queue_cpus, &*four.interrupt_cpus),
        (true, &[0, 1, 2, 3][..], &[1][..])
    );
    // A node has no neighbour here, and the study's best was a socket for each worker.
    let advice = rig.advice(&Ask { workers: Some(4), ..Ask::default() });
    assert!(advice.layouts.iter().all(|layout| layout.kind != Kind::SecondNode));
    assert!(advice.notes.iter().any(|note| note.contains("25,797 q/s with a port for each")));
}

#[test]
fn no_published_rate_of_the_cache_is_above_the_estimate() {
    // A single worker answered 10,200 q/s. The share of receiving is not published: a third is assumed.
    let published = [10_200.0, 18_783.0, 23_461.0, 27_161.0];
    let query_s = 1.0 / published[0];
    for (workers, rate_qps) in (1..).zip(published) {
        let ask = Ask {
            workers: Some(workers),
            softirq_s_per_packet: Some(query_s / 3.0),
            server_s_per_answer: Some(query_s * 2.0 / 3.0),
            ..Ask::default()
        };
        let best = four_slow_cores().advice(&ask).layouts[0].rate_qps.unwrap();
        assert!(best >= rate_qps * 0.999, "{workers} workers: {best} < {rate_qps}");
    }
}

#[test]
fn four_receive_cores_of_the_servers_node_are_enough_on_twenty_cores() {
    let advice = twenty_cores().advice(&windows(260_000.0));
    let split = layout(&advice, Kind::Split);
    assert_eq!((split.queues, &*split.queue_cpus), (4, &[6, 7, 8, 9][..]));
    // The server runs on the same node, on no core that receives.
    assert_eq!(split.worker_cpus, [0, 1, 2, 3, 4, 5]);
    assert!(split.receive_busy.unwrap() <= 0.8, "no receive core is at 100 %");
    assert_eq!(advice.layouts[0].kind, Kind::Split);
    assert!(split.rate_qps.unwrap() >= 260_000.0);
    assert!(advice.layouts.iter().all(|layout| layout.kind != Kind::SecondNode), "one node carries it");
    for rate_qps in [50_000.0, 100_000.0, 150_000.0, 200_000.0] {
        let advice = twenty_cores().advice(&windows(rate_qps));
        let split = layout(&advice, Kind::Split);
        assert!(split.queues <= 4 && split.receive_busy.unwrap() <= 0.8, "{rate_qps}: {split:?}");
    }
}

#[test]
fn the_second_node_is_for_what_the_first_cannot_answer() {
    // The 8 threads and 4 queues do not fit in one node.
    let advice = twenty_cores().advice(&windows(300_000.0));
    let second = layout(&advice, Kind::SecondNode);
    assert_eq!((&*second.queue_cpus, second.rate_qps.unwrap() >= 300_000.0), (&[6, 7, 8, 9][..], true));
    assert_eq!(second.worker_cpus, [0, 1, 2, 3, 4, 5, 10, 11]);
    assert_eq!(advice.layouts[0].kind, Kind::SecondNode);
}

#[test]
fn spread_source_addresses_need_the_hash_of_ports() {
    // 260k q/s from one source address, 300k q/s from many, because the hash takes in addresses only.
    let mut rig = twenty_cores();
    rig.device().rss = Some(kqps_host::setup::Rss {
        queues: (0..8).collect(),
        fields_udp4: Some("sd".into()),
        fields_udp6: Some("sdfn".into()),
    });
    let advice = rig.advice(&Ask::default());
    let piece = advice.pieces.iter().find(|piece| piece.changes[0].0 == "rss-fields.eth0.udp4").unwrap();
    assert_eq!(piece.changes.len(), 1);
    assert!(piece.source.contains("260k q/s from one source address"));
}

#[test]
fn the_search_of_queues_reaches_48_of_128_threads() {
    let first = epyc_128().first(Some(128));
    assert_eq!((first.kind, first.queues, first.is_steered), (Kind::Together, 64, false));
    // Each queue has a physical core of its own.
    assert_eq!(first.interrupt_cpus, (0..64).collect::<Vec<_>>());
    assert_eq!(first.queues_to_try, [4, 32, 64]);
    // A step between the best two, and 48 is nearer to it than a quarter.
    let step = (32.0_f64 * 64.0).sqrt();
    assert!((48.0 / step).max(step / 48.0) < 1.25);
}

#[test]
fn sixty_four_cores_have_64_queues() {
    let first = epyc_128().first(None);
    assert_eq!((first.kind, first.queues, first.worker_cpus.len()), (Kind::Together, 64, 64));
    assert!(first.queues_to_try.contains(&64));
    // All of them are so already: only the workers must be pinned.
    assert!(first.changes.is_empty(), "{:?}", first.changes);
}

#[test]
fn two_hundred_and_fifty_six_threads_have_192_queues() {
    let rig = epyc_256();
    let first = rig.first(Some(256));
    assert_eq!((first.kind, first.queues), (Kind::Together, 192));
    assert_eq!(first.queues_to_try, [4, 64, 128, 192]);
    assert!(first.changes.contains(&("channels.eth0".into(), "combined=192".into())));
    // Without a wish, the server stays on the device's node.
    let near = rig.first(None);
    assert_eq!((near.queues, near.worker_cpus), (64, (0..64).collect::<Vec<_>>()));
}

#[test]
fn the_node_is_that_of_the_device() {
    let mut rig = epyc_256();
    rig.device().numa_node = Some(1);
    let advice = rig.advice(&Ask::default());
    for layout in advice.layouts.iter().filter(|layout| layout.kind != Kind::SecondNode) {
        let mut used = layout.queue_cpus.iter().chain(&layout.worker_cpus);
        assert!(used.all(|cpu| (64..128).contains(&(cpu % 128))), "{layout:?}");
    }
}

#[test]
fn four_back_ends_on_four_cores_have_a_core_each() {
    // 110,927 q/s direct, with four back ends on four cores.
    let first = four_cores().first(Some(4));
    assert_eq!((first.kind, first.queues, first.is_steered), (Kind::Together, 4, false));
    assert_eq!((&*first.queue_cpus, &*first.worker_cpus), (&[0, 1, 2, 3][..], &[0, 1, 2, 3][..]));
    // The front is a process of its own, with a core of its own: three are left.
    let advice = four_cores().advice(&Ask { workers: Some(3), ..Ask::default() });
    assert_eq!(layout(&advice, Kind::Split).worker_cpus, [0, 1, 2]);
    assert_eq!(layout(&advice, Kind::Split).queue_cpus, [3]);
}
