//! Docs that drifted: every path in them must exist, also in drawn trees, every link must lead to a heading, the map must
//! name every crate, every row of a table must have its cells, and no page of the method is too long.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace;

/// Docs that must exist.
const REQUIRED: [&str; 7] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/ARCHITECTURE.md",
    "docs/METHOD.md",
    "docs/STYLE.md",
];

const MAP: &str = "docs/ARCHITECTURE.md";

/// The pages of the method, and the most words of each.
const METHOD: &str = "docs/method";
const METHOD_WORDS_MOST: usize = 2500;

/// Every statement in the docs that does not hold.
pub(super) fn faults(files: &[PathBuf]) -> Result<Vec<String>> {
    let here = Here::from_files(files);
    let mut found: Vec<String> = REQUIRED
        .iter()
        .filter(|required| !here.exists(required))
        .map(|required| format!("{required} is missing"))
        .collect();
    for doc in files.iter().filter(|file| is_doc(file)) {
        let text = fs::read_to_string(workspace::root().join(doc))
            .with_context(|| format!("cannot read {}", doc.display()))?;
        let mut named: Vec<String> = quoted_paths(&text).filter(|path| here.is_ours(path)).collect();
        named.extend(drawn_paths(&text));
        found.extend(
            named
                .iter()
                .filter(|path| !here.exists(path))
                .map(|path| format!("{} names {path}, which is not there", doc.display())),
        );
        for link in links(&text) {
            if !leads_somewhere(doc, &text, &link)? {
                found.push(format!("{} links to {link}, which is not there", doc.display()));
            }
        }
        let torn = torn_rows(&text);
        found.extend(
            torn.map(|line| format!("{}:{line}: a row has not as many cells as its table", doc.display())),
        );
        let words = text.split_whitespace().count();
        if doc.starts_with(METHOD) && words > METHOD_WORDS_MOST {
            found.push(format!("{} has {words} words, more than {METHOD_WORDS_MOST}", doc.display()));
        }
        if doc == Path::new(MAP) {
            found.extend(
                here.crates
                    .iter()
                    .filter(|name| !text.contains(&format!("{name}/")))
                    .map(|name| format!("{MAP} does not name crates/{name}/")),
            );
        }
    }
    Ok(found)
}

/// The lines of tables whose number of cells is not that of the line before. A bar in a cell stands after a backslash.
fn torn_rows(text: &str) -> impl Iterator<Item = usize> {
    let bars = |line: &str| line.starts_with('|').then(|| line.replace("\\|", "").matches('|').count());
    let lines: Vec<Option<usize>> = text.lines().map(bars).collect();
    let is_torn = |pair: &[Option<usize>]| matches!(pair, [Some(one), Some(other)] if one != other);
    (2..)
        .zip(lines.windows(2).map(is_torn).collect::<Vec<bool>>())
        .filter(|(_, is_torn)| *is_torn)
        .map(|(line, _)| line)
}

/// Docs for readers: those in `docs/` and in the root.
fn is_doc(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "md")
        && (file.starts_with("docs") || file.components().count() == 1)
}

/// The contents of the workspace: its files, the folders above them, and its crates.
struct Here {
    paths: BTreeSet<PathBuf>,
    crates: BTreeSet<String>,
}

impl Here {
    fn from_files(files: &[PathBuf]) -> Self {
        let paths: BTreeSet<PathBuf> =
            files.iter().flat_map(|file| file.ancestors().map(Path::to_owned)).collect();
        let in_crates = files.iter().filter_map(|file| file.strip_prefix("crates").ok());
        let crates = in_crates.filter_map(|file| file.iter().next()?.to_str()).map(str::to_owned).collect();
        Self { paths, crates }
    }

    /// Whether a quoted path is one of this workspace: its first part is a folder here or a crate.
    fn is_ours(&self, path: &str) -> bool {
        let first = path.split('/').next().unwrap_or_default();
        !first.is_empty()
            && path.contains('/')
            && (self.paths.contains(Path::new(first)) || self.crates.contains(first))
    }

