//! The points of the page's charts: starts, ratios of blocks, ceilings, speeds, latency by load, time in the server's
//! host and threads.

use kqps_observation::{Quantiles, Run};
use kqps_verdict::compare::{self, Case, Pairing};
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::speed;

use super::cells::absence;
use super::sheet::{
    Field, Sheet, Value, block, cell, count, counted, ends, name, named, number, p99_at_most, text, trials,
    words,
};

/// A row for every start of every subject.
pub(super) fn starts(verdict: &RunVerdict) -> Sheet {
    const RATE: &str = "the start's rate, correct answers a second; nothing if the figure is refused";
    let mut sheet = Sheet::new("starts", "one start of a subject");
    for subject in &verdict.subjects {
        let is_claimed = subject.figure_qps.is_some();
        for start in &subject.starts {
            let bounds = start.bounds.as_ref();
            let rate = bounds.filter(|_| is_claimed).and_then(|bounds| bounds.throughput_qps);
            let failure = words(start.failure.as_deref().unwrap_or_default());
            sheet.push([
                cell(subject.cell),
                name(&subject.name),
                block(start.block),
                ("start", "number of the start in the run", count(start.start)),
                ("is_claimed", "whether the cell's figure is not refused", Value::Flag(is_claimed)),
                ("rate_qps", RATE, number(rate)),
                ("lower_bound_qps", "the load that held", number(bounds.and_then(|bounds| bounds.lower_qps))),
                (
                    "upper_bound_qps",
                    "the load that did not hold",
                    number(bounds.and_then(|bounds| bounds.upper_qps)),
                ),
                ("failure", "why it could not be measured", failure),
                trials(&start.trials),
            ]);
        }
    }
    sheet
}

/// A row for every block of every comparison.
pub(super) fn comparisons(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("comparisons", "one block of a comparison");
    for one in &verdict.comparisons {
        for (place, ratio) in one.case.blocks.iter().enumerate() {
            let (block, ratio) = (count(one.case.number(place) + 1), number(*ratio));
            let (outcome, why) = (named(one.outcome), words(one.case.refusal().unwrap_or_default()));
            sheet.push(comparison(&one.case, [block, ratio, outcome], one.ratio.as_ref(), (one.mde, why)));
        }
    }
    // A verdict leaves out comparisons without a block.
    for case in without_block(run) {
        let why = case.refusal().or(case.doubts.first().map(String::as_str));
        let why = text(why.unwrap_or("no block has a ratio"));
        sheet.push(comparison(&case, [const { Value::None }; 3], None, (None, why)));
    }
    sheet
}

/// The row of a comparison: its case, its block with the ratio there and the outcome, the ratio of all blocks, and the
/// least difference that is found with the reason why there is no verdict.
fn comparison(
    case: &Case,
    [block, ratio, outcome]: [Value; 3],
    all: Option<&Interval>,
    (mde, why): (Option<f64>, Value),
) -> [Field; 12] {
    const MDE: &str = "the least difference that is found in 19 of 20 such comparisons";
    let [low, high] = ends(all);
    [
        ("figure", "the figure that is compared", named(case.figure)),
        ("a", "subject A", text(&case.a)),
        ("b", "subject B", text(&case.b)),
        ("block", "the block, from 1", block),
        ("ratio", "B divided by A in this block", ratio),
        ("outcome", "the verdict on B over all blocks", outcome),
        ("ratio_of_all", "the mean ratio of all blocks", number(all.map(|all| all.median))),
        ("ratio_low", "low end of its interval", low),
        ("ratio_high", "high end of its interval", high),
        ("mde_share", MDE, number(mde)),
        ("absence", "why there is no verdict", why),
        ("doubts", "the doubts, the gravest first", words(&case.doubts.join("; "))),
    ]
}

/// The comparisons that a run was made for and that have no ratio.
fn without_block(run: &Run) -> Vec<Case> {
    let Some(pairing) = Pairing::from_run(run) else { return Vec::new() };
    let figures = compare::figures_of(&run.cells[pairing.a]).iter();
    let cases = figures.map(|figure| compare::of_run_for(run, pairing, *figure));
    cases.filter(|case| case.blocks.is_empty()).collect()
}

/// A row for every start of every echo.
pub(super) fn ceilings(verdict: &RunVerdict) -> Sheet {
    const ROLE: &str = "player (the player's ceiling), echo, or study (an echo that a study measures)";
    let mut sheet = Sheet::new("ceilings", "one start of an echo");
    let ceilings = &verdict.ceilings;
    let all = ceilings.players.iter().map(|one| ("player", one));
    let all = all.chain(ceilings.echoes.iter().map(|one| ("echo", one)));
    for (role, echo) in all.chain(ceilings.studied.iter().map(|one| ("study", one))) {
        let rate = echo.figure_qps;
        let starts =
            echo.starts_qps.iter().copied().map(Some).chain(echo.starts_qps.is_empty().then_some(None));
        for (start, start_qps) in (1u32..).zip(starts) {
            let [low, high] = ends(rate.as_ref());
            sheet.push([
                cell(echo.cell),
                name(&echo.name),
                ("role", ROLE, text(role)),
                ("io", "the echo's I/O model", text(&echo.io)),
                ("workers", "its number of workers", count(echo.workers)),
                ("start", "counted from 1", count(start)),
                ("start_qps", "the rate of this start, correct answers a second", number(start_qps)),
                ("rate_qps", "the median of all starts", number(rate.map(|rate| rate.median))),
                ("rate_low_qps", "low end of its interval", low),
                ("rate_high_qps", "high end of its interval", high),
                ("failures", "why starts could not be measured", words(&echo.failures.join("; "))),
                trials(&echo.trials),
            ]);
        }
    }
    sheet
}

