//! The flags of the player that do not set the load. `kqps load` and `kqps find` share them.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use kqps_dataset::{Check, Dataset, Format, Options};
use kqps_files::unfinished::Unfinished;
use kqps_host::{SubjectWatched, topology};
use kqps_kernel::local_address::is_local;
use kqps_lab::play::QueryFile;
use kqps_observation::cpu_list;
use kqps_observation::trial::Transport;
use kqps_player::plan::{SEED, have_cores_of_their_own, usual_coalesce};
use kqps_player::{Io, LoadPlan, Plan, QuicPlan, Sources, Stop, TcpPlan, TlsPlan, UdpPlan, Wire};
use kqps_tls::{Client, ClientSettings};
use tempfile::NamedTempFile;

use super::connections::{ConnectionArgs, check_io, parse_transport};
use super::dnsperf::{Foreign, parse_buffer, query_file};
use super::http::HttpArgs;
use super::plan_error::with_flags;
use super::quic::QuicArgs;
use super::skipped::skipped;
use super::subject::{self, Choice};
use super::target::{Allowed, Family, Targets, check_sources, check_target, resolve_all};
use super::tls::TlsArgs;
use crate::exit::bad_input;
use crate::value::{List, PORTS, cores, parse_count, parse_duration, parse_list, parse_within};

/// Default number of sockets of each thread: enough that hashing spreads the load over the subject's workers.
const SOCKETS_PER_THREAD: u64 = 32;

/// Bytes. A smaller buffer may drop replies at any rate, so kqps warns of it.
const BUFFER_SMALL: u64 = 32 << 10;

/// The scheduling priority of the player's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Priority {
    Auto,
    Usual,
}

