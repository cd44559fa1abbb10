//! The direction of dependencies between crates. Cargo, the table below and the picture in `docs/ARCHITECTURE.md` must
//! agree: a dependency that the table lacks fails the check, and so does an arrow that cargo does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::workspace::{self, Dependency, Package};

/// Crate → the crates that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("kqps-message", &[]),
    ("kqps-kernel", &[]),
    ("kqps-stack", &[]),
    ("kqps-catalogue", &[]),
    ("kqps-tls", &["kqps-catalogue"]),
    ("kqps-http", &["kqps-catalogue"]),
    ("kqps-quic", &["kqps-catalogue", "kqps-message", "kqps-tls"]),
    ("kqps-observation", &["kqps-catalogue"]),
    ("kqps-zone", &["kqps-message"]),
    ("kqps-cache", &["kqps-message"]),
    ("kqps-files", &["kqps-message"]),
    ("kqps-capture", &["kqps-message"]),
    ("kqps-dataset", &["kqps-capture", "kqps-files", "kqps-message", "kqps-kernel", "kqps-zone"]),
    ("kqps-recipe", &["kqps-dataset", "kqps-files", "kqps-message"]),
    ("kqps-host", &["kqps-kernel", "kqps-observation"]),
    ("kqps-hosts", &["kqps-files", "kqps-kernel", "kqps-host", "kqps-observation"]),
    (
        "kqps-player",
        &[
            // Tests of replays write captures.
            "kqps-capture",
            "kqps-catalogue",
            "kqps-dataset",
            "kqps-message",
            "kqps-kernel",
            "kqps-tls",
            "kqps-http",
            "kqps-quic",
            "kqps-stack",
            "kqps-host",
            "kqps-observation",
        ],
    ),
    (
        "kqps-server",
        &["kqps-zone", "kqps-message", "kqps-kernel", "kqps-stack", "kqps-tls", "kqps-http", "kqps-quic"],
    ),
    ("kqps-front", &["kqps-server", "kqps-message", "kqps-kernel", "kqps-observation", "kqps-web"]),
    ("kqps-resolve", &["kqps-cache", "kqps-front", "kqps-server", "kqps-message", "kqps-kernel"]),
    ("kqps-verdict", &["kqps-catalogue", "kqps-observation"]),
    ("kqps-tuning", &["kqps-catalogue", "kqps-files", "kqps-kernel", "kqps-host", "kqps-observation"]),
    ("kqps-history", &["kqps-verdict", "kqps-observation"]),
    ("kqps-report", &["kqps-catalogue", "kqps-history", "kqps-verdict", "kqps-observation"]),
    ("kqps-web", &["kqps-kernel"]),
    ("kqps-live", &["kqps-web", "kqps-report", "kqps-verdict", "kqps-kernel", "kqps-observation"]),
    (
        "kqps-lab",
        &[
            "kqps-catalogue",
            "kqps-dataset",
            "kqps-files",
            "kqps-recipe",
            "kqps-message",
            "kqps-kernel",
            "kqps-tls",
            "kqps-http",
            "kqps-quic",
            "kqps-host",
            "kqps-hosts",
            "kqps-observation",
            "kqps-player",
            "kqps-programs",
            "kqps-tuning",
            "kqps-verdict",
        ],
    ),
    ("kqps", &[ANY]),
    ("kqps-programs", &["kqps-files"]),
    ("kqps-skips", &[]),
    // The targets read what every crate with a reader reads, and a study is laid out for a machine.
    (
        "kqps-fuzz",
        &[
            "kqps-cache",
            "kqps-capture",
            "kqps-dataset",
            "kqps-files",
            "kqps-front",
            "kqps-host",
            "kqps-hosts",
            "kqps-http",
            "kqps-lab",
            "kqps-message",
            "kqps-observation",
            "kqps-player",
            "kqps-quic",
            "kqps-resolve",
            "kqps-server",
            "kqps-stack",
            "kqps-tls",
            "kqps-web",
            "kqps-zone",
        ],
    ),
    ("kqps-faults", &["kqps-kernel", "kqps-observation", "kqps-tls"]),
    // The proof of judgement judges, that of the gauge reads cores, that of replays writes and reads captures, and the
    // name servers are started as the lab starts them.
    (
        "kqps-proofs",
        &[
            // The test of the cache follows chains of aliases without sockets.
            "kqps-cache",
            "kqps-capture",
            "kqps-dataset",
            "kqps-faults",
            // The test of the history simulates series.
            "kqps-history",
            "kqps-host",
            // The test of several hosts opens links, and merges records.
            "kqps-hosts",
            "kqps-http",
            "kqps-kernel",
            "kqps-lab",
            "kqps-message",
            "kqps-observation",
            "kqps-programs",
            "kqps-quic",
            "kqps-recipe",
            "kqps-resolve",
            "kqps-skips",
            "kqps-tls",
            "kqps-verdict",
            // It builds what it runs.
            "xtask",
        ],
    ),
    ("xtask", &["kqps-programs", "kqps-skips"]),
];

