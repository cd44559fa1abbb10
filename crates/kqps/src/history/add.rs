//! `kqps history add`: puts runs into the history. Runs that cannot be added are named, and the others are added.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Context as _;
use kqps_history::{Added, Entry, Host, Programs, Store, StoreError, entry_of};
use kqps_observation::Run;
use kqps_testbed::folder::{Folder, store_in};
use kqps_testbed::subject::Definition;
use kqps_testbed::words::counted;
use kqps_verdict::judge::judge_figures;

use super::StoreArgs;
use super::words::unended;
use crate::exit::bad_input;

/// The status if a run could not be added.
const LEFT_OUT: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  kqps history add kqps-runs/20261121T220507Z-default
  kqps history add kqps-runs/* --store kqps-runs/history.sqlite";

/// Put runs into the history, and make it if there is none
///
/// A run that is there already is read again, so that the history has what today's rules say about it. A history that is
/// lost can be made anew from the runs' folders. If a folder has no finished run, the others are added, and the status
/// is 2.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Folders of runs
    #[arg(value_name = "DIR", required = true)]
    runs: Vec<PathBuf>,

    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut entries: Vec<(Entry, Host)> = Vec::new();
    let mut left_out = 0;
    for (folder, read) in args.runs.iter().zip(read_all(&args.runs)) {
        match read {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                left_out += 1;
                eprintln!("Left out {}: {}.", folder.display(), unended(&format!("{error:#}")));
            }
        }
    }
    if entries.is_empty() {
        return Ok(ExitCode::from(LEFT_OUT));
    }
    let path = args.store.path();
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut store = Store::open(&path).map_err(in_or_out)?;
    let added = store.add(&entries)?;
    let count = |wanted: Added| added.iter().filter(|one| **one == wanted).count();
    println!(
        "{} added, {} renewed, {} known; the history has {}: {}",
        counted(count(Added::New) as u64, "run"),
        count(Added::Renewed),
        count(Added::Known),
        counted(store.count()?, "run"),
        path.display()
    );
    Ok(if left_out > 0 { ExitCode::from(LEFT_OUT) } else { ExitCode::SUCCESS })
}

/// A file that is no history is bad input. For any other reason the history could not be written.
fn in_or_out(error: StoreError) -> anyhow::Error {
    use StoreError::{Damaged, Foreign, Missing, Newer};
    match error {
        Damaged { .. } | Foreign { .. } | Missing { .. } | Newer { .. } => bad_input(error),
        other => other.into(),
    }
}

/// Reads and judges all runs, on all cores. The results are in the order of the folders.
fn read_all(folders: &[PathBuf]) -> Vec<anyhow::Result<(Entry, Host)>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((index, folder)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            folders.get(index).map(|folder| (index, folder))
        } {
            done.push((index, read(folder)));
        }
        done
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(folders.len());
    let mut all: BTreeMap<usize, anyhow::Result<(Entry, Host)>> = BTreeMap::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    all.into_values().collect()
}

fn read(folder: &Path) -> anyhow::Result<(Entry, Host)> {
    let run = kqps_observation::Store::read(&store_in(folder)?)?;
    if run.finished_unix_ms.is_none() {
        anyhow::bail!(
            "its run did not finish, so its figures may still change; to go on: kqps run --resume --out {}",
            folder.display()
        );
    }
    let absolute = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    let path = absolute.to_str().context("its path is not UTF-8, so the history cannot keep it")?;
    let entry = entry_of(&run, &judge_figures(&run), path, &programs(&run, &absolute));
    if entry.0.readings.is_empty() {
        anyhow::bail!("its run has no figure that compares between runs");
    }
    Ok(entry)
}

/// The programs of every subject whose definition the run kept.
fn programs(run: &Run, path: &Path) -> Programs {
    let Ok(folder) = Folder::open(path) else { return Programs::new() };
    let definition = |subject: &String| {
        let definition = Definition::open(&folder.definition(subject)).ok()?;
        Some((subject.clone(), definition.programs))
    };
    run.cells.iter().map(|cell| &cell.subject).filter_map(definition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::BadInput;

    #[test]
    fn a_history_that_cannot_be_written_is_no_bad_file() {
        let path = PathBuf::from("h.sqlite");
        assert!(!in_or_out(StoreError::Full { path: path.clone() }).is::<BadInput>());
        assert!(in_or_out(StoreError::Newer { path }).is::<BadInput>());
    }
}
