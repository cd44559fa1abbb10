//! `kqps host show`: the properties of this machine that matter to a benchmark, in words and tables.

use std::process::ExitCode;

use comfy_table::{Table, presets};
use kqps_host::fingerprint;
use kqps_host::split;
use kqps_host::topology::Topology;
use kqps_observation::{Fingerprint, SCHEMA, cpu_list};
use schemars::JsonSchema;
use serde::Serialize;

use crate::print;

#[derive(Serialize, JsonSchema)]
pub(crate) struct HostOutput<'a> {
    schema: u32,
    kind: &'static str,
    /// How kqps would share the cores between a player and a subject of one core each.
    player_cpus: Vec<u32>,
    subject_cpus: Vec<u32>,
    shared: bool,
    #[serde(flatten)]
    fingerprint: &'a Fingerprint,
}

/// Prints all that is known of this machine, as one JSON object if `as_json` is set.
pub(crate) fn run(as_json: bool) -> anyhow::Result<ExitCode> {
    let topology = Topology::read();
    let fingerprint = fingerprint::read();
    if as_json {
        let split = split(&topology, 1, 1);
        let output = HostOutput {
            schema: SCHEMA,
            kind: "host",
            player_cpus: split.player_cpus,
            subject_cpus: split.subject_cpus,
            shared: split.shared,
            fingerprint: &fingerprint,
        };
        print::json(&output)?;
    } else {
        print!("{}", words(&topology, &fingerprint));
    }
    Ok(ExitCode::SUCCESS)
}

fn words(topology: &Topology, fingerprint: &Fingerprint) -> String {
    let mut sections = vec![
        machine(fingerprint).trim_fmt(),
        format!("Cores that may be used here:\n{}\n{}", cores(topology).trim_fmt(), sides(topology)),
        interrupts(topology),
        format!("Limits:\n{}", limits(fingerprint).trim_fmt()),
    ];
    if !fingerprint.unreadable.is_empty() {
        let reasons = fingerprint.unreadable.iter().map(|(what, why)| format!("  {what}: {why}\n"));
        sections.push(format!("Not known:\n{}", reasons.collect::<String>().trim_end()));
    }
    sections.join("\n\n") + "\n"
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// The machine, and how it keeps time.
fn machine(fingerprint: &Fingerprint) -> Table {
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
    let mut table = table();
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

fn cores(topology: &Topology) -> Table {
    let mut table = table();
    table.set_header(["cpu", "package", "core", "node", "same core", "same L2", "same L3", "takes"]);
    for core in &topology.cores {
        let cache =
            |level: &str| core.caches.get(level).map_or_else(|| "-".into(), |cpus| cpu_list::write(cpus));
        let takes = match topology.interrupts_on(core.cpu) {
            0 => "-".into(),
            1 => "1 network interrupt".into(),
            many => format!("{many} network interrupts"),
        };
        table.add_row([
            core.cpu.to_string(),
            core.package.to_string(),
            core.core.to_string(),
            core.numa_node.to_string(),
            cpu_list::write(&core.smt),
            cache("L2"),
            cache("L3"),
            takes,
        ]);
    }
    table
}

/// The cores that player and subject would get in a run on this machine alone.
fn sides(topology: &Topology) -> String {
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

fn interrupts(topology: &Topology) -> String {
    if topology.interrupts.is_empty() {
        return "Interrupts of network devices: none are known.".into();
    }
    let mut table = table();
    table.set_header(["irq", "device", "name", "goes to", "since boot"]);
    for interrupt in &topology.interrupts {
        table.add_row([
            interrupt.irq.to_string(),
            interrupt.device.clone(),
            interrupt.name.clone(),
            cpu_list::write(&interrupt.cpus),
            interrupt.count.to_string(),
        ]);
    }
    format!("Interrupts of network devices:\n{}", table.trim_fmt())
}

/// The settings that most often limit a result, with their meanings.
const SETTINGS: [(&str, &str); 9] = [
    ("net.core.rmem_max", "bytes that a socket may buffer of what it receives, without privilege"),
    ("net.core.rmem_default", "the same for a socket that asks for nothing"),
    ("net.core.wmem_max", "bytes that a socket may buffer of what it sends, without privilege"),
    ("net.core.netdev_max_backlog", "packets that wait for one core before more are dropped"),
    ("net.core.netdev_budget", "packets that one round of receiving handles at most"),
    ("net.core.busy_poll", "microseconds that poll and select look into the device themselves"),
    ("net.ipv4.udp_mem", "pages for all UDP sockets: low, pressure, limit"),
    ("net.ipv4.udp_early_demux", "whether a socket is looked up before routing"),
    ("net.ipv4.ip_local_port_range", "ports that sockets get when they ask for any"),
];

fn limits(fingerprint: &Fingerprint) -> Table {
    let mut table = table();
    for (name, meaning) in SETTINGS {
        let value = fingerprint.sysctls.get(name).map_or("not known", String::as_str);
        table.add_row([name, value, meaning]);
    }
    for (name, value) in &fingerprint.limits {
        table.add_row([name.as_str(), value, "of this process"]);
    }
    table
}
