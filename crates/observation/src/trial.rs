//! The record of one trial: one load for one duration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;

use kqps_catalogue::course::Course;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::connections::ConnectionFacts;
use crate::event::{EventFacts, Silence};
use crate::gauge::{SpeedFacts, StallFacts};
use crate::histogram::Quantiles;
use crate::host::HostFacts;
use crate::hostile::HostileFacts;
use crate::ledger::{Ledger, Place};
use crate::moments::Moment;
use crate::network::NetworkFacts;
use crate::non_empty::NonEmpty;
use crate::part::PlayerPart;
use crate::replay::{Difference, Replay};
use crate::residence::ResidenceFacts;
use crate::subject::{SubjectFacts, ThreadFacts};
use crate::upstream::UpstreamFacts;

pub use crate::arrivals::{ReplyFacts, WallClockFacts};
pub use kqps_catalogue::Transport;

/// A measurement: the output of `kqps load --json` without the warnings, since warnings are a judgement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The version of the record, [`crate::SCHEMA`].
    pub schema: u32,
    /// Always `"trial"`.
    pub kind: String,
    /// Whether a signal ended the trial early.
    pub interrupted: bool,
    /// Whether watching changed the trial: the kernel's drop reasons were counted, which makes each drop slower, the
    /// subject was profiled, or packets were stamped. Such a trial explains others, and is in no figure.
    #[serde(default)]
    pub disturbed: bool,
    /// When the trial began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The start from which all due times count, nanoseconds on this host's monotonic clock (`CLOCK_MONOTONIC`). With it
    /// another program on the host can date the same packets. If several hosts took part, it is the first start of any
    /// player on the clock of the first player's host. 0 in records older than the field.
    #[serde(default)]
    pub started_monotonic_ns: u64,
    /// The target, as `ADDR:PORT`; the first of `targets`.
    pub target: String,
    /// All targets, in the order in which sockets take turns over them. Empty in older records, which have one.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The transport of queries and replies. If a replay used several, it is UDP or the first of the others, and
    /// [`Replay::sent`] has each.
    #[serde(default)]
    pub transport: Transport,
    /// The facts of the dataset.
    pub dataset: DatasetFacts,
    /// The load that was played.
    pub load: LoadFacts,
    /// The fate of every query.
    pub accounts: Accounts,
    /// Cause → unsent queries: [`UNSENT_LATE`], [`UNSENT_WINDOW`], [`UNSENT_IDS`] or [`UNSENT_CONNECTIONS`]. Sums to
    /// `accounts.unsent`. Empty in older records.
    #[serde(default)]
    pub unsent_causes: BTreeMap<String, u64>,
    /// Cause → wrong replies: `not-a-response`, `question`, `rcode`, `short`, `answer` or `ad`, over HTTP and QUIC also `id`,
    /// and over HTTP `status-503` or another status, `content-type` or `too-long`. Sums to `accounts.wrong`.
    pub wrong_causes: BTreeMap<String, u64>,
    /// The kernel's error name → queries that it refused. Sums to `accounts.send_failed`.
    pub send_failed_causes: BTreeMap<String, u64>,
    /// `expected NXDOMAIN, got NOERROR` → replies of the cause `rcode`, to which they sum. Empty in older records.
    #[serde(default)]
    pub wrong_rcodes: BTreeMap<String, u64>,
    /// Cause → lost queries: `time` if the reply did not come in time; `goaway` or `stream-reset` if the subject ended
    /// the query's stream; another cause of [`ConnectionFacts::closed`] if the connection ended first; a cause of
    /// [`ConnectionFacts::failed`] if there was no connection. Sums to `accounts.lost`. Empty in records older than the
    /// field, whose queries were all lost by time.
    #[serde(default)]
    pub lost_causes: BTreeMap<String, u64>,
    /// How a capture was replayed; `None` if the queries are no capture, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// How the answers to a capture's queries differ from the captured ones, the most frequent kind first. Empty if they
    /// were not compared, and in records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// The connections; `None` if the transport has none, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionFacts>,
    /// Expected reply → lost queries: an rcode, or `NODATA` or `referral` if the expected answer shows it, or `unknown`.
    /// Sums to `accounts.lost`. Empty in records older than the field.
    #[serde(default)]
    pub lost_expected: BTreeMap<String, u64>,
    /// Replies with REFUSED to queries that were answered at other times. 0 in records older than the field.
    #[serde(default)]
    pub refused_at_times: u64,
    /// Rcode → replies with it that came in time and match ID and question, whether it was expected or not. Sums to the
    /// correct replies and the wrong replies of the cause `rcode`; in older records, to the correct replies.
    pub response_rcodes: BTreeMap<String, u64>,
    /// Mean size of a sent query's DNS message, bytes; `None` if nothing was sent.
    pub request_bytes_mean: Option<f64>,
    /// Mean size of a correct reply's DNS message, bytes; `None` if there was none.
    pub response_bytes_mean: Option<f64>,
    /// The replies that came in time, right or wrong. `None` in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies: Option<ReplyFacts>,
    /// Time from the intended send to the reply's arrival, of correct and late replies. A lost query counts with the
    /// timeout.
    pub latency_us: Quantiles,
    /// The time at which the kernel took a query, minus its intended send time.
    pub lag_us: Quantiles,
    /// Time between a thread's successive sends to the kernel.
    pub gap_us: Quantiles,
    /// The histograms behind the three figures above (`latency`, `lag`, `gap`), of connecting (`connect`), of the first
    /// queries of connections (`first query`), from write to reply (`write to reply`), and of handshakes by kind
    /// (`handshake full`), as [`crate::Histogram::encode`] writes them.
    pub histograms: BTreeMap<String, String>,
    /// The facts of each player. Accounts, load and latency are those of all players together.
    pub players: NonEmpty<PlayerFacts>,
    /// The facts of the subject, if its process is known.
    pub subject: Option<SubjectFacts>,
    /// The facts of each host that took part: those of the players in their order and, if that is another host and was
    /// watched, that of the subject.
    pub hosts: NonEmpty<HostFacts>,
    /// Where packets were lost.
    pub ledger: Ledger,
    /// How fast the cores were around the trial. `None` if they were not gauged, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<SpeedFacts>,
    /// When the subject's cores stood still in the trial. `None` if no witness watched them, and in records older than the
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<StallFacts>,
    /// How long queries stayed in the subject's host. `None` if its packets were not stamped, and in records older than
    /// the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residence: Option<ResidenceFacts>,
    /// The work of other running subjects, which had to be idle during the trial. Empty if there were none, and in
    /// records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
    /// The part of each player, if other hosts than the one that ran kqps took part; empty if not, and in records older
    /// than the field, as are the next two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PlayerPart>,
    /// How far apart the players may have begun at most, microseconds: the greatest difference of two players' starts,
    /// with the uncertainties of both clocks. `None` if fewer than two players on hosts of their own took part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_skew_us: Option<f64>,
    /// By how much later than asked the player began, nanoseconds; of several players, the latest. `None` if no player
    /// was given a time to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_start_ns: Option<u64>,
    /// The attempts of attackers and what became of them, if this is not a load of queries: its accounts are all zero then. `None`
    /// of other loads, of several classes together, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostile: Option<HostileFacts>,
    /// The bins of 10 ms in which due queries had no correct reply in time, or left late. Only of the first minute; empty
    /// in records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mishaps: Vec<Mishap>,
    /// The load over time, by when queries were due. Empty unless it was asked for, and in records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
    /// Each class of clients by itself, if a scenario has several: the other figures are then of all classes together,
    /// and the queries, the target and the transport those of the first. Empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassTrial>,
    /// The events of a scenario during the load, in the order in which they were due. Empty if it has no events, and in
    /// records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventFacts>,
    /// The longest times without a correct reply, the longest first. Empty unless moments were asked for, and in records
    /// older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silences: Vec<Silence>,
    /// Queries that the subject asked the servers of an Internet in a box. `None` if it is no resolver there, and in records
    /// older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamFacts>,
    /// One-second bins: queries by the time of their send, correct replies by the time of their arrival.
    pub intervals: Vec<Interval>,
    /// Queries sent in each 100 ms bin.
    pub sent_per_100ms: Vec<u64>,
}

