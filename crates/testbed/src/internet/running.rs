//! A running Internet in a box: `kqps serve internet`, started anew for each start of a resolver. Resolver and player are in a
//! network of their own, from which the servers of the Internet can be reached and nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kqps_catalogue::choice::{InternetAttack, InternetSize};
use kqps_host::{Topology, cpu_s_so_far};
use kqps_internet::recipe::SERVERS_MAX;
use kqps_internet::{Internet, InternetRecipe, RecipeError, Server};
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::namespace::{NetNs, new_routes};
use kqps_kernel::probe::probe_one;
use kqps_kernel::process::set_group_niceness;
use kqps_observation::factors::DatasetFactors;
use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::{Cell, UpstreamFacts};
use serde::Deserialize;

use super::attack_settings;
use crate::event::Outage;
use crate::subject::definition::StopSignal;
use crate::subject::process::Process;
use crate::subject::start_error::StartError;

/// The name in messages.
const TITLE: &str = "the Internet in a box";

/// The folder of its output and its socket, in that of the resolver's start.
const FOLDER: &str = "internet";

/// The socket of its counts there.
const SOCKET: &str = "counts.sock";

/// How long the signing of a large tree may take.
const WITHIN: Duration = Duration::from_mins(1);

/// The pause between two looks whether it is ready.
const PAUSE: Duration = Duration::from_millis(5);

/// How long it may take to report its counts.
const PATIENCE: Duration = Duration::from_secs(5);

/// The niceness of servers that share the resolver's cores.
const NICENESS: i32 = -10;

/// How long its servers may take to remove their files.
const END_WITHIN: Duration = Duration::from_secs(1);

/// A running Internet. Dropping it stops its servers, and the networks end with the last program in them.
#[derive(Debug)]
pub struct InternetBox {
    /// The network of resolver and player.
    home: NetNs,
    /// The network of the servers.
    world: NetNs,
    /// The size, the attack, and the seed unless it is the recipe's own.
    tree: (InternetSize, Option<InternetAttack>, Option<u64>),
    /// The file of root hints.
    pub(crate) root_hints: String,
    /// The file of the root's trust anchor.
    pub(crate) trust_anchor: String,
    folder: PathBuf,
    /// Whether its servers use the cores of the resolver.
    is_beside_subject: bool,
    /// The ID of the servers' process.
    pid: u32,
    /// The process, until it is stopped. Threads share a path, and a process belongs to one of them at a time.
    servers: Mutex<Option<Process>>,
}

/// A program to start, and the place for what it writes.
#[derive(Clone, Copy, Debug)]
pub struct BoxSetting<'a> {
    /// The path of this program.
    pub kqps: &'a Path,
    /// The work folder of the resolver's start.
    pub folder: &'a Path,
    /// The seed of the run.
    pub seed: u64,
    /// The time that it has to become ready; `None` for a minute.
    pub share: Option<Duration>,
}

impl InternetBox {
    /// Starts the Internet of a cell, on a core of its own if there is one, else on those of the resolver, where it comes before
    /// other programs. `None` if the cell has none.
    ///
    /// # Errors
    ///
    /// If this process may not make networks, or if it is not ready in time. The main thread must call this.
    pub fn start(
        cell: &Cell,
        setting: &BoxSetting<'_>,
        interrupts: &Interrupts,
    ) -> Result<Option<Self>, StartError> {
        let dataset = cell.factors.dataset();
        let Some(size) = dataset.internet else { return Ok(None) };
        let failed = |what: &str| {
            let what = format!("{TITLE}: {what}");
            move |error| StartError::Io { what, error }
        };
        if let Err(reason) = probe_one("veth") {
            let what = "a resolver needs network namespaces, for which kqps runs as root or with CAP_SYS_ADMIN and \
                        CAP_NET_ADMIN";
            return Err(failed(what)(io::Error::other(reason)));
        }
        let folder = setting.folder.join(FOLDER);
        fs::create_dir_all(&folder).map_err(failed("making its folder"))?;
        let own = free_core(&Topology::read(), cell);
        let cpus = own.map_or_else(|| cell.subject_cpus.clone(), |core| vec![core]);
        let mut command = Command::new(setting.kqps);
        command.args(["serve", "internet", "--json", "--top", "0", "--status", SOCKET]);
        command.args(["--size", size.word()]).args(delays(dataset));
        command.args(
            attack_settings(dataset.attack).into_iter().flat_map(|setting| ["--set".to_owned(), setting]),
        );
        // A file of the user's is about the tree that `kqps gen internet` makes without a seed.
        if dataset.file.is_none() {
            command.args(["--seed", &setting.seed.to_string()]);
        }
        if let Some(core) = own {
            command.args(["--cpus", &core.to_string()]);
        }
        command.current_dir(&folder);
        let mut servers =
            Process::spawn(command, &cpus, &folder, setting.kqps).map_err(failed("starting its servers"))?;
        if own.is_none() {
            // Answers leave on time although the resolver is busy. Without the right to it they may be late.
            let _ = set_group_niceness(servers.pid(), NICENESS);
        }
        let ready = wait(&folder.join("output"), &mut servers, interrupts, setting.share)?;
        let home = NetNs::at(Path::new(&ready.resolver.path)).map_err(failed("entering its network"))?;
        let world =
            NetNs::at(Path::new(&ready.servers_path)).map_err(failed("entering its servers' network"))?;
        Ok(Some(Self {
            home,
            world,
            tree: (size, dataset.attack, dataset.file.is_none().then_some(setting.seed)),
            root_hints: ready.root_hints,
            trust_anchor: ready.trust_anchor,
            folder,
            is_beside_subject: own.is_none(),
            pid: servers.pid(),
            servers: Mutex::new(Some(servers)),
        }))
    }

