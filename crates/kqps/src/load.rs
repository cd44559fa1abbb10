//! `kqps load`: plays queries at a target and accounts for each.

mod allowed;
mod capture;
mod captured_answers;
mod condition;
mod dnsperf;
mod flags;
mod forbidden;
pub(crate) mod keep;
pub(crate) mod per_query;
mod plan_error;
mod progress;
mod rate;
mod replay;
mod sampled;
pub(crate) mod skipped;
mod subject;
mod target;
mod wire;
mod words;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kqps_dataset::{CaptureFacts, Dataset};
use kqps_host::{PlayerWatched, SubjectWatched, Watch};
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::local_address::is_local;
use kqps_live::{Load, Standing};
use kqps_observation::Trial;
use kqps_player::plan::SEED;
use kqps_player::replay::mean_rate_qps;
use kqps_player::{Arrivals, Control, Live, LoadPlan, MomentsPlan, Plan, ReplayPlan, Stop, play};
use kqps_testbed::words::counted;
use kqps_verdict::rate::rate;
use kqps_verdict::silence::silence;
use kqps_verdict::warning::{self, Surroundings, Warning};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{COULD_NOT, REFUSED, bad_input};
use crate::live::{self, LiveArgs, Views};
use crate::print;
use crate::signals;
use crate::value::{parse_count, parse_seconds, parse_seed};
use capture::no_capture;
use condition::{Condition, Outcome};
use plan_error::with_flags;
use rate::{Rate, RateArgs};
use replay::{Mix, Repeat, RequestedLoad, parse_mix, parse_repeat, parse_speed, passes_within};

pub(crate) use allowed::{Allowed, check_sources};
pub(crate) use flags::{PlayerArgs, Queries, check_clients, check_plan, may_be_capture};

use flags::{LANES, open_dataset};
use forbidden::check_options;
use keep::LoadFolder;
use per_query::PerQueryArgs;
pub(crate) use progress::ProgressDisplay;
pub(crate) use replay::{Captured, usual_replay};
pub(crate) use sampled::Sampled;
pub(crate) use subject::watched;
pub(crate) use target::{Family, resolve_all, usual_port};
pub(crate) use wire::issuers;
pub(crate) use words::{ANY_CERTIFICATE, after_statistics, agreed, causes, line, percent, with_share};

/// The default timeout of an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of the lines that replace a drawing, if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Queries a second that no thread sends: about twice as many as the player was seen to send on a fast core, without the
/// work of the kernel.
const THREAD_MOST_QPS: f64 = 5e6;

const EXAMPLES: &str = "\
Examples:
  kqps load 127.0.0.1:5300 -d bench.queries -Q 100k -l 10s
  kqps load tcp://127.0.0.1:5300 -d bench.queries -l 8h --tui --metrics 9153
  kqps load 127.0.0.1:5300 -d traffic.pcap --expect captured --speed 2x
  kqps load 192.0.2.1 --allow-target 192.0.2.1 -d bench.queries -Q 10k -t 250ms";