/// The player's flags. The comments are the help text, which has no markup.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct PlayerArgs {
    /// Send to ADDR[:PORT], or to a URL such as tcp://[::1]:53, https://dns.example/dns-query or quic://dns.example
    ///
    /// Sockets take turns over several targets, which are all IPv4 or all IPv6. Each socket takes replies from its own
    /// target only.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,

    /// Send to this address or name, as with dnsperf
    #[arg(short = 's', long = "server", value_name = "ADDR", help_heading = "Target")]
    servers: Vec<String>,

    /// The port of targets that have none of their own (default: 53; over TLS and QUIC 853, over HTTPS 443)
    ///
    /// A bare number after a target is its port, too.
    #[arg(short = 'p', long, value_name = "PORT", value_parser = parse_within::<u16>(PORTS), help_heading = "Target")]
    port: Option<u16>,

    /// Addresses that a name stands for: inet, inet6 or any
    #[arg(
        short = 'f',
        long,
        value_name = "FAMILY",
        hide_possible_values = true,
        default_value = "any",
        help_heading = "Target"
    )]
    family: Family,

    /// The transport: udp (the default), tcp, tls (dot), https (doh) or quic (doq); a URL names it as well
    #[arg(short = 'm', long, value_name = "TRANSPORT", value_parser = parse_transport, help_heading = "Target")]
    mode: Option<Transport>,

    #[command(flatten)]
    foreign: Foreign,

    /// Read queries from this file, a line each: `name type` (default: stdin)
    ///
    /// The name - is standard input, too. What may follow a type, in any order: E (EDNS), D (EDNS and DO), a client
    /// subnet such as 192.0.2.0/24, the expected rcode, and = with the digest of the expected answer.
    #[arg(short = 'd', long, value_name = "FILE", help_heading = "Queries")]
    pub(crate) queries: Option<PathBuf>,

    /// Check replies for: rcode, answers or off (default: all that the file has)
    ///
    /// With answers it is the rcode and the digest of the answer.
    #[arg(long, value_name = "WHAT", help_heading = "Queries")]
    check: Option<Check>,

    /// Read a binary file: messages, each after its length in 16 bits
    #[arg(short = 'B', long, help_heading = "Queries")]
    binary: bool,

    /// Skip lines that are no query, and count them
    #[arg(long, help_heading = "Queries")]
    skip_bad: bool,

    /// Add EDNS to every query
    #[arg(short = 'e', long, help_heading = "Queries")]
    edns: bool,

    /// Set the DO bit (implies EDNS)
    #[arg(short = 'D', long, help_heading = "Queries")]
    dnssec: bool,

    /// Sockets of all threads together, or connections (default: 32 sockets or 8 connections for each thread)
    #[arg(short = 'c', long, visible_alias = "connections", value_name = "N", value_parser = parse_count, help_heading = "Sockets and threads")]
    sockets: Option<u64>,

    /// Sending threads (default: as many as --cpus, or 1)
    #[arg(short = 'T', long, value_name = "N", value_parser = parse_count, help_heading = "Sockets and threads")]
    threads: Option<u64>,

    /// Count a reply that takes longer than this as late (default: 1s; of kqps find on this host 250ms)
    ///
    /// On one host a reply that takes longer is most likely lost, and a search waits for it after each trial that
    /// loses.
    #[arg(short = 't', long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Times")]
    timeout: Option<Duration>,

    /// Listen for this long after the last query (default: the timeout)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Times")]
    drain: Option<Duration>,

    /// Give up a query that is due for longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10ms", help_heading = "Times")]
    lag: Duration,

    #[command(flatten)]
    connections: ConnectionArgs,

    #[command(flatten)]
    tls: TlsArgs,

    #[command(flatten)]
    http: HttpArgs,

    #[command(flatten)]
    quic: QuicArgs,

    /// Let a query that is due wait for others (default: 20us or 10us)
    ///
    /// This saves CPU time and adds lag. The default is 10us if each thread has a core of its own. With more than 20us
    /// threads sleep even there.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Times")]
    coalesce: Option<Duration>,

    /// Size of each socket's receive and send buffers (default: 4MiB)
    ///
    /// A bare number counts KiB, as with dnsperf.
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = parse_buffer, help_heading = "Sockets and threads")]
    buffer: Option<u64>,

    /// Send from this address, or from those of a prefix in turn
    ///
    /// Such as 127.1.0.0/16.
    #[arg(short = 'a', long, value_name = "ADDR[/PREFIX]", help_heading = "Sockets and threads")]
    local: Option<Sources>,

    /// Send from this port, and from those after it; 0 is any port
    #[arg(short = 'x', long, value_name = "PORT", value_parser = parse_within::<u16>(0..=65_535), help_heading = "Sockets and threads")]
    local_port: Option<u16>,

    /// Send and receive by: auto, plain, mmsg, gso, uring or xdp; on connections auto, epoll, uring or xdp
    ///
    /// Over QUIC there is one way. With xdp packets pass the kernel's network stack (AF_XDP), to targets on other hosts
    /// or at the other end of a veth pair; each thread needs a queue of the device, and kqps needs root.
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Sockets and threads")]
    io: Io,

    /// With --io xdp, send by this device (default: the one to which the route leads)
    #[arg(long, value_name = "NAME", help_heading = "Sockets and threads")]
    device: Option<String>,

    /// Pin the threads to these cores, in turn
    #[arg(long, value_name = "LIST", value_parser = parse_list, help_heading = "Sockets and threads")]
    cpus: Option<List>,

    /// Run the threads before all others: auto or usual
    ///
    /// With auto they do so if each has a core of its own (--cpus, none of them in --subject-cpus) and the host permits
    /// it. Meanwhile no core enters a deep sleep state, and no thread sleeps unless --coalesce is more than 20us. With
    /// usual they run like any other thread.
    #[arg(
        long,
        value_name = "WHICH",
        hide_possible_values = true,
        default_value = "auto",
        help_heading = "Sockets and threads"
    )]
    priority: Priority,

    /// Queries that leave in one burst at most, 1 to 64
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "32", help_heading = "Sockets and threads")]
    burst: u64,

    /// Watch this process, with its children: auto, none, or a PID
    ///
    /// Their CPU time, memory and drops are measured. With auto kqps finds the process on this host that has the
    /// target's socket.
    #[arg(
        long,
        visible_alias = "subject-pid",
        value_name = "auto|none|PID",
        default_value = "auto",
        help_heading = "Subject"
    )]
    subject: Choice,

    /// How many workers the subject has
    ///
    /// It lets kqps show how evenly they share the work. The echo that `kqps find` compares the subject with gets as
    /// many.
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(1..=1024), help_heading = "Subject")]
    pub(crate) subject_workers: Option<u32>,

    /// The cores that the subject runs on (default: as watched)
    ///
    /// A watched subject's cores are those that its threads are pinned to.
    #[arg(long, value_name = "LIST", value_parser = parse_list, help_heading = "Subject")]
    subject_cpus: Option<List>,

    /// Allow targets on other hosts: ADDR or ADDR/PREFIX (repeatable)
    #[arg(long, value_name = "ADDR[/PREFIX]", help_heading = "Target")]
    allow_target: Vec<Allowed>,
}

