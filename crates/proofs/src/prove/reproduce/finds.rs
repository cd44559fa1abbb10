//! Searches at a fresh NSD, one after the other.

use anyhow::{Context as _, Result, ensure};
use kqps_skips::{Capability, skip};
use kqps_testbed::subject::{StartError, Subject, Zone, builtin};
use kqps_verdict::interval::{Interval, median_interval};

use super::super::patience::{ATTEMPTS, until_proved};
use super::super::search::{SearchOutcome, find};
use super::super::{Bench, Size, work};
use super::apart;

const SERVER: &str = "nsd";
const ORIGIN: &str = "bench.test.";
const RECORDS: u64 = 1_000;

/// The number of searches, and the time limit of a search in the small form.
const SEARCHES: usize = 10;
const SMALL_LIMIT: &[&str] = &["--time-limit", "6s"];

/// The greatest share may be at most this many times the least one, unless the ranges say so: they hold the truth, which is
/// the median share without other work.
const APART: f64 = 1.10;

/// The least share of ranges that must hold the truth. They claim 95 %; of ten, eight or fewer hold it in 9 of 100 proofs.
const HELD_LEAST: f64 = 0.85;

/// Fewer figures show no agreement.
const FIGURES_LEAST: usize = 2;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    ensure!(
        bench.beside.first() == Some(&0),
        "--beside: the truth is that of searches without other work, 0 first"
    );
    let (mut truth, mut failures) = (None, Vec::new());
    for &beside in &bench.beside {
        let shares = search(&bench.anew()?, beside)?;
        let medians: Vec<f64> = shares.iter().map(|share| share.median).collect();
        let truth = *truth.get_or_insert_with(|| median_interval(&medians).map_or(f64::NAN, |of| of.median));
        let held = shares.iter().filter(|share| (share.low..=share.high).contains(&truth)).count();
        let apart = (medians.len() >= FIGURES_LEAST).then(|| apart(&medians));
        println!(
            "searches at {SERVER} beside {beside} %: {} shares, {held} of their ranges hold the share without other work, and \
             the greatest is {} times the least",
            shares.len(),
            apart.map_or("-".to_owned(), |apart| format!("{apart:.3}"))
        );
        let is_held = held as f64 >= HELD_LEAST * shares.len() as f64;
        if apart.is_some_and(|apart| apart > APART) && !is_held {
            failures.push(format!("{held} of {} ranges beside {beside} % hold the truth", shares.len()));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// The shares that the searches beside this much other work found.
fn search(bench: &Bench, beside: u32) -> Result<Vec<Interval>> {
    let (zone, queries) = bench.zone(RECORDS)?;
    let (searches, flags) = bench.choose((1, SMALL_LIMIT), (SEARCHES, &[]));
    let mut shares: Vec<Interval> = Vec::new();
    for number in 0..searches {
        let subject = match start(bench, &[Zone::new(ORIGIN, &zone)], number) {
            Err(missing @ StartError::Missing { .. }) if bench.size == Size::Small => {
                skip(Capability::Programs, format_args!("{SERVER}: {missing}"));
                return Ok(shares);
            }
            started => started.with_context(|| format!("{SERVER} does not start"))?,
        };
        let work = work::start(f64::from(beside) / 100.0, number as u64 + 1)?;
        let attempts = if beside == 0 { ATTEMPTS } else { 1 };
        let mut attempt = 0;
        let found = until_proved(attempts, |_| {
            attempt += 1;
            let found = find(bench, &queries, subject.address(), flags)?;
            let line = format!("beside {beside} %, find {}: {}", number + 1, in_words(&found));
            eprintln!("{line}");
            // A host that keeps changing the speed of its cores, or sets its clock, was not quiet.
            let is_disturbed = found.spoiled.is_too_unsteady() || found.clock_was_set;
            Ok(match beside == 0 && found.share.is_none() && is_disturbed {
                // The small form, which runs on any host, gives up if every search was disturbed.
                true if bench.size == Size::Small && attempt == attempts => Ok(None),
                true => Err(line),
                false => Ok(Some(found)),
            })
        })?;
        drop(work);
        let Some(found) = found else {
            skip(
                Capability::Chance,
                "the host disturbed each search, by its clock or by the speed of its cores",
            );
            return Ok(shares);
        };
        shares.extend(found.share);
    }
    ensure!(beside > 0 || shares.len() == searches, "a search on a quiet host has no figure");
    Ok(shares)
}

/// The share, the figure and the grade of a search.
fn in_words(found: &SearchOutcome) -> String {
    let share = found.share.map_or("no share".to_owned(), |share| {
        let [median, low, high] = [share.median, share.low, share.high].map(|share| share * 100.0);
        format!("{median:.1} % of the echo ({low:.1} to {high:.1} %)")
    });
    format!("{share}, {}, grade {:?}", found.figure(), found.grade)
}

fn start(bench: &Bench, zones: &[Zone], number: usize) -> Result<Subject, StartError> {
    let definition =
        builtin::servers().into_iter().find(|one| one.name == SERVER).expect("NSD is one of the servers");
    bench.subject(&definition, &format!("{SERVER}-{number}"), zones, "", &[bench.kqps.subject_cpu])
}
