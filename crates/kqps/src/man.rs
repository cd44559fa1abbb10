//! `kqps man`: the manual page, on stdout. One page for the program, or one for a command.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::exit::{HEAD, bad_input};

/// Print the manual page, of kqps or of one command
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command whose page is wanted
    command: Option<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let program = crate::command_line();
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
    // The statuses stand at the end of the help, and have a section of their own here (man-pages(7)).
    let head = format!("\n{HEAD}\n");
    let text = String::from_utf8(text)?.replace(&head, "\n.SH \"EXIT STATUS\"\n");
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
