//! `cargo xtask test`: all checks of continuous integration, step by step, each timed. The first failure ends
//! it. The last line has the numbers of tests that passed, that failed, and that skipped something.

mod cargo_test;
mod directions;
pub(crate) mod packages;
mod skips;
mod venv;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use kqps_programs::shell;
use kqps_skips::{Capability, Skip};

use crate::workspace::cargo;
use crate::{deny, tidy};

use cargo_test::{Failure, Tally};

/// The options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Options {
    /// Run only these steps, in their usual order (repeatable)
    #[arg(long, value_name = "STEP", value_parser = clap::builder::PossibleValuesParser::new(STEPS.map(|step| step.name)))]
    only: Vec<String>,
    /// Fail if a capability is missing that continuous integration must have, as it does if CI is set
    #[arg(long)]
    strict: bool,
}

/// A check.
struct Step {
    name: &'static str,
    /// Returns the counts of its tests. An error is a failure of the step itself.
    run: fn() -> Result<Tally>,
}

/// All steps. Cheap ones come first, so that a slip shows before the minutes of the others.
const STEPS: [Step; 9] = [
    Step { name: "packages", run: || no_tests(packages::install()) },
    Step { name: "python", run: || no_tests(venv::make()) },
    Step { name: "format", run: || no_tests(shell::run(cargo().args(["fmt", "--all", "--check"]))) },
    Step { name: "directions", run: || no_tests(directions::check()) },
    Step { name: "tidy", run: || no_tests(tidy::run()) },
    Step { name: "deny", run: denied },
    Step { name: "clippy", run: clippy },
    Step { name: "tests", run: tests },
    Step { name: "doctests", run: || cargo_test::run(&["--doc"]) },
];

/// Runs the chosen steps, or all, and prints the results. The sum is the last line.
pub fn run(options: &Options) -> ExitCode {
    let chosen = |step: &&Step| options.only.is_empty() || options.only.iter().any(|name| name == step.name);
    let is_strict = skips::is_strict(options.strict);
    let mut done = Vec::new();
    let mut sum = Tally::default();
    let mut failure = None;
    for step in STEPS.iter().filter(chosen) {
        eprintln!("\n== {} ==", step.name);
        let began = Instant::now();
        let outcome = (step.run)();
        done.push((step.name, began.elapsed()));
        match outcome {
            Ok(tally) => sum.add(tally),
            Err(error) => failure = Some(format!("{error:#}")),
        }
        if is_strict {
            failure = failure.or_else(|| skips::lacking(&sum.skips));
        }
        if sum.failed > 0 {
            failure = Some(format!("{} tests failed", sum.failed));
        }
        if failure.is_some() {
            break;
        }
    }
    skips::print(&sum.skips);
    print_failures(&sum.failures);
    summarise(&done, failure.is_some());
    if let (Some(failure), Some((name, _))) = (&failure, done.last()) {
        eprintln!("\nThe step `{name}` failed: {failure}");
        eprintln!("To repeat it alone: cargo xtask test --only {name}\n");
        // A step that failed before it could count its tests still counts as one failure.
        sum.failed = sum.failed.max(1);
    }
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, skips::tests(&sum.skips));
    if failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints the tests that failed, with their words, after all that the others printed.
fn print_failures(failures: &[Failure]) {
    if !failures.is_empty() {
        eprintln!("\n== failed ==");
    }
    for Failure { test, words } in failures {
        eprintln!("{test}");
        for line in words {
            eprintln!("    {line}");
        }
    }
}

/// Prints the time of each step.
fn summarise(done: &[(&str, Duration)], last_failed: bool) {
    eprintln!("\n== summary ==");
    for (place, (name, took)) in done.iter().enumerate() {
        let word = if last_failed && place + 1 == done.len() { "FAILED" } else { "ok" };
        eprintln!("{name:<12} {:>7.1} s  {word}", took.as_secs_f64());
    }
    let total: Duration = done.iter().map(|(_, took)| *took).sum();
    eprintln!("{:<12} {:>7.1} s", "total", total.as_secs_f64());
}

/// A step without tests.
fn no_tests(outcome: Result<()>) -> Result<Tally> {
    outcome.map(|()| Tally::default())
}

/// Licences and sources of dependencies. The step is skipped if cargo-deny is missing, since building it takes minutes.
fn denied() -> Result<Tally> {
    if deny::is_installed() {
        return no_tests(deny::check_fixed());
    }
    let reason = format!("cargo-deny is not installed: {}", deny::INSTALL);
    let skip = Skip { test: "the step deny".into(), reason, capability: Capability::CargoDeny };
    eprintln!("{skip}");
    Ok(Tally { skips: [skip].into(), ..Tally::default() })
}

/// All tests except those in docs, and each bench once. Some of the tests run examples, which cargo does not build
/// when it is given kinds of tests.
fn tests() -> Result<Tally> {
    shell::run(cargo().args(["build", "--quiet", "--workspace", "--examples"]))?;
    cargo_test::run(&["--tests", "--benches"])
}

/// Lints, with every warning an error.
fn clippy() -> Result<Tally> {
    no_tests(shell::run(cargo().args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "--deny",
        "warnings",
    ])))
}
