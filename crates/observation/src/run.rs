//! A run: one execution of a study, with its cells and its trials.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::factors::{Factors, Scenario};
use crate::fingerprint::Fingerprint;
use crate::goal::GoalFacts;
use crate::question::{Experiment, Question};
use crate::run_host::{HostRole, RunHost};
use crate::trial::{ATTEMPTS, Trial, rate_unit};

/// An execution of a study, as the store returns it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The version of the record, [`crate::SCHEMA`].
    pub schema: u32,
    /// The study's name.
    pub study: String,
    /// The command line, word by word, so that it can be repeated.
    pub command: Vec<String>,
    /// When the run began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// When its last cell was done, milliseconds since 1970; `None` while it is unfinished.
    pub finished_unix_ms: Option<u64>,
    /// The version of kqps that made it.
    pub kqps_version: String,
    /// The time that it was given, seconds; `None` without a limit.
    pub budget_s: Option<f64>,
    /// The preset of the rate search (`quick`, `default`, …).
    pub goal: String,
    /// The preset in numbers; `None` if nothing was searched, and in runs of older versions.
    #[serde(default)]
    pub goal_facts: Option<GoalFacts>,
    /// How many times each cell is started.
    pub blocks: u32,
    /// The seed of every random choice.
    pub seed: u64,
    /// The question of the study; `None` for the default study.
    #[serde(default)]
    pub question: Option<Question>,
    /// The facts of the host that ran kqps.
    pub fingerprint: Fingerprint,
    /// The hosts that subjects and players ran on, if these are other hosts (`--hosts`): the server's first. Empty if
    /// all ran on the host that ran kqps, and in records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<RunHost>,
    /// Parts of the study that were left out, and why (`echo uring`: the kernel forbids `io_uring`). A key selects
    /// cells by values of their factors. A name and a colon at its beginning limit it to one experiment:
    /// `udp: io=uring; workers=4`, or `uring`.
    pub skipped: BTreeMap<String, String>,
    /// The measured configurations.
    pub cells: Vec<Cell>,
    /// Every trial, in the order in which they were committed.
    pub trials: Vec<RunTrial>,
}

/// A configuration of a study: a value for every factor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Unique in its run and short: `echo mmsg`, `nsd`.
    pub name: String,
    /// The purpose of the cell.
    pub role: Role,
    /// The experiment of its study to which it belongs; empty if there is only one.
    #[serde(default)]
    pub experiment: String,
    /// How it is loaded, if its role does not decide that.
    #[serde(default)]
    pub load: CellLoad,
    /// The subject's name, as in `subjects/NAME.toml`, or `echo`.
    pub subject: String,
    /// The version that the subject reported.
    pub version: Option<String>,
    /// The subject's own I/O model, or the echo's nearest model. It selects the echo that is the subject's ceiling.
    pub io: String,
    /// The number of workers that answer queries.
    pub workers: u32,
    /// Cores of the player.
    pub player_cpus: Vec<u32>,
    /// Cores of the subject.
    pub subject_cpus: Vec<u32>,
    /// Further factors.
    pub factors: Factors,
    /// Whether its subject is profiled, in trials of their own. `false` in records older than the field.
    #[serde(default, skip_serializing_if = "is_false")]
    pub profile: bool,
    /// Whether the residence of queries in its subject's host is measured, in a trial of its own. `false` in records older
    /// than the field.
    #[serde(default, skip_serializing_if = "is_false")]
    pub residence: bool,
    /// The address of a subject that was already running; `None` if the run starts the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A server that already runs. The run plays at it, and neither starts nor stops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// The address on which it answers.
    pub address: SocketAddr,
    /// Whether it is on the player's host.
    pub on_this_host: bool,
}

impl Cell {
    /// Whether connections alone are its load, and no query is sent.
    pub fn has_connections_alone(&self) -> bool {
        self.factors.player().queries_per_connection == Some(0)
    }

