//! `cargo xtask COMMAND`: it parses the arguments and calls the command.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use anyhow::{Error, Result};
use clap::Parser;
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
    #[command(disable_help_flag = true, after_help = "Its options: cargo xtask peers --help")]
    Peers(Arguments),
    /// The long proofs: known answers that kqps must reproduce
    #[command(disable_help_flag = true, after_help = "Its options: cargo xtask prove --help")]
    Prove(Arguments),
    /// Make the Debian package, the static archive and the container image
    Package(package::Options),
    /// Fuzz the readers of bytes, with libFuzzer
    Fuzz(fuzz::Options),
    /// A UDP relay that makes faults and counts them
    #[command(disable_help_flag = true, after_help = "Its options: cargo xtask relay --help")]
    Relay(Arguments),
}

/// The arguments of a chore that another program does.
#[derive(clap::Args)]
struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Test(options) => return test::run(&options),
        Command::Tidy => tidy::run(),
        Command::Deny => deny::run(),
        Command::Peers(given) => by_proofs("peers", &given),
        Command::Prove(given) => by_proofs("prove", &given),
        Command::Package(options) => package::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Relay(given) => by_proofs("relay", &given),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Turns this process into the program of `kqps-proofs`, which is built if need be. Only that program contains kqps's
/// crates, so that the other chores are built in seconds.
fn by_proofs(chore: &str, given: &Arguments) -> Result<()> {
    let mut cargo = workspace::cargo_here();
    cargo.args(["run", "--quiet", "--package", "kqps-proofs", "--manifest-path"]);
    cargo.arg(workspace::root().join("Cargo.toml")).args(["--", chore]).args(&given.arguments);
    Err(Error::new(cargo.exec()).context("cannot start cargo"))
}
