//! Comparisons of subjects whose difference is known: equals are not called different, 5 % less is called slower,
//! and 0.5 % is not claimed where 2 % is the least that can be told. First on simulated hosts, where every claim
//! must hold, then with real echoes, where each is judged in the comparisons in which its premise held: the MDE
//! that this host allowed, which is told.

// The host that the tests of the rule use: one model of noise is enough.
#[path = "../../../crates/verdict/tests/compare/simulate.rs"]
mod simulate;

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_verdict::compare::{Comparison, Outcome};

use super::Bench;
use crate::child::Running;
use simulate::{Host, Session};

/// A claim is to hold in this share of comparisons.
const RIGHT_SHARE: f64 = 0.95;

/// The default number of blocks.
const BLOCKS: usize = 6;

/// A difference that is known, and what is to be said of it.
struct Claim {
    name: &'static str,
    /// The share of its rate that B lacks.
    slower: f64,
    /// The MDEs, a share, of comparisons on which the claim is judged.
    premise: fn(f64) -> bool,
    right: fn(Outcome) -> bool,
}

const CLAIMS: [Claim; 3] = [
    Claim { name: "equals", slower: 0.0, premise: |_| true, right: |outcome| !outcome.is_different() },
    Claim {
        name: "5 % slower",
        slower: 0.05,
        premise: |mde| mde < 0.05,
        right: |outcome| outcome == Outcome::Slower,
    },
    Claim {
        name: "0.5 % slower",
        slower: 0.005,
        premise: |mde| mde >= 0.02,
        right: |outcome| !outcome.is_different(),
    },
];

/// The work of the base echo for each query, nanoseconds: so much that the echo is the limit, and not the player.
const WORK_NS: f64 = 50_000.0;

/// Simulated hosts first, real echoes then.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    for claim in &CLAIMS {
        simulated(bench, claim)?;
    }
    let query_ns = cpu_per_query_ns(bench)?;
    eprintln!("with {WORK_NS} ns of work the echo uses {query_ns:.0} ns for a query");
    let claims = bench.choose(&CLAIMS[..1], &CLAIMS[..]);
    for claim in claims {
        // B's queries take so much longer that its rate falls by the share.
        let added_ns = query_ns * (1.0 / (1.0 - claim.slower) - 1.0);
        real(bench, claim, WORK_NS + added_ns)?;
    }
    Ok(())
}

/// Calm hosts, and such as drift and lose cores, with a spread of 0.3 % to 2 % of a start's rate.
fn simulated(bench: &Bench, claim: &Claim) -> Result<()> {
    let mut tally = Tally::default();
    for seed in 0..bench.choose(200_u32, 10_000) {
        let spread = 0.003 * (0.02_f64 / 0.003).powf(f64::from(seed % 20) / 19.0);
        let noise = if seed % 3 == 0 { Host::CALM } else { Host::REAL };
        let mut session = Session::new(Host { spread, ..noise }, u64::from(seed));
        tally.add(claim, &session.compare(BLOCKS, 1.0 - claim.slower));
    }
    tally.told("simulated", claim);
    ensure!(tally.is_fine(), "simulated, {}: right in {} of {}", claim.name, tally.right, tally.fair);
    Ok(())
}

/// As many comparisons of real echoes as the size affords. The small form may try thrice: that all three are wrong
/// by chance happens once in eight thousand times.
fn real(bench: &Bench, claim: &Claim, work_ns: f64) -> Result<()> {
    let mut tally = Tally::default();
    for number in 0..bench.choose(3, 20) {
        tally.add(claim, &compare(bench, work_ns, &format!("{}-{number}", claim.name.replace(' ', "-")))?);
        if bench.choose(tally.right > 0, false) {
            break;
        }
    }
    tally.told("real", claim);
    let is_fine = bench.choose(tally.right > 0, tally.is_fine());
    ensure!(is_fine, "real, {}: right in {} of {}", claim.name, tally.right, tally.fair);
    Ok(())
}

/// What comparisons came to.
#[derive(Default)]
struct Tally {
    made: u32,
    /// Those in which the premise held.
    fair: u32,
    /// Those of them that were right.
    right: u32,
    mdes: Vec<f64>,
}

impl Tally {
    fn add(&mut self, claim: &Claim, comparison: &Comparison) {
        self.made += 1;
        self.mdes.extend(comparison.mde);
        if comparison.mde.is_some_and(claim.premise) {
            self.fair += 1;
            self.right += u32::from((claim.right)(comparison.outcome));
        }
    }

    fn is_fine(&self) -> bool {
        f64::from(self.right) >= f64::from(self.fair) * RIGHT_SHARE
    }

    fn told(&mut self, kind: &str, claim: &Claim) {
        self.mdes.sort_by(f64::total_cmp);
        let median = self.mdes.get(self.mdes.len() / 2).map_or(f64::NAN, |mde| mde * 100.0);
        eprintln!(
            "{kind}, {}: of {} comparisons the premise held in {}, and {} of those were right; median MDE {median:.2} %",
            claim.name, self.made, self.fair, self.right
        );
    }
}

/// The words of an echo with so much work for each query.
fn echo(work_ns: f64) -> String {
    format!("{{kqps}} serve echo --listen 127.0.0.1:{{port}} --io mmsg --work-ns {work_ns:.0} --for 10m")
}

/// Compares the base echo with one that works so long.
fn compare(bench: &Bench, work_ns: f64, name: &str) -> Result<Comparison> {
    let out = bench.folder.path().join(name);
    let mut command = Command::new(&bench.kqps.program);
    command.args(["compare", "--json", "--records", "1k", "-q", "100", "--seed", "1"]);
    command.args(["--a", &echo(WORK_NS), "--b", &echo(work_ns)]);
    command.args(["--duration", bench.choose("100ms", "500ms")]).arg("--out").arg(&out);
    let mut running = Running::start(&mut command)?;
    let comparison: Comparison = running.json_line().context("kqps compare printed no comparison")?;
    running.wait(std::time::Duration::from_secs(10))?;
    Ok(comparison)
}

/// The CPU time of the base echo for a query when it has no rest, nanoseconds.
fn cpu_per_query_ns(bench: &Bench) -> Result<f64> {
    let mut command = crate::child::pinned(&bench.kqps.subject_cpu.to_string(), &bench.kqps.program);
    command.args(["serve", "echo", "--json", "--listen", "127.0.0.1:0", "--io", "mmsg", "--for", "10m"]);
    command.args(["--work-ns", &format!("{WORK_NS:.0}")]);
    let mut echo = Running::start(&mut command)?;
    let address = echo.ready()?;
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
