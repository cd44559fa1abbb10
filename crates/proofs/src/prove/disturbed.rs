//! kqps does not blame the subject for what the host does, and does blame it for its own pauses. An echo with
//! a known rate is searched undisturbed, with a part of its core taken away, with its core withheld now and
//! then, and while it pauses itself.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_faults::thread::Background;
use kqps_kernel::process::{self, Signal};
use kqps_kernel::{affinity, priority};
use kqps_verdict::bottleneck::Resource;
use kqps_verdict::interval::median_interval;
use kqps_verdict::speed::Spoiled;

use super::search::{SearchOutcome, find};
use super::taker::Taker;
use super::{Bench, Size};
use crate::child::Running;

/// Work of the echo for each query, without the kernel's part.
const WORK: &str = "5us";

/// The default buffer, and half of it. The kernel counts twice as much. The half has room for some 138
/// queries, so a pause of 3 ms overflows it from 46,000 queries a second on.
const BUFFER: &str = "104KiB";
const HALF_A_BUFFER: &str = "52KiB";

/// The least loss of an echo that pauses itself, as a share of its figure with the same buffer and no pauses.
const DROPS_BY: f64 = 0.15;

/// The share of the trials that must be spoiled in searches whose core is withheld at least once in each trial.
const MOST: f64 = 0.7;

/// The largest deviation of a figure from the undisturbed one, as a share.
const WITHIN: f64 = 0.03;

/// The part of the core that is taken, during half of the time.
const PIECE: Duration = Duration::from_micros(300);
const EVERY: Duration = Duration::from_millis(1);
const HALF: Duration = Duration::from_secs(2);
const SMALL_HALF: Duration = Duration::from_secs(1);

/// How long an ordinary program has the core, as often as there are pauses.
const CROWD: Duration = Duration::from_millis(6);

/// The length of a pause, and from one to the next.
const STALL: Duration = Duration::from_millis(3);
const STALL_EVERY: Duration = Duration::from_millis(300);

/// The disturbance of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Nothing,
    /// Another program has a part of the echo's core for half of the time.
    Slowed,
    /// Another program has the core for a moment now and then.
    Withheld,
    /// An ordinary program has the core for a moment now and then.
    Crowded,
    /// Nothing happens, and the echo has half a buffer.
    HalfABuffer,
    /// The echo pauses itself now and then, with half a buffer.
    Itself,
}

/// Searches of each kind, in turn. Their medians are compared, since single searches deviate by more than the
/// bound.
const ROUNDS: usize = 7;

/// The time limit of a search in the small form.
const SMALL_LIMIT: &[&str] = &["--no-ceiling", "--time-limit", "6s"];
const WHOLE: &[&str] = &["--no-ceiling"];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let file = bench.queries(5_000)?;
    if bench.size == Size::Small {
        return witnessed(bench, &file);
    }
    let kinds = [
        Trouble::Nothing,
        Trouble::Slowed,
        Trouble::Withheld,
        Trouble::Crowded,
        Trouble::HalfABuffer,
        Trouble::Itself,
    ];
    let mut found = kinds.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (trouble, found) in kinds.into_iter().zip(&mut found) {
            found.push(search(bench, &file, trouble)?);
        }
    }
    let kinds = found.iter().map(|found| Kind::from_searches(found)).collect::<Result<Vec<_>>>()?;
    let [undisturbed, slowed, withheld, crowded, half, itself] = &kinds[..] else {
        unreachable!("one of each kind")
    };
    let off = |kind: &Kind, than: &Kind| kind.per_turn / than.per_turn - 1.0;
    let all = [
        (Trouble::Slowed, off(slowed, undisturbed)),
        (Trouble::Withheld, off(withheld, undisturbed)),
        (Trouble::Crowded, off(crowded, undisturbed)),
        (Trouble::HalfABuffer, off(half, undisturbed)),
        (Trouble::Itself, off(itself, half)),
    ];
    for (trouble, off) in all {
        println!("{trouble:?}: {:+.1} % off in the median of {ROUNDS}", off * 100.0);
    }
    let [(_, slowed_off), (_, withheld_off), (_, crowded_off), _, (_, itself_off)] = all;
    let mut failures = Vec::new();
    let mut check = |holds: bool, failure: &str| failures.extend((!holds).then(|| failure.to_owned()));
    check(slowed_off.abs() <= WITHIN, "a core that is shared moves the figure");
    check(withheld_off.abs() <= WITHIN, "a core that is withheld moves the figure");
    check(crowded_off.abs() <= WITHIN, "a core that another program has moves the figure");
    check(slowed.spoiled.shifted > undisturbed.spoiled.shifted, "a core that is shared spoils no trial");
    for (kind, failure) in [
        (withheld, "a core that is withheld spoils few trials"),
        (crowded, "a core that another program has spoils few trials"),
    ] {
        let is_most = f64::from(still(&kind.spoiled)) > MOST * f64::from(kind.spoiled.of);
        check(is_most && still(&kind.spoiled) > still(&undisturbed.spoiled), failure);
    }
    check(itself_off < -DROPS_BY, "an echo that stands still itself is excused");
    check(itself.stood_still * 2 > ROUNDS, "the bottleneck does not say that it stood still");
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// Checks single searches: they name what the host did.
fn witnessed(bench: &Bench, file: &Path) -> Result<()> {
    let slowed = search(bench, file, Trouble::Slowed)?.spoiled;
    ensure!(slowed.shifted > 0, "a core that is shared spoils no trial: {slowed:?}");
    let withheld = search(bench, file, Trouble::Withheld)?.spoiled;
    ensure!(still(&withheld) > 0, "a core that is withheld spoils no trial: {withheld:?}");
    Ok(())
}

