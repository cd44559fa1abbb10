//! `kqps find`: the highest reliable rate of a target, by the search of `docs/method/search.md`, with a grade of trust.

mod attack;
mod ceiling;
mod ended_search;
mod keep;
mod limit;
mod lines;
mod player;
mod quiet;
mod standing;
mod words;

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use kqps_host::SubjectWatched;
use kqps_kernel::local_address::is_local;
use kqps_lab::gauged::{Cores, Gauges};
use kqps_lab::search;
use kqps_observation::run::Purpose;
use kqps_observation::{Factors, Trial};
use kqps_player::{Arrivals, LoadPlan, ReplayPlan, Stop};
use kqps_testbed::path::LaidPath;
use kqps_testbed::play::{PlayerProgram, SPARE};
use kqps_testbed::player_setup::TIMEOUT_S;
use kqps_testbed::trial_request::{Played, RequestedPace, TrialRequest};
use kqps_verdict::breaking;
use kqps_verdict::evidence::is_spoiled;
use kqps_verdict::judge::{CutShort, SearchVerdict};
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::{Goal, LATEST, Preset, Start};
use kqps_verdict::silence::silence;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{REFUSED, bad_input};
use crate::live::{LiveArgs, Views};
use crate::load::{Captured, PlayerArgs, Queries, TIMEOUT, check_against, may_be_capture};
use crate::print;
use crate::signals;
use crate::value::{parse_duration, parse_rate, parse_share};
use attack::{Attack, AttackArgs};
use ceiling::{Ceilings, Interface};
use ended_search::EndedSearch;
use keep::{Keeping, Setup};
use player::Player;
use standing::SearchView;

/// The narrowest distance between the bounds, as a share. Closer loads cannot be distinguished.
const WIDTH_LEAST: f64 = 0.0001;

/// Queries outstanding in the short closed loop whose rate is the search's starting point.
const WINDOW: u64 = 500;

const EXAMPLES: &str = "\
Examples:
  kqps find 127.0.0.1:5300 -d bench.queries
  kqps find quic://127.0.0.1:8853 -d bench.queries --ca ca.pem --connections 8
  kqps find 127.0.0.1:5300 -d bench.queries --loss 0.1% --p99 5ms --max 1M
  kqps find 127.0.0.1:5300 -d bench.queries --good-rate 20k --scenario one-name";

const QUERIES_PER_CONNECTION: &str = "\
Close each connection after this many queries, or once it is made: 0 (default: keep it)

Kept connections are opened before a trial begins. With this flag a connection is opened when a query needs it, and its \
making is part of that query's latency. With 0 the load is connections and no queries, and the rates of the search are \
connections a second. At most -c are open at once.";

const SOCKETS: &str = "\
Sockets of all threads together, or connections (default: 32 sockets or 8 connections for each thread)

With --queries-per-connection 0 or 1 the default is 500 connections.";

