//! `kqps find`: the highest reliable rate of a target, by METHOD's search, with how far to trust it.

mod ceiling;
mod words;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use kqps_dataset::Dataset;
use kqps_lab::load::{Load, Pace, Played};
use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use kqps_player::{Arrivals, LoadPlan, Plan, Stop};
use kqps_verdict::judge::{Known, SearchVerdict, judge_search};
use kqps_verdict::search::{Goal, Preset, Start};
use kqps_verdict::warning::Setting;

use crate::exit::{REFUSED, bad_input};
use crate::load::{PlayerArgs, Shown, Watcher, open_dataset};
use crate::value::{parse_duration, parse_rate, parse_share};
use ceiling::Ceilings;

/// Queries outstanding in the short closed loop that tells where to begin.
const WINDOW: u64 = 500;

/// Find the highest rate that a target answers reliably
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    player: PlayerArgs,

    /// What counts as reliable: quick, default, lossless or rfc2544
    #[arg(long, default_value = "default")]
    goal: Preset,

    /// Share of the queries that may go unanswered, such as 0.01%
    #[arg(long, value_parser = parse_share)]
    loss: Option<f64>,

    /// How close the bounds must come, such as 1%
    #[arg(long, value_parser = parse_share)]
    width: Option<f64>,

    /// The least rate to try
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    min: Option<f64>,

    /// The greatest rate to try
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    max: Option<f64>,

    /// A trial whose 99th percentile of latency is above this is bad too
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p99: Option<Duration>,

    /// Do not measure the echo, which the figure is a share of
    #[arg(long)]
    no_ceiling: bool,

    /// Print the verdict as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let goal = goal_of(args)?;
    let dataset = open_dataset(&args.player)?;
    // Every plan of the search is this one under another load.
    let plan = args.player.plan(
        LoadPlan::Closed { outstanding: WINDOW },
        Stop { after: Some(Duration::from_secs_f64(goal.final_s)), passes: None },
    )?;
    let watcher = Watcher::new()?;
    let ceilings = if args.no_ceiling {
        Ceilings::default()
    } else {
        ceiling::measure(&plan, &dataset, &watcher).unwrap_or_else(|error| {
            eprintln!("kqps: the echo's ceiling could not be measured: {error:#}");
            Ceilings::default()
        })
    };
    let mut played = Vec::new();
    let start = Start::default();
    kqps_lab::search::run(&goal, &start, &mut played, |load| trial(&plan, &dataset, load, &goal, &watcher))?;
    let verdict = judged(&goal, &plan, &played, &ceilings);
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &verdict)?;
        writeln!(out)?;
    } else {
        out.write_all(words::words(&verdict, &plan, &ceilings).as_bytes())?;
    }
    Ok(if verdict.grade.refuses() { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

fn goal_of(args: &Args) -> anyhow::Result<Goal> {
    let mut goal = args.goal.goal();
    goal.loss = args.loss.unwrap_or(goal.loss);
    goal.width = args.width.unwrap_or(goal.width);
    goal.min_qps = args.min.unwrap_or(goal.min_qps);
    goal.max_qps = args.max.unwrap_or(goal.max_qps);
    goal.p99_us = args.p99.map(|p99| p99.as_micros() as u64);
    goal.check().map_err(bad_input)?;
    Ok(goal)
}

/// Plays one trial of the search and says how it went.
fn trial(
    plan: &Plan,
    dataset: &Dataset,
    load: &Load,
    goal: &Goal,
    watcher: &Watcher,
) -> anyhow::Result<Trial> {
    let mut plan = plan.clone();
    plan.stop.after = Some(Duration::from_secs_f64(load.duration_s));
    if let Pace::Open { rate_qps } = load.pace {
        plan.load = LoadPlan::Open { rate_qps, arrivals: Arrivals::Even };
    }
    let shown = Shown { bar: io::stderr().is_terminal(), every: None };
    let trial = watcher.play(&plan, dataset, shown)?;
    if trial.interrupted {
        anyhow::bail!("interrupted: a search that is not over has no answer");
    }
    eprintln!("{}", words::trial_line(&trial, load.purpose, goal));
    Ok(trial)
}

fn judged(goal: &Goal, plan: &Plan, played: &[Played], ceilings: &Ceilings) -> SearchVerdict {
    let trials: Vec<(Purpose, &Trial)> = played.iter().map(|one| (one.purpose, &one.trial)).collect();
    let setting = Setting { subject_cpus: plan.subject_cpus.clone(), ..Setting::default() };
    let known = Known { setting, player_qps: ceilings.player_qps, echo_qps: ceilings.echo_qps };
    judge_search(goal, &trials, &known)
}
