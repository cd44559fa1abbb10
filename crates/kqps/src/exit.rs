//! Exit statuses, and the text in the help and manual page of every command that explains them.

use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Command;

use kqps_lab::error::LabError;
use kqps_observation::store::StoreError;

use crate::print;

/// The command could not do its work: it could send nothing, or nothing answered.
pub(crate) const COULD_NOT: u8 = 1;

/// The command measured, but refuses a figure (grade F), or a condition of `--fail-on` holds.
pub(crate) const REFUSED: u8 = 3;

/// The heading above the statuses.
pub(crate) const HEAD: &str = "Exit status:";

/// The statuses of all commands except servers.
const STATUSES: &str = "  0    it did what it was asked; a load that ran, whatever it measured
  1    it could not: nothing could be sent, nothing answered (whatever --fail-on
       asks), or an error; or what it printed could not be written
  2    bad usage, a bad file, or a folder for --out that is taken
  3    measured, but a figure of `run` or `find` is refused, or every figure
       that `plan` needs, or a condition of --fail-on holds
  129  ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM (128 and the signal's
       number), after it printed what it had: the first signal ends a
       measurement early, the second at once
  141  no process reads its output any more, as in `kqps host | head`";

/// The statuses of servers.
const STATUSES_OF_SERVERS: &str =
    "  0    it served until a signal or the end of --for, and printed its counts
  1    it could not serve, or not go on
  2    bad usage, or a bad file
  129  ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM (128 and the signal's
       number), before it could answer";

/// The statuses of `kqps dnsperf`, which are dnsperf's.
const STATUSES_OF_DNSPERF: &str = "  0    the run ended, whatever it measured, also by SIGINT
  1    bad usage, a bad file, or an error
  129  ended by SIGHUP, 143 by SIGTERM (128 and the signal's number), after it
       printed what it had
  141  no process reads its output any more";

/// Adds the meaning of the exit statuses to the help of a command and its subcommands.
pub(crate) fn explained(command: Command) -> Command {
    explained_by(command, STATUSES)
}

fn explained_by(command: Command, statuses: &'static str) -> Command {
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map_or(String::new(), |after| format!("{after}\n\n"));
    let below = |command: Command| match command.get_name() {
        "serve" => explained_by(command, STATUSES_OF_SERVERS),
        "dnsperf" => explained_by(command, STATUSES_OF_DNSPERF),
        "status" => explained_by(command, STATUSES),
        _ => explained_by(command, statuses),
    };
    command.after_long_help(format!("{after}{HEAD}\n{statuses}")).mut_subcommands(below)
}

/// The reader of the output has gone, as in `kqps host | head`. A shell gives the same status (128 + 13) to a
/// program that SIGPIPE ends, such as `cat`, so scripts with `pipefail` need to know one status only.
const UNREAD: u8 = 141;

/// An error in the user's words or in a file that the user gave. It ends the program with status 2 instead of
/// 1.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Turns any error with a message into an error about the user's input.
pub(crate) fn bad_input(error: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(BadInput(error.to_string()))
}

/// An error of several lines. Names from outside are escaped already and hold no line feed. Every other error
/// is one line.
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

/// Whether an error is about the user's words or files, including a store that cannot be read and a folder
/// that is taken.
fn is_about_input(error: &anyhow::Error) -> bool {
    let is_bad = |cause: &StoreError| {
        use StoreError::{Damaged, Directory, Exists, Locked, Newer, NotAStore};
        matches!(
            cause,
            Damaged { .. }
                | Directory { .. }
                | Exists { .. }
                | Locked { .. }
                | Newer { .. }
                | NotAStore { .. }
        )
    };
    let of_lab = |cause: &LabError| match cause {
        LabError::Store(store) => is_bad(store),
        LabError::SameName { .. }
        | LabError::File(_)
        | LabError::Foreign { .. }
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

/// Prints an error, and returns the program's exit status for it.
pub(crate) fn with(error: &anyhow::Error) -> ExitCode {
    if error.is::<print::Lost>() {
        // It was reported already, and [`after_printing`] returns the status.
        return ExitCode::SUCCESS;
    }
    match error.downcast_ref::<Lines>() {
        Some(lines) => eprint!("kqps: {lines}\n"),
        None => eprintln!("kqps: {error:#}"),
    }
    if is_about_input(error) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// The program's status after all output. If output was lost, success becomes a failure. Any other status
/// stays, since it says more.
pub(crate) fn after_printing(status: ExitCode) -> ExitCode {
    match print::failure() {
        Some(failure) if status == ExitCode::SUCCESS => match failure.kind() {
            ErrorKind::BrokenPipe => ExitCode::from(UNREAD),
            _ => ExitCode::FAILURE,
        },
        _ => status,
    }
}
