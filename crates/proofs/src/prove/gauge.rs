//! The gauge shows the part of a core that is taken away, and the witness sees every pause of a core and
//! costs little. A thread that runs first takes the core; its own CPU time shows how much.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use kqps_host::{Witness, gauge};
use kqps_kernel::clock;
use kqps_observation::{GaugeFacts, StallFacts};
use kqps_skips::{Capability, skip};

use super::taker::Taker;
use super::{Bench, Size};

/// Duration of a reading.
const READING: Duration = Duration::from_millis(10);

/// The largest deviation of the part that the gauge shows from the part that was taken, the cost of waking
/// included. It is the median, as a share of the core's full speed.
const WITHIN: f64 = 0.02;

/// The fewest readings that make a median.
const READINGS_LEAST: usize = 50;

/// The most that the witness may cost, as a share of a core.
const COST_MOST: f64 = 0.01;

/// A pause that must be seen, and the time from one to the next.
const STALL: Duration = Duration::from_millis(3);
const STALL_EVERY: Duration = Duration::from_millis(300);

/// The disturbance of the core during a reading.
enum Trouble {
    /// A thread takes the first number of microseconds in every period of the second.
    Taken(u64, u64),
    /// The witness watches the core.
    Watched,
}

/// The gauge takes a piece longer than 0.5 ms for a stall, so a half is taken in pieces of a quarter. A woken
/// thread also costs an interrupt, two switches and the contents of caches. That cost is not in its CPU time:
/// on a virtual machine it is 7 to 15 µs each time. The first two rows measure it, with a thread that is
/// woken and takes nothing.
const TROUBLES: [(&str, Trouble); 6] = [
    ("woken each ms", Trouble::Taken(0, 1000)),
    ("woken each 0.5 ms", Trouble::Taken(0, 500)),
    ("10 % of each ms", Trouble::Taken(100, 1000)),
    ("30 % of each ms", Trouble::Taken(300, 1000)),
    ("50 % of each 0.5 ms", Trouble::Taken(250, 500)),
    ("watched", Trouble::Watched),
];

/// Pairs of indices: a trouble, and the trouble that wakes as often and takes nothing.
const COMPARED: [(usize, usize); 3] = [(2, 0), (3, 0), (4, 1)];

