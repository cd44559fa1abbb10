//! The factors of a cell, as words and as values.
//!
//! A study, a command line and a store give a factor as a word, and reports print that word. Measuring and judging use
//! the value that the word stands for. [`Factors`] keeps both: it reads each word once, so that a malformed word is an
//! error where it enters, and no other part of kqps parses it again.
//!
//! | factor | words | meaning |
//! | --- | --- | --- |
//! | `player.io` | as `kqps load --io` | the player's I/O; without it, `auto`; not for QUIC |
//! | `player.senders` | a count | sending threads |
//! | `player.transport` | a transport | what carries queries and replies; without it, UDP |
//! | `player.sockets` | a count | sockets over all threads; for UDP |
//! | `player.connections` | a count | connections over all threads that may be open at once; not for UDP, as are the next four |
//! | `player.queries_per_connection` | a count | queries after which a connection is closed, from 0; without it, it is kept |
//! | `player.outstanding_per_connection` | a count | the most unsettled queries of one connection |
//! | `player.connect_timeout_s` | seconds | the time after which a connection that is not made is given up; without it, that of a late reply |
//! | `player.close` | `fin`, `rst` | how the player closes connections; not for QUIC |
//! | `player.resume` | `true`, `false` | whether sessions are resumed; if encrypted, as are the next seven |
//! | `player.tls_group`, `player.tls_suite` | as in `kqps load` | the group and suite that the player offers |
//! | `player.tls_certificate` | `ecdsa`, `rsa` | the type of key in a certificate that the player accepts; without it, any |
//! | `player.tls_trust` | `system`, `ca`, `anyone` | accepted certificates; without it, those of the run |
//! | `player.tls_name` | a name | the server's name in its certificate; without it, its address |
//! | `player.early_data` | `true`, `false` | whether queries leave with the first packets (0-RTT) |
//! | `player.tls_packing` | `true`, `false` | whether queries that leave together share records of TLS; if encrypted, except QUIC |
//! | `player.congestion` | `fixed`, `cubic` | what limits the bytes on their way; for QUIC |
//! | `player.http_method`, `player.http_path` | `post`, `get`; a path | how the player asks; for HTTPS |
//! | `subject.certificate` | `ecdsa-p256`, `rsa-2048` | the type of its certificate; without it, the first |
//! | `player.window` | a count | the most queries outstanding in a closed loop |
//! | `player.burst` | a count | the most queries in one burst |
//! | `player.timeout_s` | seconds | the time after which a reply is late |
//! | `player.sources` | `one`, `spread`, an address, a prefix | source addresses of the sockets or connections |
//! | `player.buffer_bytes`, `player.local_port`, `player.device`, `player.priority` | as `kqps find` takes them | the flags of a search, if they were given; only its record has them, as the next three lines |
//! | `player.drain_s`, `player.lag_s`, `player.coalesce_s` | seconds | the flags `--drain`, `--lag` and `--coalesce` of a search |
//! | `dataset.format`, `dataset.skip_bad`, `dataset.edns` | `binary`; `true`; `edns`, `do` | how a search read its queries, and what it added to them |
//! | `dataset.client`, `dataset.captured_ports`, `dataset.captured_servers`, `dataset.window`, `dataset.pile` | as `kqps find` takes them | what a search played of a capture |
//! | `dataset.recipe` | a name | the recipe of zones and queries; without it, one zone of address records |
//! | `dataset.zones` | a count | zones that load |
//! | `dataset.records` | a count | records in all zones together |
//! | `dataset.names` | `random`, `one` | queries for random names, or for one name again and again |
//! | `dataset.file` | a name | the user's query file, played instead of generated queries |
//! | `path` | `loopback`, `veth` | the kind of path; without it, that of the study |
//! | `path.queues` | 1 to 4096 | queues of each device for sending, and as many for receiving |
//! | `path.txqueuelen` | a count from 0 | the most packets that wait in front of each device |
//! | `path.rps_cpus` | cores, as `0,2-3` | the cores that process received packets (RPS) |
//! | `path.gro` | `on`, `off` | whether received packets are joined, which turns NAPI on too |
//! | `path.sysctl.NAME` | as the kernel takes it | a setting of both network namespaces: `path.sysctl.net.…` |
//! | `steady` | as `60s` or `1m` | the longest warm-up until the rate is steady |
//! | `latency_at_percent` | as `25 50 75` | shares of the figure at which latency is measured |
//! | `rounds` | a count | trials in each start, under each load |
//! | `compared_as` | `a`, `a again`, `b` | the part of the cell in a comparison |
//! | `host.nice` | -20 to 19 | the niceness of the subject |
//! | `host.receive-core` | a core, `last` | the core of the subject's host that does all receive work of the path |
//! | `host.SETTING` | as `kqps host apply` | a setting of the subject's host, undone after the cell: `host.rps.eth0` |
//! | `hosts.players` | a count | hosts that play, the first of the hosts' file; without it, all of them |
//! | `hosts.sources` | a count | source addresses of each host that plays; without it, all that the file gives it |
//!
//! Every other factor is a word by nature: a setting that the subject's definition declares, or the name of a bundle.

