//! Requirements for making packages: Debian packages, crates with programs for cargo, and a Rust target. Missing ones
//! are installed if that is allowed; otherwise the error says what to install.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use kqps_programs::shell;

use super::Kind;
use crate::test::packages::{self, Package};
use crate::workspace::{self, cargo};

/// A crate with a program for cargo, at the version that its output was checked with.
pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Makes Debian packages. It needs no library of xz, since the program xz compresses.
pub(super) const CARGO_DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };

/// Lists the crates in a program.
pub(super) const CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9" };

/// Installs what these kinds need.
pub(super) fn install(kinds: &[Kind]) -> Result<()> {
    let mut wanted = vec![Package::with_program("binutils", "strip")];
    if kinds.contains(&Kind::Deb) {
        wanted.extend([
            Package::with_program("dpkg-dev", "dpkg-shlibdeps"),
            Package::with_program("lintian", "lintian"),
            Package::with_program("xz-utils", "xz"),
        ]);
        CARGO_DEB.install()?;
    }
    if kinds.contains(&Kind::Archive) || kinds.contains(&Kind::Image) {
        wanted.push(Package::with_program("musl-tools", "musl-gcc"));
        add_target()?;
    }
    if kinds.contains(&Kind::Archive) {
        CYCLONEDX.install()?;
    }
    if kinds.contains(&Kind::Image) {
        wanted.push(Package::with_program("buildah", "buildah"));
    }
    have(&wanted)
}

/// Installs what the proof of the packages needs beside them.
pub(super) fn install_for_proof() -> Result<()> {
    have(&[
        Package::with_program("buildah", "buildah"),
        Package::with_program("iproute2", "ip"),
        Package::with_program("mmdebstrap", "mmdebstrap"),
        Package::with_program("util-linux", "unshare"),
    ])
}

/// Installs Debian packages. An error names those that are missing afterwards.
fn have(wanted: &[Package]) -> Result<()> {
    packages::install_missing(wanted)?;
    let missing = packages::missing(wanted).join(" ");
    if !missing.is_empty() {
        bail!("these Debian packages are missing: {missing}");
    }
    Ok(())
}

/// The target of the program against the system's C library.
pub(super) fn gnu() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// The target of the static program.
pub(super) fn musl() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Adds the target to the Rust toolchain, unless it is there.
fn add_target() -> Result<()> {
    let target = musl();
    let libraries =
        shell::read(Command::new("rustc").args(["--print", "target-libdir", "--target", &target]))?;
    if PathBuf::from(libraries.trim()).is_dir() {
        return Ok(());
    }
    shell::run(Command::new("rustup").current_dir(workspace::root()).args(["target", "add", &target]))
        .with_context(|| format!("the Rust toolchain lacks the target {target}, and rustup could not add it"))
}

impl Tool {
    /// Its program.
    pub(super) fn command(&self) -> Result<Command> {
        let mut command = Command::new(Self::folder()?.join("bin").join(self.name));
        command.current_dir(workspace::root());
        Ok(command)
    }

    /// Where all of them are installed. The user's own are neither used nor replaced.
    fn folder() -> Result<PathBuf> {
        Ok(workspace::metadata()?.target_directory.join("package-tools"))
    }

    /// Installs it, unless this version is there. It is built without optimisation, which takes half the time.
    fn install(&self) -> Result<()> {
        let Self { name, version } = self;
        let installed = shell::read(&mut {
            let mut list = cargo();
            list.args(["install", "--list", "--root"]).arg(Self::folder()?);
            list
        })?;
        if installed.lines().any(|line| line.starts_with(&format!("{name} v{version}:"))) {
            return Ok(());
        }
        let mut install = cargo();
        install
            .args(["install", "--locked", "--debug", "--no-default-features", "--root"])
            .arg(Self::folder()?);
        shell::run(install.arg(format!("{name}@{version}")))
            .with_context(|| format!("{name} {version} is missing, and cargo could not install it"))
    }
}
