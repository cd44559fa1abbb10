//! The flags of the player that do not set the load. `kqps load` and `kqps find` share them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use kqps_dataset::{Check, Dataset, Format, Options};
use kqps_host::{SubjectWatched, topology};
use kqps_kernel::own::is_own;
use kqps_player::plan::BURST_MOST;
use kqps_player::{Io, LoadPlan, Plan, Sources, Stop};

use super::dnsperf::{Foreign, parse_buffer, parse_transport, query_file};
use super::skipped::skipped;
use super::subject::{self, Choice};
use super::target::{Allowed, Family, check_sources, resolve_all};
use crate::exit::bad_input;
use crate::value::{List, PORTS, cores, parse_count, parse_duration, parse_list, parse_within};

/// Default number of sockets of each thread: enough that hashing spreads the load over the subject's workers.
const SOCKETS_PER_THREAD: u64 = 32;

/// Default time that a due query waits for others. A thread with a core of its own waits less, since it can
/// spend more CPU time on being on time.
const COALESCE: Duration = Duration::from_micros(20);
const COALESCE_ON_OWN_CORES: Duration = Duration::from_micros(10);

/// Bytes. A smaller buffer may drop replies at any rate, so kqps warns of it.
const BUFFER_SMALL: u64 = 32 << 10;

/// Default seed of random arrivals.
pub(super) const SEED: u64 = 1;