/// Find the highest rate that a target answers reliably
#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg(kqps_catalogue::name::PLAYER_QUERIES_PER_CONNECTION, |queries| queries.long_help(QUERIES_PER_CONNECTION)),
    mut_arg("sockets", |sockets| sockets.long_help(SOCKETS))
)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct Args {
    #[command(flatten)]
    player: PlayerArgs,

    #[command(flatten)]
    live: LiveArgs,

    /// The goal: quick, default, lossless or rfc2544
    ///
    /// quick allows a loss of 0.1 %, default 0.01 %, lossless and rfc2544 none. The trials of rfc2544 last 60 s.
    #[arg(long, value_name = "NAME", default_value = "default", help_heading = "Goal")]
    goal: Preset,

    /// The share of the queries that may go without a correct answer in time, such as 0.01% (default: the goal's)
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Goal")]
    loss: Option<f64>,

    /// How close the bounds must come, such as 1% (default: the goal's)
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Goal")]
    width: Option<f64>,

    /// The lowest rate to try, q/s (default: 10)
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Goal")]
    min: Option<f64>,

    /// The highest rate to try, in q/s of real time (default: 100M)
    ///
    /// The rate of no trial exceeds it, not even of the overload at the start. With this flag, loads do not follow the
    /// speed of this host's cores, and rates are those that were seen. If the server answers this rate, too, the verdict
    /// is `at least` this rate. The limit does not hold for the echo.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Goal")]
    max: Option<f64>,

    /// A trial is also bad if p99 of its latency is above this (default: no limit)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Goal")]
    p99: Option<Duration>,

    #[command(flatten)]
    attack: AttackArgs,

    /// The echo's I/O model that is most like the subject's over UDP (default: mmsg)
    ///
    /// One of blocking, spin, poll, select, epoll, event, mmsg, segment and uring. The echo's rate is the ceiling, and
    /// the figure is a share of it.
    #[arg(long, value_name = "MODEL", hide_possible_values = true, value_parser = PossibleValuesParser::new(kqps_testbed::echo_io::over_loopback().collect::<Vec<_>>()), help_heading = "Ceiling")]
    subject_io: Option<String>,

    /// Do not measure the echo: the figure is then no share of a ceiling
    #[arg(long, help_heading = "Ceiling")]
    no_ceiling: bool,

    /// How long the search may take (default: the goal's limit)
    ///
    /// The limits are 14 s for quick, 3 min for default and lossless, and 1 h for rfc2544. The search ends at most 15 %
    /// and one drain after it. The start of players counts; the echo's ceilings before the search, some 2 s, do not.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Goal")]
    time_limit: Option<Duration>,

    /// Keep the trials and the page of the search in this folder
    ///
    /// `kqps report DIR` makes the page again.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,

    /// Print bounds and all reasons for the grade, and not just the advice; the default without --out
    #[arg(long, help_heading = "Output")]
    why: bool,

    /// Print a JSON object for each trial, and the verdict as the last one
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Whether no trial is printed.
    #[arg(skip)]
    is_quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    #[allow(clippy::redundant_closure_for_method_calls)] // the method is of one lifetime alone
    let grade = search(args, |ended, targets| ended.judge_and_print(targets))?;
    Ok(if grade.refuses() { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// Searches, and returns the verdict.
pub(crate) fn verdict(args: &Args) -> anyhow::Result<SearchVerdict> {
    search(args, |ended, _| Ok(ended.judged_at_usual_speed()))
}

/// Searches, and judges the search when it has ended, with its targets in words.
fn search<T>(
    args: &Args,
    judged: impl FnOnce(&EndedSearch<'_>, String) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let goal = goal_of(args)?;
    let opened = opened_early(&args.player)?;
    let captured = opened.as_ref().and_then(|queries| capture_of(&args.player, queries));
    let (plan, subject) = args.player.plan(
        |threads| overload(WINDOW.max(threads), args.max),
        Stop { after: Some(Duration::from_secs_f64(goal.final_s)), passes: None },
        usual_timeout,
        captured.as_ref(),
    )?;
    let interface = Interface::from_flags(args, &plan)?;
    let alone = if plan.has_connections_alone() { ", connections alone instead of queries" } else { "" };
    let queries = opened.map_or_else(|| Queries::open(&args.player), Ok)?;
    check_against(&plan, &queries.dataset)?;
    let attack = args.attack.attack(&args.player, &plan, &queries.dataset)?;
    let targets = plan.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut views = Views::open(&args.live, &format!("kqps find {targets}"))?;
    let claimed = args.out.as_deref().map(keep::claim).transpose()?;
    let gauges = args.max.map_or_else(Gauges::default, |_| Gauges::for_loads_as_named());
    let (kqps, path, interrupts) = (std::env::current_exe()?, LaidPath::Loopback, signals::in_order());
    let sink = views.sink();
    let program = PlayerProgram { kqps: &kqps, path: &path, interrupts, live: sink.as_ref(), spare: SPARE };
    let player = Player::new(program, &plan, &queries);
    views.begin()?;
    let shown = SearchView::new(views.hub(), &goal, targets.clone(), plan.has_connections_alone());
    let ceilings = ceilings_of(args, &interface, (&player, &shown), &subject.cpus, &gauges);
    let (given, flags) = (
        args.player.given(&plan)?,
        Factors::read([args.player.recorded(), args.attack.recorded()].concat())?,
    );
    let setup = Setup { plan: &plan, watched: &subject, given, flags };
    let keeping = Keeping::begin(claimed, views.page(), &goal, &setup, &interface, &ceilings)?;
    let cores = are_here(&plan.targets).then(|| Cores::new(&plan.cpus, &subject.cpus));
    let mut search = Search {
        json: args.json,
        goal: &goal,
        most_qps: args.max,
        attack: attack.as_ref(),
        player,
        subject: &subject,
        keeping,
        cores,
        gauges,
        shown,
        is_quiet: args.is_quiet,
        shows_bar: io::stderr().is_terminal() && !views.is_drawn(),
        unstored: None,
    };
    let (played, ended) = search.play_all();
    let keeping = search.keeping;
    views.give_back();
    let (cut_short, failed) = match ended {
        Ok(()) => (None, None),
        Err(Ended::Interrupted) => (Some(CutShort::User), None),
        Err(Ended::Limited(why)) => (Some(CutShort::Player), Some(anyhow::Error::msg(why))),
        Err(Ended::Failed(error)) if !played.is_empty() => (Some(CutShort::Error), Some(error)),
        Err(Ended::Failed(error) | Ended::Gone(error)) => return Err(keep::after_failure(keeping, error)),
    };
    let found = EndedSearch {
        args,
        goal: &goal,
        plan: &plan,
        subject: &subject,
        interface: &interface,
        ceilings: &ceilings,
        attack: attack.as_ref(),
        played,
        cut_short,
    };
    let judged = judged(&found, targets + alone)?;
    match keep::end(keeping, cut_short.is_none(), failed) {
        // The verdict refuses, which is the result of the search.
        Err(why) if cut_short == Some(CutShort::Player) => eprintln!("kqps: {why:#}"),
        ended => ended?,
    }
    views.end();
    Ok(judged)
}

/// The closed loop that a search begins with. It plays no more than the user's greatest rate.
fn overload(outstanding: u64, most_qps: Option<f64>) -> LoadPlan {
    most_qps.map_or(LoadPlan::Closed { outstanding }, |rate_qps| LoadPlan::Limited { outstanding, rate_qps })
}

/// The ceilings at echoes on this host, if they are wanted and the target is on this host, too.
fn ceilings_of(
    args: &Args,
    interface: &Interface,
    (player, shown): (&Player<'_>, &SearchView<'_>),
    subject_cpus: &[u32],
    gauges: &Gauges,
) -> Ceilings {
    // The good clients and the attack are not one load with a ceiling.
    if args.no_ceiling || args.attack.is_asked() || !are_here(&player.plan.targets) {
        return Ceilings::default();
    }
    ceiling::measure(interface, (player, shown), subject_cpus, gauges)
}

/// The queries, if they may be a capture, whose clients decide what the plan is.
fn opened_early(player: &PlayerArgs) -> anyhow::Result<Option<Queries>> {
    if !may_be_capture(player) {
        return Ok(None);
    }
    player.names_transport()?;
    Queries::open(player).map(Some)
}

/// A capture, of which every trial plays the queries in their order, at the rate of the search and over one transport.
fn capture_of(player: &PlayerArgs, queries: &Queries) -> Option<Captured> {
    let facts = queries.dataset.capture()?;
    let (window, pile) = (player.capture.window(), player.capture.pile());
    let seed = fastrand::u64(..);
    let plan = ReplayPlan { from: window.from, to: window.to, pile, seed, ..ReplayPlan::default() };
    Some(Captured::new(facts, plan, false))
}

/// Settings and state that the trials of a search share.
struct Search<'a> {
    json: bool,
    goal: &'a Goal,
    /// The greatest rate that may be played.
    most_qps: Option<f64>,
    /// The attack whose rate is searched; `None` if that of the queries is.
    attack: Option<&'a Attack>,
    player: Player<'a>,
    subject: &'a SubjectWatched,
    keeping: Option<Keeping>,
    /// The cores whose speed is measured; `None` if the target is on another host.
    cores: Option<Cores>,
    gauges: Gauges,
    /// Where the search stands, for what shows it.
    shown: SearchView<'a>,
    shows_bar: bool,
    is_quiet: bool,
    /// The trial that was played and could not be stored, which ends the search.
    unstored: Option<Played>,
}

impl Search<'_> {
    /// Plays all trials. Returns them, and how the search ended.
    fn play_all(&mut self) -> (Vec<Played>, Result<(), Ended>) {
        let mut played = Vec::new();
        let (goal, began) = (self.goal, Instant::now());
        self.player.begin_search(Duration::from_secs_f64(goal.limit_s * LATEST));
        if let Err(ended) = self.check_alone() {
            return (played, Err(ended));
        }
        let elapsed_s = || began.elapsed().as_secs_f64();
        let start = Start::default();
        let ended =
            search::run(goal, &start, &mut played, &elapsed_s, |request| self.play_and_print(request))
                .and_then(|bounds| {
                    search::refine(goal, &bounds, &mut played, &elapsed_s, |request| {
                        self.play_and_print(request)
                    })
                });
        played.extend(self.unstored.take());
        (played, ended)
    }

    /// Plays one trial, prints its result, and stores it.
    fn play_and_print(&mut self, request: &TrialRequest) -> Result<Trial, Ended> {
        self.shown.begin(request);
        let play = |played: &TrialRequest| self.trial(request, played);
        let trial = match &self.cores {
            Some(cores) => self.gauges.play(cores, &self.subject.pids, request, play),
            None => play(request),
        };
        let whole = trial?;
        if self.json {
            print_trial(&whole, request).map_err(Ended::Failed)?;
        }
        let trial = breaking::seen(&whole).into_owned();
        if let Some(why) = unanswered(&trial, request).filter(|_| !trial.interrupted) {
            return Err(Ended::Gone(anyhow::Error::msg(why)));
        }
        if !self.is_quiet {
            eprintln!("{}", lines::trial_line(&trial, request.purpose, self.goal));
        }
        if trial.interrupted {
            return Err(Ended::Interrupted);
        }
        self.shown.add(request, &trial);
        match self.keeping.as_mut().map(|keeping| keeping.add(request.purpose, &whole)) {
            Some(Err(error)) => {
                self.unstored = Some(Played { number: 0, purpose: request.purpose, trial });
                Err(Ended::Failed(error))
            }
            Some(Ok(())) | None => Ok(trial),
        }
    }

    /// Plays the trial that the search asks for, as it is at the speed of the cores.
    fn trial(&self, asked: &TrialRequest, played: &TrialRequest) -> Result<Trial, Ended> {
        let mut plan = self.player.plan.clone();
        plan.stop.after = Some(Duration::from_secs_f64(played.duration_s));
        let beside = match (self.attack, played.pace) {
            (Some(attack), _) => attack.lay(&mut plan, (asked, played), self.most_qps),
            (None, RequestedPace::Open { rate_qps }) => {
                plan.load = LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None };
                Vec::new()
            }
            (None, RequestedPace::Closed) => Vec::new(),
        };
        self.player.play((plan, beside), self.subject, None, self.shows_bar)
    }
}

/// Prints a trial as soon as it is over. An output that cannot be written ends the search.
fn print_trial(trial: &Trial, request: &TrialRequest) -> anyhow::Result<()> {
    print::json(&PrintedTrial { trial, purpose: request.purpose, spoiled: is_spoiled(trial) })?;
    Ok(print::check()?)
}

/// The JSON object that `--json` prints of each trial, before the verdict.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PrintedTrial<'a> {
    #[serde(flatten)]
    trial: &'a Trial,
    purpose: Purpose,
    /// Whether the player spoiled the trial, so that it is played again.
    spoiled: bool,
}

