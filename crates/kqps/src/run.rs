//! `kqps run`: the default study or another one, from laying it out to the page that tells what came of it.

mod plan;
mod progress;
pub(crate) mod repeat;
pub(crate) mod subjects;
mod words;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kqps_dataset::generate::RECORDS_MAX;
use kqps_lab::budget::Spending;
use kqps_lab::comparison;
use kqps_lab::conduct::Conducted;
use kqps_lab::layout::lay_out;
use kqps_lab::session::{LabError, Session, Wish};
use kqps_lab::setup::Setup;
use kqps_lab::study_file::{self, StudyFile};
use kqps_lab::subject::Definition;
use kqps_lab::toml_file::{did_you_mean, nearest};
use kqps_observation::Run;
use kqps_verdict::judge::{RunVerdict, judge};
use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::exit::{self, bad_input};
use crate::signals;
use crate::value::{parse_count, parse_duration};
use progress::Progress;

/// Measure this machine: the echo under each I/O model and every name server that is installed, or a study
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// A study's file, or the name of one that kqps carries; without one, the default study
    #[arg(value_name = "STUDY.toml")]
    study: Option<PathBuf>,

    /// Say what would be measured, in which order and how long it takes, and measure nothing
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,

    /// The folder of the run (default: kqps-runs/TIME-STUDY)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Go on with the run in --out, or with the newest one that is unfinished
    #[arg(long, conflicts_with_all = ["study", "budget", "seed", "subject", "command", "echo", "records"])]
    resume: bool,

    /// How long it may take (default: 2m, or what the study takes)
    #[arg(long, value_parser = parse_duration)]
    budget: Option<Duration>,

    /// The seed of every random choice (default: another one every time)
    #[arg(long)]
    seed: Option<u64>,

    /// Measure this subject only: nsd, knot, bind, pdns, unbound, pdns-recursor, dnsdist, kqps-auth, front, or a
    /// definition such as ./mine.toml (repeatable; default: nsd, knot, bind)
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "study")]
    subject: Vec<String>,

    /// Measure a server that is started like this: 'my-server -p {port} -z {zone}' (repeatable)
    #[arg(long, value_name = "WORDS", long_help = COMMAND_HELP, conflicts_with = "study")]
    command: Vec<String>,

    /// Measure the echo under these I/O models only, such as mmsg,segment
    #[arg(long, value_name = "MODELS", value_delimiter = ',', conflicts_with = "study")]
    echo: Vec<String>,

    /// Records of the generated zone (default: 100k, or what the study says, whose words then do not tell it)
    #[arg(long, value_parser = parse_count)]
    records: Option<u64>,

    /// Print the verdict as one JSON object
    #[arg(long)]
    json: bool,
}

const COMMAND_HELP: &str = "\
Measure a server that is started like this: 'my-server -p {port} -z {zone}' (repeatable)

The words are split as a shell would, and it must stay in the foreground. {address} and {port} are where it
listens and {endpoint} both in one, {zone} is the zone's master file and {origin} its name, {workers} how many
workers it has, {cpus} its cores, {dir} a folder for its state. One that is told the zone must serve it; any other
may answer anything.";

const RECORDS: u64 = 100_000;

/// Where runs lie, unless told otherwise.
const RUNS: &str = "kqps-runs";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    if args.dry_run {
        return dry_run(args);
    }
    let mut session = if args.resume { resume(args)? } else { begin(args, began)? };
    let mut progress = Progress::new(session.run());
    let interrupts = signals::in_order();
    let conducted = session.conduct(interrupts, &mut |event| progress.tell(event));
    progress.end();
    let go_on = format!("kqps run --resume --out {}", session.folder().path().display());
    let conducted = conducted.with_context(|| format!("what was measured is stored; to go on: {go_on}"))?;
    let verdict = judge(session.run());
    let page = write_page(&session, &verdict);
    tell(args, &session, &verdict, page.as_deref().ok(), conducted)?;
    page?;
    match conducted {
        Conducted::Interrupted => {
            eprintln!("Interrupted; what was measured is stored. To go on: {go_on}");
            Ok(ExitCode::from(exit::COULD_NOT))
        }
        Conducted::Whole if words::is_refused(&verdict) => Ok(ExitCode::from(exit::REFUSED)),
        Conducted::Whole => Ok(ExitCode::SUCCESS),
    }
}

