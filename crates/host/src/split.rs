//! Divides the cores of one machine between the player and its subject, so that they disturb each other as
//! little as the machine allows. It is a pure function of the topology. The same machine is always split the
//! same way, so a run can be resumed.

use kqps_observation::fingerprint::CoreFacts;

use crate::topology::Topology;

/// The cores of each side. Both lists are ascending and not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// The player's logical cores.
    pub player_cpus: Vec<u32>,
    /// The subject's logical cores.
    pub subject_cpus: Vec<u32>,
    /// Whether player and subject share a physical core, because there is only one.
    pub shared: bool,
}

/// Gives `player` and `subject` logical cores (at least one each) to the two sides, or fewer if there are not
/// as many.
///
/// No physical core serves both sides unless there is only one. Each logical core has a physical core of its
/// own as long as there are enough. The split prefers cores of one NUMA node, then cores that no network
/// device interrupts, then any core except core 0, which runs kernel housekeeping. The subject chooses first,
/// because the figure is the subject's.
pub fn split(topology: &Topology, player: usize, subject: usize) -> Split {
    let (player, subject) = (player.max(1), subject.max(1));
    let physical = physical_cores(topology);
    let [only] = physical.as_slice() else {
        let wanted = player + subject;
        let for_subject = if wanted <= physical.len() {
            subject
        } else {
            // In proportion, rounded up, with at least one for the player.
            (physical.len() * subject).div_ceil(wanted).clamp(1, physical.len() - 1)
        };
        let (subjects, players) = physical.split_at(for_subject);
        return Split {
            player_cpus: take(players, player),
            subject_cpus: take(subjects, subject),
            shared: false,
        };
    };
    let (first, rest) = only.split_at(1);
    Split {
        player_cpus: first.to_vec(),
        subject_cpus: if rest.is_empty() { first.to_vec() } else { take(&[rest.to_vec()], subject) },
        shared: true,
    }
}

/// `count` logical cores for one side that has the machine to itself, ascending; fewer if there are not as many, and
/// at least one. They are chosen as [`split`] chooses those of a subject.
pub fn alone(topology: &Topology, count: usize) -> Vec<u32> {
    take(&physical_cores(topology), count.max(1))
}

/// `count` logical cores: the first of every physical core, then the second of every physical core, and so
/// on.
fn take(physical: &[Vec<u32>], count: usize) -> Vec<u32> {
    let deepest = physical.iter().map(Vec::len).max().unwrap_or(0);
    let mut cpus: Vec<u32> = (0..deepest)
        .flat_map(|thread| physical.iter().filter_map(move |siblings| siblings.get(thread).copied()))
        .take(count)
        .collect();
    cpus.sort_unstable();
    cpus
}

/// The logical cores of every physical core that may be used, from the most to the least preferred.
fn physical_cores(topology: &Topology) -> Vec<Vec<u32>> {
    let mut physical: Vec<(&CoreFacts, Vec<u32>)> = Vec::new();
    for core in &topology.cores {
        match physical.iter_mut().find(|(_, cpus)| cpus.iter().any(|cpu| core.smt.contains(cpu))) {
            Some((_, cpus)) => cpus.push(core.cpu),
            None => physical.push((core, vec![core.cpu])),
        }
    }
    let home = home_node(&physical);
    physical.sort_by_key(|(core, cpus)| {
        let interrupts: usize = cpus.iter().map(|&cpu| topology.interrupts_on(cpu)).sum();
        (core.numa_node != home, core.numa_node, interrupts, cpus.contains(&0), core.cpu)
    });
    physical.into_iter().map(|(_, cpus)| cpus).collect()
}

/// The node with the most physical cores; the first of equals.
fn home_node(physical: &[(&CoreFacts, Vec<u32>)]) -> u32 {
    let size = |node: u32| physical.iter().filter(|(core, _)| core.numa_node == node).count();
    let nodes = physical.iter().map(|(core, _)| core.numa_node);
    nodes.max_by_key(|&node| (size(node), std::cmp::Reverse(node))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{DESKTOP, Machine, SMALL, TWO_SOCKETS};

    fn split_of(topology: &Topology, player: usize, subject: usize) -> (Vec<u32>, Vec<u32>, bool) {
        let split = split(topology, player, subject);
        (split.player_cpus, split.subject_cpus, split.shared)
    }

    #[test]
    fn two_cores_are_one_each() {
        let two = SMALL.topology(&[]);
        assert_eq!(split_of(&two, 1, 1), (vec![0], vec![1], false));
        assert_eq!(split_of(&two, 3, 5), (vec![0], vec![1], false));
    }

    #[test]
    fn the_player_takes_the_core_that_is_interrupted() {
        let two = Machine { interrupts: &[(40, "eth0-rx-0", 1, 5)], ..SMALL }.topology(&[]);
        assert_eq!(split_of(&two, 1, 1), (vec![1], vec![0], false));
    }

    #[test]
    fn one_core_is_shared() {
        let one = SMALL.topology(&[1]);
        assert_eq!(split_of(&one, 1, 1), (vec![1], vec![1], true));
        let siblings = DESKTOP.topology(&[3, 11]);
        assert_eq!(split_of(&siblings, 1, 1), (vec![3], vec![11], true));
    }

    #[test]
    fn siblings_and_interrupted_cores_come_last() {
        let desktop = DESKTOP.topology(&[]);
        // Cores 1 and 8 have interrupts, and 0 is a sibling of 8.
        assert_eq!(split_of(&desktop, 2, 4), (vec![6, 7], vec![2, 3, 4, 5], false));
        assert_eq!(split_of(&desktop, 4, 4), (vec![0, 1, 6, 7], vec![2, 3, 4, 5], false));
        // With more logical than physical cores, both threads of a core go to one side.
        let (player, subject, shared) = split_of(&desktop, 4, 12);
        assert_eq!((player, shared), (vec![0, 1, 8, 9], false));
        assert_eq!(subject, [2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn one_node_is_enough_when_it_is() {
        let sockets = TWO_SOCKETS.topology(&[]);
        assert_eq!(split_of(&sockets, 1, 2), (vec![0], vec![2, 3], false));
        assert_eq!(split_of(&sockets, 2, 4), (vec![4, 5], vec![0, 1, 2, 3], false));
    }
}
