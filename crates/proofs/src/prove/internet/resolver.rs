//! A resolver: Unbound, as Debian has it, finds every generated name in the box, with all records and the AD bit where the
//! tree says so, and the box counts as many queries as a tap on the link.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::thread::Background;
use kqps_kernel::namespace::{NetNs, enter, named, veth};
use kqps_kernel::probe::probe_one;
use kqps_kernel::process::Signal;
use kqps_kernel::tap::{Sample, Tap, TapCounts, TapSettings};
use kqps_observation::Trial;
use kqps_programs::shell;
use kqps_skips::Capability;
use serde::Deserialize;

use super::super::Bench;
use super::answers::{self, Compared};
use crate::child::{Running, pinned};
use crate::program::finish;
use crate::wait::until;

/// The flags of the tree, for the box and for its questions. Servers answer at once, so no answer of a busy host is late.
const TREE: [&str; 8] = [
    "--size",
    "small",
    "--set",
    "delay.root_us=[]",
    "--set",
    "delay.tld_us=[]",
    "--set",
    "delay.company_us=[]",
];

/// Questions of clients, and how many are asked in a second.
const SMALL: (u32, &str) = (300, "200");
const WHOLE: (u32, &str) = (20_000, "500");

/// The least share of the questions whose answers the tree says, and of these with the AD bit: 5 % of the companies and most
/// top-level domains are signed.
const COMPARED_LEAST: f64 = 0.99;
const SECURE_LEAST: f64 = 0.02;

const STARTS_WITHIN: Duration = Duration::from_secs(20);
const END_WITHIN: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);

/// The time after the resolver's end in which the last of its packets reach the box.
const SETTLE: Duration = Duration::from_millis(500);

/// The bytes of a packet that the tap copies: none is read.
const SNAP_BYTES: u32 = 64;

/// The port of the servers, and of the resolver in its own network.
const PORT: u16 = 53;
const RESOLVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);

/// The files that the box writes for a resolver.
#[derive(Deserialize)]
struct Ready {
    root_hints: PathBuf,
    trust_anchor: PathBuf,
}

/// The counts that the box prints at its end.
#[derive(Deserialize)]
struct Report {
    received: u64,
    internet: Counted,
}

#[derive(Deserialize)]
struct Counted {
    /// By level and kind.
    udp: BTreeMap<String, BTreeMap<String, u64>>,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let Some(unbound) = shell::find("unbound") else {
        return bench.leave_out(Capability::Programs, "a resolver in the box: `unbound` is missing");
    };
    for needed in ["veth", "packet-stamps"] {
        if let Err(reason) = probe_one(needed) {
            return bench.leave_out(Capability::Networks, format!("a resolver in the box: {reason}"));
        }
    }
    let (count, rate) = bench.choose(SMALL, WHOLE);
    let queries = questions(bench, count)?;
    let name = format!("kqps-prove-{}", std::process::id());
    let (mut running, ready) = start_box(bench, &name)?;
    let home = named::open(&name).context("the resolver's network")?;
    let tap = record(&world(running.pid(), &home)?)?;
    let resolver = start_resolver(bench, &unbound, &ready, &home)?;
    let mut load = bench.kqps.load_command(
        RESOLVER,
        &queries,
        &["-T", "1", "-Q", rate, "-n", "1", "-t", "10s", "--lag", "10s"],
    );
    let trial = finish(Running::start(enter(&mut load, &home)?)?)?.measured()?;
    let internet = answers::internet("small", &[TREE[3], TREE[5], TREE[7]])?;
    let Compared { answers, secure } = answers::compare(&internet, count, RESOLVER, &home)?;
    eprintln!(
        "{answers} of {count} answers have the records and AD bits that the tree says; {secure} have AD"
    );
    let share = |part: u32, all: u32| f64::from(part) / f64::from(all);
    ensure!(share(answers, count) >= COMPARED_LEAST, "the tree says nothing of {} answers", count - answers);
    ensure!(share(secure, answers) >= SECURE_LEAST, "{secure} of {answers} answers are validated");
    resolver.terminate()?;
    std::thread::sleep(SETTLE);
    let (tapped, counts) = tap.stop()?;
    running.signal(Signal::Terminate)?;
    let report: Report = running.json_line()?;
    running.wait(END_WITHIN)?;
    compare(&trial, &report, count, (tapped, counts))
}

