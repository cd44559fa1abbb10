//! `cargo xtask COMMAND`: it parses the arguments and calls the command.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use kqps_faults::relay;
use kqps_proofs::peers::Programs;
use kqps_proofs::{peers, prove};
use xtask::{deny, fuzz, package, test, tidy, workspace};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Everything that CI runs: packages, format, lints, tests, directions, tidy
    Test(test::Options),
    /// Checks beyond a compiler's: sizes, dead files, forbidden words, docs that drifted
    Tidy,
    /// Advisories, licences, duplicate versions and sources of all dependencies, by cargo-deny
    Deny,
    /// Measure kqps beside other programs, in interleaved blocks
    Peers(peers::Options),
    /// The long proofs: known answers that kqps must reproduce
    Prove(prove::Options),
    /// Make the Debian package, the static archive and the container image
    Package(package::Options),
    /// Fuzz the readers of bytes, with libFuzzer
    Fuzz(fuzz::Options),
    /// A UDP relay that makes faults and counts them
    Relay(relay::Options),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Test(options) => return test::run(&options),
        Command::Tidy => tidy::run(),
        Command::Deny => deny::run(),
        Command::Peers(options) => measure(&options),
        Command::Prove(options) => proved(options),
        Command::Package(options) => package::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Relay(options) => relay::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds what the proofs need, and proves what the options ask for.
fn proved(mut options: prove::Options) -> Result<()> {
    if options.needs_packages() {
        options = options.with_packages(package::for_proof()?);
    } else if options.proves_packages() {
        package::ready_for_proof()?;
    }
    options = options.with_kept(workspace::metadata()?.target_directory);
    let program = if options.program().is_none() && options.proves_packages_alone() {
        package::packaged_program()?
    } else {
        workspace::program(options.program())?
    };
    // Beside a program that the user names stands the agent that was built with it.
    if options.needs_silent_agent() && options.program().is_none() {
        workspace::silent_agent()?;
    }
    prove::run(&options, &program)
}

/// Builds what is measured beside other programs, and measures it. The figures go to `target/peers`.
fn measure(options: &peers::Options) -> Result<()> {
    let kqps = workspace::program(options.program())?;
    let calls = if options.needs_calls() { workspace::calls()? } else { PathBuf::new() };
    let rings = if options.needs_rings() { workspace::rings()? } else { PathBuf::new() };
    let folder = workspace::metadata()?.target_directory.join("peers");
    peers::run(options, Programs { kqps: &kqps, calls: &calls, rings: &rings }, &folder)
}