/// Opens the queries that the flags name. Errors in them are errors in the user's input.
pub(crate) fn open_dataset(args: &PlayerArgs) -> anyhow::Result<Dataset> {
    let (standard_input, path) = query_file(args.queries.as_deref())?;
    read_dataset(args, standard_input, &path)
}

/// The queries that the flags name, and a file with them that players in other processes can open.
pub(crate) struct Queries {
    pub(crate) dataset: Dataset,
    pub(crate) file: QueryFile,
    /// The copy of queries that do not come from a regular file.
    _copy: Option<(NamedTempFile, Unfinished)>,
}

impl Queries {
    /// Opens them. Queries that can be read only once, such as those of standard input, are copied first.
    pub(crate) fn open(args: &PlayerArgs) -> anyhow::Result<Self> {
        let (standard_input, path) = query_file(args.queries.as_deref())?;
        let source = match standard_input {
            None if path.is_file() => None,
            None => File::open(&path).ok(),
            standard_input => standard_input,
        };
        let copy = source.map(copied).transpose()?;
        let reread = copy.as_ref().map(|(copy, _)| copy.reopen()).transpose()?;
        let dataset = read_dataset(args, reread, &path)?;
        let file = QueryFile {
            format: if args.binary { Format::Binary } else { Format::Auto },
            edns: args.edns,
            dnssec: args.dnssec,
            skip_bad: args.skip_bad,
            check: args.check,
            ..QueryFile::of(copy.as_ref().map_or(&path, |(copy, _)| copy.path()))
        };
        Ok(Self { dataset, file, _copy: copy })
    }
}

/// A copy of what can be read once.
fn copied(mut source: File) -> anyhow::Result<(NamedTempFile, Unfinished)> {
    let (mut copy, unfinished) = Unfinished::made(NamedTempFile::new).context("copying the queries")?;
    io::copy(&mut source, copy.as_file_mut()).context("copying the queries")?;
    Ok((copy, unfinished))
}

/// Reads queries from `source`, or from the file at `path`, which is their name in messages.
fn read_dataset(args: &PlayerArgs, source: Option<File>, path: &Path) -> anyhow::Result<Dataset> {
    let format = if args.binary { Format::Binary } else { Format::Auto };
    let options =
        Options { format, edns: args.edns, dnssec: args.dnssec, skip_bad: args.skip_bad, cache_dir: None };
    let unnamed =
        if args.queries.is_none() { "; there is no -d FILE, so standard input was read" } else { "" };
    let dataset = match source {
        Some(source) => Dataset::read(source, path, &options),
        None => Dataset::open(path, &options),
    };
    let dataset = dataset.map_err(|error| bad_input(format!("{error}{unnamed}")))?;
    for note in skipped(&dataset) {
        eprintln!("kqps: {note}");
    }
    if let Some(note) = dataset.note() {
        eprintln!("kqps: {note}");
    }
    if args.check == Some(Check::Answers) && dataset.answers() == 0 {
        return Err(bad_input(format!(
            "--check answers: {} has no digests of answers; `kqps gen queries --expect answers` writes them",
            path.display()
        )));
    }
    let expected = dataset.check();
    Ok(dataset.checked(args.check.unwrap_or(expected)))
}