pub mod name;
mod read;
mod values;

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::cpu_list;
use crate::trial::Transport;
pub use read::FactorError;
use values::Values;
pub use values::{
    CertificateType, CloseChoice, ComparedAs, CongestionChoice, DatasetFactors, HostsFactors, KeyChoice,
    MethodChoice, Names, PathFactors, PlayerFactors, ReceiveCore, SourceChoice, TrustChoice,
};

/// The factors of a cell: name → word, and the value of every word that measuring knows. Serialised as the words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Factors {
    words: BTreeMap<String, String>,
    /// A function of the words.
    values: Values,
}

impl Factors {
    /// Reads factors from their words.
    ///
    /// # Errors
    ///
    /// A word that its factor does not accept, or a name with a known prefix (`player.`, `dataset.`, `path.`, `host.`,
    /// `hosts.`) that is no factor.
    pub fn read(words: impl IntoIterator<Item = (String, String)>) -> Result<Self, FactorError> {
        let mut factors = Self::default();
        for (name, word) in words {
            factors.set(&name, word)?;
        }
        Ok(factors)
    }

    /// Sets one factor.
    ///
    /// # Errors
    ///
    /// As [`Self::read`]. The factors then stay as they were.
    pub fn set(&mut self, name: &str, word: impl Into<String>) -> Result<(), FactorError> {
        let (name, word) = (name::present(name), word.into());
        self.values.set(&name, &word)?;
        self.words.insert(name.into_owned(), word);
        Ok(())
    }

    /// Sets the cores of the subject.
    pub fn set_cores(&mut self, cpus: &[u32]) {
        self.words.insert(name::CORES.to_owned(), cpu_list::write(cpus));
    }

    /// Sets how the workers of an echo share sockets.
    pub fn set_sockets(&mut self, word: &str) {
        self.words.insert(name::SOCKETS.to_owned(), word.to_owned());
    }

    /// Sets how the workers of an echo share the sockets that accept connections.
    pub fn set_listeners(&mut self, word: &str) {
        self.words.insert(name::LISTENERS.to_owned(), word.to_owned());
    }

    /// Sets the type of the subject's certificate.
    pub fn set_certificate(&mut self, of_type: CertificateType) {
        self.words.insert(name::SUBJECT_CERTIFICATE.to_owned(), of_type.word().to_owned());
        self.values.certificate = Some(of_type);
    }

    /// Makes an echo take early data.
    pub fn set_takes_early_data(&mut self) {
        self.words.insert(name::EARLY_DATA.to_owned(), "yes".to_owned());
    }

    /// Replaces the settings of the player.
    pub fn set_player(&mut self, player: PlayerFactors) {
        self.words.retain(|name, _| !name.starts_with(name::PLAYER));
        self.words.extend(player.words());
        self.values.player = player;
    }

    /// Sets the number of records in all zones together. A zone has at least one, so 0 counts as 1.
    pub fn set_records(&mut self, records: u64) {
        let records = records.max(1);
        self.words.insert(name::DATASET_RECORDS.to_owned(), records.to_string());
        self.values.dataset.records = Some(records);
    }

    /// Sets the name of the user's query file.
    pub fn set_file(&mut self, file: &str) {
        self.words.insert(name::DATASET_FILE.to_owned(), file.to_owned());
        self.values.dataset.file = Some(file.to_owned());
    }

    /// Sets the shares of the figure at which latency is measured, percent.
    pub fn set_latency_at(&mut self, percents: &[u32]) {
        let words: Vec<String> = percents.iter().map(u32::to_string).collect();
        self.words.insert(name::LATENCY_AT.to_owned(), words.join(" "));
        self.values.latency_at_percent = percents.to_vec();
    }

    /// Sets the number of trials in each start, under each load.
    pub fn set_rounds(&mut self, rounds: u32) {
        self.words.insert(name::ROUNDS.to_owned(), rounds.to_string());
        self.values.rounds = Some(rounds);
    }