/// The record of a class of clients that was played beside others. Its facts of the host and the subject are those of
/// all classes, and its ledger is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassTrial {
    /// The name of the class.
    pub name: String,
    /// Its record.
    pub trial: Trial,
    /// Whether a search varied the rate of this class. False in other loads, and in records older than the field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_sought: bool,
}

/// A cause of unsent queries: the player reached them later than the allowed lag.
pub const UNSENT_LATE: &str = "late";
/// A cause of unsent queries: as many were outstanding as the load allows.
pub const UNSENT_WINDOW: &str = "window";
/// A cause of unsent queries: every ID of every socket was outstanding.
pub const UNSENT_IDS: &str = "ids";
/// A cause of unsent queries: every connection had as many as it takes.
pub const UNSENT_CONNECTIONS: &str = "connections";

impl Trial {
    /// The clients that a figure is about: those of the first class, or all if there are no classes.
    pub fn good(&self) -> &Self {
        self.classes.first().map_or(self, |class| &class.trial)
    }

    /// Sums a count over all classes of clients. Without classes it is the count of the trial.
    pub fn over_classes(&self, count: impl Fn(&Self) -> u64) -> u64 {
        if self.classes.is_empty() {
            return count(self);
        }
        self.classes.iter().map(|class| count(&class.trial)).sum()
    }

