//! The hosts that play at a subject on another host: which of them a cell uses, on which cores each plays, and from
//! which addresses. A function of the hosts and of the cell's factors.

use std::collections::BTreeSet;

use kqps_host::{Topology, alone};
use kqps_observation::Factors;
use kqps_observation::factors::{SourceChoice, name};
use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::question::Path;

use crate::player_setup::WINDOW;
use crate::words::counted;

/// The hosts that play, and where their subject is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayerHosts {
    /// The ID of the subject's machine.
    pub server_machine: String,
    /// The interface that carries the queries there; `None` if it is not known.
    pub server_device: Option<String>,
    /// The hosts in the order of their file, at least one.
    pub players: Vec<PlayerHost>,
}

/// A host that plays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayerHost {
    /// Its name in the hosts' file.
    pub name: String,
    /// The ID of its machine. Two hosts on one machine share its cores.
    pub machine: String,
    /// The cores that it may play on.
    pub topology: Topology,
    /// The number of source addresses that the hosts' file gives it; `None` if it gives none but its own address.
    pub sources: Option<u128>,
}

/// Where a player's queries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders {
    /// The host's own address.
    Own,
    /// The first of the addresses that the hosts' file gives it, or all of them.
    Given(Option<u32>),
}

/// Why a cell over veth is left out of a run over hosts.
const NO_VETH: &str = "a veth path is within one host, and with --hosts the path is the network between them";

/// The hosts that play at a cell.
#[derive(Clone, Copy, Debug)]
pub struct Players<'a> {
    server_machine: &'a str,
    /// Whether any host of the run plays on the machine of the subject.
    are_beside_subject: bool,
    /// The hosts, in the order of their file.
    pub hosts: &'a [PlayerHost],
}

/// The hosts that play at a cell with these factors; `None` if the subject's own host plays, since there are no others.
/// An error is the reason why the cell cannot be measured.
pub fn players_of<'a>(
    hosts: Option<&'a PlayerHosts>,
    factors: &Factors,
) -> Result<Option<Players<'a>>, String> {
    let Some(hosts) = hosts else {
        return why_not_on_one_host(factors).map_or(Ok(None), Err);
    };
    if factors.path().kind == Some(Path::Veth) {
        return Err(NO_VETH.to_owned());
    }
    let there = hosts.players.len();
    let wanted = factors.hosts().players.map_or(there, |players| players as usize);
    let players = hosts.players.get(..wanted).ok_or_else(|| {
        let hosts = counted(there as u64, "host");
        format!("{} = {wanted}, and the hosts' file has {hosts} to play", name::HOSTS_PLAYERS)
    })?;
    let why_not_from = players.iter().find_map(|player| player.why_not_from(factors));
    if let Some(reason) = why_not_from.or_else(|| why_no_window(factors, players.len())) {
        return Err(reason);
    }
    let is_beside = |player: &PlayerHost| player.machine == hosts.server_machine;
    Ok(Some(Players {
        server_machine: &hosts.server_machine,
        are_beside_subject: hosts.players.iter().any(is_beside),
        hosts: players,
    }))
}

/// Why a cell cannot be measured on this host alone; `None` if it can.
fn why_not_on_one_host(factors: &Factors) -> Option<String> {
    let hosts = factors.hosts();
    let numbers = [(name::HOSTS_PLAYERS, hosts.players), (name::HOSTS_SOURCES, hosts.sources)];
    let (name, number) = numbers.into_iter().find(|(_, number)| number.is_some_and(|number| number > 1))?;
    let number = number.unwrap_or_default();
    Some(format!("{name} = {number} needs several hosts: name them with --hosts FILE"))
}

/// Why as many players cannot share the window of a cell; `None` if they can. Each of their threads has at least one
/// outstanding query in a closed loop, and together they must not have more than the cell.
fn why_no_window(factors: &Factors, players: usize) -> Option<String> {
    let player = factors.player();
    let window = player.window.unwrap_or(WINDOW);
    let threads = u64::from(player.senders.unwrap_or(1).max(1));
    let least = players as u64 * threads;
    (u64::from(window) < least).then(|| {
        let (players, threads) = (counted(players as u64, "player"), counted(threads, "thread"));
        let name = name::PLAYER_WINDOW;
        format!("{players} with {threads} each need {name} = {least} or more, and it is {window}")
    })
}

