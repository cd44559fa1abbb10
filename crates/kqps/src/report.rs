//! `kqps report`: writes the page of a stored run again, from the store alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kqps_report::LoadInput;
use kqps_verdict::judge::judge;

use crate::exit::bad_input;
use crate::load::keep;
use crate::other_run::{self, PAGE};
use crate::run::words::{scaling, why};
use crate::stored;

const EXAMPLES: &str = "\
Examples:
  kqps report kqps-runs/20261121T220507Z-default
  kqps report kqps-runs/new --beside kqps-runs/old
  kqps report kqps-runs/20261121T220507Z-default --why
  kqps report udp tcp tls -o transports.html";

/// Write the page of a run again: one HTML file that needs no other
///
/// If the history (history.sqlite beside the run's folder, else the default one, see `kqps history add`) knows an earlier
/// run of the same study, the page shows that earlier run beside this one. Runs on the same host are preferred. --beside
/// names another run.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run's folder, as `kqps run` named it, or folders of `kqps load --out` for one chart
    #[arg(value_name = "DIR", required = true)]
    runs: Vec<PathBuf>,

    /// Write the page to this file (default: report.html in the first folder)
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
    let loads: Vec<Option<LoadInput>> =
        args.runs.iter().map(|folder| keep::read(folder)).collect::<Result<_, _>>()?;
    let first = &args.runs[0];
    let page = args.output.unwrap_or_else(|| first.join(PAGE));
    if loads.iter().any(Option::is_some) || args.runs.len() > 1 {
        return of_loads(&args.runs, loads, &page, args.beside.is_some() || args.why);
    }
    let run = stored::run_in(first)?;
    let verdict = judge(&run);
    let from = page.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = match &args.beside {
        Some(other) => Some(other_run::named(&run, &verdict, other, from)?),
        None => other_run::known(&run, &verdict, first, from),
    };
    let html = kqps_report::page_beside(&run, &verdict, beside.as_ref());
    stored::write(&page, &html)?;
    println!("{}", page.display());
    if args.why {
        print!("\n{}{}", scaling::of_run(&run, &verdict), why::text(&run, &verdict));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of loads.
fn of_loads(
    folders: &[PathBuf],
    loads: Vec<Option<LoadInput>>,
    page: &Path,
    has_flags_of_runs: bool,
) -> anyhow::Result<ExitCode> {
    let mut found = Vec::new();
    for (folder, load) in folders.iter().zip(loads) {
        let missing = || {
            let folder = folder.display();
            bad_input(format!("{folder} holds no load: several folders are those of `kqps load --out`"))
        };
        found.push(load.ok_or_else(missing)?);
    }
    if has_flags_of_runs {
        return Err(bad_input("--beside and --why are for runs, and not for loads"));
    }
    stored::write(page, &keep::page_of(&found))?;
    println!("{}", page.display());
    Ok(ExitCode::SUCCESS)
}