    /// The span in which queries were sent, nanoseconds of the host's monotonic clock.
    pub fn sending_ns(&self) -> Range<u64> {
        let began_ns = self.started_monotonic_ns;
        began_ns..began_ns + (self.load.sending_s() * 1e9) as u64
    }

    /// Queries that an open loop did not send because its window was full, or because every connection had as many as
    /// it takes. They show nothing about the player.
    pub fn held_back(&self) -> u64 {
        held_back(&self.unsent_causes)
    }

    /// Queries that were sent over connections: all, unless a replay sent some as datagrams.
    pub fn sent_on_connections(&self) -> u64 {
        let as_datagrams = self.replay.as_ref().and_then(|replay| replay.sent.get(Transport::Udp.word()));
        self.accounts.sent - as_datagrams.copied().unwrap_or(0).min(self.accounts.sent)
    }

    /// The network namespace in which the subject listens, as far as it is known: its own, or the player's for a
    /// subject on this host.
    pub fn subject_network(&self) -> Option<&NetworkFacts> {
        let is_loopback = || self.target.parse::<SocketAddr>().is_ok_and(|target| target.ip().is_loopback());
        match &self.subject {
            Some(SubjectFacts { network: Some(network), .. }) => Some(network),
            Some(_) => self.subject_host().map(|host| &host.network),
            None if !self.parts.is_empty() => self.subject_host().map(|host| &host.network),
            None => is_loopback().then_some(&self.hosts.first.network),
        }
    }

    /// The host of the subject: the last one if several hosts took part, `None` if it then was not watched, and
    /// otherwise the only host of the record.
    pub fn subject_host(&self) -> Option<&HostFacts> {
        if self.parts.is_empty() {
            return Some(&self.hosts.first);
        }
        // The players' hosts come first, one for each part.
        self.hosts.others.get(self.parts.len() - 1..)?.last()
    }

    /// Whether a player, by its index into `players`, ran on the subject's machine. If several hosts took part, the
    /// numbers of their boots show it. What is not known does not count as another machine: a host without such a
    /// number, or a subject whose host was not watched.
    pub fn is_beside_subject(&self, player: usize) -> bool {
        if self.parts.is_empty() {
            return true;
        }
        let boot_id = |host: &HostFacts| host.boot_id.clone();
        // The players' hosts come first, one for each part.
        let of_player = self.hosts.iter().take(self.parts.len()).nth(player).and_then(boot_id);
        let of_subject = self.subject_host().and_then(boot_id);
        of_player.zip(of_subject).is_none_or(|(player, subject)| player == subject)
    }