    /// The ID of the servers' process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The ID of the servers' process if it uses the resolver's cores, and so is measured along with the resolver.
    pub fn pid_beside_subject(&self) -> Option<u32> {
        self.is_beside_subject.then_some(self.pid)
    }

    /// The network of resolver and player.
    pub fn home(&self) -> &NetNs {
        &self.home
    }

    /// The addresses of the servers that an outage is of. They are computed from the tree, which takes a second for a large one.
    ///
    /// # Errors
    ///
    /// If a built-in recipe is wrong.
    pub(crate) fn servers(&self, outage: Outage) -> Result<Vec<IpAddr>, RecipeError> {
        let (size, attack, seed) = self.tree;
        let mut recipe = super::recipe(size, attack, 0)?;
        recipe.seed = match seed {
            Some(seed) => seed,
            None => InternetRecipe::named("internet", Some(size.word()), &[])?.seed,
        };
        let internet = Internet::new(&recipe)?;
        let server = |own| match outage {
            Outage::Tld => Server::Tld(0, own),
            Outage::Company => Server::Company(0, own),
        };
        let servers = (0..SERVERS_MAX).map(server).filter(|server| internet.has_server(*server));
        Ok(servers.flat_map(|server| internet.addresses(server)).collect())
    }

    /// Drops all packets to these servers, or takes them again.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub(crate) fn drop_packets_to(&self, servers: &[IpAddr], is_dropped: bool) -> io::Result<()> {
        let change = if is_dropped { new_routes::drop_packets_to } else { new_routes::take_packets_to };
        self.world.within(|| servers.iter().try_for_each(|server| change(*server)))
    }

    /// The queries that its servers have got so far.
    ///
    /// # Errors
    ///
    /// If the servers do not report them in time.
    pub fn upstream(&self) -> io::Result<UpstreamFacts> {
        // The name of a socket has 108 bytes at most, and that of a folder may be longer.
        let folder = File::open(&self.folder)?;
        let socket = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let counts: Counts = serde_json::from_str(&text)?;
        let (cpu_s, is_beside_subject) = (cpu_s_so_far(self.pid), self.is_beside_subject);
        Ok(UpstreamFacts { cpu_s, is_beside_subject, ..counts.facts() })
    }
}

impl Drop for InternetBox {
    fn drop(&mut self) {
        let servers = self.servers.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(servers) = servers {
            servers.stop(StopSignal::Term, END_WITHIN, &Interrupts::default());
        }
    }
}

/// A core that neither the subject nor the player uses, and that shares no core of the subject. One that shares none of the
/// player either comes first.
fn free_core(topology: &Topology, cell: &Cell) -> Option<u32> {
    let Cell { subject_cpus, player_cpus, .. } = cell;
    let shares = |core: &&CoreFacts, cpus: &[u32]| {
        cpus.contains(&core.cpu) || core.smt.iter().any(|sibling| cpus.contains(sibling))
    };
    let free = topology.cores.iter().filter(|core| !shares(core, subject_cpus));
    let free = free.filter(|core| !player_cpus.contains(&core.cpu));
    free.min_by_key(|core| (shares(core, player_cpus), core.cpu)).map(|core| core.cpu)
}

