//! `kqps man`: the manual page, on stdout. One page for the program, or one for a command.

use std::process::ExitCode;

use crate::exit::{HEAD, bad_input};

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
    print!("{}", String::from_utf8(text)?.replace(&head, "\n.SH \"EXIT STATUS\"\n"));
    Ok(ExitCode::SUCCESS)
}
