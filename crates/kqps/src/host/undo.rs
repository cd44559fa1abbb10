//! `kqps host undo`: takes back what kqps has set on this host.

use std::process::ExitCode;

use kqps_tuning::{Journal, Real, Undone, undo};

use super::words;
use crate::exit::COULD_NOT;

const EXAMPLES: &str = "\
Examples:
  kqps host undo
  kqps host undo --json";

/// Undo every setting that kqps changed and that still has its value
///
/// The newest change comes first. A setting that somebody else has changed since stays as it is, and is named; it is
/// then forgotten. A setting that cannot be put back now, because the kernel refuses it or its device is not here, is
/// named and stays in the journal. What a running process of kqps holds stays too, and so does what was set in another
/// network namespace. Another boot has nothing to undo. The status is 1 if a setting was left.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let journals = Journal::all_of_this_boot();
    let system = Real::host();
    let (mut all, mut over) = (Undone::default(), Vec::new());
    for journal in &journals {
        let undone = undo(&system, journal).unwrap_or_else(|error| {
            // The other journal can be undone nevertheless.
            Undone { troubles: vec![error.to_string()], ..Undone::default() }
        });
        over.push(undone.over.clone());
        all.add(undone);
    }
    words::print_undone(&all, &journals, json)?;
    // They were named, and are not ours any more.
    for (journal, over) in journals.iter().zip(&over) {
        journal.forget(over)?;
    }
    Ok(if all.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT) })
}
