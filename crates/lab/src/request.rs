//! The request for a new run: the study, the servers and the options that the user chose.

use std::path::PathBuf;

use kqps_fleet::Hosts;
use kqps_observation::Target;

use crate::configured::Configured;
use crate::running_server::{PlayerRequest, RunningServer};
use crate::study_file::StudyFile;

/// The request for a new run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The folder of the run. It must not hold a run yet.
    pub folder: PathBuf,
    /// The study; `None` for the default study.
    pub study: Option<StudyFile>,
    /// The subjects in the order in which they are shown. Those that cannot be started here are left out, with
    /// the reason. In a study, each has the name that the study gives it, and no settings of its own.
    pub subjects: Vec<Configured>,
    /// The host of the subjects and the hosts that play; `None` if all is done on this host.
    pub hosts: Option<Hosts>,
    /// Servers that already run: either all on this host, or none.
    pub running: Vec<RunningServer>,
    /// The echo that runs beside the servers on another host.
    pub echo_target: Option<Target>,
    /// The user's query file, which all cells then play.
    pub queries: Option<PathBuf>,
    /// The issuers of certificates that the user trusts, as PEM, for servers that run already.
    pub ca: Option<String>,
    /// The user's settings of the player.
    pub player: PlayerRequest,
    /// Whether to profile all subjects, whatever the study says.
    pub profile: bool,
    /// The I/O models of the echo for the default study; empty for all.
    pub models: Vec<String>,
    /// The budget, seconds; `None` for as long as the study takes.
    pub budget_s: Option<f64>,
    /// The seed of every random choice.
    pub seed: u64,
    /// Number of records in the generated zone.
    pub records: u64,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The path of this kqps program.
    pub kqps: PathBuf,
    /// The version of this kqps program.
    pub version: String,
}
