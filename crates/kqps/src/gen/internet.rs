//! Questions of clients for an Internet in a box, each with the rcode that a resolver must answer; or the tree of a capture.

use std::path::PathBuf;
use std::process::ExitCode;

use kqps_files::whole::whole;
use kqps_testbed::internet::question_line;
use kqps_testbed::words::counted;

use super::capture::unwritable;
use super::tree;
use crate::captured::CapturedArgs;
use crate::exit::bad_input;
use crate::internet_args::InternetArgs;
use crate::value::parse_count;

const EXAMPLES: &str = "\
Examples:
  kqps gen internet -n 100k -o clients.queries
  kqps gen internet --size large -n 1M -o clients.queries
  kqps gen internet --size small --set zone.signed=0.5 -n 10k -o clients.queries
  kqps gen internet -d upstream.pcap -o seen";

/// Write a query file for a resolver in front of `kqps serve internet`, which has the same flags, or the tree of a capture
///
/// Names are drawn by popularity. Each line has the rcode and the digest of the answer that a resolver must give if no server
/// makes a fault, so `kqps load -d` counts other answers as wrong. With -d a capture of what a resolver asked of name servers
/// becomes the tree that `kqps serve internet --tree` serves.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::doc_markdown)] // the comments are the help text
pub(super) struct GenInternetArgs {
    #[command(flatten)]
    internet: InternetArgs,

    /// Write the tree that a resolver saw, from its traffic with name servers: pcap, pcapng or dnstap
    ///
    /// Each server has the zones and the median delay that its replies show. What no reply shows is filled in by rule, and
    /// printed. Zones are not signed, since the signatures of the capture would have expired. Of dnstap the RESOLVER_RESPONSE
    /// frames count.
    #[arg(short = 'd', long = "from", value_name = "CAPTURE", conflicts_with_all = ["recipe", "size", "set", "seed", "count"], help_heading = "Captures")]
    from: Option<PathBuf>,

    #[command(flatten)]
    captured: CapturedArgs,

    /// Ask for the AD bit, and expect it in answers from signed zones: for a resolver that validates
    #[arg(long, conflicts_with = "from", help_heading = "Queries")]
    ad: bool,

    /// How many queries
    #[arg(short = 'n', long, value_parser = parse_count, default_value = "1M", help_heading = "Queries")]
    count: u64,

    /// Write this file, or for -d this folder; it appears whole or not at all
    #[arg(short = 'o', long, value_name = "FILE|DIR", help_heading = "Output")]
    output: PathBuf,
}

pub(super) fn run(args: &GenInternetArgs) -> anyhow::Result<ExitCode> {
    if let Some(capture) = &args.from {
        return tree::write(capture, &args.captured, &args.output);
    }
    if let Some(flag) = args.captured.given() {
        return Err(bad_input(format!("{flag} is of a capture: give one by -d")));
    }
    let internet = args.internet.internet()?;
    whole(&args.output, |out| {
        for number in 0..args.count {
            out.write_all(question_line(&internet, &internet.question(number), args.ad).as_bytes())?;
        }
        Ok(())
    })
    .map_err(unwritable(&args.output))?;
    let (queries, zones) = (counted(args.count, "query"), counted(internet.zones(), "zone"));
    eprintln!("{}: {queries} for an Internet of {zones}", args.output.display());
    Ok(ExitCode::SUCCESS)
}
