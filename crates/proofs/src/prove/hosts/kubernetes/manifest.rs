//! The API server reads the shipped manifests strictly: it takes them as they are, and refuses each planted fault.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::json;

use super::kubectl::{Kubectl, items};

/// The folder of the manifests.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes");

/// The manifests.
pub(super) const PLAYERS: &str = "players.yaml";
pub(super) const CONTROLLER: &str = "controller.yaml";

/// Parameters that kubectl sends for `--dry-run=server --validate=strict`.
const STRICTLY: [&str; 2] = ["dryRun=All", "fieldValidation=Strict"];

/// Faults: what is written where in which manifest, and what the API server says of it.
const FAULTS: [(&str, &str, &str, &str, &str); 8] = [
    (
        "an unknown field",
        PLAYERS,
        "hostNetwork:",
        "hostNetwrok:",
        "unknown field \"spec.template.spec.hostNetwrok\"",
    ),
    ("a word for a number", PLAYERS, "parallelism: 2", "parallelism: two", "spec.parallelism"),
    ("an indexed Job of any size", PLAYERS, "completions: 2\n", "\n", "when completion mode is Indexed"),
    ("a pod that starts again", PLAYERS, "restartPolicy: Never", "restartPolicy: Always", "restartPolicy"),
    (
        "a limit below the request",
        PLAYERS,
        "limits:\n              cpu: \"4\"",
        "limits:\n              cpu: \"2\"",
        "must be less than or equal to cpu limit of 2",
    ),
    ("no key of nodes", PLAYERS, "topologyKey: kubernetes.io/hostname", "topologyKey: \"\"", "topologyKey"),
    (
        "an unknown field",
        CONTROLLER,
        "verbs: [\"create\"]",
        "verb: [\"create\"]",
        "unknown field \"rules[1].verb\"",
    ),
    ("a binding to no kind", CONTROLLER, "  kind: Role\n", "", "roleRef.kind"),
];

/// Words of Pod Security Admission about pods above the level of a namespace.
const VIOLATES: &str = "would violate PodSecurity";

/// The path of a manifest.
pub(super) fn path(name: &str) -> String {
    PathBuf::from(DEPLOY).join(name).display().to_string()
}

pub(super) fn prove(admin: &Kubectl) -> Result<()> {
    for name in [PLAYERS, CONTROLLER] {
        let strict = ["create", "--dry-run=server", "--validate=strict", "-f"];
        let asked = admin.output(&[&strict[..], &[&path(name), "-v=8"]].concat())?;
        let said = String::from_utf8_lossy(&asked.stderr);
        ensure!(asked.status.success(), "{name} is refused: {}", said.lines().last().unwrap_or_default());
        let is_strict = |line: &str| line.contains("POST") && STRICTLY.iter().all(|word| line.contains(word));
        ensure!(!said.contains(VIOLATES), "{name} is refused by a namespace without labels: {said}");
        ensure!(said.lines().any(is_strict), "kubectl did not ask for a strict reading of {name}");
        eprintln!("{name} is valid: {}", String::from_utf8_lossy(&asked.stdout).trim().replace('\n', "; "));
    }
    for (what, name, from, to, reason) in FAULTS {
        let sound = fs::read_to_string(path(name))?;
        let faulty = sound.replace(from, to);
        ensure!(faulty != sound, "{name} has no `{from}`, so nothing was planted");
        let file = admin.folder.join("faulty.yaml");
        fs::write(&file, faulty)?;
        let file = file.display().to_string();
        let words = ["create", "--dry-run=server", "--validate=strict", "-f", &file];
        let said =
            admin.refused(&words, reason).map_err(|error| error.context(format!("{what} in {name}")))?;
        let said = said.rsplit("faulty.yaml\": ").next().unwrap_or_default();
        eprintln!("{what} is refused: {}", said.split(", spec.").next().unwrap_or_default());
    }
    needs_a_privileged_namespace(admin)?;
    for kind in ["jobs", "pods", "roles", "rolebindings"] {
        let there = admin.json(&["get", kind])?;
        ensure!(items(&there).is_empty(), "a dry run left {kind}: {there}");
    }
    Ok(())
}

/// In a namespace of the level `baseline` the pods would be refused for what the docs name.
fn needs_a_privileged_namespace(admin: &Kubectl) -> Result<()> {
    let labels = json!({ "pod-security.kubernetes.io/warn": "baseline" });
    let metadata = json!({ "name": "baseline", "labels": labels });
    admin.create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }))?;
    let asked = admin.output(&["create", "--dry-run=server", "-n", "baseline", "-f", &path(PLAYERS)])?;
    let said = String::from_utf8_lossy(&asked.stderr);
    for reason in [VIOLATES, "hostNetwork=true", "\"NET_ADMIN\""] {
        ensure!(said.contains(reason), "a namespace of the level baseline says: {said}");
    }
    eprintln!("the level baseline: {}", said.lines().next().unwrap_or_default());
    Ok(())
}
