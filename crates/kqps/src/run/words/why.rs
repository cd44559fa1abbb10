//! Why the servers of a run have their grades: the results of every start, all reasons and warnings, and the
//! checks that the run did not make.

use std::fmt::Write as _;

use kqps_observation::Run;
use kqps_verdict::caveats;
use kqps_verdict::judge::{CellVerdict, RunVerdict, Wording};
use kqps_verdict::rate::rate;

use super::{subject, wrapped};

/// The whole text that `--why` adds.
pub(crate) fn text(run: &Run, verdict: &RunVerdict) -> String {
    let mut text = String::new();
    let common = common_reasons(verdict);
    for one in &verdict.subjects {
        let cell = &run.cells[one.cell as usize];
        let _ = writeln!(text, "Why {}", subject::title(cell, one));
        for (label, value) in subject::further(run, one) {
            text += &wrapped(&format!("  {label:<12} "), &value);
        }
        for (label, value) in starts(one, cell.rate_unit()) {
            text += &wrapped(&format!("  {label:<12} "), &value);
        }
        for reason in one.reasons.iter().filter(|reason| !common.contains(&reason.as_str())) {
            text += &wrapped("  - ", reason);
        }
        text.push('\n');
    }
    let common = common.into_iter().map(str::to_owned);
    let common: Vec<String> = common.chain(caveats::of_run(run, verdict)).collect();
    if !common.is_empty() {
        text += if verdict.subjects.len() > 1 { "Why, for all of them:\n" } else { "And beside that:\n" };
        text.extend(common.iter().map(|reason| wrapped("- ", reason)));
        text.push('\n');
    }
    text
}

/// Reasons that all of several subjects have, to be printed once.
fn common_reasons(verdict: &RunVerdict) -> Vec<&str> {
    let [first, others @ ..] = verdict.subjects.as_slice() else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let by_all = |reason: &&String| others.iter().all(|other| other.reasons.contains(reason));
    first.reasons.iter().filter(by_all).map(String::as_str).collect()
}

/// The result of each start, with its label. The results of a refused figure are observations, and no claim.
fn starts(subject: &CellVerdict, unit: &str) -> Vec<(String, String)> {
    let with_unit = |rate_qps: f64| format!("{} {unit}", rate(rate_qps));
    let wording = Wording { rate: &with_unit, is_claimed: !subject.grade.refuses() };
    let seen = if wording.is_claimed { "" } else { ", seen" };
    // If all starts failed, the reasons below say why.
    let is_shown = subject.starts.iter().any(|start| start.failure.is_none());
    let starts = subject.starts.iter().filter(|_| is_shown);
    starts.map(|start| (format!("start {}{seen}", start.block + 1), start.in_words(wording))).collect()
}
