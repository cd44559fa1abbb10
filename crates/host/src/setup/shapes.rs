//! Hosts with one network card each, as six drivers show theirs: where the card is, how its interrupts are named, and
//! what the driver answers. Each has four cores on two nodes, and four queues.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::driver::{Answers, Driver};
use super::facts::HostSetup;
use crate::files::Root;

/// The number of cores, and of queues.
pub(super) const QUEUES: u32 = 4;

/// The number of the card's first interrupt.
pub(super) const FIRST_IRQ: u32 = 50;

/// A host by its card.
pub(super) struct Shape {
    pub(super) driver: &'static str,
    /// The card's folder below `sys/devices`.
    folder: &'static str,
    /// The folder of the device that has the interrupts, if it is another.
    interrupts_in: Option<&'static str>,
    numa_node: &'static str,
    /// The names of interrupts that serve no queue.
    others: &'static [&'static str],
    /// The names of the interrupts of each queue, with `#` for its number.
    of_queue: &'static [&'static str],
    /// The entries of the driver's table.
    entries: u32,
    answers: &'static str,
}

impl Driver for Shape {
    fn answers(&self, device: &str) -> Answers {
        if device != "eth0" {
            return Answers::default();
        }
        let mut answers: Answers = serde_json::from_str(self.answers).unwrap();
        if let Some(rss) = &mut answers.rss {
            rss.queues = (0..self.entries).map(|entry| entry % QUEUES).collect();
        }
        answers
    }
}

impl Shape {
    /// Reads the setup of the host, after `change` changed its files.
    pub(super) fn setup(&self, change: impl FnOnce(&Path)) -> HostSetup {
        let folder = TempDir::new().unwrap();
        self.write(folder.path());
        change(folder.path());
        HostSetup::read_at(&Root::at(folder.path()), self)
    }

    fn interrupts(&self) -> Vec<String> {
        let of_queues = (0..QUEUES)
            .flat_map(|queue| self.of_queue.iter().map(move |name| name.replace('#', &queue.to_string())));
        self.others.iter().map(|name| (*name).to_owned()).chain(of_queues).collect()
    }

    fn write(&self, root: &Path) {
        let card = format!("sys/devices/{}", self.folder);
        file(root, &format!("{card}/uevent"), "");
        symlink(format!("../drivers/{}", self.driver), root.join(&card).join("driver")).unwrap();
        let holder = format!("sys/devices/{}", self.interrupts_in.unwrap_or(self.folder));
        file(root, &format!("{holder}/numa_node"), self.numa_node);
        let mut table = String::from("      CPU0 CPU1 CPU2 CPU3\n 24: 0 0 0 0 PCI-MSI 950272-edge aerdrv");
        for (irq, name) in (FIRST_IRQ..).zip(self.interrupts()) {
            file(root, &format!("{holder}/msi_irqs/{irq}"), "msix");
            file(root, &format!("proc/irq/{irq}/smp_affinity_list"), "0-3");
            file(root, &format!("proc/irq/{irq}/effective_affinity_list"), &(irq % QUEUES).to_string());
            write!(table, "\n {irq}: 1 0 0 7 PCI-MSI 31457280-edge {name}").unwrap();
        }
        file(root, "proc/interrupts", &table);
        // The bridge above a card in a slot has interrupts of its own.
        file(root, "sys/devices/pci0000:3a/0000:3a:00.0/msi_irqs/24", "msi");
        file(root, "proc/irq/24/smp_affinity_list", "0-3");

        file(root, "sys/class/net/eth0/operstate", "up");
        file(root, "sys/class/net/eth0/mtu", "1500");
        file(root, "sys/class/net/eth0/speed", "10000");
        file(root, "sys/class/net/eth0/napi_defer_hard_irqs", "0");
        file(root, "sys/class/net/eth0/gro_flush_timeout", "20000");
        symlink(format!("../../../devices/{}", self.folder), root.join("sys/class/net/eth0/device")).unwrap();
        file(root, "sys/class/net/lo/operstate", "unknown");
        file(root, "sys/class/net/lo/mtu", "65536");
        file(root, "sys/class/net/lo/queues/rx-0/rps_cpus", "0");
        file(root, "sys/class/net/bonding_masters", "");
        for queue in 0..QUEUES {
            let queues = "sys/class/net/eth0/queues";
            file(root, &format!("{queues}/rx-{queue}/rps_cpus"), if queue == 1 { "c" } else { "0" });
            file(root, &format!("{queues}/rx-{queue}/rps_flow_cnt"), "0");
            file(root, &format!("{queues}/tx-{queue}/xps_cpus"), &format!("{:08x}", 1 << queue));
        }
        file(root, "proc/net/route", "Iface Destination\neth0 00000000 0102000A 0003 0 0 0 00000000 0 0 0");
        machine(root);
    }
}

