//! Comparisons of subjects with a known difference: equals are not called different, 5 % less is called
//! slower, and 0.5 % is not claimed if the least detectable difference is 2 %. The proof begins with
//! simulated hosts, where every claim must hold, and goes on with real echoes. A claim about real echoes is
//! judged only in comparisons whose premise held: the MDE that this host allowed, which the proof prints. Too
//! few such comparisons are a failure too.
//!
//! And the intervals of the law of scaling: in simulated series with known constants they hold the truth as often as
//! they say.

// The host of the rule's own tests, since one model of noise is enough.
#[path = "../../../verdict/tests/compare/simulate.rs"]
mod simulate;
// The series of the law's own tests.
#[path = "../../../verdict/tests/scaling/series.rs"]
mod series;

use std::ops::Range;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_verdict::compare::{Comparison, Outcome};

use super::{Bench, Size, search};
use crate::child::Running;
use simulate::{Host, Session};

/// The share of comparisons in which a claim must hold.
const RIGHT_SHARE: f64 = 0.95;

/// The least number of real comparisons in which a premise must hold. With fewer, a claim is not shown.
const REAL_FAIR_LEAST: u32 = 10;

/// The number of real comparisons for a claim: the first of these at least, and more, up to the last, until
/// the premise held often enough.
const REAL: Range<u32> = 20..60;

/// The default number of blocks.
const BLOCKS: usize = 10;

/// A known difference, and the verdict that it must get.
struct Claim {
    name: &'static str,
    /// The share of its rate that B lacks.
    slower: f64,
    /// The comparisons that the claim is judged on; `None` for all of them.
    premise: Option<Premise>,
    /// How long each start of a real comparison is loaded. A shorter load has a greater MDE.
    load: &'static str,
    right: fn(Outcome) -> bool,
}

/// The condition for judging a claim.
struct Premise {
    /// The MDEs, a share, of simulated comparisons.
    simulated: Range<f64>,
    /// The least share of simulated comparisons with these MDEs. In fact at least half as many again have
    /// them.
    least_share: f64,
    /// The MDEs of real ones.
    real: Range<f64>,
    /// A change by which more real comparisons would have that MDE.
    help: &'static str,
}

const CLAIMS: [Claim; 3] = [
    Claim {
        name: "equals",
        slower: 0.0,
        premise: None,
        load: "500ms",
        right: |outcome| !outcome.is_different(),
    },
    Claim {
        name: "5 % slower",
        slower: 0.05,
        premise: Some(Premise {
            simulated: 0.0..0.05,
            least_share: 0.5,
            real: 0.0..0.05,
            help: "a quieter host, or more trials",
        }),
        load: "500ms",
        right: |outcome| outcome == Outcome::Slower,
    },
    Claim {
        name: "0.5 % slower",
        slower: 0.005,
        premise: Some(Premise {
            simulated: 0.02..0.03,
            least_share: 0.1,
            real: 0.02..f64::INFINITY,
            help: "fewer trials, for this host can resolve smaller differences",
        }),
        load: "200ms",
        right: |outcome| !outcome.is_different(),
    },
];

/// The part about the law of scaling. Each claim is a part of its own.
const SCALING: &str = "scaling";

/// The work of the base echo for each query, nanoseconds: enough that the echo is the limit, and not the
/// player.
const WORK_NS: f64 = 50_000.0;

/// Proves every claim with simulated hosts first, and then with real echoes.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let names: Vec<&str> = CLAIMS.iter().map(|claim| claim.name).chain([SCALING]).collect();
    let picked = bench.parts(&names, |name| name)?;
    let claims: Vec<&Claim> = CLAIMS.iter().filter(|claim| picked.contains(&&claim.name)).collect();
    claims.iter().try_for_each(|claim| simulated(bench, claim))?;
    if picked.contains(&&SCALING) {
        scaling(bench)?;
    }
    if claims.is_empty() {
        return Ok(());
    }
    let query_ns = cpu_per_query_ns(bench)?;
    eprintln!("with {WORK_NS} ns of work the echo uses {query_ns:.0} ns for a query");
    for claim in claims.iter().take(bench.choose(1, claims.len())) {
        // B's queries take so much longer that its rate falls by the share.
        let added_ns = query_ns * (1.0 / (1.0 - claim.slower) - 1.0);
        real(bench, claim, WORK_NS + added_ns)?;
    }
    Ok(())
}

