//! Common parts of the tests of whole trials: a plan to vary, and queries in a temporary folder.

use std::net::SocketAddr;
use std::time::Duration;

use kqps_dataset::{Dataset, Format, Options};
use kqps_host::{PlayerWatched, SubjectWatched, Watch};
use kqps_player::{Io, LoadPlan, Part, PerQueryPlan, Plan, Stop, UdpPlan, Wire};
use tempfile::TempDir;

/// A plan for one thread, which plays all queries once through `sockets` sockets.
pub(crate) fn plan(target: SocketAddr, sockets: usize, load: LoadPlan, io: Io) -> Plan {
    let second = Duration::from_secs(1);
    Plan {
        targets: vec![target],
        wire: Wire::Udp(UdpPlan { io, sockets, buffer_bytes: None, local_port: None, device: None }),
        burst: 32,
        local: None,
        load,
        start_at_ns: None,
        stop: Stop { after: None, passes: Some(1) },
        part: Part::WHOLE,
        replay: None,
        timeout: second,
        drain: second,
        listens_on: false,
        lag_allowed: Duration::from_mins(1),
        coalesce: Duration::ZERO,
        threads: 1,
        cpus: Vec::new(),
        own_cores: false,
        seed: 1,
        drop_reasons: false,
        moments: None,
        course: None,
        per_query: PerQueryPlan::default(),
        first_query: 0,
        hostile: None,
    }
}

/// Queries, and the temporary folder that holds them.
pub(crate) struct Queries {
    pub(crate) dataset: Dataset,
    _folder: TempDir,
}

impl Queries {
    /// The queries of a file with this content.
    pub(crate) fn new(content: impl AsRef<[u8]>, format: Format) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queries");
        std::fs::write(&file, content).unwrap();
        let options = Options { format, cache_dir: Some(folder.path().join("cache")), ..Options::default() };
        Self { dataset: Dataset::open(&file, &options).unwrap(), _folder: folder }
    }
}

/// Watches the player and no subject.
pub(crate) fn no_subject(player: &PlayerWatched) -> Watch {
    Watch::begin(player, &SubjectWatched::default())
}
