//! The workflow of `docs/ci.md`, as its text has it: its steps run in bash with stand-in builds whose speed is known,
//! and must fail the commit with which the server became slower, and no other one.

mod workflow;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_programs::shell;

use crate::prove::{Bench, Size};
use workflow::{Step, Workflow};

/// Rounds of arithmetic of the server for each query, about 50 µs, which is nearly all that it does. They follow the speed
/// of the core, as a server's work does, and kqps takes that speed out of its figures.
const ROUNDS: f64 = 30_000.0;

/// A budget in place of those of the text. Differences of 50 % show in it.
const SHORT: &str = "--blocks 6 --duration 200ms";

/// Three fifths of the text's budget for the comparison with the commit before, in which differences of 5 % show, and a
/// fifth of it for the run that the history keeps.
const LONG: &str = "--budget 3m";
const KEPT: &str = "--budget 1m";

/// A budget in place of that of the run that the history keeps, if there will be too few runs anyway.
const SHORTEST: &str = "--blocks 1 --duration 100ms";

/// The runs before the change, and all runs: as many as the history needs, and three with the change.
const OF_HISTORY: (usize, usize) = (8, 11);

/// The runs before a small change, and all runs: the comparison with the commit before has to find it without a history,
/// and to pass the commits around it.
const OF_COMPARISON: (usize, usize) = (2, 4);

/// The program of `make -C new`, and that of the reference: an echo whose rounds stand for the server's speed. It takes
/// the options of the recipe's command line.
const SERVER: &str =
    "#!/bin/sh\nexec KQPS serve echo --listen 127.0.0.1:$2 --io mmsg --rounds ROUNDS --for 5m # COMMIT\n";

const MAKEFILE: &str = "my-server: program\n\tcp program my-server\n";

/// GitHub's program: it writes down what it was asked.
const GH: &str = "#!/bin/sh\necho \"$*\" >>\"$RUNS/gh.log\"\n";

/// Plays the recipe with a regression of a half, and in the whole form of a tenth and a twentieth, too. With the first of
/// these the job of the commit fails, and the history marks it. The smaller ones need long comparisons, and the history
/// of eight runs more than an hour of them, so there the job alone has to fail.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    if bench.size == Size::Small {
        if bench.only.is_none() {
            eprintln!("the recipe needs the host to itself: --only recipe");
            return Ok(());
        }
        return played(bench, 0.5, (2, 3), [SHORTEST, SHORT]);
    }
    played(bench, 0.5, OF_HISTORY, [SHORT; 2])?;
    for slower in [0.1, 0.05] {
        played(bench, slower, OF_COMPARISON, [KEPT, LONG])?;
    }
    Ok(())
}

