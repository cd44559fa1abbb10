//! Exit statuses, and the text that explains them in the help and the manual page of every command.

use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Command;

use kqps_lab::session::LabError;
use kqps_observation::store::StoreError;

use crate::print;

/// It could not do what it was asked: nothing could be sent, or nothing answered.
pub(crate) const COULD_NOT: u8 = 1;

/// It measured, but a figure is refused (grade F), or a condition of `--fail-on` holds.
pub(crate) const REFUSED: u8 = 3;

/// What stands above the statuses.
pub(crate) const HEAD: &str = "Exit status:";

/// What the statuses of all commands mean but those of servers.
const STATUSES: &str = "  0    it did what it was asked; a load that ran, whatever it measured
  1    it could not: nothing could be sent, nothing answered (whatever --fail-on
       asks), or an error; or what it printed could not be written
  2    bad usage, or a bad file
  3    measured, but a figure of `run` or `find` is refused, or a condition of
       --fail-on holds
  129  ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM (128 and the signal's
       number), after it printed what it had: the first signal ends a
       measurement early, the second at once
  141  nobody reads its output any more, as in `kqps host | head`";

/// What those of servers mean.
const STATUSES_OF_SERVERS: &str =
    "  0    it served until a signal or the end of --for, and printed its counts
  1    it could not serve, or not go on
  2    bad usage, or a bad file
  129  ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM (128 and the signal's
       number), before it could answer";

/// Adds to the help of a command, and of those below it, what its exit status means.
pub(crate) fn explained(command: Command) -> Command {
    explained_by(command, STATUSES)
}

fn explained_by(command: Command, statuses: &'static str) -> Command {
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map_or(String::new(), |after| format!("{after}\n\n"));
    let below = |command: Command| match command.get_name() {
        "serve" => explained_by(command, STATUSES_OF_SERVERS),
        "status" => explained_by(command, STATUSES),
        _ => explained_by(command, statuses),
    };
    command.after_long_help(format!("{after}{HEAD}\n{statuses}")).mut_subcommands(below)
}

/// Nobody reads the output any more, as in `kqps host | head`. It is the status that a shell gives a program that SIGPIPE
/// ended (128 + 13), as `cat` does, so that scripts with `pipefail` need to know one status only.
const UNREAD: u8 = 141;

/// An error in what the user typed or in a file that the user gave: status 2 instead of 1.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Turns any error with a message into one about the user's input.
pub(crate) fn bad_input(error: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(BadInput(error.to_string()))
}

/// An error of several lines, in which no name from outside holds a line feed any more. Every other error is one line.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) text: String,
    pub(crate) is_about_input: bool,
}

impl fmt::Display for Lines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Lines {}

/// Whether an error is about what the user typed or gave, a store that cannot be read among it.
fn is_about_input(error: &anyhow::Error) -> bool {
    let is_bad = |cause: &StoreError| {
        use StoreError::{Damaged, Directory, Newer, NotAStore};
        matches!(cause, Damaged { .. } | Directory { .. } | Newer { .. } | NotAStore { .. })
    };
    let of_lab = |cause: &LabError| match cause {
        LabError::Store(store) => is_bad(store),
        LabError::SameName { .. }
        | LabError::File(_)
        | LabError::Goal(_)
        | LabError::NoRun(_)
        | LabError::Search { .. } => true,
        _ => false,
    };
    error.is::<BadInput>()
        || error.downcast_ref::<Lines>().is_some_and(|lines| lines.is_about_input)
        || error.chain().filter_map(|cause| cause.downcast_ref()).any(is_bad)
        || error.chain().filter_map(|cause| cause.downcast_ref()).any(of_lab)
}

/// Prints an error, and returns the status that it ends the program with.
pub(crate) fn with(error: &anyhow::Error) -> ExitCode {
    if error.is::<print::Lost>() {
        // It was reported, and [`after_printing`] has the status.
        return ExitCode::SUCCESS;
    }
    match error.downcast_ref::<Lines>() {
        Some(lines) => eprint!("kqps: {lines}\n"),
        None => eprintln!("kqps: {error:#}"),
    }
    if is_about_input(error) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// The program's status, once everything is printed: output that is lost makes a success none. Any other status says
/// more, and stays.
pub(crate) fn after_printing(status: ExitCode) -> ExitCode {
    match print::failure() {
        Some(failure) if status == ExitCode::SUCCESS => match failure.kind() {
            ErrorKind::BrokenPipe => ExitCode::from(UNREAD),
            _ => ExitCode::FAILURE,
        },
        _ => status,
    }
}
