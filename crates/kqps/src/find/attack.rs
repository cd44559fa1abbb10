//! An attack beside good clients: the rate of the attack is searched at which the good clients lose answers.

use std::time::Duration;

use kqps_dataset::Dataset;
use kqps_observation::Trial;
use kqps_observation::factors::name;
use kqps_observation::run::Purpose;
use kqps_player::{Arrivals, LoadPlan, Plan};
use kqps_testbed::attack::{attempts_of_overload, speed};
use kqps_testbed::play::PlayClass;
use kqps_testbed::trial_request::{RequestedPace, TrialRequest};
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::{Goal, Probe};
use kqps_verdict::warning::{client_drops, starved};

use super::{Ended, Search, WINDOW, overload};
use crate::exit::bad_input;
use crate::load::scenario::{self, Asked, ClassLoad, OpenRate, Source, Typed};
use crate::load::{Allowed, PlayerArgs};
use crate::value::{parse_kept, parse_rate};

/// The share of their answers that good clients keep unless the flags say another.
const KEEP: f64 = 0.99;

/// Good clients are played alone so often at most before they count as too many.
const ALONE_MOST: usize = 3;

/// The flags of an attack.
#[derive(Clone, Default, clap::Args)]
pub(super) struct AttackArgs {
    /// Search the greatest rate of an attack beside which good clients keep their answers: a scenario by name or file
    ///
    /// Such as random-names, one-name, large-answers, malformed, connections or handshakes. The search varies the rate that the scenario
    /// leaves open, and --good-rate is the rate of the good clients, whose queries are those of -d. docs/SCENARIOS.md
    /// describes the files.
    #[arg(long, value_name = "NAME|FILE", value_parser = scenario::parse, requires = "good_rate", help_heading = "Attack")]
    scenario: Option<Typed>,

    /// The rate of the good clients beside a scenario, queries a second
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "scenario", help_heading = "Attack")]
    good_rate: Option<f64>,

    /// The share of their answers that the good clients must keep, such as 99.9% (default: 99%)
    ///
    /// It stands in place of --loss. With --p99 their latency must stay within that, too.
    #[arg(long, value_name = "SHARE", value_parser = parse_kept, requires = "scenario", conflicts_with = "loss", help_heading = "Attack")]
    keep: Option<f64>,

    /// Let a scenario attack this server on another host: ADDR or ADDR/PREFIX (repeatable)
    #[arg(long, value_name = "ADDR[/PREFIX]", requires = "scenario", help_heading = "Attack")]
    yes_attack: Vec<Allowed>,
}

/// An attack beside good clients.
pub(super) struct Attack {
    /// The scenario as typed.
    pub(super) name: String,
    /// The rate of the good clients, queries a second.
    pub(super) good_qps: f64,
    classes: Vec<PlayClass>,
    /// Where the queries of the classes are.
    _sources: Vec<Source>,
}

impl AttackArgs {
    /// Whether the flags name a scenario.
    pub(super) fn is_asked(&self) -> bool {
        self.scenario.is_some()
    }

    /// The share of the good clients' queries that may go without a correct answer in time; `None` if the goal's own
    /// loss holds.
    pub(super) fn loss(&self, given: Option<f64>) -> Option<f64> {
        self.scenario.as_ref().filter(|_| given.is_none())?;
        Some(Goal::loss_of_keep(self.keep.unwrap_or(KEEP)))
    }

    /// The factors of a stored search with this attack.
    pub(super) fn recorded(&self) -> Vec<(String, String)> {
        let scenario = self.scenario.as_ref().map(|typed| (name::SCENARIO, typed.source().to_owned()));
        let good_rate = self.good_rate.map(|qps| (name::GOOD_RATE, format!("{:.0}", qps.max(1.0))));
        [scenario, good_rate].into_iter().flatten().map(|(name, word)| (name.to_owned(), word)).collect()
    }

    /// The attack of the flags beside good clients with this plan and these queries; `None` without a scenario.
    pub(super) fn attack(
        &self,
        player: &PlayerArgs,
        good: &Plan,
        queries: &Dataset,
    ) -> anyhow::Result<Option<Attack>> {
        let (Some(typed), Some(good_qps)) = (&self.scenario, self.good_rate) else { return Ok(None) };
        let wrong = |why: String| bad_input(format!("--scenario {}: {why}", typed.source()));
        if let Some(rate) = typed.rate() {
            return Err(wrong(format!(
                "leave out `={rate}`: kqps find varies the rate, and kqps load plays one"
            )));
        }
        let (yes_attack, seed) = (&*self.yes_attack, None);
        let asked = Asked { scenario: typed, player, has_mix: false, yes_attack, seed, cpu: None };
        let loads = scenario::classes(&asked, good, queries)?;
        for (class, source) in &loads {
            check(class, source).map_err(|why| wrong(format!("class {}: {why}", class.name)))?;
        }
        if !loads.iter().any(|(class, _)| class.is_sought) {
            return Err(wrong("no class has `rate = \"{rate}\"`, the rate that kqps find varies".into()));
        }
        let classes = loads.iter().map(|(class, source)| source.request(class)).collect();
        let sources = loads.into_iter().map(|(_, source)| source).collect();
        Ok(Some(Attack { name: typed.source().to_owned(), good_qps, classes, _sources: sources }))
    }
}

/// Refuses a class that no trial of a search can play.
fn check(class: &ClassLoad, source: &Source) -> Result<(), String> {
    if source.open_rate == OpenRate::Elsewhere {
        return Err("`{rate}` may stand for its `rate` alone, which kqps find varies".into());
    }
    if class.plan.course.is_some() {
        return Err("a rate that changes has no greatest one: give it a `rate`".into());
    }
    if class.is_sought && !matches!(class.plan.load, LoadPlan::Open { .. }) {
        return Err("its rate has no schedule".into());
    }
    if !source.is_file() {
        return Err("its queries must be in a file, which each trial opens again".into());
    }
    Ok(())
}

