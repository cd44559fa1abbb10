//! The jobs that a controller gives an agent, and what the agent returns for each, as JSON.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use kqps_host::watch::ServerSeen;
use kqps_host::{Stamped, Topology};
use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::{Cell, Fingerprint, Trial};
use serde::{Deserialize, Serialize};

use super::certificate::CertificatePem;
use super::hashes::MaterialHashes;
use kqps_testbed::materials::{MaterialsSpec, QueriesKind};
use kqps_testbed::play::PlayRequest;

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Job {
    /// Describe the host. Returns [`Done::Facts`].
    Facts {
        /// The host's address for queries. It fails if the host does not have it.
        address: IpAddr,
        /// Addresses that it sends from, such as the first and the last of a network. It fails if it cannot.
        sources: Vec<IpAddr>,
        /// The interface that the hosts' file names. It fails if the host does not have it.
        device: Option<String>,
    },
    /// Look for a file of the user's among those that agents of this user have kept. Returns [`Done::Stored`].
    Have {
        /// The name that later jobs give the file: letters, digits, `-`, `_` and `.`, and no `.` at its beginning.
        name: String,
        /// BLAKE3 of the whole file, in hex.
        whole: String,
    },
    /// Append a piece to a file of the user's. Returns [`Done::Stored`].
    Put {
        /// The name that later jobs give the file, as in [`Job::Have`].
        name: String,
        /// The bytes before the piece: those that are already here. 0 begins the file anew.
        offset: u64,
        /// The piece, in base64 (RFC 4648, section 4).
        data_base64: String,
        /// BLAKE3 of the whole file, in hex, with its last piece.
        whole: Option<String>,
    },
    /// Make the queries that cells ask for, and at the server their zones. Returns [`Done::Materials`].
    Materials {
        /// The zones and queries.
        wanted: MaterialsSpec,
        /// The run's seed.
        seed: u64,
        /// The name of the user's query file, if `wanted` is that.
        file: Option<String>,
    },
    /// Start a subject. Returns [`Done::Started`]. Its materials must have been made.
    Start(Box<StartRequest>),
    /// Stop a subject. Returns [`Done::Stopped`].
    Stop {
        /// The number of its start.
        start: u64,
        /// The most seconds for it, which may be less than its definition allows.
        within_s: Option<f64>,
    },
    /// Begin to watch the server's side of a trial: take a first reading at once. Returns [`Done::Begun`].
    WatchBegin {
        /// The start of the subject to watch; `None` watches the host alone.
        start: Option<u64>,
        /// The cores that the subject is pinned to; empty for those that its threads are pinned to.
        cpus: Vec<u32>,
        /// The interface that carries the queries, if it is known.
        device: Option<String>,
        /// Whose packets are stamped there, for the residence of queries. What prevents it is in what the watch saw.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stamped: Option<Stamped>,
    },
    /// Take the first reading of the watch again, as shortly before a moment as possible. One that is not over by then
    /// does not count, and the one before it stays. The job lasts until about then. Returns [`Done::Begun`].
    WatchAgain {
        /// The moment, nanoseconds on this host's `CLOCK_MONOTONIC`.
        by_ns: u64,
    },
    /// Note that the last query was sent: CPU time is counted up to now. Returns [`Done::Sent`].
    WatchSent,
    /// End the watch. Returns [`Done::Seen`]. It fails if the subject died.
    WatchEnd,
    /// Play a trial. Returns [`Done::Played`].
    Play {
        /// The trial. The agent sets the path of its queries, allows its targets, and shows no progress.
        request: Box<PlayRequest>,
        /// The queries, which must have been made.
        queries: Queries,
        /// When to begin, nanoseconds on this host's `CLOCK_MONOTONIC`; `None` begins at once.
        at_ns: Option<u64>,
    },
    /// Change settings of the host, by name, until [`Job::Unset`] or the end of the agent. Returns [`Done::Set`]. The
    /// same settings again add a holder. Other settings fail while some are held.
    Set {
        /// The name of each setting → its value, as `kqps host apply` takes them. `receive-core.DEVICE` puts all
        /// receive work of a device on one core.
        settings: BTreeMap<String, String>,
    },
    /// Take a holder of the settings away; the last one puts all settings back. Returns [`Done::Unset`].
    Unset,
    /// Read the CPU time of a subject. Returns [`Done::CpuTime`].
    CpuTime {
        /// The number of its start.
        start: u64,
    },
}

/// Queries of [`Job::Materials`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queries {
    /// The zones and queries that they were made for.
    pub wanted: MaterialsSpec,
    /// The kind of their file.
    pub kind: QueriesKind,
}