    /// Whether a path exists as it stands, or below `crates/`, whose name docs may leave out.
    fn exists(&self, path: &str) -> bool {
        let path = Path::new(path.trim_end_matches('/'));
        self.paths.contains(path) || self.paths.contains(&Path::new("crates").join(path))
    }
}

/// The text between backticks that looks like one path. A text with `NAME` or `<name>` stands for several
/// paths, and does not count.
fn quoted_paths(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|quoted| is_path(quoted))
        .map(str::to_owned)
}

fn is_path(quoted: &str) -> bool {
    quoted.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c)) && !quoted.contains("NAME")
}

/// The targets of all links in a text, without those to other hosts.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// Whether a link of this document leads to a file or a folder and, if it is one of a document, to a heading of it.
fn leads_somewhere(doc: &Path, text: &str, link: &str) -> Result<bool> {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = workspace::root().join(doc.parent().unwrap_or(Path::new(""))).join(path);
    let there = match path {
        "" => text.to_owned(),
        _ if !target.exists() => return Ok(false),
        _ if heading.is_empty() => return Ok(true),
        _ => fs::read_to_string(&target).with_context(|| format!("cannot read {}", target.display()))?,
    };
    Ok(headings(&there).any(|anchor| anchor == heading))
}

/// The anchors of all headings of a document: lower case, with hyphens for blanks and without other marks.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')))
        .map(|heading| {
            let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
        })
}

/// Every folder and file in a tree drawn with `├──` and `└──`, as a path below the tree's first line. A
/// parent's children are indented by four columns.
fn drawn_paths(text: &str) -> Vec<String> {
    let mut above: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((before, after)) = line.split_once("├── ").or_else(|| line.split_once("└── "))
        else {
            continue;
        };
        let depth = before.chars().count() / 4;
        let Some(name) = after.split_whitespace().next() else { continue };
        above.truncate(depth);
        above.push(name.trim_end_matches('/'));
        found.push(above.join("/"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_tree_is_read_as_paths() {
        let tree = "kqps/\n├── README.md   words\n├── crates/\n│   ├── message/   bytes\n│   └── kqps/\n└── xtask/\n";
        assert_eq!(drawn_paths(tree), ["README.md", "crates", "crates/message", "crates/kqps", "xtask"]);
    }

    #[test]
    fn a_link_leads_to_a_heading() {
        let text = "# The first one\n## `kqps run`, and what it prints\n[a](#the-first-one) [b](https://a.test/#x) [c](B.md#d)";
        assert_eq!(headings(text).collect::<Vec<_>>(), ["the-first-one", "kqps-run-and-what-it-prints"]);
        assert_eq!(links(text), ["#the-first-one", "B.md#d"]);
        let leads = |link: &str| leads_somewhere(Path::new("docs/A.md"), text, link).unwrap();
        assert!(leads("#the-first-one") && leads("method/accounts.md#the-accounts") && leads("../README.md"));
        assert!(!leads("#none") && !leads("METHOD.md#none") && !leads("NONE.md"));
    }

    #[test]
    fn a_row_has_the_cells_of_its_table() {
        let table = "text\n| a | b |\n| --- | --- |\n| `x \\| y` | 2 |\n| 3 | 4 | 5 |\n| 6 |\n\n| one |\n";
        assert_eq!(torn_rows(table).collect::<Vec<_>>(), [5, 6]);
    }

    #[test]
    fn only_paths_of_this_workspace_are_checked() {
        let here = Here::from_files(&["crates/player/src/lib.rs".into(), "docs/METHOD.md".into()]);
        let named: Vec<String> =
            quoted_paths("see `player/src/gone.rs`, `/proc/stat`, `a/b` and `cargo run`").collect();
        let ours: Vec<&String> = named.iter().filter(|path| here.is_ours(path)).collect();
        assert_eq!(ours, ["player/src/gone.rs"]);
        assert!(!here.exists(ours[0]));
        assert!(here.exists("player/src/lib.rs") && here.exists("crates/player/"));
    }
}
