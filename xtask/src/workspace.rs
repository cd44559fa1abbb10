//! This workspace: its root, its files, and the build of its program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use kqps_programs::shell;

/// The facts of `cargo metadata` about the workspace's own packages.
#[derive(Deserialize)]
pub struct Metadata {
    /// The packages of the workspace.
    pub packages: Vec<Package>,
    /// The folder that cargo builds in.
    pub target_directory: PathBuf,
}

/// A member of the workspace.
#[derive(Deserialize)]
pub struct Package {
    /// Its name in `Cargo.toml`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Its dependencies of all kinds.
    pub dependencies: Vec<Dependency>,
    /// Its libraries, programs and tests.
    pub targets: Vec<Target>,
}

/// A line under `[dependencies]` or a similar section of `Cargo.toml`.
#[derive(Deserialize)]
pub struct Dependency {
    /// The name of the package.
    pub name: String,
    /// Its folder, if it is one of this workspace; `None` otherwise.
    pub path: Option<PathBuf>,
    /// `dev` or `build`; `None` for a dependency of the package itself.
    pub kind: Option<String>,
}

impl Dependency {
    /// Whether only tests, examples and benches use it.
    pub fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// A library, program or test.
#[derive(Deserialize)]
pub struct Target {
    /// The path of its root file.
    pub src_path: PathBuf,
}

/// The folder that holds the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// `cargo`, to be run in the workspace's root. If a cargo runs this program, it is that one.
pub fn cargo() -> Command {
    let mut command = cargo_here();
    command.current_dir(root());
    command
}

/// `cargo`, to be run in the user's folder, for a program that is given the user's paths.
pub fn cargo_here() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Asks cargo about the workspace's own packages. An error if cargo fails.
pub fn metadata() -> Result<Metadata> {
    let text = shell::read(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    serde_json::from_str(&text).context("cannot read what cargo metadata printed")
}

/// Files that git knows or would add, relative to the root. Files that the user deleted are left out.
pub fn files() -> Result<Vec<PathBuf>> {
    listed(&["--cached", "--others", "--exclude-standard"])
}

/// Files that git knows, relative to the root. Files that the user deleted are left out.
pub fn known_files() -> Result<Vec<PathBuf>> {
    listed(&["--cached"])
}

fn listed(options: &[&str]) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "-z"]).args(options);
    let listed = shell::read(&mut git)?;
    let mut files: Vec<PathBuf> =
        listed.split_terminator('\0').map(PathBuf::from).filter(|file| root().join(file).is_file()).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// The absolute path of the given program. Without one, this builds kqps with optimisation and returns its
/// path.
pub fn program(asked: Option<&Path>) -> Result<PathBuf> {
    let Some(asked) = asked else { return release_build() };
    asked.canonicalize().with_context(|| format!("there is no program {}", asked.display()))
}

/// Builds the bare system calls of an echo with optimisation, and returns their path.
pub fn calls() -> Result<PathBuf> {
    shell::run(cargo().args(["build", "--release", "--package", "kqps-server", "--example", "calls"]))?;
    Ok(metadata()?.target_directory.join("release/examples/calls"))
}

/// Builds the player's loop over rings without a kernel with optimisation, and returns its path.
pub fn rings() -> Result<PathBuf> {
    shell::run(cargo().args(["build", "--release", "--package", "kqps-player", "--example", "rings"]))?;
    Ok(metadata()?.target_directory.join("release/examples/rings"))
}

/// Builds the agent that plays no load with optimisation, beside kqps.
pub fn silent_agent() -> Result<()> {
    shell::run(cargo().args(["build", "--release", "--package", "kqps-proofs", "--example", "agent"]))
}

/// Builds kqps with optimisation, and returns its path.
fn release_build() -> Result<PathBuf> {
    shell::run(cargo().args(["build", "--release", "--package", "kqps"]))?;
    Ok(metadata()?.target_directory.join("release/kqps"))
}
