//! Hosts with the cards of six drivers, and this machine.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::shapes::{ENA, FIRST_IRQ, I40E, ICE, IXGBE, MLX5, QUEUES, Shape, VIRTIO, file};
use super::*;

/// The host's card.
fn card(shape: &Shape) -> DeviceSetup {
    let setup = shape.setup(|_| ());
    assert_eq!(setup.unreadable, BTreeMap::new(), "{}", shape.driver);
    setup.device("eth0").unwrap().clone()
}

#[test]
fn each_queue_has_its_interrupt() {
    for shape in [IXGBE, I40E, ICE, MLX5, ENA] {
        let card = card(&shape);
        let serving: Vec<&QueueInterrupt> =
            card.interrupts.iter().filter(|interrupt| interrupt.queue.is_some()).collect();
        let queues: Vec<Option<u32>> = serving.iter().map(|interrupt| interrupt.queue).collect();
        assert_eq!(queues, [Some(0), Some(1), Some(2), Some(3)], "{}", shape.driver);
        for interrupt in &serving {
            assert_eq!(interrupt.direction, Direction::Both, "{}", interrupt.name);
            assert_eq!((interrupt.cpus.as_slice(), interrupt.count), ([0, 1, 2, 3].as_slice(), 8));
            assert_eq!(interrupt.takers(), [interrupt.irq % QUEUES]);
        }
        // The bridge's is not among the others.
        assert!(card.interrupts.iter().all(|interrupt| interrupt.irq >= FIRST_IRQ), "{}", shape.driver);
        assert!(card.interrupts.len() > serving.len(), "{}", shape.driver);
    }
}

#[test]
fn the_queues_of_virtio_have_two_interrupts_each() {
    let interrupts = card(&VIRTIO).interrupts;
    let of = |interrupt: &QueueInterrupt| (interrupt.name.clone(), interrupt.direction, interrupt.queue);
    assert_eq!(of(&interrupts[0]), ("virtio3-config".into(), Direction::Other, None));
    assert_eq!(of(&interrupts[3]), ("virtio3-input.1".into(), Direction::Receive, Some(1)));
    assert_eq!(of(&interrupts[4]), ("virtio3-output.1".into(), Direction::Send, Some(1)));
    assert_eq!(interrupts.len(), 9);
    // Without PCI there are no message-signalled interrupts, and only the name is left.
    let signalled = "sys/devices/pci0000:00/0000:00:03.0/msi_irqs";
    let setup = VIRTIO.setup(|root| fs::remove_dir_all(root.join(signalled)).unwrap());
    assert_eq!(setup.device("eth0").unwrap().interrupts, interrupts);
}

#[test]
fn every_driver_has_its_own_limits() {
    let most = |shape: &Shape| {
        let card = card(shape);
        assert_eq!((card.queues.receiving(), card.queues.sending()), (QUEUES, QUEUES), "{}", shape.driver);
        (card.queues.receiving_max(), card.rings.unwrap().rx_max, card.rss.map_or(0, |rss| rss.queues.len()))
    };
    assert_eq!(most(&IXGBE), (63, 4096, 128));
    assert_eq!(most(&I40E), (64, 4096, 512));
    assert_eq!(most(&ICE), (127, 8160, 2048));
    assert_eq!(most(&MLX5), (127, 8192, 256));
    assert_eq!(most(&ENA), (8, 8192, 128));
    assert_eq!(most(&VIRTIO), (4, 256, 0));
}

#[test]
fn a_card_has_a_place() {
    let place = |shape: &Shape| {
        let card = card(shape);
        (card.driver.unwrap(), card.bus.unwrap(), card.numa_node)
    };
    assert_eq!(place(&IXGBE), ("ixgbe".into(), "0000:3b:00.0".into(), Some(1)));
    assert_eq!(place(&ENA), ("ena".into(), "0000:00:05.0".into(), None));
    assert_eq!(place(&VIRTIO), ("virtio_net".into(), "0000:00:03.0".into(), Some(1)));
    let card = card(&IXGBE);
    assert_eq!((card.speed_mbps, card.mtu), (Some(10_000), 1500));
    assert!(card.is_up && card.carries_default_route);
    assert_eq!(card.rss.unwrap().fields_udp4.as_deref(), Some("sd"));
    assert_eq!((card.defer_hard_irqs, card.flush_timeout_ns, card.threaded), (Some(0), Some(20_000), None));
    assert_eq!(card.permanent_mac, Some([0x90, 0xe2, 0xba, 1, 2, 3]));
}

#[test]
fn software_steers_by_queue() {
    let card = card(&IXGBE);
    assert_eq!(card.rps, BTreeMap::from([(0, vec![]), (1, vec![2, 3]), (2, vec![]), (3, vec![])]));
    assert_eq!(card.xps, BTreeMap::from([0, 1, 2, 3].map(|queue| (queue, vec![queue]))));
    assert_eq!(card.rfs_flows.values().sum::<u32>(), 0);
}

