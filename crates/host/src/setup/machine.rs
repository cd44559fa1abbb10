//! Memory, cores and what the kernel does with them.

use std::collections::BTreeMap;

use super::facts::{Conntrack, IdleState, NodeFacts};
use crate::files::Root;

const CPUS: &str = "sys/devices/system/cpu";

/// The parts of memory, by number.
pub(super) fn nodes(root: &Root) -> Vec<NodeFacts> {
    let folder = "sys/devices/system/node";
    let numbers = root.names(folder).into_iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
    let mut nodes: Vec<NodeFacts> = numbers
        .map(|node: u32| NodeFacts {
            node,
            cpus: root.list(&format!("{folder}/node{node}/cpulist")).unwrap_or_default(),
            memory_bytes: memory(root, &format!("{folder}/node{node}/meminfo")),
        })
        .collect();
    nodes.sort_by_key(|node| node.node);
    if nodes.is_empty() {
        nodes.push(NodeFacts { node: 0, cpus: online(root), memory_bytes: memory(root, "proc/meminfo") });
    }
    nodes
}

/// The bytes of memory in a file with a line `MemTotal: 1024 kB`, which may have words before.
fn memory(root: &Root, path: &str) -> u64 {
    let text = root.text(path).unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        let (_, rest) = line.split_once("MemTotal:")?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    kib.unwrap_or(0) * 1024
}

fn online(root: &Root) -> Vec<u32> {
    root.list(&format!("{CPUS}/online")).unwrap_or_default()
}

/// Whether cores run several threads.
pub(super) fn smt(root: &Root) -> Option<bool> {
    root.number(&format!("{CPUS}/smt/active")).ok().map(|active| active != 0)
}

/// Core → governor.
pub(super) fn governors(root: &Root) -> BTreeMap<u32, String> {
    let governor = |cpu| root.text(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor")).ok();
    online(root).into_iter().filter_map(|cpu| Some((cpu, governor(cpu)?))).collect()
}

/// The states of idle cores. Cores of two kinds may have different states of one number.
pub(super) fn idle_states(root: &Root) -> Vec<IdleState> {
    let mut states: BTreeMap<(u32, String), IdleState> = BTreeMap::new();
    for cpu in online(root) {
        let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
        for entry in root.names(&folder) {
            let Some(state) = entry.strip_prefix("state").and_then(|number| number.parse().ok()) else {
                continue;
            };
            let file = |name: &str| format!("{folder}/{entry}/{name}");
            let name = root.text(&file("name")).unwrap_or_default();
            let latency_us = root.number(&file("latency")).unwrap_or(0);
            let found = states.entry((state, name.clone())).or_insert_with(|| IdleState {
                state,
                name,
                latency_us,
                disabled_on: Vec::new(),
            });
            if root.number(&file("disable")).is_ok_and(|disabled| disabled != 0) {
                found.disabled_on.push(cpu);
            }
        }
    }
    states.into_values().collect()
}

/// The tracking of connections.
pub(super) fn conntrack(root: &Root) -> Conntrack {
    let folder = "proc/sys/net/netfilter";
    let number = |name: &str| root.text(&format!("{folder}/{name}")).ok()?.parse::<u64>().ok();
    let max = number("nf_conntrack_max");
    let loaded = max.is_some() || !root.names("sys/module/nf_conntrack").is_empty();
    Conntrack { loaded, count: number("nf_conntrack_count"), max }
}

/// The process whose program has this name, of those that this process sees.
pub(super) fn process_named(root: &Root, name: &str) -> Option<u32> {
    let mut processes = root.names("proc").into_iter().filter_map(|entry| entry.parse::<u32>().ok());
    processes.find(|pid| root.text(&format!("proc/{pid}/comm")).is_ok_and(|command| command == name))
}
