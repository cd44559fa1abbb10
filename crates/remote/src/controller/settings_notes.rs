//! Notes for a run on the settings of the subjects' host: which of them could not be put back, and what may keep them
//! from having their effect.

use std::collections::{BTreeMap, BTreeSet};

use kqps_testbed::host_settings::{AS_BEFORE, CERTAIN};

/// Reports of agents so far.
#[derive(Debug, Default)]
pub(super) struct SettingsNotes {
    /// The last report of settings that could not be put back, until a start fails for it.
    pending: Option<String>,
    /// All that could not be put back.
    left: BTreeSet<String>,
    remarks: BTreeSet<String>,
}

impl SettingsNotes {
    /// Notes that settings could not be put back, for this reason.
    pub(super) fn leave(&mut self, why: String) {
        self.left.insert(why.clone());
        self.pending = Some(why);
    }

    /// Why the next start must fail, once: the host is not as its cell has it.
    pub(super) fn take_pending(&mut self) -> Option<String> {
        let why = self.pending.take()?;
        Some(format!("the settings of the cell before could not be undone: {why}"))
    }

    /// Notes what may keep the settings of a host from having their effect.
    pub(super) fn remark(&mut self, host: &str, remarks: Vec<String>) {
        self.remarks.extend(remarks.into_iter().map(|remark| format!("{host}: {remark}")));
    }

    /// Notes on what the run lacks, and why.
    pub(super) fn notes(&self) -> BTreeMap<String, String> {
        let joined = |all: &BTreeSet<String>| all.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
        let all = [(AS_BEFORE, joined(&self.left)), (CERTAIN, joined(&self.remarks))];
        let there = all.into_iter().filter(|(_, why)| !why.is_empty());
        there.map(|(what, why)| (what.to_owned(), why)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_fails_one_start_and_stays_in_the_record() {
        let mut notes = SettingsNotes::default();
        assert_eq!((notes.take_pending(), notes.notes()), (None, BTreeMap::new()));
        notes.leave("ns1: rps.eth0 stays 1".into());
        assert!(notes.take_pending().unwrap().ends_with("could not be undone: ns1: rps.eth0 stays 1"));
        assert_eq!(notes.take_pending(), None);
        notes.remark("ns1", vec!["irqbalance runs".into(), "irqbalance runs".into()]);
        let all = notes.notes();
        assert_eq!((all[AS_BEFORE].as_str(), all.len()), ("ns1: rps.eth0 stays 1", 2));
        assert_eq!(all[CERTAIN], "ns1: irqbalance runs");
    }
}
