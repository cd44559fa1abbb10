//! `cargo xtask peers NAME`: kqps beside other programs, or one of its parts beside another, measured in
//! interleaved blocks on one core each. Only ratios within one run count, since a host's absolute figures move
//! from hour to hour.

mod block;
mod data;
mod dnsperf;
mod foreign;
mod precision;
mod report;
mod rows;
mod server;
mod side;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use crate::kqps::{self, Kqps};
use crate::{shell, workspace};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// `kqps load` with dnsperf
    Player,
    /// The I/O models of `kqps serve echo` with one another
    Echo,
    /// `kqps serve auth` with NSD, Knot DNS and the echo
    Auth,
}

/// The command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// What to compare
    name: Name,
    /// Blocks of each comparison, 6 at least: A B B A, then B A A B, and so on
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(6..))]
    blocks: u32,
    /// Length of each measurement
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,
    /// The program to measure; without it the release build, made now
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// What a measurement works with.
struct Bench<'a> {
    kqps: Kqps,
    seconds: f64,
    /// 100,000 names of equal length, in a form that dnsperf reads too.
    queries: &'a Path,
    /// A folder for what is generated.
    scratch: &'a Path,
}

/// Names in the query file.
const QUERIES: u32 = 100_000;

/// Builds, measures, and prints a table; the figures go to `target/peers/NAME.json`.
pub fn run(options: &Options) -> Result<()> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => workspace::release_build()?,
    };
    let folder = workspace::metadata()?.target_directory.join("peers");
    measure(options.name, options.blocks, options.seconds, &program, &folder)
}

/// Measures with a program that is built, into a folder. Fewer than six blocks show that it works, and no more.
pub fn measure(name: Name, blocks: u32, seconds: f64, program: &Path, folder: &Path) -> Result<()> {
    ensure!(
        name != Name::Player || dnsperf::is_there(),
        "dnsperf is missing; `cargo xtask test --only packages` installs it"
    );
    ensure!(shell::find("taskset").is_some(), "taskset is missing (package util-linux)");
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let scratch = tempfile::tempdir()?;
    let queries = scratch.path().join("queries");
    kqps::write_queries(&queries, QUERIES, false)?;
    let bench = Bench { kqps: Kqps::new(program)?, seconds, queries: &queries, scratch: scratch.path() };

    let mut found = Vec::new();
    for row in rows::of(name) {
        found.push(block::compare(&bench, row, blocks)?);
    }
    let precise = match name {
        Name::Player => precision::measure(&bench, blocks)?,
        Name::Echo | Name::Auth => Vec::new(),
    };
    report::print(&found, &precise);
    report::write(&folder.join(format!("{name:?}.json").to_lowercase()), &bench, blocks, &found, &precise)
}