impl PlayerArgs {
    /// A plan with these flags, and the subject to watch. `load` returns the load for a number of threads, and
    /// `usual_timeout` the default timeout for the targets.
    pub(crate) fn plan(
        &self,
        load: impl FnOnce(u64) -> LoadPlan,
        stop: Stop,
        usual_timeout: impl FnOnce(&[SocketAddr]) -> Duration,
    ) -> anyhow::Result<(Plan, SubjectWatched)> {
        let cpus = cores(self.cpus.as_ref())?;
        let threads = self.threads.unwrap_or(cpus.len().max(1) as u64);
        let words = [&*self.servers, &*self.targets].concat();
        let found = resolve_all(&words, self.port, self.mode, self.family, &self.allow_target)?;
        let transport = self.transport(found.transport)?;
        let timeout = self.timeout.unwrap_or_else(|| usual_timeout(&found.addresses));
        let load = load(threads);
        let wire = self.wire(transport, (threads, load.window()), &found, timeout)?;
        let targets = found.addresses;
        let mut subject = subject::chosen(self.subject, &targets, transport)?;
        if let Some(cpus) = self.given_subject_cores()? {
            subject.cpus = cpus;
        }
        // A subject on another host has other cores in any case.
        let are_apart = !subject.cpus.is_empty() || targets.iter().all(|&target| !is_local(target));
        let own_cores = self.priority == Priority::Auto
            && are_apart
            && have_cores_of_their_own(&cpus, threads as usize, &subject.cpus);
        let plan = Plan {
            targets,
            wire,
            burst: self.burst as usize,
            local: self.local,
            load,
            stop,
            timeout,
            drain: self.drain.unwrap_or(timeout),
            lag_allowed: self.lag,
            coalesce: self.coalesce.unwrap_or_else(|| usual_coalesce(own_cores)),
            threads: threads as usize,
            own_cores,
            cpus,
            seed: SEED,
            drop_reasons: false,
        };
        plan.check().map_err(|error| bad_input(with_flags(&error)))?;
        check_ports(&plan)?;
        self.check_local(&plan)?;
        self.warn_of_a_small_buffer();
        Ok((plan, subject))
    }

    /// The transport that `-m` and the targets' URLs name; UDP if neither does.
    fn transport(&self, named: Option<Transport>) -> anyhow::Result<Transport> {
        match (self.mode, named) {
            (Some(mode), Some(named)) if mode != named => Err(bad_input(format!(
                "-m {} and a target over {}: leave one of them out",
                mode.word(),
                named.word()
            ))),
            (mode, named) => Ok(mode.or(named).unwrap_or_default()),
        }
    }