/// Fits the law of scaling to simulated series.
fn scaling(bench: &Bench) -> Result<()> {
    let runs = bench.choose(40, 1_000);
    for family in &series::FAMILIES {
        let right = family.right(runs);
        for (what, share) in series::NUMBERS.iter().zip(family.shares(runs)) {
            eprintln!("{}: {what}: {:.1} % of the intervals hold the truth", family.name, share * 100.0);
            let (least, most) = (right.start() * 100.0, right.end() * 100.0);
            ensure!(
                right.contains(&share),
                "{}: {:.1} % of the intervals of the {what} hold the truth, and not {least:.0} to {most:.0} %",
                family.name,
                share * 100.0
            );
        }
    }
    Ok(())
}

/// Simulates calm hosts, and hosts that lose cores, with a spread of 0.3 % to 2 % of a start's rate.
fn simulated(bench: &Bench, claim: &Claim) -> Result<()> {
    let mut tally = Tally::default();
    let premise = claim.premise.as_ref();
    for seed in 0..bench.choose(200_u32, 10_000) {
        let spread = 0.003 * (0.02_f64 / 0.003).powf(f64::from(seed % 20) / 19.0);
        let noise = if seed % 3 == 0 { Host::CALM } else { Host::REAL };
        let mut session = Session::new(Host { spread, ..noise }, u64::from(seed));
        let comparison = session.compare(BLOCKS, 1.0 - claim.slower);
        tally.add(claim, premise.map(|premise| &premise.simulated), &comparison);
    }
    tally.print("simulated", claim);
    let least = f64::from(tally.made) * premise.map_or(1.0, |premise| premise.least_share);
    tally.judged("simulated", claim, u32::try_from(least.ceil() as u64).unwrap_or(u32::MAX))
}

/// Compares real echoes until enough comparisons show something. The small form may try three times; that all
/// three are wrong by chance happens once in eight thousand times.
fn real(bench: &Bench, claim: &Claim, work_ns: f64) -> Result<()> {
    let mut tally = Tally::default();
    let premise = claim.premise.as_ref().map(|premise| &premise.real);
    for number in 0..bench.choose(3, REAL.end) {
        let comparison =
            compare(bench, claim.load, work_ns, &format!("{}-{number}", claim.name.replace(' ', "-")))?;
        eprintln!("real, {}, {}: {comparison}", claim.name, number + 1);
        tally.add(claim, premise, &comparison);
        if bench.choose(tally.right > 0, tally.made >= REAL.start && tally.fair >= REAL_FAIR_LEAST) {
            break;
        }
    }
    tally.print("real", claim);
    match bench.size {
        Size::Small => {
            ensure!(tally.right > 0, "real, {}: right in none of {}", claim.name, tally.made);
            Ok(())
        }
        Size::Whole => tally.judged("real", claim, REAL_FAIR_LEAST),
    }
}

#[derive(Default)]
struct Tally {
    made: u32,
    /// Comparisons that showed anything, and in which the premise held.
    fair: u32,
    /// Fair comparisons that were right.
    right: u32,
    /// Comparisons that refused a verdict.
    refused: u32,
    mdes: Vec<f64>,
}

impl Tally {
    fn add(&mut self, claim: &Claim, premise: Option<&Range<f64>>, comparison: &Comparison) {
        self.made += 1;
        self.mdes.extend(comparison.mde);
        if let Some(refusal) = comparison.case.refusal() {
            eprintln!("{}: nothing was shown: {refusal}", claim.name);
            self.refused += 1;
            return;
        }
        if premise.is_none_or(|mdes| comparison.mde.is_some_and(|mde| mdes.contains(&mde))) {
            self.fair += 1;
            self.right += u32::from((claim.right)(comparison.outcome));
        }
    }