/// Play queries at a target and account for each
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    player: PlayerArgs,

    #[command(flatten)]
    per_query: PerQueryArgs,

    #[command(flatten)]
    live: LiveArgs,

    #[command(flatten)]
    rate: RateArgs,

    /// Closed loop: keep this many queries outstanding (default: 100; none with -Q or a capture)
    ///
    /// At most 65,536 for each socket or connection (-c).
    #[arg(short = 'q', long, value_name = "COUNT", value_parser = parse_count, help_heading = "Load")]
    outstanding: Option<u64>,

    /// Spacing of an open loop's queries: even (the default), poisson, or captured, as they came in a capture
    ///
    /// A capture without -Q is played as captured. With -Q and captured its gaps are stretched to that mean rate.
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    arrivals: Option<Arrivals>,

    /// Play captured gaps this many times as fast, such as 2x or 0.5x (default: 1x)
    ///
    /// Idle times of connections shrink likewise, and entries in caches live for more queries. --pile makes more load
    /// without that.
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed, help_heading = "Captures")]
    speed: Option<f64>,

    /// Share out a capture's clients to transports, as in udp=60,tls=30,https=10; each needs a target of its own
    ///
    /// Such as udp://ADDR tls://ADDR https://ADDR. All queries of a client go by its transport, whatever they came by, and
    /// the accounts of each transport are printed. --seed shares out alike.
    #[arg(long, value_name = "TRANSPORT=SHARE,...", value_parser = parse_mix, help_heading = "Captures")]
    mix: Option<Mix>,

    /// The seed of random arrivals (default: 1), and of the addresses of captured clients (default: a random one)
    #[arg(long, value_name = "SEED", value_parser = parse_seed, help_heading = "Load")]
    seed: Option<u64>,

    /// Send for this long (default: once through the queries)
    #[arg(short = 'l', long, value_parser = parse_seconds, help_heading = "Load")]
    duration: Option<Duration>,

    /// Send all queries this many times; those of a capture with a pause between, as in 3:10s
    #[arg(short = 'n', long, value_name = "COUNT[:GAP]", value_parser = parse_repeat, help_heading = "Load")]
    repeat: Option<Repeat>,

    /// Print a line of statistics this often, with the rcodes of the replies
    #[arg(short = 'S', long, value_name = "DURATION", value_parser = parse_seconds, help_heading = "Output")]
    interval: Option<Duration>,

    /// Count the kernel's reasons for its drops (as root; slows the trial)
    #[arg(long, help_heading = "Output")]
    drop_reasons: bool,

    /// End with status 3 if this holds: loss[:SHARE], wrong[:SHARE], latency:TIME or noise (repeatable)
    ///
    /// loss and wrong hold if more than this share of the queries sent was lost or late, or answered wrongly; latency
    /// if p99 is above this time; noise if the player or the host spoiled the load. Of fewer than 10,000 queries an upper
    /// bound of p99 decides. A condition that cannot be judged, such as p99 of fewer than 299 queries, counts as failed.
    #[arg(long, value_name = "CONDITION", help_heading = "Output")]
    fail_on: Vec<Condition>,

    /// Write the record and a page with charts into this folder; `kqps report DIR DIR…` draws several in one chart
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,

    /// Print the trial as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The JSON object of `--json`: the trial's facts and their warnings.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Judged<'a> {
    #[serde(flatten)]
    trial: &'a Trial,
    warnings: &'a [Warning],
    /// Why the trial says nothing of the target: it sent nothing, or received no answer.
    silence: Option<&'a str>,
    /// The conditions of `--fail-on` that hold or could not be judged.
    failed_on: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let rate = args.rate.lay(args.duration)?;
    let stop = stop_of(args, &rate)?;
    let opened = opened_early(args)?;
    let facts = opened.as_ref().and_then(|dataset| Some((dataset, dataset.capture()?)));
    let captured = facts.map(|(dataset, facts)| args.captured(dataset, facts, &rate)).transpose()?;
    let load = |threads| captured.as_ref().map_or_else(|| load_of(args, &rate, threads), |(_, load)| *load);
    let captured = captured.as_ref().map(|(captured, _)| captured);
    // The plan of the replay has the number of passes.
    let stop = captured.map_or(stop, |_| Stop { passes: stop.passes.map(|_| 1), ..stop });
    let (plan, subject) = args.player.plan(load, stop, |_| TIMEOUT, captured)?;
    let seed = args.seed.unwrap_or(SEED);
    let per_query = args.per_query.plan();
    // A steady load without a page does not pay for them.
    let moments = (rate.course.is_some() || args.out.is_some()).then(MomentsPlan::default);
    let plan =
        Plan { seed, drop_reasons: args.drop_reasons, per_query, course: rate.course, moments, ..plan };
    warn_of_a_high_rate(&plan);
    let dataset = opened.map_or_else(|| open_dataset(&args.player, args.per_query.reading()), Ok)?;
    if dataset.capture().is_none() {
        args.check_no_capture(&dataset)?;
    }
    check_against(&plan, &dataset)?;
    let folder = args.out.as_deref().map(LoadFolder::claim).transpose()?;
    let (mut trial, mut views) = watched_trial(args, &plan, &subject, &dataset)?;
    captured_answers::fill_in(&mut trial.differences, dataset.path(), &args.player.capture.settings());
    let surroundings = surroundings(&args.player, &plan, &subject);
    let warnings = warning::of_trial(&trial, &surroundings).into_iter().map(Warning::with_flags);
    let warnings: Vec<Warning> = warnings.collect();
    let silence = silence(&trial).filter(|_| !trial.interrupted);
    let failed = failed(&args.fail_on, |condition| condition.judge(&trial, &warnings, &surroundings));
    views.give_back();
    let words = words::words(&trial, &warnings, (surroundings.workers, silence.as_deref()));
    if let Some(hub) = views.hub() {
        hub.result(&words);
    }
    if args.json {
        let failed_on = failed.iter().map(|(condition, _)| condition.to_string()).collect();
        let (trial, warnings) = (&trial, &*warnings);
        print::json(&Judged { trial, warnings, silence: silence.as_deref(), failed_on })?;
        if let Some(why) = &silence {
            eprintln!("kqps: {why}");
        }
    } else {
        print!("{words}");
    }
    if let Some(folder) = folder {
        folder.keep(&trial, &words)?;
    }
    for (_, said) in &failed {
        eprintln!("kqps: {said}");
    }
    views.end();
    Ok(match (silence, failed.is_empty()) {
        (Some(_), _) => ExitCode::from(COULD_NOT),
        (None, false) => ExitCode::from(REFUSED),
        (None, true) => ExitCode::SUCCESS,
    })
}

