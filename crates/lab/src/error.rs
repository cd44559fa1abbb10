//! The errors of beginning, storing and resuming a run.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kqps_observation::store::StoreError;

use kqps_files::toml_file::{FileError, TomlError};
use kqps_remote::HostsError;
use kqps_testbed::certificates::CertificatesError;
use kqps_testbed::folder::{FolderError, NoRun};
use kqps_testbed::materials::MaterialsError;

/// Why a run could not begin or be resumed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum LabError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    NoRun(#[from] NoRun),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Materials(#[from] MaterialsError),
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} already exists, and no run wrote it; name another folder", path = .path.display())]
    Foreign { path: PathBuf },
    #[error("the run was made with a goal that this version does not know: {0}")]
    Goal(String),
    #[error(
        "{path} holds a search of kqps find, which did not start its server and cannot resume it; search again \
         into another folder", path = .path.display()
    )]
    Search { path: PathBuf },
    #[error(
        "{path}: the command of `{subject}` had a secret, which is not kept with a run, so the run cannot be resumed; \
         begin a new one with the whole command", path = .path.display()
    )]
    Secret { path: PathBuf, subject: String },
    #[error("two subjects are called `{name}`: give each a name of its own")]
    SameName { name: String },
    #[error(transparent)]
    Study(#[from] TomlError),
    #[error(
        "a budget of {} is too short: one block of this plan takes about {}; give it --budget {least_s:.0}s or more, \
         or measure less", kqps_testbed::words::time(*.budget_s), kqps_testbed::words::time(*.least_s)
    )]
    Budget { budget_s: f64, least_s: f64 },
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error("nothing of this study can be measured here: {reasons}")]
    NothingToMeasure { reasons: String, missing: BTreeSet<String> },
}
