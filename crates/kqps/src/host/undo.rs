//! `kqps host undo`: takes back what kqps has set on this host.

use std::process::ExitCode;

use kqps_tuning::{Journal, JournalError, Real, Setting, Undone, undo};

use super::words;
use crate::exit::COULD_NOT;

const EXAMPLES: &str = "\
Examples:
  kqps host undo
  kqps host undo --json";

/// Undo every setting that kqps changed and that still has its value
///
/// The newest change comes first. A setting that somebody else has changed since stays as it is, is named, and leaves the
/// journal. A setting that cannot be put back now, because the kernel refuses it or its device is not here, is
/// named and stays in the journal. What a running process of kqps holds stays too, and so does what was set in another
/// network namespace. After a restart of the host nothing is left to undo. kqps names a journal that another user may write,
/// and ignores it. The status is 1 if a setting was left.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let (journals, refused) = Journal::all_of_this_boot();
    let system = Real::host();
    let (mut all, mut over) = (Undone { troubles: refused, ..Undone::default() }, Vec::new());
    for journal in &journals {
        let undone = undo(&system, journal).unwrap_or_else(|error| {
            // The other journal can be undone nevertheless.
            Undone { troubles: vec![error.to_string()], ..Undone::default() }
        });
        over.push(undone.over.clone());
        all.add(undone);
    }
    words::print_undone(&all, &journals, json)?;
    // They were named, and are not ours any more.
    let kept = forget(&journals, &over);
    for error in &kept {
        eprintln!("Note: {error}.");
    }
    Ok(if all.is_whole() && kept.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT) })
}

/// Removes settings from each journal. Returns why that failed; the others forget theirs nevertheless.
fn forget(journals: &[Journal], over: &[Vec<(u64, Setting)>]) -> Vec<JournalError> {
    journals.iter().zip(over).filter_map(|(journal, over)| journal.forget(over).err()).collect()
}

#[cfg(test)]
mod tests {
    use kqps_tuning::journal::{Part, Record};
    use kqps_tuning::{Change, Identity};

    use super::*;

    #[test]
    fn a_journal_that_cannot_be_written_does_not_keep_another_from_forgetting() {
        let state = tempfile::tempdir().unwrap();
        let journals = ["one", "other"].map(|name| Journal::at(&state.path().join(name)).unwrap());
        let change: Change = "sysctl.net.core.rmem_max=8".parse().unwrap();
        let setting = change.setting.clone();
        let (wanted, identity) = (change.value.clone(), Identity::default());
        let part =
            Part { setting: setting.clone(), old: "7".into(), wanted, found: None, identity, left: None };
        let record = Record {
            number: 1,
            change,
            parts: vec![part],
            beside: Vec::new(),
            owner: None,
            network: None,
            is_private: false,
            is_made: true,
        };
        let text = serde_json::to_vec(&record).unwrap();
        std::fs::write(journals[1].folder().join("00000001.json"), text).unwrap();
        assert_eq!(journals[1].records().unwrap(), [record]);
        std::fs::remove_dir(journals[0].folder()).unwrap();
        let over = [vec![(1, setting.clone())], vec![(1, setting)]];
        assert_eq!(forget(&journals, &over).len(), 1);
        assert_eq!(journals[1].records().unwrap(), []);
    }
}
