//! What the host does is not blamed on the subject, and what the subject does is: an echo whose rate is known is searched
//! undisturbed, with a part of its core taken away, with its core withheld now and then, and while it stands still itself.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use kqps_kernel::process::{self, Signal};
use kqps_verdict::bottleneck::Resource;
use kqps_verdict::judge::SearchVerdict;

use super::Bench;
use super::taker::Taker;
use crate::child::{Running, pinned};

/// What a query costs the echo, beside what the kernel takes.
const WORK: &str = "5us";

/// The usual buffer, which does not outlast a standstill of 3 ms at the rate of such an echo.
const BUFFER: &str = "208KiB";

/// How far a figure may be from the undisturbed one.
const WITHIN: f64 = 0.03;

/// A part of the core that is taken, half of the time.
const PIECE: Duration = Duration::from_micros(300);
const EVERY: Duration = Duration::from_millis(1);
const HALF: Duration = Duration::from_secs(2);

/// A standstill, and from one to the next.
const STALL: Duration = Duration::from_millis(3);
const STALL_EVERY: Duration = Duration::from_millis(300);

/// A search is over by then.
const END_WITHIN: Duration = Duration::from_mins(1);

/// What happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Nothing,
    Slowed,
    Withheld,
    Itself,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let file = bench.queries(5_000)?;
    let rate_qps = figure(&search(bench, &file, Trouble::Nothing)?)?;
    let still = search(bench, &file, Trouble::Itself)?;
    let still_qps = figure(&still)?;
    eprintln!(
        "undisturbed {rate_qps:.0} q/s; standing still itself {still_qps:.0} q/s, {}",
        still.bottleneck
    );
    ensure!(still_qps < rate_qps * (1.0 - WITHIN), "an echo that stands still itself is excused");
    let resource = still.bottleneck.resource;
    ensure!(resource == Resource::SubjectStill, "it is said to be limited by {}", still.bottleneck);
    for trouble in [Trouble::Slowed, Trouble::Withheld] {
        let verdict = search(bench, &file, trouble)?;
        let off = figure(&verdict)? / rate_qps - 1.0;
        eprintln!("{trouble:?}: {:+.1} % off, {:?}", off * 100.0, verdict.host_spoiled);
        ensure!(off.abs() <= WITHIN, "{trouble:?}: {:+.1} % off", off * 100.0);
        ensure!(verdict.host_spoiled.all() > 0, "{trouble:?}: no trial is said to be spoiled");
    }
    Ok(())
}

fn figure(verdict: &SearchVerdict) -> Result<f64> {
    let figure = verdict.figure_qps.with_context(|| format!("no figure: {}", verdict.reasons.join(" ")))?;
    Ok(figure.median)
}

/// One search of a fresh echo while that happens.
fn search(bench: &Bench, file: &Path, trouble: Trouble) -> Result<SearchVerdict> {
    let cpu = bench.kqps.subject_cpu.to_string();
    let mut command = pinned(&cpu, &bench.kqps.program);
    command.args(["serve", "echo", "--json", "--listen", "127.0.0.1:0", "--io", "blocking", "--cpus", &cpu]);
    command.args(["--for", "10m", "--work", WORK, "--buffer", BUFFER]);
    let mut echo = Running::start(&mut command)?;
    let address = echo.ready()?;
    let troubling = Troubling::start(trouble, bench.kqps.subject_cpu, echo.pid())?;
    let found = find(bench, file, address);
    troubling.stop()?;
    found
}

fn find(bench: &Bench, file: &Path, address: SocketAddr) -> Result<SearchVerdict> {
    let (player, subject) = (bench.kqps.player_cpu.to_string(), bench.kqps.subject_cpu.to_string());
    let mut command = pinned(&format!("{player},{subject}"), &bench.kqps.program);
    command.args(["find", &address.to_string(), "--goal", "quick", "--no-ceiling", "--json", "-d"]).arg(file);
    command.args(["--cpus", &player, "--subject-cpus", &subject]);
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    let last = ended.output.trim().lines().last().context("kqps find printed nothing")?;
    serde_json::from_str(last).context("kqps find printed what is not a verdict")
}

/// A thread that makes trouble until it is stopped.
struct Troubling {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Troubling {
    fn start(trouble: Trouble, cpu: u32, echo: u32) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let make = move || {
            let is_over = || told.load(Ordering::Relaxed);
            match trouble {
                Trouble::Nothing => Ok(()),
                Trouble::Slowed => slow(cpu, &is_over),
                Trouble::Withheld => {
                    let taker = Taker::start(cpu, STALL, STALL_EVERY)?;
                    while !is_over() {
                        std::thread::sleep(STALL_EVERY);
                    }
                    taker.stop().map(drop)
                }
                Trouble::Itself => stand_still(echo, &is_over),
            }
        };
        let thread = std::thread::Builder::new().name("trouble".into()).spawn(make)?;
        Ok(Self { stop, thread })
    }

    fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread that makes trouble panicked"))?
    }
}

/// Takes a part of the core, and leaves it alone for as long, in turn.
fn slow(cpu: u32, is_over: &impl Fn() -> bool) -> Result<()> {
    while !is_over() {
        let taker = Taker::start(cpu, PIECE, EVERY)?;
        std::thread::sleep(HALF);
        taker.stop()?;
        std::thread::sleep(HALF);
    }
    Ok(())
}

/// Stops the process again and again, as a collector of garbage would: its core is free meanwhile.
fn stand_still(pid: u32, is_over: &impl Fn() -> bool) -> Result<()> {
    while !is_over() {
        process::signal(pid, Signal::Stop)?;
        std::thread::sleep(STALL);
        process::signal(pid, Signal::Continue)?;
        std::thread::sleep(STALL_EVERY.saturating_sub(STALL));
    }
    Ok(())
}
