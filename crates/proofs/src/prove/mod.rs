//! `cargo xtask prove NAME`: proofs whose answer is known beforehand. Each proof has a small form, which the
//! tests run, so that it cannot break unnoticed.

mod accounts;
mod cache;
mod connections;
mod courses;
mod delay;
mod differential;
mod disturbed;
mod freeze;
mod front;
mod gauge;
mod history;
mod hosts;
mod internet;
mod judgement;
mod kept_trials;
mod kill;
mod ledger;
mod overload;
mod package;
mod patience;
mod pauses;
mod quota;
mod replay;
mod reproduce;
mod scenario;
mod search;
mod soak;
mod stand_in;
mod starved;
mod taker;
mod witnessed;
mod work;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::ValueEnum;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::probe::probe_one;
use kqps_skips::{Capability, skip};
use kqps_testbed::materials::one_zone;
use kqps_testbed::path::LaidPath;
use kqps_testbed::subject::{Definition, LaunchSetting, StartError, Subject, Zone};

use crate::program::{Expected, Program, write_queries};
use crate::scratch::Scratch;

/// A proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Proof {
    /// Accounts agree with a relay that makes faults, to the last query
    Accounts,
    /// Accounts of queries and connections agree with a server that makes faults, over TCP, TLS, HTTPS and QUIC
    Connections,
    /// Every query of a known capture leaves in order, at its time and for its client, as tcpdump records it
    Replay,
    /// A subject that pauses for a second shows in the quantiles
    Freeze,
    /// A constant delay moves the median by exactly that much
    Delay,
    /// A load follows its course, resperf finds a known capacity, and a check says the right word
    Courses,
    /// Each class of clients has its own fates, and good clients are played in time beside an attack
    Scenario,
    /// A player without CPU gives no rate
    Starved,
    /// A run that is killed loses and repeats no trial
    Kill,
    /// The ledger finds the place and the count of every injected loss
    Ledger,
    /// Comparisons of subjects with a known difference get the right verdict
    Judgement,
    /// A long trial stays exact, and its memory stays the same
    Soak,
    /// Our authoritative server replies like NSD, Knot DNS and BIND, in all that these agree on
    Differential,
    /// Twice its capacity costs an authoritative server little, and nothing afterwards
    Overload,
    /// The gauge shows the part of a core that is taken away, and the witness every pause of a core
    Gauge,
    /// A repeated measurement gives the same answer: runs, searches, comparisons of a server with itself
    Reproduce,
    /// A search blames the subject for its own pauses, and not for what the host does
    Disturbed,
    /// A front accounts for every query once, and replies to no other client, whatever its peers do
    Front,
    /// A cache keeps no forged answer, gives every query a fate whatever its servers do, holds its memory, and answers alike
    /// whatever was asked before
    Cache,
    /// Several hosts: clocks, counts, every way to reach a host, 200 players, faults, and tuning with its undo
    Hosts,
    /// A history of runs raises no alarm without a change, finds a step and a creep, and the workflow for CI fails the
    /// right commit
    History,
    /// A tree of zones is served as it is: delays are exact, and every query is counted
    Internet,
    /// The packages do the main job on systems that have nothing else, and a purge leaves the user's files alone
    Package,
}

/// The proofs whose parts have names.
const WITH_PARTS: [Proof; 12] = [
    Proof::Cache,
    Proof::Connections,
    Proof::Courses,
    Proof::Front,
    Proof::History,
    Proof::Hosts,
    Proof::Internet,
    Proof::Judgement,
    Proof::Package,
    Proof::Replay,
    Proof::Reproduce,
    Proof::Scenario,
];

/// How thorough a proof is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Seconds: what the tests run
    Small,
    /// As long as it takes
    Whole,
}

/// The options of `cargo xtask prove`.
#[derive(clap::Args)]
pub struct Options {
    /// Proofs to make (repeatable)
    #[arg(required = true)]
    proofs: Vec<Proof>,
    /// How thorough
    #[arg(long, default_value = "whole")]
    size: Size,
    /// The program to test (default: the release build, made now)
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The seed of generated queries (differential)
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Ask only the generated query of this index, and show all replies (differential)
    #[arg(long)]
    index: Option<u64>,
    /// Prove only the part of this name (cache, connections, courses, front, history, hosts, internet, judgement, package,
    /// replay, reproduce, scenario)
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// Per cents of the cores that other work takes meanwhile (reproduce: runs and finds), such as 0,5,15,30
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u32).range(..100))]
    beside: Vec<u32>,
    /// The folder of the packages to prove (package; default: made now)
    #[arg(long, value_name = "DIR")]
    packages: Option<PathBuf>,
    /// The folder for files that later proofs use again.
    #[arg(skip)]
    kept: Option<PathBuf>,
}

impl Options {
    /// Whether a proof needs packages that the user does not name.
    pub fn needs_packages(&self) -> bool {
        self.packages.is_none() && self.proves_packages()
    }

