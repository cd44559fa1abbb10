//! The program: arguments in, a call, words out.

#[macro_use]
mod said;

mod compare;
mod completions;
mod exit;
mod find;
mod r#gen;
mod host;
mod load;
mod man;
mod probe;
mod report;
mod run;
mod serve;
mod signals;
mod value;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Benchmarks DNS reliably on multi-core systems: every query accounted for, every figure with its grade.
#[derive(Parser)]
#[command(name = "kqps", version, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Load(load::Args),
    Find(find::Args),
    Serve(serve::Args),
    Run(run::Args),
    Report(report::Args),
    Compare(compare::Args),
    Host(host::Args),
    Gen(r#gen::Args),
    Probe(probe::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The command line with all that its help says.
fn command_line() -> clap::Command {
    exit::explained(Cli::command())
}

fn main() -> ExitCode {
    let matches = command_line().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = run(cli.command);
    let interrupted = signals::status();
    let status = outcome.unwrap_or_else(|error| exit::with(&error));
    interrupted.unwrap_or(status)
}

fn run(command: Option<Command>) -> anyhow::Result<ExitCode> {
    // Servers take signals before they start a thread.
    if !matches!(command, Some(Command::Serve(_))) {
        signals::watch()?;
    }
    match command {
        None => run::alone(),
        Some(Command::Load(args)) => load::run(&args),
        Some(Command::Find(args)) => find::run(&args),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Host(args)) => host::run(args),
        Some(Command::Gen(args)) => r#gen::run(args),
        Some(Command::Probe(args)) => probe::run(&args),
        Some(Command::Completions(args)) => Ok(completions::run(&args)),
        Some(Command::Man(args)) => man::run(args),
    }
}
