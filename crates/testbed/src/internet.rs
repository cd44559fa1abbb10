//! The Internet in a box of a resolver: `kqps serve internet`, started anew for each start of the resolver. Resolver and
//! player are in a network of their own, from which the servers of the Internet can be reached and nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kqps_catalogue::choice::InternetSize;
use kqps_host::Topology;
use kqps_internet::{Internet, InternetRecipe, RecipeError};
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::namespace::NetNs;
use kqps_observation::factors::{DatasetFactors, name};
use kqps_observation::{Cell, Factors, UpstreamFacts, question};
use serde::Deserialize;

use crate::subject::process::Process;
use crate::subject::{Definition, StartError};

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

/// How long it may take to tell its counts.
const PATIENCE: Duration = Duration::from_secs(5);

/// The built-in recipe of a size, with a seed for its tree and for the questions of its clients.
pub fn recipe(size: InternetSize, seed: u64) -> Result<InternetRecipe, RecipeError> {
    let mut recipe = InternetRecipe::named("internet", Some(size.word()), &[])?;
    (recipe.seed, recipe.queries.seed) = (seed, seed);
    Ok(recipe)
}

/// Whether a cell with these factors can have this subject: a resolver needs an Internet, and no other server has one.
///
/// # Errors
///
/// The factor that is missing or sets nothing, as a sentence without its full stop.
pub fn check(definition: &Definition, factors: &Factors) -> Result<(), String> {
    let (title, dataset) = (&definition.title, factors.dataset());
    let of_internet = factors.words().keys().find(|name| name.starts_with(name::INTERNET));
    match dataset.internet {
        None if definition.resolves() => Err(format!(
            "{title} resolves in an Internet in a box: give its size, such as {} = \"small\"",
            name::INTERNET
        )),
        None => match of_internet {
            Some(setting) => Err(format!("{setting} sets nothing without {}", name::INTERNET)),
            None => Ok(()),
        },
        Some(_) if !definition.resolves() => Err(format!(
            "{} is for resolvers, and {title} does not use {{root_hints}} in its definition",
            name::INTERNET
        )),
        Some(_) => {
            let is_of_zones = |name: &&String| name.starts_with(name::DATASET) && *name != name::DATASET_FILE;
            let is_path = factors.path().kind == Some(question::Path::Veth);
            let unfit = factors.words().keys().find(is_of_zones).map(String::as_str);
            match unfit.or(is_path.then_some(name::PATH)) {
                Some(unfit) => Err(format!(
                    "{unfit} sets nothing beside {}: the box has zones, queries and a network of its own",
                    name::INTERNET
                )),
                None => Ok(()),
            }
        }
    }
}

/// The conditions of a resolver's figures in words, without which they say nothing: its hit rate, and the delay of the servers. Each
/// has the name of its factor. Empty for a cell without an Internet.
pub fn conditions(factors: &Factors) -> Vec<(&'static str, String)> {
    let dataset = factors.dataset();
    if dataset.internet.is_none() {
        return Vec::new();
    }
    let hits = dataset.hits_percent.map_or("names by popularity".into(), |percent| format!("{percent} % hits"));
    let delay = dataset.delay_ms.map_or("servers 1 to 352 ms away".into(), |ms| format!("servers {ms} ms away"));
    vec![(name::INTERNET_HITS, hits), (name::INTERNET_DELAY, delay)]
}

/// Lines of a query file of clients: names by popularity, or with a share of hits.
pub(crate) fn client_queries(
    internet: &Internet,
    hits_percent: Option<u32>,
    count: u64,
) -> impl Iterator<Item = String> {
    let steady = hits_percent.map(|percent| internet.steady_questions(f64::from(percent) / 100.0));
    (0..count).map(move |number| {
        let question = match &steady {
            Some(steady) => steady.question(number),
            None => internet.question(number),
        };
        internet.question_line(&question)
    })
}

/// A running Internet. Dropping it stops its servers, and the networks end with the last program in them.
#[derive(Debug)]
pub struct InternetBox {
    /// The network of resolver and player.
    home: NetNs,
    /// The file of root hints.
    pub(crate) root_hints: String,
    /// The file of the root's trust anchor.
    pub(crate) trust_anchor: String,
    folder: PathBuf,
    /// Whether its servers use a core of the player.
    is_beside_player: bool,
    /// Nobody looks at it, and a path is shared among threads.
    _servers: Mutex<Process>,
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
}