    /// The unit of its rates, in words.
    pub fn rate_unit(&self) -> &'static str {
        // Without a rate in its word, a search varies that of the scenario.
        let is_sought = |scenario: &Scenario<'_>| !scenario.has_rate && scenario.is_of_attackers();
        match self.factors.scenario().filter(is_sought) {
            Some(_) => ATTEMPTS,
            None => rate_unit(self.has_connections_alone()),
        }
    }

    /// Whether its subject is on another host than the player.
    pub fn is_elsewhere(&self) -> bool {
        self.target.is_some_and(|target| !target.on_this_host)
    }
}

/// The purpose of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Role {
    /// The player against the cheapest echo: ceiling (a) of METHOD.
    PlayerCeiling,
    /// The echo under one I/O model: ceiling (b) of METHOD.
    EchoCeiling,
    /// A subject of the study.
    #[default]
    Subject,
    /// The echo at a fixed rate, every few trials. If its figure shifts, everything measured since the last one is in
    /// doubt.
    Canary,
}

impl Role {
    /// The role in a word, as in the record.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// How the subject of a cell is loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CellLoad {
    /// By a search for its highest reliable rate.
    #[default]
    Search,
    /// By one closed-loop trial of this many seconds.
    Closed(f64),
    /// By one trial at each of these rates.
    Rates {
        /// Queries per second.
        rates_qps: Vec<f64>,
        /// Seconds of each trial.
        duration_s: f64,
    },
}

/// A trial within a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTrial {
    /// Its number in the run, from 1.
    pub number: u64,
    /// Index into [`Run::cells`].
    pub cell: u32,
    /// The block, from 0.
    pub block: u32,
    /// The start of the subject in which it ran, counted over the whole run from 1. Starts are the unit of
    /// repetition.
    pub start: u64,
    /// The purpose of the trial.
    pub purpose: Purpose,
    /// The result of the trial.
    pub outcome: Outcome,
}

/// The purpose of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To warm up; not judged.
    WarmUp,
    /// A closed loop that finds a ceiling.
    Ceiling,
    /// A step of the rate search.
    #[default]
    Search,
    /// A repetition of the lower bound, at the end of a search.
    Retest,
    /// A load near the one that a search found, for a closer estimate. It does not change the bounds.
    Refine,
    /// A part of the rate found, for latency by load.
    Latency,
    /// The closed loop that a cell asks for.
    Closed,
    /// A fixed rate that a cell asks for.
    Rate,
    /// A trial of the canary.
    Canary,
    /// A repetition of a trial that lost queries, with the kernel's drop reasons counted. Counting them disturbs the
    /// trial, so nothing judges it.
    Reasons {
        /// The number of the trial that it repeats.
        of: u64,
    },
    /// A closed loop to see where the subject's time goes. Sampling disturbs it, so nothing judges it.
    Profile {
        /// Whether the subject was sampled. The others have the same load, and show what sampling cost.
        sampled: bool,
    },
    /// Half of the load that was found, with packets stamped at the interface of the subject's host. Stamping disturbs
    /// it, so nothing judges it.
    Residence,
}

impl Purpose {
    /// The purpose in a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Ceiling => "ceiling",
            Self::Search => "search",
            Self::Retest => "retest",
            Self::Refine => "refine",
            Self::Latency => "latency",
            Self::Closed => "closed loop",
            Self::Rate => "fixed rate",
            Self::Canary => "canary",
            Self::Reasons { .. } => "drop reasons",
            Self::Profile { sampled: true } => "profile",
            Self::Profile { sampled: false } => "beside profile",
            Self::Residence => "residence",
        }
    }

    /// Whether the trial of a subject belongs to its rate search, including the overload at the beginning.
    pub fn is_of_search(self) -> bool {
        matches!(self, Self::Ceiling | Self::Search | Self::Retest)
    }

    /// Whether the trial repeats another one to learn why packets were dropped.
    pub fn is_for_reasons(self) -> bool {
        matches!(self, Self::Reasons { .. })
    }

    /// Whether the trial belongs to a profile.
    pub fn is_for_profile(self) -> bool {
        matches!(self, Self::Profile { .. })
    }

    /// Whether the trial only explains others, so that no figure counts it.
    pub fn is_extra(self) -> bool {
        self.is_for_reasons() || self.is_for_profile() || self == Self::Residence
    }
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The trial was measured.
    Measured(Box<Trial>),
    /// The trial could not be measured: the subject died, or the player could not run.
    Failed {
        /// The reason, in one sentence.
        reason: String,
        /// The last lines of the subject's output.
        output: Vec<String>,
    },
}

