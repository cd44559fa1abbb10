//! `kqps host status`: what kqps has set on this host, and whether it is still so.

use std::process::ExitCode;

use kqps_tuning::Journal;

use super::words;
use crate::exit::COULD_NOT;

const EXAMPLES: &str = "\
Examples:
  kqps host status
  kqps host status --json";

/// Show what kqps has set on this host since it booted, and whether it is still so
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let journals = Journal::all_of_this_boot();
    let (mut records, mut troubles) = (Vec::new(), Vec::new());
    for journal in &journals {
        match journal.records().and_then(|found| Ok((found, journal.unreadable()?))) {
            Ok((found, unreadable)) => {
                records.extend(found);
                troubles.extend(unreadable.iter().map(ToString::to_string));
            }
            Err(error) => troubles.push(error.to_string()),
        }
    }
    words::print_status(&records, &troubles, &journals, json)?;
    Ok(if troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT) })
}
