//! `kqps history`: remembers runs, finds where their figures changed, and shows it.

mod add;
mod check;
mod checked;
mod confirm;
mod export;
mod page;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use kqps_history::{Records, Store};

#[cfg(test)]
pub(crate) use check::PrintedChange;

use crate::exit::bad_input;
use crate::other_run::default_store;

const EXAMPLES: &str = "\
Examples:
  kqps history add kqps-runs/*
  kqps history check --fail-on slower:2%
  kqps history page
  kqps history export markdown";

/// Remember runs, and find where a figure changed between them
///
/// Figures are watched that hardly depend on how fast a host is today: shares of the echo ceiling, ratios to a reference
/// build, CPU time and memory, and latency at half load. docs/method/history.md says how a change is found.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Add(add::Args),
    Check(check::Args),
    Page(page::Args),
    Export(export::Args),
}

/// The history that a command reads or writes.
#[derive(clap::Args)]
struct StoreArgs {
    /// The history (default: history.sqlite in kqps-runs/ if that exists, else in the user's data)
    #[arg(long, value_name = "FILE", help_heading = "History")]
    store: Option<PathBuf>,
}

impl StoreArgs {
    fn path(&self) -> PathBuf {
        self.store.clone().unwrap_or_else(default_store)
    }

    fn read(&self) -> anyhow::Result<Records> {
        Store::read(&self.path()).map_err(bad_input)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Add(args) => add::run(args),
        What::Check(args) => check::run(args),
        What::Page(args) => page::run(args),
        What::Export(args) => export::run(args),
    }
}
