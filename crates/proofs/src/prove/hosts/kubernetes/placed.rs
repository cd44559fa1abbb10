//! The manifest of pods, applied as docs/HOSTS.md says: both Jobs have what it says of them, the Job controller makes
//! their pods, and the scheduler gives each a node of its own. The nodes are written down by this proof, as a kubelet
//! would do.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::super::lab::Lab;
use super::kubectl::{Kubectl, items, text, until};
use super::manifest::{self, PLAYERS};

/// The labels by which the docs find pods, and those of one Job.
const OURS: &str = "app.kubernetes.io/name=kqps";
const INDEX: &str = "/metadata/annotations/batch.kubernetes.io~1job-completion-index";

/// How the docs list pods and addresses.
const LIST: [&str; 6] =
    ["get", "pods", "-l", OURS, "-o", "custom-columns=POD:.metadata.name,ADDRESS:.status.hostIP"];

/// Values that the docs give for each Job, by JSON pointers.
const OF_EACH: [(&str, &str); 9] = [
    ("/spec/backoffLimit", "0"),
    ("/spec/activeDeadlineSeconds", "14400"),
    ("/spec/template/spec/hostNetwork", "true"),
    ("/spec/template/spec/shareProcessNamespace", "true"),
    ("/spec/template/spec/restartPolicy", "\"Never\""),
    ("/spec/template/spec/automountServiceAccountToken", "false"),
    ("/spec/template/spec/containers/0/securityContext/allowPrivilegeEscalation", "false"),
    (
        "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0",
        "{\"labelSelector\":{\"matchLabels\":{\"app.kubernetes.io/name\":\"kqps\"}},\
         \"topologyKey\":\"kubernetes.io/hostname\"}",
    ),
    ("/spec/suspend", "false"),
];

/// The mode and size of each Job.
const JOBS: [(&str, &str, u64); 2] = [("kqps-server", "NonIndexed", 1), ("kqps-players", "Indexed", 2)];

/// The port of the first node's kubelet.
const KUBELET: u16 = 10_250;

/// A pod that was given a node.
pub(super) struct Pod {
    pub(super) name: String,
    /// The port of its node's kubelet.
    pub(super) port: u16,
}

/// Returns the pods: that of the server, and then those of players by their indices.
pub(super) fn prove(lab: &Lab, admin: &Kubectl) -> Result<Vec<Pod>> {
    let nodes: Vec<String> = (0..lab.hosts.len()).map(|number| format!("node-{number}")).collect();
    let (last, first) = nodes.split_last().context("the lab has no host")?;
    for (number, node) in first.iter().enumerate() {
        add(admin, node, KUBELET + number as u16)?;
    }
    admin.read(&["apply", "-f", &manifest::path(PLAYERS)])?;
    for (name, mode, size) in JOBS {
        let job = admin.json(&["get", "job", name])?;
        is_as_documented(&job, mode, size).with_context(|| format!("the Job {name}"))?;
    }
    // The last node is missing, so one pod must wait.
    let waits = until(|| {
        let pods = admin.json(&["get", "pods", "-l", OURS])?;
        let reason = items(&pods).iter().find_map(unschedulable);
        let bound = items(&pods).iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count();
        Ok(reason.filter(|_| bound == first.len()).ok_or_else(|| format!("no pod waits for a node: {pods}")))
    })?;
    ensure!(waits.contains("anti-affinity"), "a pod waits for another reason: {waits}");
    eprintln!("a pod without a node of its own waits: {waits}");
    add(admin, last, KUBELET + first.len() as u16)?;
    let pods = until(|| {
        let pods = admin.json(&["get", "pods", "-l", OURS])?;
        let on: BTreeSet<&str> = items(&pods).iter().map(|pod| text(pod, "/spec/nodeName")).collect();
        let is_done = items(&pods).len() == nodes.len() && on.len() == nodes.len() && !on.contains("");
        Ok(if is_done {
            Ok(pods.clone())
        } else {
            Err(format!("not every pod has a node of its own: {pods}"))
        })
    })?;
    let mut by_role: BTreeMap<String, Pod> = BTreeMap::new();
    for pod in items(&pods) {
        let (role, pod) = read(pod, &nodes)?;
        by_role.insert(role, pod);
    }
    let roles: Vec<&str> = by_role.keys().map(String::as_str).collect();
    ensure!(roles == ["player 0", "player 1", "server"], "the pods are {roles:?}");
    let mut placed: Vec<Pod> = by_role.into_values().collect();
    placed.rotate_right(1);
    runs(lab, admin, &placed)?;
    Ok(placed)
}

