//! The flags of the player that do not set the load: shared by `kqps load` and `kqps find`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use kqps_dataset::{Check, Dataset, Format, Options};
use kqps_host::topology;
use kqps_player::plan::BURST_MOST;
use kqps_player::{Io, LoadPlan, Plan, Sources, Stop};

use super::target::{Allowed, check_sources, resolve_all};
use crate::exit::bad_input;
use crate::value::{List, cores, parse_count, parse_duration, parse_list, parse_size};

/// Sockets of each thread, where none were asked for: enough that hashing spreads the load.
const SOCKETS_PER_THREAD: u64 = 32;

/// How long a query that is due waits for others, where nothing is said: a thread whose core nobody else needs can spend
/// more of it on being in time.
const COALESCE: Duration = Duration::from_micros(20);
const COALESCE_ON_OWN_CORES: Duration = Duration::from_micros(10);

/// The most that one thread can make use of.
const SOCKETS_MOST: u64 = 16_384;

/// Before whom the player's threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Priority {
    Auto,
    Usual,
}

/// What a user types of the player. The comments are the help text, which has no markup.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct PlayerArgs {
    /// Send to ADDR[:PORT], or to a URL such as udp://[::1]:53
    ///
    /// Sockets take turns over several targets, which are all IPv4 or all IPv6. Each socket takes replies from its own
    /// target only.
    #[arg(required = true, value_name = "TARGET")]
    pub(crate) targets: Vec<String>,

    /// Read the queries from this file, one a line: `name type`
    ///
    /// What may follow, in any order: E (EDNS), D (EDNS and DO), a client subnet such as 192.0.2.0/24, the expected rcode,
    /// and = with the digest of the expected answer.
    #[arg(short = 'd', long, value_name = "FILE", help_heading = "Queries")]
    pub(crate) queries: PathBuf,

    /// Check replies against what the file expects: rcode, answers or off (default: all that it says)
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
    #[arg(short = 'c', long, value_parser = parse_count, help_heading = "Sockets and threads")]
    sockets: Option<u64>,

    /// Sending threads (default: as many as --cpus, or 1)
    #[arg(short = 'T', long, value_parser = parse_count, help_heading = "Sockets and threads")]
    threads: Option<u64>,

    /// Count a reply that takes longer than this as late
    #[arg(short = 't', long, value_parser = parse_duration, default_value = "1s", help_heading = "Times")]
    timeout: Duration,

    /// Listen for this long after the last query (default: the timeout)
    #[arg(long, value_parser = parse_duration, help_heading = "Times")]
    drain: Option<Duration>,

    /// Give up a query that cannot be sent within this time after it is due
    #[arg(long, value_parser = parse_duration, default_value = "10ms", help_heading = "Times")]
    lag: Duration,

    /// Let a query that is due wait this long for others, which saves CPU and adds lag (default: 20us or 10us)
    ///
    /// The default is 10us where each thread has a core of its own. With more than 20us threads sleep there, too.
    #[arg(long, value_parser = parse_duration, help_heading = "Times")]
    coalesce: Option<Duration>,

    /// Bytes of each socket's receive buffer, and of its send buffer
    #[arg(short = 'b', long, value_parser = parse_size, help_heading = "Sockets and threads")]
    buffer: Option<u64>,

    /// Send from this address, or from those of a prefix in turn, such as 127.1.0.0/16
    #[arg(short = 'a', long, value_name = "ADDR[/PREFIX]", help_heading = "Sockets and threads")]
    local: Option<Sources>,

    /// Send from this port, and from those after it; 0 is any port
    #[arg(short = 'x', long, value_name = "PORT", help_heading = "Sockets and threads")]
    local_port: Option<u16>,

    /// How to send and receive: auto, plain, mmsg, gso or uring
    #[arg(long, default_value = "auto", help_heading = "Sockets and threads")]
    io: Io,

    /// Pin the threads to these cores, in turn
    #[arg(long, value_name = "LIST", value_parser = parse_list, help_heading = "Sockets and threads")]
    cpus: Option<List>,

    /// Whether the threads run before all others: auto or usual
    ///
    /// With auto they do where each has a core of its own (--cpus, none of them in --subject-cpus) and the host permits it.
    /// Then no core sleeps deeply meanwhile, and no thread sleeps for a moment unless --coalesce is more than 20us. With
    /// usual they run as any thread does.
    #[arg(
        long,
        value_name = "WHICH",
        hide_possible_values = true,
        default_value = "auto",
        help_heading = "Sockets and threads"
    )]
    priority: Priority,

    /// Queries that leave in one burst at most, 1 to 64
    #[arg(long, value_parser = parse_count, default_value = "32", help_heading = "Sockets and threads")]
    burst: u64,

    /// The seed of random arrivals
    #[arg(long, default_value_t = 1, help_heading = "Load")]
    seed: u64,

    /// Watch this process and its children: CPU, memory and drops
    #[arg(long, value_name = "PID", help_heading = "Subject")]
    pub(crate) subject_pid: Option<u32>,

    /// How many workers answer: shows whether they share the work, and sets the ceiling of `kqps find`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Subject")]
    pub(crate) subject_workers: Option<u32>,

    /// The cores that the subject runs on
    #[arg(long, value_name = "LIST", value_parser = parse_list, help_heading = "Subject")]
    subject_cpus: Option<List>,

    /// Allow a target on another host: ADDR or ADDR/PREFIX (repeatable)
    #[arg(long, value_name = "ADDR[/PREFIX]", help_heading = "Load")]
    allow_target: Vec<Allowed>,
}