    /// Whether packages are proved, and not only a program (the small form).
    pub fn proves_packages(&self) -> bool {
        self.size == Size::Whole && self.proofs.contains(&Proof::Package)
    }

    /// Whether packages are proved and nothing else is.
    pub fn proves_packages_alone(&self) -> bool {
        self.proves_packages() && self.proofs.iter().all(|proof| *proof == Proof::Package)
    }

    /// Sets a folder for files that later proofs use again.
    #[must_use]
    pub fn with_kept(self, folder: PathBuf) -> Self {
        Self { kept: Some(folder), ..self }
    }

    /// Sets the folder of the packages.
    #[must_use]
    pub fn with_packages(self, packages: PathBuf) -> Self {
        Self { packages: Some(packages), ..self }
    }

    /// The program to test, if the user names one.
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// Whether a proof needs the agent that plays no load (`crates/proofs/examples/agent.rs`).
    pub fn needs_silent_agent(&self) -> bool {
        let is_wanted = self.only.as_deref().is_none_or(|only| only == hosts::SCALE);
        is_wanted && self.proofs.contains(&Proof::Hosts)
    }
}

/// The default seed.
const SEED: u64 = 1;

/// A part of a proof: its name, and its proof.
type Part = (&'static str, fn(&Bench) -> Result<()>);

/// The program, folders and settings that the proofs of a run share.
struct Bench {
    kqps: Program,
    size: Size,
    folder: Scratch,
    /// The seed of generated queries.
    seed: u64,
    /// The index of the only generated query to ask; `None` for all of them.
    index: Option<u64>,
    /// The name of the only part to prove; `None` for all of them.
    only: Option<String>,
    /// Per cents of the cores that other work takes meanwhile.
    beside: Vec<u32>,
    /// The folder of the packages to prove.
    packages: Option<PathBuf>,
    /// The folder for files that later proofs use again.
    kept: Option<PathBuf>,
}

const QUERIES: u32 = 100_000;

/// The player's I/O models, each with the capability that it needs beyond plain sockets (`kqps probe`).
const IOS: [(&str, Option<(&str, Capability)>); 4] = [
    ("plain", None),
    ("mmsg", None),
    ("gso", Some(("gro", Capability::Segmentation))),
    ("uring", Some(("uring", Capability::Uring))),
];

impl Bench {
    fn new(size: Size, program: &Path) -> Result<Self> {
        Ok(Self {
            kqps: Program::new(program)?,
            size,
            folder: Scratch::new()?,
            seed: SEED,
            index: None,
            only: None,
            beside: vec![0],
            packages: None,
            kept: None,
        })
    }

    /// A copy with another, empty folder.
    fn anew(&self) -> Result<Self> {
        let (kqps, only, packages) = (self.kqps.clone(), self.only.clone(), self.packages.clone());
        let (beside, kept) = (self.beside.clone(), self.kept.clone());
        Ok(Self { kqps, folder: Scratch::new()?, only, beside, packages, kept, ..*self })
    }

    /// Starts a name server as the lab does, with one worker, in a folder of this name.
    fn subject(
        &self,
        definition: &Definition,
        folder: &str,
        zones: &[Zone],
        io: &str,
        cpus: &[u32],
    ) -> Result<Subject, StartError> {
        let setting = LaunchSetting {
            path: &LaidPath::Loopback,
            folder: &self.folder.path().join(folder),
            zones,
            kqps: &self.kqps.program,
            io,
            workers: 1,
            cpus,
            settings: &BTreeMap::new(),
        };
        Subject::start(definition, &setting, &Interrupts::default())
    }

    /// A query file that expects NOERROR for every query.
    fn queries(&self, count: u32) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{count}.queries"));
        write_queries(&path, count, Expected::Rcode)?;
        Ok(path)
    }

    /// A query file that expects the relay's answers, by their digests.
    fn queries_with_answers(&self, count: u32) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{count}.queries-with-answers"));
        write_queries(&path, count, Expected::Answer)?;
        Ok(path)
    }

    /// A zone of address records, and queries for its names with their expected rcodes.
    fn zone(&self, records: u64) -> Result<(PathBuf, PathBuf)> {
        let recipe = one_zone(records);
        let (zone, queries) = (self.folder.path().join("zone"), self.folder.path().join("queries"));
        kqps_recipe::zone(&recipe, &zone)?;
        kqps_recipe::queries(&recipe, QUERIES.into(), &queries)?;
        Ok((zone, queries))
    }

    /// The parts to prove. An error if there is none of that name.
    fn parts<'p, P>(&self, parts: &'p [P], name: impl Fn(&P) -> &str) -> Result<Vec<&'p P>> {
        let is_picked = |part: &&P| self.only.as_deref().is_none_or(|only| only == name(part));
        let picked: Vec<&P> = parts.iter().filter(is_picked).collect();
        let names = || parts.iter().map(&name).collect::<Vec<_>>().join(", ");
        ensure!(!picked.is_empty(), "--only: there is no such part; there are: {}", names());
        Ok(picked)
    }

    /// Proves the parts one after the other, or the one that the user names, without those that are left out.
    fn prove_parts(&self, parts: &[Part], is_left_out: impl Fn(&str) -> bool) -> Result<()> {
        let parts = self.parts(parts, |(name, _)| name)?;
        parts.into_iter().filter(|(name, _)| !is_left_out(name)).try_for_each(|part| self.prove_one(part))
    }

    /// Proves a part in a folder of its own, and prints how long that took.
    fn prove_one(&self, (name, prove): &Part) -> Result<()> {
        let began = Instant::now();
        self.anew().and_then(|bench| prove(&bench)).with_context(|| (*name).to_owned())?;
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
        Ok(())
    }

    /// Leaves out what this host cannot prove. In the whole form that is an error.
    #[track_caller]
    fn leave_out(&self, lacking: Capability, reason: impl Display) -> Result<()> {
        ensure!(self.size == Size::Small, "{reason}");
        skip(lacking, reason);
        Ok(())
    }

    /// Chooses between two values, by size.
    fn choose<T>(&self, small: T, whole: T) -> T {
        match self.size {
            Size::Small => small,
            Size::Whole => whole,
        }
    }
}