/// Where the queries of each player of a cell come from.
pub fn senders(factors: &Factors) -> Senders {
    match (factors.hosts().sources, factors.player().sources) {
        (Some(count), _) => Senders::Given(Some(count)),
        (None, Some(SourceChoice::One)) => Senders::Own,
        (None, _) => Senders::Given(None),
    }
}

impl Players<'_> {
    /// The cores of the player that is placed beside its subject: none, unless the subject's machine plays too.
    pub fn cores_beside_subject(&self, threads: usize) -> usize {
        if self.are_beside_subject { threads.max(1) } else { 0 }
    }

    /// The cores on which each player plays, with this many threads. On one machine they are neither the subject's nor
    /// those of an earlier player, as long as there are others.
    pub fn cpus(&self, threads: usize, subject_cpus: &[u32]) -> Vec<Vec<u32>> {
        let mut taken: BTreeSet<(&str, u32)> =
            subject_cpus.iter().map(|&cpu| (self.server_machine, cpu)).collect();
        let mut all = Vec::new();
        for player in self.hosts {
            let cpus = player.cpus(threads.max(1), |cpu| taken.contains(&(player.machine.as_str(), cpu)));
            taken.extend(cpus.iter().map(|&cpu| (player.machine.as_str(), cpu)));
            all.push(cpus);
        }
        all
    }

    /// The cores of the first player.
    pub fn first_cpus(&self, threads: usize, subject_cpus: &[u32]) -> Vec<u32> {
        let first = Self { hosts: &self.hosts[..self.hosts.len().min(1)], ..*self };
        first.cpus(threads, subject_cpus).pop().unwrap_or_default()
    }

    /// The cores of other players and of the subject on the machine of the player with this number, if `cpus` are those
    /// of all players.
    pub fn others(&self, number: usize, cpus: &[Vec<u32>], subject_cpus: &[u32]) -> Vec<u32> {
        let machine = &self.hosts[number].machine;
        let beside = self.hosts.iter().zip(cpus).enumerate();
        let beside = beside.filter(|(other, (host, _))| *other != number && host.machine == *machine);
        let of_subject = if machine == self.server_machine { subject_cpus } else { &[] };
        beside.flat_map(|(_, (_, cpus))| cpus).chain(of_subject).copied().collect()
    }
}

impl PlayerHost {
    /// Why it cannot play from the addresses that a cell asks for; `None` if it can.
    fn why_not_from(&self, factors: &Factors) -> Option<String> {
        let spread = SourceChoice::Spread.word();
        let (source, wanted) = (name::PLAYER_SOURCES, factors.hosts().sources);
        match (factors.player().sources, wanted, self.sources) {
            (Some(prefix @ SourceChoice::Prefix(..)), ..) => Some(format!(
                "{source} = {} has addresses of loopback, which reach no other host",
                prefix.word()
            )),
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

    /// This many of its cores beside those that are taken; if all are, any.
    fn cpus(&self, threads: usize, is_taken: impl Fn(u32) -> bool) -> Vec<u32> {
        let kept = |keeps: &dyn Fn(&CoreFacts) -> bool| {
            let cores = self.topology.cores.iter().filter(|core| keeps(core)).cloned().collect();
            Topology { cores, ..self.topology.clone() }
        };
        let free = kept(&|core| !is_taken(core.cpu));
        let apart = kept(&|core| core.smt.iter().chain([&core.cpu]).all(|cpu| !is_taken(*cpu)));
        if apart.cores.len() >= threads {
            return alone(&apart, threads);
        }
        alone(if free.cores.is_empty() { &self.topology } else { &free }, threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player(name: &str, machine: &str, cores: u32) -> PlayerHost {
        let core = |cpu| CoreFacts { cpu, core: cpu, smt: vec![cpu], ..CoreFacts::default() };
        let topology = Topology { cores: (0..cores).map(core).collect(), ..Topology::default() };
        PlayerHost { name: name.into(), machine: machine.into(), topology, sources: None }
    }

    fn hosts(players: Vec<PlayerHost>) -> PlayerHosts {
        PlayerHosts { server_machine: "server".into(), players, ..PlayerHosts::default() }
    }

    fn factors(words: &[(&str, &str)]) -> Factors {
        Factors::read(words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned()))).unwrap()
    }

    fn chosen_players<'a>(hosts: &'a PlayerHosts, words: &[(&str, &str)]) -> Result<Players<'a>, String> {
        players_of(Some(hosts), &factors(words)).map(|players| players.unwrap())
    }

