//! `kqps run`: plays the default study or another one, from its layout to the page with its results.

pub(crate) mod announce;
pub(crate) mod connections;
mod hosts;
mod install;
pub(crate) mod labels;
pub(crate) mod left_out;
mod place;
pub(crate) mod plan;
mod progress;
pub(crate) mod repeat;
mod silent;
pub(crate) mod subjects;
pub(crate) mod targets;
pub(crate) mod time_left;
mod view;
pub(crate) mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_history::Beside;
use kqps_lab::comparison;
use kqps_lab::conduct::Conducted;
use kqps_lab::configured::Configured;
use kqps_lab::error::LabError;
use kqps_lab::layout::lay_out;
use kqps_lab::request::RunRequest;
use kqps_lab::session::{self, Session};
use kqps_lab::study_file::{self, StudyFile};
use kqps_observation::visible::visible_line;
use kqps_recipe::RECORDS_MAX;
use kqps_testbed::folder::store_in;
use kqps_testbed::words::counted;
use kqps_verdict::judge::{RunVerdict, judge};
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use crate::exit::{self, bad_input};
use crate::live::{LiveArgs, Views};
use crate::other_run;
use crate::print;
use crate::signals;
use crate::value::{parse_count, parse_duration, parse_seed};
use progress::Progress;
use targets::{TargetArgs, Targets};
use time_left::TimeLeft;
use view::RunView;

pub(crate) use place::{Resumed, default_folder, named, resumed, runs as runs_folder};

const EXAMPLES: &str = "\
Examples:
  kqps run --budget 5m --subject nsd --subject ./mine.toml --live 8080
  kqps run --command 'my-server -p {port} -z {zone}' --records 1M --out mine
  kqps run --target tcp://127.0.0.1:5300 -d my.queries -a 127.1.0.0/16
  kqps run --resume --out mine";

/// Measure this machine: the echo, and NSD, Knot DNS and BIND if installed; or a study
///
/// kqps measures the echo under each I/O model. The echo's rate is the ceiling of the servers.
#[derive(clap::Args, Default)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct Args {
    /// A study's file, or the name of a built-in study (default: the default study)
    #[arg(value_name = "STUDY.toml", conflicts_with = "connections_to_targets")]
    study: Option<PathBuf>,

    /// Print what would be measured, in which order and for how long, and measure nothing
    #[arg(long, conflicts_with = "resume", help_heading = "The run")]
    dry_run: bool,

    /// The folder of the run (default: TIME-STUDY in kqps-runs/, if that exists, or ~/.local/share/kqps/runs/)
    #[arg(long, value_name = "DIR", help_heading = "The run")]
    out: Option<PathBuf>,

    /// Resume the run in --out, or the newest unfinished one
    #[arg(long, conflicts_with_all = ["hosts", "budget", "seed", "subject", "command", "echo", "records", "target", "queries", "connections_to_targets"], help_heading = "The run")]
    resume: bool,

    /// How long the run may take (default: 2m, or what the study takes)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "The run")]
    budget: Option<Duration>,

    /// The seed of every random choice (default: another one every time)
    #[arg(long, value_name = "SEED", value_parser = parse_seed, help_heading = "The run")]
    seed: Option<u64>,

    /// Measure only this subject, such as nsd or ./mine.toml (repeatable; default: nsd, knot, bind)
    ///
    /// kqps knows nsd, knot, bind, pdns, unbound, pdns-recursor, dnsdist, kqps-auth, kqps-cache, front and echo, and
    /// the resolvers unbound-resolver, bind-resolver, pdns-resolver and knot-resolver.
    /// Settings may follow, as in 'echo io=uring workers=2'.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "study", help_heading = "What is measured")]
    subject: Vec<String>,

    /// Measure a server that is started like this: 'my-server -p {port} -z {zone}' (repeatable)
    #[arg(long, value_name = "WORDS", long_help = COMMAND_HELP, conflicts_with = "study", help_heading = "What is measured")]
    command: Vec<String>,

    #[command(flatten)]
    targets: TargetArgs,

    /// Measure the echo under these I/O models only, such as mmsg,segment
    #[arg(
        long,
        value_name = "MODELS",
        value_delimiter = ',',
        conflicts_with = "study",
        help_heading = "What is measured"
    )]
    echo: Vec<String>,

    /// Records of the generated zone (default: 100k, or what the study says)
    #[arg(long, value_name = "COUNT", value_parser = parse_count, help_heading = "What is measured")]
    records: Option<u64>,

    /// Start subjects on one host and play from others, by a hosts' file or an Ansible inventory
    ///
    /// A TOML file has one [server] and a [[player]] for each host that plays. kqps starts `kqps agent` on each of them
    /// by the command that the file gives, such as ssh, and divides every load among the players. docs/HOSTS.md shows
    /// it for ssh, Ansible, Slurm and Kubernetes.
    #[arg(long, value_name = "FILE", conflicts_with = "target", help_heading = "Several hosts")]
    hosts: Option<PathBuf>,

    /// Bring this kqps to the hosts and use it there, instead of the one that they have
    ///
    /// It must be a static program, and lies in ~/.cache/kqps there afterwards. With --resume the hosts are those of
    /// the run.
    #[arg(long, help_heading = "Several hosts")]
    push: bool,
    /// Show where the servers' time goes: in which functions, and waiting for which locks
    ///
    /// In the first block, further trials of each server and of its echo are sampled. They are in no figure. `kqps
    /// probe` says which rights this needs; without them kqps reads /proc, which shows less.
    #[arg(long, conflicts_with = "resume", help_heading = "What is measured")]
    profile: bool,

    #[command(flatten)]
    live: LiveArgs,

    /// Do not install missing name servers
    ///
    /// Only a run from a checkout, as root on Debian, installs any.
    #[arg(long, help_heading = "The run")]
    no_install: bool,

    /// Print bounds, ceilings and all reasons for each grade, and not just the advice
    ///
    /// `kqps report DIR --why` prints them for a finished run.
    #[arg(long, conflicts_with = "dry_run", help_heading = "Output")]
    why: bool,

    /// Print the verdict as one JSON object, which has all reasons
    #[arg(long, help_heading = "Output")]
    json: bool,
}