/// Plays `runs` commits, of which those from `before` on answer less by the share `slower`. `extents` stand in the
/// place of budgets: of the runs that the history keeps, and of the other comparisons.
///
/// # Errors
///
/// If the job of the commit `before` does not fail, or another one does; if a history of enough runs does not mark it, or
/// another commit is marked.
fn played(
    bench: &Bench,
    slower: f64,
    (before, runs): (usize, usize),
    extents: [&'static str; 2],
) -> Result<()> {
    let host = Host::new(bench, extents)?;
    let mut failed = BTreeSet::new();
    for number in 0..runs {
        let rounds = if number < before { ROUNDS } else { ROUNDS / (1.0 - slower) };
        let outcome = host.push(number, rounds)?;
        if let Some(step) = &outcome {
            failed.insert(number);
            eprintln!("{:.0} % slower: the job of commit {number} fails: {step}", slower * 100.0);
        }
    }
    let marked = host.marked(runs)?;
    eprintln!(
        "{:.0} % slower with commit {before} of {runs}: the jobs {failed:?} fail, the commits {marked:?} are marked",
        slower * 100.0
    );
    let right = BTreeSet::from([before]);
    ensure!(failed == right, "the jobs {failed:?} fail, and not that of {before} alone\n{}", host.log()?);
    ensure!(marked.is_subset(&right), "other commits than {before} are marked: {marked:?}\n{}", host.log()?);
    ensure!(
        runs < OF_HISTORY.1 || marked == right,
        "the history does not mark commit {before}\n{}",
        host.log()?
    );
    Ok(())
}

/// The host of the runner: what stays between jobs, and stand-ins for what is not kqps.
struct Host {
    workflow: Workflow,
    folder: PathBuf,
    /// The flags that stand in the place of budgets: of kept runs, and of the other comparisons.
    extents: [&'static str; 2],
}

impl Host {
    fn new(bench: &Bench, extents: [&'static str; 2]) -> Result<Self> {
        let folder = bench.folder.path().join("recipe");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let host = Self { workflow: Workflow::documented()?, folder, extents };
        fs::create_dir_all(host.runs())?;
        fs::create_dir_all(host.folder.join("bin"))?;
        let kqps = fs::canonicalize(&bench.kqps.program)?;
        std::os::unix::fs::symlink(kqps, host.folder.join("bin/kqps"))?;
        write_program(&host.folder.join("bin/gh"), GH)?;
        for needed in ["make", "jq"] {
            ensure!(shell::find(needed).is_some(), "the recipe needs {needed}: apt-get install {needed}");
        }
        Ok(host)
    }

    fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// Plays the job of a push; returns the name of the first step that fails.
    fn push(&self, number: usize, rounds: f64) -> Result<Option<String>> {
        let place = self.folder.join("job");
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir(&place)?;
        let mut failed = None;
        for step in self.workflow.steps("history")? {
            if let Some(path) = &step.checks_out {
                let rounds = if path == "reference" { ROUNDS } else { rounds };
                self.check_out(&place.join(path), number, rounds)?;
            }
            let Some(text) = step.run.as_ref().filter(|_| is_due(step, failed.is_some(), &place)) else {
                continue;
            };
            if !self.succeeds(text, number, &place)? && failed.is_none() {
                failed = Some(step.name.clone());
            }
        }
        Ok(failed)
    }

    /// A folder whose Makefile writes the program of a commit.
    fn check_out(&self, folder: &Path, number: usize, rounds: f64) -> Result<()> {
        fs::create_dir(folder)?;
        fs::write(folder.join("Makefile"), MAKEFILE)?;
        let kqps = self.folder.join("bin/kqps");
        let program = SERVER
            .replace("KQPS", kqps.to_str().context("a path is not UTF-8")?)
            .replace("ROUNDS", &format!("{rounds:.0}"))
            .replace("COMMIT", &commit(number));
        write_program(&folder.join("program"), &program)
    }

    /// Runs the text of a step as GitHub does, with short comparisons.
    fn succeeds(&self, text: &str, number: usize, place: &Path) -> Result<bool> {
        let [kept, compared] = self.extents;
        let extent = if text.contains("kqps history add") { kept } else { compared };
        let text = text.replace("--budget 5m", extent).replace("--budget 3m", extent);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["--noprofile", "--norc", "-xeo", "pipefail", "-c", &text])
            .current_dir(place)
            .envs(&self.workflow.env)
            // The stand-in brings no zone.
            .env("SERVE", "my-server -p {port}")
            .env("RUNS", self.runs())
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("XDG_DATA_HOME", self.folder.join("data"))
            .env("GITHUB_SHA", commit(number))
            .env("GITHUB_RUN_ATTEMPT", "1")
            .env("GITHUB_REPOSITORY", "example/server")
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command.status().context("bash cannot be started")?.success())
    }

    /// The commits that have a red status.
    fn marked(&self, runs: usize) -> Result<BTreeSet<usize>> {
        let asked = match fs::read_to_string(self.runs().join("gh.log")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            asked => asked?,
        };
        let of_line = |line: &str| {
            let found = (0..runs).find(|number| line.contains(&format!("/statuses/{} ", commit(*number))));
            found.with_context(|| format!("a status of an unknown commit: {line}"))
        };
        asked.lines().filter(|line| line.contains("/statuses/")).map(of_line).collect()
    }

    /// Last lines that the steps printed.
    fn log(&self) -> Result<String> {
        let log = String::from_utf8_lossy(&fs::read(self.folder.join("log"))?).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        Ok(lines[lines.len().saturating_sub(200)..].join("\n"))
    }
}

/// Whether GitHub runs a step.
fn is_due(step: &Step, has_failed: bool, place: &Path) -> bool {
    let condition = step.condition.as_deref().unwrap_or_default();
    let needs_file =
        condition.split_once("hashFiles('").and_then(|(_, rest)| rest.split_once('\'')).map(|(file, _)| file);
    (!has_failed || condition.contains("always()")) && needs_file.is_none_or(|file| place.join(file).exists())
}

fn commit(number: usize) -> String {
    format!("{:040x}", 0xc0_ffee_0000 + number)
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
