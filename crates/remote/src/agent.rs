//! An agent: the part of kqps that works for a controller on another host. It makes zones and queries, starts and
//! watches subjects, plays trials, and changes settings of its host.
//!
//! The link hands it one job after another ([`kqps_fleet::serve`]). When the controller says so, or when nothing comes
//! from the controller any more, everything that the agent started ends, its files are removed, and its changes are put
//! back. If the agent itself is killed, its guards do that.

pub mod certificate;
pub mod hashes;
pub mod job;
pub mod permission;

mod address;
mod ahead;
mod dead;
mod failure;
mod files;
mod guard;
mod holders;
mod machine;
mod place;
mod playing;
mod subjects;
mod tuned;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use kqps_fleet::{Role, Worker};
use kqps_host::{Topology, cpu_s_so_far, fingerprint};
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::{interface, probe};

use failure::{Failure, plain};
use files::{PushedFiles, Stored};
use hashes::{MaterialHashes, are_signed};
use job::{Queries, StartRequest};
use kqps_testbed::materials::{Materials, MaterialsSpec};
use kqps_testbed::play::QueryFile;
use kqps_testbed::subject::Subject;
use place::AgentPlace;
use subjects::{Subjects, Supplies};
use tuned::Tuned;
use watching::{ServerWatch, ServerWatched};

pub use guard::stand_guard;
pub use job::{Done, Job};
pub use permission::Permission;
pub use place::PlaceError;

/// An agent. Dropping it ends all that it started, and removes its files. Subjects and players are also killed when the
/// thread that works the jobs ends.
#[derive(Debug)]
pub struct Agent {
    permission: Permission,
    kqps: PathBuf,
    materials: BTreeMap<MaterialsSpec, Materials>,
    files: PushedFiles,
    /// The start of the subject that is watched, and the watch.
    watch: Option<(Option<u64>, ServerWatch)>,
    subjects: Subjects,
    tuned: Tuned,
    // Dropped last: subjects use it.
    place: AgentPlace,
}

impl Agent {
    /// An agent with its files in the user's cache folder. `kqps` is the path of this program.
    pub fn new(kqps: &Path) -> Result<Self, PlaceError> {
        let cache = kqps_files::cache_folder().ok_or(PlaceError::NoCache)?;
        Self::within(&cache, kqps)
    }

    /// As [`Agent::new`], with its files in a cache folder that the caller names by an absolute path.
    pub fn within(cache: &Path, kqps: &Path) -> Result<Self, PlaceError> {
        let place = AgentPlace::make(cache, kqps)?;
        Ok(Self {
            permission: Permission::default(),
            kqps: kqps.to_owned(),
            materials: BTreeMap::new(),
            files: PushedFiles::new(place.at("parts"), cache.join("files")),
            watch: None,
            subjects: Subjects::default(),
            tuned: Tuned::default(),
            place,
        })
    }

    /// The permission of this agent, which the controller's hello grants.
    pub fn permission(&self) -> Permission {
        self.permission.clone()
    }

    fn make_materials(
        &mut self,
        wanted: MaterialsSpec,
        seed: u64,
        file: Option<&str>,
    ) -> Result<Done, Failure> {
        let folder = self.place.folder();
        if wanted.is_file() {
            let name = file.ok_or_else(|| plain("the name of the query file is missing"))?;
            Materials::link(folder, self.files.path(name).map_err(plain)?).map_err(plain)?;
        }
        let is_player = self.permission.role().map_err(plain)? == Role::Player;
        let made = if is_player {
            Materials::queries_alone(folder, &wanted, seed)
        } else {
            Materials::make(folder, &wanted, seed, None)
        };
        let made = made.map_err(plain)?;
        if is_player {
            compile(&made);
        }
        let is_signed = are_signed(&wanted, seed).map_err(plain)?;
        let hashes = MaterialHashes::read(&made, is_signed)
            .map_err(|error| plain(format!("reading the zones and queries: {error}")))?;
        self.materials.insert(wanted, made);
        Ok(Done::Materials { hashes })
    }

    fn materials(&self, wanted: &MaterialsSpec) -> Result<&Materials, Failure> {
        self.materials.get(wanted).ok_or_else(|| plain("these zones and queries were not made here"))
    }

    fn start(&mut self, request: &StartRequest, interrupts: &Interrupts) -> Result<Done, Failure> {
        let wanted = MaterialsSpec::new(request.cell.factors.dataset());
        let zones = self.materials(&wanted)?.zones.clone();
        let supplies = Supplies { folder: self.place.folder(), zones: &zones, kqps: &self.kqps };
        self.subjects.start(request, supplies, interrupts)
    }

