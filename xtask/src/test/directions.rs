//! The direction of dependencies between crates. Cargo and the picture in `docs/ARCHITECTURE.md` must agree: a dependency
//! without an arrow fails the check, and so does an arrow that cargo does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::workspace::{self, Dependency, Package};

/// The crate by which tests report what they skip. The tests of every crate may use it.
const FOR_TESTS: &str = "skips";

/// The document with the picture.
const MAP: &str = "docs/ARCHITECTURE.md";

/// The picture's words for every crate: the program calls them all.
const ALL: &str = "all of them";

/// Crate → the crates that it may depend on.
type Arrows = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check() -> Result<()> {
    let packages = workspace::metadata()?.packages;
    let map =
        fs::read_to_string(workspace::root().join(MAP)).with_context(|| format!("cannot read {MAP}"))?;
    let wrong = differences(&packages, &drawn(&map));
    if !wrong.is_empty() {
        bail!("dependencies run the wrong way:\n  {}", wrong.join("\n  "));
    }
    eprintln!("the dependencies between {} crates run one way", packages.len());
    Ok(())
}

/// A crate's name in the picture.
fn short(name: &str) -> &str {
    name.strip_prefix("kqps-").unwrap_or(name)
}

/// Every dependency without an arrow, and every arrow without a dependency, as sentences.
fn differences(packages: &[Package], arrows: &Arrows) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        let name = short(&package.name);
        let allowed = |other: &str| {
            arrows.get(name).is_some_and(|others| others.contains(other) || others.contains(ALL))
        };
        let is_for_tests = |one: &Dependency| short(&one.name) == FOR_TESTS && one.is_for_tests();
        let ours = package.dependencies.iter().filter(|one| one.path.is_some() && !is_for_tests(one));
        let lacking = ours.map(|one| short(&one.name)).filter(|other| !allowed(other));
        found.extend(lacking.map(|other| format!("{name} → {other} is not drawn in {MAP}")));
    }
    for (name, others) in arrows {
        let Some(package) = packages.iter().find(|package| short(&package.name) == name) else {
            found.push(format!("{MAP} draws {name}, which is no crate"));
            continue;
        };
        let is_used =
            |other: &str| other == ALL || package.dependencies.iter().any(|one| short(&one.name) == other);
        let unused = others.iter().filter(|other| !is_used(other));
        found.extend(unused.map(|other| format!("{MAP} draws {name} → {other}, and cargo does not know it")));
    }
    found
}

/// The arrows of the picture, crate by crate: `zone → message`, two crates to a line.
fn drawn(map: &str) -> Arrows {
    let mut arrows = Arrows::new();
    for line in map.lines() {
        let parts: Vec<&str> = line.split('→').collect();
        for pair in parts.windows(2) {
            let name = pair[0].split_whitespace().next_back().unwrap_or_default();
            // The next crate of the line follows after a wide gap.
            let others = pair[1].trim_start().split("   ").next().unwrap_or_default().trim_end();
            arrows.insert(name.to_owned(), others.split(", ").map(str::to_owned).collect());
        }
    }
    arrows
}

#[cfg(test)]
mod tests {
    use super::*;

    const PICTURE: &str = "```\nverdict → message                   lab → verdict, kernel\nreport  → verdict         kqps → all of them\n```";

    /// A crate that depends on this one.
    fn package(name: &str, other: &str, kind: Option<&str>) -> Package {
        let path = Some("crates/other".into());
        let dependencies = vec![Dependency { name: other.into(), path, kind: kind.map(str::to_owned) }];
        let (version, manifest_path) = ("0.1.0".into(), "crates/some/Cargo.toml".into());
        Package { name: name.into(), version, manifest_path, dependencies, targets: Vec::new() }
    }

    fn faults_of(name: &str, other: &str, kind: Option<&str>) -> Vec<String> {
        differences(&[package(name, other, kind)], &drawn(PICTURE))
    }

    #[test]
    fn the_picture_is_read() {
        let drawn = drawn(PICTURE);
        assert_eq!(drawn.keys().collect::<Vec<_>>(), ["kqps", "lab", "report", "verdict"]);
        assert_eq!(drawn["kqps"], [ALL.to_owned()].into());
        assert_eq!(drawn["lab"], ["verdict".to_owned(), "kernel".to_owned()].into());
    }

    #[test]
    fn a_dependency_without_an_arrow_is_named() {
        let wrong = "verdict → player is not drawn in docs/ARCHITECTURE.md".to_owned();
        assert!(faults_of("kqps-verdict", "kqps-player", None).contains(&wrong));
        assert_eq!(faults_of("kqps-util", "kqps-player", None)[0], wrong.replace("verdict", "util"));
        for right in [faults_of("kqps-verdict", "kqps-message", None), faults_of("kqps", "kqps-player", None)]
        {
            assert!(!right.iter().any(|one| one.contains("is not drawn")), "{right:?}");
        }
    }

    #[test]
    fn an_arrow_without_a_dependency_is_named() {
        let idle = "docs/ARCHITECTURE.md draws lab → kernel, and cargo does not know it".to_owned();
        let found = faults_of("kqps-lab", "kqps-verdict", None);
        assert!(found.contains(&idle) && !found.iter().any(|one| one.contains("lab → verdict")), "{found:?}");
        let strange = |one: &&String| one.ends_with(", which is no crate");
        assert_eq!(found.iter().filter(strange).count(), 3, "{found:?}");
    }

    #[test]
    fn only_tests_report_skips() {
        let names = |found: Vec<String>| found.iter().any(|one| one.starts_with("verdict → skips"));
        assert!(names(faults_of("kqps-verdict", "kqps-skips", None)));
        assert!(!names(faults_of("kqps-verdict", "kqps-skips", Some("dev"))));
    }
}
