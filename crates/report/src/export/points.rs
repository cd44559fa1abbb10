//! The points of the page's charts: starts, ratios of blocks, ceilings, speeds, latency by load, time in the server's
//! host and threads.

use kqps_observation::Run;
use kqps_verdict::compare::{self, Case, Pairing};
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::speed;

use super::cells::absence;
use super::sheet::{Sheet, Value, count, counted, ends, named, number, numbers, text, words};

pub(super) const CELL: (&str, &str) = ("cell", "index of the cell in the run");
pub(super) const NAME: (&str, &str) = ("name", "the cell's name");
const BLOCK: (&str, &str) = ("block", "the block, from 1");
pub(super) const P99_AT_MOST: (&str, &str) =
    ("p99_at_most_us", "upper bound of p99, with a confidence of 95 %");
pub(super) const TRIALS: (&str, &str) = ("trials", "numbers of the trials behind it");

/// A row for every start of every subject.
pub(super) fn starts(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        BLOCK,
        ("start", "number of the start in the run"),
        ("is_claimed", "whether the cell's figure is not refused"),
        ("rate_qps", "the start's rate, correct answers a second; nothing if the figure is refused"),
        ("lower_bound_qps", "the load that held"),
        ("upper_bound_qps", "the load that did not hold"),
        ("failure", "why it could not be measured"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("starts", "one start of a subject", &columns);
    for subject in &verdict.subjects {
        for start in &subject.starts {
            let bounds = start.bounds.as_ref();
            sheet.rows.push(vec![
                count(subject.cell),
                text(&subject.name),
                count(start.block + 1),
                count(start.start),
                Value::Flag(subject.figure_qps.is_some()),
                number(
                    bounds.filter(|_| subject.figure_qps.is_some()).and_then(|bounds| bounds.throughput_qps),
                ),
                number(bounds.and_then(|bounds| bounds.lower_qps)),
                number(bounds.and_then(|bounds| bounds.upper_qps)),
                words(start.failure.as_deref().unwrap_or_default()),
                numbers(&start.trials),
            ]);
        }
    }
    sheet
}

/// A row for every block of every comparison.
pub(super) fn comparisons(run: &Run, verdict: &RunVerdict) -> Sheet {
    let columns = [
        ("figure", "the figure that is compared"),
        ("a", "subject A"),
        ("b", "subject B"),
        BLOCK,
        ("ratio", "B divided by A in this block"),
        ("outcome", "the verdict on B over all blocks"),
        ("ratio_of_all", "the mean ratio of all blocks"),
        ("ratio_low", "low end of its interval"),
        ("ratio_high", "high end of its interval"),
        ("mde_share", "the least difference that is found in 19 of 20 such comparisons"),
        ("absence", "why there is no verdict"),
        ("doubts", "the doubts, the gravest first"),
    ];
    let mut sheet = Sheet::new("comparisons", "one block of a comparison", &columns);
    for one in &verdict.comparisons {
        let blocks = one.case.blocks.iter().enumerate();
        let blocks = blocks.map(|(place, ratio)| (count(one.case.number(place) + 1), number(*ratio)));
        let [low, high] = ends(one.ratio.as_ref());
        for (block, ratio) in blocks {
            sheet.rows.push(vec![
                named(one.case.figure),
                text(&one.case.a),
                text(&one.case.b),
                block,
                ratio,
                named(one.outcome),
                number(one.ratio.map(|all| all.median)),
                low.clone(),
                high.clone(),
                number(one.mde),
                words(one.case.refusal().unwrap_or_default()),
                words(&one.case.doubts.join("; ")),
            ]);
        }
    }
    // A verdict leaves out comparisons without a block.
    for case in without_block(run) {
        let why = case.refusal().or(case.doubts.first().map(String::as_str));
        let mut row = vec![named(case.figure), text(&case.a), text(&case.b)];
        row.resize(columns.len() - 2, Value::None);
        row.extend([text(why.unwrap_or("no block has a ratio")), words(&case.doubts.join("; "))]);
        sheet.rows.push(row);
    }
    sheet
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
    let columns = [
        CELL,
        NAME,
        ("role", "player (the player's ceiling), echo, or study (an echo that a study measures)"),
        ("io", "the echo's I/O model"),
        ("workers", "its number of workers"),
        ("start", "counted from 1"),
        ("start_qps", "the rate of this start, correct answers a second"),
        ("rate_qps", "the median of all starts"),
        ("rate_low_qps", "low end of its interval"),
        ("rate_high_qps", "high end of its interval"),
        ("failures", "why starts could not be measured"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("ceilings", "one start of an echo", &columns);
    let ceilings = &verdict.ceilings;
    let all = ceilings.players.iter().map(|one| ("player", one));
    let all = all.chain(ceilings.echoes.iter().map(|one| ("echo", one)));
    for (role, echo) in all.chain(ceilings.studied.iter().map(|one| ("study", one))) {
        let rate = echo.figure_qps;
        let [low, high] = ends(rate.as_ref());
        let starts =
            echo.starts_qps.iter().copied().map(Some).chain(echo.starts_qps.is_empty().then_some(None));
        for (start, start_qps) in (1u32..).zip(starts) {
            sheet.rows.push(vec![
                count(echo.cell),
                text(&echo.name),
                text(role),
                text(&echo.io),
                count(echo.workers),
                count(start),
                number(start_qps),
                number(rate.map(|rate| rate.median)),
                low.clone(),
                high.clone(),
                words(&echo.failures.join("; ")),
                numbers(&echo.trials),
            ]);
        }
    }
    sheet
}

/// A row for every core at every gauged trial.
pub(super) fn speeds(run: &Run) -> Sheet {
    let columns = [
        ("at_s", "seconds since the first trial"),
        ("cpu", "the core"),
        ("speed_share", "its speed as a share of the fastest in the run"),
        ("withheld_ms", "milliseconds that cores were withheld in the trial"),
        ("is_spoiled", "whether the host spoiled the trial"),
    ];
    let mut sheet = Sheet::new("speeds", "the speed of a core around a trial", &columns);
    for moment in speed::moments(run) {
        for (cpu, share) in &moment.speeds {
            let (at, withheld) = (number(moment.at_s), number(moment.withheld_ms));
            sheet.rows.push(vec![at, count(*cpu), number(*share), withheld, Value::Flag(moment.spoiled)]);
        }
    }
    sheet
}

/// A row for every load of every start. If the figure is refused, so is its latency.
pub(super) fn latency(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        BLOCK,
        ("load_qps", "the offered load"),
        ("min_us", "least latency"),
        ("mean_us", "mean latency"),
        ("p50_us", "half of the queries exceed it"),
        ("p90_us", "one query of ten exceeds it"),
        ("p99_us", "one of a hundred"),
        P99_AT_MOST,
        ("p999_us", "one of a thousand"),
        ("p999_at_most_us", "upper bound of p99.9, with a confidence of 95 %"),
        ("max_us", "greatest latency"),
        ("bad_share", "share of the intended queries without a correct answer in time"),
        ("absence", "why there is no latency"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("latency", "one load of one start", &columns);
    for (subject, figures) in verdict.subjects.iter().zip(&verdict.figures) {
        let why = absence(subject, figures);
        let is_claimed = why.is_empty();
        for point in &subject.latency {
            let of = &point.latency_us;
            let at_most = of.at_most.filter(|_| is_claimed).unwrap_or_default();
            sheet.rows.push(vec![
                count(subject.cell),
                text(&subject.name),
                count(point.block + 1),
                number(point.load_qps),
                counted(of.min.filter(|_| is_claimed)),
                number(of.mean.filter(|_| is_claimed)),
                counted(of.p50.filter(|_| is_claimed)),
                counted(of.p90.filter(|_| is_claimed)),
                counted(of.p99.filter(|_| is_claimed)),
                counted(at_most.p99),
                counted(of.p999.filter(|_| is_claimed)),
                counted(at_most.p999),
                counted(of.max.filter(|_| is_claimed)),
                number(Some(point.bad_ratio).filter(|_| is_claimed)),
                words(&why),
                numbers(&point.trials),
            ]);
        }
    }
    sheet
}

/// A row for every subject whose packets were stamped.
pub(super) fn residence(verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        ("load_qps", "the load of the trial"),
        ("inside_p50_us", "time in the server's host"),
        ("inside_p90_us", "one query of ten exceeds it"),
        ("inside_p99_us", "one of a hundred"),
        ("latency_p50_us", "latency that the players saw in the same trial"),
        ("latency_p90_us", "one query of ten exceeds it"),
        ("latency_p99_us", "one of a hundred"),
        ("stamped_share", "share of the queries that were stamped and paired"),
        ("doubt", "why the times may not be those of all queries"),
        ("absence", "why there are no times"),
        TRIALS,
    ];
    let mut sheet = Sheet::new("residence", "the time of queries in the server's host", &columns);
    for subject in &verdict.subjects {
        let Some(found) = &subject.residence else { continue };
        let (inside, latency) = (&found.residence_us, &found.latency_us);
        sheet.rows.push(vec![
            count(subject.cell),
            text(&subject.name),
            number(found.load_qps),
            counted(inside.p50),
            counted(inside.p90),
            counted(inside.p99),
            counted(latency.p50),
            counted(latency.p90),
            counted(latency.p99),
            number(found.stamped_share),
            words(found.doubt.as_deref().unwrap_or_default()),
            words(found.failure.as_deref().unwrap_or_default()),
            numbers(&[found.trial]),
        ]);
    }
    sheet
}

/// A row for every thread in the heaviest trial behind each figure.
pub(super) fn threads(run: &Run, verdict: &RunVerdict) -> Sheet {
    let columns = [
        CELL,
        NAME,
        TRIALS,
        ("side", "player or subject"),
        ("thread", "name of the thread"),
        ("tid", "its number"),
        ("cpu", "the core that it ran on at last"),
        ("busy_share", "CPU time over the time of the trial"),
        ("cpu_s", "CPU seconds"),
    ];
    let mut sheet = Sheet::new("threads", "one thread while a subject was measured", &columns);
    for subject in &verdict.subjects {
        let Some((trial, facts)) = crate::section::cpu::heaviest(run, subject) else { continue };
        let of_player = facts.players.iter().flat_map(|player| &player.per_thread).map(|one| ("player", one));
        let of_subject =
            facts.subject.iter().flat_map(|subject| &subject.threads).map(|one| ("subject", one));
        for (side, thread) in of_player.chain(of_subject) {
            sheet.rows.push(vec![
                count(subject.cell),
                text(&subject.name),
                numbers(&[trial]),
                text(side),
                text(&thread.name),
                count(thread.tid),
                count(thread.cpu),
                number(thread.busy),
                number(thread.cpu_s),
            ]);
        }
    }
    sheet
}
