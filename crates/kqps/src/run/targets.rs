//! Servers that run already, on this host or another: their addresses, their queries, and the player for
//! them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kqps_dataset::{Dataset, Options};
use kqps_kernel::local_address::is_local;
use kqps_lab::configured::Configured;
use kqps_lab::running_server::{PlayerRequest, RunningServer};
use kqps_observation::factors::{PlayerFactors, TrustChoice};
use kqps_observation::trial::Transport;
use kqps_observation::{Factors, Target};
use kqps_player::plan::CONNECTIONS_MOST;
use kqps_tls::client::server_name;

use crate::exit::bad_input;
use crate::load::skipped::{captured, skipped};
use crate::load::{Allowed, Family, issuers, resolve_all};
use crate::value::{parse_count, parse_duration, parse_within};

/// The most threads of the player.
const SENDERS_MOST: u64 = 1024;

/// The longest timeout. Every trial that loses queries waits that long at its end.
const TIMEOUT_MOST: Duration = Duration::from_secs(10);

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
    #[arg(short = 't', long, value_name = "DURATION", value_parser = parse_duration, requires = "target", help_heading = "What is measured")]
    timeout: Option<Duration>,

    /// Have at most this many connections open at once to a --target, except over UDP (default: 8)
    #[arg(long, value_name = "COUNT", value_parser = parse_connections, requires = "target", help_heading = "What is measured")]
    connections: Option<u32>,

    /// Close each connection to a --target after this many queries, except over UDP (default: keep it)
    #[arg(long, value_name = "COUNT", value_parser = parse_queries_per_connection, requires = "target", help_heading = "What is measured")]
    queries_per_connection: Option<u32>,

    /// Accept certificates of a --target from the issuers in this file (default: those that this host trusts)
    ///
    /// The file is PEM, and the run keeps a copy of it. The certificate must be valid and name the server.
    #[arg(long, value_name = "FILE", requires = "target", help_heading = "What is measured")]
    ca: Option<PathBuf>,

    /// Accept any certificate of a --target: kqps then does not know which server it measures
    #[arg(long, requires = "target", conflicts_with = "ca", help_heading = "What is measured")]
    insecure: bool,

    /// The name of each --target in its certificate, if it has one (default: the target as typed)
    #[arg(long, value_name = "NAME", requires = "target", help_heading = "What is measured")]
    server_name: Option<String>,
}

/// The use of connections that the user asks for, at servers that run already.
#[derive(Clone, Default)]
pub(crate) struct ConnectionUse {
    /// Connections that may be open at once.
    pub(crate) connections: Option<u32>,
    /// Queries after which each is closed.
    pub(crate) queries: Option<u32>,
    /// Whose certificates are accepted.
    pub(crate) trust: TrustUse,
}

/// Whose certificates the user accepts, of servers that run already.
#[derive(Clone, Default)]
pub(crate) struct TrustUse {
    /// The file with the issuers.
    pub(crate) ca: Option<PathBuf>,
    /// Whether any certificate is accepted.
    pub(crate) insecure: bool,
    /// The name in the certificates.
    pub(crate) server_name: Option<String>,
}

impl TrustUse {
    fn choice(&self) -> TrustChoice {
        match &self.ca {
            _ if self.insecure => TrustChoice::Anyone,
            Some(_) => TrustChoice::Ca,
            None => TrustChoice::System,
        }
    }

    /// The first of the flags that the user gave.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("--ca", self.ca.is_some()),
            ("--insecure", self.insecure),
            ("--server-name", self.server_name.is_some()),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// The issuers that the user names, as PEM.
    pub(crate) fn issuers(&self) -> anyhow::Result<Option<String>> {
        self.ca.as_deref().map(issuers).transpose()
    }
}

/// The value of `--connections`.
pub(crate) fn parse_connections(text: &str) -> Result<u32, String> {
    parse_within::<u32>(1..=CONNECTIONS_MOST as u64)(text)
}