/// Says beforehand that no player sends a rate: its highest, if it follows a course.
fn warn_of_a_high_rate(plan: &Plan) {
    let LoadPlan::Open { rate_qps, .. } = plan.load else { return };
    let needed = (rate_qps / THREAD_MOST_QPS).ceil();
    if needed > plan.threads as f64 {
        eprintln!(
            "kqps: warning: {} q/s are more than {} can send: no thread sends {} q/s; give -T {needed} or more, and a core \
             for each (--cpus)",
            rate(rate_qps),
            counted(plan.threads as u64, "thread"),
            rate(THREAD_MOST_QPS),
        );
    }
}

/// Plays the trial while it is shown as the flags ask for.
fn watched_trial(
    args: &Args,
    plan: &Plan,
    subject: &SubjectWatched,
    dataset: &Dataset,
) -> anyhow::Result<(Trial, Views)> {
    let targets = plan.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut views = Views::open(&args.live, &format!("kqps load {targets}"))?;
    let watcher = Watcher::new();
    views.begin()?;
    let lines = args.live.wants_lines(&views).then_some(LINE_EVERY);
    let every = args.interval.or(lines);
    let bar = io::stderr().is_terminal() && every.is_none() && !views.is_drawn();
    let hub = views.hub().cloned();
    if let Some(hub) = &hub {
        hub.begin_trial(standing(plan, targets));
    }
    let receive = |counts| {
        if let Some(hub) = &hub {
            hub.count(counts);
        }
    };
    let sampled = hub.is_some().then_some(Sampled { every: live::EVERY, receive: &receive });
    let trial = watcher.play(plan, subject, dataset, ProgressDisplay { bar, every }, sampled)?;
    Ok((trial, views))
}

