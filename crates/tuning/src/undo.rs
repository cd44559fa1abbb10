//! Undoes what the journal holds: backwards, and only where a setting still has the value that kqps gave it.

use std::collections::BTreeMap;
use std::fmt;

use crate::journal::{Journal, JournalError, Part, Record};
use crate::owner::{self, Owner};
use crate::setting::{Setting, value};
use crate::system::{Identity, SettingError, System};

/// A setting that was put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The setting.
    pub setting: Setting,
    /// The value that it has again.
    pub value: String,
}

/// A setting that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The setting.
    pub setting: Setting,
    /// Its value now; `None` if it cannot be read.
    pub found: Option<String>,
    /// The reason, a sentence without its full stop.
    pub reason: String,
    /// The value that it had before kqps changed it.
    pub old: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, found, reason, old } = self;
        match found {
            Some(found) => write!(f, "{setting} stays {found}, and was {old}: {reason}"),
            None => write!(f, "{setting} was {old}: {reason}"),
        }
    }
}

/// What undoing did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Settings that have their old value again.
    pub restored: Vec<Restored>,
    /// Settings that were left as they are.
    pub left: Vec<Left>,
    /// Settings that this host no longer has, with the reason.
    pub gone: Vec<(Setting, String)>,
    /// Settings that a process holds that still runs.
    pub held: Vec<(Setting, Owner)>,
    /// The records of settings that were left, but for those that a process has set since.
    pub records: Vec<u64>,
}

/// Undoes everything but what a process holds that still runs.
pub fn undo(system: &dyn System, journal: &Journal) -> Result<Undone, JournalError> {
    let _lock = journal.lock()?;
    back(system, journal, &|record| record.owner.is_none_or(|owner| !owner.lives()))
}

/// Undoes what processes left that have ended.
pub fn undo_of_the_ended(system: &dyn System, journal: &Journal) -> Result<Undone, JournalError> {
    let _lock = journal.lock()?;
    back(system, journal, &|record| record.owner.is_some_and(|owner| !owner.lives()))
}

/// Undoes what one process holds, whether or not it runs. Other network namespaces of it are those that it made: they
/// end with it, and nothing is undone there.
pub fn undo_of(system: &dyn System, journal: &Journal, owner: Owner) -> Result<Undone, JournalError> {
    let _lock = journal.lock()?;
    let undone = back(system, journal, &|record| record.owner == Some(owner))?;
    for record in journal.records()? {
        if record.owner == Some(owner) && record.network != system.network() {
            journal.remove(record.number)?;
        }
    }
    Ok(undone)
}

/// Undoes the records with these numbers.
pub fn undo_records(system: &dyn System, journal: &Journal, numbers: &[u64]) -> Result<Undone, JournalError> {
    let _lock = journal.lock()?;
    back(system, journal, &|record| numbers.contains(&record.number))
}

/// Undoes the selected records, the newest first. The caller has locked the journal.
pub(crate) fn back(
    system: &dyn System,
    journal: &Journal,
    is_selected: &dyn Fn(&Record) -> bool,
) -> Result<Undone, JournalError> {
    let mut undone = Undone::default();
    // Settings that a later record holds, which stays.
    let mut above: BTreeMap<Setting, String> = BTreeMap::new();
    for record in journal.records()?.into_iter().rev() {
        if record.network != system.network() {
            // A namespace without processes is gone, with its devices.
            if is_selected(&record) && !owner::is_inhabited("net", record.network) {
                journal.remove(record.number)?;
            }
        } else if is_selected(&record) {
            one(system, journal, record, &above, &mut undone)?;
        } else {
            let holder = record.owner.map_or_else(|| "a later change".to_owned(), |owner| owner.to_string());
            for part in record.parts {
                undone.held.extend(record.owner.map(|owner| (part.setting.clone(), owner)));
                above.insert(part.setting, holder.clone());
            }
        }
    }
    Ok(undone)
}

