//! How fast kqps compiles a capture, and how much anonymous memory it takes for that. A user meets both at the first
//! play of a file, so they are measured by such a play, from whose time that of a capture with few queries is deducted.
//! What is left is the hash of the file, the reading, and the writing of the encoded form.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use serde::Serialize;
use serde_json::json;

use super::traffic::Traffic;
use super::{COMPILED, SERVER_OF_FILES};
use crate::child::{Running, status_kib};
use crate::peers::Bench;
use crate::peers::rows::Target;
use crate::peers::single::{Single, Unit};
use crate::program;

/// The least packets a second.
const PER_S_LEAST: f64 = 2e6;

/// The most anonymous memory, bytes.
const BYTES_MOST: f64 = 67_108_864.0;

/// Queries of the capture whose time is deducted.
const FEW: u32 = 100;

/// Interval of looks at the memory of the program.
const LOOK: Duration = Duration::from_millis(1);

/// A first play.
#[derive(Clone, Copy, Debug, Serialize)]
struct Once {
    seconds: f64,
    /// The most anonymous memory that was seen, bytes.
    anonymous_bytes: u64,
}

pub(super) fn measure(bench: &Bench<'_>, traffic: &Traffic, blocks: u32) -> Result<[Single; 2]> {
    let (file, few) = (bench.scratch.join("compile.pcap"), bench.scratch.join("few.pcap"));
    traffic.write(&file, [2; 6], SERVER_OF_FILES)?;
    Traffic { queries: FEW, ..*traffic }.write(&few, [2; 6], SERVER_OF_FILES)?;
    let (mut per_s, mut bytes, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for block in 0..blocks {
        let (least, whole) = (once(bench, &few)?, once(bench, &file)?);
        let seconds = (whole.seconds - least.seconds).max(1e-3);
        per_s.push(f64::from(traffic.queries) / seconds);
        bytes.push(whole.anonymous_bytes as f64);
        eprintln!("{COMPILED} {}/{blocks}: {seconds:.3} s, {} bytes", block + 1, whole.anonymous_bytes);
        beside.push(json!({ "few": least, "whole": whole }));
    }
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    let what = |figure: &str| format!("{COMPILED} of {} packets: {figure}", traffic.queries);
    let rate = what("packets a second, the hash of the file included");
    let rate = Single::new(rate, Unit::PerSecond, per_s.into_iter(), Target::AtLeast(PER_S_LEAST));
    let memory = what("peak of anonymous memory");
    let memory = Single::new(memory, Unit::Bytes, bytes.into_iter(), Target::AtMost(BYTES_MOST));
    Ok([Single { beside: json!(beside), ..rate }, Single { every: true, ..memory }])
}

/// Plays the beginning of a capture that no cache has, at a port where no server is.
fn once(bench: &Bench<'_>, file: &Path) -> Result<Once> {
    let cache = tempfile::tempdir_in(bench.scratch)?;
    let flags = ["-T", "1", "--window", "..100us", "--subject", "none", "-t", "10ms", "--drain", "10ms"];
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut command = bench.kqps.load_command(nowhere, file, &flags);
    command.env("XDG_CACHE_HOME", cache.path()).stderr(Stdio::null());
    let began = Instant::now();
    let running = Running::start(&mut command)?;
    let pid = running.pid();
    let reader = std::thread::spawn(move || program::finish(running));
    let mut anonymous_bytes = 0;
    while !reader.is_finished() {
        anonymous_bytes = anonymous_bytes.max(status_kib(pid, "RssAnon").unwrap_or(0) * 1024);
        std::thread::sleep(LOOK);
    }
    let seconds = began.elapsed().as_secs_f64();
    reader.join().map_err(|_| anyhow!("the reader of the record panicked"))??.measured()?;
    Ok(Once { seconds, anonymous_bytes })
}
