//! A study that is killed at any moment and resumed each time ends with every cell measured as often as
//! planned. No trial is torn, lost or made twice. Nothing is left behind: no process, namespace, device or
//! file.

mod remains;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use kqps_kernel::probe;
use kqps_kernel::process::Signal;
use kqps_observation::run::{Purpose, Role};
use kqps_observation::{Run, RunTrial};
use kqps_verdict::evidence::counted;

use super::{Bench, Size, kept_trials};
use crate::child::{Ended, Running};
use remains::Remains;

/// Interval between two readings of the store.
const LOOK: Duration = Duration::from_millis(20);

/// The longest time from a new trial to the kill, seconds. It is longer than the time to the next trial, so
/// that kills fall on every phase.
const KILL_WITHIN_S: f64 = 1.5;

/// Kills for each early one, which does not wait for a trial, and falls on the beginning of a run.
const EARLY_EVERY: u32 = 5;

/// How long a run may take after the last kill.
const FINISH_WITHIN: Duration = Duration::from_mins(30);

const REPETITIONS: u32 = 2;

/// Cells of the whole study: every combination of the factors below.
const CELLS: usize = 60;

/// A study of tiny trials. Its cells differ in what they start: processes, sockets and I/O models.
const STUDY: &str = r#"
name = "kill"
title = "Killed and resumed"
question = "Is every cell measured as often as was asked, whatever happens to kqps?"
repetitions = {repetitions}
path = "{path}"
canary_qps = 2000
load = { closed_s = 0.1 }
fixed = { "player.timeout_s" = 0.05 }

[[experiment]]
name = "matrix"
title = "Sixty ways to turn a query round"
[experiment.factors]
{factors}
"#;

const WHOLE_FACTORS: &str = r#"
io = ["blocking", "poll", "select", "epoll", "mmsg"]
processes = [1, 2]
sockets = ["shared", "reuseport"]
work_ns = [0, 200, 400]
"#;

const SMALL_FACTORS: &str = r#"
io = ["blocking", "mmsg"]
processes = [1, 2]
"#;

/// Kills the study again and again, resumes it, and in the end lets it finish.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut before: Option<Run> = None;
    let (mut kills, mut namespaces_seen) = (0, 0);
    while kills < bench.choose(3, 50) {
        let running = Running::start(&mut lab.run(before.is_some()))?;
        let is_early = before.is_some() && (kills + 1) % EARLY_EVERY == 0;
        if !is_early && !lab.goes_on(&running, before.as_ref())? {
            let ended = running.wait(Duration::from_secs(10))?;
            anyhow::bail!("after {kills} kills the study ended by itself, with {:?}", ended.code);
        }
        std::thread::sleep(Duration::from_secs_f64(random.f64() * KILL_WITHIN_S));
        let remains = Remains::read(&lab.home)?;
        running.signal(Signal::Kill)?;
        running.wait(Duration::from_secs(10))?;
        namespaces_seen += remains.namespaces();
        remains.vanish()?;
        kills += 1;
        let run = kept_trials::survived(&lab.out(), before.as_ref())?;
        eprintln!("kill {kills}: {} trials are there", run.trials.len());
        before = Some(run);
    }
    let ended = Running::start(&mut lab.run(true))?.wait(FINISH_WITHIN)?;
    ensure!(is_measured(&ended), "the resumed study ended with {:?}", ended.code);
    let run = kept_trials::survived(&lab.out(), before.as_ref())?;
    ensure!(run.finished_unix_ms.is_some(), "the resumed study is not marked as finished");
    whole(&run, bench.size)?;
    Remains::read(&lab.home)?.vanish()?;
    lab.no_file_is_left()?;
    let seen = format!("{namespaces_seen} namespaces were seen to end");
    eprintln!("after {kills} kills {} trials of {} cells; {seen}", run.trials.len(), run.cells.len());
    Ok(())
}

/// Status 3 means that a figure is refused, which a busy host may cause.
fn is_measured(ended: &Ended) -> bool {
    matches!(ended.code, Some(0 | 3))
}

/// A lab whose files all lie in one folder.
struct Lab<'a> {
    bench: &'a Bench,
    home: PathBuf,
}

impl<'a> Lab<'a> {
    fn new(bench: &'a Bench) -> Result<Self> {
        let path = match probe::probe_one("veth") {
            Ok(()) => "veth",
            Err(reason) => {
                println!("over loopback, for want of a veth path: {reason}");
                "loopback"
            }
        };
        let home = bench.folder.path().canonicalize()?.join("home");
        fs::create_dir_all(home.join("tmp"))?;
        let study = STUDY
            .replace("{repetitions}", &REPETITIONS.to_string())
            .replace("{path}", path)
            .replace("{factors}", bench.choose(SMALL_FACTORS, WHOLE_FACTORS));
        fs::write(home.join("kill.toml"), study)?;
        Ok(Self { bench, home })
    }

