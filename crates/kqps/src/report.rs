//! `kqps report`: writes the page of a stored run again, from the store alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use kqps_files::write_whole;
use kqps_lab::folder::store_in;
use kqps_observation::{Run, Store};
use kqps_verdict::judge::{RunVerdict, judge};

use crate::exit::bad_input;
use crate::run::words::{scaling, why};

/// The file name of the page in the run's folder.
const PAGE: &str = "report.html";

const EXAMPLES: &str = "\
Examples:
  kqps report kqps-runs/20261121T220507Z-default
  kqps report kqps-runs/20261121T220507Z-default -o page.html
  kqps report kqps-runs/20261121T220507Z-default --why";

/// Write the page of a run again: one HTML file that needs no other
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run's folder, as `kqps run` named it
    #[arg(value_name = "DIR")]
    run: PathBuf,

    /// Write the page to this file (default: report.html in the run's folder)
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,

    /// Print how far servers scale and why each figure has its grade, after the path of the page
    #[arg(long)]
    why: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let store = store_in(&args.run).map_err(bad_input)?;
    let run = Store::read(&store).map_err(bad_input)?;
    let page = args.output.unwrap_or_else(|| args.run.join(PAGE));
    let verdict = judge(&run);
    write(&run, &verdict, &page)?;
    println!("{}", page.display());
    if args.why {
        print!("\n{}{}", scaling::of_run(&verdict), why::of(&run, &verdict));
    }
    Ok(ExitCode::SUCCESS)
}

fn write(run: &Run, verdict: &RunVerdict, page: &Path) -> anyhow::Result<()> {
    let html = kqps_report::page(run, verdict);
    write_whole(page, html.as_bytes()).with_context(|| format!("cannot write {}", page.display()))
}
