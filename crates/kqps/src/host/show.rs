//! `kqps host show`: the properties of this machine that matter to a benchmark, in words and tables.

mod devices;
mod machine;
mod settings;
mod table;

use std::collections::BTreeMap;
use std::process::ExitCode;

use kqps_host::fingerprint;
use kqps_host::setup::HostSetup;
use kqps_host::split;
use kqps_host::topology::Topology;
use kqps_observation::{Fingerprint, SCHEMA};
use schemars::JsonSchema;
use serde::Serialize;

use crate::print;
use devices::{devices, interrupts};
use machine::{cores, machine, sides};
use settings::{limits, settings};

#[derive(Serialize, JsonSchema)]
pub(crate) struct HostOutput<'a> {
    schema: u32,
    kind: &'static str,
    /// How kqps would share the cores between a player and a subject of one core each.
    player_cpus: Vec<u32>,
    subject_cpus: Vec<u32>,
    shared: bool,
    /// Queues, the cores that serve them, and the other settings that packets meet.
    setup: &'a HostSetup,
    #[serde(flatten)]
    fingerprint: &'a Fingerprint,
}

/// Prints all that is known of this machine, as one JSON object if `as_json` is set.
pub(crate) fn run(as_json: bool) -> anyhow::Result<ExitCode> {
    let topology = Topology::read();
    let fingerprint = fingerprint::read();
    let setup = HostSetup::read();
    if as_json {
        let split = split(&topology, 1, 1);
        let output = HostOutput {
            schema: SCHEMA,
            kind: "host",
            player_cpus: split.player_cpus,
            subject_cpus: split.subject_cpus,
            shared: split.shared,
            setup: &setup,
            fingerprint: &fingerprint,
        };
        print::json(&output)?;
    } else {
        print!("{}", words(&topology, &fingerprint, &setup));
    }
    Ok(ExitCode::SUCCESS)
}

fn words(topology: &Topology, fingerprint: &Fingerprint, setup: &HostSetup) -> String {
    let cores = cores(topology, setup);
    let mut sections = vec![
        machine(fingerprint).trim_fmt(),
        format!("Cores that may be used here:\n{}\n{}", cores.trim_fmt(), sides(topology)),
        format!("Memory, cores and interrupts:\n{}", settings(setup).trim_fmt()),
    ];
    sections.extend(devices(setup));
    sections.push(interrupts(setup));
    sections.push(format!("Limits:\n{}", limits(fingerprint).trim_fmt()));
    let unreadable: BTreeMap<_, _> = fingerprint.unreadable.iter().chain(&setup.unreadable).collect();
    if !unreadable.is_empty() {
        let reasons = unreadable.iter().map(|(what, why)| format!("  {what}: {why}\n"));
        sections.push(format!("Not known:\n{}", reasons.collect::<String>().trim_end()));
    }
    sections.join("\n\n") + "\n"
}