const COMMAND_HELP: &str = "\
Measure a server that is started like this: 'my-server -p {port} -z {zone}' (repeatable)

The words are split as a shell would, and the server must stay in the foreground. {address} and {port} are where it \
listens, {endpoint} is both in one; {zone} is the zone's master file and {origin} its name; {workers} is how many \
workers it has, {cpus} its cores, and {dir} a folder for its state. A server whose command has {zone} or {origin} must \
serve that zone; any other may answer anything.";

const RECORDS: u64 = 100_000;

/// `kqps` without a command. It first prints what it will do, where it writes, and how to see the other
/// commands.
pub(crate) fn alone(no_install: bool) -> anyhow::Result<ExitCode> {
    let folder = default_folder(kqps_lab::study::NAME)?;
    eprintln!("{}", announce::alone(&folder));
    run(&Args { out: Some(folder), no_install, ..Args::default() })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    if args.dry_run {
        return dry_run(args);
    }
    let mut views = Views::open(&args.live, &typed(args))?;
    let (mut session, time_left) =
        if args.resume { (resume(args)?, TimeLeft::default()) } else { begin(args, began)? };
    views.begin()?;
    let mut progress = Progress::new(session.run(), time_left, !views.is_drawn());
    session.print_by(progress.printer());
    let mut shown =
        views.hub().map(|hub| RunView::new(hub.clone(), session.goal(), session.run(), views.page()));
    if let Some(sink) = views.sink() {
        session.live_by(sink);
    }
    let interrupts = signals::in_order();
    let conducted = session.conduct(interrupts, &mut |event| {
        progress.show(event);
        if let Some(shown) = &mut shown {
            shown.follow(event);
        }
    });
    progress.end();
    views.give_back();
    let go_on = format!("kqps run --resume --out {}", session.folder().path().display());
    let conducted = conducted.with_context(|| format!("what was measured is stored; to go on: {go_on}"))?;
    let verdict = judge(session.run());
    let beside = beside(&session, &verdict);
    let page = write_page(&session, &verdict, beside.as_ref());
    print_verdict(args, &session, &verdict, page.as_deref().ok(), conducted)?;
    page?;
    if let Some(shown) = &shown {
        shown.end(session.run(), &verdict, beside.as_ref());
    }
    let status = status(&session, &verdict, conducted, &go_on);
    views.end();
    Ok(status)
}

