//! `cargo xtask COMMAND`: it parses the arguments and calls the command.

use std::process::ExitCode;

use clap::Parser;
use xtask::{deny, fuzz, peers, prove, relay, test, tidy};

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
        Command::Peers(options) => peers::run(&options),
        Command::Prove(options) => prove::run(&options),
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
