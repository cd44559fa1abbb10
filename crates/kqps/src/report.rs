//! `kqps report`: writes the page of a stored run again, from the store alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use kqps_files::write_whole;
use kqps_history::{Side, Store as History, beside, run_before};
use kqps_lab::folder::store_in;
use kqps_observation::{Run, Store};
use kqps_verdict::judge::{RunVerdict, judge, judge_figures};

use crate::exit::bad_input;
use crate::run::words::{scaling, why};

/// The file name of the page in the run's folder.
const PAGE: &str = "report.html";

/// The file name of a history, in the folder of runs.
const HISTORY: &str = "history.sqlite";

const EXAMPLES: &str = "\
Examples:
  kqps report kqps-runs/20261121T220507Z-default
  kqps report kqps-runs/20261121T220507Z-default -o page.html
  kqps report kqps-runs/new --beside kqps-runs/old
  kqps report kqps-runs/20261121T220507Z-default --why";

/// Write the page of a run again: one HTML file that needs no other
///
/// If the history beside the run's folder (history.sqlite, see `kqps history add`) knows an earlier run of the same study,
/// the page has this run beside it. --beside names another one.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run's folder, as `kqps run` named it
    #[arg(value_name = "DIR")]
    run: PathBuf,

    /// Write the page to this file (default: report.html in the run's folder)
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,

    /// Put the figures of this other run beside those of the run
    #[arg(long, value_name = "DIR")]
    beside: Option<PathBuf>,

    /// Print how far servers scale and why each figure has its grade, after the path of the page
    #[arg(long)]
    why: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let store = store_in(&args.run).map_err(bad_input)?;
    let run = Store::read(&store).map_err(bad_input)?;
    let page = args.output.unwrap_or_else(|| args.run.join(PAGE));
    let verdict = judge(&run);
    let other = match &args.beside {
        Some(other) => Some(Store::read(&store_in(other).map_err(bad_input)?).map_err(bad_input)?),
        None => before(&args.run, &run),
    };
    write(&run, &verdict, other.as_ref(), &page)?;
    println!("{}", page.display());
    if args.why {
        print!("\n{}{}", scaling::of_run(&verdict), why::of(&run, &verdict));
    }
    Ok(ExitCode::SUCCESS)
}

/// The run before this one, if the history in the folder of both knows it and its folder is still there.
fn before(folder: &Path, run: &Run) -> Option<Run> {
    let folder = folder.canonicalize().ok()?;
    let records = History::read(&folder.parent()?.join(HISTORY)).ok()?;
    let entry = run_before(&records.entries, run)?;
    Store::read(&store_in(Path::new(&entry.folder)).ok()?).ok()
}

fn write(run: &Run, verdict: &RunVerdict, other: Option<&Run>, page: &Path) -> anyhow::Result<()> {
    let beside = other.map(|other| {
        let then = Side { run: other, verdict: &judge_figures(other) };
        beside(Side { run, verdict }, then)
    });
    let html = kqps_report::page_beside(run, verdict, beside.as_ref());
    write_whole(page, html.as_bytes()).with_context(|| format!("cannot write {}", page.display()))
}
