//! `kqps serve`: the reference servers.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Subcommand, ValueEnum};
use kqps_server::{Model, Report, ServeError, Server, Setup, setup};
use serde::Serialize;

use crate::exit::bad_input;
use crate::value::{List, cores, parse_duration, parse_list, parse_size};

/// Run a reference server
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    server: ServerKind,
}

#[derive(Subcommand)]
enum ServerKind {
    Echo(Box<Echo>),
}

/// Return every query as its own reply: the ceiling of an I/O model
#[derive(clap::Args)]
struct Echo {
    /// Where to listen; can be repeated. Port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5300")]
    listen: Vec<SocketAddr>,

    /// How datagrams are taken and handed back
    #[arg(long, value_name = "MODEL", default_value = "mmsg", value_parser = PossibleValuesParser::new(Model::ALL.map(Model::name)))]
    io: String,

    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,

    /// Worker threads in each process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,

    /// Whether workers share a socket, have one each on the same port, or a port each
    #[arg(long, value_enum, default_value = "shared")]
    sockets: Sockets,

    /// Whether a reply leaves by the socket of its query, or by one of the worker's own
    #[arg(long, value_enum, default_value = "same")]
    reply: Reply,

    /// Cores to pin the workers to, one by one
    #[arg(long, value_name = "LIST", value_parser = parse_list)]
    cpus: Option<List>,

    /// Keep a flow on the core where it comes in (with --sockets reuseport)
    #[arg(long, value_enum)]
    steer: Option<Steer>,

    /// Receive and send buffer of each socket
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_size)]
    buffer: u64,

    /// Spin for this long for every query, up to 10 ms
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    work_ns: u64,

    /// Stop after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    time: Option<Duration>,

    /// Print JSON lines: one when it can answer, one with the counts
    #[arg(long)]
    json: bool,

    /// Be a worker process of another kqps
    #[arg(long, hide = true, exclusive = true)]
    worker: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sockets {
    Shared,
    Reuseport,
    PortEach,
}

#[derive(Clone, Copy, ValueEnum)]
enum Reply {
    Same,
    Own,
}

#[derive(Clone, Copy, ValueEnum)]
enum Steer {
    /// By the core that takes the packet in
    Cpu,
}

/// The first line of `--json`.
#[derive(Serialize)]
#[serde(tag = "kind", rename = "ready")]
struct Ready<'a> {
    addresses: &'a [SocketAddr],
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.server {
        ServerKind::Echo(echo) => run_echo(&echo),
    }
}

fn run_echo(args: &Echo) -> anyhow::Result<ExitCode> {
    if let Some(description) = &args.worker {
        kqps_server::serve::run_as_child(description)?;
        return Ok(ExitCode::SUCCESS);
    }
    let setup = setup_of(args)?;
    let server = Server::start(&setup).map_err(|error| match error {
        ServeError::Setup(why) => bad_input(why),
        error => error.into(),
    })?;
    let mut out = io::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&Ready { addresses: server.addresses() })?)?;
    } else {
        for address in server.addresses() {
            writeln!(out, "Listening on {address} ({}, {} workers)", setup.io.name(), setup.workers())?;
        }
    }
    let report = server.run(args.time)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        print_counts(&mut out, &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn setup_of(args: &Echo) -> anyhow::Result<Setup> {
    if args.steer.is_some() && !matches!(args.sockets, Sockets::Reuseport) {
        return Err(bad_input("--steer chooses among sockets on one port: it needs --sockets reuseport"));
    }
    let is_repeated = |(at, address): &(usize, &SocketAddr)| args.listen[..*at].contains(address);
    let mut named = args.listen.iter().enumerate().filter(|(_, address)| address.port() > 0);
    if let Some((_, address)) = named.find(is_repeated) {
        return Err(bad_input(format!("--listen {address} is given twice")));
    }
    Ok(Setup {
        listen: args.listen.clone(),
        io: args.io.parse().map_err(bad_input)?,
        processes: args.processes,
        threads: args.threads,
        sockets: match args.sockets {
            Sockets::Shared => setup::Sockets::Shared,
            Sockets::Reuseport => setup::Sockets::ReusePort,
            Sockets::PortEach => setup::Sockets::PortEach,
        },
        reply: match args.reply {
            Reply::Same => setup::Reply::Same,
            Reply::Own => setup::Reply::Own,
        },
        cpus: cores(args.cpus.as_ref())?,
        buffer_bytes: usize::try_from(args.buffer)?,
        steer: args.steer.is_some(),
        work_ns: args.work_ns,
    })
}

fn print_counts(out: &mut impl io::Write, report: &Report) -> io::Result<()> {
    writeln!(out, "Received {}, answered {}", report.received, report.answered)?;
    for (cause, count) in &report.dropped {
        writeln!(out, "  dropped, {cause}: {count}")?;
    }
    if report.socket_drops > 0 {
        writeln!(out, "  dropped by the kernel, socket buffer full: {}", report.socket_drops)?;
    }
    if report.workers.len() > 1 {
        for (number, worker) in report.workers.iter().enumerate() {
            let core = worker.cpu.map_or(String::new(), |cpu| format!(" on core {cpu}"));
            writeln!(
                out,
                "  worker {number}{core}: received {}, answered {}, dropped {}",
                worker.received,
                worker.answered,
                worker.dropped.values().sum::<u64>()
            )?;
        }
    }
    Ok(())
}
