//! Undoes what the journal holds: backwards, and only where a setting still has the value that kqps gave it.

mod part;

use std::collections::BTreeMap;
use std::fmt;

use crate::journal::{Journal, JournalError, Part, Record};
use crate::owner::Owner;
use crate::setting::{Setting, value};
use crate::system::{SettingError, System};
use part::{Outcome, Place, place, put_back};

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
pub struct LeftSetting {
    /// The setting.
    pub setting: Setting,
    /// Its value now; `None` if it cannot be read.
    pub found: Option<String>,
    /// The reason, a sentence without its full stop.
    pub reason: String,
    /// The value that it had before kqps changed it.
    pub old: String,
    /// The kind of the reason.
    pub kind: LeftKind,
}

/// Why a setting was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftKind {
    /// It has another value than kqps gave it.
    Changed,
    /// Another device has the name of its device, which has no hardware and does not come back.
    Another,
    /// A later change of kqps stays above it.
    Above,
    /// Its device is not here, or is down.
    Absent,
    /// The kernel or the driver refused.
    Refused,
}

impl LeftKind {
    /// Whether undoing it again would leave it again. If not, it stays in the journal.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Changed | Self::Another)
    }
}

impl fmt::Display for LeftSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, found, reason, old, .. } = self;
        match found {
            Some(found) => write!(f, "{setting} stays {found}, and was {old}: {reason}"),
            None => write!(f, "{setting} was {old}: {reason}"),
        }
    }
}

/// The outcome of undoing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Settings that have their old value again.
    pub restored: Vec<Restored>,
    /// Settings that were left as they are.
    pub left: Vec<LeftSetting>,
    /// Settings that this host no longer has, with the reason.
    pub gone: Vec<(Setting, String)>,
    /// Settings that a process holds that still runs.
    pub held: Vec<(Setting, Owner)>,
    /// Settings of another network namespace, with its number. They can be undone from there only.
    pub elsewhere: Vec<(Setting, u64)>,
    /// Other troubles, such as a record that cannot be read. Each is a sentence without its full stop.
    pub troubles: Vec<String>,
    /// The settings that were left for good, each with the number of its record, for [`Journal::forget`].
    pub over: Vec<(u64, Setting)>,
    /// The numbers of the records that were to be undone and that stay in the journal.
    pub kept: Vec<u64>,
}

/// Whether undoing waits for the links that it takes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It waits up to 10 s for each, since somebody uses the host next.
    Await,
    /// It does not, since it must end soon.
    Leave,
}

impl Undone {
    /// Whether nothing is left that kqps set.
    pub fn is_whole(&self) -> bool {
        let Self { left, held, elsewhere, troubles, .. } = self;
        left.is_empty() && held.is_empty() && elsewhere.is_empty() && troubles.is_empty()
    }

    /// Adds what undoing another journal did.
    pub fn add(&mut self, other: Self) {
        let Self { restored, left, gone, held, elsewhere, troubles, over, kept } = other;
        self.restored.extend(restored);
        self.left.extend(left);
        self.gone.extend(gone);
        self.held.extend(held);
        self.elsewhere.extend(elsewhere);
        self.troubles.extend(troubles);
        self.over.extend(over);
        self.kept.extend(kept);
    }

    /// Adds what undoing the kept records of one journal again did.
    fn go_on(&mut self, again: Self) {
        let mut before = std::mem::replace(self, again);
        before.restored.append(&mut self.restored);
        before.gone.append(&mut self.gone);
        before.troubles.retain(|trouble| !self.troubles.contains(trouble));
        before.troubles.append(&mut self.troubles);
        (self.restored, self.gone, self.troubles) = (before.restored, before.gone, before.troubles);
    }

    fn note(&mut self, outcome: Result<(), JournalError>) {
        self.troubles.extend(outcome.err().map(|error| error.to_string()));
    }
}

/// Undoes everything but what a process holds that still runs.
pub fn undo(system: &dyn System, journal: &Journal) -> Result<Undone, JournalError> {
    if journal.is_empty()? {
        return Ok(Undone::default());
    }
    let _lock = journal.lock()?;
    back(system, journal, &|record| record.owner.is_none_or(|owner| !owner.lives()), Links::Await)
}

/// Undoes what processes left that have ended.
pub fn undo_of_the_ended(system: &dyn System, journal: &Journal) -> Result<Undone, JournalError> {
    let _lock = journal.lock()?;
    back(system, journal, &|record| record.owner.is_some_and(|owner| !owner.lives()), Links::Await)
}

