//! Attackers as a load: connections that no client makes, at the rate of the flags.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use kqps_dataset::{Dataset, Format, Options};
use kqps_files::unfinished::Unfinished;
use kqps_player::plan::Hostile;
use kqps_player::{Plan, Wire};
use tempfile::NamedTempFile;

use super::Args;
use super::plan_error::with_flags;
use crate::exit::bad_input;

/// Connections of each thread that are held, or under way, if the flags do not say how many.
const HELD_PER_THREAD: usize = 1000;

/// Sockets of each thread for first datagrams of QUIC, if the flags do not say how many.
const PORTS_PER_THREAD: usize = 256;

/// Dataset name of a load without queries.
const NONE: &str = "none";

/// Refuses flags of queries for attackers that send none, and conditions, which are about queries. `has_own` is whether a
/// scenario has their queries.
pub(super) fn check(args: &Args, kind: Hostile, has_own: bool) -> anyhow::Result<()> {
    let word = kind.word();
    if !kind.has_queries() && (has_own || args.player.queries.is_some()) {
        let own = if has_own { "`ask` and `messages`" } else { "-d" };
        return Err(bad_input(format!("--hostile {word} sends no query: leave {own} out")));
    }
    if let Some(flag) = args.per_query.first_given() {
        return Err(bad_input(format!(
            "--hostile {word}: {flag} is for queries that are sent whole; leave it out"
        )));
    }
    if !args.fail_on.is_empty() {
        return Err(bad_input(format!(
            "--hostile {word}: --fail-on judges queries and their replies, and attackers have none; leave it out, or play \
             them beside a load (--scenario)"
        )));
    }
    Ok(())
}

/// Makes a plan one of attackers. `has_count` is whether the flags say how many places they have.
pub(super) fn turn(mut plan: Plan, kind: Hostile, has_count: bool) -> anyhow::Result<Plan> {
    plan.hostile = Some(kind);
    if !has_count {
        let of_each = if kind == Hostile::Initials { PORTS_PER_THREAD } else { HELD_PER_THREAD };
        match &mut plan.wire {
            Wire::Tcp(tcp) if kind != Hostile::Streams => tcp.connections = of_each * plan.threads,
            Wire::Quic(quic) => quic.connections = of_each * plan.threads,
            Wire::Tcp(_) | Wire::Udp(_) | Wire::Captured(_) => {}
        }
    }
    plan.check().map_err(|error| bad_input(format!("--hostile {}: {}", kind.word(), with_flags(&error))))?;
    Ok(plan)
}

/// A file for the queries of attackers that send none: a player has queries in any case.
pub(super) fn no_queries_file() -> anyhow::Result<(NamedTempFile, Unfinished)> {
    let (mut file, listed) =
        Unfinished::made(NamedTempFile::new).context("a file for a load without queries")?;
    write_no_queries(file.as_file_mut())?;
    Ok((file, listed))
}

fn write_no_queries(file: &mut File) -> anyhow::Result<()> {
    let written = file.write_all(b". NS\n").and_then(|()| file.rewind());
    written.context("writing a load without queries")
}

/// The queries of attackers that send none.
pub(super) fn no_queries() -> anyhow::Result<Dataset> {
    let mut file = tempfile::tempfile().context("a file for a load without queries")?;
    write_no_queries(&mut file)?;
    let options = Options { format: Format::Text, ..Options::default() };
    Dataset::read(file, Path::new(NONE), &options).context("reading a load without queries")
}
