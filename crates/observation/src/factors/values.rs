//! The values of factors.

use std::collections::BTreeMap;

use super::name;
use crate::question::Path;
use crate::trial::Transport;

/// The values of all factors that measuring knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Values {
    pub(super) player: PlayerFactors,
    pub(super) dataset: DatasetFactors,
    pub(super) path: PathFactors,
    pub(super) steady_s: Option<f64>,
    pub(super) latency_at_percent: Vec<u32>,
    pub(super) rounds: Option<u32>,
    pub(super) compared_as: Option<ComparedAs>,
    pub(super) niceness: Option<i32>,
}

/// The settings of the player that a cell names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayerFactors {
    /// The player's I/O, by its name in `kqps load --io`; for UDP.
    pub io: Option<String>,
    /// Sending threads, at least 1.
    pub senders: Option<u32>,
    /// Sockets over all threads, at least 1; for UDP.
    pub sockets: Option<u32>,
    /// The most queries outstanding in a closed loop, at least 1.
    pub window: Option<u32>,
    /// The most queries in one burst, at least 1.
    pub burst: Option<u32>,
    /// Seconds after which a reply is late, above 0.
    pub timeout_s: Option<f64>,
    /// The source addresses of the sockets or connections.
    pub sources: Option<SourceChoice>,
    /// What carries queries and replies; `None` for UDP.
    pub transport: Option<Transport>,
    /// Connections over all threads that may be open at once, at least 1; for TCP.
    pub connections: Option<u32>,
    /// Queries after which a connection is closed; 0 if it is closed once it is made, `None` if it is kept.
    pub queries_per_connection: Option<u32>,
    /// The most unsettled queries of one connection, at least 1.
    pub outstanding_per_connection: Option<u32>,
}

/// The source addresses of the player's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// All sockets have the same address.
    One,
    /// The sockets use several addresses in turn.
    Spread,
}

/// The zones and queries that a cell names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatasetFactors {
    /// The name of the recipe; `None` for one zone of address records.
    pub recipe: Option<String>,
    /// Zones that load, at least 1; `None` for as many as the recipe has.
    pub zones: Option<u64>,
    /// Records in all zones together, at least 1; `None` for as many as the recipe has.
    pub records: Option<u64>,
    /// The names that queries ask for.
    pub names: Option<Names>,
    /// The name of the user's query file, which is played instead of generated queries.
    pub file: Option<String>,
}

/// The names that queries ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Random names of the zones.
    Random,
    /// One name again and again.
    One,
}

/// The path that a cell names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathFactors {
    /// The kind of path; `None` for that of the study.
    pub kind: Option<Path>,
    /// Queues of each device for sending, and as many for receiving, 1 to 4096.
    pub queues: Option<u32>,
    /// The most packets that wait in front of each device.
    pub txqueuelen: Option<u32>,
    /// The cores that process received packets (RPS).
    pub rps_cpus: Option<Vec<u32>>,
    /// Whether received packets are joined (GRO).
    pub gro: Option<bool>,
    /// Settings of both network namespaces, name → value: `net.…`.
    pub sysctls: BTreeMap<String, String>,
}

/// The part of a cell in the comparison that its run was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedAs {
    /// The subject that B is compared with.
    A,
    /// The second cell of A.
    Again,
    /// The subject that the comparison judges.
    B,
}

impl PlayerFactors {
    /// The settings as words, name → word.
    pub(super) fn words(&self) -> impl Iterator<Item = (String, String)> {
        let number = |name: &'static str, number: Option<u32>| Some((name, number?.to_string()));
        let words = [
            self.io.clone().map(|io| (name::PLAYER_IO, io)),
            number(name::PLAYER_SENDERS, self.senders),
            number(name::PLAYER_SOCKETS, self.sockets),
            number(name::PLAYER_WINDOW, self.window),
            number(name::PLAYER_BURST, self.burst),
            self.timeout_s.map(|seconds| (name::PLAYER_TIMEOUT, seconds.to_string())),
            self.sources.map(|sources| (name::PLAYER_SOURCES, sources.word().to_owned())),
            self.transport.map(|transport| (name::PLAYER_TRANSPORT, transport.word().to_owned())),
            number(name::PLAYER_CONNECTIONS, self.connections),
            number(name::PLAYER_QUERIES_PER_CONNECTION, self.queries_per_connection),
            number(name::PLAYER_OUTSTANDING, self.outstanding_per_connection),
        ];
        words.into_iter().flatten().map(|(name, word)| (name.to_owned(), word))
    }
}

impl SourceChoice {
    /// Its words, in the order of its values.
    pub const WORDS: [&str; 2] = ["one", "spread"];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl ComparedAs {
    /// Its words, in the order of its values.
    pub(super) const WORDS: [&str; 3] = ["a", "a again", "b"];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}
