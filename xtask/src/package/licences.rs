//! The crates in the program, with the texts of their licences.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use kqps_programs::shell;

use crate::workspace::{self, cargo};

/// The facts of `cargo metadata` about all crates.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for the crates of this workspace.
    source: Option<String>,
    #[serde(default)]
    authors: Vec<String>,
    manifest_path: PathBuf,
    /// The library in another language that it links, if any.
    links: Option<String>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

impl Package {
    /// Whether the compiler runs it, and the program does not have it.
    fn is_of_compiler(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
    }
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `dev` or `build`; `None` for what becomes part of the program.
    kind: Option<String>,
}

/// A crate by others that is part of the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    /// Its licence, as an SPDX expression.
    pub(super) license: String,
    pub(super) authors: Vec<String>,
    /// The name and text of each file about its licence.
    pub(super) texts: Vec<(String, String)>,
    /// The folder of its source.
    pub(super) folder: PathBuf,
}

/// Words with which the names of such files begin.
const FILES: [&str; 5] = ["licen", "copying", "notice", "unlicen", "copyright"];

/// Crates without such a file. The repository's own text of Apache-2.0, which each of them allows, stands for it.
const WITHOUT_TEXT: [&str; 1] = ["etherparse"];

/// How deep the sources of a library in another language lie in the crate that links it.
const DEEP: u32 = 4;

/// Every crate by others in the program for a target, by name and version.
pub(super) fn crates(target: &str) -> Result<Vec<Crate>> {
    let text = shell::read(cargo().args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        target,
    ]))?;
    let metadata: Metadata =
        serde_json::from_str(&text).context("cannot read what cargo metadata printed")?;
    let inside = inside(&metadata, "kqps");
    let others =
        metadata.packages.iter().filter(|one| one.source.is_some() && inside.contains(one.id.as_str()));
    let mut found = others.map(Crate::read).collect::<Result<Vec<_>>>()?;
    found.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(found)
}

/// The IDs of a package and of all that becomes part of its program.
fn inside<'m>(metadata: &'m Metadata, name: &str) -> BTreeSet<&'m str> {
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let first = metadata.packages.iter().find(|package| package.name == name && package.source.is_none());
    let of_compiler: BTreeSet<&str> =
        metadata.packages.iter().filter(|one| one.is_of_compiler()).map(|one| one.id.as_str()).collect();
    let mut to_see: Vec<&str> = first.map(|package| package.id.as_str()).into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = to_see.pop() {
        let is_in_program = |_: &&&Node| !of_compiler.contains(id) && seen.insert(id);
        let Some(node) = nodes.get(id).filter(is_in_program) else { continue };
        let is_inside = |dependency: &&Dependency| dependency.dep_kinds.iter().any(|one| one.kind.is_none());
        to_see.extend(node.deps.iter().filter(is_inside).map(|dependency| dependency.pkg.as_str()));
    }
    seen
}

impl Crate {
    fn read(package: &Package) -> Result<Self> {
        let license =
            package.license.clone().with_context(|| format!("{} states no licence", package.name))?;
        let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
        let mut texts = Vec::new();
        let deep = if package.links.is_some() { DEEP } else { 0 };
        read_texts(folder, "", deep, &mut texts)?;
        texts.sort();
        let Package { name, version, authors, .. } = package;
        if texts.is_empty() {
            ensure!(
                WITHOUT_TEXT.contains(&name.as_str()),
                "{name} {version} has no file with its licence: add it to WITHOUT_TEXT if another text may stand for it"
            );
            let path = workspace::root().join("LICENSE-APACHE");
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            texts.push(("Apache-2.0, not in the crate".into(), text));
        }
        let (name, version, authors) = (name.clone(), version.clone(), authors.clone());
        Ok(Self { name, version, license, authors, texts, folder: folder.to_owned() })
    }

    /// The lines of its files that name who has the copyright; else its authors.
    pub(super) fn holders(&self) -> Vec<String> {
        let is_notice = |line: &&str| {
            let lower = line.to_lowercase();
            let marked = lower.starts_with("copyright") && (lower.contains("(c)") || lower.contains('©'));
            marked || lower.starts_with("copyright 1") || lower.starts_with("copyright 2")
        };
        let lines = self.texts.iter().flat_map(|(_, text)| text.lines()).map(str::trim).filter(is_notice);
        let mut found: Vec<String> =
            lines.map(|line| line.trim_start_matches("Copyright ").to_owned()).collect();
        if found.is_empty() {
            found.clone_from(&self.authors);
        }
        if found.is_empty() {
            found.push(format!("the authors of {}", self.name));
        }
        let mut seen = BTreeSet::new();
        found.retain(|holder| seen.insert(holder.clone()));
        found
    }
}

/// Reads the files about licences in a folder, and in the folders below it that are no deeper than `deep`. `above` stands
/// before their names.
fn read_texts(folder: &Path, above: &str, deep: u32, found: &mut Vec<(String, String)>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() && deep > 0 {
            read_texts(&entry.path(), &format!("{above}{name}/"), deep - 1, found)?;
        } else if kind.is_file() && FILES.iter().any(|begin| name.to_lowercase().starts_with(begin)) {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
            found.push((format!("{above}{name}"), text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tools::gnu;
    use super::*;

    #[test]
    fn all_crates_of_the_program_have_texts() {
        let crates = crates(&gnu()).unwrap();
        let names: Vec<&str> = crates.iter().map(|one| one.name.as_str()).collect();
        assert!(names.contains(&"serde") && !names.contains(&"serde_derive"), "{names:?}");
        let native = crates.iter().find(|one| one.name == "aws-lc-sys").unwrap();
        assert!(native.texts.iter().any(|(file, _)| file == "aws-lc/third_party/fiat/LICENSE"));
    }
}
