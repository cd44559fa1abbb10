//! The packages, on systems that have nothing else: a bare Debian without a compiler, a tree with the archive alone, and the
//! image in buildah. The trees are entered by namespaces and `chroot(2)`. The small form is the tested program in such a tree.

mod bare_tree;
mod deb;
mod files;
mod image;
mod results;
mod rights;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_programs::shell;
use serde_json::Value;

use super::{Bench, Part, Size};

/// The part that needs no packages.
const SMALL: Part = ("program", bare_tree::program);

const PARTS: [Part; 4] =
    [SMALL, ("deb", deb::prove), ("archive", bare_tree::archive), ("image", image::prove)];

/// Proves every part, or the one that the user names.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let parts = match bench.size {
        Size::Small => &PARTS[..1],
        Size::Whole => &PARTS[..],
    };
    bench.prove_parts(parts, |_| false)
}

/// The version of all packages. An error if they are not of one version.
fn version(bench: &Bench) -> Result<String> {
    let deb =
        shell::read(Command::new("dpkg-deb").arg("--field").arg(package(bench, ".deb")?).arg("Version"))?;
    let version =
        deb.trim().strip_suffix("-1").context("the Debian package is not the first of its version")?;
    let archive = package(bench, ".tar.gz")?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    ensure!(name.starts_with(&format!("kqps-{version}-")), "the archive of {version} is called {name}");
    let sbom: Value = serde_json::from_slice(&std::fs::read(package(bench, ".cdx.json")?)?)
        .context("the list of crates is not JSON")?;
    let listed = &sbom["metadata"]["component"]["version"];
    ensure!(*listed == *version, "the list of crates is of {listed}, and the Debian package of {version}");
    Ok(version.to_owned())
}

/// The only file among the packages whose name ends like this.
fn package(bench: &Bench, end: &str) -> Result<PathBuf> {
    let folder =
        bench.packages.as_deref().context("the packages to prove are missing: cargo xtask package")?;
    find(folder, end)
}

fn find(folder: &Path, end: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end)))
        .collect();
    let one = found.pop().with_context(|| format!("{} has no file *{end}", folder.display()))?;
    ensure!(found.is_empty(), "{} has several files *{end}: remove the old ones", folder.display());
    Ok(one)
}
