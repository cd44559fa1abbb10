//! `kqps history page`: writes the page of the history.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kqps_history::judge;
use kqps_report::{HistoryInput, history_page};

use super::StoreArgs;
use crate::links;
use crate::stored;

const EXAMPLES: &str = "\
Examples:
  kqps history page
  kqps history page -o public/history.html";

/// Write the page of the history: one HTML file without scripts, with links to the pages of the runs
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Write the page to this file (default: history.html beside the history)
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let records = args.store.read()?;
    let page = args.output.clone().unwrap_or_else(|| args.store.path().with_extension("html"));
    let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let html = history_page(HistoryInput {
        records: &records,
        history: &judge(&records),
        links: &links::to_pages(&records.entries, folder),
        kqps_version: env!("CARGO_PKG_VERSION"),
    });
    stored::write(&page, &html)?;
    println!("{}", page.display());
    Ok(ExitCode::SUCCESS)
}
