//! Who answers: our echo, or its system calls alone, or a name server that serves generated zones, started as the lab
//! starts it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use kqps_kernel::interrupts::Interrupts;
use kqps_lab::path::LaidPath;
use kqps_lab::subject::{Setting, Subject, builtin};
use tempfile::TempDir;

use super::Bench;
use super::data::Data;
use crate::child::{Running, pinned};

/// A server, before it is started. It has one worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Server {
    /// Our echo under an I/O model.
    Echo(&'static str),
    /// The system calls of that echo, and next to nothing else.
    Calls(&'static str),
    /// A name server.
    Named(Named),
}

/// A name server and what it serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    /// As its file under `subjects` is called.
    pub(super) subject: &'static str,
    /// The I/O model, where it can be told.
    pub(super) io: &'static str,
    pub(super) data: Data,
    /// Whether it may use all cores, as it should while it loads; else it has the subject's.
    pub(super) spread: bool,
    /// Settings that its file declares.
    pub(super) settings: &'static [(&'static str, &'static str)],
}

/// Where a front tells its process ID, which is that of none of the servers behind it.
const FRONT_PID: &str = "front.pid";

/// A server that answers. It ends when this is dropped.
pub(super) struct Up {
    pub(super) address: SocketAddr,
    /// The process to watch.
    pub(super) pid: u32,
    /// Whether that is all there is of it, with its children; not so of a front, behind which others are.
    pub(super) is_whole: bool,
    /// Seconds from its start until it answered.
    pub(super) ready_s: f64,
    held: Held,
}

/// What keeps a server up: when it is dropped, the server is ended.
enum Held {
    Echo(Running),
    Named { _subject: Box<Subject>, _folder: TempDir },
}

impl Up {
    fn echo((echo, address): (Running, SocketAddr)) -> Self {
        Self { address, pid: echo.pid(), is_whole: true, ready_s: 0.0, held: Held::Echo(echo) }
    }

    /// What an echo has used of the CPU so far, seconds; 0 of a name server, which the player watches.
    pub(super) fn cpu_s(&self) -> Result<f64> {
        match &self.held {
            Held::Echo(echo) => echo.cpu_s(),
            Held::Named { .. } => Ok(0.0),
        }
    }
}

impl Server {
    /// What it serves, and so what it is asked for.
    pub(super) fn data(&self) -> Option<Data> {
        match self {
            Self::Echo(_) | Self::Calls(_) => None,
            Self::Named(named) => Some(named.data),
        }
    }

    /// How it is set up.
    pub(super) fn settings(&self) -> BTreeMap<&'static str, &'static str> {
        match self {
            Self::Echo(_) | Self::Calls(_) => BTreeMap::new(),
            Self::Named(named) => named.settings.iter().copied().collect(),
        }
    }

    /// How it is called in tables.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Echo(io) => format!("echo {io}"),
            Self::Calls(io) => format!("calls {io}"),
            Self::Named(named) => format!("{} {}", named.subject, named.io).trim_end().to_owned(),
        }
    }

    /// Starts it, and waits until it answers.
    pub(super) fn start(&self, bench: &Bench<'_>) -> Result<Up> {
        match self {
            Self::Echo(io) => Ok(Up::echo(bench.kqps.echo(io)?)),
            Self::Calls(io) => {
                let mut calls =
                    Running::start(pinned(&bench.kqps.subject_cpu.to_string(), bench.calls).arg(io))?;
                let address = calls.ready()?;
                Ok(Up::echo((calls, address)))
            }
            Self::Named(named) => named.start(bench),
        }
    }
}

impl Named {
    fn start(&self, bench: &Bench<'_>) -> Result<Up> {
        let definition = builtin::servers()
            .into_iter()
            .find(|definition| definition.name == self.subject)
            .with_context(|| format!("there is no subject {}", self.subject))?;
        let zones = self.data.zones(bench)?;
        let own_core = [bench.kqps.subject_cpu];
        let settings = self.settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let folder = tempfile::tempdir_in(bench.scratch)?;
        let setting = Setting {
            path: &LaidPath::Loopback,
            folder: folder.path(),
            zones: &zones,
            kqps: &bench.kqps.program,
            io: self.io,
            workers: 1,
            cpus: if self.spread { &[] } else { &own_core },
            settings: &settings,
        };
        let subject = Subject::start(&definition, &setting, &Interrupts::default())?;
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
            held: Held::Named { _subject: Box::new(subject), _folder: folder },
        })
    }
}