/// Does something with each item, with so many at the same time. Returns the results in the order of the items.
fn side_by_side<I: Sync, T: Send>(
    items: &[I],
    at_a_time: usize,
    act: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let act = &act;
    let mut done = Vec::with_capacity(items.len());
    for some in items.chunks(at_a_time) {
        let results = thread::scope(|scope| {
            let begun: Vec<_> = some.iter().map(|item| scope.spawn(move || act(item))).collect();
            begun.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        for result in results {
            done.push(result.map_err(|_| anyhow!("a thread of the proof panicked"))??);
        }
    }
    Ok(done)
}

/// The player's I/O models that this host offers. Prints for each other why the host does not offer it.
fn player_ios() -> Vec<&'static str> {
    let is_offered = |(io, needs): &(&str, Option<(&str, Capability)>)| {
        let Some((capability, lacking)) = *needs else { return true };
        let offered = probe_one(capability);
        offered.inspect_err(|reason| skip(lacking, format_args!("--io {io}: {reason}"))).is_ok()
    };
    IOS.into_iter().filter(is_offered).map(|(io, _)| io).collect()
}

/// Proves what the options ask for, one proof after the other. The error is that of the first proof that fails.
/// `program` is the tested program.
pub fn run(options: &Options, program: &Path) -> Result<()> {
    ensure!(
        options.only.is_none() || options.proofs.iter().all(|proof| WITH_PARTS.contains(proof)),
        "--only: the parts of cache, connections, courses, front, history, hosts, internet, judgement, package, \
         replay, reproduce and scenario have names, those of other proofs have none"
    );
    for proof in &options.proofs {
        let began = Instant::now();
        let bench = Bench {
            seed: options.seed,
            index: options.index,
            only: options.only.clone(),
            beside: options.beside.clone(),
            packages: options.packages.clone(),
            kept: options.kept.clone(),
            ..Bench::new(options.size, program)?
        };
        prove_on(&bench, *proof)?;
        eprintln!("proved: {proof:?}, in {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Proves one claim about a program. An error says what does not hold.
pub fn prove(proof: Proof, size: Size, program: &Path) -> Result<()> {
    prove_on(&Bench::new(size, program)?, proof)
}

/// Proves the part of a claim that has this name.
pub fn prove_part(proof: Proof, part: &str, size: Size, program: &Path) -> Result<()> {
    prove_on(&Bench { only: Some(part.to_owned()), ..Bench::new(size, program)? }, proof)
}

fn prove_on(bench: &Bench, proof: Proof) -> Result<()> {
    match proof {
        Proof::Accounts => accounts::prove(bench),
        Proof::Connections => connections::prove(bench),
        Proof::Replay => replay::prove(bench),
        Proof::Freeze => freeze::prove(bench),
        Proof::Courses => courses::prove(bench),
        Proof::Scenario => scenario::prove(bench),
        Proof::Delay => delay::prove(bench),
        Proof::Starved => starved::prove(bench),
        Proof::Kill => kill::prove(bench),
        Proof::Ledger => ledger::prove(bench),
        Proof::Judgement => judgement::prove(bench),
        Proof::Soak => soak::prove(bench),
        Proof::Differential => differential::prove(bench),
        Proof::Overload => overload::prove(bench),
        Proof::Gauge => gauge::prove(bench),
        Proof::Reproduce => reproduce::prove(bench),
        Proof::Disturbed => disturbed::prove(bench),
        Proof::Front => front::prove(bench),
        Proof::Hosts => hosts::prove(bench),
        Proof::History => history::prove(bench),
        Proof::Package => package::prove(bench),
        Proof::Cache => cache::prove(bench),
        Proof::Internet => internet::prove(bench),
    }
}