    /// Checks that enough comparisons were fair, and that enough of these were right.
    fn judged(&self, kind: &str, claim: &Claim, least: u32) -> Result<()> {
        let Self { made, fair, right, refused, .. } = self;
        let help = claim.premise.as_ref().map_or("see why verdicts were refused", |premise| premise.help);
        ensure!(
            *fair >= least,
            "{kind}, {}: not shown. Its premise held in {fair} of {made} comparisons ({refused} refused a verdict), and \
             {least} are wanted; what would help: {help}",
            claim.name
        );
        let is_fine = f64::from(*right) >= f64::from(*fair) * RIGHT_SHARE;
        ensure!(is_fine, "{kind}, {}: right in {right} of {fair}", claim.name);
        Ok(())
    }

    fn print(&mut self, kind: &str, claim: &Claim) {
        self.mdes.sort_by(f64::total_cmp);
        let median = self.mdes.get(self.mdes.len() / 2).map_or(f64::NAN, |mde| mde * 100.0);
        eprintln!(
            "{kind}, {}: of {} comparisons the premise held in {}, and {} of those were right; median MDE {median:.2} %",
            claim.name, self.made, self.fair, self.right
        );
    }
}

/// The command of an echo with this work for each query.
fn echo(work_ns: f64) -> String {
    format!("{{kqps}} serve echo --listen 127.0.0.1:{{port}} --io mmsg --work {work_ns:.0}ns --for 10m")
}

/// Compares the base echo with an echo of this work.
fn compare(bench: &Bench, load: &str, work_ns: f64, name: &str) -> Result<Comparison> {
    let out = bench.folder.path().join(name);
    let mut command = Command::new(&bench.kqps.program);
    command.args(["compare", "--json", "--records", "1k", "-q", "100", "--seed", "1"]);
    command.args(["--a", &echo(WORK_NS), "--b", &echo(work_ns)]);
    command.args(["--duration", bench.choose("20ms", load)]).arg("--out").arg(&out);
    search::compare(&mut command, Duration::from_secs(10))
}

/// CPU time of the base echo for a query at full load, nanoseconds.
fn cpu_per_query_ns(bench: &Bench) -> Result<f64> {
    let mut command = bench.kqps.serve("echo");
    command.args(["--listen", "127.0.0.1:0", "--io", "mmsg", "--for", "10m"]);
    command.args(["--work", &format!("{WORK_NS:.0}ns")]);
    let (echo, address) = Running::server(&mut command)?;
    let file = bench.queries(super::QUERIES)?;
    let duration = bench.choose("1s", "5s");
    let trial = bench.kqps.trial(
        address,
        &file,
        &["-q", "100", "-l", duration, "--subject-pid", &echo.pid().to_string()],
    )?;
    let subject = trial.subject.context("the echo was not watched")?;
    Ok((subject.cpu_user_s + subject.cpu_system_s) * 1e9 / trial.accounts.correct.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(fair: u32, right: u32) -> Tally {
        Tally { made: 20, fair, right, ..Tally::default() }
    }

    #[test]
    fn nothing_is_shown_by_too_few_comparisons() {
        let claim = &CLAIMS[1];
        for (fair, right, is_shown) in
            [(0, 0, false), (9, 9, false), (10, 10, true), (20, 19, true), (20, 18, false)]
        {
            assert_eq!(tally(fair, right).judged("real", claim, 10).is_ok(), is_shown, "{right} of {fair}");
        }
        let error = tally(3, 3).judged("real", claim, 10).unwrap_err().to_string();
        assert!(
            error.contains("held in 3 of 20") && error.ends_with("a quieter host, or more trials"),
            "{error}"
        );
    }

    #[test]
    fn a_comparison_that_shows_nothing_is_not_fair_and_equals_have_no_premise() {
        let mut comparison = Session::new(Host::CALM, 1).compare(BLOCKS, 1.0);
        let mut tally = Tally::default();
        tally.add(&CLAIMS[0], None, &comparison);
        comparison.mde = None;
        tally.add(&CLAIMS[0], None, &comparison);
        assert_eq!((tally.made, tally.fair), (2, 2));
        tally.add(&CLAIMS[1], Some(&(0.0..0.05)), &comparison);
        comparison.case.doubts = vec!["the player was the limit".into()];
        comparison.case.refusals = 1;
        tally.add(&CLAIMS[0], None, &comparison);
        assert_eq!((tally.made, tally.fair, tally.refused), (4, 2, 1));
    }
}
