//! Searches at a fresh NSD, one after the other.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::interrupts::Interrupts;
use kqps_lab::path::LaidPath;
use kqps_lab::subject::{LaunchSetting, StartError, Subject, Zone, builtin};
use kqps_skips::{Capability, skip};

use super::super::search::{Found, find};
use super::super::{Bench, Size};
use super::apart;

const SERVER: &str = "nsd";
const ORIGIN: &str = "bench.test.";
const RECORDS: u64 = 1_000;

/// The number of searches, and the time limit of a search in the small form.
const SEARCHES: usize = 10;
const SMALL_LIMIT: &[&str] = &["--time-limit", "6s"];

/// The greatest figure may be at most this many times the least one, in units of the gauge.
const APART: f64 = 1.10;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (zone, queries) = bench.zone(RECORDS)?;
    let (searches, flags) = bench.choose((1, SMALL_LIMIT), (SEARCHES, &[]));
    let mut per_turn = Vec::new();
    for number in 0..searches {
        let subject = match start(bench, &[Zone::new(ORIGIN, &zone)], number) {
            Err(missing @ StartError::Missing { .. }) if bench.size == Size::Small => {
                skip(Capability::Programs, format_args!("{SERVER}: {missing}"));
                return Ok(());
            }
            started => started.with_context(|| format!("{SERVER} does not start"))?,
        };
        let found: Found = find(bench, &queries, subject.address(), flags)?;
        let figure = found.per_turn()?;
        eprintln!("find {}: {}, grade {:?}", number + 1, found.figure(), found.grade);
        per_turn.push(figure);
    }
    let apart = apart(&per_turn);
    println!("{searches} searches at {SERVER}: the greatest figure is {apart:.3} times the least");
    ensure!(apart <= APART, "{searches} figures are {apart:.3} apart, not {APART}");
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
