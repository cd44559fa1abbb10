//! Resolvers, as Debian has them and as a run starts them: each finds every generated name in the box, with all records and the
//! AD bit where the tree says so, and the box counts as many queries as a tap on the link.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::thread::Background;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::namespace::{NetNs, enter, veth};
use kqps_kernel::probe::probe_one;
use kqps_kernel::tap::{Sample, Tap, TapCounts, TapSettings};
use kqps_observation::factors::name;
use kqps_observation::{Cell, Factors, Trial};
use kqps_programs::shell;
use kqps_skips::Capability;
use kqps_testbed::internet::running::{BoxSetting, InternetBox};
use kqps_testbed::path::LaidPath;
use kqps_testbed::subject::{Definition, LaunchSetting, Subject, Zone, builtin};

use super::super::{Bench, Size};
use super::answers::{self, Compared};
use crate::child::Running;
use crate::program::finish;

/// The seed of the tree, which `kqps gen internet` has by default.
const SEED: u64 = 1;

/// Questions of clients, and how many are asked in a second.
const SMALL: (u32, &str) = (300, "200");
const WHOLE: (u32, &str) = (20_000, "500");

/// The resolver of the small form.
const FIRST: &str = "unbound-resolver";

/// The least share of the questions whose answers the tree says, and of these with the AD bit: 5 % of the companies and most
/// top-level domains are signed.
const COMPARED_LEAST: f64 = 0.99;
const SECURE_LEAST: f64 = 0.02;

/// The time after the resolver's end in which the last of its packets reach the box.
const SETTLE: Duration = Duration::from_millis(500);

/// The bytes of a packet that the tap copies: none is read.
const SNAP_BYTES: u32 = 64;

/// The port of the servers.
const PORT: u16 = 53;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    for needed in ["veth", "packet-stamps"] {
        if let Err(reason) = probe_one(needed) {
            return bench.leave_out(Capability::Networks, format!("a resolver in the box: {reason}"));
        }
    }
    let (count, rate) = bench.choose(SMALL, WHOLE);
    let queries = questions(bench, count)?;
    let is_wanted = |one: &Definition| one.resolves() && (bench.size == Size::Whole || one.name == FIRST);
    for resolver in builtin::servers().into_iter().filter(is_wanted) {
        let missing = resolver.programs.iter().find(|program| shell::find(program).is_none());
        if let Some(program) = missing {
            bench.leave_out(Capability::Programs, format!("{}: `{program}` is missing", resolver.title))?;
            continue;
        }
        prove_one(bench, &resolver, (&queries, count, rate)).with_context(|| resolver.title.clone())?;
    }
    Ok(())
}

fn prove_one(
    bench: &Bench,
    resolver: &Definition,
    (queries, count, rate): (&PathBuf, u32, &str),
) -> Result<()> {
    let path = LaidPath::Internet(Box::new(start_box(bench, &resolver.name)?));
    let internet = path.internet().context("the path has an Internet")?;
    let tap = record(&world(internet.pid(), internet.home())?)?;
    let setting = LaunchSetting {
        path: &path,
        folder: &bench.folder.path().join(&resolver.name),
        zones: &[Zone::new(".", "")],
        kqps: &bench.kqps.program,
        io: "epoll",
        workers: 1,
        cpus: &[bench.kqps.subject_cpu],
        settings: &BTreeMap::new(),
    };
    let subject = Subject::start(resolver, &setting, &Interrupts::default())?;
    let flags = ["-T", "1", "-Q", rate, "-n", "1", "-t", "10s", "--lag", "10s"];
    let mut load = bench.kqps.load_command(subject.address(), queries, &flags);
    let trial = finish(Running::start(enter(&mut load, internet.home())?)?)?.measured()?;
    compare_answers(count, subject.address(), internet.home())?;
    subject.stop();
    std::thread::sleep(SETTLE);
    let (tapped, counts) = tap.stop()?;
    let asked = internet.upstream()?.udp.values().sum();
    compare_counts(&resolver.title, &trial, count, asked, (tapped, counts))
}

/// Starts the small Internet, whose servers answer at once, so no answer of a busy host is late.
fn start_box(bench: &Bench, resolver: &str) -> Result<InternetBox> {
    let words = [(name::INTERNET, "small"), (name::INTERNET_DELAY, "0")];
    let words = words.map(|(name, word)| (name.to_owned(), word.to_owned()));
    let cell = Cell {
        factors: Factors::read(words)?,
        subject_cpus: vec![bench.kqps.subject_cpu],
        ..Cell::default()
    };
    let folder = bench.folder.path().join(format!("{resolver}-internet"));
    let setting = BoxSetting { kqps: &bench.kqps.program, folder: &folder, seed: SEED, share: None };
    InternetBox::start(&cell, &setting, &Interrupts::default())?.context("the cell has an Internet")
}

/// Compares the records of each answer with those of the tree.
fn compare_answers(count: u32, resolver: SocketAddr, home: &NetNs) -> Result<()> {
    let Compared { answers, secure } =
        answers::compare(&answers::internet("small", &[])?, count, resolver, home)?;
    eprintln!(
        "{answers} of {count} answers have the records and AD bits that the tree says; {secure} have AD"
    );
    let share = |part: u32, all: u32| f64::from(part) / f64::from(all);
    ensure!(share(answers, count) >= COMPARED_LEAST, "the tree says nothing of {} answers", count - answers);
    ensure!(share(secure, answers) >= SECURE_LEAST, "{secure} of {answers} answers are validated");
    Ok(())
}

/// Compares the answers of the load with the tree, and the counts of the box with those of the tap.
fn compare_counts(
    title: &str,
    trial: &Trial,
    count: u32,
    asked: u64,
    (tapped, tap): (u64, TapCounts),
) -> Result<()> {
    let accounts = &trial.accounts;
    eprintln!(
        "{title}: {} of {count} answers are right; {asked} queries in the box, {tapped} on the link: {:.2} for each \
         question",
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
    ensure!(asked == tapped, "the box counts {asked} queries by UDP; {tapped} came over the link");
    // The resolver cannot know more than a part of the names without asking.
    ensure!(asked > 10, "the resolver asked {asked} queries only");
    Ok(())
}

/// Writes questions of clients with the answers that they must get.
fn questions(bench: &Bench, count: u32) -> Result<PathBuf> {
    let path = bench.folder.path().join("clients.queries");
    let mut command = Command::new(&bench.kqps.program);
    command.args(["gen", "internet", "--size", "small", "--ad", "-n", &count.to_string(), "-o"]).arg(&path);
    let ended = command.output().context("kqps gen internet")?;
    ensure!(ended.status.success(), "kqps gen internet: {}", String::from_utf8_lossy(&ended.stderr));
    Ok(path)
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
