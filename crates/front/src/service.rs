//! The front as a service: what it needs of the server, how it starts, and what it does at SIGHUP.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use kqps_kernel::signal::Signals;
use kqps_kernel::{UdpOptions, UdpSocket};
use kqps_server::error::ServeError;
use kqps_server::model::Model;
use kqps_server::service::{AfterHangUp, RunningService, Service, Task, Transports};
use kqps_server::setup::ServerSetup;
use kqps_server::worker::threads::Threads;

use super::FrontSettings;
use super::control::FrontControl;
use super::own_addresses::OwnAddresses;
use super::policy::{PolicySource, Target};

/// The service of a front.
pub struct Front {
    /// Its settings.
    pub settings: FrontSettings,
    /// Reads its policy again at SIGHUP.
    pub source: Box<dyn PolicySource>,
}

impl Service for Front {
    fn transports(&self) -> Transports<'_> {
        Transports { tcp: self.settings.tcp, unix: &[] }
    }

    /// The length of replies depends on the back ends and on what clients accept.
    fn replies_pass(&self) -> bool {
        false
    }

    fn reloads(&self) -> bool {
        true
    }

    fn check(&self, setup: &ServerSetup) -> Result<(), ServeError> {
        if setup.processes > 1 {
            return Err(ServeError::Setup(
                "a front has threads and no worker processes: use --threads".to_owned(),
            ));
        }
        if !matches!(setup.io, Model::Mmsg | Model::Segment | Model::Uring) {
            let model = setup.io.name();
            return Err(ServeError::Setup(format!(
                "--io {model} does not work for a front: use mmsg, segment or uring"
            )));
        }
        Ok(())
    }

    /// The buffers of one socket stand for those of all sockets to back ends.
    fn notes(&self) -> io::Result<Vec<String>> {
        let FrontSettings { policy, buffer_bytes, .. } = &self.settings;
        if !policy.back_ends.iter().any(|back_end| matches!(back_end.target, Target::Udp(_))) {
            return Ok(Vec::new());
        }
        let bytes = Some(*buffer_bytes);
        let options = UdpOptions { recv_buffer: bytes, send_buffer: bytes, ..UdpOptions::default() };
        let like_those = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), &options)?;
        let short = like_those.short_buffers(*buffer_bytes);
        Ok(short.into_iter().map(|note| format!("--backend-buffer: {note}")).collect())
    }

    fn begin(self: Box<Self>, task: Task, _: &Signals) -> Result<Box<dyn RunningService>, ServeError> {
        let Self { settings, source } = *self;
        let Task { model, workers, listeners, .. } = task;
        let own_addresses = OwnAddresses::from_workers(&workers, settings.tcp)?;
        own_addresses.check(&settings.policy).map_err(ServeError::Setup)?;
        let mut control = FrontControl::new(settings, workers.len())?;
        let start = |number, sockets, stop| control.start(number, model, sockets, &listeners, stop);
        let threads = Threads::start(model, workers, Vec::new(), start, None)?;
        Ok(Box::new(RunningFront { threads, control, own_addresses, source }))
    }
}

/// The threads of a front, and what gives them new policies.
struct RunningFront {
    threads: Threads,
    control: FrontControl,
    own_addresses: OwnAddresses,
    source: Box<dyn PolicySource>,
}

impl RunningService for RunningFront {
    fn threads(&mut self) -> &mut Threads {
        &mut self.threads
    }

    fn metrics(&self) -> Option<SocketAddr> {
        self.control.metrics()
    }

    fn hang_up(&mut self) -> Result<AfterHangUp, ServeError> {
        if let Some(policy) = self.source.policy(&|policy| self.own_addresses.check(policy)) {
            self.source.adopted(&policy, self.control.adopt(policy.clone()));
        }
        Ok(AfterHangUp::GoOn)
    }
}