/// Where a single load stands.
fn standing(plan: &Plan, what: String) -> Standing {
    let load = match plan.load {
        LoadPlan::Open { rate_qps, .. } | LoadPlan::Limited { rate_qps, .. } => Load::Open(rate_qps),
        LoadPlan::Closed { .. } => Load::Closed,
    };
    let planned_s = plan.stop.after.map(|after| after.as_secs_f64());
    let has_connections_alone = plan.has_connections_alone();
    Standing { what, trial: 1, load, planned_s, has_connections_alone, ..Standing::default() }
}

/// The conditions that hold or that could not be judged, each with its message.
fn failed(conditions: &[Condition], judge: impl Fn(&Condition) -> Outcome) -> Vec<(&Condition, String)> {
    let said = |condition: &Condition| match judge(condition) {
        Outcome::Passes => None,
        Outcome::Holds(seen) => Some(format!("--fail-on {condition} holds: {seen}")),
        Outcome::Unknown(why) => {
            Some(format!("--fail-on {condition} cannot be judged, which counts as failed: {why}"))
        }
    };
    conditions.iter().filter_map(|condition| Some((condition, said(condition)?))).collect()
}

/// The surroundings of a plan's trials, as far as they are known. A target with another address may still be
/// on this host, so `one_host` stays unknown then, and the trials decide.
pub(crate) fn surroundings(args: &PlayerArgs, plan: &Plan, subject: &SubjectWatched) -> Surroundings {
    Surroundings {
        one_host: plan.targets.iter().any(|&target| is_local(target)).then_some(true),
        subject_cpus: subject.cpus.clone(),
        workers: args.subject_workers,
        ..Surroundings::default()
    }
}

/// Plays trials with a progress line for the user, and lets signals end them early.
pub(crate) struct Watcher {
    interrupts: &'static Interrupts,
}

impl Watcher {
    /// From here on, the first signal ends the trial early, and the second ends the program at once.
    pub(crate) fn new() -> Self {
        Self { interrupts: signals::in_order() }
    }

    /// Plays a trial at a subject whose processes are on this host, or unknown.
    pub(crate) fn play(
        &self,
        plan: &Plan,
        subject: &SubjectWatched,
        dataset: &Dataset,
        shown: ProgressDisplay,
        sampled: Option<Sampled<'_>>,
    ) -> anyhow::Result<Trial> {
        let live = if shown.every.is_some() { Live::detailed } else { Live::new };
        let live = live(plan.threads);
        let live = Arc::new(if sampled.is_some() { live.with_fates() } else { live });
        let control = Control { stop: self.interrupts.clone(), live, ..Control::new(plan.threads) };
        let watch = |player: &PlayerWatched| Watch::begin(player, subject);
        let play = || play(plan, dataset, &control, watch);
        let shown = || progress::beside(plan, &control.live, shown, play);
        Ok(sampled::beside(&control.live, &subject.pids, sampled, shown)?)
    }
}

/// Checks that a plan fits the queries, and that the clients of a capture get addresses of this host.
pub(crate) fn check_against(plan: &Plan, dataset: &Dataset) -> anyhow::Result<()> {
    plan.check_against(dataset).map_err(|error| bad_input(with_flags(&error)))?;
    check_options(plan, dataset)?;
    check_clients(plan, dataset)
}

/// The queries, if they may be a capture: its content decides what the plan is. Other queries are opened when the plan
/// is known to be a good one.
fn opened_early(args: &Args) -> anyhow::Result<Option<Dataset>> {
    if !may_be_capture(&args.player) {
        return Ok(None);
    }
    if args.mix.is_none() {
        args.player.names_transport()?;
    }
    open_dataset(&args.player, args.per_query.reading()).map(Some)
}