    /// What carries the queries of `threads` threads to the targets. `window` is how many may be outstanding.
    fn wire(
        &self,
        transport: Transport,
        (threads, window): (u64, Option<u64>),
        targets: &Targets,
        timeout: Duration,
    ) -> anyhow::Result<Wire> {
        let flows = |usual: u64| {
            let usual = usual.next_multiple_of(targets.addresses.len() as u64);
            self.sockets.unwrap_or(usual) as usize
        };
        let is_quic = transport == Transport::Quic;
        if !transport.is_encrypted() {
            self.tls.check_none_is_given()?;
        }
        if transport != Transport::Https {
            self.http.check_none_is_given()?;
        }
        if !is_quic {
            self.quic.check_none_is_given()?;
        }
        check_io(self.io, transport)?;
        let buffer_bytes = self.buffer.map(|bytes| bytes as usize);
        if transport == Transport::Udp {
            self.connections.check_none_is_given()?;
            return Ok(Wire::Udp(UdpPlan {
                io: self.io,
                sockets: flows(threads.saturating_mul(SOCKETS_PER_THREAD)),
                buffer_bytes,
                // As in dnsperf, 0 stands for any port.
                local_port: self.local_port.filter(|port| *port > 0),
                device: self.device.clone(),
            }));
        }
        let of_udp =
            [(self.buffer.is_some() && !is_quic, "-b"), (self.local_port.is_some_and(|port| port > 0), "-x")];
        if let Some((_, flag)) = of_udp.into_iter().find(|(is_given, _)| *is_given) {
            return Err(bad_input(format!("{flag} is for udp; leave it out with {}", transport.word())));
        }
        let connections = flows(self.connections.usual_count(threads, window));
        let tls = match transport {
            Transport::Udp | Transport::Tcp => None,
            Transport::Tls => Some(self.tls.plan(&targets.names, Client::new)?),
            Transport::Https => {
                let tls = self.tls.plan(&targets.names, Client::new)?;
                Some(TlsPlan { http: Some(self.http.plan(targets)), ..tls })
            }
            Transport::Quic => {
                let client = |settings: &ClientSettings| Client::over_quic(settings, self.quic.early_data);
                let tls = self.tls.plan(&targets.names, client)?;
                let plan = self.connections.plan_quic(connections, timeout, tls)?;
                return Ok(Wire::Quic(self.quic.plan(QuicPlan { buffer_bytes, ..plan })?));
            }
        };
        let (io, device) = (self.io, self.device.clone());
        Ok(Wire::Tcp(TcpPlan { io, tls, device, ..self.connections.plan(connections, timeout) }))
    }

    /// The subject's cores, if the user gives them. A core that is not online is bad usage.
    fn given_subject_cores(&self) -> anyhow::Result<Option<Vec<u32>>> {
        let Some(List(cpus)) = self.subject_cpus.clone() else { return Ok(None) };
        let online = topology::online();
        match cpus.iter().find(|cpu| !online.is_empty() && !online.contains(cpu)) {
            None => Ok(Some(cpus)),
            Some(cpu) => Err(bad_input(format!(
                "--subject-cpus: there is no core {cpu} here; there are {}",
                cpu_list::write(&online)
            ))),
        }
    }

    fn warn_of_a_small_buffer(&self) {
        if let Some(bytes) = self.buffer.filter(|bytes| *bytes < BUFFER_SMALL) {
            eprintln!(
                "kqps: warning: -b: buffers of {bytes} bytes hold few replies; a reply that arrives while the player does not \
                 read is lost, by the player's fault"
            );
        }
    }

    /// Checks that the source addresses belong to this host and to the targets' family.
    fn check_local(&self, plan: &Plan) -> anyhow::Result<()> {
        let target = plan.targets[0];
        match &self.local {
            Some(local) if local.is_ipv4() != target.is_ipv4() => {
                Err(bad_input(format!("-a and the target {target} are of different families")))
            }
            Some(local) => check_sources(local, plan.flows()),
            None => Ok(()),
        }
    }
}

/// Checks a plan that another kqps made: its limits, and that its targets, cores and source addresses may be used.
/// `is_allowed` says that the user has allowed targets on other hosts.
pub(crate) fn check_plan(plan: &Plan, is_allowed: bool) -> anyhow::Result<()> {
    plan.check().map_err(bad_input)?;
    for &target in plan.targets.iter().filter(|_| !is_allowed) {
        check_target(target, &[])?;
    }
    cores(Some(&List(plan.cpus.clone())))?;
    match &plan.local {
        Some(local) => check_sources(local, plan.flows()),
        None => Ok(()),
    }
}

/// An error if `--local-port` leaves too few ports.
fn check_ports(plan: &Plan) -> anyhow::Result<()> {
    let Wire::Udp(UdpPlan { local_port: Some(first), .. }) = plan.wire else { return Ok(()) };
    let sockets = plan.flows();
    let last = usize::from(first) + sockets - 1;
    if u16::try_from(last).is_ok() {
        return Ok(());
    }
    Err(bad_input(format!(
        "-x {first}: {sockets} sockets take the ports from {first} on, of which the last is {last}; expected 1 to {}, or \
         0 for any",
        usize::from(u16::MAX) + 1 - sockets
    )))
}
