//! The packages, on systems that have nothing else: a bare Debian without a compiler, a tree with the archive alone, and the
//! image. No container engine runs: the trees are entered by namespaces and `chroot(2)`, as engines do it.

mod alone;
mod deb;
mod files;
mod results;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::Bench;

type Part = (&'static str, fn(&Bench) -> Result<()>);

const PARTS: [Part; 3] = [("deb", deb::prove), ("archive", alone::archive), ("image", alone::image)];

/// Proves every part, or the one that the user names.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    ensure!(
        kqps_kernel::process::effective_user() == 0,
        "the proof of the packages makes namespaces and needs root"
    );
    for (name, part) in bench.parts(&PARTS, |(name, _)| name)? {
        part(bench).with_context(|| format!("package, {name}"))?;
    }
    Ok(())
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
