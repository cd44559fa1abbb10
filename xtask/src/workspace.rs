//! This workspace: where it lies, what belongs to it, and how its program is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::shell;

/// What `cargo metadata` tells of the workspace's own packages.
#[derive(Deserialize)]
pub struct Metadata {
    /// Its members.
    pub packages: Vec<Package>,
    /// Where cargo builds.
    pub target_directory: PathBuf,
}

/// A member of the workspace.
#[derive(Deserialize)]
pub struct Package {
    /// As in its `Cargo.toml`.
    pub name: String,
    /// What its `Cargo.toml` depends on, of all kinds.
    pub dependencies: Vec<Dependency>,
    /// What is built from it.
    pub targets: Vec<Target>,
}

/// A line under `[dependencies]` or its relatives.
#[derive(Deserialize)]
pub struct Dependency {
    /// The package it names.
    pub name: String,
    /// Its folder, when it is one of ours.
    pub path: Option<PathBuf>,
}

/// A library, program or test.
#[derive(Deserialize)]
pub struct Target {
    /// The file it begins with.
    pub src_path: PathBuf,
}

/// The folder that holds the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// `cargo`, to be run in the workspace's root. It is the one that runs this program, where one does.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Asks cargo about the workspace's own packages.
pub fn metadata() -> Result<Metadata> {
    let text = shell::read(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    serde_json::from_str(&text).context("cannot read what cargo metadata printed")
}

/// Files that git knows or would add, relative to the root. What the user deleted is left out.
pub fn files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = shell::read(&mut git)?;
    let mut files: Vec<PathBuf> =
        listed.split_terminator('\0').map(PathBuf::from).filter(|file| root().join(file).is_file()).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// The program that was asked for, wherever it is then started; without one that is built with optimisation, now.
pub fn program(asked: Option<&Path>) -> Result<PathBuf> {
    let Some(asked) = asked else { return release_build() };
    asked.canonicalize().with_context(|| format!("there is no program {}", asked.display()))
}

/// Builds the bare system calls of an echo with optimisation, and tells where they are.
pub fn calls() -> Result<PathBuf> {
    shell::run(cargo().args(["build", "--release", "--package", "kqps-server", "--example", "calls"]))?;
    Ok(metadata()?.target_directory.join("release/examples/calls"))
}

/// Builds the program with optimisation and tells where it is.
fn release_build() -> Result<PathBuf> {
    shell::run(cargo().args(["build", "--release", "--package", "kqps"]))?;
    Ok(metadata()?.target_directory.join("release/kqps"))
}
