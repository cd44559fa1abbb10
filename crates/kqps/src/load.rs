//! `kqps load`: plays queries at a target and accounts for each.

mod allowed;
mod capture;
mod captured_answers;
mod condition;
mod dnsperf;
mod events;
mod flags;
mod forbidden;
mod hostile;
pub(crate) mod keep;
pub(crate) mod per_query;
mod plan_error;
mod prepared;
mod progress;
mod rate;
mod replay;
mod sampled;
pub(crate) mod scenario;
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

use kqps_dataset::Dataset;
use kqps_host::{PlayerWatched, SubjectWatched, Watch};
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::local_address::is_local;
use kqps_live::{Load, Standing};
use kqps_observation::Trial;
use kqps_player::plan::Hostile;
use kqps_player::{Arrivals, Class, Control, Live, LoadPlan, Plan, play_classes};
use kqps_verdict::scenario::{GOOD, ScenarioFigures, figures};
use kqps_verdict::silence::silence;
use kqps_verdict::warning::{self, Surroundings, Warning};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{COULD_NOT, REFUSED, bad_input};
use crate::live::{self, LiveArgs, Views};
use crate::print;
use crate::signals;
use crate::value::{parse_count, parse_seconds, parse_seed};
use condition::{Condition, Outcome};
use plan_error::with_flags;
use prepared::Prepared;
use rate::RateArgs;
use replay::{Mix, Repeat, parse_mix, parse_repeat, parse_speed};
use scenario::{Asked, ClassLoad, Scenario};

pub(crate) use allowed::{Allowed, check_sources};
pub(crate) use flags::{PlayerArgs, Queries, check_clients, check_plan, may_be_capture};

use forbidden::check_options;
use keep::LoadFolder;
use per_query::PerQueryArgs;
pub(crate) use progress::ProgressDisplay;
pub(crate) use replay::{Captured, usual_replay};
pub(crate) use sampled::Sampled;
pub(crate) use subject::watched;
pub(crate) use target::{Family, resolve_all, usual_port};
pub(crate) use wire::issuers;
pub(crate) use words::{
    ANY_CERTIFICATE, after_statistics, agreed, by_class, causes, line, losses as lost_packets, percent,
    with_share,
};

/// The default timeout of an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of the lines that replace a drawing, if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);

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
    /// All queries of a client go by its transport, whatever they came by, and the accounts of each transport are printed.
    /// A URL names the transport of a target. With the same --seed clients are shared out alike.
    #[arg(long, value_name = "TRANSPORT=SHARE,...", value_parser = parse_mix, help_heading = "Captures")]
    mix: Option<Mix>,

    /// Play further classes of clients beside this load: a scenario by name or file, with =RATE for its rate
    ///
    /// Such as random-names=200k, one-name, large-answers, malformed, connections, idle-connections or rapid-reset. Each
    /// class has threads and accounts of its own; this load is the class `good`. A file may have events as well, such as a
    /// reload of the server after 5 s. docs/SCENARIOS.md describes the files.
    #[arg(long, value_name = "NAME|FILE[=RATE]", value_parser = scenario::parse, group = "attack", help_heading = "Load")]
    scenario: Option<scenario::Typed>,

    /// Be attackers: idle, half, slow, handshake, reset, streams or initials, at the rate of -Q
    ///
    /// idle, half and slow hold connections on which nothing comes, half a query, or a byte of one each second; handshake
    /// holds them after the handshake of TLS or QUIC. reset resets each at once. streams opens streams of HTTP/2 and resets
    /// each at once. initials sends first datagrams of QUIC and takes no notice of answers. -c is how many connections are
    /// held or under way at a time. It is a key of a scenario's class, too (docs/SCENARIOS.md).
    #[arg(long, value_name = "KIND", group = "attack", help_heading = "Load")]
    hostile: Option<Hostile>,

    /// Let attackers or a scenario attack this server on another host: ADDR or ADDR/PREFIX (repeatable)
    #[arg(long, value_name = "ADDR[/PREFIX]", requires = "attack", help_heading = "Target")]
    yes_attack: Vec<Allowed>,

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

impl Args {
    /// The scenario that the flags name; `None` without one.
    fn asked(&self) -> Option<Asked<'_>> {
        Some(Asked {
            scenario: self.scenario.as_ref()?,
            player: &self.player,
            has_mix: self.mix.is_some(),
            yes_attack: &self.yes_attack,
            seed: self.seed,
            cpu: None,
        })
    }
}

