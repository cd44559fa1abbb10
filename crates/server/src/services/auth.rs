//! The authoritative server. All workers of a process share its zones, which can be replaced while it runs.

mod answer;
mod loaded;
mod refusal;
mod settings;
mod source;
mod zone_keeper;

use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;

use kqps_kernel::affinity;
use kqps_kernel::signal::Signals;
use kqps_message::edns::UDP_PAYLOAD_BYTES;

use crate::connections::ConnectionThread;
use crate::error::ServeError;
use crate::service::{AfterHangUp, Description, RunningService, Service, Task, Transports};
use crate::worker::threads::{self, StartConnections, Threads};
use zone_keeper::ZoneKeeper;

pub use loaded::{Changes, Faulty, ZonesLoaded};
pub use settings::AuthSettings;
pub use source::{ZoneRequest, ZoneSource};

/// The service of an authoritative server.
pub struct Auth {
    /// Its settings.
    pub settings: AuthSettings,
    /// Loads its zones, at the start and at SIGHUP.
    pub source: Arc<dyn ZoneSource>,
}

impl Service for Auth {
    fn transports(&self) -> Transports<'_> {
        Transports { tcp: self.settings.tcp, unix: &self.settings.unix }
    }

    fn replies_pass(&self) -> bool {
        self.settings.payload_bytes <= UDP_PAYLOAD_BYTES
    }

    fn reloads(&self) -> bool {
        true
    }

    fn for_processes(&self) -> Option<Description> {
        Some(Description::Auth(self.settings.clone()))
    }

    fn begin(self: Box<Self>, task: Task, signals: &Signals) -> Result<Box<dyn RunningService>, ServeError> {
        let Self { settings, source } = *self;
        let limits = task.limits_of_each(settings.limits);
        let Task { model, workers, listeners, process, processes } = task;
        // Several processes load the same zones at the same time, and share the cores.
        let loaders = affinity::allowed()?.len().div_ceil(processes);
        let keeper = ZoneKeeper::new(settings, source, loaders, process == 0, signals)?;
        let connections =
            |listeners, cpus, stop| ConnectionThread::start(listeners, limits, cpus, keeper.answer(), stop);
        let start = |number, sockets, stop| threads::start(number, model, sockets, keeper.answer(), stop);
        let connections = Box::new(connections) as StartConnections<'_>;
        let threads = Threads::start(model, workers, listeners, start, Some(connections))?;
        Ok(Box::new(RunningAuth { threads, keeper }))
    }
}

/// The threads of one process, and the zones that they share.
struct RunningAuth {
    threads: Threads,
    keeper: ZoneKeeper,
}

impl RunningService for RunningAuth {
    fn threads(&mut self) -> &mut Threads {
        &mut self.threads
    }

    fn loaded(&self) -> Option<&ZonesLoaded> {
        Some(&self.keeper.loaded)
    }

    fn hang_up(&mut self) -> Result<AfterHangUp, ServeError> {
        self.keeper.reload()?;
        Ok(AfterHangUp::GoOn)
    }

    fn news(&self) -> Option<RawFd> {
        Some(self.keeper.news.as_raw_fd())
    }

    fn reloaded(&mut self) -> Result<Option<ZonesLoaded>, ServeError> {
        Ok(self.keeper.loaded_again()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kqps_zone::Zones;

    use super::*;
    use crate::connections;
    use crate::services::echo::Echo;

    struct NoZones;

    impl ZoneSource for NoZones {
        fn load(&self, _: ZoneRequest<'_>) -> Result<(Zones, ZonesLoaded), String> {
            Err("there are none".to_owned())
        }
    }

    fn auth(payload_bytes: u16) -> Box<dyn Service> {
        let settings = AuthSettings {
            zones: Vec::new(),
            lists: Vec::new(),
            payload_bytes,
            nsid: None,
            version: None,
            identity: None,
            cookie_secret: None,
            transfers: false,
            tcp: true,
            unix: Vec::new(),
            limits: connections::Limits { idle: Duration::from_secs(1), connections: 1, per_client: 1 },
        };
        Box::new(Auth { settings, source: Arc::new(NoZones) })
    }

    #[test]
    fn long_answers_may_be_fragmented() {
        let services: [Box<dyn Service>; 4] = [Box::new(Echo::default()), auth(512), auth(1232), auth(1233)];
        assert_eq!(services.map(|service| service.replies_pass()), [true, true, true, false]);
    }
}
