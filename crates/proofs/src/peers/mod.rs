//! `cargo xtask peers NAME`: kqps beside other programs, or one of its parts beside another, measured in
//! interleaved blocks on one core each. Only ratios within one run count, since a host's absolute figures
//! change from hour to hour.

mod best_rate;
mod block;
mod cache_memory;
mod data;
mod figure;
mod foreign;
mod players;
mod precision;
mod replay;
mod report;
mod rings;
mod rows;
mod server;
mod side;
mod single;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use kqps_programs::shell;

use crate::program::{Expected, Program, write_queries};
use crate::scratch::Scratch;

/// A set of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// `kqps load` with dnsperf
    Player,
    /// The I/O models of `kqps serve echo` with one another
    Echo,
    /// `kqps serve auth` with NSD, Knot DNS and the echo
    Auth,
    /// `kqps serve front` with dnsdist, and with the server behind it
    Front,
    /// `kqps serve cache` with Unbound, PowerDNS Recursor, dnsdist and the echo
    Cache,
    /// `kqps load` with dnsperf, kxdpgun and OpenSSL over connections, and `kqps serve auth` with NSD and Knot DNS
    Transports,
    /// `--io xdp` with kxdpgun, with sockets, and with NSD, over veth; and the player's own share
    Xdp,
    /// Replays of a capture with tcpreplay and dnsreplay, and how fast a capture is compiled
    Replay,
}

impl Name {
    /// Its word on the command line and in files.
    fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// The options of `cargo xtask peers`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The set of comparisons to make
    name: Name,
    /// Blocks of each comparison, 6 at least: A B B A, then B A A B, and so on
    #[arg(long, default_value_t = BLOCKS, value_parser = clap::value_parser!(u32).range(i64::from(BLOCKS)..))]
    blocks: u32,
    /// Length of each measurement
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,
    /// Only the rows whose words contain this
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// The program to measure (default: the release build, made now)
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Programs, files and settings that all measurements of a run share.
struct Bench<'a> {
    kqps: Program,
    calls: &'a Path,
    rings: &'a Path,
    seconds: f64,
    /// Whether the run only shows that it works, with fewer blocks than figures need.
    is_short: bool,
    /// Path of a file with 100,000 names of equal length, in a form that dnsperf also reads.
    queries: &'a Path,
    /// A folder for generated files.
    scratch: &'a Path,
}

const QUERIES: u32 = 100_000;

/// The fewest blocks whose figures mean something.
const BLOCKS: u32 = 6;

impl Options {
    /// The program to measure, if the user names one.
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// Whether one of the compared sides is the bare system calls of an echo.
    pub fn needs_calls(&self) -> bool {
        self.name == Name::Echo
    }

    /// Whether the player's loop is measured over rings without a kernel.
    pub fn needs_rings(&self) -> bool {
        self.name == Name::Xdp
    }
}

/// Measures, and prints a table. The figures go to `NAME.json` in `folder`. An error if a row fails or misses its
/// target.
pub fn run(options: &Options, programs: Programs<'_>, folder: &Path) -> Result<()> {
    let extent = Extent { only: options.only.as_deref(), blocks: options.blocks, seconds: options.seconds };
    measure(options.name, extent, programs, folder)
}

/// Paths of the built programs to measure.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// The program `kqps`.
    pub kqps: &'a Path,
    /// The bare system calls of an echo, which only [`Name::Echo`] needs.
    pub calls: &'a Path,
    /// The player's loop over rings without a kernel, which only [`Name::Xdp`] needs.
    pub rings: &'a Path,
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// Only the rows whose words contain this text; `None` for all rows.
    pub only: Option<&'a str>,
    /// Blocks of each row. Fewer than six only show that it works.
    pub blocks: u32,
    /// Length of each measurement, seconds.
    pub seconds: f64,
}

/// Measures with built programs, and writes into a folder. A row that this host cannot measure is skipped with its
/// reason. If another row cannot be measured, the rest are measured all the same, and the error comes at the end.
pub fn measure(name: Name, extent: Extent<'_>, programs: Programs<'_>, folder: &Path) -> Result<()> {
    let Extent { only, blocks, seconds } = extent;
    ensure!(shell::find("taskset").is_some(), "taskset is missing (package util-linux)");
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let scratch = Scratch::new()?;
    let queries = scratch.path().join("queries");
    write_queries(&queries, QUERIES, Expected::Nothing)?;
    let kqps = Program::new(programs.kqps)?;
    let bench = Bench {
        kqps,
        calls: programs.calls,
        rings: programs.rings,
        seconds,
        is_short: blocks < BLOCKS,
        queries: &queries,
        scratch: scratch.path(),
    };

    let is_wanted = |what: &str| only.is_none_or(|only| what.contains(only));
    let (mut found, mut skipped, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows::table_rows(name).into_iter().filter(|row| is_wanted(row.what)) {
        if let Some(row) = row.skipped() {
            eprintln!("{}: skipped: {}", row.what, row.reason);
            skipped.push(row);
            continue;
        }
        match block::compare(&bench, row, blocks) {
            Ok(compared) => found.push(compared),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    let precise = match precision::OpenLoop::from_name(name).filter(|over| is_wanted(over.words())) {
        Some(over) => precision::measure(&bench, blocks, over)?,
        None => Vec::new(),
    };
    let of_one_side = match name {
        Name::Xdp => rings::measure(&bench, blocks, is_wanted),
        Name::Replay => replay::measure(&bench, blocks, is_wanted),
        Name::Cache => cache_memory::measure(&bench, blocks, is_wanted),
        Name::Player | Name::Echo | Name::Auth | Name::Front | Name::Transports => Ok(Default::default()),
    };
    let (singles, unable) = of_one_side.unwrap_or_else(|error| {
        failed.push(format!("{error:#}"));
        Default::default()
    });
    skipped.extend(unable);
    if found.is_empty() && precise.is_empty() && singles.is_empty() && failed.is_empty() {
        ensure!(!skipped.is_empty(), "no row has these words");
        bail!("every row with these words is skipped");
    }
    let measured =
        report::Measurements { found: &found, precise: &precise, singles: &singles, skipped: &skipped };
    report::print(&measured);
    let path = folder.join(format!("{}.json", name.word()));
    report::write(&path, &bench, blocks, &measured)?;
    ensure!(failed.is_empty(), "not measured:\n  {}", failed.join("\n  "));
    Ok(())
}
