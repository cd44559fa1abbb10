//! The servers: our echo, its bare system calls, or a name server with generated zones, started as the lab
//! starts it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::factors::CertificateType;
use kqps_observation::question::Path as Kind;
use kqps_observation::trial::Transport;
use kqps_testbed::certificates::Certificates;
use kqps_testbed::path::LaidPath;
use kqps_testbed::subject::{Definition, LaunchSetting, Over, Subject, builtin, programs};
use serde::Deserialize;
use tempfile::TempDir;

use super::data::Data;
use super::{Bench, players};
use crate::child::{Running, pinned};
use crate::path;
use crate::program::Carrier;

/// A server before its start. It has one worker.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Server {
    /// Our echo under an I/O model, at the end of a path.
    Echo {
        io: String,
        #[serde(default)]
        path: Kind,
    },
    /// Our echo over connections, at the end of a path.
    StreamEcho {
        carrier: Carrier,
        #[serde(default)]
        path: Kind,
    },
    /// The system calls of that echo, and hardly anything else.
    Calls(String),
    Named(Named),
}

/// A name server and its data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    /// The name of its file under `subjects`.
    subject: String,
    /// The I/O model, for servers that have a choice.
    #[serde(default)]
    io: String,
    #[serde(default)]
    data: Data,
    /// Whether it may use all cores, as it should while it loads its zones. Otherwise it has the subject's.
    #[serde(default)]
    spread: bool,
    /// Settings that its file declares.
    #[serde(default)]
    settings: BTreeMap<String, String>,
    /// The transport of queries. The server is started as its file says for it.
    #[serde(default)]
    transport: Transport,
    /// The path at whose end it is started.
    #[serde(default)]
    path: Kind,
}

/// The I/O model of servers and players that exchange frames with their device.
pub(super) const FRAMES: &str = "xdp";

/// The file with a front's process ID. The servers behind it have others.
const FRONT_PID: &str = "front.pid";

/// A server that answers. Dropping it stops the server.
pub(super) struct Up {
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
    /// Whether the process and its children are the whole server. It is false for a front, behind which other
    /// servers run.
    pub(super) is_whole: bool,
    /// Seconds from its start until it answered.
    pub(super) ready_s: f64,
    held: Held,
}

/// The owner of a server. Dropping it stops the server.
enum Held {
    Echo(Running),
    Named { _subject: Box<Subject>, _folder: TempDir, _certificates: Option<Certificates> },
}

impl Up {
    fn echo((echo, address): (Running, SocketAddr)) -> Self {
        Self { address, pid: echo.pid(), is_whole: true, ready_s: 0.0, held: Held::Echo(echo) }
    }

    /// CPU seconds of an echo so far; `None` for a name server, which kqps watches if it is the player.
    pub(super) fn cpu_s(&self) -> Result<Option<f64>> {
        match &self.held {
            Held::Echo(echo) => echo.cpu_s().map(Some),
            Held::Named { .. } => Ok(None),
        }
    }
}

impl Server {
    /// The zones that it serves, whose names the player asks for.
    pub(super) fn data(&self) -> Option<Data> {
        match self {
            Self::Named(named) => Some(named.data),
            _ => None,
        }
    }

    /// The path at whose end it is started.
    pub(super) fn path(&self) -> Kind {
        match self {
            Self::Calls(_) => Kind::Loopback,
            Self::Echo { path, .. } | Self::StreamEcho { path, .. } => *path,
            Self::Named(named) => named.path,
        }
    }

    /// Why it cannot be started on this host; `None` if it can, as far as is known before.
    pub(super) fn lacks(&self) -> Option<String> {
        let program = match self {
            Self::Named(named) => named.missing_program(),
            _ => None,
        };
        program.map(|program| players::missing(&program)).or_else(|| path::lacks(self.path()))
    }