    fn begin_watch(&mut self, start: Option<u64>, watched: ServerWatched) -> Result<Done, Failure> {
        let subject = start.map(|start| self.subjects.get(start)).transpose()?;
        if let Some(subject) = &subject {
            // Some threads start with the first query, and some choose cores for themselves.
            let unbound = |error| plain(format!("it cannot be confined to its cores: {error}"));
            subject.confine().map_err(unbound)?;
        }
        let pid = subject.map(|subject| subject.pid());
        let watch = ServerWatch::begin(ServerWatched { pid, ..watched });
        Ok(self.begun(start, watch))
    }

    fn watch_again(&mut self, by_ns: u64, interrupts: &Interrupts) -> Result<Done, Failure> {
        ahead::check(Some(by_ns))?;
        let (start, watch) = self.watch.take().ok_or_else(no_watch)?;
        Ok(self.begun(start, watch.again_before(by_ns, interrupts)))
    }

    fn begun(&mut self, start: Option<u64>, watch: ServerWatch) -> Done {
        let over_ns = watch.over_ns();
        self.watch = Some((start, watch));
        Done::Begun { over_ns }
    }

    fn end_watch(&mut self) -> Result<Done, Failure> {
        let (start, watch) = self.watch.take().ok_or_else(no_watch)?;
        let seen = watch.end();
        let ended = start.map(|start| self.subjects.get(start)).transpose()?.and_then(Subject::ended);
        match ended {
            // A trial during which the subject died is no measurement.
            Some((reason, output)) => Err((format!("{reason} during a trial"), output)),
            None => Ok(Done::Seen(Box::new(seen))),
        }
    }

    fn queries(&self, queries: &Queries) -> Result<&Path, Failure> {
        Ok(self.materials(&queries.wanted)?.path_of(queries.kind))
    }
}

impl Worker for Agent {
    type Job = Job;
    type Done = Done;

    fn work(&mut self, job: Job, interrupts: &Interrupts) -> Result<Done, Failure> {
        self.permission.check(&job).map_err(plain)?;
        match job {
            Job::Facts { address, sources, device } => facts(address, &sources, device.as_deref()),
            Job::Have { name, whole } => stored(self.files.have(&name, &whole)),
            Job::Put { name, offset, data_base64, whole } => {
                stored(self.files.put(&name, offset, &data_base64, whole.as_deref()))
            }
            Job::Materials { wanted, seed, file } => self.make_materials(wanted, seed, file.as_deref()),
            Job::Start(request) => self.start(&request, interrupts),
            Job::Stop { start, within_s } => {
                self.subjects.stop(start, within_s, interrupts).map(|()| Done::Stopped)
            }
            Job::WatchBegin { start, cpus, device, stamped } => {
                self.begin_watch(start, ServerWatched { pid: None, cpus, device, stamped })
            }
            Job::WatchAgain { by_ns } => self.watch_again(by_ns, interrupts),
            Job::WatchSent => {
                let (_, watch) = self.watch.as_mut().ok_or_else(no_watch)?;
                watch.sending_ended();
                Ok(Done::Sent)
            }
            Job::WatchEnd => self.end_watch(),
            Job::Play { request, queries, at_ns } => {
                let queries = self.queries(&queries)?;
                let trial = playing::play(&self.kqps, *request, queries, at_ns, interrupts)?;
                Ok(Done::Played(Box::new(trial)))
            }
            Job::Set { settings } => self.tuned.set(&settings, &self.kqps),
            Job::Unset => self.tuned.unset().map(|()| Done::Unset),
            Job::CpuTime { start } => {
                let pid = self.subjects.get(start)?.pid();
                Ok(Done::CpuTime { cpu_s: cpu_s_so_far(pid) })
            }
        }
    }

    fn end(&mut self) {
        self.watch = None;
        self.subjects.kill();
        // Links that go down may be waited for. What is quick comes before.
        self.place.remove();
        self.tuned.end();
    }
}

/// Reads the facts and capabilities of this host. Fails if it lacks one of these addresses or this device.
fn facts(address: IpAddr, sources: &[IpAddr], device: Option<&str>) -> Result<Done, Failure> {
    address::check(address)?;
    address::check_sources(sources)?;
    device.map_or(Ok(()), address::check_device)?;
    let lacks = |capability: probe::Capability| Some((capability.name.to_owned(), capability.outcome.err()?));
    Ok(Done::Facts {
        fingerprint: Box::new(fingerprint::read()),
        topology: Topology::read(),
        probe: probe::probe().into_iter().filter_map(lacks).collect(),
        // Without it, the counters of all interfaces are taken.
        device: interface::of_address(address).ok().flatten(),
    })
}

fn stored(stored: Result<Stored, String>) -> Result<Done, Failure> {
    let Stored { bytes, is_whole } = stored.map_err(plain)?;
    Ok(Done::Stored { bytes, is_whole })
}

fn no_watch() -> Failure {
    plain("no watch has begun")
}

/// Compiles the queries, so that no trial spends the time before its start on that. A player that cannot open them
/// gives the reason.
fn compile(made: &Materials) {
    for path in BTreeSet::from([&made.queries, &made.plain, &made.one]) {
        let _ = QueryFile::new(path).open();
    }
}
