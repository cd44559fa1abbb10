//! The chores that run kqps: `cargo xtask prove`, `cargo xtask peers` and `cargo xtask relay` build this program and
//! run it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use kqps_faults::relay;
use kqps_proofs::peers::Programs;
use kqps_proofs::{peers, prove};
use xtask::{package, workspace};

/// The project's chores that run kqps.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Measure kqps beside other programs, in interleaved blocks
    Peers(peers::Options),
    /// The long proofs: known answers that kqps must reproduce
    Prove(prove::Options),
    /// A UDP relay that makes faults and counts them
    Relay(relay::Options),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Peers(options) => measure(&options),
        Command::Prove(options) => proved(options),
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
