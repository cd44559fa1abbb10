//! A search of `kqps find` as a run: one subject's cell, and the echoes beside it. It may be stored in a folder like that
//! of any run. kqps did not start the subject, so it cannot resume the run, but it can write the page again.

use std::path::Path;

use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::store::{Claim, StoreError};
use kqps_observation::{Run, RunTrial, Store, Trial};

use crate::claim::claim;
use crate::clock::unix_ms;
use crate::error::LabError;
use crate::record;
use kqps_testbed::folder::Folder;

/// The name of the study, as stored in the run.
pub const NAME: &str = "kqps find";

/// A folder that no other kqps writes to, before the cells of its run are known.
#[derive(Debug)]
pub struct Claimed {
    folder: Folder,
    claim: Claim,
}

/// The run of a search. Its trials are added one by one.
#[derive(Debug)]
pub struct SearchRun {
    run: Run,
    /// Where it is stored; `None` if nothing stores it.
    stored: Option<(Folder, Store)>,
}

impl Claimed {
    /// Claims a folder for a new run, and makes it if it is missing.
    ///
    /// # Errors
    ///
    /// If the folder has a run, or has files in place of those of a run.
    pub fn new(folder: &Path) -> Result<Self, LabError> {
        let (folder, claim) = claim(folder)?;
        Ok(Self { folder, claim })
    }

    /// Makes the store of a run, without trials.
    pub fn begin(self, run: Run) -> Result<SearchRun, LabError> {
        let run = Run { started_unix_ms: unix_ms(), ..run };
        self.folder.write(&self.folder.study(), record::study_text(&run).as_bytes())?;
        let store = self.claim.create(&run)?;
        Ok(SearchRun { run, stored: Some((self.folder, store)) })
    }
}

impl SearchRun {
    /// A run without trials, which nothing stores.
    pub fn unstored(run: Run) -> Self {
        Self { run: Run { started_unix_ms: unix_ms(), ..run }, stored: None }
    }

    /// The folder of the run; `None` if nothing stores it.
    pub fn folder(&self) -> Option<&Folder> {
        self.stored.as_ref().map(|(folder, _)| folder)
    }

    /// The run with all trials so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Adds a measured trial of a cell, which has one start.
    pub fn add(&mut self, cell: u32, purpose: Purpose, trial: &Trial) -> Result<(), StoreError> {
        self.commit(cell, purpose, Outcome::Measured(Box::new(trial.clone())))
    }

    /// Adds why a trial of a cell could not be measured.
    pub fn fail(&mut self, cell: u32, purpose: Purpose, reason: String) -> Result<(), StoreError> {
        self.commit(cell, purpose, Outcome::Failed { reason, output: Vec::new() })
    }

    fn commit(&mut self, cell: u32, purpose: Purpose, outcome: Outcome) -> Result<(), StoreError> {
        let number = self.run.trials.len() as u64 + 1;
        let start = u64::from(cell) + 1;
        let trial = RunTrial { number, cell, block: 0, start, purpose, outcome };
        if let Some((_, store)) = &self.stored {
            store.commit(&trial)?;
        }
        self.run.trials.push(trial);
        Ok(())
    }

    /// Marks the search as finished.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        let now = unix_ms();
        if let Some((_, store)) = &self.stored {
            store.finish(now)?;
        }
        self.run.finished_unix_ms = Some(now);
        Ok(())
    }
}