/// The start of a subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// The number of the start. No other subject of this agent that runs may have it.
    pub start: u64,
    /// The text of the subject's definition.
    pub definition: String,
    /// The subject's cell: its workers, cores, settings, I/O model, transport and dataset.
    pub cell: Cell,
    /// The address of this host that the subject listens on.
    pub address: IpAddr,
    /// The subject's certificate; `None` over a transport without encryption.
    pub certificate: Option<CertificatePem>,
    /// The most seconds until it is ready, which may be less than its definition allows.
    pub within_s: Option<f64>,
}

/// The result of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Done {
    /// The host.
    Facts {
        /// Its hardware, kernel and settings.
        fingerprint: Box<Fingerprint>,
        /// The cores that the agent may use, and the interrupts of network devices.
        topology: Topology,
        /// Capability, as `kqps probe` names it → why it does not work here. Those that work are left out.
        probe: BTreeMap<String, String>,
        /// The interface that carries the packets of the address; `None` if that is not certain.
        device: Option<String>,
    },
    /// A file of the user's.
    Stored {
        /// The bytes that are here.
        bytes: u64,
        /// Whether these are all, with the right hash.
        is_whole: bool,
    },
    /// Queries and zones were made.
    Materials {
        /// The hashes of their files.
        hashes: MaterialHashes,
    },
    /// A subject answers.
    Started {
        /// Its addresses, in the order of their ports.
        addresses: Vec<SocketAddr>,
        /// Seconds from its start until it answered.
        ready_s: f64,
        /// The version that its program reports, if it does.
        version: Option<String>,
        /// Name → the file of each program that its definition names.
        programs: BTreeMap<String, BinaryFacts>,
        /// The ID of its process on its host.
        pid: u32,
    },
    /// A subject was stopped, and nothing of it is left.
    Stopped,
    /// A watch has its first reading.
    Begun {
        /// When the reading was over, nanoseconds on this host's `CLOCK_MONOTONIC`.
        over_ns: u64,
    },
    /// A watch has noted the end of sending.
    Sent,
    /// The observations of a watch.
    Seen(Box<ServerSeen>),
    /// The record of a trial.
    Played(Box<Trial>),
    /// Settings were changed.
    Set {
        /// Settings that had another value before.
        changed: Vec<String>,
        /// Remarks on what may keep them from having their effect, each as a sentence without its full stop.
        remarks: Vec<String>,
    },
    /// There is a holder less. After the last one, all settings are back.
    Unset,
    /// The CPU time of a subject.
    CpuTime {
        /// CPU seconds that it has used so far.
        cpu_s: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_words_with_hyphens() {
        let written = |job: &Job| serde_json::to_string(job).unwrap();
        assert_eq!(written(&Job::WatchSent), r#""watch-sent""#);
        let watch =
            Job::WatchBegin { start: Some(7), cpus: vec![1], device: Some("eth0".into()), stamped: None };
        assert_eq!(written(&watch), r#"{"watch-begin":{"start":7,"cpus":[1],"device":"eth0"}}"#);
        let stamped = Some(Stamped { servers: vec!["192.0.2.1:53".parse().unwrap()], one_in: 4 });
        let stamping = Job::WatchBegin { start: None, cpus: Vec::new(), device: None, stamped };
        let words = r#""stamped":{"servers":["192.0.2.1:53"],"one_in":4}"#;
        assert!(written(&stamping).contains(words), "{}", written(&stamping));
        assert_eq!(written(&Job::WatchAgain { by_ns: 9 }), r#"{"watch-again":{"by_ns":9}}"#);
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let facts = Job::Facts { address, sources: vec![address], device: None };
        let words = r#"{"facts":{"address":"192.0.2.1","sources":["192.0.2.1"],"device":null}}"#;
        assert_eq!(written(&facts), words);
        let start = StartRequest {
            start: 3,
            definition: "name = \"echo\"".into(),
            cell: Cell { name: "echo".into(), ..Cell::default() },
            address: "192.0.2.1".parse().unwrap(),
            certificate: None,
            within_s: Some(2.5),
        };
        let materials = Job::Materials { wanted: MaterialsSpec::default(), seed: u64::MAX, file: None };
        for job in [
            facts,
            watch,
            stamping,
            Job::Start(Box::new(start)),
            materials,
            Job::Stop { start: 3, within_s: None },
        ] {
            assert_eq!(serde_json::from_str::<Job>(&written(&job)).unwrap(), job);
        }
        let error = serde_json::from_str::<Job>(r#"{"stop":{"start":1,"now":true}}"#).unwrap_err();
        assert!(error.to_string().contains("`now`"), "{error}");
    }
}
