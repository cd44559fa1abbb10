//! A stored search of `kqps find`: a run with one subject's cell, and the echoes beside it, in a folder like
//! that of any run. kqps did not start the subject, so it cannot resume the run, but it can write the page
//! again.

use std::path::Path;

use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::store::{Claim, StoreError};
use kqps_observation::{Run, RunTrial, Store, Trial};

use crate::claim::claim;
use crate::clock::unix_ms;
use crate::error::LabError;
use crate::folder::Folder;
use crate::record;

/// The name of the study, as stored in the run.
pub const NAME: &str = "kqps find";

/// A folder that no other kqps writes to, before the cells of its run are known.
#[derive(Debug)]
pub struct Claimed {
    folder: Folder,
    claim: Claim,
}

/// The folder of a search, whose trials are stored one by one.
#[derive(Debug)]
pub struct SearchFolder {
    folder: Folder,
    store: Store,
    run: Run,
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
    pub fn begin(self, run: Run) -> Result<SearchFolder, LabError> {
        let run = Run { started_unix_ms: unix_ms(), ..run };
        self.folder.write(&self.folder.study(), record::of(&run).as_bytes())?;
        let store = self.claim.create(&run)?;
        Ok(SearchFolder { folder: self.folder, store, run })
    }
}

impl SearchFolder {
    /// The folder of the run.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The run with all trials so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Stores a measured trial of a cell, which has one start.
    pub fn add(&mut self, cell: u32, purpose: Purpose, trial: &Trial) -> Result<(), StoreError> {
        self.commit(cell, purpose, Outcome::Measured(Box::new(trial.clone())))
    }

    /// Stores why a trial of a cell could not be measured.
    pub fn fail(&mut self, cell: u32, purpose: Purpose, reason: String) -> Result<(), StoreError> {
        self.commit(cell, purpose, Outcome::Failed { reason, output: Vec::new() })
    }

    fn commit(&mut self, cell: u32, purpose: Purpose, outcome: Outcome) -> Result<(), StoreError> {
        let number = self.store.next_number()?;
        let start = u64::from(cell) + 1;
        let trial = RunTrial { number, cell, block: 0, start, purpose, outcome };
        self.store.commit(&trial)?;
        self.run.trials.push(trial);
        Ok(())
    }

    /// Marks the search as finished.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        let now = unix_ms();
        self.store.finish(now)?;
        self.run.finished_unix_ms = Some(now);
        Ok(())
    }
}