    /// Sets the part of the cell in a comparison.
    pub fn set_compared_as(&mut self, part: ComparedAs) {
        self.words.insert(name::COMPARED_AS.to_owned(), part.word().to_owned());
        self.values.compared_as = Some(part);
    }

    /// These factors with those of `other`, which replace factors of the same name.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let all = self.words.iter().chain(&other.words);
        Self::read_again(all.map(|(name, word)| (name.clone(), word.clone())))
    }

    /// The factors whose names `keeps` accepts.
    #[must_use]
    pub fn filtered(&self, keeps: impl Fn(&str) -> bool) -> Self {
        let kept = self.words.iter().filter(|(name, _)| keeps(name));
        Self::read_again(kept.map(|(name, word)| (name.clone(), word.clone())))
    }

    /// These factors without those that have no effect over their transport.
    #[must_use]
    pub fn fitting(&self) -> Self {
        let transport = self.transport();
        self.filtered(|name| name::is_for(name, self.word(name).unwrap_or_default(), transport))
    }

    fn read_again(words: impl Iterator<Item = (String, String)>) -> Self {
        Self::read(words).expect("every word was read before")
    }

    /// All factors as words, name → word.
    pub fn words(&self) -> &BTreeMap<String, String> {
        &self.words
    }

    /// The word of a factor.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str)
    }

    /// The settings of the player.
    pub fn player(&self) -> &PlayerFactors {
        &self.values.player
    }

    /// The transport of queries and replies.
    pub fn transport(&self) -> Transport {
        self.values.player.transport.unwrap_or_default()
    }

    /// The zones and queries.
    pub fn dataset(&self) -> &DatasetFactors {
        &self.values.dataset
    }

    /// The path of queries and replies.
    pub fn path(&self) -> &PathFactors {
        &self.values.path
    }

    /// The part of the run's hosts that the cell uses.
    pub fn hosts(&self) -> &HostsFactors {
        &self.values.hosts
    }

    /// The longest warm-up until the rate is steady, seconds; `None` if the cell asks for no steady state.
    pub fn steady_s(&self) -> Option<f64> {
        self.values.steady_s
    }

    /// Shares of the figure at which latency is measured, percent.
    pub fn latency_at_percent(&self) -> &[u32] {
        &self.values.latency_at_percent
    }

    /// The number of trials in each start, under each load; `None` outside comparisons.
    pub fn rounds(&self) -> Option<u32> {
        self.values.rounds
    }

    /// The part of the cell in a comparison; `None` outside comparisons.
    pub fn compared_as(&self) -> Option<ComparedAs> {
        self.values.compared_as
    }

    /// The type of the subject's certificate; `None` for the usual one.
    pub fn certificate(&self) -> Option<CertificateType> {
        self.values.certificate
    }

    /// How many of these factors the other set has with another word, or lacks; and how many of the other set's these lack.
    /// What one set lacks counts after all that differs, since it then has its usual value.
    pub fn differences_from(&self, other: &Self) -> (usize, usize) {
        let differs = |(name, word): &(&String, &String)| other.words().get(*name) != Some(*word);
        let is_lacking = |name: &&String| !self.words().contains_key(*name);
        (self.words().iter().filter(differs).count(), other.words().keys().filter(is_lacking).count())
    }

    /// The niceness of the subject (setpriority(2)), -20 to 19.
    pub fn niceness(&self) -> Option<i32> {
        self.values.niceness
    }

    /// The core of the subject's host that does all receive work of the path; `None` for any that the kernel chooses.
    pub fn receive_core(&self) -> Option<ReceiveCore> {
        self.values.receive_core
    }

    /// Sets that core.
    pub fn set_receive_core(&mut self, cpu: u32) {
        self.words.insert(name::HOST_RECEIVE_CORE.to_owned(), cpu.to_string());
        self.values.receive_core = Some(ReceiveCore::Core(cpu));
    }

    /// Settings of the subject's host, by their names without the prefix → value.
    pub fn host_settings(&self) -> &BTreeMap<String, String> {
        &self.values.host_settings
    }
}

/// The schema of the words.
impl JsonSchema for Factors {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Factors".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, String>::json_schema(generator)
    }
}

impl TryFrom<BTreeMap<String, String>> for Factors {
    type Error = FactorError;

    fn try_from(words: BTreeMap<String, String>) -> Result<Self, FactorError> {
        Self::read(words)
    }
}

impl From<Factors> for BTreeMap<String, String> {
    fn from(factors: Factors) -> Self {
        factors.words
    }
}

#[cfg(test)]
mod tests;
