//! `kqps completions`: completions for a shell, on stdout.

use std::process::ExitCode;

use clap::CommandFactory as _;

/// Print completions for a shell
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell to complete in
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "kqps", &mut std::io::stdout());
    ExitCode::SUCCESS
}
