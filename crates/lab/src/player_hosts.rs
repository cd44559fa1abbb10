//! The hosts that play at a subject on another host: which of them a cell uses, on which cores each plays, and from which
//! addresses. A function of the hosts and of the cell's factors.

use std::collections::BTreeSet;

use kqps_host::{Topology, alone};
use kqps_observation::Factors;
use kqps_observation::factors::{SourceChoice, name};
use kqps_observation::question::Path;

/// The hosts that play, and where their subject is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayerHosts {
    /// What identifies the machine of the subject.
    pub server_machine: String,
    /// The hosts in the order of their file, at least one.
    pub players: Vec<PlayerHost>,
}

/// A host that plays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayerHost {
    /// Its name in the hosts' file.
    pub name: String,
    /// What identifies its machine. Two hosts on one machine share its cores.
    pub machine: String,
    /// The cores that it may play on.
    pub topology: Topology,
    /// The number of source addresses that the hosts' file gives it; `None` if it gives none but its own address.
    pub sources: Option<u128>,
}

/// Where a player's queries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Senders {
    /// The host's own address.
    Own,
    /// The first of the addresses that the hosts' file gives it, or all of them.
    Given(Option<u32>),
}

/// Why a cell over veth is left out of a run over hosts.
pub(crate) const NO_VETH: &str = "a veth path is within one host, and with --hosts the path is the network between them";

/// Why a cell that needs several hosts is left out of a run on one.
const ONE_HOST: &str = "it needs several hosts: name them with --hosts FILE";

/// Why a cell cannot be measured on this host alone; `None` if it can.
pub(crate) fn why_not_on_one_host(factors: &Factors) -> Option<String> {
    let hosts = factors.hosts();
    let is_more = |number: Option<u32>| number.is_some_and(|number| number > 1);
    (is_more(hosts.players) || is_more(hosts.sources)).then(|| ONE_HOST.to_owned())
}

/// Where the queries of each player of a cell come from.
pub(crate) fn senders(factors: &Factors) -> Senders {
    match (factors.hosts().sources, factors.player().sources) {
        (Some(count), _) => Senders::Given(Some(count)),
        (None, Some(SourceChoice::One)) => Senders::Own,
        (None, _) => Senders::Given(None),
    }
}

impl PlayerHosts {
    /// The hosts that play at a cell with these factors, or why it cannot be measured with them.
    pub(crate) fn of_cell(&self, factors: &Factors) -> Result<&[PlayerHost], String> {
        let there = self.players.len();
        let wanted = factors.hosts().players.map_or(there, |players| players as usize);
        let players = self.players.get(..wanted).ok_or_else(|| {
            let hosts = crate::words::counted(there as u64, "host");
            format!("{} = {wanted}, and the hosts' file has {hosts} that play", name::HOSTS_PLAYERS)
        })?;
        if factors.path().kind == Some(Path::Veth) {
            return Err(NO_VETH.to_owned());
        }
        let lacks = players.iter().find_map(|player| player.why_not_from(factors));
        lacks.map_or(Ok(players), Err)
    }

    /// The cores of the player that a study places beside its subject: none, unless the subject's machine plays too.
    pub(crate) fn cores_beside_subject(&self, senders: usize) -> usize {
        if self.players.iter().any(|player| player.machine == self.server_machine) { senders } else { 0 }
    }

    /// The cores on which each of these players plays, with this many threads. On one machine they are neither the
    /// subject's nor those of an earlier player, as long as there are others.
    pub(crate) fn cpus(
        &self,
        players: &[PlayerHost],
        senders: usize,
        subject_cpus: &[u32],
    ) -> Vec<Vec<u32>> {
        let mut taken: Vec<(&str, u32)> =
            subject_cpus.iter().map(|&cpu| (self.server_machine.as_str(), cpu)).collect();
        let mut all = Vec::new();
        for player in players {
            let here: BTreeSet<u32> =
                taken.iter().filter(|(machine, _)| *machine == player.machine).map(|(_, cpu)| *cpu).collect();
            let cpus = player.cpus(senders, &here);
            taken.extend(cpus.iter().map(|&cpu| (player.machine.as_str(), cpu)));
            all.push(cpus);
        }
        all
    }

    /// The cores of the first player of a cell.
    pub(crate) fn first_cpus(&self, players: &[PlayerHost], senders: usize, subject_cpus: &[u32]) -> Vec<u32> {
        self.cpus(&players[..players.len().min(1)], senders, subject_cpus).pop().unwrap_or_default()
    }
}

impl PlayerHost {
    /// Why it cannot play from the addresses that a cell asks for; `None` if it can.
    fn why_not_from(&self, factors: &Factors) -> Option<String> {
        let spread = SourceChoice::Spread.word();
        let (source, wanted) = (name::PLAYER_SOURCES, factors.hosts().sources);
        match (factors.player().sources, wanted, self.sources) {
            (Some(prefix @ SourceChoice::Prefix(..)), ..) => {
                Some(format!("{source} = {} has addresses of loopback, which reach no other host", prefix.word()))
            }
            (Some(SourceChoice::Spread), None, None) => {
                Some(format!("{source} = {spread}, and the hosts' file gives {} no `sources`", self.name))
            }
            (_, Some(wanted), sources) if u128::from(wanted) > sources.unwrap_or(1) => {
                let has = sources.unwrap_or(1);
                let file = format!("the hosts' file gives {} {has} to send from", self.name);
                Some(format!("{} = {wanted}, and {file}", name::HOSTS_SOURCES))
            }
            _ => None,
        }
    }