    fn out(&self) -> PathBuf {
        self.home.join("run")
    }

    fn run(&self, resume: bool) -> Command {
        let mut command = Command::new(&self.bench.kqps.program);
        command.arg("run").arg("--out").arg(self.out());
        if resume {
            command.arg("--resume");
        } else {
            command.args(["--seed", "7", "--records", "200"]).arg(self.home.join("kill.toml"));
        }
        command.env("HOME", &self.home).env("XDG_CACHE_HOME", self.home.join("cache"));
        command.env("TMPDIR", self.home.join("tmp")).current_dir(&self.home);
        command
    }

    /// Waits until the run has committed one more trial. Returns false if it ended before.
    fn goes_on(&self, running: &Running, before: Option<&Run>) -> Result<bool> {
        let known = before.map_or(0, |run| run.trials.len());
        while kept_trials::committed(&self.out()) <= known {
            if running.has_ended()? {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Checks that the run's folder, the cache and the folder of temporary files have no temporary file
    /// left.
    fn no_file_is_left(&self) -> Result<()> {
        let mut folders = vec![self.home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name().display().to_string();
                let is_left = folder.ends_with("tmp")
                    || ["-wal", "-shm", "-journal", ".part"].iter().any(|end| name.ends_with(end))
                    || [".tmp", ".unfinished-"].iter().any(|start| name.starts_with(start));
                ensure!(!is_left, "{} was left behind", entry.path().display());
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        Ok(())
    }
}

/// Checks that every cell was measured once in every block, apart from trials that the player spoiled and
/// that were made again.
fn whole(run: &Run, size: Size) -> Result<()> {
    let subjects = run.cells.iter().filter(|cell| cell.role == Role::Subject).count();
    ensure!(size == Size::Small || subjects == CELLS, "the study has {subjects} cells instead of {CELLS}");
    ensure!(run.blocks == REPETITIONS, "the study has {} blocks", run.blocks);
    if let Some(failed) = run.trials.iter().find_map(RunTrial::failure) {
        anyhow::bail!("a trial could not be measured: {failed}");
    }
    let mut warm_ups: BTreeMap<u64, u32> = BTreeMap::new();
    for trial in run.trials.iter().filter(|trial| trial.purpose == Purpose::WarmUp) {
        *warm_ups.entry(trial.start).or_default() += 1;
    }
    ensure!(warm_ups.values().all(|count| *count == 1), "a start was warmed up twice");
    for (index, cell) in run.cells.iter().enumerate().filter(|(_, cell)| cell.role != Role::Canary) {
        for block in 0..run.blocks {
            let of_unit = run.trials_of(index).filter(|one| one.block == block);
            let judged: Vec<&RunTrial> = of_unit.filter(|one| one.purpose != Purpose::WarmUp).collect();
            let facts: Vec<_> =
                judged.iter().filter_map(|one| Some((one.purpose, one.measured()?))).collect();
            let times = counted(&facts, |one| *one).len();
            ensure!(times == 1, "{} was measured {times} times in block {}", cell.name, block + 1);
        }
    }
    reasons(run)?;
    canaries(run)
}

/// Checks that no trial is repeated twice for the reasons of its drops, and that no cell has two such
/// repetitions.
fn reasons(run: &Run) -> Result<()> {
    let mut repeated: Vec<u32> =
        run.trials.iter().filter(|one| one.purpose.is_for_reasons()).map(|one| one.cell).collect();
    repeated.sort_unstable();
    let times = repeated.len();
    repeated.dedup();
    ensure!(times == repeated.len(), "a trial was repeated twice for the reasons of its drops");
    Ok(())
}

/// Checks that there is a canary before every sixth cell of a block, and one at the end.
fn canaries(run: &Run) -> Result<()> {
    let cells = run.cells.iter().filter(|cell| cell.role != Role::Canary).count();
    for block in 0..run.blocks {
        let played = run.trials.iter().filter(|one| one.purpose == Purpose::Canary && one.block == block);
        let (played, wanted) = (played.count(), cells.div_ceil(6) + usize::from(block + 1 == run.blocks));
        ensure!(played == wanted, "block {} has {played} canaries instead of {wanted}", block + 1);
    }
    Ok(())
}
