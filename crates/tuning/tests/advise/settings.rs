//! Settings that are advised, and their order; a host that is set well gets none.

use kqps_host::setup::{Channels, Coalesce, Conntrack, DeviceSetup, IdleState, Rings, Rss};
use kqps_tuning::advise::Ask;

use crate::rigs::{Rig, assignments, cores, epyc_256, four_cores, x5355};

/// Four cores whose card has one queue of four, with every setting as a distribution has it.
fn untuned() -> Rig {
    let mut rig = four_cores();
    let device = rig.device();
    device.queues.combined = 1;
    device.interrupts.truncate(1);
    device.rings = Some(Rings { rx: 256, tx: 256, rx_max: 4096, tx_max: 512 });
    device.coalesce = Some(Coalesce::default());
    device.xps = [(0, vec![])].into();
    device.rps = [(0, vec![])].into();
    device.features = [("gro".to_owned(), true)].into();
    device.carries_default_route = true;
    let setup = &mut rig.setup;
    setup.governor = (0..4).map(|cpu| (cpu, "powersave".to_owned())).collect();
    setup.idle_states = [(0, "POLL", 0), (1, "C1", 2), (3, "C6", 133)]
        .map(|(state, name, latency_us)| IdleState {
            state,
            name: name.into(),
            latency_us,
            disabled_on: vec![],
        })
        .into();
    setup.sysctls = [("net.core.rmem_max", "212992"), ("net.core.netdev_max_backlog", "1000")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    setup.irqbalance = Some(812);
    setup.conntrack = Conntrack { loaded: true, ..Conntrack::default() };
    rig
}

#[test]
fn settings_stand_in_the_order_in_which_they_must_be_applied() {
    let advice = untuned().advice(&Ask::default());
    let expected = [
        "channels.eth0=combined=4",
        "rings.eth0=rx=4096,tx=512",
        "irqs.eth0=0-3",
        "xps.eth0.0=0",
        "xps.eth0.1=1",
        "xps.eth0.2=2",
        "xps.eth0.3=3",
        "governor=performance",
        "idle-states=2us",
        "sysctl.net.core.rmem_max=8388608",
    ];
    assert_eq!(assignments(&advice), expected);
    let down: Vec<bool> = advice.pieces.iter().map(|piece| piece.takes_link_down).collect();
    assert_eq!(down, [true, true, false, false, false, false, false]);
    let moved = advice.pieces.iter().find(|piece| piece.changes[0].0 == "irqs.eth0").unwrap();
    assert!(moved.reason.contains("irqbalance (process 812)"), "{}", moved.reason);
}

#[test]
fn what_cannot_be_set_or_is_disputed_is_a_note() {
    let advice = untuned().advice(&Ask::default());
    let notes = advice.notes.join("\n");
    for wanted in [
        "carries the default route",
        "Connection tracking",
        "sysctl.net.core.busy_read=50",
        "coalesce.eth0=rx-usecs=75",
        "feature.eth0.gro=off",
        "SO_REUSEPORT",
        "--run",
    ] {
        assert!(notes.contains(wanted), "no {wanted} in:\n{notes}");
    }
}

#[test]
fn a_host_that_is_set_well_is_left_alone() {
    let mut rig = x5355();
    rig.device().xps = (0..8).map(|queue| (queue, vec![queue])).collect();
    rig.device().rps = (0..8).map(|queue| (queue, vec![])).collect();
    rig.device().rings = Some(Rings { rx: 4096, tx: 4096, rx_max: 8192, tx_max: 8192 });
    rig.setup.irqbalance = Some(812);
    rig.setup.governor = (0..8).map(|cpu| (cpu, "performance".to_owned())).collect();
    let deep = IdleState { state: 3, name: "C6".into(), latency_us: 133, disabled_on: (0..8).collect() };
    let light = IdleState { state: 1, name: "C1".into(), latency_us: 2, disabled_on: vec![] };
    rig.setup.idle_states = vec![light, deep];
    rig.setup.sysctls = [("net.core.rmem_max".to_owned(), "16777216".to_owned())].into();
    let advice = rig.advice(&Ask::default());
    assert_eq!(assignments(&advice), Vec::<String>::new());
    assert!(advice.layouts[0].changes.is_empty(), "{:?}", advice.layouts[0].changes);
}

#[test]
fn steering_is_switched_off_where_there_are_queues_enough() {
    let mut rig = x5355();
    rig.device().rps = [(0, vec![0, 1])].into();
    assert!(assignments(&rig.advice(&Ask::default())).contains(&"rps.eth0=none".to_owned()));
}

#[test]
fn a_device_without_interrupts_is_steered() {
    let veth = DeviceSetup {
        name: "veth0".into(),
        is_up: true,
        queues: Channels { rx: 4, tx: 4, rx_max: 4, tx_max: 4, ..Channels::default() },
        rps: (0..4).map(|queue| (queue, vec![])).collect(),
        ..DeviceSetup::default()
    };
    let mut rig = Rig::new(veth, cores(4, 1, 4, 4));
    rig.setup.sysctls = [("net.core.netdev_max_backlog".to_owned(), "1000".to_owned())].into();
    let advice = rig.advice(&Ask { workers: Some(2), ..Ask::default() });
    let first = &advice.layouts[0];
    assert!(first.is_steered && first.interrupt_cpus.is_empty(), "{first:?}");
    assert_eq!(first.queue_cpus, first.worker_cpus);
    let found = assignments(&advice);
    assert_eq!(found, ["rps.veth0=1,2", "sysctl.net.core.netdev_max_backlog=40000"]);
}

#[test]
fn interrupts_that_the_kernel_places_are_not_moved() {
    let mut rig = x5355();
    rig.device().driver = Some("virtio_net".into());
    for interrupt in &mut rig.device().interrupts {
        interrupt.managed = Some(true);
        interrupt.effective = vec![0];
        interrupt.cpus = vec![0];
    }
    rig.setup.irqbalance = Some(812);
    let advice = rig.advice(&Ask::default());
    let found = assignments(&advice);
    assert!(found.iter().all(|one| !one.starts_with("irq")), "{found:?}");
    assert!(advice.notes.iter().any(|note| note.contains("refuses other cores")));
}

#[test]
fn automatic_numa_balancing_is_for_hosts_with_two_nodes() {
    let balanced = |mut rig: Rig| {
        rig.setup.sysctls = [("kernel.numa_balancing".to_owned(), "1".to_owned())].into();
        assignments(&rig.advice(&Ask::default())).contains(&"sysctl.kernel.numa_balancing=0".to_owned())
    };
    assert!(balanced(epyc_256()) && !balanced(x5355()));
}

#[test]
fn the_device_is_the_fastest_one_that_is_up_or_the_one_that_is_named() {
    let mut rig = x5355();
    let eth0 = rig.device().clone();
    let faster = DeviceSetup { name: "eth1".into(), speed_mbps: Some(25_000), ..eth0.clone() };
    let down = DeviceSetup { name: "eth2".into(), speed_mbps: None, is_up: false, ..eth0 };
    rig.setup.devices.extend([faster, down]);
    let device = |name: Option<&str>| {
        let advice = rig.advice(&Ask { device: name.map(str::to_owned), ..Ask::default() });
        (advice.device, advice.notes.join(" "))
    };
    assert_eq!(device(None).0.as_deref(), Some("eth1"));
    assert_eq!(device(Some("eth2")).0.as_deref(), Some("eth2"));
    let (none, notes) = device(Some("eth9"));
    assert!(none.is_none() && notes.contains("There is no device eth9 (known: eth0, eth1, eth2)"), "{notes}");
}

#[test]
fn settings_that_are_to_be_measured_have_names_and_values_that_can_be_applied() {
    let advice = untuned().advice(&Ask::default());
    let words = advice.notes.iter().filter_map(|note| note.split("--subject 'nsd host.").nth(1));
    let words: Vec<&str> = words.filter_map(|word| word.strip_suffix('\'')).collect();
    assert_eq!(words.len(), 3);
    for word in words {
        word.parse::<kqps_tuning::Change>().unwrap();
    }
    // On this host no packet of a trial passes the device.
    assert!(advice.notes.iter().all(|note| !note.contains("host try")), "{:?}", advice.notes);
}

#[test]
fn delays_are_fixed_where_the_driver_adapts_them() {
    let mut rig = untuned();
    rig.device().coalesce = Some(Coalesce { adaptive_rx: true, ..Coalesce::default() });
    let notes = rig.advice(&Ask::default()).notes.join("\n");
    assert!(notes.contains("coalesce.eth0=rx-usecs=75,adaptive-rx=off'"), "{notes}");
}

#[test]
fn a_core_can_always_rest() {
    let idle_states = |states: &[(u32, &str, u32)]| {
        let mut rig = untuned();
        let state = |&(state, name, latency_us): &(u32, &str, u32)| IdleState {
            state,
            name: name.into(),
            latency_us,
            disabled_on: vec![],
        };
        rig.setup.idle_states = states.iter().map(state).collect();
        let all = assignments(&rig.advice(&Ask::default()));
        all.into_iter().find(|one| one.starts_with("idle-states"))
    };
    assert_eq!(idle_states(&[(0, "POLL", 0), (1, "C6", 133)]), None, "only polling would be left");
    let slow = [(0, "POLL", 0), (1, "C1E", 10), (2, "C6", 133)];
    assert_eq!(idle_states(&slow).as_deref(), Some("idle-states=10us"));
    let usual = [(0, "POLL", 0), (1, "C1", 1), (2, "C1E", 10)];
    assert_eq!(idle_states(&usual).as_deref(), Some("idle-states=2us"));
}

#[test]
fn a_table_that_somebody_set_is_spread_over_all_queues_if_their_number_changes() {
    let table = |queues: Vec<u32>| {
        let mut rig = untuned();
        rig.device().queues.combined = 2;
        rig.device().rss = Some(Rss { queues, ..Rss::default() });
        let all = assignments(&rig.advice(&Ask::default()));
        assert!(all.contains(&"channels.eth0=combined=4".to_owned()), "{all:?}");
        all.into_iter().find(|one| one.starts_with("rss.eth0"))
    };
    assert_eq!(table(vec![0, 1, 0, 1]), None, "the driver makes a new one");
    assert_eq!(table(vec![0, 0, 1, 1]).as_deref(), Some("rss.eth0=equal=4"));
}

#[test]
fn advice_is_read_back_as_it_was_written() {
    let advice = untuned().advice(&Ask { rate_qps: Some(1e5), ..Ask::default() });
    let text = serde_json::to_string(&advice).unwrap();
    assert_eq!(serde_json::from_str::<kqps_tuning::advise::Advice>(&text).unwrap(), advice);
}

#[test]
fn a_virtio_table_is_set_with_the_number_of_queues() {
    let table = |driver: &str, now: u32| {
        let mut rig = untuned();
        rig.device().driver = Some(driver.into());
        (rig.device().queues.combined, rig.device().queues.combined_max) = (now, 8);
        let queues = (0..128).map(|slot| slot % now).collect();
        rig.device().rss = Some(Rss { queues, ..Rss::default() });
        let all = assignments(&rig.advice(&Ask::default()));
        assert!(now == 4 || all.contains(&"channels.eth0=combined=4".to_owned()), "{all:?}");
        all.into_iter().find(|one| one.starts_with("rss.eth0"))
    };
    for now in [2, 8] {
        assert_eq!(table("virtio_net", now).as_deref(), Some("rss.eth0=equal=4"), "from {now} queues");
        assert_eq!(table("ice", now), None, "the driver makes a new one");
    }
    assert_eq!(table("virtio_net", 4), None, "it names all queues, and no others");
}
