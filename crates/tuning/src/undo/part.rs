//! Undoes one setting: finds it, also if its device has another name now, and puts it back if it is still ours.

use std::collections::BTreeMap;

use super::{LeftKind, LeftSetting, Links};
use crate::journal::{Journal, Part};
use crate::setting::{Setting, value};
use crate::settle::Link;
use crate::system::{SettingError, System};

/// The outcome for one setting.
pub(super) enum Outcome {
    /// It has its old value again, under this name.
    Restored(Setting),
    /// It has its old value.
    Same,
    /// This host no longer has it.
    Gone(String),
    Left(LeftSetting),
}

/// Where a setting is.
pub(super) enum Place {
    /// Here, with the name and the value that it has now.
    Here { setting: Setting, now: String },
    /// Gone for good, with its device or its queue.
    Gone(String),
    /// It is not known to be gone, and cannot be read.
    Left { kind: LeftKind, found: Option<String>, reason: String },
}

/// Finds a setting by its name and, if its device has another name now, by what the device is.
pub(super) fn place(system: &dyn System, part: &Part) -> Place {
    let Part { setting, identity, .. } = part;
    let is_another = identity.differs_from(&system.identity(setting));
    let left = |kind, found, reason: String| Place::Left { kind, found, reason };
    let (found, why) = match system.read(setting) {
        Ok(now) if is_another => (Some(now), String::new()),
        Ok(now) => return Place::Here { setting: setting.clone(), now },
        Err(SettingError::Refused { why, .. }) if !is_another => return left(LeftKind::Refused, None, why),
        Err(SettingError::Absent { why, .. } | SettingError::Refused { why, .. }) => (None, why),
    };
    if !identity.is_known() {
        return Place::Gone(why);
    }
    let Some(name) = system.find(identity) else {
        return if identity.has_hardware() {
            let other = if is_another { "; another device has its name now" } else { "" };
            let reason = format!(
                "its device ({identity}) is not here: it was unplugged, or is in another network namespace{other}"
            );
            left(LeftKind::Absent, None, reason)
        } else if is_another {
            left(LeftKind::Another, found, "another device has its name now".into())
        } else {
            Place::Gone(why)
        };
    };
    let moved = setting.renamed(identity.device.as_deref().unwrap_or_default(), &name);
    match system.read(&moved) {
        Ok(now) => Place::Here { setting: moved, now },
        Err(SettingError::Refused { why, .. }) => left(LeftKind::Refused, None, why),
        // The kernel removes a queue with its settings. Others come back with the link.
        Err(SettingError::Absent { why, .. }) if is_of_queue(&moved) || system.is_linked(&name) => {
            Place::Gone(why)
        }
        Err(SettingError::Absent { why, .. }) => {
            left(LeftKind::Absent, None, format!("{why}, while its device {name} is down"))
        }
    }
}

fn is_of_queue(setting: &Setting) -> bool {
    matches!(setting, Setting::Rps { .. } | Setting::Xps { .. })
}

/// Puts one setting back, if it still has the value that kqps gave it.
pub(super) fn put_back(
    system: &dyn System,
    journal: &Journal,
    part: &Part,
    is_made: bool,
    above: &BTreeMap<Setting, String>,
    links: Links,
    troubles: &mut Vec<String>,
) -> Outcome {
    let old = &part.old;
    let (setting, now) = match place(system, part) {
        Place::Here { setting, now } => (setting, now),
        Place::Gone(why) => return Outcome::Gone(why),
        Place::Left { kind, found, reason } => {
            let (setting, old) = (part.setting.clone(), old.clone());
            return Outcome::Left(LeftSetting { setting, found, reason, old, kind });
        }
    };
    let left = |kind, found, reason| {
        Outcome::Left(LeftSetting { setting: setting.clone(), found, reason, old: old.clone(), kind })
    };
    if let Some(holder) = above.get(&part.setting) {
        return left(LeftKind::Above, Some(now), format!("{holder} has set it since"));
    }
    if value::same(&setting, &now, old) {
        return Outcome::Same;
    }
    if !is_ours(&setting, part, &now, is_made) {
        return left(LeftKind::Changed, Some(now), "somebody else has changed it since".into());
    }
    let link = Link::before(system, &setting);
    if let Err(SettingError::Absent { why, .. } | SettingError::Refused { why, .. }) =
        system.write(&setting, old)
    {
        return left(LeftKind::Refused, Some(now), why);
    }
    journal.step();
    if links == Links::Await {
        troubles.extend(link.wait());
    }
    match system.read(&setting) {
        Ok(again) if value::alike(&setting, &again, old) => Outcome::Restored(setting),
        Ok(again) => {
            let reason = format!("the kernel was given {old} and has {again}");
            left(LeftKind::Refused, Some(again), reason)
        }
        Err(error) => left(LeftKind::Refused, None, error.to_string()),
    }
}

/// Whether a setting has the value that kqps gave it, or what the driver or the kernel made of it.
fn is_ours(setting: &Setting, part: &Part, now: &str, is_made: bool) -> bool {
    let Part { wanted, found, .. } = part;
    if value::same(setting, now, wanted) {
        return true;
    }
    match found {
        Some(found) => value::alike(setting, now, found),
        // The program ended before it read back what became of the value.
        None => !is_made && (setting.is_rounded() || value::may_come_of(setting, wanted, now)),
    }
}
