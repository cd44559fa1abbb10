//! `kqps export`: the data behind the tables and charts of a run's page, as CSV or JSON.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use kqps_report::{Sheet, load_sheets, sheets};
use kqps_verdict::judge::judge;

use crate::exit::bad_input;
use crate::load::keep;
use crate::other_run;
use crate::print;
use crate::run::named;
use crate::stored;

const EXAMPLES: &str = "\
Examples:
  kqps export kqps-runs/20261121T220507Z-default --list
  kqps export kqps-runs/20261121T220507Z-default --out data
  kqps export kqps-runs/new --beside kqps-runs/old --table beside
  kqps export kqps-runs/20261121T220507Z-default --format json >all.json";

/// Write the data behind the tables and charts of a run's page, as CSV or JSON
///
/// Every table has one row for each cell, start, trial and so on. The name of a column ends with its unit. A figure that
/// is refused is empty, and the column absence says why. docs/EXPORT.md describes the tables.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder of a run, as `kqps run` named it, or of a load (`kqps load --out`)
    #[arg(value_name = "DIR")]
    run: PathBuf,

    /// Write a file for each table into this folder (default: everything to stdout)
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// The format (default: csv with --out or one --table, else json)
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Export the figures of this other run beside those of the run (default: as `kqps report`)
    #[arg(long, value_name = "DIR")]
    beside: Option<PathBuf>,

    /// Write only this table (repeatable)
    #[arg(short, long = "table", value_name = "NAME")]
    tables: Vec<String>,

    /// List the tables with their number of rows, and write none
    #[arg(long, conflicts_with_all = ["out", "format", "tables"])]
    list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values (RFC 4180), the names of the columns first
    Csv,
    /// Objects, each row with the names of its columns
    Json,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let out = args.out.as_deref().map(named).transpose()?;
    let all = match keep::read(&args.run)? {
        Some(_) if args.beside.is_some() => {
            return Err(bad_input("--beside is for runs, and this is a load; leave it out"));
        }
        Some(load) => load_sheets(&load),
        None => of_run(args)?,
    };
    if args.list {
        for sheet in &all {
            println!("{:15} {:>6} rows: {}", sheet.name, sheet.rows.len(), sheet.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&all, &args.tables)?;
    let by_default = if args.out.is_some() || args.tables.len() == 1 { Format::Csv } else { Format::Json };
    let format = args.format.unwrap_or(by_default);
    match &out {
        Some(folder) => write(folder, &chosen, format)?,
        None => print!("{}", on_stdout(&chosen, format)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn of_run(args: &Args) -> anyhow::Result<Vec<Sheet>> {
    let run = stored::run_in(&args.run)?;
    let verdict = judge(&run);
    let beside = match &args.beside {
        Some(other) => Some(other_run::named(&run, &verdict, other, &args.run)?),
        None if may_have_beside(&args.tables) => other_run::known(&run, &verdict, &args.run, &args.run),
        None => None,
    };
    Ok(sheets(&run, &verdict, beside.as_ref()))
}

/// Whether a table of another run is wanted: the history, which may be long, is read for these alone.
fn may_have_beside(named: &[String]) -> bool {
    named.is_empty() || named.iter().any(|name| ["beside", "differences"].contains(&name.as_str()))
}

/// The tables that the user named, or all.
fn chosen<'a>(all: &'a [Sheet], named: &[String]) -> anyhow::Result<Vec<&'a Sheet>> {
    if named.is_empty() {
        return Ok(all.iter().collect());
    }
    let of_name = |name: &String| {
        all.iter().find(|sheet| sheet.name == name).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|sheet| sheet.name).collect();
            bad_input(format!("there is no table {name}; there are {}", names.join(", ")))
        })
    };
    named.iter().map(of_name).collect()
}

fn text(sheet: &Sheet, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Csv => sheet.csv(),
        Format::Json => print::to_json(&sheet.printed())? + "\n",
    })
}

fn write(folder: &Path, sheets: &[&Sheet], format: Format) -> anyhow::Result<()> {
    stored::make_folder(folder)?;
    let ending = match format {
        Format::Csv => "csv",
        Format::Json => "json",
    };
    for sheet in sheets {
        let file = folder.join(sheet.name).with_extension(ending);
        stored::write(&file, &text(sheet, format)?)?;
        println!("{}", file.display());
    }
    Ok(())
}

fn on_stdout(sheets: &[&Sheet], format: Format) -> anyhow::Result<String> {
    match (sheets, format) {
        ([one], _) => text(one, format),
        (several, Format::Json) => Ok(print::to_json(&Exported::new(several))? + "\n"),
        (several, Format::Csv) => Err(bad_input(format!(
            "{} tables do not fit into one CSV: choose one by --table, or a folder by --out",
            several.len()
        ))),
    }
}

/// All tables in one object.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Exported<'a> {
    /// The version of the tables' columns.
    schema: u32,
    /// Always `export`.
    kind: &'static str,
    /// The tables in the order of the run's page.
    tables: Vec<kqps_report::PrintedSheet<'a>>,
}

impl<'a> Exported<'a> {
    fn new(sheets: &[&'a Sheet]) -> Self {
        let tables = sheets.iter().map(|sheet| sheet.printed()).collect();
        Self { schema: kqps_report::SHEET_SCHEMA, kind: "export", tables }
    }
}