/// Writes the page of a run, and tells where it lies. Without it the verdict can be told all the same.
pub(crate) fn write_page(session: &Session, verdict: &RunVerdict) -> anyhow::Result<PathBuf> {
    let (folder, page) = (session.folder(), kqps_report::page(session.run(), verdict));
    let report = folder.report();
    folder.write(&report, page.as_bytes()).with_context(|| {
        format!("what was measured is stored; to make its page: kqps report {}", folder.path().display())
    })?;
    Ok(report)
}

fn begin(args: &Args, began: Instant) -> anyhow::Result<Session> {
    let mut wish = wish(args)?;
    // Installing is no part of measuring, and not paid for by the budget.
    let installing = Instant::now();
    let definitions: Vec<Definition> =
        wish.subjects.iter().map(|(_, definition)| definition.clone()).collect();
    let interrupts = signals::in_order();
    subjects::install_missing(&definitions, interrupts);
    anyhow::ensure!(!interrupts.is_asked(), "interrupted before anything was measured");
    signals::at_once();
    wish.folder = match &args.out {
        Some(folder) => folder.clone(),
        None => default_folder(wish.study.as_ref().map_or(kqps_lab::study::NAME, |study| &study.name))?,
    };
    let (session, spending) = Session::begin(&wish, began + installing.elapsed()).map_err(told)?;
    announce(&session, &spending);
    Ok(session)
}

