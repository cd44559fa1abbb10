//! `kqps check` at servers of known capacity, beside other work: it finds the right word nearly always, and never says a
//! wrong one.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::super::{Bench, QUERIES, work};
use crate::child::{Running, pinned};

/// The share of the cores that other work takes.
const BESIDE: f64 = 0.15;

/// The time of each answer, microseconds: a second of a core over this is the capacity.
const WORKS_US: [u32; 4] = [50, 100, 200, 400];

/// The needed rates, as shares of the capacity, with their word. The other work takes a part of the capacity.
const NEEDS: [(f64, &str); 2] = [(0.3, "fine"), (2.0, "limited")];

/// Checks that may end without an answer.
const UNTOLD_MOST: usize = 1;

const END_WITHIN: Duration = Duration::from_mins(10);

#[derive(Deserialize)]
struct Answer {
    word: String,
    sentence: String,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let queries = bench.queries(QUERIES)?;
    let _work = work::start(BESIDE, bench.seed)?;
    let mut untold = 0;
    let all = bench.choose(2, 20);
    for number in 0..all {
        let (work_us, (share, right)) = (WORKS_US[number / 2 % WORKS_US.len()], NEEDS[number % NEEDS.len()]);
        let capacity_qps = 1e6 / f64::from(work_us);
        let mut echo = bench.kqps.serve("echo");
        echo.args(["--listen", "127.0.0.1:0", "--for", "1h", "--work", &format!("{work_us}us")]);
        let (_echo, address) = Running::server(&mut echo)?;
        let mut check = pinned(&every_core()?, &bench.kqps.program);
        check.args(["check", &address.to_string(), "--json", "-d"]).arg(&queries);
        check.args(["--need", &format!("{:.0}", capacity_qps * share)]);
        let ended = Running::start(&mut check)?.wait(END_WITHIN)?;
        let answer: Answer = serde_json::from_str(&ended.output).with_context(|| ended.output.clone())?;
        eprintln!("{capacity_qps:.0} q/s, {share} of it needed: {}", answer.sentence);
        let is_untold = answer.word == "cannot-tell";
        untold += usize::from(is_untold);
        ensure!(is_untold || answer.word == right, "{} is wrong: {right} is right", answer.word);
    }
    eprintln!("{} of {all} words are right, and none is wrong", all - untold);
    ensure!(untold <= bench.choose(all, UNTOLD_MOST), "{untold} of {all} checks cannot tell");
    Ok(())
}

/// All cores that this process may use, as a list.
fn every_core() -> Result<String> {
    Ok(kqps_observation::cpu_list::write(&kqps_kernel::affinity::allowed()?))
}