impl Attack {
    /// Sets the load of the good clients for a trial, and returns the classes beside them. `asked` is the trial that the
    /// search wants, and `played` that at the speed of the cores, which the good clients follow as well. `most_qps` is the
    /// greatest rate that may be played.
    pub(super) fn lay(
        &self,
        plan: &mut Plan,
        (asked, played): (&TrialRequest, &TrialRequest),
        most_qps: Option<f64>,
    ) -> Vec<PlayClass> {
        let speed = speed(asked, played);
        let rate_qps = self.good_qps * speed;
        plan.load = LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None };
        // A thread that runs before all others would hold up those of other classes.
        plan.own_cores = false;
        if is_alone(asked) {
            return Vec::new();
        }
        let mut classes = self.classes.clone();
        for class in &mut classes {
            let plan = &mut class.plan;
            plan.stop.after = Some(Duration::from_secs_f64(played.duration_s));
            plan.moments = None;
            // Other classes than the attack follow the speed as the good clients do.
            plan.load = match (class.is_sought, played.pace, plan.load) {
                (true, RequestedPace::Open { rate_qps }, LoadPlan::Open { arrivals, window, .. }) => {
                    LoadPlan::Open { rate_qps, arrivals, window }
                }
                (true, ..) if plan.hostile.is_some() => attempts_of_overload(most_qps),
                (true, ..) => overload(WINDOW.max(plan.threads as u64), most_qps),
                (false, _, LoadPlan::Open { rate_qps, arrivals, window }) => {
                    LoadPlan::Open { rate_qps: rate_qps * speed, arrivals, window }
                }
                (false, _, load) => load,
            };
        }
        classes
    }
}

/// Whether a trial is one of the good clients alone.
fn is_alone(request: &TrialRequest) -> bool {
    request.purpose == Purpose::WarmUp
}

impl Search<'_> {
    /// Makes sure that the good clients keep their answers without the attack. If they do not, no rate of the attack is to
    /// blame.
    pub(super) fn check_alone(&mut self) -> Result<(), Ended> {
        let Some(attack) = self.attack else { return Ok(()) };
        let (goal, good_qps) = (self.goal, attack.good_qps);
        let pace = RequestedPace::Open { rate_qps: good_qps };
        let request = TrialRequest { pace, duration_s: goal.final_s, purpose: Purpose::WarmUp };
        let mut why = String::new();
        for _ in 0..ALONE_MOST {
            let trial = self.play_and_print(&request)?;
            match missed_alone(&trial, goal, good_qps) {
                None => return Ok(()),
                Some(missed) => why = missed,
            }
        }
        Err(Ended::Gone(anyhow::Error::msg(why)))
    }
}

/// Why the good clients alone miss the goal in a trial; `None` if they meet it.
fn missed_alone(trial: &Trial, goal: &Goal, good_qps: f64) -> Option<String> {
    let good = rate(good_qps);
    let probe = Probe::from_trial(trial, goal, Purpose::WarmUp);
    if !probe.is_bad(goal) {
        return None;
    }
    if starved(trial).is_some() || client_drops(trial).is_some() {
        return Some(format!(
            "The player was the limit of the good clients alone, without any attack: it could not send {good} q/s in time, or \
             take all replies. Give it more threads (-T) on cores of their own (--cpus), or lower --good-rate"
        ));
    }
    let keep = percent::typed(goal.keep());
    let kept = percent::fixed(1.0 - probe.bad_ratio, 2);
    let why = if probe.bad_ratio > goal.loss {
        format!("keep {kept} % of their answers at {good} q/s, and not {keep} %: lower --good-rate or --keep")
    } else {
        format!("miss the limit of --p99 at {good} q/s: lower --good-rate, or allow more")
    };
    Some(format!(
        "Good clients alone, without any attack, {why}. `kqps find` without --scenario finds their greatest rate"
    ))
}

#[cfg(test)]
mod tests {
    use kqps_observation::Accounts;
    use kqps_verdict::search::Preset;

    use super::*;

    #[test]
    fn good_clients_that_lose_answers_alone_are_named_with_their_rate() {
        let goal = Goal { loss: 0.01, ..Preset::Quick.goal() };
        let trial = |lost: u64, unsent: u64| {
            let sent = 1000 - unsent;
            let correct = sent - lost;
            let accounts = Accounts { intended: 1000, unsent, sent, correct, lost, ..Accounts::default() };
            Trial { accounts, ..Trial::default() }
        };
        assert_eq!(missed_alone(&trial(10, 0), &goal, 2e4), None);
        let lost = missed_alone(&trial(150, 0), &goal, 2e4).unwrap();
        assert!(lost.contains("keep 85.00 % of their answers at 20,000 q/s, and not 99 %"), "{lost}");
        let unsent = missed_alone(&trial(0, 150), &goal, 2e4).unwrap();
        assert!(unsent.starts_with("The player was the limit"), "{unsent}");
        let goal = Goal { p99_us: Some(1), ..goal };
        assert!(missed_alone(&trial(0, 0), &goal, 2e4).unwrap().contains("--p99"));
    }

    #[test]
    fn the_share_to_keep_stands_in_place_of_the_loss() {
        let with =
            |keep| AttackArgs { scenario: scenario::parse("one-name").ok(), keep, ..AttackArgs::default() };
        assert_eq!(with(None).loss(None), Some(0.01));
        assert_eq!(with(Some(0.999)).loss(None), Some(0.001));
        assert_eq!(with(None).loss(Some(0.05)), None);
        assert_eq!(AttackArgs::default().loss(None), None);
    }
}
