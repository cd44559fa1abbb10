//! The cores that this process may use, and what they share. They come from `/sys/devices/system`, reduced to
//! the process's affinity mask, which respects a container or `taskset`.

use std::collections::BTreeMap;
use std::io;

use kqps_observation::fingerprint::CoreFacts;
use serde::{Deserialize, Serialize};

use crate::files::Root;
use crate::interrupts;
use crate::unreadable::noted;

pub use crate::interrupts::Interrupt;

/// Logical cores and the interrupts of network devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The cores that this process may use, by number. Never empty.
    pub cores: Vec<CoreFacts>,
    /// Interrupts of network devices, by number; empty if they cannot be read.
    pub interrupts: Vec<Interrupt>,
    /// Facts that could not be read, and why.
    pub unreadable: BTreeMap<String, String>,
}

impl Topology {
    /// Reads this machine, as far as the calling thread may use it. If the machine reports nothing, each
    /// number in the mask counts as a core without siblings.
    pub fn read() -> Self {
        let mut unreadable = BTreeMap::new();
        let allowed = noted("affinity", kqps_kernel::affinity::allowed(), &mut unreadable);
        Self::from(&Root::real(), &allowed, unreadable)
    }

    pub(crate) fn from(root: &Root, allowed: &[u32], mut unreadable: BTreeMap<String, String>) -> Self {
        let mut cpus = root.list("sys/devices/system/cpu/online").unwrap_or_else(|error| {
            unreadable.insert("cpu/online".into(), error.to_string());
            allowed.to_vec()
        });
        if !allowed.is_empty() {
            cpus.retain(|cpu| allowed.contains(cpu));
        }
        if cpus.is_empty() {
            cpus.push(0);
        }
        let nodes = numa_nodes(root);
        let mut cores: Vec<CoreFacts> =
            cpus.iter().map(|&cpu| core(root, cpu, &nodes, &mut unreadable)).collect();
        cores.sort_by_key(|core| core.cpu);
        let interrupts = noted("interrupts", interrupts::read(root), &mut unreadable);
        Self { cores, interrupts, unreadable }
    }

    /// The number of interrupts that go to a core, of network devices in use (with at least one interrupt so
    /// far).
    pub fn interrupts_on(&self, cpu: u32) -> usize {
        self.interrupts
            .iter()
            .filter(|interrupt| interrupt.count > 0 && interrupt.cpus.contains(&cpu))
            .count()
    }
}

/// The online cores, including those that this process may not use; empty if the kernel does not report them.
pub fn online() -> Vec<u32> {
    Root::real().list("sys/devices/system/cpu/online").unwrap_or_default()
}

fn core(
    root: &Root,
    cpu: u32,
    nodes: &BTreeMap<u32, u32>,
    unreadable: &mut BTreeMap<String, String>,
) -> CoreFacts {
    let folder = format!("sys/devices/system/cpu/cpu{cpu}");
    let mut or_noted = |what: &str, outcome: io::Result<u32>, otherwise: u32| {
        outcome.unwrap_or_else(|error| {
            unreadable.insert(format!("cpu{cpu}/{what}"), error.to_string());
            otherwise
        })
    };
    let package = or_noted("package", root.number(&format!("{folder}/topology/physical_package_id")), 0);
    let core = or_noted("core", root.number(&format!("{folder}/topology/core_id")), cpu);
    let smt = root
        .list(&format!("{folder}/topology/core_cpus_list"))
        .or_else(|_| root.list(&format!("{folder}/topology/thread_siblings_list")))
        .unwrap_or_default();
    CoreFacts {
        cpu,
        package,
        core,
        numa_node: nodes.get(&cpu).copied().unwrap_or(0),
        smt: if smt.is_empty() { vec![cpu] } else { smt },
        caches: caches(root, &folder),
    }
}

/// Data and unified caches by level, with the cores that share them.
fn caches(root: &Root, folder: &str) -> BTreeMap<String, Vec<u32>> {
    let mut caches = BTreeMap::new();
    for index in root.names(&format!("{folder}/cache")) {
        let file = |name: &str| format!("{folder}/cache/{index}/{name}");
        let Ok(level) = root.number(&file("level")) else { continue };
        let instructions = root.text(&file("type")).is_ok_and(|kind| kind == "Instruction");
        if let (false, Ok(cpus)) = (instructions, root.list(&file("shared_cpu_list"))) {
            caches.insert(format!("L{level}"), cpus);
        }
    }
    caches
}

/// Core → node. Empty on a kernel without NUMA.
fn numa_nodes(root: &Root) -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    for name in root.names("sys/devices/system/node") {
        let Some(node) = name.strip_prefix("node").and_then(|number| number.parse().ok()) else { continue };
        let cpus = root.list(&format!("sys/devices/system/node/{name}/cpulist")).unwrap_or_default();
        nodes.extend(cpus.into_iter().map(|cpu| (cpu, node)));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{DESKTOP, TWO_SOCKETS};

    #[test]
    fn threads_of_one_core_know_each_other() {
        let topology = DESKTOP.topology(&[]);
        assert_eq!(topology.cores.len(), 16);
        assert_eq!(topology.unreadable, BTreeMap::new());
        let tenth = &topology.cores[10];
        assert_eq!((tenth.cpu, tenth.core, tenth.smt.as_slice()), (10, 2, [2, 10].as_slice()));
        assert_eq!(tenth.caches["L1"], [2, 10]);
        assert_eq!(tenth.caches["L3"], (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn sockets_nodes_and_shared_caches_are_distinguished() {
        let topology = TWO_SOCKETS.topology(&[]);
        let seventh = &topology.cores[7];
        assert_eq!((seventh.package, seventh.core, seventh.numa_node), (1, 3, 1));
        assert_eq!(seventh.caches["L2"], [6, 7]);
        assert_eq!(seventh.caches["L3"], [4, 5, 6, 7]);
    }

    #[test]
    fn only_cores_in_the_mask_are_offered() {
        let offered = TWO_SOCKETS.topology(&[2, 5, 99]).cores;
        assert_eq!(offered.iter().map(|core| core.cpu).collect::<Vec<_>>(), [2, 5]);
    }

    #[test]
    fn interrupts_of_network_devices_that_came_at_least_once_count() {
        let topology = DESKTOP.topology(&[]);
        assert_eq!(
            topology.interrupts.iter().map(|interrupt| interrupt.irq).collect::<Vec<_>>(),
            [40, 41, 42]
        );
        assert_eq!(topology.interrupts[1].device, "eth0");
        let on = |cpu| topology.interrupts_on(cpu);
        assert_eq!([on(1), on(8), on(5), on(3)], [1, 1, 0, 0]);
    }

    #[test]
    fn a_machine_that_reports_nothing_has_the_cores_of_the_mask() {
        let empty = tempfile::TempDir::new().unwrap();
        let topology = Topology::from(&Root::at(empty.path()), &[0, 1], BTreeMap::new());
        assert_eq!(topology.cores.iter().map(|core| core.smt.clone()).collect::<Vec<_>>(), [[0], [1]]);
        assert!(topology.unreadable.contains_key("cpu/online"));
    }

    #[test]
    fn this_machine_offers_what_may_be_used() {
        let offered: Vec<u32> = Topology::read().cores.iter().map(|core| core.cpu).collect();
        assert_eq!(offered, kqps_kernel::affinity::allowed().unwrap());
    }
}
