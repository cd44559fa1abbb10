//! Chooses the cores of a cell's subject and of its player: sets over the machine's topology. A function of the
//! topology alone.

mod sets;

use std::collections::BTreeSet;

use kqps_host::{Topology, alone, split};
use kqps_observation::cpu_list;
use kqps_observation::fingerprint::CoreFacts;
use serde::Deserialize;

/// The cores that a study requests for a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoreRequest {
    /// This many, the best that the topology offers.
    Count(usize),
    /// These cores, by number.
    These(Vec<u32>),
    /// Every set with a size from the first to the second number, each in a cell of its own.
    EverySet(usize, usize),
}

/// The choice of the requested sets that are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// All of them.
    All,
    /// A set of each kind: sets are of one kind if their cores share the same with each other, with the player's
    /// cores and with the interrupts, so that no experiment could distinguish them.
    #[default]
    Distinct,
}

/// The cores of a subject and of its player.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The subject's cores.
    pub subject_cpus: Vec<u32>,
    /// The player's cores: separate from the subject's if there are enough. Empty if the player is on another host.
    pub player_cpus: Vec<u32>,
}

impl CoreRequest {
    /// Reads the words of a study: `2`, `cores 0,2-3`, `each core`, `every pair`, `every set of 3` or
    /// `every set of 1..4`. The word `cores` at the end of a range stands for the number `cores`.
    ///
    /// # Errors
    ///
    /// The expected forms, as a sentence.
    pub fn read(word: &str, cores: usize) -> Result<Self, String> {
        let number = |text: &str| match text.trim() {
            "cores" => Ok(cores),
            digits => {
                digits.parse::<usize>().ok().filter(|&count| count > 0).ok_or_else(|| Self::expected(word))
            }
        };
        if let Some(list) = word.strip_prefix("cores ") {
            let cpus = cpu_list::parse(list).map_err(|error| format!("{}: {error}", Self::expected(word)))?;
            let mut cpus = Some(cpus).filter(|cpus| !cpus.is_empty()).ok_or_else(|| Self::expected(word))?;
            cpus.sort_unstable();
            return Ok(Self::These(cpus));
        }
        match word {
            "each core" => Ok(Self::EverySet(1, 1)),
            "every pair" => Ok(Self::EverySet(2, 2)),
            _ => match word.strip_prefix("every set of ") {
                Some(sizes) => match sizes.split_once("..") {
                    Some((least, most)) => Ok(Self::EverySet(number(least)?, number(most)?)),
                    None => number(sizes).map(|size| Self::EverySet(size, size)),
                },
                None => number(word).map(Self::Count),
            },
        }
    }

    fn expected(word: &str) -> String {
        format!(
            "`{word}` is no choice of cores: expected a number, `cores 0,2-3`, `each core`, `every pair`, \
             `every set of 3` or `every set of 1..cores`"
        )
    }
}

/// The placements that a request stands for, with `player_cores` cores for the player; 0 if it is on another host, so
/// that the subject may have all cores. A request for sets that are larger than the machine gives none.
///
/// # Errors
///
/// The core that is missing on this machine.
pub fn place(
    topology: &Topology,
    request: &CoreRequest,
    player_cores: usize,
    placement: Placement,
) -> Result<Vec<Placed>, String> {
    match request {
        CoreRequest::Count(count) if player_cores == 0 => {
            Ok(vec![Placed { subject_cpus: alone(topology, *count), player_cpus: Vec::new() }])
        }
        CoreRequest::Count(count) => {
            let split = split(topology, player_cores, *count);
            Ok(vec![Placed { subject_cpus: split.subject_cpus, player_cpus: split.player_cpus }])
        }
        CoreRequest::These(cpus) => match cpus.iter().find(|&&cpu| core(topology, cpu).is_none()) {
            Some(missing) => Err(format!("core {missing} is not available on this machine")),
            None => Ok(vec![beside(topology, cpus.clone(), player_cores)]),
        },
        CoreRequest::EverySet(least, most) => {
            let cpus: Vec<u32> = topology.cores.iter().map(|core| core.cpu).collect();
            let mut placed: Vec<Placed> = (*least..=(*most).min(cpus.len()))
                .flat_map(|size| sets::of_size(&cpus, size))
                .map(|set| beside(topology, set, player_cores))
                .collect();
            if placement == Placement::Distinct {
                let mut seen = BTreeSet::new();
                placed.retain(|one| seen.insert(signature(topology, one)));
            }
            Ok(placed)
        }
    }
}

