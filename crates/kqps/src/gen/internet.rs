//! Questions of clients for an Internet in a box, each with the rcode that a resolver must answer.

use std::path::PathBuf;
use std::process::ExitCode;

use kqps_files::whole::whole;
use kqps_testbed::words::counted;

use super::capture::unwritable;
use crate::internet_args::InternetArgs;
use crate::value::parse_count;

const EXAMPLES: &str = "\
Examples:
  kqps gen internet -n 100k -o clients.queries
  kqps gen internet --size large -n 1M -o clients.queries
  kqps gen internet --size small --set zone.signed=0.5 -n 10k -o clients.queries";

/// Write a query file for a resolver in front of `kqps serve internet`, which has the same flags
///
/// Names are drawn by popularity. Each line has the rcode that a resolver must answer if no server makes a fault, so
/// `kqps load -d` counts other answers as wrong.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::doc_markdown)] // the comments are the help text
pub(super) struct GenInternetArgs {
    #[command(flatten)]
    internet: InternetArgs,

    /// How many queries
    #[arg(short = 'n', long, value_parser = parse_count, default_value = "1M", help_heading = "Queries")]
    count: u64,

    /// Write this file; it appears whole or not at all
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    output: PathBuf,
}

pub(super) fn run(args: &GenInternetArgs) -> anyhow::Result<ExitCode> {
    let internet = args.internet.internet()?;
    whole(&args.output, |out| {
        for number in 0..args.count {
            out.write_all(internet.question_line(&internet.question(number)).as_bytes())?;
        }
        Ok(())
    })
    .map_err(unwritable(&args.output))?;
    let (queries, zones) = (counted(args.count, "query"), counted(internet.zones(), "zone"));
    eprintln!("{}: {queries} for an Internet of {zones}", args.output.display());
    Ok(ExitCode::SUCCESS)
}