/// The user's command, in short.
fn typed(args: &Args) -> String {
    let study = args.study.as_ref().map(|study| format!(" {}", study.display()));
    format!("kqps run{}", study.unwrap_or_default())
}

/// The status of a run that was printed, with a word about a run that has no figures.
fn status(session: &Session, verdict: &RunVerdict, conducted: Conducted, go_on: &str) -> ExitCode {
    match conducted {
        Conducted::Interrupted => {
            if let Some(why) = session.unreachable() {
                eprintln!("kqps: {}", visible_line(&why));
            }
            eprintln!("Interrupted; what was measured is stored. To go on: {go_on}");
            ExitCode::from(exit::COULD_NOT)
        }
        Conducted::Whole if let Some(why) = silent::why_nothing(session.run()) => {
            eprintln!("kqps: nothing could be measured: {}", visible_line(why));
            ExitCode::from(exit::COULD_NOT)
        }
        Conducted::Whole if words::is_refused(verdict) => ExitCode::from(exit::REFUSED),
        Conducted::Whole => ExitCode::SUCCESS,
    }
}

/// The run before this one, as its page shows it.
pub(crate) fn beside(session: &Session, verdict: &RunVerdict) -> Option<Beside> {
    let folder = session.folder().path();
    other_run::known(session.run(), verdict, folder, folder)
}

/// Writes the page of a run, and returns its path. If it cannot be written, the caller can still print the
/// verdict.
pub(crate) fn write_page(
    session: &Session,
    verdict: &RunVerdict,
    beside: Option<&Beside>,
) -> anyhow::Result<PathBuf> {
    let (folder, page) = (session.folder(), kqps_report::page_beside(session.run(), verdict, beside));
    let report = folder.report();
    folder.write(&report, page.as_bytes()).with_context(|| {
        format!("what was measured is stored; to make its page: kqps report {}", folder.path().display())
    })?;
    Ok(report)
}

/// Begins a run, and prints how long it will take.
fn begin(args: &Args, began: Instant) -> anyhow::Result<(Session, TimeLeft)> {
    let mut request = request(args)?;
    request.folder = match &args.out {
        Some(folder) => named(folder)?,
        None => default_folder(request.study.as_ref().map_or(kqps_lab::study::NAME, |study| &study.name))?,
    };
    session::check_folder(&request.folder).map_err(input_or_not)?;
    // Installing is no part of the measurement, and the budget does not pay for it. Nothing is installed on other
    // hosts.
    let installing = Instant::now();
    if request.hosts.is_none() {
        let missing = session::missing_packages(&request).map_err(input_or_not)?;
        if !missing.is_empty() {
            install::missing(&missing, args.no_install)?;
        }
    }
    if args.push {
        request.hosts = request.hosts.map(hosts::pushed).transpose()?;
    }
    let began = began + installing.elapsed();
    let (session, spending) = Session::begin(&request, began).map_err(input_or_not)?;
    announce::begin(&session, &spending);
    Ok((session, TimeLeft::announced(began, spending.estimate_s)))
}

fn dry_run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut request = request(args)?;
    if args.push {
        request.hosts = request.hosts.map(hosts::found).transpose()?;
    }
    let laid_out = lay_out(&request).map_err(input_or_not)?;
    print!("{}", plan::output(&request, &laid_out, args.json)?);
    Ok(ExitCode::SUCCESS)
}

/// Errors in a file or in the arguments are bad input. For any other error the run could not be done.
fn input_or_not(error: LabError) -> anyhow::Error {
    match error {
        LabError::Study(_) | LabError::File(_) | LabError::SameName { .. } | LabError::Budget { .. } => {
            bad_input(error)
        }
        other => other.into(),
    }
}

