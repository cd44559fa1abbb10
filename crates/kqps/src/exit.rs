//! Exit statuses: which error ends the program with which one. `statuses` explains them to users.

use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use kqps_lab::error::LabError;
use kqps_observation::store::StoreError;

use crate::print;

/// The command could not do its work: it could send nothing, or nothing answered.
pub(crate) const COULD_NOT: u8 = 1;

/// The command measured, but refuses a figure (grade F), or a condition of `--fail-on` holds.
pub(crate) const REFUSED: u8 = 3;

/// The reader of the output has gone, as in `kqps host | head`. A shell gives the same status (128 + 13) to a
/// program that SIGPIPE ends, such as `cat`, so scripts with `pipefail` need to know one status only.
const UNREAD: u8 = 141;

/// An error in the user's words or in a file that the user gave. It ends the program with status 2 instead of
/// 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadInput(pub(crate) String);

/// Turns any error with a message into an error about the user's input.
pub(crate) fn bad_input(error: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(BadInput(error.to_string()))
}

/// An error of several lines. Names from outside are escaped already and hold no line feed. Every other error
/// is one line.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Lines {
    pub(crate) text: String,
    pub(crate) is_about_input: bool,
}

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