impl Run {
    /// The experiments of its study; none if it has no question.
    pub fn experiments(&self) -> impl Iterator<Item = &Experiment> {
        self.question.iter().flat_map(|question| &question.experiments)
    }

    /// The host that subjects ran on, if the run names its hosts.
    pub fn server_host(&self) -> Option<&RunHost> {
        self.hosts.iter().find(|host| host.role == HostRole::Server)
    }

    /// The hosts that players ran on, if the run names its hosts.
    pub fn player_hosts(&self) -> impl Iterator<Item = &RunHost> {
        self.hosts.iter().filter(|host| host.role == HostRole::Player)
    }

    /// The trials of a cell that count for its figures: all except those for drop reasons, for profiles and for residence.
    pub fn trials_of(&self, cell: usize) -> impl Iterator<Item = &RunTrial> {
        self.trials.iter().filter(move |one| one.cell as usize == cell && !one.purpose.is_extra())
    }

    /// Block → the trials of a cell that count for its figures.
    pub fn trials_by_block(&self, cell: usize) -> BTreeMap<u32, Vec<&RunTrial>> {
        let mut blocks: BTreeMap<u32, Vec<&RunTrial>> = BTreeMap::new();
        for trial in self.trials_of(cell) {
            blocks.entry(trial.block).or_default().push(trial);
        }
        blocks
    }
}

impl RunTrial {
    /// The record, if the trial was measured.
    pub fn measured(&self) -> Option<&Trial> {
        match &self.outcome {
            Outcome::Measured(trial) => Some(trial),
            Outcome::Failed { .. } => None,
        }
    }

    /// The reason why it could not be measured, if so.
    pub fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Failed { reason, .. } => Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::LivePhase;

    #[test]
    fn words_of_roles_and_phases_are_those_of_the_record() {
        let roles = [Role::PlayerCeiling, Role::EchoCeiling, Role::Subject, Role::Canary];
        let words = roles.map(Role::word);
        assert_eq!(words, ["player-ceiling", "echo-ceiling", "subject", "canary"]);
        assert_eq!(serde_json::to_value(roles).unwrap(), serde_json::json!(words));
        let words: Vec<&str> = LivePhase::ALL.iter().map(|phase| phase.word()).collect();
        assert_eq!(words, ["preparing", "sending", "draining", "over"]);
        assert_eq!(serde_json::to_value(LivePhase::ALL).unwrap(), serde_json::json!(words));
    }

