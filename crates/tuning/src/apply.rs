//! Sets settings: each change is on disk with its old value before it is made, and is read back afterwards. If one
//! cannot be made, those before it are undone.

mod recheck;

use std::collections::BTreeSet;

use crate::journal::{Journal, JournalError, Part, Record};
use crate::owner::Owner;
use crate::setting::{Change, Setting, in_order, value};
use crate::settle::Link;
use crate::system::{SettingError, System};
use crate::undo::{self, LeftSetting, Links};

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

/// The outcome of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The single settings that were changed, in their order.
    pub made: Vec<Made>,
    /// Changes of which every setting had its value already.
    pub already: Vec<Change>,
    /// Remarks, each a sentence without its full stop.
    pub remarks: Vec<String>,
    /// The numbers of their records in the journal.
    pub records: Vec<u64>,
}

impl Applied {
    fn remark(&mut self, remarks: impl IntoIterator<Item = String>) {
        for remark in remarks {
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
    }
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
    #[error("{error}; {}", undone_words(.left, .troubles))]
    Undone { error: Box<ApplyError>, left: Vec<LeftSetting>, troubles: Vec<String> },
    #[error("{error}; what was set before it could not be undone: {undo}")]
    NotUndone { error: Box<ApplyError>, undo: JournalError },
}

fn undone_words(left: &[LeftSetting], troubles: &[String]) -> String {
    let left: Vec<String> = left.iter().map(ToString::to_string).chain(troubles.iter().cloned()).collect();
    if left.is_empty() {
        return "what was set before it is undone".into();
    }
    format!("of what was set before it this could not be undone: {}", left.join("; "))
}

/// Makes changes, in the order of [`Setting::rank`] and otherwise in theirs. The settings are undone when the `owner`
/// ends, if there is one, and else stay until [`crate::undo()`]. Whatever can be checked is checked before anything is
/// changed.
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
    let mut changes = changes.to_vec();
    in_order(&mut changes);
    let _lock = journal.lock()?;
    let mut applied = Applied::default();
    let mut records = Vec::new();
    let made: Result<(), ApplyError> = changes.iter().try_for_each(|change| {
        records.extend(one(system, journal, change, owner, &mut applied)?);
        Ok(())
    });
    let made = made.and_then(|()| recheck::again(system, journal, &mut records, &mut applied));
    if let Err(error) = made {
        return Err(taken_back(system, journal, &applied, error));
    }
    let parts = records.into_iter().flat_map(|record| record.parts);
    applied.made = parts
        .map(|part| Made { now: part.found.unwrap_or(part.wanted), setting: part.setting, old: part.old })
        .collect();
    Ok(applied)
}

/// Undoes what was made before an error. Returns the error, and what could not be undone.
fn taken_back(system: &dyn System, journal: &Journal, applied: &Applied, error: ApplyError) -> ApplyError {
    let error = Box::new(error);
    let is_its = |record: &Record| applied.records.contains(&record.number);
    match undo::back(system, journal, &is_its, Links::Await) {
        Err(undo) => ApplyError::NotUndone { error, undo },
        Ok(undone) if undone.restored.is_empty() && undone.left.is_empty() && undone.troubles.is_empty() => {
            *error
        }
        Ok(undone) => ApplyError::Undone { error, left: undone.left, troubles: undone.troubles },
    }
}

/// Checks that every setting exists and can be read. Settings of a device whose numbers of queues are changed as well
/// are checked when it is their turn.
pub fn check(system: &dyn System, changes: &[Change]) -> Result<(), SettingError> {
    let is_reshaping = |change: &&Change| matches!(change.setting, Setting::Channels { .. });
    let reshaped: BTreeSet<&str> =
        changes.iter().filter(is_reshaping).filter_map(|change| change.setting.device()).collect();
    for change in changes {
        let device = change.setting.device();
        if is_reshaping(&change) || device.is_none_or(|device| !reshaped.contains(device)) {
            for part in system.parts(change)? {
                system.read(&part.setting)?;
            }
        }
    }
    Ok(())
}

/// Makes one change, and returns its record; `None` if every setting has its value already.
fn one(
    system: &dyn System,
    journal: &Journal,
    change: &Change,
    owner: Option<Owner>,
    applied: &mut Applied,
) -> Result<Option<Record>, ApplyError> {
    let all = system.parts(change)?;
    let mut parts = Vec::new();
    let mut beside = Vec::new();
    for Change { setting, value } in &all {
        let old = system.read(setting)?;
        let wanted = value::completed(setting, value, &old);
        if !value::same(setting, &wanted, &old) {
            beside.extend(system.beside(setting));
            parts.push(part(system, setting.clone(), old, wanted));
        }
    }
    if parts.is_empty() {
        applied.already.push(change.clone());
        return Ok(None);
    }
    applied.remark(system.remarks(&all));
    let beside = beside.into_iter().filter_map(|setting| {
        let old = system.read(&setting).ok()?;
        Some(part(system, setting, old.clone(), old))
    });
    let beside = beside.collect();
    let is_of_network = parts.iter().any(|part| part.setting.is_of_network());
    let network = is_of_network.then(|| system.network());
    let is_private = is_of_network && system.is_private();
    let change = change.clone();
    let mut record = Record { number: 0, change, parts, beside, owner, network, is_private, is_made: false };
    journal.add(&mut record)?;
    applied.records.push(record.number);
    for at in 0..record.parts.len() {
        let Part { setting, wanted, .. } = record.parts[at].clone();
        let found = set(system, journal, &setting, &wanted, applied)?;
        let is_same = setting.is_rounded() || value::same(&setting, &found, &wanted);
        record.parts[at].found = Some(found.clone());
        if !is_same && value::may_be_rewritten(&setting, &wanted, &found) {
            applied.remark([format!("{setting}: the kernel was given {wanted} and has {found}")]);
        } else if !is_same {
            // Undoing must know that this value is ours.
            journal.write(&record)?;
            return Err(ApplyError::NotTaken { setting, wanted, found });
        }
    }
    for part in &mut record.beside {
        part.found = system.read(&part.setting).ok();
    }
    record.is_made = true;
    journal.write(&record)?;
    Ok(Some(record))
}

fn part(system: &dyn System, setting: Setting, old: String, wanted: String) -> Part {
    let identity = system.identity(&setting);
    Part { setting, old, wanted, found: None, identity, left: None }
}

/// Writes one setting, waits for the link that this takes down, and returns the value that is read back.
fn set(
    system: &dyn System,
    journal: &Journal,
    setting: &Setting,
    wanted: &str,
    applied: &mut Applied,
) -> Result<String, SettingError> {
    let link = Link::before(system, setting);
    system.write(setting, wanted)?;
    journal.step();
    applied.remark(link.wait());
    system.read(setting)
}

#[cfg(test)]
mod tests;
