//! The factors of a cell, as words and as values.
//!
//! A study, a command line and a store give a factor as a word, and reports print that word. Measuring and judging use
//! the value that the word stands for. [`Factors`] keeps both: it reads each word once, so that a malformed word is an
//! error where it enters, and no other part of kqps parses it again.
//!
//! `docs/STUDIES.md` lists the settings that studies give.
//!
//! Every other factor is a word by nature: a setting that the subject's definition declares, or the name of a bundle.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::choice::Transport;
pub use crate::choice::{
    CertificateType, Close, ComparedAs, Congestion, InternetAttack, InternetSize, KeyType, Method, Names,
    Path, TrustChoice,
};
use crate::cpu_list;
pub use crate::name;
pub use crate::scenario::Scenario;
use crate::setting::Group as _;
pub use crate::setting::ReceiveCore;
use crate::settings::{self, CellFactors};
pub use crate::settings::{DatasetFactors, HostsFactors, PathFactors, PlayerFactors};
pub use crate::sources::SourceChoice;

/// A factor that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactorError {
    /// A word that the factor does not accept.
    #[error("factor `{name}`: expected {expected}, found `{word}`")]
    Word {
        /// The name of the factor.
        name: String,
        /// The accepted values, in words.
        expected: String,
        /// The words that it accepts, if these are few.
        known: &'static [&'static str],
        /// The word that was found.
        word: String,
    },
    /// There is no such factor.
    #[error("unknown factor `{name}`")]
    Unknown {
        /// The unknown name.
        name: String,
    },
}

impl FactorError {
    /// The name of the factor.
    pub fn name(&self) -> &str {
        match self {
            Self::Word { name, .. } | Self::Unknown { name } => name,
        }
    }
}

/// The values of all factors that measuring knows.
#[derive(Clone, Debug, Default, PartialEq)]
struct Values {
    player: PlayerFactors,
    dataset: DatasetFactors,
    path: PathFactors,
    hosts: HostsFactors,
    cell: CellFactors,
    /// Settings of both network namespaces of the path, name → value: `net.…`.
    sysctls: BTreeMap<String, String>,
    /// Settings of the subject's host, by their names without the prefix → value.
    host_settings: BTreeMap<String, String>,
}