/// The cores, the memory and the kernel's settings, which all hosts share.
fn machine(root: &Path) {
    file(root, "sys/devices/system/cpu/online", "0-3");
    file(root, "sys/devices/system/cpu/smt/active", "1");
    for cpu in 0..QUEUES {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        let governor = if cpu == 3 { "powersave" } else { "performance" };
        file(root, &format!("{folder}/cpufreq/scaling_governor"), governor);
        for (state, name, latency) in [(0, "POLL", "0"), (1, "C1", "2"), (2, "C6", "133")] {
            let state = format!("{folder}/cpuidle/state{state}");
            file(root, &format!("{state}/name"), name);
            file(root, &format!("{state}/latency"), latency);
            file(root, &format!("{state}/disable"), if name == "C6" && cpu > 1 { "1" } else { "0" });
        }
    }
    for (node, cpus) in [(0, "0-1"), (1, "2-3")] {
        let folder = format!("sys/devices/system/node/node{node}");
        file(root, &format!("{folder}/cpulist"), cpus);
        file(root, &format!("{folder}/meminfo"), &format!("Node {node} MemTotal:       16777216 kB"));
    }
    file(root, "proc/sys/net/core/rmem_max", "212992");
    file(root, "proc/sys/net/netfilter/nf_conntrack_max", "262144");
    file(root, "proc/sys/net/netfilter/nf_conntrack_count", "213");
    file(root, "proc/1/comm", "systemd");
    file(root, "proc/812/comm", "irqbalance");
}

/// Writes one file of a host.
pub(super) fn file(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// A card in a slot.
const SLOT: &str = "pci0000:3a/0000:3a:00.0/0000:3b:00.0";

pub(super) const IXGBE: Shape = Shape {
    driver: "ixgbe",
    folder: SLOT,
    interrupts_in: None,
    numa_node: "1",
    others: &["eth0"],
    of_queue: &["eth0-TxRx-#"],
    entries: 128,
    answers: include_str!("cards/ixgbe.json"),
};

pub(super) const I40E: Shape = Shape {
    driver: "i40e",
    others: &["i40e-0000:3b:00.0:misc", "i40e-0000:3b:00.0:fdir-TxRx-0"],
    of_queue: &["i40e-eth0-TxRx-#"],
    entries: 512,
    answers: include_str!("cards/i40e.json"),
    ..IXGBE
};

pub(super) const ICE: Shape = Shape {
    driver: "ice",
    others: &["ice-0000:3b:00.0:misc"],
    of_queue: &["ice-eth0-TxRx-#"],
    entries: 2048,
    answers: include_str!("cards/ice.json"),
    ..IXGBE
};

pub(super) const MLX5: Shape = Shape {
    driver: "mlx5_core",
    others: &["mlx5_async0@pci:0000:3b:00.0"],
    of_queue: &["mlx5_comp#@pci:0000:3b:00.0"],
    entries: 256,
    answers: include_str!("cards/mlx5.json"),
    ..IXGBE
};

pub(super) const ENA: Shape = Shape {
    driver: "ena",
    folder: "pci0000:00/0000:00:05.0",
    numa_node: "-1",
    others: &["ena-mgmnt@pci:0000:00:05.0"],
    of_queue: &["eth0-Tx-Rx-#"],
    entries: 128,
    answers: include_str!("cards/ena.json"),
    ..IXGBE
};

pub(super) const VIRTIO: Shape = Shape {
    driver: "virtio_net",
    folder: "pci0000:00/0000:00:03.0/virtio3",
    interrupts_in: Some("pci0000:00/0000:00:03.0"),
    others: &["virtio3-config"],
    of_queue: &["virtio3-input.#", "virtio3-output.#"],
    entries: 0,
    answers: include_str!("cards/virtio.json"),
    ..IXGBE
};
