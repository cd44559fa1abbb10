//! Settings of the host that an agent changes for a controller, and puts back.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use kqps_tuning::link::{self, TakesLinkDown};
use kqps_tuning::receive_core::receive_core;
use kqps_tuning::setting::in_order;
use kqps_tuning::{Change, Guard, Held, Journal, Real};

use super::failure::{Failure, plain};
use super::holders::Holders;
use super::job::Done;

/// The name of a setting that puts all receive work of a device on one core, before the device.
const RECEIVE_CORE: &str = "receive-core.";

/// The settings that are held.
#[derive(Default)]
pub(super) struct Tuned {
    held: Holders<Held>,
    /// Puts them back if this process ends before.
    guard: Option<Arc<Guard>>,
}

impl fmt::Debug for Tuned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tuned").field("is_held", &self.held.are_some()).finish_non_exhaustive()
    }
}

impl Tuned {
    /// Changes settings, and returns [`Done::Set`]. If the same settings are held already, this adds a holder.
    pub(super) fn set(&mut self, settings: &BTreeMap<String, String>, kqps: &Path) -> Result<Done, Failure> {
        if let Some(held) = self.held.join(settings).map_err(plain)? {
            return Ok(done(held));
        }
        let system = Real::host();
        let changes = changes(&system, settings).map_err(plain)?;
        link::check(&changes).map_err(refused)?;
        let guard = self.guard(kqps)?;
        let held = Held::set(Box::new(system), &guard, &changes).map_err(plain)?;
        Ok(done(self.held.begin(settings.clone(), held)))
    }

    /// Takes a holder away. The last one puts all settings back, which fails if somebody else changed one since.
    pub(super) fn unset(&mut self) -> Result<(), Failure> {
        self.held.leave().map_or(Ok(()), put_back)
    }

    /// Puts all settings back, however many holders there are.
    pub(super) fn end(&mut self) {
        // Settings that cannot be put back are in the journal, where `kqps host status` shows them.
        let _ = self.held.end().map_or(Ok(()), put_back);
    }

    fn guard(&mut self, kqps: &Path) -> Result<Arc<Guard>, Failure> {
        if let Some(guard) = &self.guard {
            return Ok(Arc::clone(guard));
        }
        let journal = Journal::of_this_boot().map_err(plain)?;
        let started = Guard::start(kqps, journal)
            .map_err(|error| plain(format!("starting the guard of the host's settings: {error}")))?;
        Ok(Arc::clone(self.guard.insert(Arc::new(started))))
    }
}

/// Reports the changed settings, and remarks on them.
fn done(held: &Held) -> Done {
    let applied = held.applied();
    Done::Set {
        changed: applied.made.iter().map(|made| made.setting.to_string()).collect(),
        remarks: applied.remarks.clone(),
    }
}

fn put_back(held: Held) -> Result<(), Failure> {
    let undone = held.undo().map_err(plain)?;
    let left: Vec<String> = undone.left.iter().map(ToString::to_string).chain(undone.troubles).collect();
    all_back(&left)
}

/// Fails if something of the settings is left, or if an undo had troubles: the host may not be as before.
fn all_back(left: &[String]) -> Result<(), Failure> {
    if left.is_empty() {
        return Ok(());
    }
    Err(plain(format!("not every setting could be put back: {}", left.join("; "))))
}

/// The changes that settings by name stand for. Numbers of queues come first, since they reset others of their device.
fn changes(system: &Real, settings: &BTreeMap<String, String>) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    for (name, value) in settings {
        match name.strip_prefix(RECEIVE_CORE) {
            Some(device) => {
                let core =
                    value.parse().map_err(|_| format!("{name} = {value}: expected the number of a core"))?;
                changes.extend(receive_core(system, device, core).map_err(|error| error.to_string())?);
            }
            None => changes.push(Change::read(name, value).map_err(|error| error.to_string())?),
        }
    }
    in_order(&mut changes);
    Ok(changes)
}

fn refused(refusal: TakesLinkDown) -> Failure {
    let TakesLinkDown { change, device, way } = refusal;
    plain(format!("{change} takes down the link of {device}, which carries {way}; a run does not do that"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(settings: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Ok(changes(&Real::host(), &settings)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn queues_come_before_what_their_number_resets() {
        let given = [("channels.eth0", "combined=4"), ("rps.eth0", "0-3"), ("coalesce.eth0", "rx-usecs=50")];
        let words = words(&given).unwrap();
        assert_eq!((words.len(), words[0].starts_with("channels.eth0=")), (3, true), "{words:?}");
    }

    #[test]
    fn what_is_no_setting_or_no_core_is_named() {
        assert!(words(&[("sysctll.net.core.rmem_max", "1")]).unwrap_err().contains("sysctll"));
        assert!(
            words(&[("receive-core.lo", "first")]).unwrap_err().contains("expected the number of a core")
        );
    }

    #[test]
    fn a_trouble_is_a_failure_as_a_setting_that_stays() {
        assert!(all_back(&[]).is_ok());
        let (reason, _) = all_back(&["the record 7 cannot be read".into()]).unwrap_err();
        assert_eq!(reason, "not every setting could be put back: the record 7 cannot be read");
    }

    #[test]
    fn putting_back_what_was_not_changed_is_nothing() {
        assert!(Tuned::default().unset().is_ok());
    }
}