/// Compares the answers with the tree, and the counts of the box with those of the tap.
fn compare(trial: &Trial, report: &Report, count: u32, (tapped, tap): (u64, TapCounts)) -> Result<()> {
    let accounts = &trial.accounts;
    let asked: u64 = report.internet.udp.values().flat_map(|kinds| kinds.values()).sum();
    eprintln!(
        "{} of {count} answers are right; {asked} queries in the box, {tapped} on the link: {:.2} for each question",
        accounts.correct,
        asked as f64 / f64::from(count)
    );
    ensure!(tap.dropped == 0, "the tap missed {} packets", tap.dropped);
    ensure!(
        (accounts.sent, accounts.correct) == (count.into(), count.into()),
        "of {count} questions {} were sent, {} answered rightly, {} wrongly, {} late and {} not",
        accounts.sent,
        accounts.correct,
        accounts.wrong,
        accounts.late,
        accounts.lost
    );
    ensure!(
        asked == tapped && report.received == tapped,
        "the box received {} queries by UDP and counts {asked}; {tapped} came over the link",
        report.received
    );
    // The resolver cannot know more than a part of the names without asking.
    ensure!(asked > 10, "the resolver asked {asked} queries only");
    Ok(())
}

/// Writes questions of clients with their rcodes.
fn questions(bench: &Bench, count: u32) -> Result<PathBuf> {
    let path = bench.folder.path().join("clients.queries");
    let mut command = Command::new(&bench.kqps.program);
    command.args(["gen", "internet", "-n", &count.to_string(), "-o"]).arg(&path).args(TREE);
    let ended = command.output().context("kqps gen internet")?;
    ensure!(ended.status.success(), "kqps gen internet: {}", String::from_utf8_lossy(&ended.stderr));
    Ok(path)
}

/// Starts the box, whose resolver has a network of this name.
fn start_box(bench: &Bench, name: &str) -> Result<(Running, Ready)> {
    let mut command = bench.kqps.serve("internet");
    command.args(TREE).args(["--namespace", name, "--buffer", "64MiB", "--for", "1h"]);
    // The root's signatures are made before the line.
    let mut running = Running::start(&mut command)?;
    let ready = running.json_line()?;
    Ok((running, ready))
}

/// The network of the servers: that of a thread of the box, neither the host's nor the resolver's.
fn world(pid: u32, home: &NetNs) -> Result<NetNs> {
    let others = [NetNs::of_this_process()?.number()?, home.number()?];
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let ids = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let networks = ids.filter_map(|id| NetNs::of_process(id).ok());
    let is_other = |network: &NetNs| network.number().is_ok_and(|number| !others.contains(&number));
    networks.into_iter().find(is_other).context("no thread of the box is in a network of its own")
}

/// Starts Unbound, and waits until it answers.
fn start_resolver(bench: &Bench, unbound: &Path, ready: &Ready, home: &NetNs) -> Result<Running> {
    let configuration = bench.folder.path().join("unbound.conf");
    let (hints, anchor) = (ready.root_hints.display(), ready.trust_anchor.display());
    let text = format!(
        "server:\n  directory: \"{}\"\n  chroot: \"\"\n  username: \"\"\n  verbosity: 0\n  pidfile: \"\"\n  use-syslog: no\n  \
         interface: 127.0.0.1@{PORT}\n  root-hints: \"{hints}\"\n  trust-anchor-file: \"{anchor}\"\nremote-control:\n  \
         control-enable: no\n",
        bench.folder.path().display()
    );
    fs::write(&configuration, text)?;
    let mut command = pinned(&bench.kqps.subject_cpu.to_string(), unbound);
    command.args(["-d", "-c"]).arg(&configuration);
    let running = Running::start(enter(&mut command, home)?)?;
    let looks = || {
        ensure!(!running.has_ended()?, "unbound ended by itself");
        Ok(answers::try_root(RESOLVER, home, PATIENCE).is_ok().then_some(()))
    };
    until((STARTS_WITHIN, LOOK), looks, || "unbound does not answer".to_owned())?;
    Ok(running)
}

/// Taps the servers' end of the link, and counts queries.
fn record(world: &NetNs) -> Result<Background<(u64, TapCounts)>> {
    let settings = TapSettings {
        interface: veth::DEVICE.to_owned(),
        ports: vec![PORT],
        sample: Sample::one_in(1),
        snap_bytes: SNAP_BYTES,
    };
    let tap = world.within(|| Tap::open(&settings)).context("tapping the link")?;
    Background::start(("the tap", "tap"), None, move |stop| Ok(count(tap, stop)?))
}

/// Counts queries until the end: packets that came in. A packet of several datagrams is counted once, and no resolver sends
/// such ones.
fn count(mut tap: Tap, is_over: &AtomicBool) -> std::io::Result<(u64, TapCounts)> {
    const LOOK_NS: u64 = 20_000_000;
    let (mut queries, mut read) = (0, 0);
    while !is_over.load(Ordering::Acquire) {
        read += tap.drain(&mut |packet| queries += u64::from(!packet.is_outgoing));
        tap.wait(LOOK_NS)?;
    }
    let counts = tap.finish(read, &mut |packet| queries += u64::from(!packet.is_outgoing))?;
    Ok((queries, counts))
}
