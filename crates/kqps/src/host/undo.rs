//! `kqps host undo`: takes back what kqps has set on this host.

use std::process::ExitCode;

use kqps_tuning::{Journal, Real, undo};

use super::words;
use crate::exit::COULD_NOT;

const EXAMPLES: &str = "\
Examples:
  kqps host undo
  kqps host undo --json";

/// Undo every setting that kqps changed and that still has its value
///
/// The newest change comes first. A setting that somebody else has changed since stays as it is, and is named; it is
/// then forgotten. What a running process of kqps holds stays too. Another boot has nothing to undo. The status is 1 if
/// a setting was left.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let journal = Journal::of_this_boot()?;
    let undone = undo(&Real::host(), &journal)?;
    words::print_undone(&undone, &journal, json)?;
    journal.forget(&undone.records)?;
    Ok(if undone.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT) })
}
