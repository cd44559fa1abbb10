//! Reasons why a subject is not running.

use std::io;

use super::setting::SettingError;

/// The reason why a subject is not running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its folder or its files could not be written, or no port was free.
    #[error("{what}: {error}")]
    Io {
        /// The failed action.
        what: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A program that the subject needs is missing.
    #[error("`{program}` is not on the PATH{}", .package.as_ref().map(|package| format!("; the Debian package {package} has it")).unwrap_or_default())]
    Missing {
        /// The name of the program.
        program: String,
        /// The Debian package that has it, if known.
        package: Option<String>,
    },
    /// It cannot be started with these settings.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// It would have to listen over an encrypted transport, and no certificate was made for it.
    #[error("{title} cannot listen over {transport} without a certificate")]
    NoCertificate {
        /// The subject's title.
        title: String,
        /// The transport.
        transport: &'static str,
    },
    /// It ended before it was ready.
    #[error("{title} {how} before it was ready")]
    Died {
        /// The subject's title.
        title: String,
        /// How it ended, in words.
        how: String,
        /// The last lines of its output.
        output: Vec<String>,
    },
    /// It ran, but did not become ready in time.
    #[error(
        "{title} was not ready after {}{}: {}",
        crate::words::time(*.within_s),
        if *.is_share { ", its share of the budget" } else { "" },
        .said.as_deref().unwrap_or("it did not answer")
    )]
    NotReady {
        /// The subject's title.
        title: String,
        /// The time limit, seconds.
        within_s: f64,
        /// Whether the limit is a share of the budget, and less than its definition allows.
        is_share: bool,
        /// The error in its last answer; `None` if there was no answer.
        said: Option<String>,
        /// The last lines of its output.
        output: Vec<String>,
    },
    /// The user ended the run while the subject was starting.
    #[error("interrupted")]
    Interrupted,
}

impl StartError {
    /// The last lines of the subject's output; empty if it never ran.
    pub fn output(&self) -> &[String] {
        match self {
            Self::Died { output, .. } | Self::NotReady { output, .. } => output,
            _ => &[],
        }
    }
}