impl Values {
    /// Sets the value of a factor from its word. A name without a value changes nothing.
    fn set(&mut self, name: &str, word: &str) -> Result<(), FactorError> {
        let expects = |expected: String| FactorError::Word {
            name: name.to_owned(),
            expected,
            known: settings::of_name(name).map_or(&[], |setting| setting.kind.words()),
            word: word.to_owned(),
        };
        let Self { player, dataset, path, hosts, cell, .. } = self;
        let is_known = player.set(name, word).map_err(expects)?
            || dataset.set(name, word).map_err(expects)?
            || path.set(name, word).map_err(expects)?
            || hosts.set(name, word).map_err(expects)?
            || cell.set(name, word).map_err(expects)?;
        if is_known || settings::of_name(name).is_some() {
            return Ok(());
        }
        let sysctl = name.strip_prefix(name::PATH_SYSCTL).filter(|sysctl| sysctl.starts_with("net."));
        let of_host = name.strip_prefix(name::HOST).filter(|_| name::is_host_setting(name));
        match (sysctl, of_host) {
            (Some(sysctl), _) => self.sysctls.insert(sysctl.to_owned(), word.to_owned()),
            (None, Some(setting)) => self.host_settings.insert(setting.to_owned(), word.to_owned()),
            (None, None) if name::has_value(name) => {
                return Err(FactorError::Unknown { name: name.to_owned() });
            }
            (None, None) => None,
        };
        Ok(())
    }
}

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
        self.values.cell.certificate = Some(of_type);
    }

    /// Makes an echo take early data.
    pub fn set_takes_early_data(&mut self) {
        self.words.insert(name::EARLY_DATA.to_owned(), "yes".to_owned());
    }

    /// Replaces the settings of the player.
    pub fn set_player(&mut self, player: PlayerFactors) {
        self.words.retain(|name, _| !name.starts_with(name::PLAYER));
        self.words.extend(player.words().into_iter().map(|(name, word)| (name.to_owned(), word)));
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
        self.values.cell.latency_at_percent = Some(percents.to_vec());
    }

    /// Sets the number of trials in each start, under each load.
    pub fn set_rounds(&mut self, rounds: u32) {
        self.words.insert(name::ROUNDS.to_owned(), rounds.to_string());
        self.values.cell.rounds = Some(rounds);
    }

    /// Sets the part of the cell in a comparison.
    pub fn set_compared_as(&mut self, part: ComparedAs) {
        self.words.insert(name::COMPARED_AS.to_owned(), part.word().to_owned());
        self.values.cell.compared_as = Some(part);
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
        self.filtered(|name| settings::is_for(name, self.word(name).unwrap_or_default(), transport))
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

    /// Settings of both network namespaces of the path, name → value: `net.…`.
    pub fn sysctls(&self) -> &BTreeMap<String, String> {
        &self.values.sysctls
    }

    /// The part of the run's hosts that the cell uses.
    pub fn hosts(&self) -> &HostsFactors {
        &self.values.hosts
    }

    /// The longest warm-up until the rate is steady, seconds; `None` if the cell asks for no steady state.
    pub fn steady_s(&self) -> Option<f64> {
        self.values.cell.steady_s
    }

    /// Shares of the figure at which latency is measured, percent.
    pub fn latency_at_percent(&self) -> &[u32] {
        self.values.cell.latency_at_percent.as_deref().unwrap_or_default()
    }

    /// The number of trials in each start, under each load; `None` outside comparisons.
    pub fn rounds(&self) -> Option<u32> {
        self.values.cell.rounds
    }

    /// The part of the cell in a comparison; `None` outside comparisons.
    pub fn compared_as(&self) -> Option<ComparedAs> {
        self.values.cell.compared_as
    }

    /// The type of the subject's certificate; `None` for the usual one.
    pub fn certificate(&self) -> Option<CertificateType> {
        self.values.cell.certificate
    }

    /// How many of these factors the other set has with another word, or lacks; and how many of the other set's these lack.
    /// What one set lacks counts after all that differs, since it then has its usual value.
    pub fn differences_from(&self, other: &Self) -> (usize, usize) {
        let differs = |(name, word): &(&String, &String)| other.words().get(*name) != Some(*word);
        let is_lacking = |name: &&String| !self.words().contains_key(*name);
        (self.words().iter().filter(differs).count(), other.words().keys().filter(is_lacking).count())
    }

    /// The scenario that plays beside the good clients; `None` if there is none.
    pub fn scenario(&self) -> Option<Scenario<'_>> {
        Scenario::read(self.values.cell.scenario.as_deref()?)
    }

    /// The rate of the good clients beside a scenario whose rate is searched, queries a second.
    pub fn good_qps(&self) -> Option<f64> {
        self.values.cell.good_rate.map(f64::from)
    }

    /// Whether the clients of a resolver ask for names by their popularity, so that its cache decides which are hits.
    pub fn asks_by_popularity(&self) -> bool {
        let dataset = self.dataset();
        dataset.internet.is_some() && dataset.hits_percent.is_none()
    }

    /// The word of the event in each load; `None` if there is none.
    pub fn event(&self) -> Option<&str> {
        self.values.cell.event.as_deref().filter(|word| *word != crate::scenario::NONE)
    }

    /// The niceness of the subject (setpriority(2)), -20 to 19.
    pub fn niceness(&self) -> Option<i32> {
        self.values.cell.niceness
    }

    /// The core of the subject's host that does all receive work of the path; `None` for any that the kernel chooses.
    pub fn receive_core(&self) -> Option<ReceiveCore> {
        self.values.cell.receive_core
    }

    /// Sets that core.
    pub fn set_receive_core(&mut self, cpu: u32) {
        self.words.insert(name::HOST_RECEIVE_CORE.to_owned(), cpu.to_string());
        self.values.cell.receive_core = Some(ReceiveCore::Core(cpu));
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