/// Opens the queries that the flags name; errors in them are the user's.
pub(crate) fn open_dataset(args: &PlayerArgs) -> anyhow::Result<Dataset> {
    let format = if args.binary { Format::Binary } else { Format::Auto };
    let options =
        Options { format, edns: args.edns, dnssec: args.dnssec, skip_bad: args.skip_bad, cache_dir: None };
    let dataset = Dataset::open(&args.queries, &options).map_err(bad_input)?;
    if dataset.skipped() > 0 {
        eprintln!("kqps: {} bad queries of {} were skipped", dataset.skipped(), args.queries.display());
    }
    if let Some(note) = dataset.note() {
        eprintln!("kqps: {note}");
    }
    if args.check == Some(Check::Answers) && dataset.answers() == 0 {
        return Err(bad_input(format!(
            "--check answers: {} has no digests of answers; `kqps gen queries --expect answers` writes them",
            args.queries.display()
        )));
    }
    let told = dataset.check();
    Ok(dataset.checked(args.check.unwrap_or(told)))
}

impl PlayerArgs {
    /// A plan with these flags and this load.
    pub(crate) fn plan(&self, load: LoadPlan, stop: Stop) -> anyhow::Result<Plan> {
        let cpus = cores(self.cpus.as_ref())?;
        let threads = self.threads(&cpus)?;
        let targets = resolve_all(&self.targets, &self.allow_target)?;
        let sockets = self.sockets(threads, targets.len() as u64)?;
        if !(1..=BURST_MOST as u64).contains(&self.burst) {
            return Err(bad_input(format!("--burst {}: expected 1 to {BURST_MOST}", self.burst)));
        }
        let drain = self.drain()?;
        let subject_cpus = self.subject_cores()?;
        let own_cores =
            self.priority == Priority::Auto && has_cores_of_its_own(&cpus, threads, &subject_cpus);
        let coalesce = self.coalesce(own_cores)?;
        self.check_local(targets[0], sockets.max(threads) as usize)?;
        self.check_subject()?;
        Ok(Plan {
            targets,
            load,
            stop,
            timeout: self.timeout,
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
            // As in dnsperf, 0 is any port.
            local_port: self.local_port.filter(|port| *port > 0),
            seed: self.seed,
            subject_pid: self.subject_pid,
            subject_cpus,
            drop_reasons: false,
        })
    }

    /// How many threads there are to be.
    fn threads(&self, cpus: &[u32]) -> anyhow::Result<u64> {
        let threads = self.threads.unwrap_or(cpus.len().max(1) as u64);
        if (1..=1024).contains(&threads) {
            Ok(threads)
        } else {
            Err(bad_input(format!("-T {threads}: expected 1 to 1024 threads")))
        }
    }

    /// How long to listen after the last query.
    fn drain(&self) -> anyhow::Result<Duration> {
        if self.timeout.is_zero() {
            return Err(bad_input("-t 0: every reply would be late"));
        }
        let drain = self.drain.unwrap_or(self.timeout);
        if drain < self.timeout {
            return Err(bad_input(
                "--drain must be at least the timeout, or replies in time would be missed",
            ));
        }
        Ok(drain)
    }

    /// How long a query that is due waits for others.
    fn coalesce(&self, own_cores: bool) -> anyhow::Result<Duration> {
        let coalesce = self.coalesce.unwrap_or(if own_cores { COALESCE_ON_OWN_CORES } else { COALESCE });
        if coalesce > self.lag {
            return Err(bad_input(
                "--coalesce is longer than --lag: queries would be given up before they leave",
            ));
        }
        Ok(coalesce)
    }

    /// The cores that the subject was given, none where that was not said; one that is not there is bad usage.
    fn subject_cores(&self) -> anyhow::Result<Vec<u32>> {
        let cpus = self.subject_cpus.clone().unwrap_or_default().0;
        let online = topology::online();
        match cpus.iter().find(|cpu| !online.is_empty() && !online.contains(cpu)) {
            None => Ok(cpus),
            Some(cpu) => Err(bad_input(format!(
                "--subject-cpus: there is no core {cpu} here; there are {}",
                topology::write_list(&online)
            ))),
        }
    }

    /// How many sockets there are to be, and whether they have ports.
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

    /// The subject must be there to be watched, and whoever watches a worker is told who has the others.
    fn check_subject(&self) -> anyhow::Result<()> {
        let Some(pid) = self.subject_pid else { return Ok(()) };
        if !kqps_host::lives(pid) {
            return Err(bad_input(format!("--subject-pid {pid}: there is no process {pid}")));
        }
        if let Some(parent) = kqps_host::parent_of_same_program(pid) {
            eprintln!(
                "kqps: process {pid} is a child of process {parent}, which runs the same program: to watch all of a \
                 server say --subject-pid {parent}"
            );
        }
        Ok(())
    }

    /// What to send from must be this host's, and of the targets' family.
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

/// Whether each thread has a core that no other one needs, and the subject neither, as far as is known. Of two that run
/// before all others on one core the first would keep the second out.
fn has_cores_of_its_own(cpus: &[u32], threads: u64, subject_cpus: &[u32]) -> bool {
    let is_alone = |at: usize| !cpus[..at].contains(&cpus[at]) && !subject_cpus.contains(&cpus[at]);
    !subject_cpus.is_empty() && threads <= cpus.len() as u64 && (0..cpus.len()).all(is_alone)
}