    /// Datagrams that came to ports without a listener: on the subject's side if several hosts took part, otherwise in
    /// the player's network namespace.
    pub fn datagrams_for_closed_ports(&self) -> u64 {
        let network =
            if self.parts.is_empty() { Some(&self.hosts.first.network) } else { self.subject_network() };
        network.map_or(0, |network| network.udp(|udp| udp.no_ports))
    }

    /// Whether connections alone were the load, and no query was sent.
    pub fn has_connections_alone(&self) -> bool {
        self.connections.as_ref().is_some_and(|connections| connections.alone)
    }

    /// The unit of its rates, in words.
    pub fn rate_unit(&self) -> &'static str {
        if self.hostile.is_some() { ATTEMPTS } else { rate_unit(self.has_connections_alone()) }
    }

    /// Datagrams that the own sockets of all players dropped.
    pub fn player_socket_drops(&self) -> u64 {
        self.players.iter().map(|player| player.socket_drops).sum()
    }

    /// How many of the lost queries were answered, with the reply dropped by the player's own socket buffers.
    pub fn lost_by_player(&self) -> u64 {
        let placed = self.ledger.at(Place::PlayerSocketBuffer);
        // A class beside others has no ledger, and its sockets count their own drops.
        let has_none = self.ledger == Ledger::default() && self.transport == Transport::Udp;
        let dropped = if has_none { self.player_socket_drops() } else { placed };
        dropped.min(self.accounts.lost)
    }

    /// Causes of wrong replies with their counts. Unexpected rcodes are listed in pairs if the record has them.
    pub fn wrong_in_words(&self) -> impl Iterator<Item = (&str, u64)> {
        let is_listed = |cause: &String| cause != "rcode" || self.wrong_rcodes.is_empty();
        let causes = self.wrong_causes.iter().filter(move |(cause, _)| is_listed(cause));
        causes.chain(&self.wrong_rcodes).map(|(cause, count)| (cause.as_str(), *count))
    }
}

/// The unit of the rate of attackers.
pub const ATTEMPTS: &str = "attempts/s";

/// The unit of a rate: connections if these alone are the load, and queries otherwise.
pub fn rate_unit(has_connections_alone: bool) -> &'static str {
    if has_connections_alone { "connections/s" } else { "q/s" }
}

/// Counts the unsent queries, given by cause, that an open loop did not send because its window was full, or because
/// every connection had as many as it takes.
pub fn held_back(unsent_causes: &BTreeMap<String, u64>) -> u64 {
    let of_load = [UNSENT_WINDOW, UNSENT_CONNECTIONS];
    of_load.iter().filter_map(|cause| unsent_causes.get(*cause)).sum()
}

/// A bin of 10 ms in which something went wrong, by the time at which queries were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mishap {
    /// The number of the bin, from 0.
    pub at_10ms: u32,
    /// Queries that were due in it. If several players took part, of those players for which something went wrong in
    /// it.
    pub intended: u32,
    /// How many of them had no correct reply in time.
    pub bad: u32,
    /// The largest lag of them, microseconds.
    pub lag_us: u32,
}

/// Another subject that was running during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    /// The name of its cell.
    pub name: String,
    /// CPU seconds that all its processes used, from the beginning of the player to its end.
    pub cpu_s: f64,
}

/// The dataset of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetFacts {
    /// The path of its source file.
    pub path: String,
    /// BLAKE3 of that file's content, in hex.
    pub hash: String,
    /// The number of its queries.
    pub queries: u64,
    /// Bad lines or messages that were left out.
    #[serde(default)]
    pub skipped: u64,
    /// Flaw of a bad line or message → how many had it. Sums to `skipped`. Empty in records older than the field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped_causes: BTreeMap<String, u64>,
    /// How answers were checked: `off`, `rcode` or `answers`. Older records, which do not have it, were made with `rcode`,
    /// or `off` for an echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
}