    #[test]
    fn a_repeated_trial_says_which_one_and_is_left_out_of_its_cell() {
        let purpose: Purpose = serde_json::from_str(r#"{"reasons":{"of":7}}"#).unwrap();
        assert_eq!(purpose, Purpose::Reasons { of: 7 });
        assert_eq!(serde_json::to_string(&purpose).unwrap(), r#"{"reasons":{"of":7}}"#);
        let trial = |purpose| RunTrial {
            number: 7,
            cell: 0,
            block: 0,
            start: 1,
            purpose,
            outcome: Outcome::Measured(Box::default()),
        };
        let trials = vec![trial(Purpose::Rate), RunTrial { cell: 1, ..trial(Purpose::Rate) }, trial(purpose)];
        let mut run = Run { trials, ..Run::default() };
        run.trials.push(trial(Purpose::Profile { sampled: true }));
        run.trials.push(trial(Purpose::Residence));
        assert_eq!(run.trials_of(0).collect::<Vec<_>>(), [&trial(Purpose::Rate)]);
    }

    #[test]
    fn a_trial_of_a_profile_says_whether_it_was_sampled() {
        let purpose: Purpose = serde_json::from_str(r#"{"profile":{"sampled":false}}"#).unwrap();
        assert_eq!(purpose, Purpose::Profile { sampled: false });
        let old = serde_json::to_value(Cell::default()).unwrap();
        assert!(old.get("profile").is_none());
        let kept = serde_json::to_value(Cell { profile: true, ..Cell::default() }).unwrap();
        assert!(serde_json::from_value::<Cell>(kept).unwrap().profile);
    }

    #[test]
    fn records_older_than_residence_are_read() {
        assert_eq!(serde_json::to_string(&Purpose::Residence).unwrap(), r#""residence""#);
        let (cell, trial) = (Cell::default(), Trial::default());
        let old = (serde_json::to_value(&cell).unwrap(), serde_json::to_value(&trial).unwrap());
        assert!(old.0.get("residence").is_none() && old.1.get("residence").is_none());
        assert_eq!(serde_json::from_value::<Cell>(old.0).unwrap(), cell);
        assert_eq!(serde_json::from_value::<Trial>(old.1).unwrap(), trial);
        let residence = Some(crate::ResidenceFacts { pairs: 7, ..crate::ResidenceFacts::default() });
        let kept = serde_json::to_value(Trial { residence: residence.clone(), ..trial }).unwrap();
        assert_eq!(serde_json::from_value::<Trial>(kept).unwrap().residence, residence);
    }

    #[test]
    fn cells_older_than_targets_are_read_and_a_target_is_kept() {
        let mut cell = Cell { name: "nsd".into(), ..Cell::default() };
        let old = serde_json::to_value(&cell).unwrap();
        assert!(old.get("target").is_none());
        assert_eq!(serde_json::from_value::<Cell>(old).unwrap(), cell);
        cell.target = Some(Target { address: "192.0.2.1:53".parse().unwrap(), on_this_host: false });
        let kept = serde_json::to_value(&cell).unwrap();
        assert_eq!(kept["target"]["address"], "192.0.2.1:53");
        assert_eq!(serde_json::from_value::<Cell>(kept).unwrap(), cell);
    }

    #[test]
    fn runs_and_trials_older_than_hosts_are_read_and_hosts_are_kept() {
        let mut run = Run::default();
        let old = serde_json::to_value(&run).unwrap();
        assert!(old.get("hosts").is_none());
        assert_eq!(serde_json::from_value::<Run>(old).unwrap(), run);
        let host = |name: &str, role| RunHost {
            name: name.into(),
            role,
            address: [192, 0, 2, 1].into(),
            fingerprint: Fingerprint::default(),
            kqps: crate::fingerprint::BinaryFacts::default(),
        };
        run.hosts = vec![host("ns1", HostRole::Server), host("p1", HostRole::Player)];
        let kept = serde_json::to_value(&run).unwrap();
        assert_eq!(kept["hosts"][0]["role"], "server");
        assert_eq!(kept["hosts"][1]["address"], "192.0.2.1");
        assert_eq!(serde_json::from_value::<Run>(kept).unwrap(), run);
        assert_eq!(run.server_host().map(|host| &*host.name), Some("ns1"));
        assert_eq!(run.player_hosts().map(|host| &*host.name).collect::<Vec<_>>(), ["p1"]);

        let trial = serde_json::to_value(Trial::default()).unwrap();
        for field in ["parts", "start_skew_us", "late_start_ns"] {
            assert!(trial.get(field).is_none(), "{field}");
        }
        assert_eq!(serde_json::from_value::<Trial>(trial).unwrap(), Trial::default());
    }

    #[test]
    fn records_older_than_drop_reasons_are_read() {
        let mut old = serde_json::to_value(Trial::default()).unwrap();
        assert!(old.as_object_mut().unwrap().remove("disturbed").is_some());
        assert!(old["hosts"][0].as_object_mut().unwrap().remove("drop_reasons").is_some());
        assert_eq!(serde_json::from_value::<Trial>(old).unwrap(), Trial::default());
    }
}