/// Undoes one record, and removes it if nothing of it is left.
fn one(
    system: &dyn System,
    journal: &Journal,
    mut record: Record,
    above: &BTreeMap<Setting, String>,
    undone: &mut Undone,
) -> Result<(), JournalError> {
    if !record.beside.is_empty() {
        // What the driver changed by itself is looked at first, since undoing changes it again. From here on it counts
        // as ours, also if undoing is cut short and done again.
        record.beside.retain(|part| is_as_left(system, part));
        record.beside.iter_mut().for_each(|part| part.found = None);
        journal.write(&record)?;
    }
    let mut kept = Vec::new();
    // Whether undoing it again would leave it again.
    let mut is_over = false;
    for part in record.parts.iter().rev() {
        match put_back(system, journal, part, record.is_made, above) {
            Outcome::Restored => {
                undone.restored.push(Restored { setting: part.setting.clone(), value: part.old.clone() });
            }
            Outcome::Same => {}
            Outcome::Gone(why) => undone.gone.push((part.setting.clone(), why)),
            Outcome::Left { found, reason } => {
                let (setting, old) = (part.setting.clone(), part.old.clone());
                kept.push(Part { left: Some(reason.clone()), ..part.clone() });
                is_over |= !above.contains_key(&part.setting);
                undone.left.push(Left { setting, found, reason, old });
            }
        }
    }
    for part in &record.beside {
        // A queue that came with the change is gone again, and so are its settings.
        if system.read(&part.setting).is_ok_and(|now| !value::same(&part.setting, &now, &part.old))
            && system.write(&part.setting, &part.old).is_ok()
        {
            journal.step();
            undone.restored.push(Restored { setting: part.setting.clone(), value: part.old.clone() });
        }
    }
    if kept.is_empty() {
        return journal.remove(record.number);
    }
    kept.reverse();
    undone.records.extend(is_over.then_some(record.number));
    journal.write(&Record { parts: kept, beside: Vec::new(), ..record })
}

/// Whether a setting that changed by itself has the value that it got then.
fn is_as_left(system: &dyn System, part: &Part) -> bool {
    let now = system.read(&part.setting);
    match &part.found {
        Some(found) => now.is_ok_and(|now| value::same(&part.setting, &now, found)),
        // The program ended within the change, or within undoing it.
        None => true,
    }
}

/// What became of one setting.
enum Outcome {
    Restored,
    /// It has its old value.
    Same,
    /// This host no longer has it.
    Gone(String),
    Left {
        found: Option<String>,
        reason: String,
    },
}

fn put_back(
    system: &dyn System,
    journal: &Journal,
    part: &Part,
    is_made: bool,
    above: &BTreeMap<Setting, String>,
) -> Outcome {
    let Part { setting, old, wanted, found, identity, .. } = part;
    let now = match system.read(setting) {
        Ok(now) => now,
        Err(SettingError::Absent { why, .. }) => return Outcome::Gone(why),
        Err(error) => return Outcome::Left { found: None, reason: error.to_string() },
    };
    let left = |reason: String| Outcome::Left { found: Some(now.clone()), reason };
    if is_another(identity, &system.identity(setting)) {
        return left("another device has its name now".into());
    }
    if let Some(holder) = above.get(setting) {
        return left(format!("{holder} has set it since"));
    }
    if value::same(setting, &now, old) {
        return Outcome::Same;
    }
    let is_wanted = value::same(setting, &now, wanted);
    let is_ours = match found {
        Some(found) => is_wanted || value::same(setting, &now, found),
        // The program ended before it read back what the driver made of the value.
        None => is_wanted || (setting.is_rounded() && !is_made),
    };
    if !is_ours {
        return left("somebody else has changed it since".into());
    }
    if let Err(error) = system.write(setting, old) {
        return left(error.to_string());
    }
    journal.step();
    match system.read(setting) {
        Ok(again) if value::same(setting, &again, old) => Outcome::Restored,
        Ok(again) => Outcome::Left {
            reason: format!("the kernel was given {old} and has {again}"),
            found: Some(again),
        },
        Err(error) => Outcome::Left { found: None, reason: error.to_string() },
    }
}

/// Whether two identities are surely those of two devices.
fn is_another(before: &Identity, now: &Identity) -> bool {
    let has_other_mac = before.mac.is_some() && now.mac.is_some() && before.mac != now.mac;
    let is_elsewhere = before.bus.is_some() && now.bus.is_some() && before.bus != now.bus;
    has_other_mac || is_elsewhere
}
