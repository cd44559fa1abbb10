//! A subject: a server that is started in a folder and on a port of its own, watched, and stopped.

pub mod bounded;
pub mod builtin;
pub mod definition;
pub mod output;
pub mod probe;
pub mod process;
pub mod programs;
pub mod remains;
pub mod setting;
pub mod start_error;
pub mod template;
pub mod version;
pub mod zones;

mod current;
mod guard;
mod perform;
pub(crate) mod resumer;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::port;
use kqps_observation::factors::name;
use kqps_observation::trial::Transport;

use crate::certificates::ServerCertificate;
use crate::internet::running::InternetBox;
use crate::path::LaidPath;

use current::Current;
pub use definition::Definition;
pub use guard::stand_for_group;
use probe::ProbeOutcome;
use process::Process;
pub use resumer::stand_for_suspended;
use setting::SettingError;
pub use start_error::StartError;
use template::Values;
pub use zones::Zone;

/// The parameters of a subject's start.
#[derive(Clone, Debug)]
pub struct LaunchSetting<'a> {
    /// The path at whose end the subject is started. It listens on ports that are chosen for it.
    pub path: &'a LaidPath,
    /// The folder of its configuration, its state and its output. It is made.
    pub folder: &'a Path,
    /// The zones to serve, at least one. The readiness probe asks for the SOA of the first.
    pub zones: &'a [Zone],
    /// The path of this kqps program, for the reference echo and for guards.
    pub kqps: &'a Path,
    /// The echo's I/O model.
    pub io: &'a str,
    /// Number of workers that answer queries.
    pub workers: u32,
    /// The cores that it may use; empty for all.
    pub cpus: &'a [u32],
    /// Setting → value, for settings that its definition declares. Others have their defaults.
    pub settings: &'a BTreeMap<String, String>,
}

/// The transport to a subject, and its certificate.
#[derive(Clone, Copy, Debug)]
pub struct Over<'a> {
    /// The transport. The subject is ready when it answers over it.
    pub transport: Transport,
    /// The subject's certificate, which an encrypted transport needs.
    pub certificate: Option<&'a ServerCertificate>,
}

impl From<Transport> for Over<'_> {
    fn from(transport: Transport) -> Self {
        Self { transport, certificate: None }
    }
}

impl Over<'_> {
    /// Adds the files of the certificate to the placeholders; they are empty without one.
    fn values(&self, values: Values) -> Values {
        let file = |path: Option<&PathBuf>| path.map_or_else(String::new, |path| path.display().to_string());
        let certificate = self.certificate;
        values
            .with("certificate", &file(certificate.map(|one| &one.chain)))
            .with("key", &file(certificate.map(|one| &one.key)))
    }
}

/// A running subject that answers.
#[derive(Debug)]
pub struct Subject {
    definition: Definition,
    process: Current,
    folder: PathBuf,
    addresses: Vec<SocketAddr>,
    transport: Transport,
    cpus: Vec<u32>,
    kqps: PathBuf,
    values: Values,
    ready_s: f64,
    interrupts: Interrupts,
}

/// The pause between two probes of a server that does not answer yet.
const PAUSE: Duration = Duration::from_millis(5);

impl Subject {
    /// Starts a subject and waits until it is ready. `interrupts` end the wait; urgent ones also shorten its
    /// orderly stop.
    ///
    /// # Errors
    ///
    /// If it does not become ready. Nothing of it is then left running.
    pub fn start(
        definition: &Definition,
        setting: &LaunchSetting<'_>,
        interrupts: &Interrupts,
    ) -> Result<Self, StartError> {
        Self::start_over(Transport::Udp, definition, setting, interrupts, None)
    }

