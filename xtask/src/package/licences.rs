//! The licences of everything in the program: a machine-readable copyright file (DEP-5) and the texts of all crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
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

/// What is in every program beside crates, with the texts of its licences: Rust's standard library, and musl in a static
/// program.
pub(super) fn libraries(is_static: bool) -> Result<Vec<(&'static str, String)>> {
    let read = |path: &Path, from: &str| {
        let text = fs::read_to_string(path);
        text.with_context(|| format!("the program must come with {}, which is in {from}", path.display()))
    };
    let sysroot =
        shell::read(Command::new("rustc").current_dir(workspace::root()).args(["--print", "sysroot"]))?;
    let std = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    let mut found = vec![("Rust's standard library", without_markup(&read(&std, "the Rust toolchain")?))];
    if is_static {
        let musl = Path::new("/usr/share/doc/musl/copyright");
        found.push(("the C library musl", read(musl, "the Debian package musl")?));
    }
    Ok(found)
}

/// The text of a page, with no more than one empty line at a time.
fn without_markup(page: &str) -> String {
    let mut text = String::new();
    for part in page.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, after)| after));
    }
    let signs =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&")];
    let text = signs.iter().fold(text, |text, (from, to)| text.replace(from, to));
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|one, before| one.is_empty() && before.is_empty());
    lines.join("\n")
}

/// The texts of all crates and of these libraries. Equal texts stand once, below all crates that have them.
pub(super) fn texts(crates: &[Crate], libraries: &[(&str, String)]) -> String {
    let mut whose: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut text = String::from(
        "kqps contains these crates, under these licences, and the libraries at the end. Their texts follow.\n\n",
    );
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
    for (name, content) in libraries {
        write!(text, "\n{}\n{name}:\n\n{}\n", "-".repeat(80), content.trim()).expect("as above");
    }
    text
}

/// A copyright file by DEP-5: kqps, then every crate in it, then where the licences stand.
pub(super) fn copyright(crates: &[Crate]) -> Result<String> {
    let ours = workspace::root().join("LICENSE-MIT");
    let ours = fs::read_to_string(&ours).with_context(|| format!("cannot read {}", ours.display()))?;
    copyright_with(crates, &ours)
}

fn copyright_with(crates: &[Crate], mit: &str) -> Result<String> {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: kqps\n\
         Comment: The program contains the crates below vendor/, each linked into it, and Rust's standard library.\n \
         Their licences with all notices are in /usr/share/doc/kqps/third-party.txt.gz.\n\n\
         Files: *\nCopyright: 2026 The kqps authors\nLicense: Apache-2.0 or MIT\n",
    );
    let mut names = BTreeSet::from(["Apache-2.0 or MIT".to_owned()]);
    for one in crates {
        let license = debian_license(&one.license)
            .with_context(|| format!("{} {}: {}", one.name, one.version, one.license))?;
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
            // The licence itself begins after our own notice.
            "MIT" => indented(mit.find(MIT_BEGINS).map_or(mit, |begin| &mit[begin..])),
            other => text_of(crates, other).map_or_else(|| ELSEWHERE.to_owned(), indented),
        };
        write!(text, "\nLicense: {name}\n{body}").expect("a string takes everything");
    }
    Ok(text)
}

/// The first words of the MIT licence after the notice of who has the copyright.
const MIT_BEGINS: &str = "Permission is hereby granted";

/// What stands for the text of a licence that no crate has in a file of its own.
const ELSEWHERE: &str =
    " The text is in /usr/share/doc/kqps/third-party.txt.gz, with the crates that have it.\n";

/// The text of a licence (Debian policy, section 12.5): the only file of a crate that has no other licence, or a file that is
/// named after the licence, such as `LICENSE-ZLIB`.
fn text_of<'c>(crates: &'c [Crate], name: &str) -> Option<&'c str> {
    let word = name.split(['-', ' ']).next().unwrap_or(name).to_lowercase();
    let of = |one: &'c Crate| {
        let licences = single_licenses(&debian_license(&one.license).ok()?);
        if !licences.iter().any(|licence| licence == name) {
            return None;
        }
        let named = one.texts.iter().find(|(file, _)| file.to_lowercase().ends_with(&word));
        let only = one.texts.first().filter(|_| licences.len() == 1 && one.texts.len() == 1);
        only.or(named).map(|(_, text)| text.as_str())
    };
    crates.iter().find_map(of)
}

/// An SPDX expression as DEP-5 writes it. A slash is the old way to say `OR`. DEP-5 has no brackets: `and` binds before `or`,
/// and after a comma before it `and` binds last. An error if that does not suffice.
fn debian_license(expression: &str) -> Result<String> {
    let expression = expression.replace('/', " OR ");
    let groups = split(&expression, " AND ");
    if !expression.contains('(') || groups.len() == 1 {
        let whole = expression.trim();
        let inner = whole.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        return plain(inner.filter(|inner| !inner.contains(['(', ')'])).unwrap_or(whole));
    }
    let plain_group = |group: &&str| {
        let group = group.trim();
        plain(group.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(group))
    };
    let groups = groups.iter().map(plain_group).collect::<Result<Vec<_>>>()?;
    Ok(groups.join(", and "))
}