/// The value of `--queries-per-connection`.
pub(crate) fn parse_queries_per_connection(text: &str) -> Result<u32, String> {
    parse_within::<u32>(1..=1_000_000_000)(text)
}

impl ConnectionUse {
    /// The settings of the player for a server over this transport, whose URL has this name or address and this path.
    fn factors(&self, transport: Transport, typed: &str, path: &str) -> anyhow::Result<Factors> {
        let mut factors = Factors::default();
        if !transport.has_connections() {
            return Ok(factors);
        }
        let of_connections = PlayerFactors {
            transport: Some(transport),
            connections: self.connections,
            queries_per_connection: self.queries,
            ..PlayerFactors::default()
        };
        factors.set_player(if transport.is_encrypted() {
            let name = self.trust.server_name.as_deref().unwrap_or(typed);
            server_name(name).map_err(|error| bad_input(format!("--server-name: {error}")))?;
            PlayerFactors {
                tls_trust: Some(self.trust.choice()),
                tls_name: Some(name.to_owned()),
                http_path: (transport == Transport::Https).then(|| path.to_owned()),
                ..of_connections
            }
        } else {
            of_connections
        });
        Ok(factors)
    }

    /// Refuses flags of connections if no server is played at over any, and those of certificates if none has one.
    pub(crate) fn check(&self, running: &[RunningServer]) -> anyhow::Result<()> {
        let has = |of: fn(Transport) -> bool| running.iter().any(|one| of(one.factors.transport()));
        let is_given = self.connections.is_some() || self.queries.is_some();
        if is_given && !has(Transport::has_connections) {
            return Err(bad_input(
                "--connections and --queries-per-connection are for servers over connections that run already, \
                 such as tcp://127.0.0.1:5300; a subject has them as settings: 'knot player.transport=tcp \
                 player.connections=64'",
            ));
        }
        match self.trust.given().filter(|_| !has(Transport::is_encrypted)) {
            Some(flag) => Err(bad_input(format!(
                "{flag} is for servers over tls, https or quic that run already, such as tls://127.0.0.1:8853; \
                 a subject that kqps starts gets a certificate of the run"
            ))),
            None => Ok(()),
        }
    }
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
        let connections = ConnectionUse {
            connections: self.connections,
            queries: self.queries_per_connection,
            trust: TrustUse {
                ca: self.ca.clone(),
                insecure: self.insecure,
                server_name: self.server_name.clone(),
            },
        };
        let mut servers = Vec::new();
        for (index, url) in self.target.iter().enumerate() {
            let server = running(url, &self.allow_target, &connections)?;
            servers.push(match self.name.get(index) {
                Some(name) => RunningServer { name: checked(name)?, ..server },
                None => server,
            });
        }
        let running = servers;
        connections.check(&running)?;
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
        let ca = connections.trust.issuers()?;
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
    connections: &ConnectionUse,
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
    if let Some(timeout) = timeout.filter(|timeout| timeout.is_zero() || *timeout > TIMEOUT_MOST) {
        let (given_s, most_s) = (timeout.as_secs_f64(), TIMEOUT_MOST.as_secs());
        return Err(bad_input(format!("--timeout {given_s}s: expected more than 0, and {most_s}s at most")));
    }
    Ok(PlayerRequest {
        senders: senders.map(|senders| senders as u32),
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
    Ok(Resolved {
        target,
        typed: found.names.swap_remove(0),
        path: found.paths.swap_remove(0),
        transport: found.transport,
    })
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
    let dataset = Dataset::open(queries, &Options::default()).map_err(bad_input)?;
    if let Some(facts) = dataset.capture() {
        eprintln!("kqps: {}", captured(&dataset, facts));
    }
    for note in skipped(&dataset).iter().map(String::as_str).chain(dataset.note()) {
        eprintln!("kqps: {note}");
    }
    Ok(())
}