/// The load of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadFacts {
    /// Open or closed loop.
    pub mode: LoadMode,
    /// The arrivals of an open loop: `even`, `poisson` or `captured`.
    pub arrivals: Option<String>,
    /// The window: the most outstanding queries. `None` in an open loop without one.
    pub outstanding: Option<u64>,
    /// The mean number of outstanding queries over `duration_s`, by Little's law. Each query counts from its intended send
    /// time to its reply, or to the timeout. `None` in older records.
    #[serde(default)]
    pub outstanding_mean: Option<f64>,
    /// Queries per second that the schedule called for, or the most of a closed loop; `None` for a loop without a limit.
    pub intended_qps: Option<f64>,
    /// Queries per second that were sent: in an open loop over `sending_s`, in a closed loop over `duration_s`.
    pub offered_qps: f64,
    /// Correct replies per second of `duration_s`. In a closed loop, only those that came in that time.
    pub answered_qps: f64,
    /// Correct replies that came in `duration_s`. `None` in records of earlier versions.
    #[serde(default)]
    pub correct_in_time: Option<u64>,
    /// How long the load lasted, seconds: the time for which queries were sent, or, if the queries ended it, until the last
    /// of them had its reply or its timeout.
    pub duration_s: f64,
    /// Seconds in which queries were sent. `None` in older records, whose `duration_s` it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending_s: Option<f64>,
    /// Seconds after which a reply is late.
    pub timeout_s: f64,
    /// Seconds for which the player waited for replies after the last send.
    pub drain_s: f64,
    /// The most queries in one burst.
    pub burst: u32,
    /// Microseconds for which a due query may wait for others to leave with it. `None` in older records, as are the two
    /// fields below.
    #[serde(default)]
    pub coalesce_us: Option<f64>,
    /// Microseconds after which the player gives up a query that it could not send.
    #[serde(default)]
    pub lag_allowed_us: Option<f64>,
    /// The seed of random arrivals.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The course of the rate, in queries per second; `None` if the rate stayed. `intended_qps` is its mean over
    /// `duration_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
}

impl LoadFacts {
    /// Seconds in which queries were sent.
    pub fn sending_s(&self) -> f64 {
        self.sending_s.unwrap_or(self.duration_s)
    }

    /// Seconds from the start until the player stopped listening.
    pub fn wall_s(&self) -> f64 {
        self.sending_s() + self.drain_s
    }
}

/// The mode of a load, by what decides when the next query leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoadMode {
    /// A schedule, whatever the subject answers.
    #[default]
    Open,
    /// The subject's replies.
    Closed,
}

/// The player over one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlayerFacts {
    /// The I/O model that was used: `plain`, `mmsg`, `gso`, `uring` or `xdp` over UDP, `epoll`, `uring` or `xdp` over
    /// connections.
    pub io: String,
    /// Options that could not be met as asked, and why (a socket that fell back from segmentation, say).
    pub notes: Vec<String>,
    /// Sending threads.
    pub threads: u32,
    /// Sockets of all threads, or connections that may be open at once. If a replay has both, their sum.
    pub sockets: u32,
    /// CPU seconds of the whole process while the load lasted.
    pub cpu_s: f64,
    /// The cores to which its threads were pinned; empty if they were not.
    pub cpus: Vec<u32>,
    /// Whether the threads ran before all others on those cores (`SCHED_FIFO`), as long as they were not busy.
    #[serde(default)]
    pub real_time: bool,
    /// Whether the host's cores were kept from deep sleep states, from which waking up takes time.
    #[serde(default)]
    pub cores_awake: bool,
    /// Datagrams that the player's own sockets dropped because their buffer was full.
    pub socket_drops: u64,
    /// Sockets that fell back from segmentation to single sends.
    pub segment_fallbacks: u32,
    /// How the wall clock was set meanwhile; `None` if it was not, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock: Option<WallClockFacts>,
    /// The sending threads.
    pub per_thread: Vec<ThreadFacts>,
}

/// A second of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The end of the interval, in seconds since the trial began.
    pub at_s: u64,
    /// Queries sent in it.
    pub sent: u64,
    /// Correct replies that arrived in it.
    pub correct: u64,
}
