//! Asks a running subject to read its zone again.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use kqps_kernel::process::Signal;

use super::current::Current;
use super::definition::{Reload, ReloadSignal};
use super::programs;
use super::template::Values;

/// Why a reload failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum ReloadError {
    #[error("{title} cannot reload")]
    Cannot { title: String },
    #[error("asking {title} to reload: {error}")]
    Io { title: String, error: io::Error },
    #[error("{title} did not reload: {said}")]
    Refused { title: String, said: String },
}

/// Asks the subject with this process, which may still be reading after this returns. A command runs
/// in the subject's folder.
pub(super) fn request(
    title: &str,
    reload: &Reload,
    values: &Values,
    folder: &Path,
    process: &Current,
) -> Result<(), ReloadError> {
    let failed = |error| ReloadError::Io { title: title.into(), error };
    match reload.signal {
        Some(ReloadSignal::Hup) => process.signal(Signal::HangUp).map_err(failed),
        None => {
            let mut words = reload.command.iter().map(|word| values.fill(word));
            let program = words.next().unwrap_or_default();
            let path = programs::find(&program).ok_or_else(|| {
                failed(io::Error::new(io::ErrorKind::NotFound, format!("`{program}` is not on the PATH")))
            })?;
            let mut command = Command::new(path);
            command.args(words).current_dir(folder).stdin(Stdio::null());
            let output = command.output().map_err(failed)?;
            if output.status.success() {
                return Ok(());
            }
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).trim().to_string();
            Err(ReloadError::Refused { title: title.into(), said })
        }
    }
}
