//! The licences of everything in the program: a machine-readable copyright file (DEP-5) and the texts of all crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use kqps_proofs::shell;

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
    name: String,
    version: String,
    /// Its licence, as an SPDX expression.
    license: String,
    authors: Vec<String>,
    /// The name and text of each file about its licence.
    texts: Vec<(String, String)>,
}

/// Words with which the names of such files begin.
const FILES: [&str; 5] = ["licen", "copying", "notice", "unlicen", "copyright"];

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
    let mut to_see: Vec<&str> = first.map(|package| package.id.as_str()).into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = to_see.pop() {
        let Some(node) = nodes.get(id).filter(|_| seen.insert(id)) else { continue };
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
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_file() && FILES.iter().any(|begin| name.to_lowercase().starts_with(begin)) {
                texts.push((name, String::from_utf8_lossy(&fs::read(entry.path())?).into_owned()));
            }
        }
        texts.sort();
        let Package { name, version, authors, .. } = package;
        Ok(Self { name: name.clone(), version: version.clone(), license, authors: authors.clone(), texts })
    }

    /// The lines of its files that name who has the copyright; else its authors.
    fn holders(&self) -> Vec<String> {
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

/// The texts of all crates. Equal texts stand once, below all crates that have them.
pub(super) fn texts(crates: &[Crate]) -> String {
    let mut whose: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut text = String::from("kqps contains these crates, under these licences. Their texts follow.\n\n");
    for one in crates {
        let Crate { name, version, license, .. } = one;
        writeln!(text, "{name} {version}: {license}").expect("a string takes everything");
        for (file, content) in &one.texts {
            whose.entry(content.trim()).or_default().push(format!("{name} {version} ({file})"));
        }
    }
    let mut sections: Vec<_> = whose.into_iter().map(|(content, names)| (names, content)).collect();
    sections.sort();
    for (names, content) in sections {
        write!(text, "\n{}\n{}:\n\n{content}\n", "-".repeat(80), names.join(", ")).expect("as above");
    }
    text
}

/// A copyright file by DEP-5: kqps, then every crate in it, then where the licences stand.
pub(super) fn copyright(crates: &[Crate]) -> Result<String> {
    let ours = workspace::root().join("LICENSE-MIT");
    let ours = fs::read_to_string(&ours).with_context(|| format!("cannot read {}", ours.display()))?;
    Ok(copyright_with(crates, &ours))
}

fn copyright_with(crates: &[Crate], mit: &str) -> String {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: kqps\n\
         Comment: The program contains the crates below vendor/, each linked into it.\n \
         Their licences with all notices are in /usr/share/doc/kqps/third-party.txt.gz.\n\n\
         Files: *\nCopyright: 2026 The kqps authors\nLicense: Apache-2.0 or MIT\n",
    );
    let mut names = BTreeSet::from(["Apache-2.0 or MIT".to_owned()]);
    for one in crates {
        let license = debian_license(&one.license);
        let holders = one.holders().join("\n           ");
        let Crate { name, version, .. } = one;
        write!(text, "\nFiles: vendor/{name}-{version}/*\nCopyright: {holders}\nLicense: {license}\n")
            .expect("a string takes everything");
        names.insert(license);
    }
    let single: BTreeSet<String> = names.iter().flat_map(|name| single_licenses(name)).collect();
    for name in single {
        let body = match name.as_str() {
            "Apache-2.0" => {
                " On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.\n".to_owned()
            }
            "MIT" => indented(mit),
            _ => " The text is in /usr/share/doc/kqps/third-party.txt.gz, with the crates that have it.\n"
                .to_owned(),
        };
        write!(text, "\nLicense: {name}\n{body}").expect("a string takes everything");
    }
    text
}

/// An SPDX expression as DEP-5 writes it. A slash is the old way to say `OR`.
fn debian_license(expression: &str) -> String {
    let words = expression.replace('/', " OR ").replace(['(', ')'], "");
    let words = words.split_whitespace().map(|word| match word {
        "OR" => "or",
        "AND" => "and",
        "WITH" => "with",
        other => other,
    });
    let words: Vec<&str> = words.collect();
    words.join(" ").replace("with LLVM-exception", "with LLVM-exception exception")
}

/// The licences in an expression of DEP-5, an exception with the licence that it belongs to.
fn single_licenses(expression: &str) -> Vec<String> {
    let alternatives = expression.split(" or ").flat_map(|part| part.split(" and "));
    alternatives.map(|one| one.trim().to_owned()).collect()
}

/// A text as the body of a field: each line is indented, and an empty one is a dot.
fn indented(text: &str) -> String {
    text.trim()
        .lines()
        .map(|line| if line.trim().is_empty() { " .\n".into() } else { format!(" {line}\n") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, license: &str, text: &str) -> Crate {
        Crate {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.into(),
            authors: Vec::new(),
            texts: vec![("LICENSE".into(), text.into())],
        }
    }

    #[test]
    fn expressions_are_those_of_dep_5() {
        assert_eq!(debian_license("MIT/Apache-2.0"), "MIT or Apache-2.0");
        assert_eq!(
            debian_license("(MIT OR Apache-2.0) AND Unicode-3.0"),
            "MIT or Apache-2.0 and Unicode-3.0"
        );
        let with = debian_license("Apache-2.0 WITH LLVM-exception OR MIT");
        assert_eq!(single_licenses(&with), ["Apache-2.0 with LLVM-exception exception", "MIT"]);
    }

    #[test]
    fn every_licence_has_a_paragraph_and_every_crate_its_holders() {
        let crates = [
            one("alpha", "MIT", "Copyright (c) 2019 Alpha authors\n\nPermission is granted"),
            one("beta", "ISC AND Zlib", "no notice here"),
        ];
        let text = copyright_with(&crates, "first\n\nlast\n");
        assert!(
            text.contains("\nFiles: vendor/alpha-1.0.0/*\nCopyright: (c) 2019 Alpha authors\nLicense: MIT\n")
        );
        assert!(text.contains(
            "\nFiles: vendor/beta-1.0.0/*\nCopyright: the authors of beta\nLicense: ISC and Zlib\n"
        ));
        assert!(text.contains("\nLicense: MIT\n first\n .\n last\n"), "{text}");
        for name in ["Apache-2.0", "ISC", "MIT", "Zlib"] {
            assert!(text.contains(&format!("\n\nLicense: {name}\n ")), "{name}: {text}");
        }
    }

    #[test]
    fn equal_texts_stand_once() {
        let crates = [
            one("alpha", "MIT", "the same\n"),
            one("beta", "MIT", "the same"),
            one("gamma", "ISC", "another"),
        ];
        let text = texts(&crates);
        assert_eq!(text.matches("the same").count(), 1);
        assert!(text.contains("alpha 1.0.0 (LICENSE), beta 1.0.0 (LICENSE):\n\nthe same\n"), "{text}");
        assert!(text.contains("gamma 1.0.0: ISC\n"), "{text}");
    }
}
