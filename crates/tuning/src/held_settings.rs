//! Settings that are held for as long as a value lives: those of a cell, or of a job on another host.

use std::sync::Arc;

use crate::apply::{Applied, ApplyError, apply};
use crate::guard::Guard;
use crate::journal::JournalError;
use crate::setting::Change;
use crate::system::System;
use crate::undo::{Links, Undone, undo_of_the_ended, undo_records};

/// Settings that are undone when this is dropped, and by the guard if this process ends before. Only [`Self::undo`] and
/// [`Self::put_back`] wait for the links that they take down.
pub struct Held {
    system: Box<dyn System + Send>,
    guard: Arc<Guard>,
    applied: Applied,
    ended: Undone,
}

impl Held {
    /// Makes changes of a system. What processes left that have ended is undone first.
    pub fn set(
        system: Box<dyn System + Send>,
        guard: &Arc<Guard>,
        changes: &[Change],
    ) -> Result<Self, ApplyError> {
        let journal = guard.journal();
        let ended = undo_of_the_ended(&*system, journal)?;
        let applied = apply(&*system, journal, changes, Some(guard.owner()))?;
        Ok(Self { system, guard: Arc::clone(guard), applied, ended })
    }

    /// The outcome of undoing beforehand, for processes that have ended.
    pub fn ended(&self) -> &Undone {
        &self.ended
    }

    /// The outcome of the changes.
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// Keeps the settings: they stay until they are undone, whatever becomes of this process.
    pub fn keep(mut self) -> Result<Applied, JournalError> {
        self.guard.journal().keep(&self.applied.records)?;
        Ok(std::mem::take(&mut self.applied))
    }

    /// Undoes the settings, and returns what became of them.
    pub fn undo(mut self) -> Result<Undone, JournalError> {
        let undone = self.put_back();
        self.applied.records.clear();
        undone
    }

    /// Undoes the settings, and returns what became of them. Those that stay can be undone once more.
    pub fn put_back(&mut self) -> Result<Undone, JournalError> {
        self.back(Links::Await)
    }

    fn back(&mut self, links: Links) -> Result<Undone, JournalError> {
        if self.applied.records.is_empty() {
            return Ok(Undone::default());
        }
        let undone = undo_records(&*self.system, self.guard.journal(), &self.applied.records, links)?;
        // The journal may give the numbers of the others to new records.
        self.applied.records.clone_from(&undone.kept);
        Ok(undone)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Settings that cannot be undone stay in the journal, where `kqps host status` shows them.
        let _ = self.back(Links::Leave);
    }
}