/// Flags for the delays that a cell asks for.
fn delays(dataset: &DatasetFactors) -> Vec<String> {
    let Some(delay_ms) = dataset.delay_ms else { return Vec::new() };
    let delay_us = u64::from(delay_ms) * 1000;
    let set = |whose| ["--set".to_owned(), format!("delay.{whose}_us=[{delay_us}]")];
    let jitter = ["--set".to_owned(), "delay.jitter=0".to_owned()];
    ["root", "tld", "company"].into_iter().flat_map(set).chain(jitter).collect()
}

/// The line that the servers print once they answer.
#[derive(Deserialize)]
struct ReadyLine {
    root_hints: String,
    trust_anchor: String,
    resolver: Home,
    servers_path: String,
}

#[derive(Deserialize)]
struct Home {
    path: String,
}

/// Waits for the first line of the output.
fn wait(
    output: &Path,
    servers: &mut Process,
    interrupts: &Interrupts,
    share: Option<Duration>,
) -> Result<ReadyLine, StartError> {
    let began = Instant::now();
    let within = share.map_or(WITHIN, |share| share.min(WITHIN));
    let title = || TITLE.to_owned();
    loop {
        let printed = fs::read_to_string(output).unwrap_or_default();
        let mut whole = printed.lines().take(printed.matches('\n').count());
        if let Some(ready) = whole.find_map(|line| serde_json::from_str(line).ok()) {
            return Ok(ready);
        }
        if let Some(how) = servers.ended() {
            return Err(StartError::Died { title: title(), how, output: servers.kill() });
        }
        if interrupts.is_asked() {
            return Err(StartError::Interrupted);
        }
        if began.elapsed() >= within {
            let (within_s, output, is_share) = (within.as_secs_f64(), servers.kill(), within < WITHIN);
            return Err(StartError::NotReady { title: title(), within_s, is_share, said: None, output });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Counts of the servers, as their socket reports them.
#[derive(Deserialize)]
struct Counts {
    internet: ByTransport,
}

/// Level of the zone → kind of the answer → queries.
type Levels = BTreeMap<String, BTreeMap<String, u64>>;

#[derive(Deserialize)]
struct ByTransport {
    udp: Levels,
    tcp: Levels,
    faults: BTreeMap<String, u64>,
}

impl Counts {
    fn facts(self) -> UpstreamFacts {
        let by_level = |levels: Levels| {
            levels.into_iter().map(|(level, kinds)| (level, kinds.into_values().sum())).collect()
        };
        let ByTransport { udp, tcp, faults } = self.internet;
        UpstreamFacts { udp: by_level(udp), tcp: by_level(tcp), faults, ..UpstreamFacts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_share_no_core_with_the_resolver() {
        let core = |cpu: u32| CoreFacts { cpu, smt: vec![cpu % 3, cpu % 3 + 3], ..CoreFacts::default() };
        let topology = Topology { cores: (0..6).map(core).collect(), ..Topology::default() };
        let free = |subject: &[u32], player: &[u32]| {
            let cell = Cell { subject_cpus: subject.into(), player_cpus: player.into(), ..Cell::default() };
            free_core(&topology, &cell)
        };
        assert_eq!(free(&[0], &[1]), Some(2), "3 is the subject's sibling, and 4 the player's");
        assert_eq!(free(&[0, 2], &[1]), Some(4));
        assert_eq!(free(&[0, 1, 2], &[3]), None);
    }

    #[test]
    fn delays_are_those_of_all_servers() {
        let with = |delay_ms| delays(&DatasetFactors { delay_ms, ..DatasetFactors::default() });
        assert!(with(None).is_empty());
        let flags = with(Some(20)).join(" ");
        assert_eq!(
            flags,
            "--set delay.root_us=[20000] --set delay.tld_us=[20000] --set delay.company_us=[20000] \
             --set delay.jitter=0"
        );
    }

    #[test]
    fn counts_are_summed_by_level() {
        let text = r#"{"received": 9, "internet": {"udp": {"root": {"referral": 2, "answer": 1}},
            "tcp": {"tld": {"referral": 3}}, "faults": {"loss": 4}, "under_way": 0, "delayed": 0}}"#;
        let facts = serde_json::from_str::<Counts>(text).unwrap().facts();
        assert_eq!((facts.udp["root"], facts.tcp["tld"], facts.faults["loss"]), (3, 3, 4));
        assert_eq!(facts.queries(), 6);
    }
}
