//! `kqps gen`: zones and query files from a recipe and its seed, captures of queries, and queries of captures.

mod capture;
mod flags;
mod from_capture;
mod internet;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use kqps_recipe::{Expect, GenerateError, Recipe, RecipeError};
use kqps_testbed::signing::{self, SigningError};
use kqps_testbed::words::counted;

use crate::captured::CapturedArgs;
use crate::exit::bad_input;
use crate::value::{parse_count, parse_seed, parse_share};
use flags::{NamesArgs, Popular, WeightedType};

const EXAMPLES: &str = "\
Examples:
  kqps gen zone --origin bench.test --records 100k -o bench.zone
  kqps gen queries --origin bench.test --records 100k -n 1M -o bench.queries
  kqps gen capture -d bench.queries -Q 10k --clients 500 -o bench.pcap
  kqps gen recipe windows-mix";

const ZONE_EXAMPLES: &str = "\
Examples:
  kqps gen zone -o example.zone
  kqps gen zone --origin bench.test --records 1M --seed 7 -o bench.zone
  kqps gen zone --recipe windows-mix --set zones=10 --set records=10k -o zones/";

const QUERIES_EXAMPLES: &str = "\
Examples:
  kqps gen queries -n 1M -o example.queries
  kqps gen queries --origin bench.test --types A:60,AAAA:40 -o bench.queries
  kqps gen queries --recipe windows-mix --expect answers -n 500k -o mix.queries
  kqps gen queries --from traffic.pcap --expect answers -o traffic.queries";

const RECIPE_EXAMPLES: &str = "\
Examples:
  kqps gen recipe
  kqps gen recipe windows-mix";

/// Generate zones and query files from a recipe and its seed, or captures and queries from each other
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Zone(ZoneArgs),
    Queries(Box<QueriesArgs>),
    Capture(capture::CaptureArgs),
    Internet(internet::GenInternetArgs),
    Recipe(RecipeArgs),
}

/// Write the zones of a recipe, or one zone of address records
#[derive(clap::Args)]
#[command(after_help = ZONE_EXAMPLES)]
struct ZoneArgs {
    #[command(flatten)]
    names: NamesArgs,

    /// Write this file, or for several zones this folder; it appears whole or not at all
    #[arg(short = 'o', long, value_name = "FILE|DIR", help_heading = "Output")]
    output: PathBuf,
}

/// Write a query file for generated zones, named by the same flags as for `kqps gen zone`, or for a capture
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(after_help = QUERIES_EXAMPLES)]
struct QueriesArgs {
    #[command(flatten)]
    names: NamesArgs,

    /// Write the queries of this capture, in its order
    ///
    /// A line has no client, time or transport, and of a query's flags and EDNS it has the DO bit alone. `kqps load -d`
    /// plays the capture itself.
    #[arg(long, value_name = "FILE", conflicts_with_all = GENERATED, help_heading = "Captures")]
    from: Option<PathBuf>,

    #[command(flatten)]
    captured: CapturedArgs,

    /// How many queries
    #[arg(short = 'n', long, value_parser = parse_count, default_value = "1M", help_heading = "Queries")]
    count: u64,

    /// The share of names that are not in the zone (default, without a recipe: 5%)
    #[arg(long, value_name = "SHARE", value_parser = parse_share, conflicts_with = "recipe", help_heading = "Queries")]
    nxdomain: Option<f64>,

    /// Ask for these types, each with its weight, such as A:60,AAAA:40 (default: the recipe's, or A)
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Queries")]
    types: Option<Vec<WeightedType>>,

    /// How often each name is asked: uniform, zipf:S or ranks:FILE (default: the recipe's, or uniform)
    ///
    /// With zipf:S the n-th name is asked 1/n^S times as often as the first. With ranks:FILE its weight is the number
    /// at the beginning of line n of the file.
    #[arg(long, value_name = "HOW", help_heading = "Queries")]
    popularity: Option<Popular>,

    /// How much of each right answer to write: nothing, rcode, or answers (default: the recipe's, or rcode)
    ///
    /// With answers it is the rcode and a digest of the answer. Of a capture's answers the file has nothing by default.
    #[arg(long, value_name = "WHAT", value_parser = flags::parse_expect, help_heading = "Queries")]
    expect: Option<Expect>,

    /// Leave the expected rcode out, as for an echo, which answers NOERROR to everything
    #[arg(long, conflicts_with = "expect", help_heading = "Queries")]
    no_expected: bool,

    /// The seed of the queries (default: the recipe's, or 1)
    #[arg(long, value_name = "SEED", value_parser = parse_seed, help_heading = "Queries")]
    query_seed: Option<u64>,

