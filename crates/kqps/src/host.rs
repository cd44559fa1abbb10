//! `kqps host`: this machine and what of it matters to a benchmark.

mod show;

use std::process::ExitCode;

pub(crate) use show::HostOutput;

const EXAMPLES: &str = "\
Examples:
  kqps host
  kqps host --json";

/// Show the topology, the limits and the settings of this machine
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show everything, as without a command
    Show,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Command::Show = args.command.unwrap_or(Command::Show);
    show::run(args.json)
}
