//! The sysctls that may change a figure.

use std::collections::BTreeMap;

use crate::files::Root;

/// Settings that affect packets, timers or memory, by their dotted names.
pub(crate) fn read(root: &Root) -> BTreeMap<String, String> {
    let wanted = |group: &str, name: &str| match group {
        "net/core" => true,
        "net/ipv4" => {
            name.starts_with("udp_") || ["ip_local_port_range", "ip_early_demux", "tcp_mem"].contains(&name)
        }
        "kernel" => {
            let moves = ["numa_balancing", "sched_rt_runtime_us", "timer_migration", "nmi_watchdog"];
            moves.contains(&name) || name == "io_uring_disabled"
        }
        _ => ["swappiness", "overcommit_memory", "nr_hugepages"].contains(&name),
    };
    let mut sysctls = BTreeMap::new();
    for group in ["net/core", "net/ipv4", "kernel", "vm"] {
        for (name, value) in root.texts(&format!("proc/sys/{group}"), |name| wanted(group, name)) {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            sysctls.insert(format!("{}.{name}", group.replace('/', ".")), value);
        }
    }
    sysctls
}
