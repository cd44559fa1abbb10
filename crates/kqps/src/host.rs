//! `kqps host`: this machine, what of it matters to a benchmark, and the settings that can be changed.

mod advise;
mod apply;
mod guard;
mod show;
mod status;
mod try_it;
mod undo;
mod words;

use std::process::ExitCode;

#[cfg(test)]
pub(crate) use advise::Advised;
#[cfg(test)]
pub(crate) use show::HostOutput;
#[cfg(test)]
pub(crate) use words::TuningOutput;

const EXAMPLES: &str = "\
Examples:
  kqps host
  kqps host --json
  kqps host advise --for nsd --workers 8
  kqps host apply sysctl.net.core.rmem_max=16777216";

const SHOW_EXAMPLES: &str = "\
Examples:
  kqps host show
  kqps host show --json";

/// Show the topology, the limits and the settings of this machine, and change settings
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
    #[command(after_help = SHOW_EXAMPLES)]
    Show,
    Advise(advise::Args),
    Apply(apply::Args),
    Undo(undo::Args),
    Status(status::Args),
    Try(try_it::Args),
    #[command(hide = true)]
    Guard(guard::Args),
}

impl Args {
    /// Whether this process is to be a guard, which signals must not end.
    pub(crate) fn is_guard(&self) -> bool {
        matches!(self.command, Some(Command::Guard(_)))
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = args.json;
    match args.command.unwrap_or(Command::Show) {
        Command::Show => show::run(json),
        Command::Advise(args) => advise::run(&args, json),
        Command::Apply(args) => apply::run(&args, json),
        Command::Undo(args) => undo::run(&args, json),
        Command::Status(args) => status::run(&args, json),
        Command::Try(args) => try_it::run(&args, json),
        Command::Guard(args) => guard::run(&args),
    }
}