/// The part of a request that is left out because there are too many sets, in words; `None` if nothing is.
pub fn left_out(topology: &Topology, request: &CoreRequest) -> Option<String> {
    let CoreRequest::EverySet(least, most) = request else { return None };
    let cores = topology.cores.len();
    sets::left_out(cores, *least..=(*most).min(cores))
}

/// The player beside a subject on given cores. It uses the first cores that are neither the subject's nor
/// siblings of them, and the subject's own only if no others are left. It then keeps its cores from cell to
/// cell if possible, so that only the relation of the subject's cores to it differs.
fn beside(topology: &Topology, subject_cpus: Vec<u32>, player_cores: usize) -> Placed {
    if player_cores == 0 {
        return Placed { subject_cpus, player_cpus: Vec::new() };
    }
    let is_sibling = |core: &CoreFacts| subject_cpus.iter().any(|cpu| core.smt.contains(cpu));
    let mut free: Vec<&CoreFacts> =
        topology.cores.iter().filter(|core| !subject_cpus.contains(&core.cpu)).collect();
    free.sort_by_key(|core| (is_sibling(core), core.cpu));
    let mut player_cpus: Vec<u32> = free.iter().take(player_cores).map(|core| core.cpu).collect();
    if player_cpus.is_empty() {
        player_cpus = split(topology, player_cores, 1).player_cpus;
    }
    player_cpus.sort_unstable();
    Placed { subject_cpus, player_cpus }
}

fn core(topology: &Topology, cpu: u32) -> Option<&CoreFacts> {
    topology.cores.iter().find(|core| core.cpu == cpu)
}

/// Hardware that two cores share: a physical core, caches by name, a NUMA node.
type Shared = (bool, Vec<String>, bool);

/// A placement without core numbers: for each of the subject's cores, what it shares with the player's cores
/// and with the interrupted ones; and what the subject's cores share with each other.
type Signature = (Vec<(Vec<Shared>, Vec<Shared>, bool)>, Vec<Shared>, Vec<bool>);

fn signature(topology: &Topology, placed: &Placed) -> Signature {
    let interrupted: Vec<u32> =
        topology.cores.iter().map(|core| core.cpu).filter(|&cpu| topology.interrupts_on(cpu) > 0).collect();
    let is_interrupted = |cpu: &u32| interrupted.contains(cpu);
    let to_all = |cpu: u32, others: &[u32]| {
        let mut shared: Vec<Shared> = others.iter().map(|&other| shared(topology, cpu, other)).collect();
        shared.sort();
        shared
    };
    let subject = &placed.subject_cpus;
    let mut each: Vec<_> = subject
        .iter()
        .map(|&cpu| (to_all(cpu, &placed.player_cpus), to_all(cpu, &interrupted), is_interrupted(&cpu)))
        .collect();
    each.sort();
    let mut pairs: Vec<Shared> = Vec::new();
    for (index, &one) in subject.iter().enumerate() {
        pairs.extend(subject[index + 1..].iter().map(|&other| shared(topology, one, other)));
    }
    pairs.sort();
    let mut player: Vec<bool> = placed.player_cpus.iter().map(is_interrupted).collect();
    player.sort_unstable();
    (each, pairs, player)
}

