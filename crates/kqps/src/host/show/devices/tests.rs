//! Devices as people read them.

use kqps_host::setup::Rss;

use super::*;

/// A card with four queues that receive and send, each with its interrupt on its core.
fn card() -> DeviceSetup {
    let interrupt = |queue: u32| QueueInterrupt {
        irq: 50 + queue,
        name: format!("eth0-TxRx-{queue}"),
        queue: Some(queue),
        direction: Direction::Both,
        cpus: vec![0, 1, 2, 3],
        effective: vec![queue],
        managed: None,
        count: u64::from(queue) * 7,
    };
    DeviceSetup {
        name: "eth0".into(),
        bus: Some("0000:3b:00.0".into()),
        driver: Some("ixgbe".into()),
        numa_node: Some(1),
        speed_mbps: Some(10_000),
        mtu: 1500,
        is_up: true,
        carries_default_route: true,
        queues: Channels { combined: 4, combined_max: 63, ..Channels::default() },
        rings: Some(Rings { rx: 512, tx: 256, rx_max: 4096, tx_max: 4096 }),
        coalesce: Some(Coalesce { rx_usecs: 50, rx_frames: 8, adaptive_rx: true, ..Coalesce::default() }),
        rss: Some(Rss {
            queues: vec![0, 1, 0, 1, 0],
            fields_udp4: Some("sd".into()),
            fields_udp6: Some("sdfn".into()),
        }),
        interrupts: (0..4).map(interrupt).collect(),
        rps: [(0, vec![]), (1, vec![2, 3]), (2, vec![]), (3, vec![])].into(),
        xps: (0..4).map(|queue| (queue, vec![queue])).collect(),
        features: [("gro".to_owned(), true), ("lro".to_owned(), false)].into(),
        ..DeviceSetup::default()
    }
}

/// The value and the meaning of a row.
fn value_and_meaning(device: &DeviceSetup, name: &str) -> (String, String) {
    let [_, value, meaning] = rows(device).into_iter().find(|row| row[0] == name).unwrap();
    (value, meaning)
}

#[test]
fn each_setting_has_its_value_and_a_meaning() {
    let card = card();
    let value = |name: &str| value_and_meaning(&card, name).0;
    assert_eq!(
        title(&card),
        "Network device eth0: ixgbe at 0000:3b:00.0, node 1, 10000 Mbit/s, MTU 1500, default route"
    );
    assert_eq!(value("queues"), "4 of at most 63 receive and send");
    assert_eq!(value("rings"), "receive 512 of at most 4096, send 256 of at most 4096");
    assert_eq!(value("interrupt delay"), "receive 50 µs or 8 packets, adaptive; send 0 µs");
    assert_eq!(value("RSS table"), "5 entries, 2 to 3 to each of queues 0,1");
    assert_eq!(value("interrupts"), "queues 0-3 on cpu 0-3, one each");
    assert_eq!(value("RPS"), "queues 0,2,3 off; 1 on cpu 2,3");
    assert_eq!(value("XPS"), "queues 0-3 on cpu 0-3, one each");
    assert_eq!(value("offloads"), "on: gro; off: lro");
    assert!(rows(&card).iter().flatten().all(|words| !words.is_empty()));
}

#[test]
fn the_hash_says_where_the_queries_of_one_client_go() {
    let of = |name: &str| value_and_meaning(&card(), name);
    let (fields, meaning) = of("hash of UDP/IPv4");
    assert_eq!(fields, "sd");
    assert!(meaning.contains("one queue"), "{meaning}");
    let (fields, meaning) = of("hash of UDP/IPv6");
    assert_eq!(fields, "sdfn");
    assert!(meaning.contains("spread"), "{meaning}");
}

#[test]
fn what_a_driver_lacks_is_said() {
    let device = DeviceSetup { rings: None, coalesce: None, rss: None, ..card() };
    for name in ["rings", "interrupt delay", "RSS"] {
        assert_eq!(value_and_meaning(&device, name).0, "not a setting of its driver", "{name}");
    }
}

#[test]
fn interrupts_that_the_kernel_keeps_are_marked() {
    let mut device = card();
    device.interrupts[2].managed = Some(true);
    assert!(
        value_and_meaning(&device, "interrupts")
            .0
            .ends_with("placed by the kernel, which refuses other cores")
    );
}

#[test]
fn a_core_shows_the_queues_that_it_receives() {
    let setup = HostSetup { devices: vec![card()], ..HostSetup::default() };
    // The interrupt of queue 0 never came.
    assert_eq!([0, 1, 9].map(|cpu| received_by(&setup, cpu)), ["-", "eth0 queue 1", "-"]);
    assert!(interrupts(&setup).contains("eth0-TxRx-3"));
}

#[test]
fn devices_without_hardware_stand_in_one_line() {
    let named = |name: &str| DeviceSetup { name: name.into(), ..DeviceSetup::default() };
    let steered = DeviceSetup { rps: [(0, vec![1])].into(), ..named("veth0") };
    let setup = HostSetup { devices: vec![card(), named("lo"), steered], ..HostSetup::default() };
    let sections = devices(&setup);
    assert_eq!(sections.len(), 2);
    assert_eq!(sections[1], "Devices without hardware: lo, veth0 (RPS: queue 0 on cpu 1).");
}
