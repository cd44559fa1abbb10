//! The host of a run as far as it decides whether two runs compare.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::{Fingerprint, Run};
use serde::{Deserialize, Serialize};

/// The kernel draws this setting at random at every boot, and it affects no measurement.
const RANDOM_SYSCTL: &str = "net.core.netdev_rss_key";

/// A host, or several that took part in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The hash of all parts, in hex.
    pub id: String,
    /// Name of the part (`kernel`) → its value.
    pub parts: BTreeMap<String, String>,
}

impl Host {
    /// The host of a run. Programs are left out, since they are what changes between runs.
    pub fn from_run(run: &Run) -> Self {
        let mut parts = BTreeMap::new();
        if run.hosts.is_empty() {
            add("", &run.fingerprint, &mut parts);
        }
        for host in &run.hosts {
            add(&format!("{}: ", host.name), &host.fingerprint, &mut parts);
        }
        let text = serde_json::to_vec(&parts).unwrap_or_default();
        Self { id: blake3::hash(&text).to_hex().to_string(), parts }
    }

    /// The differences between two hosts, each `NAME: BEFORE, now AFTER`.
    pub fn differences(&self, after: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.parts.keys().chain(after.parts.keys()).collect();
        let value =
            |host: &Self, name: &String| host.parts.get(name).cloned().unwrap_or("not recorded".into());
        names
            .into_iter()
            .map(|name| (name, value(self, name), value(after, name)))
            .filter(|(_, before, after)| before != after)
            .map(|(name, before, after)| format!("{name}: {before}, now {after}"))
            .collect()
    }

    /// The host in one line: processor, cores, kernel.
    pub fn line(&self) -> String {
        let of = |name: &str| {
            self.parts.iter().find(|(part, _)| part.ends_with(name)).map(|(_, value)| value.as_str())
        };
        let words = [of("CPU model"), of("number of cores"), of("kernel")];
        let [model, cores, kernel] = words.map(|word| word.unwrap_or("unknown"));
        format!("{model}, {cores} cores, {kernel}")
    }
}

fn add(head: &str, facts: &Fingerprint, parts: &mut BTreeMap<String, String>) {
    let mut put = |name: &str, value: String| {
        parts.insert(format!("{head}{name}"), value);
    };
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    put("CPU model", facts.cpu_model.clone());
    put("number of cores", facts.cores.len().to_string());
    put("microcode", known(&facts.microcode));
    put("hypervisor", known(&facts.hypervisor));
    put("kernel", facts.kernel.clone());
    put("system", known(&facts.os));
    put("clock source", known(&facts.clock_source));
    put("governor", known(&facts.governor));
    put("turbo", facts.turbo.map_or("unknown", |on| if on { "on" } else { "off" }).into());
    for (name, text) in &facts.mitigations {
        put(&format!("mitigation of {name}"), text.clone());
    }
    for (name, value) in facts.sysctls.iter().filter(|(name, _)| *name != RANDOM_SYSCTL) {
        put(name, value.clone());
    }
    for (name, value) in &facts.limits {
        put(&format!("limit {name}"), value.clone());
    }
    for (name, value) in &facts.queues {
        put(&format!("steering of queue {name}"), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(kernel: &str, key: &str) -> Host {
        let mut fingerprint =
            Fingerprint { kernel: kernel.into(), cpu_model: "X".into(), ..Fingerprint::default() };
        fingerprint.sysctls.insert(RANDOM_SYSCTL.into(), key.into());
        Host::from_run(&Run { fingerprint, ..Run::default() })
    }

    #[test]
    fn another_kernel_is_another_host_and_what_is_drawn_at_random_is_not() {
        assert_eq!(host("6.1", "aa"), host("6.1", "bb"));
        let (before, after) = (host("6.1", "aa"), host("6.12", "aa"));
        assert_ne!(before.id, after.id);
        assert_eq!(before.differences(&after), ["kernel: 6.1, now 6.12"]);
        assert_eq!(after.line(), "X, 0 cores, 6.12");
    }
}