/// Writes down a node, as its kubelet does, and that it is ready, as the controllers of nodes do.
fn add(admin: &Kubectl, name: &str, port: u16) -> Result<()> {
    let labels = json!({ "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" });
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels } });
    admin.create(&node)?;
    let room = json!({ "cpu": "8", "memory": "16Gi", "pods": "110" });
    let status = json!({
        "capacity": room, "allocatable": room,
        "conditions": [{ "type": "Ready", "status": "True", "reason": "Proof", "message": "written by a proof" }],
        "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
    });
    admin.report("node", name, &status)?;
    admin.read(&["patch", "node", name, "--type=merge", "-p", "{\"spec\":{\"taints\":null}}"]).map(drop)
}

/// Compares a Job that was read back with what the docs say.
fn is_as_documented(job: &Value, mode: &str, size: u64) -> Result<()> {
    for (pointer, expected) in OF_EACH {
        let expected: Value = serde_json::from_str(expected)?;
        let found = job.pointer(pointer).unwrap_or(&Value::Null);
        ensure!(*found == expected, "{pointer} is {found} instead of {expected}");
    }
    let (spec, container) = (&job["spec"], &job["spec"]["template"]["spec"]["containers"][0]);
    ensure!(spec["completionMode"] == mode, "its mode is {}", spec["completionMode"]);
    ensure!(
        spec["completions"] == size && spec["parallelism"] == size,
        "it has another number of pods: {spec}"
    );
    let resources = &container["resources"];
    let cores = text(resources, "/requests/cpu").parse::<u64>();
    ensure!(resources["requests"] == resources["limits"] && cores.is_ok(), "its resources are {resources}");
    Ok(())
}

/// Why a pod has no node; `None` if it has one, or was not looked at.
fn unschedulable(pod: &Value) -> Option<String> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let waits = conditions.iter().find(|one| one["reason"] == "Unschedulable")?;
    Some(text(waits, "/message").to_owned())
}

/// Checks a pod, and returns its role with what is needed to enter it.
fn read(pod: &Value, nodes: &[String]) -> Result<(String, Pod)> {
    let (name, node) = (text(pod, "/metadata/name").to_owned(), text(pod, "/spec/nodeName"));
    let of_node =
        nodes.iter().position(|one| one == node).with_context(|| format!("no node is called {node}"))?;
    let class = text(pod, "/status/qosClass");
    ensure!(class == "Guaranteed", "the pod {name} is {class}, so it has no whole cores");
    let role = match pod.pointer(INDEX).and_then(Value::as_str) {
        Some(index) => {
            ensure!(name.starts_with(&format!("kqps-players-{index}-")), "{name} is player {index}");
            format!("player {index}")
        }
        None => "server".to_owned(),
    };
    Ok((role, Pod { name, port: KUBELET + of_node as u16 }))
}

/// Reports that the pods run, as kubelets do, each with the address of its host in the lab. Then lists them by the
/// words of the docs.
fn runs(lab: &Lab, admin: &Kubectl, placed: &[Pod]) -> Result<()> {
    let mut expected = BTreeSet::new();
    for (host, pod) in lab.hosts.iter().zip(placed) {
        let address = host.data.to_string();
        let status = json!({ "phase": "Running", "hostIP": address, "hostIPs": [{ "ip": address }] });
        admin.report("pod", &pod.name, &status)?;
        expected.insert(format!("{} {address}", pod.name));
    }
    let printed = admin.read(&LIST)?;
    let rows = printed.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    ensure!(rows.collect::<BTreeSet<_>>() == expected, "kubectl lists: {printed}");
    eprintln!("pods and addresses: {}", expected.into_iter().collect::<Vec<_>>().join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/HOSTS.md"));

    #[test]
    fn pods_are_listed_by_the_words_of_the_docs() {
        assert!(HOSTS.contains(&format!("`kubectl {}`", LIST.join(" "))));
    }
}