/// The most sockets that one thread can use.
const SOCKETS_MOST: u64 = 16_384;

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
    /// Send to ADDR[:PORT], or to a URL such as udp://[::1]:53
    ///
    /// Sockets take turns over several targets, which are all IPv4 or all IPv6. Each socket takes replies from its own
    /// target only.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,

    /// Send to this address or name, as with dnsperf
    #[arg(short = 's', long = "server", value_name = "ADDR", help_heading = "Target")]
    servers: Vec<String>,

    /// The port of targets that have none of their own (default: 53)
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

    /// The transport: udp, the only one in this version
    #[arg(short = 'm', long, value_name = "TRANSPORT", value_parser = parse_transport, help_heading = "Target")]
    mode: Option<()>,

    #[command(flatten)]
    foreign: Foreign,

    /// Read queries from this file, a line each: `name type` (default: stdin)
    ///
    /// The name - is standard input, too. What may follow a type, in any order: E (EDNS), D (EDNS and DO), a client subnet
    /// such as 192.0.2.0/24, the expected rcode, and = with the digest of the expected answer.
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

    /// Sockets of all threads together (default: 32 for each thread)
    #[arg(short = 'c', long, value_name = "N", value_parser = parse_count, help_heading = "Sockets and threads")]
    sockets: Option<u64>,

    /// Sending threads (default: as many as --cpus, or 1)
    #[arg(short = 'T', long, value_name = "N", value_parser = parse_count, help_heading = "Sockets and threads")]
    threads: Option<u64>,

    /// Count a reply that takes longer than this as late (default: 1s; of kqps find on this host 250ms)
    ///
    /// On one host a reply that takes longer is most likely lost, and a search waits for it after each trial that loses.
    #[arg(short = 't', long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Times")]
    timeout: Option<Duration>,

    /// Listen for this long after the last query (default: the timeout)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Times")]
    drain: Option<Duration>,

    /// Give up a query that is due for longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10ms", help_heading = "Times")]
    lag: Duration,

    /// Let a query that is due wait for others (default: 20us or 10us)
    ///
    /// This saves CPU time and adds lag. The default is 10us if each thread has a core of its own. With more than 20us threads sleep even there.
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

    /// Send and receive by: auto, plain, mmsg, gso or uring
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Sockets and threads")]
    io: Io,

    /// Pin the threads to these cores, in turn
    #[arg(long, value_name = "LIST", value_parser = parse_list, help_heading = "Sockets and threads")]
    cpus: Option<List>,

    /// Run the threads before all others: auto or usual
    ///
    /// With auto they do so if each has a core of its own (--cpus, none of them in --subject-cpus) and the host permits it.
    /// Meanwhile no core enters a deep sleep state, and no thread sleeps unless --coalesce is more than 20us. With usual
    /// they run like any other thread.
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
    /// Their CPU time, memory and drops are measured. With auto kqps finds the process on this host that has the target's socket.
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
    /// It lets kqps show how evenly they share the work. The echo that `kqps find` compares the subject with gets as many.
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
    let format = if args.binary { Format::Binary } else { Format::Auto };
    let options =
        Options { format, edns: args.edns, dnssec: args.dnssec, skip_bad: args.skip_bad, cache_dir: None };
    let (standard_input, path) = query_file(args.queries.as_deref())?;
    let unnamed =
        if args.queries.is_none() { "; there is no -d FILE, so standard input was read" } else { "" };
    let dataset = match standard_input {
        Some(source) => Dataset::read(source, &path, &options),
        None => Dataset::open(&path, &options),
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
    /// A plan with these flags and this load, and the subject to watch. `usual_timeout` returns the default timeout for
    /// the targets.
    pub(crate) fn plan(
        &self,
        load: LoadPlan,
        stop: Stop,
        usual_timeout: impl FnOnce(&[SocketAddr]) -> Duration,
    ) -> anyhow::Result<(Plan, SubjectWatched)> {
        let cpus = cores(self.cpus.as_ref())?;
        let threads = self.threads(&cpus)?;
        let words = [&*self.servers, &*self.targets].concat();
        let targets = resolve_all(&words, self.port, self.family, &self.allow_target)?;
        let sockets = self.sockets(threads, targets.len() as u64)?;
        if !(1..=BURST_MOST as u64).contains(&self.burst) {
            return Err(bad_input(format!("--burst {}: expected 1 to {BURST_MOST}", self.burst)));
        }
        let timeout = self.timeout.unwrap_or_else(|| usual_timeout(&targets));
        let drain = self.drain(timeout)?;
        let mut subject = subject::chosen(self.subject, &targets)?;
        if let Some(cpus) = self.given_subject_cores()? {
            subject.cpus = cpus;
        }
        // A subject on another host has other cores in any case.
        let are_apart = !subject.cpus.is_empty() || targets.iter().all(|&target| !is_own(target));
        let own_cores = self.priority == Priority::Auto
            && are_apart
            && has_cores_of_its_own(&cpus, threads, &subject.cpus);
        let coalesce = self.coalesce(own_cores)?;
        self.check_local(targets[0], sockets.max(threads) as usize)?;
        self.warn_of_a_small_buffer();
        let plan = Plan {
            targets,
            load,
            stop,
            timeout,
            drain,
            lag_allowed: self.lag,
            coalesce,
            burst: self.burst as usize,
            sockets: sockets as usize,
            threads: threads as usize,
            own_cores,
            cpus,
            io: self.io,
            buffer_bytes: self.buffer.map(|bytes| bytes as usize),
            local: self.local,
            // As in dnsperf, 0 stands for any port.
            local_port: self.local_port.filter(|port| *port > 0),
            seed: SEED,
            drop_reasons: false,
        };
        Ok((plan, subject))
    }

    /// The number of threads: 1 to 1024.
    fn threads(&self, cpus: &[u32]) -> anyhow::Result<u64> {
        let threads = self.threads.unwrap_or(cpus.len().max(1) as u64);
        if (1..=1024).contains(&threads) {
            Ok(threads)
        } else {
            Err(bad_input(format!("-T {threads}: expected 1 to 1024 threads")))
        }
    }

    /// How long to listen after the last query.
    fn drain(&self, timeout: Duration) -> anyhow::Result<Duration> {
        if timeout.is_zero() {
            return Err(bad_input("-t 0: every reply would be late"));
        }
        let drain = self.drain.unwrap_or(timeout);
        if drain < timeout {
            return Err(bad_input(format!(
                "--drain {drain:?} is shorter than -t ({timeout:?}): replies in time would be missed"
            )));
        }
        Ok(drain)
    }

    /// How long a due query waits for others.
    fn coalesce(&self, own_cores: bool) -> anyhow::Result<Duration> {
        let coalesce = self.coalesce.unwrap_or(if own_cores { COALESCE_ON_OWN_CORES } else { COALESCE });
        if coalesce > self.lag {
            return Err(bad_input(format!(
                "--coalesce is {coalesce:?}, and --lag only {:?}: queries would be given up before they leave",
                self.lag
            )));
        }
        Ok(coalesce)
    }

    /// The subject's cores, if the user gives them. A core that is not online is bad usage.
    fn given_subject_cores(&self) -> anyhow::Result<Option<Vec<u32>>> {
        let Some(List(cpus)) = self.subject_cpus.clone() else { return Ok(None) };
        let online = topology::online();
        match cpus.iter().find(|cpu| !online.is_empty() && !online.contains(cpu)) {
            None => Ok(Some(cpus)),
            Some(cpu) => Err(bad_input(format!(
                "--subject-cpus: there is no core {cpu} here; there are {}",
                topology::write_list(&online)
            ))),
        }
    }

    /// The number of sockets. An error if it is out of range, or if `--local-port` leaves too few ports.
    fn sockets(&self, threads: u64, targets: u64) -> anyhow::Result<u64> {
        let sockets = self.sockets.unwrap_or((threads * SOCKETS_PER_THREAD).next_multiple_of(targets));
        if !(1..=SOCKETS_MOST).contains(&sockets) {
            return Err(bad_input(format!("-c {sockets}: expected 1 to {SOCKETS_MOST} sockets")));
        }
        if sockets < targets {
            return Err(bad_input(format!(
                "-c {sockets}: each of the {targets} targets needs a socket of its own at least"
            )));
        }
        let in_fact = sockets.max(threads);
        match self.local_port {
            Some(first) if first > 0 && u64::from(first) + in_fact - 1 > u64::from(u16::MAX) => {
                Err(bad_input(format!(
                    "-x {first}: {in_fact} sockets take the ports from {first} on, of which the last is {}; expected 1 \
                     to {}, or 0 for any",
                    u64::from(first) + in_fact - 1,
                    u64::from(u16::MAX) + 1 - in_fact
                )))
            }
            _ => Ok(sockets),
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
    fn check_local(&self, target: SocketAddr, sockets: usize) -> anyhow::Result<()> {
        match &self.local {
            Some(local) if local.is_ipv4() != target.is_ipv4() => {
                Err(bad_input(format!("-a and the target {target} are of different families")))
            }
            Some(local) => check_sources(local, sockets),
            None => Ok(()),
        }
    }
}

/// Whether each thread has a core that no other thread and, as far as is known, no process of the subject
/// uses. If two real-time threads share a core, the first keeps the second from running.
fn has_cores_of_its_own(cpus: &[u32], threads: u64, subject_cpus: &[u32]) -> bool {
    let is_alone = |at: usize| !cpus[..at].contains(&cpus[at]) && !subject_cpus.contains(&cpus[at]);
    threads <= cpus.len() as u64 && (0..cpus.len()).all(is_alone)
}
