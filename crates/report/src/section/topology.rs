//! The cores as they lie on the chip: which share a cache, and who was pinned where.

use std::collections::BTreeMap;

use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::{Fingerprint, Run};

/// One package (socket) of the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) label: String,
    pub(crate) clusters: Vec<Cluster>,
}

/// Cores that share a cache which others of the package do not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Such as `L2 shared`; empty where the cores share nothing of their own.
    pub(crate) label: String,
    pub(crate) cores: Vec<Core>,
}

/// One physical core.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Core {
    pub(crate) cpus: Vec<Cpu>,
}

/// One logical CPU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) number: u32,
    /// Style class: `player`, `subject`, `both` or `idle`.
    pub(crate) class: &'static str,
    /// In words, for those who do not see the colour.
    pub(crate) who: &'static str,
}

/// Draws up the cores of the host on which a run was made.
pub(crate) fn of_run(run: &Run) -> Vec<Package> {
    let pinned = Pinned {
        player: run.cells.iter().flat_map(|cell| cell.player_cpus.iter().copied()).collect(),
        subject: run.cells.iter().flat_map(|cell| cell.subject_cpus.iter().copied()).collect(),
    };
    packages(&run.fingerprint, &pinned)
}

struct Pinned {
    player: Vec<u32>,
    subject: Vec<u32>,
}

fn packages(host: &Fingerprint, pinned: &Pinned) -> Vec<Package> {
    let mut by_package: BTreeMap<u32, Vec<&CoreFacts>> = BTreeMap::new();
    for core in &host.cores {
        by_package.entry(core.package).or_default().push(core);
    }
    by_package
        .into_iter()
        .map(|(package, cpus)| {
            let mut by_group: BTreeMap<Vec<u32>, Vec<&CoreFacts>> = BTreeMap::new();
            for cpu in &cpus {
                by_group.entry(neighbours(cpu)).or_default().push(cpu);
            }
            let whole = by_group.len() == 1;
            let clusters = by_group.into_values().map(|members| cluster(&members, whole, pinned)).collect();
            Package { label: package_label(package, &cpus), clusters }
        })
        .collect()
}

/// The CPUs of other cores with which a CPU shares its nearest shared cache, itself included.
fn neighbours(cpu: &CoreFacts) -> Vec<u32> {
    let beyond_core =
        cpu.caches.values().filter(|shared| shared.iter().any(|other| !cpu.smt.contains(other)));
    beyond_core.min_by_key(|shared| shared.len()).unwrap_or(&cpu.smt).clone()
}

fn cluster(members: &[&CoreFacts], whole_package: bool, pinned: &Pinned) -> Cluster {
    let shared: Vec<u32> = neighbours(members[0]);
    let names = members[0].caches.iter().filter(|(_, cpus)| **cpus == shared && members.len() > 1);
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
    let several = members.iter().any(|cpu| cpu.core != members[0].core);
    let label = if names.is_empty() || whole_package || !several {
        String::new()
    } else {
        format!("{} shared", names.join(", "))
    };
    let mut by_core: BTreeMap<u32, Vec<Cpu>> = BTreeMap::new();
    for member in members {
        by_core.entry(member.core).or_default().push(cpu(member.cpu, pinned));
    }
    Cluster { label, cores: by_core.into_values().map(|cpus| Core { cpus }).collect() }
}

fn package_label(package: u32, cpus: &[&CoreFacts]) -> String {
    let mut label = vec![format!("package {package}")];
    let nodes: Vec<u32> = cpus.iter().map(|cpu| cpu.numa_node).collect();
    if nodes.iter().any(|node| *node != 0) {
        let numbers = crate::format::cpus(&nodes);
        label.push(format!("memory node {numbers}"));
    }
    let everyone = |name: &&String| {
        cpus.iter().all(|cpu| cpu.caches.get(*name).is_some_and(|shared| shared.len() >= cpus.len()))
    };
    let shared: Vec<&str> = cpus[0].caches.keys().filter(everyone).map(String::as_str).collect();
    let several = cpus.iter().any(|cpu| cpu.core != cpus[0].core);
    if several && !shared.is_empty() {
        label.push(format!("{} shared by all", shared.join(", ")));
    }
    label.join(", ")
}

fn cpu(number: u32, pinned: &Pinned) -> Cpu {
    let (class, who) = match (pinned.player.contains(&number), pinned.subject.contains(&number)) {
        (true, true) => ("both", "player and subject"),
        (true, false) => ("player", "player"),
        (false, true) => ("subject", "subject"),
        (false, false) => ("idle", "not used"),
    };
    Cpu { number, class, who }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(cpu: u32, core: u32, smt: &[u32], caches: &[(&str, &[u32])]) -> CoreFacts {
        let caches = caches.iter().map(|(name, cpus)| ((*name).to_owned(), cpus.to_vec())).collect();
        CoreFacts { cpu, package: 0, core, numa_node: 0, smt: smt.to_vec(), caches }
    }

    #[test]
    fn cores_that_share_a_cache_lie_together() {
        let host = Fingerprint {
            cores: vec![
                core(0, 0, &[0], &[("L2", &[0, 1]), ("L3", &[0, 1, 2, 3])]),
                core(1, 1, &[1], &[("L2", &[0, 1]), ("L3", &[0, 1, 2, 3])]),
                core(2, 2, &[2], &[("L2", &[2, 3]), ("L3", &[0, 1, 2, 3])]),
                core(3, 3, &[3], &[("L2", &[2, 3]), ("L3", &[0, 1, 2, 3])]),
            ],
            ..Fingerprint::default()
        };
        let packages = packages(&host, &Pinned { player: vec![0, 1], subject: vec![1, 2] });
        assert_eq!(packages.len(), 1);
        assert_eq!(packages[0].label, "package 0, L3 shared by all");
        let clusters = &packages[0].clusters;
        assert_eq!(clusters.iter().map(|c| c.label.as_str()).collect::<Vec<_>>(), ["L2 shared"; 2]);
        let classes: Vec<&str> =
            clusters.iter().flat_map(|c| &c.cores).flat_map(|c| &c.cpus).map(|cpu| cpu.class).collect();
        assert_eq!(classes, ["player", "both", "subject", "idle"]);
    }

    #[test]
    fn siblings_are_one_core() {
        let caches: &[(&str, &[u32])] = &[("L1d", &[0, 1]), ("L2", &[0, 1])];
        let host = Fingerprint {
            cores: vec![core(0, 0, &[0, 1], caches), core(1, 0, &[0, 1], caches)],
            ..Fingerprint::default()
        };
        let packages = packages(&host, &Pinned { player: vec![], subject: vec![] });
        assert_eq!(packages[0].label, "package 0");
        assert_eq!(packages[0].clusters.len(), 1);
        assert_eq!(packages[0].clusters[0].cores.len(), 1);
        assert_eq!(packages[0].clusters[0].cores[0].cpus.len(), 2);
    }

    #[test]
    fn a_host_that_tells_nothing_draws_nothing() {
        assert!(packages(&Fingerprint::default(), &Pinned { player: vec![], subject: vec![] }).is_empty());
    }
}