    /// As [`Subject::start`], for queries over a transport: the subject is ready when it answers over that. It has
    /// at most `share` to become ready, which may be less than its definition allows.
    pub fn start_over<'c>(
        over: impl Into<Over<'c>>,
        definition: &Definition,
        setting: &LaunchSetting<'_>,
        interrupts: &Interrupts,
        share: Option<Duration>,
    ) -> Result<Self, StartError> {
        let over = over.into();
        let transport = over.transport;
        if transport.is_encrypted() && over.certificate.is_none() {
            let (title, transport) = (definition.title.clone(), transport.word());
            return Err(StartError::NoCertificate { title, transport });
        }
        if definition.resolves() && setting.path.internet().is_none() {
            return Err(SettingError::Internet { title: definition.title.clone() }.into());
        }
        let ports = definition.ports(setting.settings, setting.workers)?;
        definition.check_zones(setting.zones.len())?;
        if setting.zones.iter().any(|zone| zone.primary.is_some()) {
            definition.check_secondary()?;
        }
        let (path, address) = (setting.path, setting.path.subject_address());
        let first = path
            .at_subject(|| port::free(address, ports))
            .map_err(|error| io_error(&format!("finding a free port on {address}"), error))?;
        let addresses: Vec<_> =
            (first.port()..first.port() + ports).map(|port| SocketAddr::new(address, port)).collect();
        let values = definition.settle(setting.settings, over.values(setting.values(first)?));
        let values = definition.over(transport, values)?;
        let texts = (definition.each_zone.as_deref(), definition.each_secondary.as_deref());
        let values = zones::with(values, texts, setting.zones);
        prepare_folder(definition, setting.folder, &values)?;
        let mut command = command(definition, setting.folder, &values)?;
        path.place_subject(&mut command).map_err(|error| io_error("entering a network namespace", error))?;
        let began = Instant::now();
        let mut process = Process::spawn(command, setting.cpus, setting.folder, setting.kqps)
            .map_err(|error| io_error(&format!("starting {}", definition.title), error))?;
        for &address in &addresses {
            let no_socket = |error| io_error("opening a socket to ask whether it is ready", error);
            let (origin, kind) = (&setting.zones[0].origin, definition.ready.kind);
            let ca = over.certificate.map(|certificate| certificate.ca.as_str());
            let probe = path.at_player(|| probe::Probe::new((transport, ca), address, origin, kind));
            let mut probe = probe.map_err(no_socket)?;
            let ask = || path.at_player(|| Ok(probe.ask())).map_err(no_socket);
            wait_until_ready(definition, ask, &mut process, interrupts, (began, share))?;
        }
        let ready_s = began.elapsed().as_secs_f64();
        process.confine().map_err(|error| io_error(&format!("confining {}", definition.title), error))?;
        let (definition, folder) = (definition.clone(), setting.folder.into());
        let (cpus, kqps) = (setting.cpus.to_vec(), setting.kqps.into());
        let (process, interrupts) = (Current::new(process), interrupts.clone());
        Ok(Self {
            definition,
            process,
            folder,
            addresses,
            transport,
            cpus,
            kqps,
            values,
            ready_s,
            interrupts,
        })
    }

    /// Its addresses: one, or several in the order of their ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The first of its addresses.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Seconds from its start until it answered at all of its addresses.
    pub fn ready_s(&self) -> f64 {
        self.ready_s
    }

    /// The ID of the process that was started.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Confines all of its present threads to its cores: some threads start with the first query, and some
    /// choose cores for themselves.
    pub fn confine(&self) -> io::Result<()> {
        self.process.look(|process| process.confine()).unwrap_or(Ok(()))
    }

    /// Sets the niceness of all its threads. Returns the reason if the kernel refuses it.
    pub fn set_niceness(&self, niceness: i32) -> Result<(), String> {
        let set = kqps_kernel::process::set_group_niceness(self.pid(), niceness);
        // It leads a session of its own.
        kqps_kernel::priority::set_session_niceness(self.pid(), niceness);
        set.map_err(|error| format!("{} = {niceness}: {error}", name::HOST_NICE))
    }

    /// Lets these interrupts shorten its stop, in place of those of its start.
    pub fn heed(&mut self, interrupts: &Interrupts) {
        self.interrupts = interrupts.clone();
    }

    /// `None` while it runs; then how it ended, and the last lines of its output.
    pub fn ended(&mut self) -> Option<(String, Vec<String>)> {
        let title = &self.definition.title;
        let ended = |process: &mut Process| Some((format!("{title} {}", process.ended()?), process.kill()));
        match self.process.look(ended) {
            Some(ended) => ended,
            None => self.process.failure().map(|(why, output)| (format!("{title} {why}"), output)),
        }
    }

    /// Stops it as its definition says.
    pub fn stop(self) {
        self.stop_within(None);
    }

    /// As [`Subject::stop`], with at most `share` to stop, which may be less than its definition allows.
    pub fn stop_within(self, share: Option<Duration>) {
        let within = self.definition.stop.within();
        let within = share.map_or(within, |share| share.min(within));
        if let Some(process) = self.process.take() {
            process.stop(self.definition.stop.signal, within, &self.interrupts);
        }
    }
}

