//! `cargo xtask prove NAME`: what kqps must find when the answer is known beforehand. Each proof has a small
//! form, which the tests run, so that none can rot.

mod accounts;
mod delay;
mod freeze;
mod kill;
mod soak;
mod starved;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use kqps_kernel::affinity;
use tempfile::TempDir;

use crate::kqps::{self, Kqps};
use crate::{shell, workspace};

/// What is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Proof {
    /// Accounts agree with a relay that makes faults, to the last query
    Accounts,
    /// A subject that stands still for a second shows in the quantiles
    Freeze,
    /// A constant delay moves the median by just that
    Delay,
    /// A player without CPU gives no rate
    Starved,
    /// A run that is killed loses and repeats no trial
    Kill,
    /// A long trial stays exact, and its memory stays the same
    Soak,
}

/// How thoroughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Seconds: what the tests run
    Small,
    /// As long as it takes
    Whole,
}

/// The command line.
#[derive(clap::Args)]
pub struct Options {
    /// What to prove (repeatable)
    #[arg(required = true)]
    proofs: Vec<Proof>,
    /// How thoroughly
    #[arg(long, default_value = "whole")]
    size: Size,
    /// The program to prove it of; without it the release build, made now
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// What a proof works with.
struct Bench {
    kqps: Kqps,
    size: Size,
    /// A folder of its own.
    folder: TempDir,
}

/// Queries in a proof's file.
const QUERIES: u32 = 100_000;

impl Bench {
    /// A query file that expects NOERROR throughout.
    fn queries(&self, count: u32) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{count}.queries"));
        kqps::write_queries(&path, count, true)?;
        Ok(path)
    }

    /// One of two values, by size.
    fn choose<T>(&self, small: T, whole: T) -> T {
        match self.size {
            Size::Small => small,
            Size::Whole => whole,
        }
    }
}

/// Proves what was asked for, one after the other.
pub fn run(options: &Options) -> Result<()> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => workspace::release_build()?,
    };
    for proof in &options.proofs {
        let began = Instant::now();
        prove(*proof, options.size, &program)?;
        eprintln!("proved: {proof:?}, in {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Proves one thing of a program; an error says what is not so.
pub fn prove(proof: Proof, size: Size, program: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for the proof")?;
    let bench = Bench { kqps: Kqps::new(program)?, size, folder };
    // Not where the player is to be starved.
    let _urgent = (proof != Proof::Starved).then(Urgent::begin);
    match proof {
        Proof::Accounts => accounts::prove(&bench),
        Proof::Freeze => patiently(&bench, freeze::prove),
        Proof::Delay => patiently(&bench, delay::prove),
        Proof::Starved => starved::prove(&bench),
        Proof::Kill => kill::prove(&bench),
        Proof::Soak => soak::prove(&bench),
    }
}

/// How often a proof of times is tried.
const ATTEMPTS: u32 = 3;

/// Tries a proof of times again when it fails: another program may have had the cores. A clock that is wrong
/// is wrong each time.
fn patiently(bench: &Bench, prove: fn(&Bench) -> Result<()>) -> Result<()> {
    for _ in 1..ATTEMPTS {
        match prove(bench) {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("trying again: {error:#}"),
        }
    }
    prove(bench)
}

/// The niceness of a proof: before anything that runs beside it, such as the rest of a build.
const URGENT: &str = "-15";

/// While it lives, this thread comes first, and so do the threads and programs that it starts. Where that is
/// not permitted nothing changes, and a busy host may spoil the proof.
struct Urgent {
    before: Option<String>,
}

impl Urgent {
    fn begin() -> Self {
        let thread = affinity::thread_id();
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        let before = niceness(&stat).filter(|_| renice(thread, URGENT));
        Self { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            renice(affinity::thread_id(), before);
        }
    }
}

/// Field 19 of `/proc/PID/stat` (proc(5)), counted after the name.
fn niceness(stat: &str) -> Option<String> {
    stat.rsplit_once(") ")?.1.split(' ').nth(16).map(str::to_owned)
}

/// Sets a thread's niceness; says whether that was permitted.
fn renice(thread: u32, niceness: &str) -> bool {
    shell::read(Command::new("renice").args(["-n", niceness, "-p", &thread.to_string()])).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn niceness_is_the_nineteenth_field() {
        assert_eq!(niceness("7 (a ) b) S 1 7 7 0 -1 4194304 90 0 0 0 1 2 9 9 20 -5 1 0 100").unwrap(), "-5");
    }
}
