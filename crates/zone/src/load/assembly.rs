//! Combines zones: the result of each source, and previous zones in place of those whose files now have errors.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::{Changes, LoadRemark, Loaded, Outcome, Report, Served};
use crate::source::Source;
use crate::zone::Zone;
use crate::zones::{Entry, Zones};

/// The results of all sources, and the previous zones.
pub(super) struct Assembly<'a> {
    old: Option<&'a Zones>,
    outcomes: Vec<(&'a Source, Outcome)>,
    /// The file of each zone, by its apex in lower case.
    files: HashMap<Vec<u8>, &'a Path>,
    changes: Changes,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(old: Option<&'a Zones>, outcomes: Vec<(&'a Source, Outcome)>) -> Self {
        let mut files = HashMap::with_capacity(outcomes.len());
        // A file with an error does not exclude a good file of the same zone.
        for (source, outcome) in &outcomes {
            if let Some(zone) = &outcome.zone {
                files.entry(zone.apex().to_ascii_lowercase()).or_insert(&*source.path);
            }
        }
        Self { old, outcomes, files, changes: Changes::default() }
    }

    pub(super) fn finish(mut self) -> Loaded {
        let mut entries = Vec::with_capacity(self.outcomes.len());
        let mut named_zones = HashMap::new();
        let mut reports = Vec::new();
        for (source, mut outcome) in std::mem::take(&mut self.outcomes) {
            let (served, entry) = self.served(source, &mut outcome);
            if let Some(Entry::Loaded(zone)) = &entry
                && source.apex.is_none()
                && source.file_name().is_none_or(|name| !name.eq_ignore_ascii_case(zone.apex()))
            {
                named_zones.insert(source.path.clone(), zone.apex().into());
            }
            entries.extend(entry);
            if !outcome.errors.is_empty() || !outcome.warnings.is_empty() {
                reports.push(report(source, served, outcome));
            }
        }
        let zones = Zones::build(entries.into_iter()).remembering(named_zones);
        let old =
            self.old.into_iter().flat_map(Zones::iter).filter(|entry| matches!(entry, Entry::Loaded(_)));
        self.changes.removed = old.filter(|entry| zones.get(entry.apex()).is_none()).count();
        Loaded { zones, reports, changes: self.changes }
    }

    /// Chooses the version of a source that is served.
    fn served(&mut self, source: &'a Source, outcome: &mut Outcome) -> (Served, Option<Entry>) {
        let Some(apex) = self.apex(source, outcome) else {
            outcome.errors.push(LoadRemark::NoName(source.path.clone()));
            return (Served::Nothing, None);
        };
        outcome.apex = Some(apex.clone());
        let file = *self.files.entry(apex.to_ascii_lowercase()).or_insert(&source.path);
        if !std::ptr::eq(file, source.path.as_path()) {
            let (path, first) = (source.path.clone(), file.to_path_buf());
            outcome.errors.push(LoadRemark::Twice { path, first });
            return (Served::Other, None);
        }
        let old = self.old.and_then(|old| old.get(&apex));
        match (outcome.zone.take(), old) {
            (Some(zone), old) => (Served::New, Some(Entry::Loaded(self.changed(zone, old)))),
            (None, Some(Entry::Loaded(zone))) => (Served::Old, Some(Entry::Loaded(Arc::clone(zone)))),
            (None, _) => (Served::Nothing, Some(Entry::Broken(apex))),
        }
    }

    /// Counts a zone as added, changed or unchanged. An unchanged zone stays in its memory.
    fn changed(&mut self, zone: Zone, old: Option<&Entry>) -> Arc<Zone> {
        match old {
            Some(Entry::Loaded(old)) if **old == zone => {
                self.changes.unchanged += 1;
                Arc::clone(old)
            }
            Some(Entry::Loaded(_)) => {
                self.changes.changed += 1;
                Arc::new(zone)
            }
            _ => {
                self.changes.added += 1;
                Arc::new(zone)
            }
        }
    }

    /// The zone of a source. A file with an error that names another zone than before is not believed, and the zone
    /// that was served before stays.
    fn apex(&self, source: &Source, outcome: &Outcome) -> Option<Box<[u8]>> {
        if outcome.zone.is_some() || source.apex.is_some() {
            return outcome.apex.clone();
        }
        let before = self.old.and_then(|old| old.named_by(&source.path)).map(Box::from);
        let stays = |apex: &[u8]| {
            self.old.is_some_and(|old| matches!(old.get(apex), Some(Entry::Loaded(_))))
                && !self.files.contains_key(&apex.to_ascii_lowercase())
        };
        before.or_else(|| source.file_name().filter(|name| stays(name))).or_else(|| outcome.apex.clone())
    }
}

fn report(source: &Source, served: Served, outcome: Outcome) -> Report {
    let Outcome { apex, errors, more_errors, gave_up, warnings, more_warnings, .. } = outcome;
    let path = source.path.clone();
    Report { path, apex, served, errors, more_errors, gave_up, warnings, more_warnings }
}
