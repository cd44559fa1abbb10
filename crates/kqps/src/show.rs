//! `kqps show`: what is in a capture or a query file.

mod extras;
mod facts;
mod open;
mod rates;
mod spread;
mod tally;
mod top;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use kqps_capture::{Event, Reader};
use kqps_dataset::Dataset;

use crate::captured::CapturedArgs;
use crate::exit::bad_input;
use crate::print;
use crate::value::parse_within;
use open::Opened;
use tally::Tally;

pub(crate) use facts::FileFacts;

const EXAMPLES: &str = "\
Examples:
  kqps show traffic.pcap
  kqps show traffic.pcapng.zst --captured-server 192.0.2.53 --top 50
  tcpdump -i eth0 -w - port 53 | kqps show -
  kqps show bench.queries --json";

/// Show what is in a capture or a query file
///
/// Rates, types, rcodes, clients, transports, sizes, the most frequent names, EDNS, and what is no query. No address
/// of a client is printed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file: pcap, pcapng or dnstap, also compressed by gzip or zstd, or queries; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    captured: CapturedArgs,

    /// How many of the most frequent names to show
    #[arg(long, value_name = "N", value_parser = parse_within::<usize>(0..=1000), default_value = "10", help_heading = "Output")]
    top: usize,

    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let shown = match open::open(&args.file)? {
        Opened::Capture(source) => {
            let reader = Reader::new(source, &args.captured.settings());
            let reader = reader.map_err(|error| bad_input(format!("{name}: {error}")))?;
            of_capture(reader, args.top, &name)?
        }
        Opened::Queries(dataset) => match args.captured.given() {
            None => of_queries(&dataset, args.top),
            Some(flag) => return Err(bad_input(format!("{flag} is for captures, and {name} is none"))),
        },
    };
    if args.json {
        print::json(&print::Versioned::new(&shown))?;
    } else {
        print!("{}", words::words(&name, &shown));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a capture to its end, a message at a time.
fn of_capture(mut reader: Reader, top: usize, name: &str) -> anyhow::Result<FileFacts> {
    let mut tally = Tally::default();
    while let Some(event) = reader.next().map_err(|error| bad_input(format!("{name}: {error}")))? {
        match event {
            Event::Message(message) => tally.message(&message),
            Event::Closed { connection, .. } => tally.closed(connection),
        }
    }
    let counts = reader.counts();
    counts.check().map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    Ok(tally.of_capture(counts, top))
}

fn of_queries(dataset: &Dataset, top: usize) -> FileFacts {
    let mut tally = Tally::default();
    for query in dataset.iter() {
        tally.query(query.message);
        tally.expected(query.expected_rcode);
    }
    tally.of_queries(dataset, top)
}
