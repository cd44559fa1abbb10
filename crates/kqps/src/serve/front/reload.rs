//! Reads the policy of `kqps serve front` again at SIGHUP, and prints what is wrong with it.

use std::io;
use std::path::PathBuf;

use kqps_front::{Policy, PolicySource};

use super::file;
use crate::print;
use crate::serve::words;

/// The file of a front's policy.
pub(super) struct PolicyFile {
    /// Its path; `None` if the policy was typed as flags.
    pub(super) path: Option<PathBuf>,
    /// Whether to print reloads as JSON.
    pub(super) json: bool,
}

impl PolicySource for PolicyFile {
    fn policy(&self, check: &dyn Fn(&Policy) -> Result<(), String>) -> Option<Policy> {
        let Some(path) = &self.path else {
            eprintln!("kqps: there is no --config to read again; all back ends stay as they were");
            return None;
        };
        let read = file::read(path).map_err(|error| error.to_string());
        let policy = read.and_then(|policy| match check(&policy) {
            Ok(()) => Ok(policy),
            Err(why) => Err(format!("{}: {why}", path.display())),
        });
        if let Err(error) = &policy {
            eprintln!("kqps: {error}; all back ends stay as they were");
        }
        policy.ok()
    }

    fn adopted(&self, policy: &Policy, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            return eprintln!("kqps: a worker goes on with the back ends that it had: {error}");
        }
        let _ = words::adopted(&mut print::Out, self.json, policy);
    }
}