    /// Write this file; it appears whole or not at all
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    output: PathBuf,
}

/// The flags of generated queries, which say nothing of captured ones.
const GENERATED: [&str; 12] = [
    "recipe",
    "set",
    "origin",
    "records",
    "label_length",
    "seed",
    "count",
    "nxdomain",
    "types",
    "popularity",
    "no_expected",
    "query_seed",
];

/// Print a built-in recipe, as a start for your own; without a name, list them
#[derive(clap::Args)]
#[command(after_help = RECIPE_EXAMPLES)]
struct RecipeArgs {
    /// The recipe's name
    name: Option<String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Zone(args) => zone(&args),
        What::Queries(args) => queries(*args),
        What::Capture(args) => capture::run(&args),
        What::Internet(args) => internet::run(&args),
        What::Recipe(args) => recipe(args.name.as_deref()),
    }
}

fn zone(args: &ZoneArgs) -> anyhow::Result<ExitCode> {
    let recipe = args.names.recipe()?;
    let output = &args.output;
    let ends_as_folder = output.as_os_str().as_encoded_bytes().ends_with(b"/");
    let written = if !recipe.is_one_zone() || output.is_dir() || ends_as_folder {
        signing::zones(&recipe, output)
    } else {
        signing::zone(&recipe, output)
    };
    written.map_err(|error| match error {
        SigningError::Generate(error) => with_its_status(error),
        error => error.into(),
    })?;
    eprintln!("{}: {}", output.display(), words(&recipe));
    Ok(ExitCode::SUCCESS)
}

/// The contents of a recipe's zones, in words.
fn words(recipe: &Recipe) -> String {
    let what =
        if recipe.contents == kqps_recipe::Contents::default() { "address records" } else { "entries" };
    let signed = if recipe.signing.is_some() { ", signed" } else { "" };
    let records = recipe.records;
    if recipe.is_one_zone() {
        return format!("{records} {what} under {}{signed}", recipe.origin);
    }
    let broken = match recipe.broken {
        0 => String::new(),
        broken => format!(", and {broken} that do not load"),
    };
    format!("{} zones of {records} {what} under {}{signed}{broken}", recipe.zones, recipe.origin)
}

fn queries(args: QueriesArgs) -> anyhow::Result<ExitCode> {
    if let Some(capture) = &args.from {
        return from_capture::write(capture, &args.captured, args.expect, &args.output);
    }
    if let Some(flag) = args.captured.given() {
        return Err(bad_input(format!("{flag} is for captures: name one with --from FILE")));
    }
    let mut recipe = args.names.recipe()?;
    let asked = &mut recipe.queries;
    if args.names.recipe.is_none() {
        let nxdomain = args.nxdomain.unwrap_or(0.05);
        asked.outcomes.noerror = 1.0 - nxdomain;
        asked.outcomes.nxdomain = nxdomain;
    }
    if let Some(types) = args.types {
        asked.types = types.into_iter().map(|WeightedType(qtype, weight)| (qtype, weight)).collect();
        asked.positive_types.clear();
    }
    if let Some(Popular(popularity)) = args.popularity {
        asked.popularity = popularity;
    }
    let nothing = args.no_expected.then_some(Expect::Nothing);
    asked.expect = args.expect.or(nothing).unwrap_or(asked.expect);
    asked.seed = args.query_seed.unwrap_or(asked.seed);
    kqps_recipe::queries(&recipe, args.count, &args.output).map_err(with_its_status)?;
    let queries = counted(args.count, "query");
    eprintln!("{}: {queries} for names under {}", args.output.display(), recipe.origin);
    Ok(ExitCode::SUCCESS)
}

fn recipe(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let Some(name) = name else {
        for name in kqps_recipe::recipe_names() {
            let recipe = Recipe::named(name, &[]).map_err(bad_input)?;
            println!("{name:<18}{}", recipe.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let (_, text) = kqps_recipe::recipe_text(name).ok_or_else(|| bad_input(RecipeError::unknown(name)))?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

/// Errors of the system end with status 1, errors in the user's recipe or flags with 2.
fn with_its_status(error: GenerateError) -> anyhow::Error {
    match error {
        GenerateError::Io { .. } => error.into(),
        error => bad_input(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_described_in_words() {
        let recipe = Recipe { records: 7, ..Recipe::default() };
        assert_eq!(words(&recipe), "7 address records under example.test");
        let mix = Recipe::named("windows-mix", &["zones=10".into()]).unwrap();
        assert_eq!(words(&mix), "10 zones of 10000 entries under windows.test, and 1 that do not load");
        let root = Recipe::named("root", &[]).unwrap();
        assert_eq!(words(&root), "1500 entries under ., signed");
    }
}