impl InternetBox {
    /// Starts the Internet of a cell, on a core of its own if there is one, else on those of the player. `None` if the cell
    /// has none.
    ///
    /// # Errors
    ///
    /// If this process may not make networks, or if it is not ready within a minute. The main thread must call this.
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
        let folder = setting.folder.join(FOLDER);
        fs::create_dir_all(&folder).map_err(failed("making its folder"))?;
        let own = free_core(cell);
        let cpus = own.map_or_else(|| cell.player_cpus.clone(), |core| vec![core]);
        let mut command = Command::new(setting.kqps);
        command.args(["serve", "internet", "--json", "--top", "0", "--status", SOCKET]);
        command.args(["--size", size.word()]).args(delays(dataset));
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
        let ready = wait(&folder.join("output"), &mut servers, interrupts)?;
        let home = NetNs::at(Path::new(&ready.resolver.path)).map_err(failed("entering its network"))?;
        Ok(Some(Self {
            home,
            root_hints: ready.root_hints,
            trust_anchor: ready.trust_anchor,
            folder,
            is_beside_player: own.is_none(),
            _servers: Mutex::new(servers),
        }))
    }

    /// The network of resolver and player.
    pub(crate) fn home(&self) -> &NetNs {
        &self.home
    }

    /// Whether its servers use a core of the player, which must then not run before all others there.
    pub(crate) fn is_beside_player(&self) -> bool {
        self.is_beside_player
    }

    /// The queries that its servers have got so far.
    pub fn upstream(&self) -> io::Result<UpstreamFacts> {
        // The name of a socket has 108 bytes at most, and that of a folder may be longer.
        let folder = File::open(&self.folder)?;
        let socket = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let counts: Counts = serde_json::from_str(&text)?;
        Ok(counts.facts())
    }
}

/// A core that neither the subject nor the player uses.
fn free_core(cell: &Cell) -> Option<u32> {
    let is_taken = |cpu: &u32| cell.subject_cpus.contains(cpu) || cell.player_cpus.contains(cpu);
    Topology::read().cores.iter().map(|core| core.cpu).find(|cpu| !is_taken(cpu))
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
}

#[derive(Deserialize)]
struct Home {
    path: String,
}

/// Waits for the first line of the output.
fn wait(output: &Path, servers: &mut Process, interrupts: &Interrupts) -> Result<ReadyLine, StartError> {
    let began = Instant::now();
    let title = || TITLE.to_owned();
    loop {
        let printed = fs::read_to_string(output).unwrap_or_default();
        let whole = printed.lines().take(printed.matches('\n').count());
        if let Some(ready) = whole.filter_map(|line| serde_json::from_str(line).ok()).next() {
            return Ok(ready);
        }
        if let Some(how) = servers.ended() {
            return Err(StartError::Died { title: title(), how, output: servers.kill() });
        }
        if interrupts.is_asked() {
            return Err(StartError::Interrupted);
        }
        if began.elapsed() >= WITHIN {
            let (within_s, output) = (WITHIN.as_secs_f64(), servers.kill());
            return Err(StartError::NotReady {
                title: title(),
                within_s,
                is_share: false,
                said: None,
                output,
            });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Counts of the servers, as their socket tells them.
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
        UpstreamFacts { udp: by_level(udp), tcp: by_level(tcp), faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::builtin;

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
    fn an_internet_is_for_resolvers_and_these_have_one() {
        let subject =
            |name: &str| builtin::servers().into_iter().find(|definition| definition.name == name).unwrap();
        let of = |subject: &Definition, words: &[(&str, &str)]| {
            let words = words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned()));
            check(subject, &Factors::read(words).unwrap())
        };
        let (resolver, server) = (subject("unbound-resolver"), subject("nsd"));
        let internet = (name::INTERNET, "small");
        assert_eq!(
            (of(&resolver, &[internet, (name::PATH, "loopback")]), of(&server, &[])),
            (Ok(()), Ok(()))
        );
        for (subject, words, wanted) in [
            (&resolver, &[][..], "internet = \"small\""),
            (&server, &[internet][..], "is for resolvers"),
            (&server, &[(name::INTERNET_DELAY, "20")], "sets nothing without internet"),
            (&resolver, &[internet, (name::DATASET_RECIPE, "tld")], "dataset.recipe sets nothing beside"),
            (&resolver, &[internet, (name::PATH, "veth")], "path sets nothing beside"),
        ] {
            let error = of(subject, words).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn counts_are_summed_by_level() {
        let text = r#"{"received": 9, "internet": {"udp": {"root": {"referral": 2, "answer": 1}},
            "tcp": {"tld": {"referral": 3}}, "faults": {"loss": 4}, "under_way": 0, "delayed": 0}}"#;
        let facts = serde_json::from_str::<Counts>(text).unwrap().facts();
        assert_eq!((facts.udp["root"], facts.tcp["tld"], facts.faults["loss"]), (3, 3, 4));
        assert_eq!(facts.queries(), 6);
    }

    #[test]
    fn clients_ask_by_popularity_or_with_a_share_of_hits() {
        let internet = Internet::new(&recipe(InternetSize::Small, 7).unwrap()).unwrap();
        let by_popularity: Vec<_> = client_queries(&internet, None, 50).collect();
        let steady: Vec<_> = client_queries(&internet, Some(50), 50).collect();
        assert!(by_popularity.iter().chain(&steady).all(|line| line.ends_with('\n')));
        assert_ne!(by_popularity, steady);
    }
}
