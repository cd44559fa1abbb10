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
use kqps_observation::Trial;
use kqps_verdict::bottleneck::{Bottleneck, Resource};
use kqps_verdict::judge::SearchVerdict;
use kqps_verdict::speed::{Spoiled, usual_of};

use super::Bench;
use super::taker::Taker;
use crate::child::{Running, pinned};

/// What a query costs the echo, beside what the kernel takes.
const WORK: &str = "5us";

/// The usual buffer, and half of it: that has room for some 138 queries, which a standstill of 3 ms overflows from 46,000 queries a
/// second on.
const BUFFER: &str = "208KiB";
const HALF_A_BUFFER: &str = "104KiB";

/// What an echo that stands still itself loses at least of its figure: far more than half a buffer costs.
const DROPS_BY: f64 = 0.15;

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

/// Searches of each kind, in turn, of which the medians are compared: single ones are off by more than the bound.
const ROUNDS: usize = 7;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let file = bench.queries(5_000)?;
    let kinds = [Trouble::Nothing, Trouble::Itself, Trouble::Slowed, Trouble::Withheld];
    let mut found = kinds.map(|_| Vec::new());
    for _ in 0..bench.choose(1, ROUNDS) {
        for (trouble, found) in kinds.into_iter().zip(&mut found) {
            let one = search(bench, &file, trouble)?;
            eprintln!(
                "{trouble:?}: {:.4} queries a turn, {:?}, {}",
                one.per_turn, one.spoiled, one.bottleneck
            );
            found.push(one);
        }
    }
    let [undisturbed, itself, slowed, withheld] = found.map(|found| Kind::of(&found));
    let off = |kind: &Kind| kind.per_turn / undisturbed.per_turn - 1.0;
    for (trouble, kind) in
        [(Trouble::Itself, &itself), (Trouble::Slowed, &slowed), (Trouble::Withheld, &withheld)]
    {
        eprintln!(
            "{trouble:?}: {:+.1} % off in the median, {} trials spoiled",
            off(kind) * 100.0,
            kind.spoiled
        );
    }
    ensure!(off(&itself) < -DROPS_BY, "an echo that stands still itself is excused");
    ensure!(itself.stood_still * 2 > itself.searches, "the bottleneck does not say that it stood still");
    for (trouble, kind) in [(Trouble::Slowed, &slowed), (Trouble::Withheld, &withheld)] {
        ensure!(off(kind).abs() <= WITHIN, "{trouble:?}: {:+.1} % off", off(kind) * 100.0);
        ensure!(kind.spoiled > 0, "{trouble:?}: no trial is said to be spoiled");
    }
    Ok(())
}

/// What searches of one kind came to.
struct Kind {
    searches: usize,
    /// The median, queries for a turn of the gauge.
    per_turn: f64,
    /// Trials that the host spoiled.
    spoiled: u32,
    /// Searches that the subject's standing still ended.
    stood_still: usize,
}

impl Kind {
    fn of(found: &[Found]) -> Self {
        let mut per_turn: Vec<f64> = found.iter().map(|one| one.per_turn).collect();
        per_turn.sort_by(f64::total_cmp);
        Self {
            searches: found.len(),
            per_turn: per_turn[per_turn.len() / 2],
            spoiled: found.iter().map(|one| one.spoiled.whole() + one.spoiled.in_part).sum(),
            stood_still: found.iter().filter(|one| one.bottleneck.resource == Resource::SubjectStill).count(),
        }
    }
}

/// What one search found.
struct Found {
    /// Its figure in the gauge's units, which do not know how fast the host was: queries for a turn.
    per_turn: f64,
    spoiled: Spoiled,
    bottleneck: Bottleneck,
}

impl Found {
    /// From what `kqps find --json` prints: the trials, and the verdict as the last.
    fn of(output: &str) -> Result<Self> {
        let (trials, verdict) = output.trim().rsplit_once('\n').context("kqps find printed no trial")?;
        let trials: Vec<Trial> = trials
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .context("kqps find printed what is no trial")?;
        let verdict: SearchVerdict =
            serde_json::from_str(verdict).context("kqps find printed what is not a verdict")?;
        let speed = trials.iter().find_map(|trial| trial.speed.as_ref()).context("nothing was gauged")?;
        let figure =
            verdict.figure_qps.with_context(|| format!("no figure: {}", verdict.reasons.join(" ")))?;
        Ok(Self {
            per_turn: figure.median / usual_of(&trials) / speed.reference_turns_per_s,
            spoiled: verdict.host_spoiled,
            bottleneck: verdict.bottleneck,
        })
    }
}

/// One search of a fresh echo while that happens.
fn search(bench: &Bench, file: &Path, trouble: Trouble) -> Result<Found> {
    let cpu = bench.kqps.subject_cpu.to_string();
    let mut command = pinned(&cpu, &bench.kqps.program);
    command.args(["serve", "echo", "--json", "--listen", "127.0.0.1:0", "--io", "blocking", "--cpus", &cpu]);
    let buffer = if trouble == Trouble::Itself { HALF_A_BUFFER } else { BUFFER };
    command.args(["--for", "10m", "--work", WORK, "--buffer", buffer]);
    let mut echo = Running::start(&mut command)?;
    let address = echo.ready()?;
    let troubling = Troubling::start(trouble, bench.kqps.subject_cpu, echo.pid())?;
    let found = find(bench, file, address);
    troubling.stop()?;
    found
}

fn find(bench: &Bench, file: &Path, address: SocketAddr) -> Result<Found> {
    let (player, subject) = (bench.kqps.player_cpu.to_string(), bench.kqps.subject_cpu.to_string());
    let mut command = pinned(&format!("{player},{subject}"), &bench.kqps.program);
    command.args(["find", &address.to_string(), "--goal", "quick", "--no-ceiling", "--json", "-d"]).arg(file);
    command.args(["--cpus", &player, "--subject-cpus", &subject]);
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    Found::of(&ended.output)
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