/// An expression without brackets, as DEP-5 writes it.
fn plain(expression: &str) -> Result<String> {
    ensure!(!expression.contains(['(', ')']), "DEP-5 cannot say this licence without brackets");
    let words = expression.split_whitespace().map(|word| match word {
        "OR" => "or",
        "AND" => "and",
        "WITH" => "with",
        other => other,
    });
    let words: Vec<&str> = words.collect();
    Ok(words.join(" ").replace("with LLVM-exception", "with LLVM-exception exception"))
}

/// The parts of an expression between these words, of which those in brackets do not count. The whole if an `OR` outside of
/// brackets binds them.
fn split<'e>(expression: &'e str, between: &str) -> Vec<&'e str> {
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(" OR ") => return vec![expression],
            _ if depth == 0 && expression[at..].starts_with(between) => {
                parts.push(&expression[begin..at]);
                begin = at + between.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[begin..]);
    parts
}

/// The licences in an expression of DEP-5, an exception with the licence that it belongs to.
fn single_licenses(expression: &str) -> Vec<String> {
    let groups = expression.split(", and ").flat_map(|group| group.split(" or "));
    let alternatives = groups.flat_map(|part| part.split(" and "));
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
        for (expression, wanted) in [
            ("MIT/Apache-2.0", "MIT or Apache-2.0"),
            ("MIT OR ISC AND Zlib", "MIT or ISC and Zlib"),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", "MIT or Apache-2.0, and Unicode-3.0"),
            ("ISC AND (Apache-2.0 OR ISC) AND MIT", "ISC, and Apache-2.0 or ISC, and MIT"),
            ("(MIT OR ISC)", "MIT or ISC"),
        ] {
            assert_eq!(debian_license(expression).unwrap(), wanted);
        }
        for deep in ["MIT OR (ISC AND (Zlib OR MIT-0))", "MIT OR (ISC OR Zlib) AND MIT-0"] {
            assert!(debian_license(deep).is_err(), "{deep}");
        }
        let with = debian_license("Apache-2.0 WITH LLVM-exception OR MIT").unwrap();
        assert_eq!(single_licenses(&with), ["Apache-2.0 with LLVM-exception exception", "MIT"]);
        assert_eq!(single_licenses("MIT or ISC, and Zlib"), ["MIT", "ISC", "Zlib"]);
    }

    #[test]
    fn every_licence_has_a_paragraph_and_every_crate_its_holders() {
        let crates = [
            one("alpha", "MIT", "Copyright (c) 2019 Alpha authors\n\nPermission is granted"),
            one("beta", "ISC AND Zlib", "no notice here"),
            one("gamma", "BSL-1.0", "Boost text"),
        ];
        let mit = format!("Copyright 2026 us\n\n{MIT_BEGINS}\n\nlast\n");
        let text = copyright_with(&crates, &mit).unwrap();
        assert!(
            text.contains("\nFiles: vendor/alpha-1.0.0/*\nCopyright: (c) 2019 Alpha authors\nLicense: MIT\n")
        );
        assert!(text.contains(
            "\nFiles: vendor/beta-1.0.0/*\nCopyright: the authors of beta\nLicense: ISC and Zlib\n"
        ));
        assert!(text.contains("\nLicense: MIT\n Permission is hereby granted\n .\n last\n"), "{text}");
        assert!(text.contains("\nLicense: BSL-1.0\n Boost text\n"), "{text}");
        for name in ["Apache-2.0", "ISC", "MIT", "Zlib"] {
            assert!(text.contains(&format!("\n\nLicense: {name}\n ")), "{name}: {text}");
        }
    }

    #[test]
    fn all_crates_of_the_program_have_texts_and_licences_that_dep_5_can_say() {
        let crates = crates(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH)).unwrap();
        copyright(&crates).unwrap();
        let names: Vec<&str> = crates.iter().map(|one| one.name.as_str()).collect();
        assert!(names.contains(&"serde") && !names.contains(&"serde_derive"), "{names:?}");
        let native = crates.iter().find(|one| one.name == "aws-lc-sys").unwrap();
        assert!(native.texts.iter().any(|(file, _)| file == "aws-lc/third_party/fiat/LICENSE"));
    }

    #[test]
    fn a_page_becomes_text() {
        let page = "<html>\n<h1>Name</h1>\n\n\n<pre>&lt;us&gt; &amp; you</pre>\n</html>";
        assert_eq!(without_markup(page), "\nName\n\n<us> & you");
    }

    #[test]
    fn equal_texts_stand_once() {
        let crates = [
            one("alpha", "MIT", "the same\n"),
            one("beta", "MIT", "the same"),
            one("gamma", "ISC", "another"),
        ];
        let text = texts(&crates, &[("a library", "its text".into())]);
        assert!(text.ends_with("\na library:\n\nits text\n"), "{text}");
        assert_eq!(text.matches("the same").count(), 1);
        assert!(text.contains("alpha 1.0.0 (LICENSE), beta 1.0.0 (LICENSE):\n\nthe same\n"), "{text}");
        assert!(text.contains("gamma 1.0.0: ISC\n"), "{text}");
    }
}
