//! `kqps gen`: zones and query files from a seed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use kqps_dataset::generate::{self, GenerateError, LabelBytes, Popularity, Queries, Zone};
use kqps_message::rtype;

use crate::exit::bad_input;
use crate::value::{parse_count, parse_share};

/// Generate zones and query files from a seed
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Zone(ZoneArgs),
    Queries(QueriesArgs),
}

/// Write a zone file of address records
#[derive(clap::Args)]
struct ZoneArgs {
    #[command(flatten)]
    names: NamesArgs,

    /// The file to write, whole or not at all
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
}

/// Write a query file for the names of a zone, given by the flags that the zone was generated with
#[derive(clap::Args)]
struct QueriesArgs {
    #[command(flatten)]
    names: NamesArgs,

    /// How many queries
    #[arg(short = 'n', long, value_parser = parse_count, default_value = "1M")]
    count: u64,

    /// The share of names that are not in the zone
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "5%")]
    nxdomain: f64,

    /// Types to ask for, each with its weight, as in A:60,AAAA:40
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "A")]
    types: Vec<WeightedType>,

    /// How often each name is asked: uniform, or zipf:S where the n-th gets 1/n^S of the first
    #[arg(long, value_parser = parse_popularity, default_value = "uniform")]
    popularity: Popularity,

    /// Leave the expected rcode out, as for an echo, which answers NOERROR to everything
    #[arg(long)]
    no_expected: bool,

    /// The seed of the queries
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    query_seed: u64,

    /// The file to write, whole or not at all
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
}

/// The names of a zone.
#[derive(clap::Args)]
struct NamesArgs {
    /// The zone's origin
    #[arg(long, value_name = "NAME", default_value = "example.test")]
    origin: String,

    /// Its address records, each with a name of its own
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "100k")]
    records: u64,

    /// The length of the names' first labels (default: spread as those of hosts are)
    #[arg(long, value_name = "BYTES")]
    label_bytes: Option<u8>,

    /// The seed of the names
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// `TYPE` or `TYPE:WEIGHT`.
#[derive(Clone, Copy)]
struct WeightedType(u16, f64);

impl FromStr for WeightedType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mnemonic, weight) = text.split_once(':').unwrap_or((text, "1"));
        let known = rtype::parse(mnemonic.as_bytes());
        let qtype =
            known.ok_or_else(|| format!("unknown type \"{mnemonic}\"; expected one such as A or TYPE65"))?;
        let weight = weight.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight > 0.0);
        Ok(Self(qtype, weight.ok_or("expected a weight above 0 after the colon, as in A:60")?))
    }
}

fn parse_popularity(text: &str) -> Result<Popularity, String> {
    if text == "uniform" {
        return Ok(Popularity::Uniform);
    }
    let exponent = text.strip_prefix("zipf:").and_then(|exponent| exponent.parse().ok());
    exponent.map(Popularity::Zipf).ok_or_else(|| "expected uniform, or zipf:S such as zipf:1.0".to_owned())
}

impl NamesArgs {
    fn zone(self) -> Zone {
        let label_bytes = self.label_bytes.map_or(LabelBytes::Spread, LabelBytes::Fixed);
        Zone { origin: self.origin, records: self.records, label_bytes, seed: self.seed }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Zone(args) => {
            let zone = args.names.zone();
            told(generate::zone(&zone, &args.output), &args.output, || {
                format!("{} address records under {}", zone.records, zone.origin)
            })
        }
        What::Queries(args) => {
            let queries = Queries {
                zone: args.names.zone(),
                count: args.count,
                nxdomain_share: args.nxdomain,
                types: args.types.iter().map(|&WeightedType(qtype, weight)| (qtype, weight)).collect(),
                popularity: args.popularity,
                expected: !args.no_expected,
                seed: args.query_seed,
            };
            told(generate::queries(&queries, &args.output), &args.output, || {
                format!("{} queries for names under {}", queries.count, queries.zone.origin)
            })
        }
    }
}

/// Says what was written. What the system refused is status 1, what the user asked for in vain 2.
fn told(
    outcome: Result<(), GenerateError>,
    path: &Path,
    what: impl FnOnce() -> String,
) -> anyhow::Result<ExitCode> {
    outcome.map_err(|error| match error {
        GenerateError::Io { .. } => error.into(),
        error => bad_input(error),
    })?;
    eprintln!("{}: {}", path.display(), what());
    Ok(ExitCode::SUCCESS)
}
