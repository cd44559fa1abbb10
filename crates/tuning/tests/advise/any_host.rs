//! Rules that hold on every host.

use kqps_tuning::Change;
use kqps_tuning::advise::{Ask, Layout};

use crate::rigs::{Rig, card, cores};

/// Hosts of one to eight cores and one or two nodes, with cards of few and of many queues.
fn rigs() -> Vec<Rig> {
    let mut rigs = Vec::new();
    for physical in [1, 2, 3, 4, 8] {
        for threads in [1, 2] {
            for per_node in [physical, (physical / 2).max(1)] {
                for (queues, most) in [(1, 1), (1, 2), (4, 4), (2, 64)] {
                    let card = card("any", Some(0), queues, most, |queue| queue % physical);
                    rigs.push(Rig::new(card, cores(physical, threads, per_node, 2)));
                }
            }
        }
    }
    rigs
}

fn asks() -> Vec<Ask> {
    let mut asks = Vec::new();
    for workers in [None, Some(1), Some(3), Some(100)] {
        for costs in [None, Some((2e-6, 5e-6)), Some((5e-6, 2e-6))] {
            for rate_qps in [None, Some(1e5), Some(1e8)] {
                asks.extend([false, true].map(|one_socket| Ask {
                    device: None,
                    workers,
                    rate_qps,
                    softirq_s_per_packet: costs.map(|(softirq_s, _)| softirq_s),
                    server_s_per_answer: costs.map(|(_, server_s)| server_s),
                    one_socket,
                }));
            }
        }
    }
    asks
}

fn check(rig: &Rig, ask: &Ask, layout: &Layout) {
    let seen = format!("{ask:?} {layout:?}");
    let allowed: Vec<u32> = rig.topology.cores.iter().map(|core| core.cpu).collect();
    for cpus in [&layout.queue_cpus, &layout.interrupt_cpus, &layout.worker_cpus] {
        assert!(!cpus.is_empty() && cpus.is_sorted_by(|one, other| one < other), "{seen}");
        assert!(cpus.iter().all(|cpu| allowed.contains(cpu)), "{seen}");
    }
    assert!(layout.interrupt_cpus.iter().all(|cpu| layout.queue_cpus.contains(cpu)), "{seen}");
    let channels = rig.setup.devices[0].queues;
    assert!((1..=channels.combined_max).contains(&layout.queues), "{seen}");
    assert!(layout.queues_to_try.contains(&layout.queues), "{seen}");
    assert!(layout.queues_to_try.iter().all(|queues| (1..=channels.combined_max).contains(queues)), "{seen}");
    assert!(ask.workers.is_none_or(|workers| layout.worker_cpus.len() <= workers as usize), "{seen}");
    let is_estimated = ask.softirq_s_per_packet.is_some() && !ask.one_socket;
    assert_eq!(layout.rate_qps.is_some(), is_estimated, "{seen}");
    if let (Some(rate_qps), None) = (layout.rate_qps, ask.rate_qps) {
        assert!(rate_qps.is_finite() && rate_qps > 0.0, "{seen}");
        assert!(layout.receive_busy.unwrap() <= 0.8 + 1e-9, "{seen}");
    }
}

#[test]
fn layouts_use_the_cores_and_queues_that_are_there() {
    for rig in rigs() {
        for ask in asks() {
            let advice = rig.advice(&ask);
            assert!(!advice.layouts.is_empty(), "{ask:?}");
            for layout in &advice.layouts {
                check(&rig, &ask, layout);
            }
            let of_layouts = advice.layouts.iter().flat_map(|layout| &layout.changes);
            for (setting, value) in advice.pieces.iter().flat_map(|piece| &piece.changes).chain(of_layouts) {
                Change::read(setting, value).unwrap();
            }
            let rates: Vec<f64> = advice.layouts.iter().filter_map(|layout| layout.rate_qps).collect();
            assert!(rates.is_sorted_by(|one, other| one >= other), "{rates:?}");
        }
    }
}

#[test]
fn equal_hosts_get_equal_advice() {
    let (rigs, again) = (rigs(), rigs());
    for ask in asks() {
        for (one, other) in rigs.iter().zip(&again) {
            assert_eq!(one.advice(&ask), other.advice(&ask));
        }
    }
}

#[test]
fn a_host_without_devices_has_layouts_and_no_settings_of_devices() {
    let mut rig = rigs().pop().unwrap();
    rig.setup.devices.clear();
    let advice = rig.advice(&Ask::default());
    assert_eq!((advice.device, advice.pieces), (None, vec![]));
    assert!(!advice.layouts.is_empty());
    assert!(advice.notes.iter().any(|note| note.contains("name it with --device")));
}
