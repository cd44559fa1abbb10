//! Exit statuses: 0 measured; 1 could not run, or the output could not be written; 2 bad usage or bad file; 3 measured,
//! but the figure is refused; 141 nobody reads the output any more.

use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use kqps_lab::session::LabError;
use kqps_observation::store::StoreError;

use crate::print;

/// Measured, but no figure is given (grade F).
pub(crate) const REFUSED: u8 = 3;

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

/// Whether an error is about what the user typed or gave, a store that cannot be read among it.
fn is_about_input(error: &anyhow::Error) -> bool {
    let is_bad = |cause: &StoreError| {
        use StoreError::{Damaged, Directory, Newer, NotAStore};
        matches!(cause, Damaged { .. } | Directory { .. } | Newer { .. } | NotAStore { .. })
    };
    let of_lab = |cause: &LabError| match cause {
        LabError::Store(store) => is_bad(store),
        LabError::SameName { .. } | LabError::File(_) | LabError::Goal(_) | LabError::NoRun(_) => true,
        _ => false,
    };
    error.is::<BadInput>()
        || error.chain().filter_map(|cause| cause.downcast_ref()).any(is_bad)
        || error.chain().filter_map(|cause| cause.downcast_ref()).any(of_lab)
}

/// Prints an error, and returns the status that it ends the program with.
pub(crate) fn with(error: &anyhow::Error) -> ExitCode {
    if error.is::<print::Lost>() {
        // It was reported, and [`after_printing`] has the status.
        return ExitCode::SUCCESS;
    }
    eprintln!("kqps: {error:#}");
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