fn shared(topology: &Topology, one: u32, other: u32) -> Shared {
    let (Some(first), Some(second)) = (core(topology, one), core(topology, other)) else {
        return Shared::default();
    };
    let caches = first.caches.iter().filter(|(_, cpus)| cpus.contains(&other));
    (
        first.smt.contains(&other) || one == other,
        caches.map(|(name, _)| name.clone()).collect(),
        first.numa_node == second.numa_node,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server of the ISC study: two packages of four cores, pairs of which share an L2.
    fn paired() -> Topology {
        let core = |cpu: u32| CoreFacts {
            cpu,
            package: cpu / 4,
            core: cpu,
            numa_node: 0,
            smt: vec![cpu],
            caches: [("L2".to_string(), vec![cpu / 2 * 2, cpu / 2 * 2 + 1])].into(),
        };
        Topology { cores: (0..8).map(core).collect(), ..Topology::default() }
    }

    fn subjects(request: &CoreRequest, placement: Placement) -> Vec<Vec<u32>> {
        let placed = place(&paired(), request, 1, placement).unwrap();
        assert!(placed.iter().all(|one| one.player_cpus.iter().all(|cpu| !one.subject_cpus.contains(cpu))));
        placed.into_iter().map(|one| one.subject_cpus).collect()
    }

    #[test]
    fn requests_are_read() {
        assert_eq!(CoreRequest::read("3", 8), Ok(CoreRequest::Count(3)));
        assert_eq!(CoreRequest::read("cores 5,0-2", 8), Ok(CoreRequest::These(vec![0, 1, 2, 5])));
        assert_eq!(CoreRequest::read("each core", 8), Ok(CoreRequest::EverySet(1, 1)));
        assert_eq!(CoreRequest::read("every pair", 8), Ok(CoreRequest::EverySet(2, 2)));
        assert_eq!(CoreRequest::read("every set of 3..cores", 8), Ok(CoreRequest::EverySet(3, 8)));
        for wrong in ["", "0", "every", "every set of 0"] {
            assert!(CoreRequest::read(wrong, 8).unwrap_err().contains("expected a number"), "{wrong}");
        }
        for list in ["", "3-1", "x", "1,1", "0-4294967295"] {
            let wrong = format!("cores {list}");
            assert!(CoreRequest::read(&wrong, 8).unwrap_err().contains("expected a number"), "{wrong}");
        }
    }

    #[test]
    fn all_sets_are_all_and_distinct_ones_differ_in_what_they_share() {
        assert_eq!(subjects(&CoreRequest::EverySet(2, 2), Placement::All).len(), 28);
        assert_eq!(subjects(&CoreRequest::EverySet(1, 3), Placement::All).len(), 8 + 28 + 56);
        // The player is on core 0, or on core 1 if the subject has core 0. One core: the player's neighbour in
        // the cache, or another.
        assert_eq!(subjects(&CoreRequest::EverySet(1, 1), Placement::Distinct), [vec![0], vec![2]]);
        // Two cores: the player's neighbour and another; a pair that shares a cache; two that share none.
        assert_eq!(
            subjects(&CoreRequest::EverySet(2, 2), Placement::Distinct),
            [vec![0, 1], vec![0, 2], vec![2, 4]]
        );
    }

    #[test]
    fn an_interrupted_core_is_like_no_other() {
        let mut topology = paired();
        topology.interrupts.push(kqps_host::topology::Interrupt {
            cpus: vec![7],
            count: 9,
            ..Default::default()
        });
        let placed = place(&topology, &CoreRequest::EverySet(1, 1), 1, Placement::Distinct).unwrap();
        let cpus: Vec<u32> = placed.iter().map(|one| one.subject_cpus[0]).collect();
        assert_eq!(
            cpus,
            [0, 2, 6, 7],
            "the player's neighbour, a stranger, the interrupts' neighbour, and theirs"
        );
    }

    #[test]
    fn a_subject_whose_player_is_on_another_host_may_have_all_cores() {
        for (request, cores) in
            [(CoreRequest::Count(8), 8), (CoreRequest::EverySet(8, 8), 8), (CoreRequest::These(vec![3]), 1)]
        {
            let placed = place(&paired(), &request, 0, Placement::All).unwrap();
            assert_eq!((placed.len(), placed[0].subject_cpus.len()), (1, cores), "{request:?}");
            assert!(placed[0].player_cpus.is_empty(), "{request:?}");
        }
    }

    #[test]
    fn a_subject_on_all_cores_shares_one_with_the_player() {
        let placed = place(&paired(), &CoreRequest::EverySet(8, 8), 1, Placement::All).unwrap();
        assert_eq!((placed.len(), placed[0].player_cpus.len()), (1, 1));
        assert!(place(&paired(), &CoreRequest::EverySet(9, 9), 1, Placement::All).unwrap().is_empty());
        assert!(
            place(&paired(), &CoreRequest::These(vec![8]), 1, Placement::All).unwrap_err().contains("core 8")
        );
    }
}
