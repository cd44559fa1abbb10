//! Servers that run already, on this host or another: their addresses, their queries, and the player for
//! them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kqps_dataset::{Dataset, Options};
use kqps_kernel::local_address::is_local;
use kqps_lab::configured::Configured;
use kqps_lab::running_server::{PlayerRequest, RunningServer};
use kqps_observation::Target;
use kqps_observation::trial::Transport;

use super::connections::{TIMEOUT_MOST, TargetFlags};
use crate::exit::bad_input;
use crate::load::skipped::{captured, skipped, unreadable};
use crate::load::{Allowed, Family, resolve_all};
use crate::value::{TIMEOUT_LEAST, parse_count, parse_seconds};

/// The most threads of the player.
const SENDERS_MOST: u64 = 1024;

/// The flags for servers that run already.
#[derive(clap::Args, Default)]
#[allow(clippy::doc_markdown)] // the comments are the help text
pub(crate) struct TargetArgs {
    /// Measure a server that runs already, here or elsewhere: udp://, tcp://, tls://, https:// or quic://ADDR:PORT
    ///
    /// It may be given again. kqps neither starts nor stops it, and asks it the queries of -d FILE. An address without
    /// a scheme is played at over UDP.
    #[arg(
        long,
        value_name = "URL",
        requires = "queries",
        conflicts_with = "study",
        help_heading = "What is measured"
    )]
    target: Vec<String>,

    /// The name of a --target, in their order (repeatable; default: its address)
    #[arg(long, value_name = "NAME", requires = "target", help_heading = "What is measured")]
    name: Vec<String>,

    /// Ask the queries in this file instead of generated ones, as `kqps load -d` does
    ///
    /// For --target, and for a --command that brings its own zone.
    #[arg(short = 'd', long, value_name = "FILE", conflicts_with_all = ["study", "records"], help_heading = "What is measured")]
    queries: Option<PathBuf>,

    /// Allow a target on another host: ADDR or ADDR/PREFIX (repeatable)
    #[arg(long, value_name = "ADDR[/PREFIX]", help_heading = "What is measured")]
    allow_target: Vec<Allowed>,

    /// Measure the player's ceiling with this echo, which runs on the host of the --target
    ///
    /// Start it there: kqps serve echo --io segment --listen ADDR:PORT; for servers over TCP with --tcp, over TLS with
    /// --listen tls://ADDR:PORT (or https:// or quic://) and a certificate that --ca accepts. kqps measures it over
    /// each transport of the servers.
    #[arg(long, value_name = "URL", requires = "target", help_heading = "What is measured")]
    echo_target: Option<String>,

    /// Threads that play at a --target, each on a core of its own if there are enough (default: 1)
    #[arg(long, value_name = "COUNT", value_parser = parse_count, requires = "target", help_heading = "What is measured")]
    senders: Option<u64>,

    /// Count a reply of a --target that takes longer than this as late (default: 250ms)
    #[arg(short = 't', long, value_name = "DURATION", value_parser = parse_seconds, requires = "target", help_heading = "What is measured")]
    timeout: Option<Duration>,

    #[command(flatten)]
    connections: TargetFlags,
}

/// Servers that run already, and the load for them.
#[derive(Default)]
pub(super) struct Targets {
    pub(super) running: Vec<RunningServer>,
    pub(super) echo: Option<Target>,
    pub(super) queries: Option<PathBuf>,
    /// The issuers of certificates that the user trusts, as PEM.
    pub(super) ca: Option<String>,
    pub(super) player: PlayerRequest,
}

impl TargetArgs {
    pub(super) fn is_given(&self) -> bool {
        !self.target.is_empty()
    }

    /// The servers that the flags name. `subjects` are the servers that kqps starts beside them.
    pub(super) fn read(&self, subjects: &[Configured]) -> anyhow::Result<Targets> {
        if self.name.len() > self.target.len() {
            return Err(bad_input(format!(
                "--name {}: there is no --target for it",
                self.name[self.target.len()]
            )));
        }
        let mut servers = Vec::new();
        for (index, url) in self.target.iter().enumerate() {
            let server = running(url, &self.allow_target, &self.connections)?;
            servers.push(match self.name.get(index) {
                Some(name) => RunningServer { name: checked(name)?, ..server },
                None => server,
            });
        }
        let running = servers;
        self.connections.check(&running)?;
        let echo = self.echo(&running)?;
        if let (Some(echo), Some(first)) = (echo, running.first())
            && echo.on_this_host != first.target.on_this_host
        {
            return Err(bad_input(format!(
                "--echo-target {}: the echo must run on the host of the server, and only one of the two is on this host",
                echo.address
            )));
        }
        if let Some(echo) = echo.filter(|echo| echo.on_this_host) {
            return Err(bad_input(format!(
                "--echo-target {}: on this host the run starts its echoes itself; leave it out",
                echo.address
            )));
        }
        let player = player(self.senders, self.timeout)?;
        check(&running, subjects, self.queries.as_deref())?;
        let ca = self.connections.issuers()?;
        Ok(Targets { running, echo, queries: self.queries.clone(), ca, player })
    }