    /// This many of its cores besides those that are taken; if none is left, any.
    fn cpus(&self, senders: usize, taken: &BTreeSet<u32>) -> Vec<u32> {
        let is_sibling = |smt: &[u32]| smt.iter().any(|cpu| taken.contains(cpu));
        let without = |keeps: &dyn Fn(&[u32], u32) -> bool| {
            let mut topology = self.topology.clone();
            topology.cores.retain(|core| keeps(&core.smt, core.cpu));
            topology
        };
        let apart = without(&|smt, cpu| !taken.contains(&cpu) && !is_sibling(smt));
        let free = without(&|_, cpu| !taken.contains(&cpu));
        let least = senders.max(1);
        let first = [apart, free].into_iter().find(|topology| topology.cores.len() >= least);
        let some = || without(&|_, cpu| !taken.contains(&cpu));
        let topology = first.unwrap_or_else(some);
        alone(if topology.cores.is_empty() { &self.topology } else { &topology }, least)
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::fingerprint::CoreFacts;

    use super::*;

    fn player(name: &str, machine: &str, cores: u32) -> PlayerHost {
        let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
        let topology = Topology { cores: (0..cores).map(core).collect(), ..Topology::default() };
        PlayerHost { name: name.into(), machine: machine.into(), topology, sources: None }
    }

    fn hosts(players: Vec<PlayerHost>) -> PlayerHosts {
        PlayerHosts { server_machine: "server".into(), players }
    }

    fn factors(words: &[(&str, &str)]) -> Factors {
        Factors::read(words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned()))).unwrap()
    }

    #[test]
    fn a_cell_has_the_first_hosts_of_the_file_or_a_reason() {
        let hosts = hosts(vec![player("p1", "a", 2), player("p2", "b", 2)]);
        let names = |words: &[(&str, &str)]| {
            let players = hosts.of_cell(&factors(words))?;
            Ok(players.iter().map(|player| player.name.clone()).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]), Ok(vec!["p1".to_owned(), "p2".to_owned()]));
        assert_eq!(names(&[("hosts.players", "1")]), Ok(vec!["p1".to_owned()]));
        let too_many: Result<Vec<String>, String> = names(&[("hosts.players", "3")]);
        assert_eq!(too_many.unwrap_err(), "hosts.players = 3, and the hosts' file has 2 hosts that play");
        assert_eq!(names(&[("path", "veth")]).unwrap_err(), NO_VETH);
    }

    #[test]
    fn sources_are_those_of_the_file_or_a_reason() {
        let mut spread = hosts(vec![player("p1", "a", 2), player("p2", "b", 2)]);
        let why = |hosts: &PlayerHosts, name: &str, word: &str| hosts.of_cell(&factors(&[(name, word)])).err();
        assert!(why(&spread, "player.sources", "spread").unwrap().contains("gives p1 no `sources`"));
        assert!(why(&spread, "hosts.sources", "2").unwrap().contains("gives p1 1 to send from"));
        assert!(why(&spread, "player.sources", "127.1.0.0/16").unwrap().contains("reach no other host"));
        assert_eq!((why(&spread, "player.sources", "one"), why(&spread, "hosts.sources", "1")), (None, None));
        for player in &mut spread.players {
            player.sources = Some(6);
        }
        assert_eq!(why(&spread, "player.sources", "spread"), None);
        assert!(why(&spread, "hosts.sources", "7").unwrap().contains("gives p1 6 to send from"));
        assert_eq!(senders(&factors(&[("hosts.sources", "4")])), Senders::Given(Some(4)));
        assert_eq!(senders(&factors(&[("player.sources", "one")])), Senders::Own);
        assert_eq!(senders(&factors(&[])), Senders::Given(None));
    }

    #[test]
    fn what_needs_several_hosts_is_left_out_on_one() {
        for (name, word, is_out) in [
            ("hosts.players", "1", false),
            ("hosts.players", "2", true),
            ("hosts.sources", "1", false),
            ("hosts.sources", "8", true),
        ] {
            let why = why_not_on_one_host(&factors(&[(name, word)]));
            assert_eq!(why.is_some_and(|why| why.contains("--hosts FILE")), is_out, "{name} = {word}");
        }
    }

    #[test]
    fn players_on_machines_of_their_own_choose_alone_and_others_keep_off_each_other() {
        let apart = hosts(vec![player("p1", "a", 4), player("p2", "b", 2)]);
        assert_eq!(apart.cores_beside_subject(1), 0);
        let cpus = apart.cpus(&apart.players, 1, &[0, 1]);
        assert_eq!(cpus[0].len(), 1);
        assert_eq!(apart.first_cpus(&apart.players, 1, &[0, 1]), cpus[0]);
        let together = hosts(vec![player("p1", "server", 4), player("p2", "server", 4)]);
        assert_eq!(together.cores_beside_subject(2), 2);
        let cpus = together.cpus(&together.players, 1, &[1]);
        assert!(cpus.iter().flatten().all(|cpu| *cpu != 1) && cpus[0] != cpus[1], "{cpus:?}");
        let crowded = hosts(vec![player("p1", "server", 1), player("p2", "server", 1)]);
        assert_eq!(crowded.cpus(&crowded.players, 1, &[0]), [vec![0], vec![0]], "there is no other");
    }
}
