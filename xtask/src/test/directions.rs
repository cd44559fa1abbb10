//! The direction of dependencies between crates, as `docs/ARCHITECTURE.md` draws them. A dependency or a
//! crate that is not in the table below fails the check.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::workspace::{self, Package};

/// Crate → the crates that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("kqps-message", &[]),
    ("kqps-kernel", &[]),
    ("kqps-observation", &[]),
    ("kqps-zone", &["kqps-message"]),
    ("kqps-dataset", &["kqps-zone", "kqps-message", "kqps-kernel"]),
    ("kqps-host", &["kqps-kernel", "kqps-observation"]),
    ("kqps-player", &["kqps-dataset", "kqps-message", "kqps-kernel", "kqps-host", "kqps-observation"]),
    ("kqps-server", &["kqps-zone", "kqps-message", "kqps-kernel", "kqps-host", "kqps-observation"]),
    ("kqps-verdict", &["kqps-observation"]),
    ("kqps-report", &["kqps-verdict", "kqps-observation"]),
    ("kqps-lab", &["kqps-dataset", "kqps-kernel", "kqps-host", "kqps-observation", "kqps-verdict"]),
    ("kqps", &[ANY]),
    ("kqps-fuzz", &["kqps-message", "kqps-zone", "kqps-dataset", "kqps-server"]),
    // The proof of judgement judges, that of the gauge reads cores, the name servers are started as the lab
    // starts them, and the relay makes wrong answers.
    (
        "xtask",
        &[
            "kqps-dataset",
            "kqps-host",
            "kqps-kernel",
            "kqps-lab",
            "kqps-message",
            "kqps-observation",
            "kqps-verdict",
        ],
    ),
];

/// Stands for every crate, since the program calls them all.
const ANY: &str = "*";

pub(super) fn check() -> Result<()> {
    let wrong = violations(&workspace::metadata()?.packages);
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
        let ours = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    #[test]
    fn an_arrow_against_the_line_is_named() {
        let dependency = Dependency { name: "kqps-player".into(), path: Some("crates/player".into()) };
        let verdict =
            Package { name: "kqps-verdict".into(), dependencies: vec![dependency], targets: Vec::new() };
        assert!(violations(&[verdict]).contains(&"kqps-verdict → kqps-player".to_owned()));
    }

    #[test]
    fn an_unknown_crate_is_named() {
        let stranger = Package { name: "kqps-util".into(), dependencies: Vec::new(), targets: Vec::new() };
        assert!(violations(&[stranger])[0].contains("kqps-util"));
    }
}
