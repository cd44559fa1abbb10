//! The machines of the five studies, as far as the publications describe them. What they leave out is assumed, and
//! marked.

use std::collections::BTreeMap;
use std::ops::Range;

use kqps_host::setup::{Channels, DeviceSetup, Direction, HostSetup, QueueInterrupt};
use kqps_host::topology::Topology;
use kqps_observation::fingerprint::CoreFacts;
use kqps_tuning::advise::{Advice, Ask, Kind, Layout, advise};

/// A machine and its setup.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) setup: HostSetup,
    pub(crate) topology: Topology,
}

impl Rig {
    pub(crate) fn new(device: DeviceSetup, cores: Vec<CoreFacts>) -> Self {
        let setup = HostSetup { devices: vec![device], ..HostSetup::default() };
        Self { setup, topology: Topology { cores, ..Topology::default() } }
    }

    pub(crate) fn device(&mut self) -> &mut DeviceSetup {
        &mut self.setup.devices[0]
    }

    pub(crate) fn advice(&self, ask: &Ask) -> Advice {
        advise(&self.setup, &self.topology, ask)
    }

    /// The first layout for so many workers.
    pub(crate) fn first(&self, workers: Option<u32>) -> Layout {
        self.advice(&Ask { workers, ..Ask::default() }).layouts.remove(0)
    }
}

/// The layout of a kind.
pub(crate) fn layout(advice: &Advice, kind: Kind) -> &Layout {
    advice
        .layouts
        .iter()
        .find(|layout| layout.kind == kind)
        .unwrap_or_else(|| panic!("no {kind:?}: {advice:?}"))
}

/// The names and values of all settings of the pieces, as `NAME=VALUE`.
pub(crate) fn assignments(advice: &Advice) -> Vec<String> {
    let changes = advice.pieces.iter().flat_map(|piece| &piece.changes);
    changes.map(|(setting, value)| format!("{setting}={value}")).collect()
}

/// A network card with combined queues, each with an interrupt on its core.
pub(crate) fn card(
    driver: &str,
    node: Option<u32>,
    queues: u32,
    most: u32,
    core: impl Fn(u32) -> u32,
) -> DeviceSetup {
    let interrupt = |queue: u32| QueueInterrupt {
        irq: 40 + queue,
        name: format!("eth0-TxRx-{queue}"),
        queue: Some(queue),
        direction: Direction::Both,
        cpus: vec![core(queue)],
        effective: vec![core(queue)],
        ..QueueInterrupt::default()
    };
    DeviceSetup {
        name: "eth0".into(),
        bus: Some("0000:3b:00.0".into()),
        driver: Some(driver.into()),
        numa_node: node,
        speed_mbps: Some(10_000),
        is_up: true,
        queues: Channels { combined: queues, combined_max: most, ..Channels::default() },
        interrupts: (0..queues).map(interrupt).collect(),
        ..DeviceSetup::default()
    }
}

/// Logical cores `0..physical`, then their second threads. Physical cores that share a last-level cache are
/// neighbours, and so are those of a node.
pub(crate) fn cores(physical: u32, threads: u32, per_node: u32, per_cache: u32) -> Vec<CoreFacts> {
    let threads_of = |cores: Range<u32>| -> Vec<u32> {
        let thread = |thread: u32| cores.clone().map(move |core| thread * physical + core);
        (0..threads).flat_map(thread).collect()
    };
    let facts = |cpu: u32| {
        let core = cpu % physical;
        let first = core / per_cache * per_cache;
        let caches = [
            ("L1".to_owned(), threads_of(core..core + 1)),
            ("L3".to_owned(), threads_of(first..(first + per_cache).min(physical))),
        ];
        CoreFacts {
            cpu,
            package: core / per_node,
            core,
            numa_node: core / per_node,
            smt: threads_of(core..core + 1),
            caches: BTreeMap::from(caches),
        }
    };
    (0..physical * threads).map(facts).collect()
}

/// ISC, 2015: two Xeon X5355, as Linux numbers their cores: packages take turns, and cores 0 and 2, 1 and 3, 4 and 6,
/// 5 and 7 share an L2. One node. The card had 8 receive queues; here each has its core.
pub(crate) fn x5355() -> Rig {
    let facts = |cpu: u32| {
        let pair = vec![cpu & !2, cpu | 2];
        let caches = [("L1".to_owned(), vec![cpu]), ("L2".to_owned(), pair)];
        CoreFacts {
            cpu,
            package: cpu % 2,
            core: cpu / 2,
            numa_node: 0,
            smt: vec![cpu],
            caches: BTreeMap::from(caches),
        }
    };
    Rig::new(card("ixgbe", None, 8, 8, |queue| queue), (0..8).map(facts).collect())
}

/// The X5355 host with all interrupts on one core.
pub(crate) fn x5355_receiving_on(cpu: u32) -> Rig {
    let mut rig = x5355();
    *rig.device() = card("ixgbe", None, 8, 8, |_| cpu);
    rig
}

/// `NLnet` Labs: four cores of 200 MHz. Assumed: no shared cache, and a card with one queue, as all had then.
pub(crate) fn four_slow_cores() -> Rig {
    let facts = |cpu: u32| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
    Rig::new(card("hme", None, 1, 1, |_| 0), (0..4).map(facts).collect())
}

/// Microsoft: 20 cores. Assumed: two nodes of ten without a second thread, and 8 of 16 queues in use.
pub(crate) fn twenty_cores() -> Rig {
    Rig::new(card("ixgbe", Some(0), 8, 16, |queue| queue), cores(20, 1, 10, 10))
}

/// CZ.NIC, 2019: 128 threads. Assumed: one EPYC of 64 cores, four of which share an L3, and a card with 64 queues at
/// most.
pub(crate) fn epyc_128() -> Rig {
    Rig::new(card("i40e", Some(0), 64, 64, |queue| queue), cores(64, 2, 64, 4))
}

/// CZ.NIC, later: 256 threads, of which 192 queues were the most that could be used. Assumed: two EPYC of 64 cores.
pub(crate) fn epyc_256() -> Rig {
    Rig::new(card("mlx5_core", Some(0), 63, 192, |queue| queue), cores(128, 2, 64, 8))
}

/// BIND 10, 2013: four cores. Assumed: one L3, and a card with four queues.
pub(crate) fn four_cores() -> Rig {
    Rig::new(card("igb", Some(0), 4, 4, |queue| queue), cores(4, 1, 4, 4))
}
