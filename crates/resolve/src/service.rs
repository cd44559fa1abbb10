//! The caching forwarder as a service: what it needs of the server, and how it starts and stops.

use std::os::fd::RawFd;

use kqps_front::status::StatusServers;
use kqps_front::upstream;
use kqps_kernel::limits::{machine_bytes, raise_open_files, reserve_open_files};
use kqps_kernel::signal::Signals;
use kqps_message::edns::UDP_PAYLOAD_BYTES;
use kqps_server::connections::{ConnectionThread, OTHER_FILES};
use kqps_server::error::ServeError;
use kqps_server::report::Ended;
use kqps_server::service::{RunningService, Service, Task, Transports};
use kqps_server::services::auth::ZonesLoaded;
use kqps_server::setup::ServerSetup;
use kqps_server::worker::threads::{self, StartConnections, Threads};

use crate::crew::Crew;
use crate::settings::CacheSettings;
use crate::store;

/// The service of a caching forwarder.
pub struct CacheServer {
    /// Its settings.
    pub settings: CacheSettings,
}

impl Service for CacheServer {
    fn transports(&self) -> Transports<'_> {
        Transports { tcp: self.settings.tcp, unix: &[] }
    }

    fn replies_pass(&self) -> bool {
        self.settings.payload_bytes <= UDP_PAYLOAD_BYTES
    }

    fn reloads(&self) -> bool {
        false
    }

    fn check(&self, setup: &ServerSetup) -> Result<(), ServeError> {
        if setup.processes > 1 {
            return Err(ServeError::Setup(
                "a cache has threads and no worker processes: use --threads, with --cache split if each is to have a \
                 cache of its own"
                    .to_owned(),
            ));
        }
        let CacheSettings { kept, sharing, .. } = &self.settings;
        store::check(kept, *sharing, u64::from(setup.threads), machine_bytes()).map_err(ServeError::Setup)
    }

    fn begin(self: Box<Self>, task: Task, _: &Signals) -> Result<Box<dyn RunningService>, ServeError> {
        let CacheSettings { limits, tcp, .. } = self.settings;
        let policy = &self.settings.upstream.policy;
        if let Some(own) = upstream::own(&task.workers, tcp, policy)? {
            return Err(ServeError::Setup(format!("the server {} is an address of this cache", own.target)));
        }
        let limits = task.limits_of_each(limits);
        let Task { model, workers, listeners, .. } = task;
        // The usual limit of open files is lower than that of connections.
        raise_open_files()?;
        // Besides a connection, as many sockets again may wait for the last answers to their ports.
        let links = workers.len() * policy.back_ends.len() * (2 * self.settings.upstream.sockets + 1);
        reserve_open_files((links + OTHER_FILES) as u64)?;
        let crew = Crew::start(&self.settings, &workers, model.takes_segments())?;
        let status = StatusServers::start(&self.settings.upstream, &crew.overview)?;
        let connections = |listeners, cpus, stop| {
            ConnectionThread::start(listeners, limits, cpus, crew.for_connections()?, stop)
        };
        let start =
            |number, sockets, stop| threads::start(number, model, sockets, crew.for_worker(number), stop);
        let connections = Box::new(connections) as StartConnections<'_>;
        let threads = Threads::start(model, workers, listeners, start, Some(connections))?;
        Ok(Box::new(RunningCache { threads, crew, _status: status }))
    }
}

/// The threads of a cache. Those that ask stop before those that answer.
struct RunningCache {
    threads: Threads,
    crew: Crew,
    /// Reports counts as long as it lives.
    _status: StatusServers,
}

impl RunningService for RunningCache {
    fn threads(&mut self) -> &mut Threads {
        &mut self.threads
    }

    fn news(&self) -> Option<RawFd> {
        Some(self.crew.descriptor())
    }

    /// A resolver has ended. Its worker could answer no question any more that is not in the cache, so the server ends
    /// with the error of the resolver.
    fn reloaded(&mut self) -> Result<Option<ZonesLoaded>, ServeError> {
        Err(self.crew.ended().into())
    }

    fn stop(&mut self) -> Ended {
        let mut ended = self.threads.stop();
        self.crew.stop(&mut ended);
        ended
    }
}
