//! Memory of each cached RRset of one address: how much a cache grows while it takes names that it did not know, for each
//! of them. Then the server behind the cache is frozen and every name is asked for again, so that only a cache that kept
//! them has a figure.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::process::{self, Signal};
use kqps_observation::question::Path as Kind;
use kqps_testbed::path::LaidPath;
use serde::Serialize;
use serde_json::json;

use super::Bench;
use super::rows::{self, Target};
use super::server::{Server, Up};
use super::single::{Single, Unit};
use crate::program::finish;
use crate::{child, path};

const WHAT: &str = "memory of a cached RRset of one address: kqps cache / Unbound that forwards";

/// The largest ratio.
const RATIO_MOST: f64 = 0.5;

/// The least share of names that a cache must have kept. A few may be lost where places are found by a hash.
const KEPT_LEAST: f64 = 0.999;

/// A closed loop in which no query is lost: a cache has room for all that wait.
const GENTLE: &[&str] =
    &["-T", "1", "-c", "8", "-q", "200", "-t", "5s", "--check", "rcode", "--subject", "auto"];

/// A cache, filled.
#[derive(Clone, Copy, Debug, Serialize)]
struct Filled {
    /// Proportional memory of the cache's process after one name, bytes.
    before_bytes: u64,
    /// Proportional memory of the process after all names, bytes.
    after_bytes: u64,
    names: u64,
}

impl Filled {
    fn bytes_per_name(self) -> f64 {
        self.after_bytes.saturating_sub(self.before_bytes) as f64 / self.names as f64
    }
}

/// Fills both caches in turn, in each block. Returns nothing if the figure is not wanted.
pub(super) fn measure(
    bench: &Bench<'_>,
    blocks: u32,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<Single>, Vec<rows::Skipped>)> {
    if !is_wanted(WHAT) {
        return Ok((Vec::new(), Vec::new()));
    }
    let extent = if bench.is_short { "few" } else { "filled" };
    let sides = ["cache", "unbound"].map(|name| rows::server(&format!("{name}, {extent}")));
    if let Some(reason) = sides.into_iter().find_map(Server::lacks) {
        return Ok((Vec::new(), vec![rows::Skipped { what: WHAT, reason }]));
    }
    let (mut ratios, mut beside) = (Vec::new(), Vec::new());
    for block in 0..blocks {
        let [ours, theirs] = sides;
        let (ours, theirs) = (fill(bench, ours)?, fill(bench, theirs)?);
        let (a, b) = (ours.bytes_per_name(), theirs.bytes_per_name());
        eprintln!("{WHAT} {}/{blocks}: {a:.0} bytes, {b:.0} bytes", block + 1);
        ratios.push(a / b);
        beside.push(json!({ "ours": ours, "theirs": theirs }));
    }
    let ratio = Single::new(WHAT.to_owned(), Unit::Ratio, ratios.into_iter(), Target::AtMost(RATIO_MOST));
    Ok((vec![Single { beside: json!(beside), ..ratio }], Vec::new()))
}

fn fill(bench: &Bench<'_>, server: &Server) -> Result<Filled> {
    let data = server.data().context("a cache has names")?;
    let (one, all, names) = each_once(bench, &data.queries(bench)?)?;
    let path = path::lay(Kind::Loopback)?;
    let up = server.start(bench, &path)?;
    let before_bytes = ask(bench, &up, &path, &one, 1)?;
    let after_bytes = ask(bench, &up, &path, &all, names)?;
    let frozen = Frozen::behind(&up)?;
    ask(bench, &up, &path, &all, names)
        .with_context(|| format!("{}, with a frozen server behind it", server.words()))?;
    drop(frozen);
    Ok(Filled { before_bytes, after_bytes, names })
}

/// Asks for every name of a file once, of which each must be answered. Returns the proportional memory of the process
/// with the server's socket, bytes.
fn ask(bench: &Bench<'_>, up: &Up, path: &LaidPath, file: &Path, names: u64) -> Result<u64> {
    let flags = [GENTLE, &["-n", "1"]].concat();
    let trial = finish(bench.kqps.start_load_over(path, up.address, file, &flags)?)?.measured()?;
    let correct = trial.accounts.correct;
    let is_kept = correct as f64 >= names as f64 * KEPT_LEAST;
    ensure!(is_kept, "{correct} of {names} names were answered: {:?}", trial.accounts);
    trial.subject.and_then(|subject| subject.pss_bytes).context("the memory of the cache could not be read")
}

/// Files with one name and with all names of a query file, each once, and the number of all.
fn each_once(bench: &Bench<'_>, queries: &Path) -> Result<(PathBuf, PathBuf, u64)> {
    let (one, all) = (bench.scratch.join("one-name"), bench.scratch.join("each-name"));
    let text = fs::read_to_string(queries).with_context(|| format!("cannot read {}", queries.display()))?;
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    let first = lines.first().context("there are no queries")?;
    fs::write(&one, format!("{first}\n")).with_context(|| format!("cannot write {}", one.display()))?;
    fs::write(&all, lines.join("\n") + "\n").with_context(|| format!("cannot write {}", all.display()))?;
    Ok((one, all, lines.len() as u64))
}

/// The authoritative server behind a cache, stopped. Dropping this lets it go on.
struct Frozen(u32);

impl Frozen {
    fn behind(up: &Up) -> Result<Self> {
        let is_behind = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(b"serve\0auth\0".len()).any(|part| part == b"serve\0auth\0")
        };
        let Some(pid) = child::children_of(up.pid).into_iter().find(is_behind) else {
            bail!("no authoritative server runs behind the cache");
        };
        process::signal(pid, Signal::Stop).context("cannot freeze the server behind the cache")?;
        Ok(Self(pid))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = process::signal(self.0, Signal::Continue);
    }
}