/// The crate by which tests report what they skip. The tests of every crate may use it.
const FOR_TESTS: &str = "kqps-skips";

/// Stands for every crate, since the program calls them all.
const ANY: &str = "*";

/// The document with the picture.
const MAP: &str = "docs/ARCHITECTURE.md";

/// The picture's words for [`ANY`].
const ALL: &str = "all of them";

/// Crates that the picture leaves out: the project's own tools.
const TOOLS: [&str; 5] = ["kqps-faults", "kqps-fuzz", "kqps-proofs", "kqps-skips", "xtask"];

pub(super) fn check() -> Result<()> {
    let packages = workspace::metadata()?.packages;
    let map =
        fs::read_to_string(workspace::root().join(MAP)).with_context(|| format!("cannot read {MAP}"))?;
    let mut wrong = violations(&packages);
    wrong.extend(arrows_without_use(&packages));
    wrong.extend(differences(&drawn(&map)));
    if !wrong.is_empty() {
        bail!("dependencies run the wrong way:\n  {}", wrong.join("\n  "));
    }
    eprintln!("the dependencies between {} crates run one way", ALLOWED.len());
    Ok(())
}

/// Every dependency that the table lacks, and every difference between its crates and the existing ones, as
/// sentences.
fn violations(packages: &[Package]) -> Vec<String> {
    let table: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut found = Vec::new();
    for package in packages {
        let name = package.name.as_str();
        let Some(allowed) = table.get(name) else {
            found.push(format!("{name} is not in the table of xtask/src/test/directions.rs"));
            continue;
        };
        let is_for_tests =
            |dependency: &Dependency| dependency.name == FOR_TESTS && dependency.is_for_tests();
        let ours = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some() && !is_for_tests(dependency));
        for dependency in ours.map(|dependency| dependency.name.as_str()) {
            if !allowed.contains(&dependency) && !allowed.contains(&ANY) {
                found.push(format!("{name} → {dependency}"));
            }
        }
    }
    let exists = |name: &str| packages.iter().any(|package| package.name == name);
    found.extend(
        table.keys().filter(|name| !exists(name)).map(|name| format!("{name} is in the table and is gone")),
    );
    found
}

/// Arrows of the table that cargo does not know.
fn arrows_without_use(packages: &[Package]) -> Vec<String> {
    let is_used = |name: &str, other: &str| {
        let package = packages.iter().find(|package| package.name == name);
        package.is_none_or(|package| package.dependencies.iter().any(|dependency| dependency.name == other))
    };
    let arrows = ALLOWED.iter().flat_map(|(name, others)| others.iter().map(move |other| (*name, *other)));
    let unused = arrows.filter(|(name, other)| *other != ANY && !is_used(name, other));
    unused
        .map(|(name, other)| format!("{name} → {other} is in the table, and cargo does not know it"))
        .collect()
}

