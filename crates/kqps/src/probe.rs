//! `kqps probe`: what works on this host, and why the rest does not.

use std::process::ExitCode;

use comfy_table::{Table, presets};
use kqps_kernel::probe::probe;
use schemars::JsonSchema;
use serde::Serialize;

use crate::print;

const EXAMPLES: &str = "\
Examples:
  kqps probe
  kqps probe --json";

/// Show what works on this host, and why the rest does not
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
    let capabilities = probe()
        .into_iter()
        .map(|tried| Capability {
            name: tried.name,
            purpose: tried.purpose,
            works: tried.outcome.is_ok(),
            reason: tried.outcome.err(),
        })
        .collect();
    let probe = Probe { capabilities };
    if *json {
        print::json(&print::Versioned::of(&probe))?;
    } else {
        print!("{}\n", table(&probe));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(probe: &Probe) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "",
        "works",
        "what it is good for, or why it does not work",
    ]);
    for capability in &probe.capabilities {
        let works = if capability.works { "yes" } else { "no" };
        table.add_row([capability.name, works, capability.reason.as_deref().unwrap_or(capability.purpose)]);
    }
    table
}
