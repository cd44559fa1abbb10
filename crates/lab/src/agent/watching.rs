//! The watch of a trial on the server's host, where no player is.

use kqps_host::watch::{HostWatch, ServerSeen, begin_at};
use kqps_host::{PlayerPlace, SubjectWatch, SubjectWatched, allowed_cpus};
use kqps_kernel::interrupts::Interrupts;

/// A running watch of a subject and its host.
#[derive(Debug)]
pub(super) struct ServerWatch {
    subject: SubjectWatch,
    host: HostWatch,
    /// The interface that carries the queries, if it is known.
    device: Option<String>,
}

/// What to watch.
#[derive(Debug)]
pub(super) struct ServerWatched {
    /// The subject's process; `None` watches the host alone.
    pub(super) pid: Option<u32>,
    /// The cores that the subject is pinned to; empty for those that its threads may use.
    pub(super) cpus: Vec<u32>,
    /// The interface that carries the queries, if it is known.
    pub(super) device: Option<String>,
}

impl ServerWatch {
    /// Takes the first reading, which is over at `at_ns` on this host's monotonic clock; `None` takes it at once.
    pub(super) fn begin(watched: ServerWatched, at_ns: Option<u64>, interrupts: &Interrupts) -> Self {
        let ServerWatched { pid, cpus, device } = watched;
        let pids: Vec<u32> = pid.into_iter().collect();
        let cpus = if cpus.is_empty() { allowed_cpus(&pids) } else { cpus };
        let player = PlayerPlace::Elsewhere;
        let subject = SubjectWatched { pids, cpus, player, ..SubjectWatched::default() };
        let take = || {
            let host = HostWatch::begin(&subject.pids);
            (SubjectWatch::begin(&subject), host)
        };
        let (subject, host) = match at_ns {
            Some(at_ns) => begin_at(at_ns, interrupts, take),
            None => take(),
        };
        Self { subject, host, device }
    }

    /// Records that the last query was sent. CPU time is counted up to this call.
    pub(super) fn sending_ended(&mut self) {
        self.subject.sending_ended();
        self.host.sending_ended();
    }

    /// Takes the second reading and returns the differences.
    pub(super) fn end(self) -> ServerSeen {
        let subject = self.subject.end();
        let mut host = self.host.end();
        host.device = self.device;
        ServerSeen { subject, host }
    }
}
