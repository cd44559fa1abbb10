//! Memory, cores and the kernel's settings.

use std::collections::BTreeMap;

use comfy_table::Table;
use kqps_host::setup::{Conntrack, HostSetup, IdleState, NodeFacts};
use kqps_observation::{Fingerprint, cpu_list};

use super::table::{Row, row, rows_of};
use crate::table::plain;

/// Memory, cores, and the programs that move interrupts or track packets.
pub(super) fn settings(setup: &HostSetup) -> Table {
    let mut rows: Vec<Row> = setup.nodes.iter().map(node).collect();
    let smt = match setup.smt {
        Some(true) => "on",
        Some(false) => "off",
        None => "not known",
    };
    let irqbalance = match setup.irqbalance {
        Some(process) => format!("runs as process {process}"),
        None => "not seen".into(),
    };
    let (governors, idle_states) = (governors(&setup.governor), idle_states(&setup.idle_states));
    let tracked = conntrack(&setup.conntrack);
    rows.extend([
        row("SMT", smt.into(), "two threads of a core share its units, and answer less than two cores"),
        row("governor", governors, "others than performance lower the frequency at low load"),
        row("idle states", idle_states, "a core that sleeps answers later by this time"),
        row("conntrack", tracked, "if rules use it: time for each packet, and drops if it is full"),
        row("irqbalance", irqbalance, "moves interrupts to other cores, also those that were placed by hand"),
    ]);
    rows_of(&rows)
}

fn node(facts: &NodeFacts) -> Row {
    let memory = facts.memory_bytes as f64 / f64::from(1 << 30);
    let value = format!("cpu {}, {memory:.1} GiB", cpu_list::write(&facts.cpus));
    row(&format!("node {}", facts.node), value, "memory and cards of other nodes are further away")
}

fn governors(governors: &BTreeMap<u32, String>) -> String {
    let mut cpus: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (cpu, governor) in governors {
        cpus.entry(governor.as_str()).or_default().push(*cpu);
    }
    if cpus.is_empty() {
        return "none: the kernel does not control the frequency".into();
    }
    let words = cpus.iter().map(|(governor, cpus)| format!("{governor} on cpu {}", cpu_list::write(cpus)));
    words.collect::<Vec<_>>().join(", ")
}

fn idle_states(states: &[IdleState]) -> String {
    let words = states.iter().map(|state| {
        let off = if state.disabled_on.is_empty() {
            String::new()
        } else {
            format!(" (off on cpu {})", cpu_list::write(&state.disabled_on))
        };
        format!("{} {} µs{off}", state.name, state.latency_us)
    });
    let words = words.collect::<Vec<_>>().join(", ");
    if words.is_empty() { "none are known".into() } else { words }
}

fn conntrack(conntrack: &Conntrack) -> String {
    match (conntrack.loaded, conntrack.count, conntrack.max) {
        (false, ..) => "not loaded".into(),
        (true, Some(count), Some(max)) => format!("loaded, {count} of at most {max} flows"),
        (true, ..) => "loaded".into(),
    }
}

/// The settings that most often limit a result, with their meanings.
const SETTINGS: [(&str, &str); 14] = [
    ("net.core.rmem_max", "bytes that a socket may buffer of what it receives, without privilege"),
    ("net.core.rmem_default", "the same for a socket that asks for nothing"),
    ("net.core.wmem_max", "bytes that a socket may buffer of what it sends, without privilege"),
    ("net.core.wmem_default", "the same for a socket that asks for nothing"),
    ("net.core.netdev_max_backlog", "packets that wait for one core before more are dropped"),
    ("net.core.netdev_budget", "packets that one round of receiving handles at most"),
    ("net.core.netdev_budget_usecs", "microseconds that such a round lasts at most"),
    ("net.core.busy_poll", "microseconds that poll and select look into the device themselves"),
    ("net.core.busy_read", "microseconds that a read looks into the device itself"),
    ("net.core.rps_sock_flow_entries", "flows that RFS knows: packets go to the core that reads them"),
    ("net.ipv4.udp_mem", "pages for all UDP sockets: low, pressure, limit"),
    ("net.ipv4.udp_early_demux", "whether a socket is looked up before routing"),
    ("net.ipv4.ip_local_port_range", "ports that sockets get when they ask for any"),
    ("kernel.numa_balancing", "whether the kernel moves memory to its threads, which interrupts them"),
];

pub(super) fn limits(fingerprint: &Fingerprint) -> Table {
    let mut table = plain();
    for (name, meaning) in SETTINGS {
        let value = fingerprint.sysctls.get(name).map_or("not known", String::as_str);
        table.add_row([name, value, meaning]);
    }
    for (name, value) in &fingerprint.limits {
        table.add_row([name.as_str(), value, "of this process"]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_with_one_governor_stand_together() {
        let of = |governor: &str| governor.to_owned();
        let cpus = [(0, of("performance")), (1, of("performance")), (2, of("powersave"))];
        assert_eq!(governors(&BTreeMap::from(cpus)), "performance on cpu 0,1, powersave on cpu 2");
        assert!(governors(&BTreeMap::new()).starts_with("none"));
    }

    #[test]
    fn idle_states_have_their_time_to_wake() {
        let state = |name: &str, latency_us, disabled_on: &[u32]| IdleState {
            name: name.into(),
            latency_us,
            disabled_on: disabled_on.into(),
            ..IdleState::default()
        };
        let states = [state("C1", 2, &[]), state("C6", 133, &[0, 1])];
        assert_eq!(idle_states(&states), "C1 2 µs, C6 133 µs (off on cpu 0,1)");
        assert_eq!(idle_states(&[]), "none are known");
    }

    #[test]
    fn what_the_host_lacks_is_said() {
        let text = settings(&HostSetup::default()).trim_fmt();
        for wanted in ["not known", "not loaded", "not seen"] {
            assert!(text.contains(wanted), "no {wanted} in:\n{text}");
        }
        let full = Conntrack { loaded: true, count: Some(213), max: Some(262_144) };
        assert_eq!(conntrack(&full), "loaded, 213 of at most 262144 flows");
    }
}
