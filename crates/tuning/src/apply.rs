//! Sets settings: each change is on disk with its old value before it is made, and is read back afterwards. If one
//! cannot be made, those before it are undone.

use std::collections::BTreeSet;

use crate::journal::{Journal, JournalError, Part, Record};
use crate::owner::Owner;
use crate::setting::{Change, Setting, value};
use crate::system::{SettingError, System};
use crate::undo::{self, Left, Undone};

/// A single setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The setting.
    pub setting: Setting,
    /// The value before.
    pub old: String,
    /// The value now, which the driver may have rounded.
    pub now: String,
}

/// What became of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The single settings that were changed, in their order.
    pub made: Vec<Made>,
    /// Changes of which every setting had its value already.
    pub already: Vec<Change>,
    /// Remarks, each a sentence.
    pub remarks: Vec<String>,
    /// The numbers of their records in the journal.
    pub records: Vec<u64>,
}

/// Why changes could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum ApplyError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("{setting}: the kernel was given {wanted} and has {found}")]
    NotTaken { setting: Setting, wanted: String, found: String },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{error}; {}", undone_words(.left))]
    Undone { error: Box<ApplyError>, left: Vec<Left> },
}

fn undone_words(left: &[Left]) -> String {
    if left.is_empty() {
        return "what was set before it is undone".into();
    }
    let left: Vec<String> = left.iter().map(ToString::to_string).collect();
    format!("of what was set before it this could not be undone: {}", left.join("; "))
}

/// Makes changes in their order. The settings are undone when the `owner` ends, if there is one, and else stay until
/// [`crate::undo()`]. Whatever can be checked is checked before anything is changed.
///
/// # Errors
///
/// The first change that cannot be made. Nothing is left of those before it, but for what [`ApplyError::Undone`] names.
pub fn apply(
    system: &dyn System,
    journal: &Journal,
    changes: &[Change],
    owner: Option<Owner>,
) -> Result<Applied, ApplyError> {
    check(system, changes)?;
    let _lock = journal.lock()?;
    let mut applied = Applied::default();
    for change in changes {
        if let Err(error) = one(system, journal, change, owner, &mut applied) {
            let is_ours = |record: &Record| applied.records.contains(&record.number);
            let undone = undo::back(system, journal, &is_ours).unwrap_or_else(|_| Undone::default());
            if undone.restored.is_empty() && undone.left.is_empty() {
                return Err(error);
            }
            return Err(ApplyError::Undone { error: Box::new(error), left: undone.left });
        }
    }
    Ok(applied)
}

/// Checks that every setting exists and can be read. Settings of a device whose numbers of queues are changed before
/// are checked when it is their turn.
pub fn check(system: &dyn System, changes: &[Change]) -> Result<(), SettingError> {
    let mut reshaped: BTreeSet<&str> = BTreeSet::new();
    for change in changes {
        let device = change.setting.device();
        if device.is_none_or(|device| !reshaped.contains(device)) {
            for part in system.parts(change)? {
                system.read(&part.setting)?;
            }
        }
        if let (Setting::Channels { .. }, Some(device)) = (&change.setting, device) {
            reshaped.insert(device);
        }
    }
    Ok(())
}

/// Makes one change.
fn one(
    system: &dyn System,
    journal: &Journal,
    change: &Change,
    owner: Option<Owner>,
    applied: &mut Applied,
) -> Result<(), ApplyError> {
    let mut parts = Vec::new();
    let mut beside = Vec::new();
    for Change { setting, value } in system.parts(change)? {
        let old = system.read(&setting)?;
        let wanted = value::completed(&setting, &value, &old);
        if !value::same(&setting, &wanted, &old) {
            let remark = system.remark(&setting).filter(|remark| !applied.remarks.contains(remark));
            applied.remarks.extend(remark);
            beside.extend(system.beside(&setting));
            let identity = system.identity(&setting);
            parts.push(Part { setting, old, wanted, found: None, identity, left: None });
        }
    }
    if parts.is_empty() {
        applied.already.push(change.clone());
        return Ok(());
    }
    let beside = beside.into_iter().filter_map(|setting| {
        let old = system.read(&setting).ok()?;
        let identity = system.identity(&setting);
        Some(Part { setting, wanted: old.clone(), old, found: None, identity, left: None })
    });
    let beside = beside.collect();
    let network = system.network();
    let mut record =
        Record { number: 0, change: change.clone(), parts, beside, owner, network, is_made: false };
    journal.add(&mut record)?;
    applied.records.push(record.number);
    for part in &mut record.parts {
        system.write(&part.setting, &part.wanted)?;
        journal.step();
        let found = system.read(&part.setting)?;
        if !part.setting.is_rounded() && !value::same(&part.setting, &found, &part.wanted) {
            let (setting, wanted) = (part.setting.clone(), part.wanted.clone());
            return Err(ApplyError::NotTaken { setting, wanted, found });
        }
        part.found = Some(found);
    }
    for part in &mut record.beside {
        part.found = system.read(&part.setting).ok();
    }
    record.is_made = true;
    journal.write(&record)?;
    applied.made.extend(record.parts.into_iter().map(|part| Made {
        now: part.found.unwrap_or(part.wanted),
        setting: part.setting,
        old: part.old,
    }));
    Ok(())
}

#[cfg(test)]
mod tests;