#[test]
fn an_interrupt_that_nobody_may_move_is_managed() {
    let irq = FIRST_IRQ + 1;
    let managed = |setup: &HostSetup| setup.device("eth0").unwrap().interrupts[1].managed;
    assert_eq!(managed(&IXGBE.setup(|_| ())), None);
    let read_only = IXGBE.setup(|root| {
        let path = root.join(format!("proc/irq/{irq}/smp_affinity_list"));
        fs::set_permissions(path, Permissions::from_mode(0o444)).unwrap();
    });
    assert_eq!(managed(&read_only), Some(true));
    let with_flags = |flags: &str| {
        managed(&IXGBE.setup(|root| file(root, &format!("sys/kernel/debug/irq/irqs/{irq}"), flags)))
    };
    assert_eq!(with_flags("dstate: 0x1 IRQD_ACTIVATED IRQD_AFFINITY_MANAGED"), Some(true));
    assert_eq!(with_flags("dstate: 0x1 IRQD_ACTIVATED"), Some(false));
}

#[test]
fn a_device_without_hardware_has_its_queues() {
    let setup = IXGBE.setup(|root| file(root, "sys/class/net/lo/queues/tx-0/tx_timeout", "0"));
    assert_eq!(setup.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>(), ["eth0", "lo"]);
    let loopback = setup.device("lo").unwrap();
    let queues = Channels { rx: 1, tx: 1, rx_max: 1, tx_max: 1, ..Channels::default() };
    assert_eq!((loopback.queues, loopback.bus.clone(), loopback.rings), (queues, None, None));
    assert!(loopback.is_up && !loopback.carries_default_route);
}

#[test]
fn memory_cores_and_the_kernels_settings_are_read() {
    let setup = IXGBE.setup(|_| ());
    let node = |node, cpus: &[u32]| NodeFacts { node, cpus: cpus.into(), memory_bytes: 16 << 30 };
    assert_eq!(setup.nodes, [node(0, &[0, 1]), node(1, &[2, 3])]);
    assert_eq!(setup.smt, Some(true));
    assert_eq!((setup.governor[&0].as_str(), setup.governor[&3].as_str()), ("performance", "powersave"));
    let deepest = setup.idle_states.last().unwrap();
    let wanted = IdleState { state: 2, name: "C6".into(), latency_us: 133, disabled_on: vec![2, 3] };
    assert_eq!((setup.idle_states.len(), deepest), (3, &wanted));
    assert_eq!(setup.sysctls["net.core.rmem_max"], "212992");
    assert_eq!(setup.conntrack, Conntrack { loaded: true, count: Some(213), max: Some(262_144) });
    assert_eq!(setup.irqbalance, Some(812));
}

#[test]
fn a_machine_that_reports_nothing_has_no_devices() {
    let empty = tempfile::TempDir::new().unwrap();
    let setup = HostSetup::read_at(&Root::at(empty.path()), &IXGBE);
    assert_eq!((setup.devices, setup.smt, setup.conntrack), (vec![], None, Conntrack::default()));
    assert_eq!(setup.nodes, [NodeFacts::default()]);
    assert!(setup.unreadable.contains_key("interrupts"));
}

#[test]
fn what_a_driver_refuses_is_noted() {
    struct Refuses;
    impl Driver for Refuses {
        fn answers(&self, _: &str) -> Answers {
            Answers { unreadable: [("rings".to_owned(), "no".to_owned())].into(), ..Answers::default() }
        }
    }
    let folder = tempfile::TempDir::new().unwrap();
    file(folder.path(), "sys/class/net/eth0/operstate", "up");
    file(folder.path(), "proc/interrupts", "CPU0");
    let setup = HostSetup::read_at(&Root::at(folder.path()), &Refuses);
    assert_eq!(setup.unreadable, BTreeMap::from([("eth0/rings".to_owned(), "no".to_owned())]));
}

#[test]
fn this_machine_is_read_and_can_be_sent() {
    let setup = HostSetup::read();
    let loopback = setup.device("lo").unwrap();
    assert_eq!((loopback.queues.receiving(), loopback.bus.as_ref(), loopback.rss.as_ref()), (1, None, None));
    assert!(loopback.features.contains_key("gro"), "{:?}", loopback.features);
    assert!(setup.nodes.iter().all(|node| node.memory_bytes > 0), "{:?}", setup.nodes);
    assert!(setup.sysctls.contains_key("net.core.rmem_max"));
    let sent = serde_json::to_string(&setup).unwrap();
    assert_eq!(serde_json::from_str::<HostSetup>(&sent).unwrap(), setup);
}
