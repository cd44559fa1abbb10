//! `cargo xtask prove NAME`: what kqps must find when the answer is known beforehand. Each proof has a small
//! form, which the tests run, so that none can rot.

mod accounts;
mod delay;
mod freeze;
mod kill;
mod soak;
mod starved;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use tempfile::TempDir;

use crate::kqps::{self, Kqps};
use crate::workspace;

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

/// How often it is tried in all when the hypervisor takes the cores away meanwhile.
const ATTEMPTS_WHEN_STOLEN: u32 = 6;

/// The share of stolen time above which kqps gives no figure (docs/METHOD.md, noisy-host), and above which a
/// proof of times is no evidence.
const STOLEN_SHARE: f64 = 0.01;

/// Tries a proof of times again when it fails: another program may have had the cores. A clock that is wrong
/// is wrong each time. Where the hypervisor had the cores in every try, nothing was shown either way, and the
/// small form says so and leaves it at that.
fn patiently(bench: &Bench, prove: fn(&Bench) -> Result<()>) -> Result<()> {
    let (mut fair, mut tries) = (0, 0);
    loop {
        let before = Ticks::read();
        let error = match prove(bench) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        tries += 1;
        let stolen = Ticks::read().stolen_since(before);
        fair += u32::from(stolen <= STOLEN_SHARE);
        if fair == ATTEMPTS {
            return Err(error);
        }
        if tries >= ATTEMPTS_WHEN_STOLEN {
            if bench.size == Size::Small && fair == 0 {
                println!("skipped: the hypervisor took the cores away in every try: {error:#}");
                return Ok(());
            }
            return Err(error);
        }
        eprintln!("trying again, {:.1} % of the time was stolen: {error:#}", stolen * 100.0);
    }
}

/// Clock ticks of all cores together (proc(5), `/proc/stat`); 0 where they cannot be read.
#[derive(Clone, Copy)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; the guests after them are part of user.
        Self { all: ticks.iter().take(8).sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    /// The share of time that was stolen since an earlier reading, 0 to 1.
    fn stolen_since(self, earlier: Self) -> f64 {
        (self.stolen - earlier.stolen) as f64 / (self.all - earlier.all).max(1) as f64
    }
}