    #[test]
    fn a_cell_has_the_first_hosts_of_the_file_or_a_reason() {
        let hosts = hosts(vec![player("p1", "a", 2), player("p2", "b", 2)]);
        let names = |words: &[(&str, &str)]| -> Vec<&str> {
            chosen_players(&hosts, words).unwrap().hosts.iter().map(|player| player.name.as_str()).collect()
        };
        assert_eq!(names(&[]), ["p1", "p2"]);
        assert_eq!(names(&[("hosts.players", "1")]), ["p1"]);
        let reason = chosen_players(&hosts, &[("hosts.players", "3")]).unwrap_err();
        assert_eq!(reason, "hosts.players = 3, and the hosts' file has 2 hosts to play");
        assert_eq!(chosen_players(&hosts, &[("path", "veth")]).unwrap_err(), NO_VETH);
    }

    #[test]
    fn sources_are_those_of_the_file_or_a_reason() {
        let mut spread = hosts(vec![player("p1", "a", 2), player("p2", "b", 2)]);
        let why = |hosts: &PlayerHosts, name: &str, word: &str| chosen_players(hosts, &[(name, word)]).err();
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
    fn a_window_that_players_cannot_share_is_a_reason() {
        let hosts = hosts((0..4).map(|one| player(&format!("p{one}"), "a", 2)).collect());
        let why = |window: &str, senders: &str| {
            chosen_players(&hosts, &[("player.window", window), ("player.senders", senders)]).err()
        };
        let expected = "4 players with 4 threads each need player.window = 16 or more, and it is 8";
        assert_eq!(why("8", "4").as_deref(), Some(expected));
        assert_eq!((why("16", "4"), why("8", "2")), (None, None));
        assert!(chosen_players(&hosts, &[("player.senders", "126")]).is_err(), "the usual window has 500");
        assert!(chosen_players(&hosts, &[("player.senders", "125")]).is_ok());
    }

    #[test]
    fn what_needs_several_hosts_is_left_out_on_one() {
        for (name, word, is_out) in [
            ("hosts.players", "1", false),
            ("hosts.players", "2", true),
            ("hosts.sources", "1", false),
            ("hosts.sources", "8", true),
        ] {
            let alone = players_of(None, &factors(&[(name, word)]));
            let expected = format!("{name} = {word} needs several hosts: name them with --hosts FILE");
            assert_eq!(alone.err(), is_out.then_some(expected));
        }
    }

    #[test]
    fn players_on_machines_of_their_own_choose_alone_and_others_keep_off_each_other() {
        let apart = hosts(vec![player("p1", "a", 4), player("p2", "b", 2)]);
        let players = chosen_players(&apart, &[]).unwrap();
        assert_eq!(players.cores_beside_subject(1), 0);
        let cpus = players.cpus(1, &[0, 1]);
        assert_eq!((cpus[0].len(), players.first_cpus(1, &[0, 1])), (1, cpus[0].clone()));
        assert!(players.others(0, &cpus, &[0, 1]).is_empty());
        let together = hosts(vec![player("p1", "server", 4), player("p2", "server", 4)]);
        let players = chosen_players(&together, &[]).unwrap();
        assert_eq!(players.cores_beside_subject(2), 2);
        let cpus = players.cpus(1, &[1]);
        assert!(cpus.iter().flatten().all(|cpu| *cpu != 1) && cpus[0] != cpus[1], "{cpus:?}");
        assert_eq!(players.others(0, &cpus, &[1]), [cpus[1].clone(), vec![1]].concat());
        let crowded = hosts(vec![player("p1", "server", 1), player("p2", "server", 1)]);
        let none_left = chosen_players(&crowded, &[]).unwrap().cpus(1, &[0]);
        assert_eq!(none_left, [vec![0], vec![0]], "there is no other");
    }
}