    /// Whether it exchanges frames with its device, past the kernel.
    pub(super) fn needs_frames(&self) -> bool {
        match self {
            Self::Echo { io, .. } => io == FRAMES,
            Self::Named(named) => named.io == FRAMES,
            Self::StreamEcho { .. } | Self::Calls(_) => false,
        }
    }

    pub(super) fn settings(&self) -> BTreeMap<String, String> {
        match self {
            Self::Named(named) => named.settings.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Its name in tables.
    pub(super) fn words(&self) -> String {
        let name = match self {
            Self::Echo { io, .. } => format!("echo {io}"),
            Self::StreamEcho { carrier, .. } => format!("echo {}", carrier.name()),
            Self::Calls(io) => format!("calls {io}"),
            Self::Named(named) if named.transport != Transport::Udp => {
                format!("{} {}", named.subject, named.transport.word())
            }
            Self::Named(named) => format!("{} {}", named.subject, named.io).trim_end().to_owned(),
        };
        match self.path() {
            Kind::Loopback => name,
            Kind::Veth => format!("{name} over veth"),
        }
    }

    /// Starts it at the end of a path of its kind, and waits until it answers.
    pub(super) fn start(&self, bench: &Bench<'_>, path: &LaidPath) -> Result<Up> {
        match self {
            Self::Echo { io, path: Kind::Loopback } => Ok(Up::echo(bench.kqps.echo(io)?)),
            Self::Echo { io, path: Kind::Veth } => Ok(Up::echo(bench.kqps.echo_over(io, path)?)),
            Self::StreamEcho { carrier, .. } => Ok(Up::echo(bench.kqps.stream_echo(*carrier, path)?)),
            Self::Calls(io) => {
                let mut calls =
                    Running::start(pinned(&bench.kqps.subject_cpu.to_string(), bench.calls).arg(io))?;
                let address = calls.ready()?;
                Ok(Up::echo((calls, address)))
            }
            Self::Named(named) => named.start(bench, path),
        }
    }
}

impl Named {
    fn definition(&self) -> Option<Definition> {
        builtin::servers().into_iter().find(|definition| definition.name == self.subject)
    }

    /// A program that it needs and this host does not have.
    fn missing_program(&self) -> Option<String> {
        self.definition()?.programs.into_iter().find(|program| programs::find(program).is_none())
    }

    fn start(&self, bench: &Bench<'_>, path: &LaidPath) -> Result<Up> {
        let definition =
            self.definition().with_context(|| format!("there is no subject {}", self.subject))?;
        let zones = self.data.zones(bench)?;
        let own_core = [bench.kqps.subject_cpu];
        let settings =
            self.settings.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect();
        let folder = tempfile::tempdir_in(bench.scratch)?;
        let setting = LaunchSetting {
            path,
            folder: folder.path(),
            zones: &zones,
            kqps: &bench.kqps.program,
            io: &self.io,
            workers: 1,
            cpus: if self.spread { &[] } else { &own_core },
            settings: &settings,
        };
        let interrupts = Interrupts::default();
        let of_type = CertificateType::default();
        let certificates =
            if self.transport.is_encrypted() { Some(Certificates::make([of_type])?) } else { None };
        let certificate = certificates.as_ref().and_then(|made| made.certificate(of_type));
        let over = Over { transport: self.transport, certificate };
        let subject = Subject::start_over(over, &definition, &setting, &interrupts, None)?;
        let (address, ready_s) = (subject.address(), subject.ready_s());
        let front = match std::fs::read_to_string(folder.path().join(FRONT_PID)) {
            Ok(text) => Some(text.trim().parse().with_context(|| format!("{FRONT_PID} has {text:?}"))?),
            Err(_) => None,
        };
        let (pid, is_whole) = (front.unwrap_or_else(|| subject.pid()), front.is_none());
        Ok(Up {
            address,
            pid,
            is_whole,
            ready_s,
            held: Held::Named { _subject: Box::new(subject), _folder: folder, _certificates: certificates },
        })
    }
}
