//! `kqps host status`: what kqps has set on this host, and whether it is still so.

use std::process::ExitCode;

use kqps_tuning::Journal;

use super::words;

const EXAMPLES: &str = "\
Examples:
  kqps host status
  kqps host status --json";

/// Show what kqps has set on this host since it booted, and whether it is still so
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let journal = Journal::of_this_boot()?;
    words::print_status(&journal.records()?, &journal, json)?;
    Ok(ExitCode::SUCCESS)
}
