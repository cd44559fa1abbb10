//! The program: it parses the arguments and calls the command.

// Only `print` prints: the standard macros panic if a write fails.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod print;

mod advice;
mod agent;
mod captured;
mod check;
mod compare;
mod completions;
mod dnsperf;
#[cfg(test)]
mod documented;
mod exit;
mod export;
mod find;
mod r#gen;
#[cfg(test)]
mod help;
mod hints;
mod history;
mod host;
mod internet_args;
mod links;
mod live;
mod load;
mod man;
mod other_run;
mod plan;
mod play;
mod probe;
mod report;
mod run;
#[cfg(test)]
mod schema;
mod serve;
mod setting_flags;
#[cfg(test)]
mod shared_words;
mod show;
mod signals;
mod statuses;
mod stored;
mod table;
mod value;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use kqps_kernel::process::stay_tied;
use kqps_kernel::signal::Signals;

const EXAMPLES: &str = "\
Examples:
  kqps                                                # measure this machine
  kqps run --command 'my-server -p {port} -z {zone}'  # a server of your own
  kqps find 127.0.0.1:5300 -d bench.queries           # its highest rate
  kqps load 127.0.0.1:5300 -d bench.queries -Q 100k   # one load, accounted for";

/// The version that is printed: that of the package if `cargo xtask package` builds the program.
const VERSION: &str = match option_env!("KQPS_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Benchmark DNS reliably on multi-core systems: every query accounted for, every figure with its grade
///
/// Without a command kqps does what `kqps run` does, with its flags.
#[derive(Parser)]
#[command(name = "kqps", version = VERSION, propagate_version = true, max_term_width = 110, after_help = EXAMPLES,
          args_conflicts_with_subcommands = true)]
struct Cli {
    /// Install no packages of name servers that are missing
    #[arg(long)]
    no_install: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Load(Box<load::Args>),
    Dnsperf(dnsperf::Args),
    Resperf(dnsperf::resperf::Args),
    /// Play the trial that another kqps asks for on standard input
    #[command(hide = true)]
    Play,
    Find(Box<find::Args>),
    Check(Box<check::Args>),
    Serve(serve::Args),
    Run(run::Args),
    Report(report::Args),
    Export(export::Args),
    Compare(compare::Args),
    History(history::Args),
    Plan(plan::Args),
    Host(host::Args),
    Agent(agent::Args),
    Gen(r#gen::Args),
    Show(show::Args),
    Probe(probe::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The command line with the flags of other tools that it takes, and with the exit statuses in its help.
fn command_line() -> clap::Command {
    with_negative_numbers(statuses::explained(hints::with_aliases(Cli::command())))
}

/// Accepts negative numbers as values, so that the flag's own parser can say what it expects. Clap would
/// report an unknown flag.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let taken = |arg: clap::Arg| {
        let takes_values = arg.get_action().takes_values();
        if takes_values { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(taken).mut_subcommands(with_negative_numbers)
}

fn main() -> ExitCode {
    if let Some((program, words)) = dnsperf::called(std::env::args_os()) {
        let ready = stay_tied().and_then(|()| signals::watch()).map_err(anyhow::Error::from);
        return exit::after_printing(match ready {
            Ok(()) => program.main(&words),
            Err(error) => exit::with(&error),
        });
    }
    // They stay blocked, and are never read.
    if agent::is_called_as_guard(std::env::args_os())
        && let Err(error) = Signals::take(true)
    {
        return exit::after_printing(exit::with(&error.into()));
    }
    let words = hints::with_run(std::env::args_os().collect());
    let outcome =
        command_line().try_get_matches_from(&words).and_then(|matches| Cli::from_arg_matches(&matches));
    let status = match outcome {
        Ok(cli) => {
            let outcome = run(cli);
            let interrupted = signals::status();
            let status = outcome.unwrap_or_else(|error| exit::with(&error));
            interrupted.unwrap_or(status)
        }
        Err(said) => print::by_clap(&hints::explained(said, &words)),
    };
    exit::after_printing(status)
}

fn run(Cli { no_install, command }: Cli) -> anyhow::Result<ExitCode> {
    stay_tied()?;
    // A server handles signals itself, before it starts a thread, and a guard outlives them.
    let is_guard = match &command {
        Some(Command::Host(args)) => args.is_guard(),
        Some(Command::Agent(args)) => args.is_guard(),
        _ => false,
    };
    if !matches!(command, Some(Command::Serve(_))) && !is_guard {
        signals::watch()?;
    }
    match command {
        None => run::alone(no_install),
        Some(Command::Load(args)) => load::run(&args),
        Some(Command::Dnsperf(args)) => Ok(dnsperf::run(&args)),
        Some(Command::Resperf(args)) => Ok(dnsperf::resperf::run(&args)),
        Some(Command::Play) => play::run(),
        Some(Command::Find(args)) => find::run(&args),
        Some(Command::Check(args)) => check::run(*args),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::Export(args)) => export::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::History(args)) => history::run(&args),
        Some(Command::Plan(args)) => plan::run(&args),
        Some(Command::Host(args)) => host::run(args),
        Some(Command::Agent(args)) => agent::run(&args),
        Some(Command::Gen(args)) => r#gen::run(args),
        Some(Command::Show(args)) => show::run(&args),
        Some(Command::Probe(args)) => probe::run(&args),
        Some(Command::Completions(args)) => Ok(completions::run(&args)),
        Some(Command::Man(args)) => man::run(&args),
    }
}
