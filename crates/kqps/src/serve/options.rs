//! What every reference server can be told: where to listen, by which loop, with how many workers.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use kqps_server::{Model, Setup, setup};

use crate::exit::bad_input;
use crate::value::{List, cores, parse_duration, parse_list, parse_size};

/// Options of all servers.
#[derive(clap::Args)]
pub(super) struct Serving {
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

    /// Keep a flow on the core where it comes in (with --sockets reuseport and --cpus)
    #[arg(long, value_enum)]
    steer: Option<Steer>,

    /// Receive and send buffer of each socket
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_size)]
    buffer: u64,

    /// Stop this long after it can answer
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(super) time: Option<Duration>,

    /// Print JSON lines: one when it can answer, one with the counts
    #[arg(long)]
    pub(super) json: bool,
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

impl Serving {
    /// What the options say, if they can be together.
    pub(super) fn setup(&self) -> anyhow::Result<Setup> {
        if self.steer.is_some() && !matches!(self.sockets, Sockets::Reuseport) {
            return Err(bad_input("--steer chooses among sockets on one port: it needs --sockets reuseport"));
        }
        let is_repeated = |(at, address): &(usize, &SocketAddr)| self.listen[..*at].contains(address);
        let mut named = self.listen.iter().enumerate().filter(|(_, address)| address.port() > 0);
        if let Some((_, address)) = named.find(is_repeated) {
            return Err(bad_input(format!("--listen {address} is given twice")));
        }
        Ok(Setup {
            listen: self.listen.clone(),
            io: self.io.parse().map_err(bad_input)?,
            processes: self.processes,
            threads: self.threads,
            sockets: match self.sockets {
                Sockets::Shared => setup::Sockets::Shared,
                Sockets::Reuseport => setup::Sockets::ReusePort,
                Sockets::PortEach => setup::Sockets::PortEach,
            },
            reply: match self.reply {
                Reply::Same => setup::Reply::Same,
                Reply::Own => setup::Reply::Own,
            },
            cpus: cores(self.cpus.as_ref())?,
            buffer_bytes: usize::try_from(self.buffer)?,
            steer: self.steer.is_some(),
        })
    }
}
