//! `cargo xtask deny`: advisories, licences, duplicate versions and sources of all dependencies, by cargo-deny. The
//! rules are in `deny.toml`.

use anyhow::{Result, bail};

use kqps_programs::shell;

use crate::workspace::cargo;

/// The checks whose result follows from `Cargo.lock` alone. Advisories come from a database that changes every day.
const FIXED: [&str; 3] = ["bans", "licenses", "sources"];

/// Leaves out which crates need the crate of a remark, which is most of the output.
const SHORT: &str = "--hide-inclusion-graph";

/// How to get cargo-deny.
pub const INSTALL: &str = "cargo install --locked cargo-deny";

/// Whether cargo-deny can be run.
pub fn is_installed() -> bool {
    shell::read(cargo().args(["deny", "--version"])).is_ok()
}

/// Runs all checks. cargo-deny fetches the database of advisories.
pub fn run() -> Result<()> {
    if !is_installed() {
        bail!("cargo-deny is not installed: {INSTALL}");
    }
    shell::run(cargo().args(["deny", "check", SHORT]))
}

/// Runs the checks that give the same result for the same `Cargo.lock`.
pub fn check_fixed() -> Result<()> {
    shell::run(cargo().args(["deny", "check", SHORT]).args(FIXED))
}