struct Reading {
    facts: GaugeFacts,
    /// The part of the core that was taken away, if it is known.
    taken: Option<f64>,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    if bench.size == Size::Small
        && let Err(error) = Taker::start(bench.kqps.subject_cpu, Duration::ZERO, STALL)
    {
        skip(Capability::RealTime, format_args!("cores that are taken away: {error:#}"));
        return Ok(());
    }
    // A failed part says nothing about the others.
    let outcomes = [parts(bench), stalls(bench), cost(bench)];
    let wrong: Vec<String> =
        outcomes.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

/// Takes parts of the core away, in readings between undisturbed ones, and compares.
fn parts(bench: &Bench) -> Result<()> {
    let (cpu, rounds) = (bench.kqps.subject_cpu, bench.choose(2, 200));
    let cpus = [bench.kqps.player_cpu, cpu];
    // Parts shown and taken, by trouble.
    let mut found: Vec<Vec<(f64, Option<f64>)>> = TROUBLES.iter().map(|_| Vec::new()).collect();
    let (mut stalled, mut took_s) = (0_u32, Vec::new());
    let mut read = || -> Result<GaugeFacts> {
        let began_ns = clock::now_ns();
        let facts = gauge(&cpus, READING)?;
        took_s.push((clock::now_ns() - began_ns) as f64 / 1e9 - READING.as_secs_f64() - facts.stalled_s());
        Ok(facts)
    };
    let mut before = read()?;
    for _ in 0..rounds {
        for ((_, trouble), found) in TROUBLES.iter().zip(&mut found) {
            let disturbed = disturbed(trouble, cpu, &cpus)?;
            let after = read()?;
            let of_core = |facts: &GaugeFacts| facts.turns_per_s(&[cpu]).context("the core was gauged");
            let full = f64::midpoint(of_core(&before)?, of_core(&after)?);
            // Stalls are not part of the speed, but part of the time that was taken.
            if [&before, &disturbed.facts, &after].iter().all(|facts| facts.stalled_s() <= 0.0) {
                found.push((1.0 - of_core(&disturbed.facts)? / full, disturbed.taken));
            } else {
                stalled += 1;
            }
            before = after;
        }
    }
    eprintln!(
        "readings of {} ms take {:.2} ms more in the median; {stalled} of {} are left out, since a core stood still",
        READING.as_millis(),
        median(&mut took_s).unwrap_or(f64::NAN) * 1e3,
        rounds * TROUBLES.len()
    );
    judge_parts(bench.size, &found)
}

/// Takes a reading while a part of a core is taken away.
fn disturbed(trouble: &Trouble, cpu: u32, cpus: &[u32]) -> Result<Reading> {
    match trouble {
        Trouble::Taken(piece_us, every_us) => {
            let taker =
                Taker::start(cpu, Duration::from_micros(*piece_us), Duration::from_micros(*every_us))?;
            let (began_ns, cpu_ns) = (clock::now_ns(), taker.taken_ns()?);
            let facts = gauge(cpus, READING)?;
            let (took_ns, taken_ns) = (clock::now_ns() - began_ns, taker.taken_ns()? - cpu_ns);
            taker.stop()?;
            Ok(Reading { facts, taken: Some(taken_ns as f64 / took_ns as f64) })
        }
        Trouble::Watched => {
            let witness = Witness::begin(&[cpu], &[])?;
            let facts = gauge(cpus, READING)?;
            witness.end();
            Ok(Reading { facts, taken: None })
        }
    }
}

/// Medians of the readings under one trouble, as parts of a core.
struct Medians {
    readings: usize,
    taken: Option<f64>,
    shown: Option<f64>,
    /// By how much the part shown is larger than the part taken.
    more: Option<f64>,
}

impl Medians {
    fn from_readings(readings: &[(f64, Option<f64>)]) -> Self {
        let mut shown: Vec<f64> = readings.iter().map(|(shown, _)| *shown).collect();
        let mut taken: Vec<f64> = readings.iter().filter_map(|(_, taken)| *taken).collect();
        let mut more: Vec<f64> =
            readings.iter().filter_map(|(shown, taken)| Some(shown - (*taken)?)).collect();
        Self {
            readings: readings.len(),
            taken: median(&mut taken),
            shown: median(&mut shown),
            more: median(&mut more),
        }
    }
}

/// Prints the results, and checks them against the bound if the form is long enough.
fn judge_parts(size: Size, found: &[Vec<(f64, Option<f64>)>]) -> Result<()> {
    let found: Vec<Medians> = found.iter().map(|readings| Medians::from_readings(readings)).collect();
    // The cost of waking is taken from the core as well.
    let off = |place: usize| {
        let (_, woken) = COMPARED.into_iter().find(|(taken, _)| *taken == place)?;
        Some(found[place].more? - found[woken].more?)
    };
    let percent = |share: Option<f64>| share.map_or("–".into(), |share| format!("{:.2} %", share * 100.0));
    let mut table = Table::new();
    let header = ["core", "readings", "taken", "shown", "more", "more than if woken alone"];
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for (place, ((name, _), found)) in TROUBLES.iter().zip(&found).enumerate() {
        let shares = [found.taken, found.shown, found.more, off(place)].map(percent);
        table.add_row([vec![(*name).to_owned(), found.readings.to_string()], shares.to_vec()].concat());
    }
    eprintln!("{table}");
    // A busy machine disturbs readings at random, and only many readings even that out.
    if size == Size::Small {
        return Ok(());
    }
    let fewest = found.iter().map(|found| found.readings).min().unwrap_or(0);
    ensure!(
        fewest >= READINGS_LEAST,
        "only {fewest} readings are left, and {READINGS_LEAST} are needed: others were busy on these cores"
    );
    for (place, _) in COMPARED {
        let off = off(place).context("there are readings")?;
        ensure!(off.abs() <= WITHIN, "{}: the gauge is off by {:.2} %", TROUBLES[place].0, off * 100.0);
    }
    Ok(())
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Watches all used cores while nothing happens on purpose.
fn cost(bench: &Bench) -> Result<()> {
    let witness = Witness::begin(&[bench.kqps.player_cpu, bench.kqps.subject_cpu], &[])?;
    sleep(bench.choose(Duration::from_millis(200), Duration::from_secs(20)));
    let facts = witness.end();
    let cost = cost_of(&facts);
    eprintln!(
        "the witness takes {:.2} % of a core, {:.1} µs a wake; {} of {} times it came late",
        cost * 100.0,
        facts.cost_s * 1e6 / facts.wakes as f64,
        facts.seen,
        facts.wakes
    );
    ensure!(
        bench.size == Size::Small || cost < COST_MOST,
        "the witness takes {} % of a core or more",
        COST_MOST * 100.0
    );
    Ok(())
}

/// CPU time as a share of a core.
fn cost_of(facts: &StallFacts) -> f64 {
    let watched_s = (facts.ended_ns - facts.began_ns) as f64 / 1e9 * facts.cores.len() as f64;
    facts.cost_s / watched_s
}

/// Pauses a core again and again, and looks for each pause in the witness's facts.
fn stalls(bench: &Bench) -> Result<()> {
    let cpu = bench.kqps.subject_cpu;
    let witness = Witness::begin(&[cpu], &[])?;
    let taker = Taker::start(cpu, STALL, STALL_EVERY)?;
    sleep(bench.choose(Duration::from_secs(1), Duration::from_mins(1)));
    let held = taker.stop()?;
    let facts = witness.end();
    let period_ns = facts.period_us * 1000;
    let mut mean_us = 0.0;
    for span in &held {
        // The witness should have woken within a period, and could not before the end of the pause. Its
        // microseconds are cut off, not rounded.
        let seen = facts
            .stalls
            .iter()
            .find(|stall| stall.at_ns <= span.start + period_ns && stall.end_ns() + 1000 > span.end);
        let seen =
            seen.with_context(|| format!("the core was held in {span:?} ns, and the witness saw nothing"))?;
        mean_us += seen.late_us as f64 / held.len() as f64;
    }
    eprintln!(
        "all of {} standstills of {} ms are seen, as {mean_us:.0} µs in the mean; {} others too; the witness takes {:.2} %",
        held.len(),
        STALL.as_millis(),
        facts.seen.saturating_sub(held.len() as u64),
        cost_of(&facts) * 100.0
    );
    ensure!(!held.is_empty(), "the core never stood still");
    Ok(())
}