/// Undoes what one process holds, whether or not it runs, and then what it kept others from undoing. The network
/// namespaces that it made end with it, and nothing is undone there. It waits for no link.
pub fn undo_of(system: &dyn System, journal: &Journal, owner: Owner) -> Result<Undone, JournalError> {
    let _lock = journal.lock()?;
    let is_its = |record: &Record| record.owner == Some(owner);
    let mut removed = Undone::default();
    for record in journal.records()?.iter().filter(|record| is_its(record) && record.is_private) {
        removed.note(journal.remove(record.number));
    }
    let mut undone = back(system, journal, &is_its, Links::Leave)?;
    undone.troubles.extend(removed.troubles);
    undone.restored.extend(after_others(system, journal, &is_its, Links::Leave));
    Ok(undone)
}

/// Undoes the records with these numbers, and then what they kept others from undoing.
pub fn undo_records(
    system: &dyn System,
    journal: &Journal,
    numbers: &[u64],
    links: Links,
) -> Result<Undone, JournalError> {
    let _lock = journal.lock()?;
    let is_its = |record: &Record| numbers.contains(&record.number);
    let mut undone = back(system, journal, &is_its, links)?;
    undone.restored.extend(after_others(system, journal, &is_its, links));
    Ok(undone)
}

/// Undoes what ended processes left because a later change was above it, and returns that. What is left of it stays in
/// the journal, where `kqps host status` shows it.
fn after_others(
    system: &dyn System,
    journal: &Journal,
    is_done: &dyn Fn(&Record) -> bool,
    links: Links,
) -> Vec<Restored> {
    let is_of_the_ended = |record: &Record| record.owner.is_some_and(|owner| !owner.lives());
    let undone = back(system, journal, &|record| !is_done(record) && is_of_the_ended(record), links);
    undone.map_or_else(|_| Vec::new(), |undone| undone.restored)
}

/// The present name and value of a setting of the journal, also if its device has another name now; `None` if it cannot
/// be read.
pub fn value_now(system: &dyn System, part: &Part) -> Option<(Setting, String)> {
    match place(system, part) {
        Place::Here { setting, now } => Some((setting, now)),
        Place::Gone(_) | Place::Left { .. } => None,
    }
}

/// Undoes the selected records, the newest first. The caller has locked the journal. A record that cannot be read,
/// written or removed does not keep it from the others. What was refused is undone again as long as that helps: a
/// driver refuses a table with more queues than it has, and takes it once older records have brought the queues back.
pub(crate) fn back(
    system: &dyn System,
    journal: &Journal,
    is_selected: &dyn Fn(&Record) -> bool,
    links: Links,
) -> Result<Undone, JournalError> {
    let mut undone = once(system, journal, is_selected, links)?;
    let mut restored = undone.restored.len();
    while restored > 0 && undone.left.iter().any(|left| left.kind == LeftKind::Refused) {
        let kept = undone.kept.clone();
        let is_kept = |record: &Record| is_selected(record) && kept.contains(&record.number);
        let Ok(again) = once(system, journal, &is_kept, links) else { break };
        restored = again.restored.len();
        undone.go_on(again);
    }
    Ok(undone)
}

/// Undoes each of the selected records once, the newest first.
fn once(
    system: &dyn System,
    journal: &Journal,
    is_selected: &dyn Fn(&Record) -> bool,
    links: Links,
) -> Result<Undone, JournalError> {
    let mut undone = Undone::default();
    // Settings that a later record holds, which stays.
    let mut above: BTreeMap<Setting, String> = BTreeMap::new();
    let (records, unreadable) = journal.read()?;
    undone.troubles.extend(unreadable.iter().map(ToString::to_string));
    for record in records.into_iter().rev() {
        let is_here = record.is_in(system.network());
        if is_selected(&record) {
            if is_here {
                one(system, journal, record, &above, links, &mut undone);
            } else {
                of_another_network(journal, &record, &mut undone);
            }
        } else if is_here || !record.is_private {
            let holder = record.owner.map_or_else(|| "a later change".to_owned(), |owner| owner.to_string());
            for part in record.parts {
                undone.held.extend(record.owner.map(|owner| (part.setting.clone(), owner)));
                if is_here {
                    above.insert(part.setting, holder.clone());
                }
            }
        }
    }
    Ok(undone)
}