/// Trials in which a core was withheld from the subject.
fn still(spoiled: &Spoiled) -> u32 {
    spoiled.in_part + spoiled.withheld
}

/// Results of the searches of one kind.
struct Kind {
    /// The median, queries for a turn of the gauge.
    per_turn: f64,
    /// Trials that the host spoiled, of all searches.
    spoiled: Spoiled,
    /// Searches that ended because the subject paused.
    stood_still: usize,
}

impl Kind {
    fn from_searches(found: &[SearchOutcome]) -> Result<Self> {
        let per_turn = found.iter().map(SearchOutcome::per_turn).collect::<Result<Vec<f64>>>()?;
        Ok(Self {
            per_turn: median_interval(&per_turn).context("there was no search")?.median,
            spoiled: found.iter().map(|one| one.spoiled).sum(),
            stood_still: found.iter().filter(|one| one.bottleneck.resource == Resource::SubjectStill).count(),
        })
    }
}

/// Searches the rate of a fresh echo under this trouble.
fn search(bench: &Bench, file: &Path, trouble: Trouble) -> Result<SearchOutcome> {
    let mut command = bench.kqps.serve("echo");
    let cpu = bench.kqps.subject_cpu.to_string();
    command.args(["--listen", "127.0.0.1:0", "--io", "blocking", "--cpus", &cpu]);
    let has_half = matches!(trouble, Trouble::HalfABuffer | Trouble::Itself);
    let buffer = if has_half { HALF_A_BUFFER } else { BUFFER };
    command.args(["--for", "10m", "--work", WORK, "--buffer", buffer]);
    let (echo, address) = Running::server(&mut command)?;
    let half = bench.choose(SMALL_HALF, HALF);
    let troubling = start(trouble, bench.kqps.subject_cpu, echo.pid(), half)?;
    let found = find(bench, file, address, bench.choose(SMALL_LIMIT, WHOLE));
    troubling.stop()?;
    let found = found?;
    eprintln!("{trouble:?}: {}, {:?}, {}", found.figure(), found.spoiled, found.bottleneck);
    Ok(found)
}

/// Starts a thread that makes trouble until it is stopped.
fn start(trouble: Trouble, cpu: u32, echo: u32, half: Duration) -> Result<Background<()>> {
    Background::start(("the thread that makes trouble", "trouble"), None, move |stop| {
        let is_over = || stop.load(Ordering::Relaxed);
        match trouble {
            Trouble::Nothing | Trouble::HalfABuffer => Ok(()),
            Trouble::Slowed => slow(cpu, half, &is_over),
            Trouble::Withheld => {
                let taker = Taker::start(cpu, STALL, STALL_EVERY)?;
                while !is_over() {
                    std::thread::sleep(STALL_EVERY);
                }
                taker.stop().map(drop)
            }
            Trouble::Crowded => crowd(cpu, &is_over),
            Trouble::Itself => stand_still(echo, &is_over),
        }
    })
}

/// Takes a part of the core, and leaves the core alone for as long, in turn.
fn slow(cpu: u32, half: Duration, is_over: &impl Fn() -> bool) -> Result<()> {
    while !is_over() {
        let taker = Taker::start(cpu, PIECE, EVERY)?;
        std::thread::sleep(half);
        taker.stop()?;
        std::thread::sleep(half);
    }
    Ok(())
}

/// Takes the core now and then as an ordinary program of the highest priority.
fn crowd(cpu: u32, is_over: &impl Fn() -> bool) -> Result<()> {
    affinity::pin_thread(cpu)?;
    priority::yield_least()?;
    while !is_over() {
        let began = Instant::now();
        while began.elapsed() < CROWD {}
        std::thread::sleep(STALL_EVERY.saturating_sub(CROWD));
    }
    Ok(())
}

/// Stops the process again and again, like the pauses of a garbage collector. Its core is free meanwhile.
fn stand_still(pid: u32, is_over: &impl Fn() -> bool) -> Result<()> {
    while !is_over() {
        process::signal(pid, Signal::Stop)?;
        std::thread::sleep(STALL);
        process::signal(pid, Signal::Continue)?;
        std::thread::sleep(STALL_EVERY.saturating_sub(STALL));
    }
    Ok(())
}
