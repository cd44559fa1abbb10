//! Searches with a greatest rate at an NSD that answers a hundred times more: no load is greater, and the server answers at
//! least that rate.

use anyhow::{Context as _, Result, ensure};
use kqps_testbed::subject::{StartError, Zone};
use kqps_skips::{Capability, skip};

use super::super::search::find;
use super::super::{Bench, Size, work};
use super::finds::{ORIGIN, RECORDS, start};

/// The greatest rate, queries a second.
const MOST_QPS: f64 = 1_000.0;
const MOST: &str = "1k";

/// The queries of a trial are whole, so that its rate may be off by one.
const ROUNDING: f64 = 1.01;

const SEARCHES: usize = 3;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    for &beside in &bench.beside {
        search(&bench.anew()?, beside)?;
    }
    Ok(())
}

fn search(bench: &Bench, beside: u32) -> Result<()> {
    let (zone, queries) = bench.zone(RECORDS)?;
    for number in 0..bench.choose(1, SEARCHES) {
        let subject = match start(bench, &[Zone::new(ORIGIN, &zone)], number) {
            Err(missing @ StartError::Missing { .. }) if bench.size == Size::Small => {
                skip(Capability::Programs, missing);
                return Ok(());
            }
            started => started.context("the server does not start")?,
        };
        let work = work::start(f64::from(beside) / 100.0, number as u64 + 1)?;
        let found = find(bench, &queries, subject.address(), &["--max", MOST, "--no-ceiling"])?;
        drop(work);
        println!(
            "beside {beside} %, find --max {MOST}: at least {:?} q/s, {} q/s were played at most, grade {}",
            found.at_least_qps, found.most_qps, found.grade
        );
        ensure!(found.most_qps <= MOST_QPS * ROUNDING, "{} q/s were played", found.most_qps);
        ensure!(found.range().is_none(), "a rate stands where only its lower limit is known");
        let is_most = |least_qps: f64| (least_qps / MOST_QPS - 1.0).abs() < 1e-9;
        ensure!(
            found.at_least_qps.is_some_and(is_most),
            "the server answers at least {:?}",
            found.at_least_qps
        );
    }
    Ok(())
}