/// Why a search ended early.
enum Ended {
    /// During a trial, which the verdict leaves out.
    Interrupted,
    /// By a player that got no CPU time, for this reason.
    Limited(String),
    /// By an error that says nothing of the target.
    Failed(anyhow::Error),
    /// The target has ended, or nothing ever answered: there is no verdict.
    Gone(anyhow::Error),
}

fn goal_of(args: &Args) -> anyhow::Result<Goal> {
    let mut goal = args.goal.goal();
    goal.loss = args.loss.or(args.attack.loss(args.loss)).unwrap_or(goal.loss);
    goal.width = args.width.unwrap_or(goal.width);
    goal.min_qps = args.min.unwrap_or(goal.min_qps);
    goal.max_qps = args.max.unwrap_or(goal.max_qps);
    if goal.width < WIDTH_LEAST {
        return Err(bad_input(format!("--width {}%: expected 0.01% at least", percent::typed(goal.width))));
    }
    if goal.min_qps >= goal.max_qps {
        let (min, max) = (rate(goal.min_qps), rate(goal.max_qps));
        return Err(bad_input(format!("--min is {min}, and --max {max}: expected a --min below --max")));
    }
    if args.p99.is_some_and(|p99| p99 < Duration::from_micros(1)) {
        return Err(bad_input("--p99: every trial would be above it; expected 1us at least"));
    }
    goal.p99_us = args.p99.map(|p99| p99.as_micros() as u64);
    if let Some(time_limit) = args.time_limit {
        goal.limit_s = limit::checked(time_limit, &goal)?;
    }
    goal.check().map_err(bad_input)?;
    Ok(goal)
}

