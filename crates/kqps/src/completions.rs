//! `kqps completions`: completions for a shell, on stdout.

use std::process::ExitCode;

use clap::CommandFactory as _;

const EXAMPLES: &str = "\
Examples:
  kqps completions bash >/etc/bash_completion.d/kqps
  kqps completions fish >~/.config/fish/completions/kqps.fish";

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "kqps", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}
