//! The settings of a cell that are not the player's: its subject, its dataset, its path and its hosts.

use super::rows::settings;
use crate::choice::{CertificateType, ComparedAs, InternetAttack, InternetSize, Names, Path};
use crate::name;
use crate::setting::{COUNT, Kind, ReceiveCore};

/// The most queues that the kernel accepts (`veth.c`, `veth_get_num_queues`).
const QUEUES_MOST: i64 = 4096;

settings! {
    /// The settings of the cell itself, and of its subject.
    CellFactors, CELL;

    /// The longest warm-up until the rate is steady, seconds; `None` if the cell asks for no steady state.
    steady_s: f64 = name::STEADY, Kind::Duration, Every, Study,
        "the longest warm-up, from `11s` to `1m`; it ends when the rate is steady";
    /// The type of the subject's certificate; `None` for the usual one.
    certificate: CertificateType = name::SUBJECT_CERTIFICATE, Kind::Choice(&CertificateType::WORDS), Encrypted, Study,
        "the type of the subject's certificate; `ecdsa-p256` by default";
    /// The niceness of the subject (setpriority(2)).
    niceness: i32 = name::HOST_NICE, Kind::Number { least: -20, most: 19, noun: "number" }, Every, Study,
        "the subject's niceness, which ends with its processes";
    /// The core of the subject's host that does all receive work of the path; `None` for any that the kernel chooses.
    receive_core: ReceiveCore = name::HOST_RECEIVE_CORE, Kind::Core, Every, Study,
        "the core of the subject's host that does all receive work of the path: by the interrupts of the path's device (RPS is then off), and by RPS on a device without interrupts, as loopback and veth, or with interrupts that the kernel places";
    /// The scenario that plays beside the good clients ([`crate::scenario`]).
    scenario: String = name::SCENARIO, Kind::Text, Every, Study,
        "clients beside the good ones ([SCENARIOS.md](SCENARIOS.md)): `none`, `random-names=50k` and others with a rate, or without one if a search varies it";
    /// The rate of the good clients beside a scenario whose rate is searched, queries a second.
    good_rate: u32 = name::GOOD_RATE, COUNT, Every, Study,
        "queries a second of the good clients, if a search varies the rate of the scenario";
    /// The event in each load, as a word of a study.
    event: String = name::EVENT, Kind::Text, Every, Study,
        "what happens to the subject in the middle of each load ([Events](#events)): `none`, `reload`, `restart`, `transfer`, `stop=300ms`, `update=100` and others";
    /// Shares of the figure at which latency is measured, percent.
    latency_at_percent: Vec<u32> = name::LATENCY_AT, Kind::Percents, Every, Run,
        "shares of the figure at which latency is measured";
    /// Trials in each start, under each load; `None` outside comparisons.
    rounds: u32 = name::ROUNDS, COUNT, Every, Run,
        "trials in each start, under each load";
    /// The part of the cell in a comparison; `None` outside comparisons.
    compared_as: ComparedAs = name::COMPARED_AS, Kind::Choice(&ComparedAs::WORDS), Every, Run,
        "the part of the cell in a comparison";
}

settings! {
    /// The zones and queries that a cell names.
    DatasetFactors, DATASET;

    /// The names that queries ask for.
    names: Names = name::DATASET_NAMES, Kind::Choice(&Names::WORDS), Every, Study,
        "random names in the queries, or the same one every time; `random` by default";
    /// The name of the recipe; `None` for one zone of address records.
    recipe: String = name::DATASET_RECIPE, Kind::Text, Every, Study,
        "a recipe by its name ([DATASETS.md](DATASETS.md)); by default a zone of address records";
    /// Zones that load; `None` for as many as the recipe has.
    zones: u64 = name::DATASET_ZONES, COUNT, Every, Study,
        "zones that load; by default as many as the recipe has";
    /// Records in all zones together; `None` for as many as the recipe has.
    records: u64 = name::DATASET_RECORDS, COUNT, Every, Study,
        "records of all zones together; by default as many as the recipe has";
    /// The size of the Internet in a box that the subject resolves in; `None` for zones of its own.
    internet: InternetSize = name::INTERNET, Kind::Choice(&InternetSize::WORDS), Every, Study,
        "for a resolver, the Internet in a box that it resolves in ([RESOLVERS.md](RESOLVERS.md)): `small`, `medium` or `large`. Its clients' queries are played";
    /// The share of queries that a resolver can answer from its cache, percent; `None` if names are drawn by popularity.
    hits_percent: u32 = name::INTERNET_HITS, Kind::Number { least: 0, most: 99, noun: "number of percent" }, Every, Study,
        "percent of the queries that are for a thousand names which stay in a cache; all others ask for a name of their own. By default names are drawn by popularity, and the cache begins cold";
    /// How long each server of the Internet takes to answer, milliseconds; `None` for times of the recipe.
    delay_ms: u32 = name::INTERNET_DELAY, Kind::Number { least: 0, most: 2000, noun: "number of milliseconds" }, Every, Study,
        "milliseconds that each server of the Internet takes to answer; by default each has a time of its own, 1 to 352 ms";
    /// An attack by names whose servers are an attacker's; `None` for none.
    attack: InternetAttack = name::INTERNET_ATTACK, Kind::Choice(&InternetAttack::WORDS), Every, Study,
        "an attack on the resolver: `many-servers` (one of ten misses refers to 30 servers whose names do not exist) or `aliases` (of names by popularity, each leads over eight aliases); `none` by default";
    /// The name of the user's query file, which is played instead of generated queries.
    file: String = name::DATASET_FILE, Kind::Text, Every, Run,
        "the user's query file, played instead of generated queries";
}

settings! {
    /// The part of a run's hosts that a cell uses.
    HostsFactors, HOSTS;

    /// Hosts that play: the first of the hosts' file. `None` for all of them.
    players: u32 = name::HOSTS_PLAYERS, COUNT, Every, Study,
        "with `--hosts` ([Several hosts](#several-hosts)), hosts that play: the first of the file; all of them by default";
    /// Source addresses of each player: the first of those that the hosts' file gives it. `None` for all of them, unless
    /// the player's own setting says otherwise.
    sources: u32 = name::HOSTS_SOURCES, COUNT, Every, Study,
        "source addresses of each host that plays, of its `sources` in the file; all by default";
}

settings! {
    /// The path that a cell names.
    PathFactors, PATH;

    /// The kind of path; `None` for that of the study.
    kind: Path = name::PATH, Kind::Choice(&Path::WORDS), Every, Study,
        "the path of queries; that of the study by default. The settings below apply to the two namespaces of a veth path, and vanish with them";
    /// Queues of each device for sending, and as many for receiving.
    queues: u32 = name::PATH_QUEUES, Kind::Number { least: 1, most: QUEUES_MOST, noun: "number of queues" }, Every, Study,
        "queues of each device for sending, and as many for receiving";
    /// The most packets that wait in front of each device.
    txqueuelen: u32 = name::PATH_TXQUEUELEN, Kind::Number { least: 0, most: i64::MAX, noun: "number of packets" }, Every, Study,
        "the most packets that wait in front of each device";
    /// The cores that process received packets (RPS).
    rps_cpus: Vec<u32> = name::PATH_RPS_CPUS, Kind::Cores, Every, Study,
        "the cores that process received packets (RPS)";
    /// Whether received packets are joined (GRO), which turns NAPI on too.
    gro: bool = name::PATH_GRO, Kind::Truth("on", "off"), Every, Study,
        "whether received packets are joined, which turns NAPI on too";
}