/// The arrows of the picture, crate by crate: `zone → message`, two crates to a line.
fn drawn(map: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows = BTreeMap::new();
    for line in map.lines() {
        let parts: Vec<&str> = line.split('→').collect();
        for pair in parts.windows(2) {
            let name = pair[0].split_whitespace().next_back().unwrap_or_default();
            // The next crate of the line follows after a wide gap.
            let others = pair[1].trim_start().split("   ").next().unwrap_or_default().trim_end();
            let others = if others == ALL { ANY } else { others };
            arrows.insert(name.to_owned(), others.split(", ").map(str::to_owned).collect());
        }
    }
    arrows
}

/// Where the picture differs from the table.
fn differences(drawn: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let short = |name: &str| name.strip_prefix("kqps-").unwrap_or(name).to_owned();
    let rows = ALLOWED.iter().filter(|(name, others)| !TOOLS.contains(name) && !others.is_empty());
    let table: BTreeMap<String, BTreeSet<String>> =
        rows.map(|(name, others)| (short(name), others.iter().map(|other| short(other)).collect())).collect();
    let names: BTreeSet<&String> = table.keys().chain(drawn.keys()).collect();
    let differ = names.into_iter().filter(|name| table.get(*name) != drawn.get(*name));
    differ.map(|name| format!("{MAP} draws other arrows of {name} than the table has")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_against_the_line_is_named() {
        assert!(
            violations(&[verdict_on("kqps-player", None)]).contains(&"kqps-verdict → kqps-player".to_owned())
        );
    }

    /// A crate with these dependencies.
    fn package(name: &str, dependencies: Vec<Dependency>) -> Package {
        let (version, manifest_path) = ("0.1.0".into(), "crates/some/Cargo.toml".into());
        Package { name: name.into(), version, manifest_path, dependencies, targets: Vec::new() }
    }

    /// The crate `kqps-verdict` with one dependency.
    fn verdict_on(name: &str, kind: Option<&str>) -> Package {
        let path = Some("crates/other".into());
        let dependency = Dependency { name: name.into(), path, kind: kind.map(str::to_owned) };
        package("kqps-verdict", vec![dependency])
    }

    #[test]
    fn no_row_names_an_arrow_twice() {
        for (name, others) in ALLOWED {
            let all: BTreeSet<&str> = others.iter().copied().collect();
            assert_eq!(all.len(), others.len(), "{name}");
        }
        let names: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), ALLOWED.len());
    }

    #[test]
    fn only_tests_report_skips() {
        let arrow = "kqps-verdict → kqps-skips".to_owned();
        assert!(!violations(&[verdict_on(FOR_TESTS, Some("dev"))]).contains(&arrow));
        assert!(violations(&[verdict_on(FOR_TESTS, None)]).contains(&arrow));
    }

    #[test]
    fn an_arrow_that_cargo_does_not_know_is_named() {
        let lonely = package("kqps-verdict", Vec::new());
        let named = arrows_without_use(&[lonely]);
        assert_eq!(named, ["kqps-verdict → kqps-observation is in the table, and cargo does not know it"]);
    }

    #[test]
    fn the_picture_is_read_and_compared() {
        let picture = "```\nzone    → message                   lab → dataset, kernel\nreport  → verdict         kqps → all of them\n```";
        let drawn = drawn(picture);
        assert_eq!(drawn.keys().collect::<Vec<_>>(), ["kqps", "lab", "report", "zone"]);
        assert_eq!(drawn["kqps"], [ANY.to_owned()].into());
        let differ = differences(&drawn);
        let names = |name: &str| differ.iter().any(|one| one.contains(&format!(" of {name} than")));
        assert!(names("lab") && names("report") && names("player"));
        assert!(!names("zone") && !names("kqps"));
    }

    #[test]
    fn an_unknown_crate_is_named() {
        let stranger = package("kqps-util", Vec::new());
        assert!(violations(&[stranger])[0].contains("kqps-util"));
    }
}
