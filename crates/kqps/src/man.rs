//! `kqps man`: the manual page, on stdout. One page for the program, or one for a command.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::exit::bad_input;

/// Print the manual page, of kqps or of one command
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command whose page is wanted
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
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
