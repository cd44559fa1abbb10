//! The independent recording: tcpdump writes what passes the device at the server's end, and `kqps show` counts it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kqps_capture::{Event, Kind, Reader, Settings};
use kqps_kernel::namespace::veth;
use kqps_programs::shell;
use kqps_testbed::path::LaidPath;
use serde_json::Value;

use super::super::Bench;
use crate::child::{Running, pinned};
use crate::numbered::number_of;

pub(super) const PROGRAM: &str = "tcpdump";

/// The recording is complete if it does not grow for this long after the play.
const QUIET: Duration = Duration::from_millis(200);
const QUIET_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

/// tcpdump's buffer, KiB: all packets of a play.
const BUFFER_KIB: &str = "65536";
/// The snap length, which each packet takes in that buffer: more than any packet here has.
const SNAP_BYTES: &str = "1024";

/// tcpdump at work.
pub(super) struct Recorder {
    running: Running,
    file: PathBuf,
}

/// A query in the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedQuery {
    pub(super) number: u32,
    pub(super) at_ns: u64,
    pub(super) from: SocketAddr,
    /// The number of its connection; `None` over UDP.
    pub(super) connection: Option<u64>,
}

/// The contents of a recording.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Queries, in the order of their packets.
    pub(super) queries: Vec<RecordedQuery>,
    pub(super) responses: u64,
    /// Connection → when its last response came.
    pub(super) answered_ns: BTreeMap<u64, u64>,
    /// Connection → when it was closed.
    pub(super) closed_ns: BTreeMap<u64, u64>,
    /// Counts of `kqps show`.
    pub(super) shown: Value,
    /// Why the recording may lack packets; `None` if it has all.
    pub(super) doubt: Option<String>,
}

impl Recorder {
    /// Starts tcpdump at the subject's end of a path, on the subject's core, and waits until it records.
    pub(super) fn start(bench: &Bench, path: &LaidPath, port: u16, file: &Path) -> Result<Self> {
        let program = shell::find(PROGRAM).with_context(|| format!("{PROGRAM} is missing"))?;
        // It says on its standard error when it records.
        let mut command = pinned(&bench.kqps.subject_cpu.to_string(), "sh");
        command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(program);
        command.args(["-i", veth::DEVICE, "-n", "-s", SNAP_BYTES, "-U", "--immediate-mode"]);
        command.args(["--time-stamp-precision=nano", "-B", BUFFER_KIB, "-Z", "root", "-w"]).arg(file);
        command.args(["port", &port.to_string()]);
        path.place_subject(&mut command).context("entering a network namespace")?;
        let mut running = Running::start(&mut command)?;
        loop {
            let line = running.line()?;
            ensure!(!line.is_empty(), "{PROGRAM} ended before it recorded anything");
            if line.contains("listening on") {
                break;
            }
        }
        Ok(Self { running, file: file.to_owned() })
    }

    /// Waits until all packets are written, stops tcpdump, and reads what it recorded at a server with this port.
    pub(super) fn stop(self, bench: &Bench, port: u16) -> Result<Recorded> {
        wait_until_quiet(&self.file)?;
        let said = self.running.terminate()?.output;
        let recorded = read(&self.file, port)?;
        let mut show = Command::new(&bench.kqps.program);
        show.args(["show", "--json", "--captured-port", &port.to_string()]).arg(&self.file);
        let shown = shell::read(&mut show)?;
        let shown = serde_json::from_str(&shown).with_context(|| format!("kqps show printed {shown:?}"))?;
        Ok(Recorded { shown, doubt: lacking(&said)?, ..recorded })
    }
}

fn wait_until_quiet(file: &Path) -> Result<()> {
    let length = || fs::metadata(file).map(|facts| facts.len()).context("tcpdump writes no file");
    let end = Instant::now() + QUIET_WITHIN;
    let (mut last, mut since) = (length()?, Instant::now());
    while since.elapsed() < QUIET {
        if Instant::now() > end {
            bail!("packets still come {} s after the play", QUIET_WITHIN.as_secs());
        }
        std::thread::sleep(LOOK);
        let now = length()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Why tcpdump may lack packets, from its counts at the end: `12 packets captured`, `12 packets received by filter`, `0
/// packets dropped by kernel`.
fn lacking(said: &str) -> Result<Option<String>> {
    let count = |what: &str| {
        let line = said.lines().find(|line| line.trim_end().ends_with(what));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.with_context(|| format!("{PROGRAM} does not say how many were {what}: {said:?}"))
    };
    let (captured, received) = (count("captured")?, count("received by filter")?);
    let dropped = count("dropped by kernel")?;
    Ok((captured != received || dropped > 0)
        .then(|| format!("tcpdump wrote {captured} of {received} packets, and the kernel dropped {dropped}")))
}

fn read(file: &Path, port: u16) -> Result<Recorded> {
    let source = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut reader = Reader::new(source, &Settings { ports: vec![port], ..Settings::default() })?;
    let mut recorded = Recorded::default();
    while let Some(event) = reader.next()? {
        match event {
            Event::Closed { at_ns, connection } => {
                recorded.closed_ns.entry(connection).or_insert(at_ns);
            }
            Event::Message(message) => match message.kind {
                Kind::Response => {
                    recorded.responses += 1;
                    if let Some(connection) = message.connection {
                        recorded.answered_ns.insert(connection, message.at_ns);
                    }
                }
                Kind::Query => {
                    let number =
                        number_of(message.bytes).context("a query was recorded that is not known")?;
                    let (at_ns, from, connection) = (message.at_ns, message.client, message.connection);
                    recorded.queries.push(RecordedQuery { number, at_ns, from, connection });
                }
            },
        }
    }
    reader.counts().check().map_err(anyhow::Error::msg)?;
    Ok(recorded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_tcpdump_are_read() {
        let whole = "12 packets captured\n12 packets received by filter\n0 packets dropped by kernel\n";
        assert_eq!(lacking(whole).unwrap(), None);
        assert!(lacking(&whole.replace("12 packets received", "13 packets received")).unwrap().is_some());
        assert!(lacking(&whole.replace("0 packets dropped", "2 packets dropped")).unwrap().is_some());
        assert!(lacking("tcpdump: no such device").is_err());
    }
}