/// Removes a record of another network namespace, or keeps it. A namespace that its owner made has ended with the
/// owner. Of any other nobody can say here that it is gone: it may be kept without a process (ip-netns(8)).
fn of_another_network(journal: &Journal, record: &Record, undone: &mut Undone) {
    if record.is_private && record.owner.is_some_and(|owner| !owner.lives()) {
        undone.note(journal.remove(record.number));
        return;
    }
    undone.kept.push(record.number);
    let network = record.network.unwrap_or_default();
    undone.elsewhere.extend(record.parts.iter().map(|part| (part.setting.clone(), network)));
}

/// Undoes one record, and removes it if nothing of it is left.
fn one(
    system: &dyn System,
    journal: &Journal,
    mut record: Record,
    above: &BTreeMap<Setting, String>,
    links: Links,
    undone: &mut Undone,
) {
    // Settings that the driver changed by itself are looked at first, since undoing changes them again. From here on
    // they count as ours, also if undoing is cut short and done again.
    record.beside.retain(|part| is_as_left(system, part));
    let beside = record.beside.clone();
    if !beside.is_empty() {
        record.beside.iter_mut().for_each(|part| part.found = None);
        undone.note(journal.write(&record));
    }
    let (mut kept, mut is_begun) = (Vec::new(), false);
    for part in record.parts.iter().rev() {
        match put_back(system, journal, part, record.is_made, above, links, &mut undone.troubles) {
            Outcome::Restored(setting) => {
                is_begun = true;
                undone.restored.push(Restored { setting, value: part.old.clone() });
            }
            Outcome::Same => is_begun = true,
            Outcome::Gone(why) => undone.gone.push((part.setting.clone(), why)),
            Outcome::Left(left) => {
                kept.push(Part { left: Some(left.reason.clone()), ..part.clone() });
                undone.over.extend(left.kind.is_over().then(|| (record.number, part.setting.clone())));
                undone.left.push(left);
            }
        }
    }
    if !kept.is_empty() {
        kept.reverse();
        // As long as the setting stays, what the driver changed with it stays too.
        let beside = if is_begun { record.beside } else { beside };
        undone.kept.push(record.number);
        undone.note(journal.write(&Record { parts: kept, beside, ..record }));
        return;
    }
    let failed = beside_again(system, journal, &record.beside, undone);
    if failed.is_empty() {
        let removed = journal.remove(record.number);
        undone.kept.extend(removed.is_err().then_some(record.number));
        undone.note(removed);
    } else {
        undone.kept.push(record.number);
        undone.note(journal.write(&Record { parts: Vec::new(), beside: failed, ..record }));
    }
}

/// Puts back what the driver changed by itself. Returns what it refused, and what cannot be seen now.
fn beside_again(system: &dyn System, journal: &Journal, beside: &[Part], undone: &mut Undone) -> Vec<Part> {
    let mut failed = Vec::new();
    for part in beside {
        let (setting, now) = match place(system, part) {
            Place::Here { setting, now } => (setting, now),
            // A queue that came with the change is gone again, and so are its settings.
            Place::Gone(_) => continue,
            Place::Left { kind, found, reason } => {
                failed.extend((!kind.is_over()).then(|| part.clone()));
                let (setting, old) = (part.setting.clone(), part.old.clone());
                undone.left.push(LeftSetting { setting, found, reason, old, kind });
                continue;
            }
        };
        if value::same(&setting, &now, &part.old) {
            continue;
        }
        match system.write(&setting, &part.old) {
            Ok(()) => {
                journal.step();
                undone.restored.push(Restored { setting, value: part.old.clone() });
            }
            Err(SettingError::Absent { why, .. }) => undone.gone.push((setting, why)),
            Err(SettingError::Refused { why, .. }) => {
                failed.push(part.clone());
                let (found, old) = (Some(now), part.old.clone());
                undone.left.push(LeftSetting { setting, found, reason: why, old, kind: LeftKind::Refused });
            }
        }
    }
    failed
}

/// Whether a setting that changed by itself has the value that it got then, or cannot be seen now.
fn is_as_left(system: &dyn System, part: &Part) -> bool {
    match (&part.found, place(system, part)) {
        (Some(found), Place::Here { setting, now }) => value::alike(&setting, &now, found),
        (Some(_), Place::Gone(_)) => false,
        // Left, or the program ended within the change, or within undoing it.
        (Some(_), Place::Left { .. }) | (None, _) => true,
    }
}

#[cfg(test)]
mod tests;
