//! The run to put beside a run on its page: the one that the user names, or the one before it that the history knows.

use std::path::{Path, PathBuf};

use kqps_history::{Beside, Side, Store as History, StoreError, beside, run_before};
use kqps_observation::visible::visible_line;
use kqps_observation::{Run, Store};
use kqps_testbed::folder::store_in;
use kqps_verdict::judge::{RunVerdict, judge_figures};

use crate::run::runs_folder;
use crate::stored::run_in;

/// The file name of a history, in the folder of its runs.
const STORE: &str = "history.sqlite";

/// The file name of a run's page in its folder.
pub(crate) const PAGE: &str = "report.html";

/// The history that a command uses without `--store`.
pub(crate) fn default_store() -> PathBuf {
    runs_folder().join(STORE)
}

/// The history that a run's page asks: the one beside the run's folder, or the default one.
fn store_of(folder: &Path) -> PathBuf {
    let beside = folder.canonicalize().ok().and_then(|folder| Some(folder.parent()?.join(STORE)));
    beside.filter(|store| store.exists()).unwrap_or_else(default_store)
}

/// The run that the user named beside another one, whose page is in the folder `from`.
pub(crate) fn named(run: &Run, verdict: &RunVerdict, other: &Path, from: &Path) -> anyhow::Result<Beside> {
    let then = run_in(other)?;
    Ok(both(run, verdict, &then, other, from))
}

/// The run before this one, whose folder is `folder`, if the history knows one. What is wrong with the history or with the
/// folder of that run is printed, and the page goes without. Runs whose folder is gone are passed over.
pub(crate) fn known(run: &Run, verdict: &RunVerdict, folder: &Path, from: &Path) -> Option<Beside> {
    match found(run, folder) {
        Ok(found) => {
            let (then, other) = found?;
            Some(both(run, verdict, &then, &other, from))
        }
        Err(error) => {
            let error = format!("{error:#}");
            eprintln!("kqps: no run stands beside this one: {}", visible_line(&error));
            None
        }
    }
}

/// The run before this one with its folder; `None` if the history knows none, or if there is no history.
fn found(run: &Run, folder: &Path) -> anyhow::Result<Option<(Run, PathBuf)>> {
    let mut records = match History::read(&store_of(folder)) {
        Err(StoreError::Missing { .. }) => return Ok(None),
        read => read?,
    };
    records.entries.retain(|entry| entry.study == run.study && Path::new(&entry.folder).is_dir());
    let Some(entry) = run_before(&records.entries, run) else { return Ok(None) };
    let other = PathBuf::from(&entry.folder);
    let then = Store::read(&store_in(&other)?)?;
    Ok(Some((then, other)))
}

/// Removes the address of the other run's page, for a page that is not in the run's folder.
pub(crate) fn without_link(beside: Option<&Beside>) -> Option<Beside> {
    beside.map(|beside| Beside { then_page: None, ..beside.clone() })
}

fn both(run: &Run, verdict: &RunVerdict, then: &Run, other: &Path, from: &Path) -> Beside {
    let sides = (Side { run, verdict }, Side { run: then, verdict: &judge_figures(then) });
    let folder = other.canonicalize().unwrap_or_else(|_| other.to_owned());
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Beside {
        then_name: name.unwrap_or_default(),
        then_page: crate::links::to_page(&folder.join(PAGE), from),
        ..beside(sides.0, sides.1)
    }
}