/// The user's request, with an empty folder, which the caller sets.
fn request(args: &Args) -> anyhow::Result<RunRequest> {
    let records = args.records.unwrap_or(RECORDS);
    if !(1..=RECORDS_MAX).contains(&records) {
        return Err(bad_input(format!("--records {records}: expected 1 to {RECORDS_MAX}")));
    }
    if args.budget.is_some_and(|budget| budget.is_zero()) {
        return Err(bad_input("--budget 0: nothing could be measured"));
    }
    let study = args.study.as_deref().map(study).transpose()?;
    let subjects = match &study {
        Some(study) => {
            let of_study = study.subjects().map_err(bad_input)?.into_iter();
            of_study.map(|(name, definition)| Configured { name, ..Configured::plain(definition) }).collect()
        }
        // If the user gives running servers only, kqps starts none of the default ones.
        None if args.targets.is_given() && args.subject.is_empty() && args.command.is_empty() => Vec::new(),
        None => subjects::chosen(&args.subject, &args.command)?,
    };
    let Targets { running, echo, queries, ca, player } = args.targets.read(&subjects)?;
    if args.push && args.hosts.is_none() {
        return Err(bad_input("--push: there are no hosts to bring kqps to; name them with --hosts FILE"));
    }
    let hosts = args.hosts.as_deref().map(hosts::read).transpose()?;
    let seed = args.seed.unwrap_or_else(random_seed);
    Ok(RunRequest {
        folder: PathBuf::new(),
        study,
        subjects,
        hosts,
        running,
        echo_target: echo,
        queries,
        ca,
        player,
        profile: args.profile,
        models: subjects::models(&args.echo)?,
        budget_s: args.budget.map(|budget| budget.as_secs_f64()),
        seed,
        records,
        command: repeat::repeating(repeat::typed(), seed),
        kqps: std::env::current_exe().context("finding the running program")?,
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// A study by its file, or by its name if it is built in.
fn study(path: &Path) -> anyhow::Result<StudyFile> {
    let name = path.to_string_lossy();
    if path.is_dir() {
        let folder = path.display();
        let run = if store_in(path).is_ok() {
            format!("; to see what it holds: kqps report {folder}")
        } else {
            String::new()
        };
        return Err(bad_input(format!(
            "{folder} is a folder; expected the file of a study, or its name{run}"
        )));
    }
    if !path.exists() && !name.contains(['.', '/']) {
        if subjects::is_known(&name) {
            let quoted = if name.contains(' ') { format!("'{name}'") } else { name.to_string() };
            return Err(bad_input(format!(
                "`{name}` is a subject, not a study; measure it by: kqps run --subject {quoted}"
            )));
        }
        let known = study_file::builtin_names();
        let near = did_you_mean(nearest(&name, &known));
        return study_file::builtin(&name).ok_or_else(|| {
            bad_input(format!("no study is called `{name}`{near} (known: {}, or a file)", known.join(", ")))
        });
    }
    StudyFile::open(path).map_err(bad_input)
}

fn resume(args: &Args) -> anyhow::Result<Session> {
    let folder = resumed(Resumed::Run, args.study.as_deref(), args.out.as_deref())?;
    if args.push {
        hosts::push_to(&folder)?;
    }
    let session = Session::resume(&folder, std::env::current_exe().context("finding the running program")?)?;
    let run = session.run();
    if run.study == comparison::NAME {
        return Err(bad_input(format!(
            "{} holds a comparison; go on with it by: kqps compare --resume --out {0}",
            folder.display()
        )));
    }
    if run.finished_unix_ms.is_some() {
        eprintln!("The run in {} is finished: nothing more is measured.", folder.display());
        return Ok(session);
    }
    eprintln!(
        "Going on with the run in {}: {} stored, and {} of {} planned.",
        folder.display(),
        counted(run.trials.len() as u64, "trial"),
        counted(run.blocks.into(), "block"),
        counted(run.cells.len() as u64, "cell")
    );
    Ok(session)
}

fn print_verdict(
    args: &Args,
    session: &Session,
    verdict: &RunVerdict,
    report: Option<&Path>,
    conducted: Conducted,
) -> anyhow::Result<()> {
    if args.json {
        let printed = PrintedRun {
            schema: kqps_observation::SCHEMA,
            kind: "run",
            interrupted: conducted == Conducted::Interrupted,
            folder: session.folder().path(),
            report,
            verdict,
        };
        print::json(&printed)?;
    } else {
        print!("{}", words::output(session.run(), verdict, report, args.why));
    }
    Ok(())
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct PrintedRun<'a> {
    schema: u32,
    kind: &'static str,
    interrupted: bool,
    folder: &'a Path,
    /// `None` if the page could not be written.
    report: Option<&'a Path>,
    verdict: &'a RunVerdict,
}

pub(crate) fn random_seed() -> u64 {
    OffsetDateTime::now_utc().unix_timestamp_nanos() as u64
}
