//! The cores that may be used: by physical core, by NUMA node, and by the nearest cache that several of them share.

use kqps_host::topology::Topology;
use kqps_observation::fingerprint::CoreFacts;

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Physical {
    /// Its logical cores that may be used, ascending. Never empty.
    pub(super) threads: Vec<u32>,
    pub(super) node: u32,
    /// The logical cores that share its nearest cache with other physical cores. Empty if it shares none.
    near: Vec<u32>,
}

impl Physical {
    /// Whether another physical core shares the nearest shared cache of this one.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        self != other && self.near.contains(&other.threads[0])
    }
}

/// All physical cores, by their first logical core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cores(Vec<Physical>);

impl Cores {
    pub(super) fn from_topology(topology: &Topology) -> Self {
        let mut all: Vec<Physical> = Vec::new();
        for core in &topology.cores {
            match all.iter_mut().find(|one| one.threads.iter().any(|cpu| core.smt.contains(cpu))) {
                Some(one) => one.threads.push(core.cpu),
                None => all.push(Physical {
                    threads: vec![core.cpu],
                    node: core.numa_node,
                    near: nearest_shared(core),
                }),
            }
        }
        Self(all)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Physical> {
        self.0.iter()
    }

    /// The physical cores of a node.
    pub(super) fn of_node(&self, node: u32) -> Vec<&Physical> {
        self.0.iter().filter(|core| core.node == node).collect()
    }

    /// The physical cores of all other nodes, node by node.
    pub(super) fn beyond(&self, node: u32) -> Vec<&Physical> {
        let mut beyond: Vec<&Physical> = self.0.iter().filter(|core| core.node != node).collect();
        beyond.sort_by_key(|core| core.node);
        beyond
    }

    /// The node with the most physical cores; the first of equals.
    pub(super) fn largest_node(&self) -> u32 {
        let size = |node| self.of_node(node).len();
        let nodes = self.0.iter().map(|core| core.node);
        nodes.max_by_key(|&node| (size(node), std::cmp::Reverse(node))).unwrap_or(0)
    }

    /// The physical core of a logical one.
    pub(super) fn with(&self, cpu: u32) -> Option<&Physical> {
        self.0.iter().find(|core| core.threads.contains(&cpu))
    }
}

/// The first logical core of each physical core, then the second of each, and so on.
pub(super) fn by_thread(physical: &[&Physical]) -> Vec<u32> {
    let deepest = physical.iter().map(|core| core.threads.len()).max().unwrap_or(0);
    let threads = |thread: usize| physical.iter().filter_map(move |core| core.threads.get(thread).copied());
    (0..deepest).flat_map(threads).collect()
}

/// Moves core 0, which runs kernel housekeeping, to the end of the cores.
pub(super) fn housekeeping_last<'a>(physical: &[&'a Physical]) -> Vec<&'a Physical> {
    let mut sorted = physical.to_vec();
    sorted.sort_by_key(|core| core.threads.contains(&0));
    sorted
}

/// The last cores of each group that shares a cache, one of each group in turn, so that each receiver is near workers
/// and core 0 is chosen last.
pub(super) fn receivers_among<'a>(physical: &[&'a Physical], count: usize) -> Vec<&'a Physical> {
    let mut groups: Vec<Vec<&'a Physical>> = Vec::new();
    for &core in physical {
        match groups.iter_mut().find(|group| group[0].is_near(core)) {
            Some(group) => group.push(core),
            None => groups.push(vec![core]),
        }
    }
    let mut chosen = Vec::new();
    while chosen.len() < count.min(physical.len()) {
        let round: Vec<&Physical> = groups.iter_mut().rev().filter_map(Vec::pop).collect();
        chosen.extend(round.into_iter().take(count - chosen.len()));
    }
    chosen
}

/// The cores that share the nearest cache which is not the core's own.
fn nearest_shared(core: &CoreFacts) -> Vec<u32> {
    let is_shared = |cpus: &&Vec<u32>| cpus.iter().any(|cpu| !core.smt.contains(cpu));
    // "L1" sorts before "L2" and "L3".
    core.caches.values().find(is_shared).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four physical cores with two threads each. Each pair of cores shares an L2.
    fn four() -> Cores {
        let cores = (0..8).map(|cpu| {
            let (core, pair) = (cpu % 4, cpu % 4 / 2 * 2);
            let caches = [
                ("L1".to_owned(), vec![core, core + 4]),
                ("L2".to_owned(), vec![pair, pair + 1, pair + 4, pair + 5]),
            ];
            CoreFacts { cpu, core, smt: vec![core, core + 4], caches: caches.into(), ..CoreFacts::default() }
        });
        Cores::from_topology(&Topology { cores: cores.collect(), ..Topology::default() })
    }

    #[test]
    fn threads_belong_to_physical_cores_which_know_their_neighbours() {
        let cores = four();
        let all = cores.of_node(0);
        let threads: Vec<_> = all.iter().map(|core| core.threads.clone()).collect();
        assert_eq!(threads, [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert!(all[2].is_near(all[3]) && !all[2].is_near(all[1]) && !all[2].is_near(all[2]));
        assert_eq!(by_thread(&housekeeping_last(&all)), [1, 2, 3, 0, 5, 6, 7, 4]);
        assert_eq!(cores.with(6), Some(all[2]));
    }

    #[test]
    fn receivers_are_the_last_of_each_group_in_turn() {
        let cores = four();
        let chosen = |count| -> Vec<u32> {
            receivers_among(&cores.of_node(0), count).iter().map(|core| core.threads[0]).collect()
        };
        assert_eq!([chosen(1), chosen(2), chosen(3)], [vec![3], vec![3, 1], vec![3, 1, 2]]);
        assert_eq!(chosen(9), [3, 1, 2, 0]);
    }
}
