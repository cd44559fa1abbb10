//! The factors of a cell, as words and as values.
//!
//! A study, a command line and a store give a factor as a word, and reports print that word. Measuring and judging use
//! the value that the word stands for. [`Factors`] keeps both: it reads each word once, so that a malformed word is an
//! error where it enters, and no other part of kqps parses it again.
//!
//! | factor | words | meaning |
//! | --- | --- | --- |
//! | `player.io` | as `kqps load --io` | the player's I/O; without it, the best that the host offers |
//! | `player.senders` | a count | sending threads |
//! | `player.transport` | a transport | what carries queries and replies; without it, UDP |
//! | `player.sockets` | a count | sockets over all threads; for UDP, as is `player.io` |
//! | `player.connections` | a count | connections over all threads that may be open at once; not for UDP, as are the next three |
//! | `player.queries_per_connection` | a count | queries after which a connection is closed, from 0; without it, it is kept |
//! | `player.outstanding_per_connection` | a count | the most unsettled queries of one connection |
//! | `player.close` | `fin`, `rst` | how the player closes connections |
//! | `player.resume` | `true`, `false` | whether sessions are resumed; if encrypted, as are the next five |
//! | `player.tls_group`, `player.tls_suite` | as in `kqps load` | the group and suite that the player offers |
//! | `player.tls_trust` | `system`, `ca`, `anyone` | accepted certificates; without it, those of the run |
//! | `player.tls_name` | a name | the server's name in its certificate; without it, its address |
//! | `subject.certificate` | `ecdsa-p256`, `rsa-2048` | the type of its certificate; without it, the first |
//! | `player.window` | a count | the most queries outstanding in a closed loop |
//! | `player.burst` | a count | the most queries in one burst |
//! | `player.timeout_s` | seconds | the time after which a reply is late |
//! | `player.sources` | `one`, `spread`, a prefix | source addresses of the sockets or connections |
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
    CertificateType, CloseChoice, ComparedAs, DatasetFactors, Names, PathFactors, PlayerFactors,
    SourceChoice, TrustChoice,
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
    /// A word that its factor does not accept, or a name with a known prefix (`player.`, `dataset.`, `path.`, `host.`)
    /// that is no factor.
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
        self.filtered(|name| name::is_for(name, transport))
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

    /// What carries queries and replies.
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

    /// The niceness of the subject (setpriority(2)), -20 to 19.
    pub fn niceness(&self) -> Option<i32> {
        self.values.niceness
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
mod tests {
    use super::*;
    use crate::question::Path;

    fn read(words: &[(&str, &str)]) -> Result<Factors, FactorError> {
        Factors::read(words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())))
    }

    #[test]
    fn every_factor_has_a_value_and_keeps_its_word() {
        let words = [
            ("compared_as", "a again"),
            ("dataset.file", "my queries"),
            ("dataset.names", "one"),
            ("dataset.recipe", "tld"),
            ("dataset.records", "1000"),
            ("dataset.zones", "3"),
            ("host.nice", "-20"),
            ("latency_at_percent", "25 50"),
            ("path", "veth"),
            ("path.gro", "on"),
            ("path.queues", "2"),
            ("path.rps_cpus", "0,2-3"),
            ("path.sysctl.net.ipv4.udp_rmem_min", "8192"),
            ("path.txqueuelen", "0"),
            ("player.burst", "32"),
            ("player.close", "rst"),
            ("player.connections", "64"),
            ("player.io", "mmsg"),
            ("player.outstanding_per_connection", "10"),
            ("player.queries_per_connection", "1"),
            ("player.resume", "false"),
            ("player.senders", "2"),
            ("player.sockets", "8"),
            ("player.sources", "127.1.0.0/16"),
            ("player.timeout_s", "0.250"),
            ("player.tls_group", "x25519"),
            ("player.tls_name", "dns.test"),
            ("player.tls_suite", "TLS_AES_128_GCM_SHA256"),
            ("player.tls_trust", "anyone"),
            ("player.transport", "tls"),
            ("player.window", "500"),
            ("rounds", "26"),
            ("steady", "1m"),
            ("subject.certificate", "rsa-2048"),
            ("threads", "4"),
        ];
        let factors = read(&words).unwrap();
        let player = PlayerFactors {
            io: Some("mmsg".into()),
            senders: Some(2),
            sockets: Some(8),
            window: Some(500),
            burst: Some(32),
            timeout_s: Some(0.25),
            sources: Some(SourceChoice::Prefix([127, 1, 0, 0].into(), 16)),
            transport: Some(Transport::Tls),
            connections: Some(64),
            queries_per_connection: Some(1),
            outstanding_per_connection: Some(10),
            close: Some(CloseChoice::Rst),
            resume: Some(false),
            tls_group: Some("x25519".into()),
            tls_suite: Some("TLS_AES_128_GCM_SHA256".into()),
            tls_trust: Some(TrustChoice::Anyone),
            tls_name: Some("dns.test".into()),
        };
        let dataset = DatasetFactors {
            recipe: Some("tld".into()),
            zones: Some(3),
            records: Some(1000),
            names: Some(Names::One),
            file: Some("my queries".into()),
        };
        let path = PathFactors {
            kind: Some(Path::Veth),
            queues: Some(2),
            txqueuelen: Some(0),
            rps_cpus: Some(vec![0, 2, 3]),
            gro: Some(true),
            sysctls: [("net.ipv4.udp_rmem_min".to_owned(), "8192".to_owned())].into(),
        };
        assert_eq!((factors.player(), factors.dataset(), factors.path()), (&player, &dataset, &path));
        assert_eq!((factors.steady_s(), factors.latency_at_percent()), (Some(60.0), &[25, 50][..]));
        assert_eq!((factors.rounds(), factors.niceness()), (Some(26), Some(-20)));
        assert_eq!(factors.compared_as(), Some(ComparedAs::Again));
        assert_eq!(factors.certificate(), Some(CertificateType::Rsa2048));
        let mut set = Factors::default();
        set.set_player(player);
        assert!(
            set.words().iter().all(|(name, word)| {
                name == "player.timeout_s" || factors.word(name) == Some(word.as_str())
            })
        );
        assert_eq!(
            set.words().len(),
            factors.words().keys().filter(|name| name.starts_with("player.")).count()
        );
        let given: Vec<(&str, &str)> =
            factors.words().iter().map(|(name, word)| (name.as_str(), word.as_str())).collect();
        assert_eq!(given, words);

        let stored = serde_json::to_string(&factors).unwrap();
        assert!(stored.contains(r#""player.timeout_s":"0.250""#), "{stored}");
        assert_eq!(serde_json::from_str::<Factors>(&stored).unwrap(), factors);
    }

    #[test]
    fn values_that_are_set_are_read_again_from_their_words() {
        let mut set = read(&[("player.io", "gso"), ("sockets", "shared")]).unwrap();
        set.set_player(PlayerFactors { window: Some(8), timeout_s: Some(0.1), ..PlayerFactors::default() });
        set.set_records(10);
        set.set_file("queries");
        set.set_latency_at(&[50, 90]);
        set.set_rounds(4);
        set.set_compared_as(ComparedAs::B);
        set.set_cores(&[1, 2]);
        set.set_sockets("shared");
        assert_eq!(set.player().io, None, "the player's settings are replaced");
        assert_eq!(Factors::read(set.words().clone()).unwrap(), set);
        let other = read(&[("dataset.records", "7"), ("sockets", "reuseport")]).unwrap();
        let both = set.with(&other);
        assert_eq!((both.dataset().records, both.word("sockets")), (Some(7), Some("reuseport")));
        assert_eq!(both.rounds(), Some(4));
        let only = both.filtered(|name| name.starts_with("player."));
        assert_eq!((only.player(), only.dataset()), (set.player(), &DatasetFactors::default()));
    }

    #[test]
    fn settings_of_another_transport_do_not_fit() {
        let of = |transport: &str| {
            let words = [
                ("player.connections", "4"),
                ("player.io", "mmsg"),
                ("player.resume", "false"),
                ("player.sockets", "8"),
                ("player.transport", transport),
                ("player.window", "9"),
                ("sockets", "shared"),
                ("subject.certificate", "rsa-2048"),
            ];
            let fitting = read(&words).unwrap().fitting();
            (fitting.transport(), fitting.words().keys().cloned().collect::<Vec<_>>())
        };
        let tcp = ["player.connections", "player.transport", "player.window", "sockets"];
        assert_eq!(of("tcp"), (Transport::Tcp, tcp.map(str::to_owned).to_vec()));
        let tls = [
            "player.connections",
            "player.resume",
            "player.transport",
            "player.window",
            "sockets",
            "subject.certificate",
        ];
        assert_eq!(of("tls"), (Transport::Tls, tls.map(str::to_owned).to_vec()));
        let udp = ["player.io", "player.sockets", "player.transport", "player.window", "sockets"];
        assert_eq!(of("udp"), (Transport::Udp, udp.map(str::to_owned).to_vec()));
        assert_eq!(Factors::default().transport(), Transport::Udp);
    }

    #[test]
    fn a_malformed_word_is_an_error_and_changes_nothing() {
        for (name, word, expected) in [
            ("player.window", "5oo", "a number from 1 on"),
            ("player.window", "0", "a number from 1 on"),
            ("player.timeout_s", "soon", "seconds above 0"),
            ("player.timeout_s", "inf", "seconds above 0"),
            ("player.sources", "two", "one, spread, or a prefix of loopback such as 127.1.0.0/16"),
            ("player.sources", "192.0.2.0/24", "one, spread, or a prefix of loopback such as 127.1.0.0/16"),
            ("player.sources", "127.0.0.0/7", "one, spread, or a prefix of loopback such as 127.1.0.0/16"),
            ("player.close", "end", "one of fin, rst"),
            ("player.resume", "yes", "one of true, false"),
            ("subject.certificate", "rsa", "one of ecdsa-p256, rsa-2048"),
            ("player.connections", "0", "a number from 1 on"),
            ("player.queries_per_connection", "-1", "a number from 0 on"),
            ("player.outstanding_per_connection", "-1", "a number from 1 on"),
            ("dataset.records", "-1", "a number from 1 on"),
            ("dataset.names", "oen", "one of random, one"),
            ("path", "wire", "one of loopback, veth"),
            ("path.queues", "4097", "a number of queues from 1 to 4096"),
            ("path.txqueuelen", "", "a number of packets"),
            ("path.rps_cpus", "3-2", "cores, such as 0,2-3 (expected a list such as 0,2-5, found `3-2`)"),
            ("path.gro", "yes", "one of on, off"),
            ("steady", "forever", "a duration such as 60s or 1m"),
            ("latency_at_percent", "50 100", "percents from 1 to 99"),
            ("latency_at_percent", "half", "percents from 1 to 99"),
            ("latency_at_percent", "", "percents from 1 to 99"),
            ("rounds", "1.5", "a number from 1 on"),
            ("compared_as", "c", "one of a, a again, b"),
            ("host.nice", "20", "a number from -20 to 19"),
        ] {
            let mut factors = Factors::default();
            let error = factors.set(name, word).unwrap_err().to_string();
            assert_eq!(error, format!("factor `{name}`: expected {expected}, found `{word}`"));
            assert_eq!(factors, Factors::default());
            let stored = format!("{{\"{name}\":\"{word}\"}}");
            assert!(serde_json::from_str::<Factors>(&stored).unwrap_err().to_string().contains(expected));
        }
    }

    #[test]
    fn a_name_that_is_nearly_a_factor_is_an_error() {
        for name in [
            "player.windw",
            "dataset.record",
            "path.queue",
            "path.sysctl.kernel.panic",
            "host.nicer",
            "subject.certificat",
        ] {
            assert_eq!(read(&[(name, "1")]).unwrap_err().to_string(), format!("unknown factor `{name}`"));
        }
    }

    #[test]
    fn names_with_a_meaning_are_reserved() {
        for name in ["path", "rounds", "player.io", "dataset.x", "steady", "cores", "subject", "player_io"] {
            assert!(name::is_reserved(name), "{name}");
        }
        for name in ["sockets", "workers", "io", "threads", "player", "pathological"] {
            assert!(!name::is_reserved(name), "{name}");
        }
    }

    #[test]
    fn names_of_the_first_versions_are_read_as_those_of_today() {
        let factors =
            read(&[("player_sockets", "8"), ("player_timeout_s", "1"), ("zone_records", "10")]).unwrap();
        assert_eq!((factors.player().sockets, factors.player().timeout_s), (Some(8), Some(1.0)));
        assert_eq!((factors.dataset().records, factors.word("player.sockets")), (Some(10), Some("8")));
    }
}
