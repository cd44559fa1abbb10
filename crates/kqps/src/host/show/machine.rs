//! The machine and its cores.

use comfy_table::Table;
use kqps_host::setup::HostSetup;
use kqps_host::split;
use kqps_host::topology::Topology;
use kqps_observation::{Fingerprint, cpu_list};

use super::devices::received_by;
use crate::table::{plain, titled};

/// The machine, and how it keeps time.
pub(super) fn machine(fingerprint: &Fingerprint) -> Table {
    let unknown = || "not known".to_owned();
    let microcode = fingerprint.microcode.as_ref().map(|code| format!(", microcode {code}"));
    let turbo = match fingerprint.turbo {
        Some(true) => "on: the frequency depends on how many cores are busy".into(),
        Some(false) => "off".into(),
        None => unknown(),
    };
    let (mitigated, vulnerable) = mitigations(fingerprint);
    let rows = [
        ("CPU", fingerprint.cpu_model.clone() + &microcode.unwrap_or_default()),
        ("Virtual", fingerprint.hypervisor.clone().map_or("no".into(), |name| format!("yes, {name}"))),
        ("Memory", format!("{:.1} GiB", fingerprint.memory_bytes as f64 / f64::from(1 << 30))),
        ("Kernel", fingerprint.kernel.clone()),
        ("System", fingerprint.os.clone().unwrap_or_else(unknown)),
        ("Clock source", fingerprint.clock_source.clone().unwrap_or_else(unknown)),
        ("Governor", fingerprint.governor.clone().unwrap_or_else(unknown)),
        ("Turbo", turbo),
        ("Mitigations", format!("{mitigated} in force, {vulnerable} CPU vulnerabilities left open")),
    ];
    let mut table = plain();
    for (name, value) in rows {
        table.add_row([name, &value]);
    }
    table
}

/// The numbers of the CPU's vulnerabilities that are mitigated and that are not.
fn mitigations(fingerprint: &Fingerprint) -> (usize, usize) {
    let beginning =
        |word: &str| fingerprint.mitigations.values().filter(|state| state.starts_with(word)).count();
    (beginning("Mitigation"), beginning("Vulnerable"))
}

pub(super) fn cores(topology: &Topology, setup: &HostSetup) -> Table {
    let mut table = titled(["cpu", "package", "core", "node", "same core", "same L2", "same L3", "receives"]);
    for core in &topology.cores {
        let cache =
            |level: &str| core.caches.get(level).map_or_else(|| "-".into(), |cpus| cpu_list::write(cpus));
        table.add_row([
            core.cpu.to_string(),
            core.package.to_string(),
            core.core.to_string(),
            core.numa_node.to_string(),
            cpu_list::write(&core.smt),
            cache("L2"),
            cache("L3"),
            received_by(setup, core.cpu),
        ]);
    }
    table
}

/// The cores that player and subject would get in a run on this machine alone.
pub(super) fn sides(topology: &Topology) -> String {
    let split = split(topology, 1, 1);
    let (player, subject) = (cpu_list::write(&split.player_cpus), cpu_list::write(&split.subject_cpus));
    if split.shared {
        return format!(
            "Player and subject have to share one core here (cpu {player} and {subject}): \
             figures of such a run are only relative."
        );
    }
    format!("A player and a subject of one core each are put on cpu {player} and cpu {subject}.")
}
