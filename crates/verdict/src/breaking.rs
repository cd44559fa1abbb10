//! The breaking point of good clients beside an attack: the greatest rate of the attack beside which they keep their
//! answers. A search of it sees of each trial the good clients, under the load of the attack, so that search, estimate and
//! judgement are those of any rate.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kqps_observation::hostile::UNSENT_ROOM;
use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::trial::{ClassTrial, LoadFacts, LoadMode, UNSENT_CONNECTIONS, UNSENT_LATE};
use kqps_observation::{HostileFacts, Run, RunTrial, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::speed;
use crate::search::Goal;

/// Good clients beside an attack whose rate a search varied: the figure of the search is the rate of the attack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakingPoint {
    /// The names of the classes whose rate the search varied. Each of them had the rate.
    pub attack: Vec<String>,
    /// The rate of the good clients, queries a second, at the speed of the verdict's rates.
    pub good_qps: f64,
    /// The share of their answers that they must keep, 0 to 1.
    pub keep: f64,
}

impl BreakingPoint {
    /// The good clients and the attack of these trials; `None` if no search varied the rate of a class.
    pub(crate) fn from_trials(goal: &Goal, trials: &[(Purpose, &Trial)], usual_speed: f64) -> Option<Self> {
        let beside =
            || trials.iter().map(|(_, trial)| *trial).filter(|trial| attacks(trial).next().is_some());
        let attack = attacks(beside().next()?).map(|class| class.name.clone()).collect();
        let good_qps = |trial: &Trial| Some(trial.good().load.intended_qps? / speed(trial));
        let mut rates: Vec<f64> = beside().filter_map(good_qps).collect();
        rates.sort_by(f64::total_cmp);
        let good_qps = rates.get(rates.len() / 2)? * usual_speed;
        Some(Self { attack, good_qps, keep: goal.keep() })
    }
}

/// The classes whose rate a search varied.
pub fn attacks(trial: &Trial) -> impl Iterator<Item = &ClassTrial> {
    trial.classes.iter().filter(|class| class.is_sought)
}

/// The unit of the rate that a search varied: that of an attack, or of the trial.
pub fn rate_unit(trial: &Trial) -> &'static str {
    attacks(trial).next().map_or_else(|| trial.rate_unit(), |class| class.trial.rate_unit())
}

/// A trial as a search sees it: beside an attack, the good clients, and under the load of the attack if its rate is searched;
/// any other trial as it is. Places where packets were lost are those of all classes. For each query or attempt of another
/// class that its player did not send, the good clients have their share of a query that was not sent: a trial whose attack
/// fell short of its rate shows nothing of that rate, and the player, or its places, were its limit.
pub fn seen(trial: &Trial) -> Cow<'_, Trial> {
    let Some(first) = trial.classes.first() else { return Cow::Borrowed(trial) };
    let good = &first.trial;
    let load = match attacks(trial).next() {
        Some(attack) => load_of(trial, &attack.trial.load),
        None => good.load.clone(),
    };
    let mut seen = Trial {
        load,
        interrupted: trial.interrupted,
        disturbed: trial.disturbed,
        ledger: trial.ledger.clone(),
        speed: trial.speed.clone(),
        stalls: trial.stalls.clone(),
        residence: trial.residence.clone(),
        beside: trial.beside.clone(),
        classes: trial.classes.clone(),
        ..good.clone()
    };
    for class in trial.classes[1..].iter().filter(|class| class.trial.load.mode == LoadMode::Open) {
        add_unsent(&mut seen, good.accounts.intended, class);
    }
    Cow::Owned(seen)
}

/// The load of an attack, as that of the good clients beside it.
fn load_of(trial: &Trial, attack: &LoadFacts) -> LoadFacts {
    LoadFacts {
        mode: attack.mode,
        arrivals: attack.arrivals.clone(),
        outstanding: attack.outstanding,
        intended_qps: attack.intended_qps,
        offered_qps: attack.offered_qps,
        seed: attack.seed,
        course: attack.course.clone(),
        // A queue holds queries of all classes.
        answered_qps: trial.classes.iter().map(|class| answered_qps(&class.trial)).sum(),
        ..trial.good().load.clone()
    }
}

