//! The watch of a trial on the server's host, where no player is.

use kqps_host::watch::{HostWatch, ServerSeen, TimedReading};
use kqps_host::{PlayerPlace, ResidenceWatch, Stamped, SubjectWatch, SubjectWatched, allowed_cpus};
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::residence::NAME as NAME_OF_RESIDENCE;

/// A running watch of a subject and its host.
#[derive(Debug)]
pub(super) struct ServerWatch {
    watched: SubjectWatched,
    first: TimedReading<(SubjectWatch, HostWatch)>,
    /// The interface that carries the queries, if it is known.
    device: Option<String>,
    /// The watch of its packets, or why there is none; `None` if they are not stamped.
    residence: Option<Result<ResidenceWatch, String>>,
}

/// The process, cores and packets to watch.
#[derive(Debug)]
pub(super) struct ServerWatched {
    /// The subject's process; `None` watches the host alone.
    pub(super) pid: Option<u32>,
    /// The cores that the subject is pinned to; empty for those that its threads may use.
    pub(super) cpus: Vec<u32>,
    /// The interface that carries the queries, if it is known.
    pub(super) device: Option<String>,
    /// Whose packets are stamped there, if any are.
    pub(super) stamped: Option<Stamped>,
}

impl ServerWatch {
    /// Takes the first reading.
    pub(super) fn begin(watched: ServerWatched) -> Self {
        let ServerWatched { pid, cpus, device, stamped } = watched;
        let pids: Vec<u32> = pid.into_iter().collect();
        let cpus = if cpus.is_empty() { allowed_cpus(&pids) } else { cpus };
        let watched =
            SubjectWatched { pids, cpus, player: PlayerPlace::Elsewhere, ..SubjectWatched::default() };
        let residence = stamped.map(|stamped| match &device {
            Some(device) => {
                let begun = ResidenceWatch::begin(device, &stamped, &watched.cpus);
                begun.map_err(|error| error.to_string())
            }
            None => Err("it is not known which interface carries the queries".to_owned()),
        });
        let first = TimedReading::now(|| read(&watched));
        Self { watched, first, device, residence }
    }

    /// Puts the last reading that is over by `by_ns` on this host's monotonic clock in the place of the first one.
    pub(super) fn again_before(self, by_ns: u64, interrupts: &Interrupts) -> Self {
        let first = self.first.again_before(by_ns, interrupts, || read(&self.watched));
        Self { first, ..self }
    }

    /// When the first reading was over, nanoseconds on this host's monotonic clock.
    pub(super) fn over_ns(&self) -> u64 {
        self.first.over_ns
    }

    /// Records that the last query was sent. CPU time is counted up to this call.
    pub(super) fn sending_ended(&mut self) {
        let (subject, host) = &mut self.first.reading;
        subject.sending_ended();
        host.sending_ended();
    }

    /// Takes the second reading and returns the differences.
    pub(super) fn end(self) -> ServerSeen {
        let (subject, host) = self.first.reading;
        let subject = subject.end();
        let mut host = host.end();
        host.device = self.device;
        let residence = self.residence.map(|begun| begun.and_then(ResidenceWatch::end));
        let residence = residence.and_then(|measured| {
            measured.map_err(|why| host.unreadable.insert(NAME_OF_RESIDENCE.to_owned(), why)).ok()
        });
        ServerSeen { subject, host, residence }
    }
}

fn read(watched: &SubjectWatched) -> (SubjectWatch, HostWatch) {
    let host = HostWatch::begin(&watched.pids);
    (SubjectWatch::begin(watched), host)
}