/// A row for every core at every gauged trial.
pub(super) fn speeds(run: &Run) -> Sheet {
    let mut sheet = Sheet::new("speeds", "the speed of a core around a trial");
    for moment in speed::moments(run) {
        let withheld = number(moment.withheld_ms);
        for (cpu, share) in &moment.speeds {
            sheet.push([
                ("at_s", "seconds since the first trial", number(moment.at_s)),
                ("cpu", "the core", count(*cpu)),
                ("speed_share", "its speed as a share of the fastest in the run", number(*share)),
                ("withheld_ms", "milliseconds that cores were withheld in the trial", withheld.clone()),
                ("is_spoiled", "whether the host spoiled the trial", Value::Flag(moment.spoiled)),
            ]);
        }
    }
    sheet
}

/// A row for every load of every start. If the figure is refused, so is its latency.
pub(super) fn latency(verdict: &RunVerdict) -> Sheet {
    const P999_AT_MOST: &str = "upper bound of p99.9, with a confidence of 95 %";
    const BAD: &str = "share of the intended queries without a correct answer in time";
    let mut sheet = Sheet::new("latency", "one load of one start");
    for (subject, figures) in verdict.subjects.iter().zip(&verdict.figures) {
        let why = absence(subject, figures);
        let is_claimed = why.is_empty();
        for point in &subject.latency {
            let of = if is_claimed { point.latency_us } else { Quantiles::default() };
            let bad_ratio = Some(point.bad_ratio).filter(|_| is_claimed);
            sheet.push([
                cell(subject.cell),
                name(&subject.name),
                block(point.block),
                ("load_qps", "the offered load", number(point.load_qps)),
                ("min_us", "least latency", counted(of.min)),
                ("mean_us", "mean latency", number(of.mean)),
                ("p50_us", "half of the queries exceed it", counted(of.p50)),
                ("p90_us", "one query of ten exceeds it", counted(of.p90)),
                ("p99_us", "one of a hundred", counted(of.p99)),
                p99_at_most(&of),
                ("p999_us", "one of a thousand", counted(of.p999)),
                ("p999_at_most_us", P999_AT_MOST, counted(of.at_most.and_then(|bounds| bounds.p999))),
                ("max_us", "greatest latency", counted(of.max)),
                ("bad_share", BAD, number(bad_ratio)),
                ("absence", "why there is no latency", words(&why)),
                trials(&point.trials),
            ]);
        }
    }
    sheet
}

/// A row for every subject whose packets were stamped.
pub(super) fn residence(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("residence", "the time of queries in the server's host");
    for subject in &verdict.subjects {
        let Some(found) = &subject.residence else { continue };
        let (inside, latency) = (&found.residence_us, &found.latency_us);
        let stamped = number(found.stamped_share);
        let doubt = words(found.doubt.as_deref().unwrap_or_default());
        let failure = words(found.failure.as_deref().unwrap_or_default());
        sheet.push([
            cell(subject.cell),
            name(&subject.name),
            ("load_qps", "the load of the trial", number(found.load_qps)),
            ("inside_p50_us", "time in the server's host", counted(inside.p50)),
            ("inside_p90_us", "one query of ten exceeds it", counted(inside.p90)),
            ("inside_p99_us", "one of a hundred", counted(inside.p99)),
            ("latency_p50_us", "latency that the players saw in the same trial", counted(latency.p50)),
            ("latency_p90_us", "one query of ten exceeds it", counted(latency.p90)),
            ("latency_p99_us", "one of a hundred", counted(latency.p99)),
            ("stamped_share", "share of the queries that were stamped and paired", stamped),
            ("doubt", "why the times may not be those of all queries", doubt),
            ("absence", "why there are no times", failure),
            trials(&[found.trial]),
        ]);
    }
    sheet
}

/// A row for every thread in the heaviest trial behind each figure.
pub(super) fn threads(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("threads", "one thread while a subject was measured");
    for subject in &verdict.subjects {
        let Some((trial, facts)) = crate::section::cpu::heaviest(run, subject) else { continue };
        let of_player = facts.players.iter().flat_map(|player| &player.per_thread).map(|one| ("player", one));
        let of_subject =
            facts.subject.iter().flat_map(|subject| &subject.threads).map(|one| ("subject", one));
        for (side, thread) in of_player.chain(of_subject) {
            sheet.push([
                cell(subject.cell),
                name(&subject.name),
                trials(&[trial]),
                ("side", "player or subject", text(side)),
                ("thread", "name of the thread", text(&thread.name)),
                ("tid", "its number", count(thread.tid)),
                ("cpu", "the core that it ran on at last", count(thread.cpu)),
                ("busy_share", "CPU time over the time of the trial", number(thread.busy)),
                ("cpu_s", "CPU seconds", number(thread.cpu_s)),
            ]);
        }
    }
    sheet
}
