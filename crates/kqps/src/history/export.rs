//! `kqps history export`: the history for other programs.

mod bmf;
mod csv;
pub(super) mod markdown;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use kqps_history::{LAST, judge};

use super::StoreArgs;
use super::checked::all_changes;
use crate::stored;

const EXAMPLES: &str = "\
Examples:
  kqps history export markdown >comment.md
  kqps history export bmf -o results.json
  kqps history export csv -o history.csv";

/// Write the history for other programs
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The format
    #[arg(value_name = "FORMAT")]
    format: Format,

    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Changes and levels, for a comment on a merge request
    Markdown,
    /// The newest run in Bencher Metric Format (JSON)
    Bmf,
    /// Every figure of every run, a row each
    Csv,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let records = args.store.read()?;
    let text = match args.format {
        Format::Markdown => {
            let history = judge(&records);
            markdown::comment(&records, &history, &all_changes(&history, LAST), history.too_few(LAST))
        }
        Format::Bmf => bmf::json(&records)?,
        Format::Csv => csv::text(&records),
    };
    match &args.output {
        None => print!("{text}"),
        Some(path) => stored::write(path, &text)?,
    }
    Ok(ExitCode::SUCCESS)
}
