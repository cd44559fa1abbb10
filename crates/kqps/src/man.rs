//! `kqps man`: the manual page, on stdout. One page for the program, or one for a command.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::exit::bad_input;

const EXAMPLES: &str = "\
Examples:
  kqps man
  kqps man load >kqps-load.1";

/// Print the manual page of kqps, or of one command
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The command
    command: Option<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let program = crate::Cli::command();
    let page = match args.command {
        None => program,
        Some(name) => {
            let command =
                program.find_subcommand(&name).ok_or_else(|| bad_input(format!("no command `{name}`")))?;
            command.clone().name(format!("kqps-{name}"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    print!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}