pub(crate) fn are_here(targets: &[SocketAddr]) -> bool {
    targets.iter().all(|&target| is_local(target))
}

/// The default timeout of an answer. On this host it is that of a study.
fn usual_timeout(targets: &[SocketAddr]) -> Duration {
    if are_here(targets) { Duration::from_secs_f64(TIMEOUT_S) } else { TIMEOUT }
}

/// Why the search has no target: the subject has ended, or nothing ever answered.
fn unanswered(trial: &Trial, request: &TrialRequest) -> Option<String> {
    let ended = trial.subject.as_ref().filter(|subject| !subject.alive).map(|subject| match request.pace {
        RequestedPace::Open { rate_qps } => {
            format!(
                "process {} ended during the trial at {} {}",
                subject.pid,
                rate(rate_qps),
                trial.rate_unit()
            )
        }
        RequestedPace::Closed => format!("process {} ended during the overload trial", subject.pid),
    });
    // Beside an attack the good clients were answered before.
    let is_first = request.purpose == Purpose::Ceiling && trial.classes.is_empty();
    ended.or_else(|| silence(trial).filter(|_| is_first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_on_this_host_is_late_sooner() {
        let timeout = |targets: &[&str]| {
            usual_timeout(&targets.iter().map(|target| target.parse().unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(timeout(&["127.0.0.1:53", "[::1]:53"]), Duration::from_millis(250));
        assert_eq!(timeout(&["192.0.2.1:53"]), Duration::from_secs(1));
        assert_eq!(timeout(&["127.0.0.1:53", "192.0.2.1:53"]), Duration::from_secs(1), "one is far away");
    }
}
