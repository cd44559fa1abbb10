//! The account for a controller that is shipped: it may find pods and enter them, and nothing more than any other
//! account. The API server says what it may, by the list of all its rights and by answers to single questions.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::super::lab::Lab;
use super::cluster::Cluster;
use super::kubectl::{Kubectl, items, text};
use super::manifest::{self, CONTROLLER};

const NAME: &str = "kqps-controller";

/// All that it may beyond any other account: group, resource and verb.
const MAY: [(&str, &str, &str); 3] = [("", "pods", "get"), ("", "pods", "list"), ("", "pods/exec", "create")];

/// Rights that it must not have: namespace, group, resource and verb.
const MAY_NOT: [(&str, &str, &str, &str); 16] = [
    ("default", "", "pods", "create"),
    ("default", "", "pods", "delete"),
    ("default", "", "pods", "watch"),
    ("default", "", "pods", "patch"),
    ("default", "", "pods/exec", "get"),
    ("default", "", "pods/attach", "create"),
    ("default", "", "pods/portforward", "create"),
    ("default", "", "pods/ephemeralcontainers", "update"),
    ("default", "", "pods/log", "get"),
    ("default", "", "secrets", "get"),
    ("default", "", "serviceaccounts/token", "create"),
    ("default", "batch", "jobs", "create"),
    ("default", "rbac.authorization.k8s.io", "rolebindings", "create"),
    ("kube-system", "", "pods", "get"),
    ("kube-system", "", "pods/exec", "create"),
    ("", "", "nodes/proxy", "get"),
];

/// Applies the manifest. Returns kubectl with that account, by a token as a user gets it.
pub(super) fn prove(lab: &Lab, cluster: &Cluster) -> Result<Kubectl> {
    let admin = &cluster.admin;
    admin.read(&["apply", "-f", &manifest::path(CONTROLLER)])?;
    let of = |name: &str| -> Result<Kubectl> {
        let token = admin.read(&["create", "token", name, "--duration=8h"])?;
        cluster.kubectl(lab, name, token.trim())
    };
    let (controller, other) = (of(NAME)?, of("default")?);
    let more: BTreeSet<_> = rights(&controller)?.difference(&rights(&other)?).cloned().collect();
    let expected = MAY.map(|(group, resource, verb)| format!("{verb} {group}/{resource}"));
    ensure!(more == expected.iter().cloned().collect(), "beyond other accounts it may {more:?}");
    let user = format!("system:serviceaccount:default:{NAME}");
    let questions = MAY.iter().map(|(group, resource, verb)| ("default", *group, *resource, *verb, true));
    let refused = MAY_NOT.iter().map(|(at, group, resource, verb)| (*at, *group, *resource, *verb, false));
    let questions: Vec<_> = questions.chain(refused).collect();
    let reviews: Vec<Value> = questions.iter().map(|one| review(&user, one.0, one.1, one.2, one.3)).collect();
    let answers = admin.create(&json!({ "apiVersion": "v1", "kind": "List", "items": reviews }))?;
    ensure!(answers.len() == questions.len(), "the API server answered {answers:?}");
    for (answer, (at, group, resource, verb, expected)) in answers.iter().zip(&questions) {
        let allowed = answer["status"]["allowed"].as_bool().context("an answer has no verdict")?;
        ensure!(allowed == *expected, "may {verb} {group}/{resource} in {at:?}: {allowed}");
    }
    eprintln!(
        "{NAME} may {}, and nothing else beyond any account; {} questions about other rights were answered by no",
        expected.join(", "),
        MAY_NOT.len()
    );
    entering_needs_the_account(&controller, &other)?;
    Ok(controller)
}

/// All rights of an account in the default namespace, each as its verb, its group and its resource.
fn rights(of: &Kubectl) -> Result<BTreeSet<String>> {
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": { "namespace": "default" },
    });
    let answers = of.create(&question)?;
    let status = &answers.first().context("there is no answer")?["status"];
    ensure!(status["incomplete"] == false, "the API server does not know all rights: {status}");
    let mut rights = BTreeSet::new();
    for rule in status["resourceRules"].as_array().into_iter().flatten() {
        let named = if rule["resourceNames"].is_null() { "" } else { " by name" };
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                rights.extend(words(rule, "verbs").map(|verb| format!("{verb} {group}/{resource}{named}")));
            }
        }
    }
    for rule in status["nonResourceRules"].as_array().into_iter().flatten() {
        for url in words(rule, "nonResourceURLs") {
            rights.extend(words(rule, "verbs").map(|verb| format!("{verb} {url}")));
        }
    }
    Ok(rights)
}

fn words<'v>(rule: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    rule[key].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn review(user: &str, namespace: &str, group: &str, resource: &str, verb: &str) -> Value {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": { "user": user, "resourceAttributes": {
            "namespace": namespace, "group": group, "resource": resource, "subresource": subresource, "verb": verb,
        }},
    })
}

/// Neither account can reach a kubelet yet. The API server tries it for the controller's, and refuses the other one.
fn entering_needs_the_account(controller: &Kubectl, other: &Kubectl) -> Result<()> {
    let pods = controller.json(&["get", "pods"])?;
    let name = items(&pods).first().map(|pod| text(pod, "/metadata/name")).context("there is no pod")?;
    controller.refused(&["exec", "-i", name, "--", "true"], "connection refused")?;
    let said = other.refused(&["exec", "-i", name, "--", "true"], "forbidden")?;
    eprintln!("another account is refused: {}", said.lines().last().unwrap_or_default());
    let said = controller.refused(&["delete", "pod", name], "forbidden")?;
    eprintln!("more is refused: {}", said.lines().last().unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const HOSTS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/HOSTS.md"));

    #[test]
    fn the_docs_and_the_manifest_have_the_words_that_are_proved() {
        let token = format!("kubectl create token {NAME} --duration=8h");
        let manifest = fs::read_to_string(manifest::path(CONTROLLER)).unwrap();
        assert!(HOSTS.contains(&token) && manifest.contains(&token));
    }
}