/// The JSON object of `--json`: the trial's facts and their warnings.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Judged<'a> {
    #[serde(flatten)]
    trial: &'a Trial,
    warnings: &'a [Warning],
    /// Why the trial says nothing of the target: it sent nothing, or received no answer.
    silence: Option<&'a str>,
    /// Effects of each event of a scenario on each class, and the replies that each class got for its queries. `null`
    /// for a load that has neither classes nor events nor recorded silences.
    figures: Option<ScenarioFigures>,
    /// The conditions of `--fail-on` that hold or could not be judged.
    failed_on: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Prepared { plan, subject, dataset } = Prepared::new(args, None)?;
    if args.hostile.is_some() {
        scenario::check_target("--hostile", &args.yes_attack, plan.targets.iter().copied())?;
    }
    let opened = args.asked().map(|asked| scenario::open(&asked, (&plan, &subject), &dataset)).transpose()?;
    let beside = opened.unwrap_or_default();
    prepared::warn_of_all_rates([&plan].into_iter().chain(beside.classes.iter().map(|class| &class.plan)));
    // A thread that runs before all others would hold up those of other classes.
    let plan = Plan { own_cores: plan.own_cores && beside.classes.is_empty(), ..plan };
    let folder = args.out.as_deref().map(LoadFolder::claim).transpose()?;
    let (mut trial, mut views) = watched_trial(args, (&plan, &dataset), &beside, &subject)?;
    let differences = match trial.classes.first_mut() {
        Some(good) => &mut good.trial.differences,
        None => &mut trial.differences,
    };
    captured_answers::fill_in(differences, dataset.path(), &args.player.capture.settings());
    let surroundings = surroundings(&args.player, &plan, &subject);
    let good = trial.good();
    let warnings = warning::of_trial(good, &surroundings).into_iter().map(Warning::with_flags);
    let warnings: Vec<Warning> = warnings.collect();
    let silence = silence(good).filter(|_| !trial.interrupted);
    let failed = failed(&args.fail_on, |condition| condition.judge(good, &warnings, &surroundings));
    views.give_back();
    let words = words::words(&trial, &warnings, (surroundings.workers, silence.as_deref()));
    if let Some(hub) = views.hub() {
        hub.result(&words);
    }
    if args.json {
        let failed_on = failed.iter().map(|(condition, _)| condition.to_string()).collect();
        let (trial, warnings) = (&trial, &*warnings);
        let figures = figures(trial);
        print::json(&Judged { trial, warnings, silence: silence.as_deref(), figures, failed_on })?;
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

/// Plays the trial while it is shown as the flags ask for.
fn watched_trial(
    args: &Args,
    (plan, dataset): (&Plan, &Dataset),
    beside: &Scenario,
    subject: &SubjectWatched,
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
        hub.begin_trial(standing(plan, &beside.classes, targets));
    }
    let receive = |counts| {
        if let Some(hub) = &hub {
            hub.count(counts);
        }
    };
    let sampled = hub.is_some().then_some(Sampled { every: live::EVERY, receive: &receive });
    let shown = ProgressDisplay { bar, every };
    let trial = watcher.play_beside((plan, dataset), beside, subject, shown, sampled)?;
    Ok((trial, views))
}

/// Where a single load stands, with the classes beside it.
fn standing(plan: &Plan, beside: &[ClassLoad], what: String) -> Standing {
    let rate_of = |plan: &Plan| match plan.load {
        LoadPlan::Open { rate_qps, .. } | LoadPlan::Limited { rate_qps, .. } => Some(rate_qps),
        LoadPlan::Closed { .. } => None,
    };
    // Attempts of attackers are no queries.
    let plans = [plan].into_iter().chain(beside.iter().map(|class| class.class().plan));
    let rates = plans.filter(|plan| plan.hostile.is_none()).map(rate_of);
    let load = rates.sum::<Option<f64>>().map_or(Load::Closed, Load::Open);
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

    /// Plays a trial with the classes and events of a scenario beside it, at a subject whose processes are on this host, or
    /// unknown.
    pub(crate) fn play_beside(
        &self,
        (plan, dataset): (&Plan, &Dataset),
        beside: &Scenario,
        subject: &SubjectWatched,
        shown: ProgressDisplay,
        sampled: Option<Sampled<'_>>,
    ) -> anyhow::Result<Trial> {
        let all: Vec<Class<'_>> = [Class { plan, dataset }]
            .into_iter()
            .chain(beside.classes.iter().map(ClassLoad::class))
            .collect();
        let threads = all.iter().map(|class| class.plan.threads).sum();
        let live = if shown.every.is_some() { Live::detailed } else { Live::new };
        let names = std::iter::once(GOOD).chain(beside.classes.iter().map(|class| &*class.name));
        let named = names.map(str::to_owned).zip(all.iter().map(|class| class.plan.threads));
        let live = live(threads).with_classes(named.filter(|_| all.len() > 1));
        let live = Arc::new(if sampled.is_some() { live.with_fates() } else { live });
        let control = Control { stop: self.interrupts.clone(), live, ..Control::new(threads) };
        let watch = |player: &PlayerWatched| Watch::begin(player, subject);
        let play = || play_classes(&all, &control, watch);
        let shown = || progress::beside(plan, &control.live, shown, play);
        let sampled = || sampled::beside(&control.live, &subject.pids, sampled, shown);
        let (played, events) = match &beside.events {
            Some(events) => events.beside(&control.live, || Ok(sampled()?))?,
            None => (sampled()?, Vec::new()),
        };
        Ok(Trial { events, ..scenario::record(played, &beside.classes)? })
    }
}

/// Checks that a plan fits the queries, and that the clients of a capture get addresses of this host.
pub(crate) fn check_against(plan: &Plan, dataset: &Dataset) -> anyhow::Result<()> {
    plan.check_against(dataset).map_err(|error| bad_input(with_flags(&error)))?;
    check_options(plan, dataset)?;
    check_clients(plan, dataset)
}