/// Queries that were answered a second, or attempts of attackers that the server took.
fn answered_qps(trial: &Trial) -> f64 {
    let taken =
        |hostile: &HostileFacts| hostile.taken() as f64 / trial.load.duration_s.max(f64::MIN_POSITIVE);
    trial.hostile.as_ref().map_or(trial.load.answered_qps, taken)
}

/// Adds to the good clients, who intended so many queries, their share of the queries of an attack that were not sent. Of
/// attempts that are no queries, those count to which the player came too late, and if their rate is searched also those that
/// found no room.
fn add_unsent(seen: &mut Trial, intended: u64, class: &ClassTrial) {
    let attack = &class.trial;
    let (sent, unsent_causes) = match &attack.hostile {
        Some(hostile) => (hostile.begun, not_begun(hostile, class.is_sought)),
        None => (attack.accounts.sent, attack.unsent_causes.clone()),
    };
    let per_query = intended as f64 / sent.max(1) as f64;
    let add = |to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>| {
        let mut all = 0;
        for (cause, count) in from {
            let share = (*count as f64 * per_query).round() as u64;
            *to.entry(cause.clone()).or_default() += share;
            all += share;
        }
        all
    };
    let unsent = add(&mut seen.unsent_causes, &unsent_causes);
    let failed = add(&mut seen.send_failed_causes, &attack.send_failed_causes);
    seen.accounts.unsent += unsent;
    seen.accounts.send_failed += failed;
    seen.accounts.intended += unsent + failed;
}

/// The attempts that count as queries that were not sent, by the cause of such queries. Attackers that hold all their
/// connections do their work, unless it is asked how many attempts the server bears.
fn not_begun(hostile: &HostileFacts, is_sought: bool) -> BTreeMap<String, u64> {
    let causes = [(UNSENT_LATE, UNSENT_LATE, true), (UNSENT_ROOM, UNSENT_CONNECTIONS, is_sought)];
    let counted = causes.into_iter().filter(|(.., counts)| *counts);
    counted
        .filter_map(|(of_attempts, of_queries, _)| {
            Some((of_queries.to_owned(), *hostile.unsent.get(of_attempts)?))
        })
        .collect()
}

/// A run whose trials are as a search sees them ([`seen`]).
pub fn seen_run(run: &Run) -> Cow<'_, Run> {
    let has_attack = |one: &RunTrial| one.measured().is_some_and(|trial| !trial.classes.is_empty());
    if !run.trials.iter().any(has_attack) {
        return Cow::Borrowed(run);
    }
    let mut run = run.clone();
    for one in &mut run.trials {
        if let Outcome::Measured(trial) = &mut one.outcome
            && let Cow::Owned(seen) = seen(trial)
        {
            **trial = seen;
        }
    }
    Cow::Owned(run)
}

#[cfg(test)]
mod tests {
    use kqps_observation::{Accounts, HostileConnections, Ledger};

    use super::*;
    use crate::search::{Preset, Probe};

    fn class(name: &str, rate_qps: f64, accounts: Accounts) -> ClassTrial {
        let load = LoadFacts {
            intended_qps: Some(rate_qps),
            answered_qps: accounts.correct as f64,
            duration_s: 1.0,
            ..LoadFacts::default()
        };
        let unsent_causes = BTreeMap::from([(UNSENT_LATE.to_owned(), accounts.unsent)]);
        let trial = Trial { load, accounts, unsent_causes, ..Trial::default() };
        ClassTrial { name: name.to_owned(), trial, is_sought: name == "attack" }
    }

    /// Good clients with a thousand queries, of which some were lost, beside an attack of ten thousand, some unsent.
    fn trial(lost: u64, unsent: u64) -> Trial {
        let fates = |intended: u64, unsent: u64, lost: u64| {
            let sent = intended - unsent;
            Accounts { intended, unsent, sent, correct: sent - lost, lost, ..Accounts::default() }
        };
        let classes = vec![
            class("good", 1000.0, fates(1000, 0, lost)),
            class("attack", 10_000.0, fates(10_000, unsent, 5000)),
        ];
        Trial { classes, ..Trial::default() }
    }

