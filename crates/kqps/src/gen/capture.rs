//! `kqps gen capture`: a capture in which clients ask the queries of a file, for `kqps load` and for other programs
//! that replay captures.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kqps_capture::write::Writer;
use kqps_dataset::{Dataset, Options};
use kqps_files::whole::whole;
use kqps_message::header;
use kqps_player::Arrivals;

use crate::exit::bad_input;
use crate::load::skipped::unreadable;
use crate::value::{parse_count, parse_rate, parse_seed, parse_share, parse_within};

/// When the first query comes, nanoseconds since 1970: the beginning of 2026.
const BEGIN_NS: u64 = 1_767_225_600_000_000_000;

/// The server, and the first client: addresses for benchmarks (RFC 2544, appendix C.2.2).
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 53);
const FIRST_CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The most clients: those addresses are enough for twice as many.
const CLIENTS_MOST: u64 = 65_000;

/// The ports of clients.
const PORTS: std::ops::Range<u16> = 32_768..61_000;

const EXAMPLES: &str = "\
Examples:
  kqps gen capture -d bench.queries -Q 10k --clients 500 -o bench.pcap
  kqps gen capture -d bench.queries -Q 10k --tcp 5% --seed 7 -o mixed.pcap";

/// Write a capture (pcap) in which clients ask the queries of a file
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CaptureArgs {
    /// The query file, or another capture, whose queries are asked in their order
    #[arg(short = 'd', long, value_name = "FILE")]
    queries: PathBuf,

    /// The rate of its queries, q/s
    #[arg(short = 'Q', long, value_name = "RATE", value_parser = parse_rate, default_value = "10k")]
    rate: f64,

    /// Spacing of the queries: even (the default) or poisson
    #[arg(long, value_name = "HOW")]
    arrivals: Option<Arrivals>,

    /// How many queries (default: once through the file)
    #[arg(short = 'n', long, value_parser = parse_count)]
    count: Option<u64>,

    /// How many clients ask, each from an address and port of its own
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(1..=CLIENTS_MOST), default_value = "100")]
    clients: u32,

    /// The share of the queries that come by TCP, each on a connection of its own
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0")]
    tcp: f64,

    /// The seed of clients, transports, IDs and random gaps
    #[arg(long, value_name = "SEED", value_parser = parse_seed, default_value = "1")]
    seed: u64,

    /// Write this file; it appears whole or not at all
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    let arrivals = args.arrivals.unwrap_or_default();
    if arrivals == Arrivals::Captured {
        return Err(bad_input("--arrivals captured: a capture is made with even or poisson gaps"));
    }
    if args.count == Some(0) {
        return Err(bad_input("-n 0 would write nothing"));
    }
    let dataset =
        Dataset::open(&args.queries, &Options::default()).map_err(|error| unreadable(&error, ""))?;
    let count = args.count.unwrap_or(dataset.queries());
    whole(&args.output, |out| write(args, arrivals, &dataset, count, out))
        .map_err(unwritable(&args.output))?;
    eprintln!(
        "{}: {count} queries of {} clients, {:.3} s, to {SERVER} port 53",
        args.output.display(),
        args.clients,
        count as f64 / args.rate
    );
    Ok(ExitCode::SUCCESS)
}

fn write(
    args: &CaptureArgs,
    arrivals: Arrivals,
    dataset: &Dataset,
    count: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(args.seed);
    let clients: Vec<SocketAddr> = (0..args.clients).map(|number| client(number, &mut random)).collect();
    let to = SocketAddr::from((SERVER, 53));
    let mut writer = Writer::new(out)?;
    let mut message = Vec::new();
    let mut position = dataset.first();
    let mut drawn_s = 0.0;
    for number in 0..count {
        if position == dataset.end() {
            position = dataset.first();
        }
        message.clear();
        message.extend_from_slice(dataset.query(position).message);
        position = dataset.after(position);
        header::set_id(&mut message, random.u16(..));
        let due_s = if arrivals == Arrivals::Poisson { drawn_s } else { number as f64 / args.rate };
        drawn_s -= (1.0 - random.f64()).ln() / args.rate;
        let at_ns = BEGIN_NS + (due_s * 1e9) as u64;
        let from = clients[random.usize(..clients.len())];
        if random.f64() < args.tcp {
            // A port for each connection.
            let from = SocketAddr::new(from.ip(), random.u16(PORTS));
            writer.tcp_query(at_ns, from, to, &message, None)?;
        } else {
            writer.udp(at_ns, from, to, &message)?;
        }
    }
    Ok(())
}

/// The address of a client, from the first one on, with a port that it keeps.
fn client(number: u32, random: &mut fastrand::Rng) -> SocketAddr {
    let address = Ipv4Addr::from_bits(FIRST_CLIENT.to_bits() + number);
    SocketAddr::from((address, random.u16(PORTS)))
}

/// The error of a file that cannot be written.
pub(super) fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> anyhow::Error {
    move |error| anyhow::anyhow!("cannot write {}: {error}", path.display())
}