impl Args {
    /// A capture with the plan of its replay, and the load.
    fn captured(
        &self,
        dataset: &Dataset,
        facts: &CaptureFacts,
        rate: &Rate,
    ) -> anyhow::Result<(Captured, LoadPlan)> {
        if let Some(flag) = self.per_query.first_given() {
            return Err(bad_input(format!(
                "{flag}: queries of a capture are sent as they are; leave it out"
            )));
        }
        let (window, pile) = (self.player.capture.window(), self.player.capture.pile());
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let plan = ReplayPlan { from: window.from, to: window.to, pile, seed, ..ReplayPlan::default() };
        let asked = RequestedLoad {
            rate_qps: rate.qps,
            arrivals: self.arrivals,
            outstanding: self.outstanding,
            speed: self.speed,
        };
        // Queries by other transports have no lane.
        let goes_by_all = self.mix.is_some() || self.player.names_transport()?;
        let carried = if goes_by_all { None } else { Some(LANES) };
        let (speed, load) = asked.load(mean_rate_qps(&plan, dataset, carried))?;
        let is_captured = matches!(load, LoadPlan::Open { arrivals: Arrivals::Captured, .. });
        if !is_captured && self.repeat.is_some_and(|repeat| repeat.gap.is_some()) {
            return Err(bad_input(
                "the pause of -n is between passes with captured gaps, and -Q or -q has none: leave it out, or add \
                 --arrivals captured",
            ));
        }
        let plan = ReplayPlan { speed, ..plan };
        let repeat = match (self.repeat, rate.duration) {
            (Some(repeat), _) => repeat.times,
            (None, Some(duration)) => passes_within(duration, &plan, facts),
            (None, None) => 1,
        };
        let gap = self.repeat.and_then(|repeat| repeat.gap).unwrap_or_default();
        let captured = Captured::new(facts, ReplayPlan { repeat, gap, ..plan }, true);
        Ok((Captured { mix: self.mix.clone(), ..captured }, load))
    }

    /// Refuses the flags of captures for queries that are none.
    fn check_no_capture(&self, dataset: &Dataset) -> anyhow::Result<()> {
        let given = [
            ("--arrivals captured", self.arrivals == Some(Arrivals::Captured)),
            ("--speed", self.speed.is_some()),
            ("--mix", self.mix.is_some()),
            ("the pause of -n", self.repeat.is_some_and(|repeat| repeat.gap.is_some())),
        ];
        match given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag)) {
            Some(flag) => Err(no_capture(flag, dataset)),
            None => self.player.capture.check_none_is_given(dataset),
        }
    }
}

/// The load that the flags ask for; by default a closed loop.
fn load_of(args: &Args, rate: &Rate, threads: u64) -> LoadPlan {
    match rate.qps {
        Some(rate_qps) => {
            LoadPlan::Open { rate_qps, arrivals: args.arrivals.unwrap_or_default(), window: args.outstanding }
        }
        None => LoadPlan::Closed { outstanding: args.outstanding.unwrap_or(dnsperf::WINDOW.max(threads)) },
    }
}

/// The end of the sending, or an error if the flags ask for a load that sends nothing or prints without end.
fn stop_of(args: &Args, rate: &Rate) -> anyhow::Result<Stop> {
    if args.outstanding == Some(0) {
        return Err(bad_input("-q 0 would send nothing: at least 1 query must be outstanding"));
    }
    if args.repeat.is_some_and(|repeat| repeat.times == 0) {
        return Err(bad_input("-n 0 would send nothing"));
    }
    if args.interval == Some(Duration::ZERO) {
        return Err(bad_input("-S 0 would print without end; expected a time between two lines, such as 1s"));
    }
    if args.duration == Some(Duration::ZERO) {
        return Err(bad_input("-l 0 would send nothing"));
    }
    if let (Some(arrivals @ (Arrivals::Even | Arrivals::Poisson)), None) = (args.arrivals, rate.qps) {
        return Err(bad_input(format!(
            "--arrivals {arrivals} is of an open loop: add its --rate, such as -Q 10k"
        )));
    }
    let once = rate.duration.is_none().then_some(1);
    Ok(Stop { after: rate.duration, passes: args.repeat.map(|repeat| repeat.times).or(once) })
}