/// Lays out what would be measured, and prints it.
fn dry_run(args: &Args) -> anyhow::Result<ExitCode> {
    let wish = wish(args)?;
    let laid_out = lay_out(&wish).map_err(told)?;
    io::stdout().lock().write_all(plan::of(&wish, &laid_out, args.json)?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A slip in a file or in the arguments is bad input; anything else could not be run.
fn told(error: LabError) -> anyhow::Error {
    match error {
        LabError::Study(_) | LabError::File(_) | LabError::SameName { .. } => bad_input(error),
        other => other.into(),
    }
}

/// What the arguments ask for, but for its folder.
fn wish(args: &Args) -> anyhow::Result<Wish> {
    let records = args.records.unwrap_or(RECORDS);
    if !(1..=RECORDS_MAX).contains(&records) {
        return Err(bad_input(format!("--records {records}: expected 1 to {RECORDS_MAX}")));
    }
    if args.budget.is_some_and(|budget| budget.is_zero()) {
        return Err(bad_input("--budget 0: nothing could be measured"));
    }
    let study = args.study.as_deref().map(study).transpose()?;
    let subjects = if let Some(study) = &study {
        study.subjects().map_err(bad_input)?
    } else {
        let chosen = subjects::chosen(&args.subject, &args.command)?;
        chosen.into_iter().map(|definition| (definition.name.clone(), definition)).collect()
    };
    let seed = args.seed.unwrap_or_else(random_seed);
    Ok(Wish {
        folder: PathBuf::new(),
        study,
        subjects,
        models: subjects::models(&args.echo)?,
        budget_s: args.budget.map(|budget| budget.as_secs_f64()),
        seed,
        records,
        command: repeat::repeating(repeat::typed(), seed),
        kqps: std::env::current_exe().context("finding the running program")?,
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// A study by its file, or by its name if kqps carries it.
fn study(path: &Path) -> anyhow::Result<StudyFile> {
    let name = path.to_string_lossy();
    if !path.exists() && !name.contains(['.', '/']) {
        let known = study_file::builtin_names();
        let near = did_you_mean(nearest(&name, &known));
        return study_file::builtin(&name).ok_or_else(|| {
            bad_input(format!("no study is called `{name}`{near} (known: {}, or a file)", known.join(", ")))
        });
    }
    StudyFile::open(path).map_err(bad_input)
}

fn resume(args: &Args) -> anyhow::Result<Session> {
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => newest_run()
            .ok_or_else(|| bad_input(format!("no run in {RUNS}/ to resume; name it with --out DIR")))?,
    };
    let session = Session::resume(&folder, std::env::current_exe().context("finding the running program")?)?;
    let run = session.run();
    if run.study == comparison::NAME {
        return Err(bad_input(format!(
            "{} holds a comparison; go on with it by: kqps compare --resume --out {0}",
            folder.display()
        )));
    }
    eprintln!(
        "Going on with the run in {}: {} trials are stored, {} blocks of {} cells are planned.",
        folder.display(),
        run.trials.len(),
        run.blocks,
        run.cells.len()
    );
    Ok(session)
}

/// Says what will be done and how long it takes.
fn announce(session: &Session, spending: &Spending) {
    let run = session.run();
    let names: Vec<&str> = run.cells.iter().map(|cell| cell.name.as_str()).collect();
    match &run.question {
        Some(question) => eprintln!("{}: {} cells.", question.title, names.len()),
        None => eprintln!("Measuring {}.", names.join(", ")),
    }
    for (what, reason) in &run.skipped {
        eprintln!("Left out: {what}: {reason}.");
    }
    eprintln!(
        "{} {} in random order, goal `{}`, replies late after {} ms{}: about {:.0} s{}.",
        spending.blocks,
        if spending.blocks == 1 { "block" } else { "blocks" },
        spending.goal,
        Setup::MANY_FLOWS.timeout_s * 1e3,
        if spending.latency { ", then latency by load" } else { "" },
        spending.estimate_s,
        budget_words(run)
    );
    if spending.over_budget {
        eprintln!("That is more than the budget, but less than one block would measure nothing.");
    }
    eprintln!("Everything of this run lies in {}.", session.folder().path().display());
}

fn budget_words(run: &Run) -> String {
    run.budget_s.map(|budget_s| format!(" of the {budget_s:.0} s budget")).unwrap_or_default()
}

fn tell(
    args: &Args,
    session: &Session,
    verdict: &RunVerdict,
    report: Option<&Path>,
    conducted: Conducted,
) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        let told = Told {
            schema: kqps_observation::SCHEMA,
            kind: "run",
            interrupted: conducted == Conducted::Interrupted,
            folder: session.folder().path(),
            report,
            verdict,
        };
        serde_json::to_writer(&mut out, &told)?;
        writeln!(out)?;
    } else {
        out.write_all(words::of(session.run(), verdict, report).as_bytes())?;
    }
    Ok(())
}

/// What `--json` prints.
#[derive(Serialize)]
struct Told<'a> {
    schema: u32,
    kind: &'static str,
    interrupted: bool,
    folder: &'a Path,
    /// None where it could not be written.
    report: Option<&'a Path>,
    verdict: &'a RunVerdict,
}

/// `kqps-runs/20261121T220507Z-default`.
pub(crate) fn default_folder(study: &str) -> anyhow::Result<PathBuf> {
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    let now = OffsetDateTime::now_utc().format(form).context("writing the time")?;
    Ok(Path::new(RUNS).join(format!("{now}-{study}")))
}

/// The newest run that is unfinished, comparisons apart; names of default folders sort by time.
fn newest_run() -> Option<PathBuf> {
    let folders = std::fs::read_dir(RUNS).ok()?.flatten().map(|entry| entry.path());
    let unfinished = |folder: &PathBuf| {
        kqps_observation::Store::read(&folder.join("run.sqlite"))
            .is_ok_and(|run| run.finished_unix_ms.is_none() && run.study != comparison::NAME)
    };
    folders.filter(unfinished).max()
}

pub(crate) fn random_seed() -> u64 {
    OffsetDateTime::now_utc().unix_timestamp_nanos() as u64
}
