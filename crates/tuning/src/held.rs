//! Settings that are held for as long as a value lives: those of a cell, or of a job on another host.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::apply::{Applied, ApplyError, apply};
use crate::guard::Guard;
use crate::journal::{Journal, JournalError};
use crate::link::{self, TakesLinkDown};
use crate::real::Real;
use crate::receive_core::receive_core;
use crate::setting::{Change, ChangeError, Setting};
use crate::system::{SettingError, System};
use crate::undo::{Undone, undo_of_the_ended, undo_records};

/// The first word of a name that stands for all receive work of a device: `receive-core.eth0`.
const RECEIVE_CORE: &str = "receive-core.";

/// Settings that are undone when this is dropped, and by the guard if this process ends before.
pub struct Held {
    system: Box<dyn System + Send>,
    guard: Arc<Guard>,
    applied: Applied,
}

/// Why settings cannot be held.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum HeldError {
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error("`{name}={value}`: expected the number of a core")]
    Core { name: String, value: String },
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Link(#[from] TakesLinkDown),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("the guard that undoes host settings cannot be started: {0}")]
    Guard(#[from] io::Error),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Held {
    /// Sets settings of this host, name → value, with a guard of their own. `receive-core.DEVICE` stands for all
    /// receive work of a device. What takes a link down comes first, and is refused on a device that carries the way
    /// here.
    pub fn set(settings: &BTreeMap<String, String>) -> Result<Self, HeldError> {
        let system = Real::host();
        let changes = changes(&system, settings)?;
        link::check(&changes)?;
        let guard = Guard::start(&std::env::current_exe()?, Journal::of_this_boot()?)?;
        Ok(Self::with(Box::new(system), &Arc::new(guard), &changes)?)
    }

    /// Makes changes of a system. What processes left that have ended is undone first.
    pub fn with(
        system: Box<dyn System + Send>,
        guard: &Arc<Guard>,
        changes: &[Change],
    ) -> Result<Self, ApplyError> {
        let journal = guard.journal();
        undo_of_the_ended(&*system, journal)?;
        let applied = apply(&*system, journal, changes, Some(guard.owner()))?;
        Ok(Self { system, guard: Arc::clone(guard), applied })
    }

    /// What was changed.
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// The names of the single settings that had another value before.
    pub fn changed(&self) -> Vec<String> {
        self.applied.made.iter().map(|made| made.setting.to_string()).collect()
    }

    /// Keeps the settings: they stay until they are undone, whatever becomes of this process.
    pub fn keep(mut self) -> Result<Applied, JournalError> {
        self.guard.journal().keep(&self.applied.records)?;
        Ok(std::mem::take(&mut self.applied))
    }

    /// Undoes the settings, and returns what became of them.
    pub fn undo(mut self) -> Result<Undone, JournalError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<Undone, JournalError> {
        let records = std::mem::take(&mut self.applied.records);
        if records.is_empty() {
            return Ok(Undone::default());
        }
        undo_records(&*self.system, self.guard.journal(), &records)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What cannot be undone stays in the journal, where `kqps host status` shows it.
        let _ = self.put_back();
    }
}

/// The changes of named settings, in an order in which none undoes another.
fn changes(system: &dyn System, settings: &BTreeMap<String, String>) -> Result<Vec<Change>, HeldError> {
    let mut changes = Vec::new();
    for (name, value) in settings {
        match name.strip_prefix(RECEIVE_CORE) {
            None => changes.push(Change::read(name, value)?),
            Some(device) => {
                let wrong = || HeldError::Core { name: name.clone(), value: value.clone() };
                let core = value.parse().map_err(|_| wrong())?;
                changes.extend(receive_core(system, device, core)?);
            }
        }
    }
    changes.sort_by_key(|change| rank(&change.setting));
    Ok(changes)
}

/// The place of a setting among others: numbers of queues come first, since drivers then begin anew with the rest.
pub fn rank(setting: &Setting) -> u32 {
    match setting {
        Setting::Channels { .. } => 0,
        Setting::Rings { .. } => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn queues_come_before_what_drivers_set_anew_with_them() {
        let memory = Memory::of(&[("irq.eth0-TxRx-0", "0-3")]);
        let of = |pairs: &[(&str, &str)]| {
            let map = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            changes(&memory, &map).map_err(|error| error.to_string())
        };
        let words = of(&[
            ("coalesce.eth0", "9"),
            ("rings.eth0", "64"),
            ("channels.eth0", "2"),
            ("receive-core.eth0", "1"),
        ]);
        let words: Vec<String> = words.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            ["channels.eth0=2", "rings.eth0=rx=64,tx=64", "coalesce.eth0=rx-usecs=9", "irqs.eth0=1"]
        );
        assert!(of(&[("receive-core.eth0", "last")]).unwrap_err().contains("expected the number of a core"));
        assert!(of(&[("receive-core.eth1", "0")]).unwrap_err().contains("rps.eth1"));
        assert!(of(&[("rsp.eth0", "0")]).unwrap_err().contains("did you mean `rps`?"));
    }
}
