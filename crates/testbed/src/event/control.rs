//! Requests to a name server during a load, and the signals that stand for them.

use kqps_kernel::process::Signal;
use serde::Deserialize;

/// Something that a server does when its control program or a signal asks it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// Reads its zones again.
    Reload,
    /// Reads its configuration again.
    Reconfigure,
    /// Closes its log files, and opens them by their names again.
    Rotate,
    /// Drops what is in its cache.
    Flush,
    /// Loses its first back end, whose processes are killed.
    KillBackEnd,
}

impl Control {
    /// The word in scenarios, studies and definitions.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Reconfigure => "reconfigure",
            Self::Rotate => "rotate",
            Self::Flush => "flush",
            Self::KillBackEnd => "kill-back-end",
        }
    }
}

/// The signals that servers understand as a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)] // the names say it
pub enum ControlSignal {
    Hup,
    Usr1,
    Usr2,
}

impl ControlSignal {
    /// The signal to send.
    pub fn signal(self) -> Signal {
        match self {
            Self::Hup => Signal::HangUp,
            Self::Usr1 => Signal::User1,
            Self::Usr2 => Signal::User2,
        }
    }
}
