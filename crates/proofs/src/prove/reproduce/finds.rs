//! Searches at a fresh NSD, one after the other.

use anyhow::{Context as _, Result, ensure};
use kqps_lab::subject::{StartError, Subject, Zone, builtin};
use kqps_skips::{Capability, skip};
use kqps_verdict::interval::{Interval, median_interval};

use super::super::search::{SearchOutcome, find};
use super::super::{Bench, Size, work};
use super::apart;

const SERVER: &str = "nsd";
pub(super) const ORIGIN: &str = "bench.test.";
pub(super) const RECORDS: u64 = 1_000;

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
        let found: SearchOutcome = find(bench, &queries, subject.address(), flags)?;
        drop(work);
        eprintln!(
            "beside {beside} %, find {}: {}, {}, grade {:?}",
            number + 1,
            found.share.map_or("no share".to_owned(), |share| format!(
                "{:.1} % of the echo ({:.1} to {:.1} %)",
                share.median * 100.0,
                share.low * 100.0,
                share.high * 100.0
            )),
            found.figure(),
            found.grade
        );
        shares.extend(found.share);
    }
    ensure!(beside > 0 || shares.len() == searches, "a search on a quiet host has no figure");
    Ok(shares)
}

pub(super) fn start(bench: &Bench, zones: &[Zone], number: usize) -> Result<Subject, StartError> {
    let definition =
        builtin::servers().into_iter().find(|one| one.name == SERVER).expect("NSD is one of the servers");
    bench.subject(&definition, &format!("{SERVER}-{number}"), zones, "", &[bench.kqps.subject_cpu])
}
