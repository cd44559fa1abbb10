//! `kqps man`: prints the manual page of the program or of one command on stdout, or writes those of all commands.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use kqps_files::toml_file::{did_you_mean, nearest};

use crate::exit::bad_input;
use crate::statuses::HEAD;
use crate::stored;

/// The heading above the examples.
const EXAMPLES_HEAD: &str = "Examples:";

const EXAMPLES: &str = "\
Examples:
  kqps man
  kqps man load >kqps-load.1
  kqps man serve echo >kqps-serve-echo.1
  kqps man --all ~/.local/share/man/man1";

/// Print the manual page of kqps, or of one command
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The command, such as load, or serve echo
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write the pages of kqps and of every command into this folder, which is made
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut program = crate::command_line();
    program.build();
    match &args.all {
        Some(folder) => write_all(&program, folder)?,
        None => print!("{}", text_of(page_of(&program, &args.command)?)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes each page as `NAME.1` into a folder.
fn write_all(program: &Command, folder: &Path) -> anyhow::Result<()> {
    stored::make_folder(folder)?;
    for words in all_words(program) {
        let page = page_of(program, &words)?;
        let path = folder.join(format!("{}.1", page.get_name()));
        stored::write(&path, &text_of(page)?)?;
    }
    Ok(())
}

/// The words of every command that has a page. The program itself has none, and comes first.
fn all_words(program: &Command) -> Vec<Vec<String>> {
    let below = program.get_subcommands().filter(|below| is_shown(below)).flat_map(|below| {
        let name = below.get_name().to_owned();
        all_words(below).into_iter().map(move |words| [&[name.clone()][..], &words].concat())
    });
    [Vec::new()].into_iter().chain(below).collect()
}

/// The text of a page.
fn text_of(page: Command) -> anyhow::Result<String> {
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    // Examples and statuses are at the end of the help. A manual page has sections for them (man-pages(7)).
    Ok(String::from_utf8(text)?
        .replace(&format!(".SH EXTRA\n{EXAMPLES_HEAD}\n"), ".SH EXAMPLES\n")
        .replace(&format!("\n{HEAD}\n"), "\n.SH \"EXIT STATUS\"\n"))
}

/// The command that these words call, with the name of its page.
fn page_of(program: &Command, words: &[String]) -> anyhow::Result<Command> {
    let mut command = program;
    let mut name = program.get_name().to_owned();
    for word in words {
        let below = command.get_subcommands().find(|below| below.get_name() == word && is_shown(below));
        command = below.ok_or_else(|| unknown(command, &name, word))?;
        name = format!("{name}-{word}");
    }
    let (shown, spoken) = (name.clone(), name.replace('-', " "));
    Ok(command.clone().name(name).display_name(shown).bin_name(spoken))
}

/// Whether a command has a page. `help` and the hidden commands that kqps starts itself have none.
fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// An error for a word that is no command, with the commands that exist.
fn unknown(command: &Command, name: &str, word: &str) -> anyhow::Error {
    let known = command.get_subcommands().filter(|below| is_shown(below)).map(Command::get_name);
    let known: Vec<&str> = known.collect();
    let spoken = name.replace('-', " ");
    if known.is_empty() {
        return bad_input(format!("`{spoken}` has no command `{word}`, nor any other below it"));
    }
    let near = did_you_mean(nearest(word, &known));
    bad_input(format!("`{spoken}` has no command `{word}`{near} (known: {})", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(words: &[&str]) -> anyhow::Result<Command> {
        let mut program = crate::command_line();
        program.build();
        page_of(&program, &words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn every_command_has_a_page_by_its_words() {
        let mut program = crate::command_line();
        program.build();
        let mut to_see = vec![(Vec::new(), program)];
        while let Some((words, command)) = to_see.pop() {
            let found = page(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
            assert_eq!(
                found.get_about().map(ToString::to_string),
                command.get_about().map(ToString::to_string)
            );
            assert_eq!(found.get_bin_name().unwrap(), [&["kqps".to_owned()][..], &words].concat().join(" "));
            let below = command.get_subcommands().filter(|below| is_shown(below));
            to_see
                .extend(below.map(|one| ([&words[..], &[one.get_name().to_owned()]].concat(), one.clone())));
        }
    }

    #[test]
    fn an_unknown_command_is_answered_with_those_that_there_are() {
        for (words, wanted) in [
            (&["lod"][..], "did you mean `load`?"),
            (&["help"], "(known: load, dnsperf, resperf, find, check"),
            (&["serve", "eco"], "`kqps serve` has no command `eco`; did you mean `echo`?"),
            (&["serve", "worker"], "(known: echo, auth, cache, front, internet, status)"),
            (&["load", "echo"], "`kqps load` has no command `echo`, nor any other"),
        ] {
            let error = page(words).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
