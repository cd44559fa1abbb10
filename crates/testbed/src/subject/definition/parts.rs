//! The parts of a definition: how a subject is started, found ready, asked to do something during a load, stopped, and
//! asked for its version.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::event::control::ControlSignal;

/// How a subject is started: in the foreground.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The program and its arguments, with placeholders. A word that is empty after replacement is left out.
    pub command: Vec<String>,
    /// Its environment in addition to that of kqps, with placeholders. A variable whose text is empty is not
    /// set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The number of consecutive ports that it answers on, from `{port}` on: a number or a product of numbers,
    /// such as `{processes} * {threads}`.
    #[serde(default = "one")]
    pub ports: String,
    /// The folder that it starts in; by default its work folder.
    pub folder: Option<PathBuf>,
}

fn one() -> String {
    "1".into()
}

/// How a subject is asked to do something during a load: all of it by a command or a signal to its main process, and one
/// zone by a command of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlWay {
    /// The signal. A subject with a command gets no signal; a server of the same program that runs already does.
    pub signal: Option<ControlSignal>,
    /// The program and its arguments, with placeholders; empty if there is none. It runs in the work folder.
    #[serde(default)]
    pub command: Vec<String>,
    /// The command for one zone, which is `{origin}` in it; empty if there is none.
    #[serde(default)]
    pub zone_command: Vec<String>,
}

/// How a subject is found ready.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// The reply that must come back when the zone's SOA is asked for over the transport of the cell.
    pub kind: ReadyKind,
    /// Seconds after which the start fails.
    pub within_s: f64,
}

/// The reply that shows that a subject is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyKind {
    /// NOERROR with an answer section: it serves the zone, and its rcodes are checked.
    Soa,
    /// Any reply to the query: it is an echo of some kind, and any rcode is accepted.
    Reply,
}

/// How a subject is stopped: by a signal and, if that does not end it, by SIGKILL to its whole process group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The signal that asks it to stop.
    pub signal: StopSignal,
    /// Seconds that it has to stop.
    pub within_s: f64,
}

/// The signals that servers understand as "please stop".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)] // the names say it
pub enum StopSignal {
    Term,
    Int,
}

/// How a subject reports its version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The version is the word that follows this text in the output of the command.
    pub after: String,
}

impl Ready {
    /// The time limit.
    pub fn within(&self) -> Duration {
        Duration::from_secs_f64(self.within_s)
    }
}

impl Stop {
    /// The time limit.
    pub fn within(&self) -> Duration {
        Duration::from_secs_f64(self.within_s)
    }
}
