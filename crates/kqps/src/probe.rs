//! `kqps probe`: what works on this host and why the rest does not, what its devices can do for frames, and what a
//! container takes away.

mod container;
mod devices;
mod promise;

use std::process::ExitCode;

use comfy_table::Table;
use kqps_host::container::Facts;
use kqps_kernel::probe::probe;
use kqps_verdict::promise::Promise;
use schemars::JsonSchema;
use serde::Serialize;

use crate::print;
use crate::run::words::wrapped;
use crate::table::titled;
use container::Container;
use devices::Device;

const EXAMPLES: &str = "\
Examples:
  kqps probe
  kqps probe --json";

/// Show what works on this host, why the rest does not, and how closely a run here would know a rate
///
/// The devices are those with Ethernet frames. On each of them --io xdp passes the network stack: natively if the
/// driver hands frames over itself, otherwise after the stack has made a packet of each.
///
/// To forecast how closely a run would know a rate, it loads all cores for two seconds, a quarter of the time.
///
/// In a container this also says what the container takes away, and the flags of container engines that give it back.
/// If the program lacks rights that its file can get, this prints the setcap command that gives them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename = "probe")]
pub(crate) struct Probe {
    capabilities: Vec<Capability>,
    /// The devices with Ethernet frames.
    devices: Vec<Device>,
    /// Why the devices are not known; `None` if they are.
    devices_unknown: Option<String>,
    /// How closely runs on this host will know a rate.
    promise: Option<Promise>,
    /// Why that is not known; `None` if it is.
    promise_unknown: Option<String>,
    /// The container around this process; `None` if there is none.
    container: Option<Container>,
}

#[derive(Serialize, JsonSchema)]
struct Capability {
    name: &'static str,
    purpose: &'static str,
    works: bool,
    /// Why it does not work; `None` if it works.
    reason: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { json } = args;
    let capabilities: Vec<Capability> = probe()
        .into_iter()
        .map(|tried| Capability {
            name: tried.name,
            purpose: tried.purpose,
            works: tried.outcome.is_ok(),
            reason: tried.outcome.err(),
        })
        .collect();
    let (devices, devices_unknown) = match devices::all() {
        Ok(devices) => (devices, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let facts = Facts::read();
    let fails = |name: &str| capabilities.iter().any(|one| one.name == name && !one.works);
    let container = Container::from_facts(&facts, fails);
    let (promise, promise_unknown) = match promise::measure() {
        Ok(promise) => (Some(promise), None),
        Err(reason) => (None, Some(reason)),
    };
    let probe = Probe { capabilities, devices, devices_unknown, promise, promise_unknown, container };
    if *json {
        print::json(&print::Versioned::new(&probe))?;
    } else {
        print_for_readers(&probe, &facts);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_for_readers(probe: &Probe, facts: &Facts) {
    print!("{}\n", table(probe));
    match &probe.devices_unknown {
        Some(reason) => print!("\nThe devices of this host are not known: {reason}\n"),
        None if probe.devices.is_empty() => print!("\nThis host has no device with Ethernet frames.\n"),
        None => print!("\n{}\n", devices::table(&probe.devices)),
    }
    let promised = probe.promise.as_ref().ok_or(probe.promise_unknown.as_deref().unwrap_or_default());
    print!("\n{}", wrapped("", &promise::words(promised)));
    let program = std::env::current_exe().map_or_else(|_| "kqps".into(), |path| path.display().to_string());
    if let Some(container) = &probe.container {
        print!("\n{}", container.text());
    }
    if let Some(text) = container::setcap(facts, &program) {
        print!("\n{text}");
    }
}

fn table(probe: &Probe) -> Table {
    let mut table = titled(["", "works", "what it is good for, or why it does not work"]);
    for capability in &probe.capabilities {
        let works = if capability.works { "yes" } else { "no" };
        table.add_row([capability.name, works, capability.reason.as_deref().unwrap_or(capability.purpose)]);
    }
    table
}
