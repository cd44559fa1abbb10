//! Searches at a fresh NSD, one after the other.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::interrupts::Interrupts;
use kqps_lab::path::LaidPath;
use kqps_lab::subject::{LaunchSetting, StartError, Subject, Zone, builtin};
use kqps_skips::{Capability, skip};
use kqps_verdict::interval::{Interval, median_interval};

use super::super::search::{Found, find};
use super::super::work::Work;
use super::super::{Bench, Size};
use super::apart;

const SERVER: &str = "nsd";
const ORIGIN: &str = "bench.test.";
const RECORDS: u64 = 1_000;

/// The number of searches, and the time limit of a search in the small form.
const SEARCHES: usize = 10;
const SMALL_LIMIT: &[&str] = &["--time-limit", "6s"];

/// The greatest figure may be at most this many times the least one, in units of the gauge, unless the ranges of all hold
/// the median.
const APART: f64 = 1.10;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    for &beside in &bench.beside {
        search(&bench.anew()?, beside)?;
    }
    Ok(())
}

fn search(bench: &Bench, beside: u32) -> Result<()> {
    let (zone, queries) = bench.zone(RECORDS)?;
    let (searches, flags) = bench.choose((1, SMALL_LIMIT), (SEARCHES, &[]));
    let mut ranges: Vec<Interval> = Vec::new();
    for number in 0..searches {
        let subject = match start(bench, &[Zone::new(ORIGIN, &zone)], number) {
            Err(missing @ StartError::Missing { .. }) if bench.size == Size::Small => {
                skip(Capability::Programs, format_args!("{SERVER}: {missing}"));
                return Ok(());
            }
            started => started.with_context(|| format!("{SERVER} does not start"))?,
        };
        let work = Work::start(f64::from(beside) / 100.0, number as u64 + 1)?;
        let found: Found = find(bench, &queries, subject.address(), flags)?;
        drop(work);
        eprintln!("beside {beside} %, find {}: {}, grade {:?}", number + 1, found.figure(), found.grade);
        ranges.extend(found.range());
    }
    ensure!(beside > 0 || ranges.len() == searches, "a search on a quiet host has no figure");
    let figures: Vec<f64> = ranges.iter().map(|range| range.median).collect();
    let middle = median_interval(&figures).map_or(f64::NAN, |of| of.median);
    let held = ranges.iter().filter(|range| (range.low..=range.high).contains(&middle)).count();
    let apart = apart(&figures);
    println!(
        "{searches} searches at {SERVER} beside {beside} %: {} figures, the greatest is {apart:.3} times the least, and {held} \
         ranges hold the median",
        ranges.len()
    );
    ensure!(
        apart <= APART || held == ranges.len(),
        "figures are {apart:.3} apart, and {} ranges do not hold the median",
        ranges.len() - held
    );
    Ok(())
}

fn start(bench: &Bench, zones: &[Zone], number: usize) -> Result<Subject, StartError> {
    let definition =
        builtin::servers().into_iter().find(|one| one.name == SERVER).expect("NSD is one of the servers");
    let setting = LaunchSetting {
        path: &LaidPath::Loopback,
        folder: &bench.folder.path().join(format!("{SERVER}-{number}")),
        zones,
        kqps: &bench.kqps.program,
        io: "",
        workers: 1,
        cpus: &[bench.kqps.subject_cpu],
        settings: &BTreeMap::new(),
    };
    Subject::start(&definition, &setting, &Interrupts::default())
}