    #[test]
    fn a_search_sees_the_good_clients_under_the_load_of_the_attack() {
        let whole = trial(20, 0);
        let seen_once = seen(&whole);
        assert_eq!(seen_once.accounts, whole.good().accounts);
        assert_eq!(seen_once.load.intended_qps, Some(10_000.0));
        assert!((seen_once.load.answered_qps - 5_980.0).abs() < 1e-9, "a queue holds queries of all");
        assert_eq!(*seen(&seen_once), *seen_once, "it may be seen again");
        let goal = Goal { loss: 0.01, ..Preset::Quick.goal() };
        let is_bad = |trial: &Trial| Probe::from_trial(&seen(trial), &goal, Purpose::Search).is_bad(&goal);
        assert_eq!([trial(20, 0), trial(9, 0)].map(|trial| is_bad(&trial)), [true, false]);
    }

    #[test]
    fn an_attack_that_was_not_sent_is_no_load_that_good_clients_bore() {
        let whole = trial(0, 2_000);
        let seen = seen(&whole);
        seen.accounts.check().unwrap();
        assert!((seen.accounts.bad_ratio() - 0.2).abs() < 1e-9, "{:?}", seen.accounts);
        assert!(crate::warning::starved(&seen).is_some());
        let found = crate::bottleneck::bottleneck([&*seen]);
        assert_eq!(found.resource, crate::bottleneck::Resource::Player);
        let closed = |mode| {
            let mut whole = trial(0, 2_000);
            whole.classes[1].trial.load.mode = mode;
            super::seen(&whole).accounts.unsent
        };
        assert_eq!((closed(LoadMode::Closed), closed(LoadMode::Open)), (0, 250));
    }

    #[test]
    fn attempts_that_came_too_late_are_an_attack_that_was_not_sent() {
        let mut whole = trial(0, 0);
        let unsent = [(UNSENT_LATE.to_owned(), 100), ("room".to_owned(), 700)].into();
        let hostile = HostileFacts { due: 1000, begun: 200, unsent, ..HostileFacts::default() };
        let beside = Trial { hostile: Some(hostile), ..Trial::default() };
        whole.classes.push(ClassTrial { name: "idle".into(), trial: beside, is_sought: false });
        let unsent = |whole: &Trial| {
            let seen = seen(whole);
            seen.accounts.check().unwrap();
            let by_cause = |cause| seen.unsent_causes.get(cause).copied();
            (seen.accounts.unsent, by_cause(UNSENT_LATE), by_cause(UNSENT_CONNECTIONS))
        };
        assert_eq!(unsent(&whole), (500, Some(500), None), "places that are full are the attack");
        whole.classes[2].is_sought = true;
        assert_eq!(unsent(&whole), (4000, Some(500), Some(3500)), "and no rate that the server bore");
    }

    #[test]
    fn a_search_sees_how_many_attempts_the_server_took() {
        let mut whole = trial(0, 0);
        let connections = HostileConnections { connected: 300, ..HostileConnections::default() };
        whole.classes[1].trial.hostile = Some(HostileFacts { connections, ..HostileFacts::default() });
        // The good clients had 1,000 answers in a second.
        assert!((seen(&whole).load.answered_qps - 1300.0).abs() < 1e-9);
        assert_eq!(rate_unit(&whole), "attempts/s");
    }

    #[test]
    fn packets_of_all_classes_were_lost_where_the_trial_says() {
        let mut whole = trial(20, 0);
        whole.ledger = Ledger { unexplained: 7, ..Ledger::default() };
        assert_eq!(seen(&whole).ledger, whole.ledger);
        let other = Trial::default();
        assert!(matches!(seen(&other), Cow::Borrowed(_)));
    }

    #[test]
    fn a_breaking_point_names_the_attack_and_the_rate_of_the_good_clients() {
        let whole = trial(0, 0);
        let seen = seen(&whole);
        let goal = Goal { loss: 0.01, ..Preset::Quick.goal() };
        let found = BreakingPoint::from_trials(&goal, &[(Purpose::Search, &seen)], 1.0).unwrap();
        assert_eq!((found.attack, found.good_qps), (vec!["attack".to_owned()], 1000.0));
        assert!(found.keep.total_cmp(&0.99).is_eq(), "without the noise of binary fractions");
        assert_eq!(BreakingPoint::from_trials(&goal, &[(Purpose::Search, whole.good())], 1.0), None);
    }
}
