//! Documents and examples of the repository in a package. A link leads to what the package has, or is plain text there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::copy;
use crate::workspace;

/// A place of the repository, and its place in a package: a file, or a folder with all files that git knows in it.
pub(super) type Place = (&'static str, &'static str);

/// Files by their path in the repository, with their path in the package.
type Files = BTreeMap<PathBuf, PathBuf>;

/// Copies these places into the folder of a package.
pub(super) fn copy_all(places: &[Place], folder: &Path) -> Result<()> {
    let files = files(places, &workspace::known_files()?)?;
    for (from, to) in &files {
        let (source, target) = (workspace::root().join(from), folder.join(to));
        if from.extension().is_some_and(|end| end == "md") {
            let text =
                fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
            super::write(&target, linked(&text, from, &files))?;
        } else {
            copy(&source, &target)?;
        }
    }
    Ok(())
}

/// The files of these places among those that git knows. An error if a place has none.
fn files(places: &[Place], known: &[PathBuf]) -> Result<Files> {
    let mut found = Files::new();
    for (from, to) in places {
        let before = found.len();
        for file in known {
            let Ok(rest) = file.strip_prefix(from) else { continue };
            let is_itself = rest.as_os_str().is_empty();
            found.insert(file.clone(), if is_itself { to.into() } else { Path::new(to).join(rest) });
        }
        ensure!(found.len() > before, "there is no {from} in the repository");
    }
    Ok(found)
}

/// The text of a document of the repository, `[WORDS](TARGET)` being a link, as it stands in the package.
fn linked(text: &str, from: &Path, files: &Files) -> String {
    let mut parts = text.split("](");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((target, rest)) = part.split_once(')') else {
            whole += "](";
            whole += part;
            continue;
        };
        match there(target, from, files) {
            Some(target) => write!(whole, "]({target})").expect("a string takes everything"),
            None => unlink(&mut whole),
        }
        whole += rest;
    }
    whole
}

/// Removes the bracket before the words of the last link, and the mark of an image.
fn unlink(text: &mut String) {
    if let Some(begin) = text.rfind('[') {
        text.remove(begin);
        if text[..begin].ends_with('!') {
            text.remove(begin - 1);
        }
    }
}

/// Where a link of a document leads in the package. `None` if the package lacks it.
fn there(target: &str, from: &Path, files: &Files) -> Option<String> {
    if target.contains("://") || target.starts_with('#') {
        return Some(target.to_owned());
    }
    let (path, heading) = target
        .split_once('#')
        .map_or((target, String::new()), |(path, heading)| (path, format!("#{heading}")));
    let wanted = plain(&from.parent()?.join(path));
    // A folder is where its files are.
    let place = files.iter().find_map(|(file, to)| {
        let below = file.strip_prefix(&wanted).ok()?.components().count();
        to.ancestors().nth(below)
    })?;
    let link = between(files.get(from)?.parent()?, place);
    Some(format!("{}{heading}", link.display()))
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// The way from a folder to a path; neither has `..`.
fn between(folder: &Path, path: &Path) -> PathBuf {
    let shared = folder.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_what_the_package_has() {
        let known = ["README.md", "docs/A.md", "docs/schema/run.json", "studies/cache.toml", "docs/p.png"];
        let known = known.map(PathBuf::from);
        let places = [("README.md", "README.md"), ("docs", "docs"), ("studies", "examples/studies")];
        let files = files(&places, &known).unwrap();
        let inside = |text: &str, from: &str| linked(text, Path::new(from), &files);
        for (text, from, wanted) in [
            (
                "see [A](docs/A.md#b), [us](https://a.b/c)",
                "README.md",
                "see [A](docs/A.md#b), [us](https://a.b/c)",
            ),
            ("[c](../studies/cache.toml) and", "docs/A.md", "[c](../examples/studies/cache.toml) and"),
            ("[all](../studies) or [here](#b)", "docs/A.md", "[all](../examples/studies) or [here](#b)"),
            ("[schema](schema), ![p](p.png)", "docs/A.md", "[schema](schema), ![p](p.png)"),
            ("[help](CONTRIBUTING.md), ![x](x.png).", "README.md", "help, x."),
            ("f[1](", "README.md", "f[1]("),
        ] {
            assert_eq!(inside(text, from), wanted);
        }
        assert!(super::files(&[("recipes", "recipes")], &known).is_err());
    }
}
