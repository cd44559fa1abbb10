//! How the pods end: a pod that fails is not replaced, a Job ends with its deadline, and deleting the manifests leaves
//! nothing. The kubelet's part, which is to end containers, is written down by this proof.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::kubectl::{Kubectl, items, text, until};
use super::manifest::{self, CONTROLLER, PLAYERS};

const OF_PLAYERS: &str = "batch.kubernetes.io/job-name=kqps-players";

pub(super) fn prove(admin: &Kubectl) -> Result<()> {
    failed_once(admin)?;
    too_late(admin)?;
    for name in [PLAYERS, CONTROLLER] {
        admin.read(&["delete", "-f", &manifest::path(name)])?;
    }
    until(|| {
        let pods = admin.json(&["get", "pods"])?;
        for pod in items(&pods).iter().filter(|pod| is_asked_to_end(pod)) {
            // A kubelet deletes a pod like this once its containers have ended.
            let words = ["delete", "pod", text(pod, "/metadata/name"), "--grace-period=0", "--force"];
            admin.read(&[&words[..], &["--wait=false", "--ignore-not-found"]].concat())?;
        }
        let there = admin.json(&["get", "jobs,pods,roles,rolebindings"])?;
        let is_empty = items(&there).is_empty();
        Ok(if is_empty { Ok(()) } else { Err(format!("deleting the manifests leaves {there}")) })
    })?;
    let accounts = admin.json(&["get", "serviceaccounts"])?;
    let names: Vec<&str> = items(&accounts).iter().map(|one| text(one, "/metadata/name")).collect();
    ensure!(names == ["default"], "there are the accounts {names:?}");
    eprintln!("deleting the manifests leaves no Job, pod, Role, binding or account");
    Ok(())
}

/// Makes one player's pod fail. Its Job must fail as well, and start no other.
fn failed_once(admin: &Kubectl) -> Result<()> {
    let pods = admin.json(&["get", "pods", "-l", OF_PLAYERS])?;
    let (count, first) = (items(&pods).len(), items(&pods).first().context("the players have no pod")?);
    let ended = json!({ "exitCode": 1, "reason": "Error" });
    let container = json!({
        "name": "kqps", "image": "debian:bookworm-slim", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": ended },
    });
    admin.report(
        "pod",
        text(first, "/metadata/name"),
        &json!({
            "phase": "Failed", "containerStatuses": [container],
        }),
    )?;
    is_over(admin, "kqps-players", "BackoffLimitExceeded")?;
    let after = admin.json(&["get", "pods", "-l", OF_PLAYERS])?;
    let known = |pod: &Value| items(&pods).iter().any(|one| one["metadata"]["uid"] == pod["metadata"]["uid"]);
    ensure!(items(&after).len() <= count && items(&after).iter().all(known), "a pod was replaced: {after}");
    eprintln!("a pod that failed was not replaced, and its Job is over");
    Ok(())
}

/// The server's Job has a second left. It must be over by itself, and its pod must be asked to end.
fn too_late(admin: &Kubectl) -> Result<()> {
    let patch = "{\"spec\":{\"activeDeadlineSeconds\":1}}";
    admin.read(&["patch", "job", "kqps-server", "--type=merge", "-p", patch])?;
    is_over(admin, "kqps-server", "DeadlineExceeded")?;
    until(|| {
        let pods = admin.json(&["get", "pods", "-l", "batch.kubernetes.io/job-name=kqps-server"])?;
        let left = items(&pods).iter().any(|pod| !is_asked_to_end(pod));
        Ok(if left { Err(format!("a pod outlives the deadline of its Job: {pods}")) } else { Ok(()) })
    })?;
    eprintln!("a Job whose time is over ends its pods by itself");
    Ok(())
}

/// Waits until a Job is about to fail, or has failed, for this reason. It fails once its pods have ended.
fn is_over(admin: &Kubectl, job: &str, reason: &str) -> Result<()> {
    until(|| {
        let job = admin.json(&["get", "job", job])?;
        let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_over = conditions.iter().any(|one| one["reason"] == reason);
        Ok(if is_over { Ok(()) } else { Err(format!("the Job is not over by {reason}: {}", job["status"])) })
    })
}

fn is_asked_to_end(pod: &Value) -> bool {
    !text(pod, "/metadata/deletionTimestamp").is_empty()
}