    /// The echo beside the servers. A scheme must be that of all of them.
    fn echo(&self, running: &[RunningServer]) -> anyhow::Result<Option<Target>> {
        let Some(url) = &self.echo_target else { return Ok(None) };
        let Resolved { target: echo, transport: named, .. } = resolve(url, &self.allow_target)?;
        let is_other = |one: &&RunningServer| named.is_some_and(|named| named != one.factors.transport());
        match running.iter().find(is_other) {
            None => Ok(Some(echo)),
            Some(other) => Err(bad_input(format!(
                "--echo-target {url}: {} is measured over {}; give {} without a scheme",
                other.name,
                other.factors.transport().word(),
                echo.address
            ))),
        }
    }
}

/// The server at a URL, under the name of its address.
pub(crate) fn running(
    url: &str,
    allowed: &[Allowed],
    connections: &TargetFlags,
) -> anyhow::Result<RunningServer> {
    let Resolved { target, typed, path, transport } = resolve(url, allowed)?;
    let transport = transport.unwrap_or_default();
    let name = if transport == Transport::Udp {
        target.address.to_string()
    } else {
        format!("{} over {}", target.address, transport.word())
    };
    let factors = Box::new(connections.factors(transport, &typed, &path)?);
    Ok(RunningServer { name, target, factors })
}

/// The player for servers that run already. An error if a value is out of range.
pub(crate) fn player(senders: Option<u64>, timeout: Option<Duration>) -> anyhow::Result<PlayerRequest> {
    if let Some(senders) = senders.filter(|senders| !(1..=SENDERS_MOST).contains(senders)) {
        return Err(bad_input(format!("--senders {senders}: expected 1 to {SENDERS_MOST}")));
    }
    if let Some(timeout) = timeout.filter(|timeout| !(TIMEOUT_LEAST..=TIMEOUT_MOST).contains(timeout)) {
        return Err(bad_input(format!(
            "--timeout {}s: expected 100us at least, and {}s at most",
            timeout.as_secs_f64(),
            TIMEOUT_MOST.as_secs()
        )));
    }
    Ok(PlayerRequest {
        senders: senders.map(|senders| senders.try_into().expect("1024 at most")),
        timeout_s: timeout.map(|timeout| timeout.as_secs_f64()),
    })
}

/// A server at a URL.
struct Resolved {
    target: Target,
    /// Its name or address, as typed.
    typed: String,
    /// Its path, or the usual one.
    path: String,
    /// The transport that the URL names.
    transport: Option<Transport>,
}

/// The server at a URL. The rules of `kqps load` for targets hold (see `load/allowed.rs`).
fn resolve(url: &str, allowed: &[Allowed]) -> anyhow::Result<Resolved> {
    let mut found = resolve_all(&[url.to_string()], None, None, Family::default(), allowed)?;
    let address = found.addresses[0];
    let target = Target { address, on_this_host: is_local(address) };
    let transport = found.transport()?;
    Ok(Resolved { target, typed: found.names.swap_remove(0), path: found.paths.swap_remove(0), transport })
}

fn checked(name: &str) -> anyhow::Result<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(bad_input(format!("--name `{name}`: expected letters, digits, `-`, `_`, `.` and `:`")));
    }
    Ok(name.into())
}

/// Checks that all servers can be measured side by side, with the same queries.
pub(crate) fn check(
    running: &[RunningServer],
    started: &[Configured],
    queries: Option<&Path>,
) -> anyhow::Result<()> {
    let elsewhere = running.iter().find(|running| !running.target.on_this_host);
    if let Some(elsewhere) = elsewhere {
        let here = running.iter().find(|running| running.target.on_this_host).map(|here| &here.name);
        if let Some(here) = here.or(started.first().map(|started| &started.name)) {
            return Err(bad_input(format!(
                "{} is on another host, and {here} on this one: the path between would look like a difference of the \
                 servers. Measure them in two runs, or put both on one host",
                elsewhere.name
            )));
        }
    }
    let Some(queries) = queries else {
        return match running.first() {
            None => Ok(()),
            Some(running) => Err(bad_input(format!(
                "{} has zones of its own: give its queries with -d FILE (docs/DATASETS.md has the format)",
                running.name
            ))),
        };
    };
    if let Some(zoned) = started.iter().find(|one| one.definition.takes_zone()) {
        return Err(bad_input(format!(
            "{} would serve a generated zone, of which {} does not ask. Start it by a command that brings its own zone, \
             without {{zone}}: 'my-server -c my.conf -p {{port}}'",
            zoned.name,
            queries.display()
        )));
    }
    readable(queries)
}

/// Checks that the query file is a regular file without errors, since the run copies it and reads it several
/// times.
fn readable(queries: &Path) -> anyhow::Result<()> {
    if queries.metadata().is_ok_and(|facts| !facts.is_file()) {
        return Err(bad_input(format!(
            "-d {}: expected a file, of which the run keeps a copy",
            queries.display()
        )));
    }
    let dataset = Dataset::open(queries, &Options::default()).map_err(|error| unreadable(&error, ""))?;
    if let Some(facts) = dataset.capture() {
        eprintln!("kqps: {}", captured(&dataset, facts));
    }
    for note in skipped(&dataset).iter().map(String::as_str).chain(dataset.note()) {
        eprintln!("kqps: {note}");
    }
    Ok(())
}
