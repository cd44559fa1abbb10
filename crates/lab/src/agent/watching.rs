//! The watch of a trial on the server's host, where no player is.

use kqps_host::watch::{HostWatch, ServerSeen};
use kqps_host::{PlayerPlace, SubjectWatch, SubjectWatched, allowed_cpus};

/// A running watch of a subject and its host.
#[derive(Debug)]
pub(super) struct ServerWatch {
    subject: SubjectWatch,
    host: HostWatch,
}

impl ServerWatch {
    /// Takes the first reading of a host, and of the subject with this process. `cpus` are the cores that the subject
    /// is pinned to; empty for those that its threads may use.
    pub(super) fn begin(pid: Option<u32>, cpus: &[u32]) -> Self {
        let pids: Vec<u32> = pid.into_iter().collect();
        let cpus = if cpus.is_empty() { allowed_cpus(&pids) } else { cpus.to_vec() };
        let host = HostWatch::begin(&pids);
        let player = PlayerPlace::Elsewhere;
        Self { subject: SubjectWatch::begin(&SubjectWatched { pids, unknown: None, cpus, player, ..SubjectWatched::default() }), host }
    }

    /// Records that the last query was sent. CPU time is counted up to this call.
    pub(super) fn sending_ended(&mut self) {
        self.subject.sending_ended();
        self.host.sending_ended();
    }

    /// Takes the second reading and returns the differences.
    pub(super) fn end(self) -> ServerSeen {
        ServerSeen { subject: self.subject.end(), host: self.host.end() }
    }
}