impl LaunchSetting<'_> {
    fn values(&self, first: SocketAddr) -> Result<Values, StartError> {
        let cpus = self.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let secret = secret().map_err(|error| io_error("making the key of a control program", error))?;
        let values = Values::default()
            .listening_at(first)
            .with("dir", &self.folder.display())
            .with("kqps", &self.kqps.display())
            .with("io", &self.io)
            .with("workers", &self.workers)
            .with("cpus", &cpus)
            .with("secret", &secret);
        let internet = self.path.internet();
        let file = |of: fn(&InternetBox) -> &String| internet.map_or("", |internet| of(internet).as_str());
        Ok(values
            .with("root_hints", &file(|internet| &internet.root_hints))
            .with("trust_anchor", &file(|internet| &internet.trust_anchor)))
    }
}

/// The key of a control program for one start: 32 bytes of the kernel's random numbers in base64.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

fn prepare_folder(definition: &Definition, folder: &Path, values: &Values) -> Result<(), StartError> {
    let wrote = |path: &Path, result: io::Result<()>| {
        result.map_err(|error| io_error(&format!("writing {}", path.display()), error))
    };
    wrote(folder, std::fs::create_dir_all(folder))?;
    let secret = values.fill("{secret}");
    for (name, text) in &definition.files {
        let (path, text) = (folder.join(name), values.fill(text));
        let written =
            if text.contains(&secret) { write_private(&path, &text) } else { std::fs::write(&path, text) };
        wrote(&path, written)?;
    }
    Ok(())
}

/// Writes a file for its owner alone: the key of a control program gives command of the subject.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Refuses a subject of which a program is missing.
pub fn must_be_installed(definition: &Definition) -> Result<(), StartError> {
    definition.programs.iter().try_for_each(|program| program_of(definition, program).map(drop))
}

fn program_of(definition: &Definition, program: &str) -> Result<PathBuf, StartError> {
    programs::find(program).ok_or_else(|| StartError::Missing {
        program: program.to_string(),
        package: definition.package.clone(),
    })
}

fn command(definition: &Definition, folder: &Path, values: &Values) -> Result<Command, StartError> {
    must_be_installed(definition)?;

    let filled = definition.start.command.iter().map(|word| (word, values.fill(word)));
    let mut words =
        filled.filter(|(word, filled)| word.is_empty() || !filled.is_empty()).map(|(_, filled)| filled);
    let program = words.next().expect("a definition was checked to have a command");
    let path = program_of(definition, &program)?;
    let mut command = Command::new(path);
    command.args(words).current_dir(definition.start.folder.as_deref().unwrap_or(folder));
    let env = definition.start.env.iter().map(|(name, text)| (name, values.fill(text)));
    command.envs(env.filter(|(_, text)| !text.is_empty()));
    Ok(command)
}

fn wait_until_ready(
    definition: &Definition,
    mut ask: impl FnMut() -> Result<ProbeOutcome, StartError>,
    process: &mut Process,
    interrupts: &Interrupts,
    (began, share): (Instant, Option<Duration>),
) -> Result<(), StartError> {
    let title = || definition.title.clone();
    let is_share = share.is_some_and(|share| share < definition.ready.within());
    let within = share.filter(|_| is_share).unwrap_or(definition.ready.within());
    let mut said = None;
    loop {
        match ask()? {
            ProbeOutcome::Ready => return Ok(()),
            ProbeOutcome::Wrong(answer) => said = Some(answer),
            ProbeOutcome::Silent => (),
        }
        if let Some(how) = process.ended() {
            return Err(StartError::Died { title: title(), how, output: process.kill() });
        }
        if interrupts.is_asked() {
            return Err(StartError::Interrupted);
        }
        if began.elapsed() >= within {
            let (title, within_s, output) = (title(), within.as_secs_f64(), process.kill());
            return Err(StartError::NotReady { title, within_s, is_share, said, output });
        }
        std::thread::sleep(PAUSE);
    }
}

fn io_error(what: &str, error: io::Error) -> StartError {
    StartError::Io { what: what.to_string(), error }
}
