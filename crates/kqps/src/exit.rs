//! Exit statuses: 0 measured; 1 could not run; 2 bad usage or bad file; 3 measured, but the figure is refused.

use std::process::ExitCode;
use std::{fmt, io};

use kqps_lab::session::LabError;
use kqps_observation::store::StoreError;

/// Measured, but no figure is given (grade F).
pub(crate) const REFUSED: u8 = 3;

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
        LabError::SameName { .. }
        | LabError::File(_)
        | LabError::Goal(_)
        | LabError::NoRun(_)
        | LabError::Search { .. } => true,
        _ => false,
    };
    error.is::<BadInput>()
        || error.chain().filter_map(|cause| cause.downcast_ref()).any(is_bad)
        || error.chain().filter_map(|cause| cause.downcast_ref()).any(of_lab)
}

/// Tells an error, and the status that it ends the program with.
pub(crate) fn with(error: &anyhow::Error) -> ExitCode {
    let is_closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(is_closed) {
        // Whoever read what is printed has seen enough, as in `kqps host | head`.
        return ExitCode::FAILURE;
    }
    eprintln!("kqps: {error:#}");
    if is_about_input(error) { ExitCode::from(2) } else { ExitCode::FAILURE }
}
