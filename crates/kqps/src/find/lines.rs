//! The lines of `kqps find` about trials, each printed when its trial ends.

use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;
use kqps_observation::{Histogram, Percentile, Trial};
use kqps_verdict::breaking::{attacks, rate_unit};
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::{Goal, Probe};

/// The line of one trial.
pub(super) fn trial_line(trial: &Trial, purpose: Purpose, goal: &Goal) -> String {
    let (unit, seconds, p99) = (unit_of(trial), seconds(trial), p99(trial));
    let played = rate(played_qps(trial));
    if purpose == Purpose::Ceiling {
        let done = done(trial);
        let word = if trial.interrupted { ": interrupted" } else { "" };
        let (most, unit) = (most(trial), rate_unit(trial));
        // Attackers have no closed loop.
        let how = if trial.load.mode == LoadMode::Closed { "in a closed loop of" } else { "in" };
        return format!("overload   {played:>11} {unit} {done} {how} {seconds} s{most}{p99}{word}");
    }
    let word = if trial.interrupted { "interrupted".to_owned() } else { met_or_missed(trial, goal, purpose) };
    let what = match purpose {
        Purpose::Retest => "again",
        // Good clients without the attack that is searched for.
        Purpose::WarmUp => "alone",
        _ => "trial",
    };
    let bad = 100.0 * trial.accounts.bad_ratio();
    let whose = if attacks(trial).next().is_some() { "good clients " } else { "" };
    format!("{what:<10} {played:>11} {unit} for {seconds} s: {whose}{bad:.3} % bad{p99}: {word}")
}

/// The unit of a trial's rate, and whose rate it is if it is that of an attack.
fn unit_of(trial: &Trial) -> String {
    let whose = if attacks(trial).next().is_some() { " of the attack" } else { "" };
    format!("{}{whose}", rate_unit(trial))
}

/// Whether a trial met the goal, and why not.
fn met_or_missed(trial: &Trial, goal: &Goal, purpose: Purpose) -> String {
    let probe = Probe::from_trial(trial, goal, purpose);
    if !probe.is_bad(goal) {
        return "met the goal".to_owned();
    }
    let loss = (probe.bad_ratio > goal.loss).then(|| {
        let seen = percent::fixed(probe.bad_ratio, 3);
        format!("{seen} % bad, goal {} %", percent::typed(goal.loss))
    });
    let slow = goal.p99_us.filter(|_| probe.too_slow).map(|limit_us| slow(trial, limit_us));
    let why: Vec<String> = loss.into_iter().chain(slow).collect();
    format!("missed the goal: {}", why.join("; "))
}

/// By how much the latency of a trial exceeds the goal's limit in microseconds, and of how many answers.
fn slow(trial: &Trial, limit_us: u64) -> String {
    let histogram = trial.histograms.get("latency").and_then(|text| Histogram::decode(text));
    let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else {
        return format!("no answer has a latency, goal p99 {limit_us} µs");
    };
    let mut beyond = histogram.len();
    // The least time that a hundredth of the samples at most exceeds, as the goal counts.
    let p99_us = histogram.times().find_map(|(time_us, count)| {
        beyond -= count;
        (beyond as f64 <= histogram.len() as f64 * 0.01).then_some(time_us)
    });
    let p99_us = p99_us.unwrap_or_default();
    match histogram.len() {
        1 => format!("its only answer took {p99_us} µs, goal p99 {limit_us} µs"),
        count => {
            let answers = rate(count as f64);
            format!(
                "more than 1 % of its {answers} answers took {p99_us} µs or longer, goal p99 {limit_us} µs"
            )
        }
    }
}

/// The line of a ceiling, measured at this echo.
pub(super) fn ceiling_line(trial: &Trial, echo: &str) -> String {
    let (unit, seconds, p99) = (trial.rate_unit(), seconds(trial), p99(trial));
    let (played, done) = (rate(played_qps(trial)), done(trial));
    format!("ceiling    {played:>11} {unit} {done} by {echo} in a closed loop of {seconds} s{p99}")
}

/// The rate in the line of a trial: its load as played, or the answered rate of a closed loop.
pub(super) fn played_qps(trial: &Trial) -> f64 {
    let intended_qps = trial.load.intended_qps.filter(|_| trial.load.mode == LoadMode::Open);
    intended_qps.unwrap_or(trial.load.answered_qps)
}

/// The limit of a closed loop, if it has one.
fn most(trial: &Trial) -> String {
    let limit_qps = trial.load.intended_qps.filter(|_| trial.load.mode == LoadMode::Closed);
    limit_qps.map_or_else(String::new, |qps| format!(", at most {} {}", rate(qps), trial.rate_unit()))
}

/// The verb for a closed loop: a server accepts connections or answers queries.
fn done(trial: &Trial) -> &'static str {
    if trial.has_connections_alone() { "accepted" } else { "answered" }
}

/// To the millisecond, since an interrupted trial has any duration.
fn seconds(trial: &Trial) -> f64 {
    (trial.load.duration_s * 1e3).round() / 1e3
}

fn p99(trial: &Trial) -> String {
    match trial.latency_us.p99() {
        None => String::new(),
        Some(Percentile::Greatest(us)) => format!(", greatest latency {us} µs"),
        Some(seen) => format!(", {}", seen.words("p99", |us| format!("{us} µs"))),
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::trial::LoadFacts;
    use kqps_observation::{Accounts, ConnectionFacts};
    use kqps_verdict::search::Preset;

    use super::*;

    #[test]
    fn a_trial_that_missed_the_goal_says_why() {
        let goal = Goal { p99_us: Some(1), ..Preset::Quick.goal() };
        let load = LoadFacts { intended_qps: Some(3150.0), duration_s: 0.5, ..LoadFacts::default() };
        let accounts = |lost: u64| Accounts {
            intended: 1575,
            sent: 1575,
            correct: 1575 - lost,
            lost,
            ..Accounts::default()
        };
        let mut trial = Trial { load, accounts: accounts(0), ..Trial::default() };
        let why = |trial: &Trial, goal: &Goal| {
            let line = trial_line(trial, Purpose::Search, goal);
            line.split_once(" bad: ").unwrap().1.to_owned()
        };
        assert_eq!(why(&trial, &goal), "missed the goal: no answer has a latency, goal p99 1 µs");
        let mut histogram = Histogram::default();
        histogram.record_many_us(100, 1550);
        histogram.record_many_us(340, 25);
        trial.histograms.insert("latency".into(), histogram.encode());
        assert_eq!(
            why(&trial, &goal),
            "missed the goal: more than 1 % of its 1,575 answers took 340 µs or longer, goal p99 1 µs"
        );
        assert_eq!(why(&trial, &Goal { p99_us: Some(340), ..goal.clone() }), "met the goal");
        trial.accounts = accounts(2);
        let both = "missed the goal: 0.127 % bad, goal 0.1 %; more than 1 % of its 1,575 answers took 340 µs or longer, goal p99 1 µs";
        assert_eq!(why(&trial, &goal), both);
        let loss_alone = Goal { p99_us: None, ..goal };
        assert_eq!(why(&trial, &loss_alone), "missed the goal: 0.127 % bad, goal 0.1 %");
    }

    #[test]
    fn a_percentile_of_few_answers_is_a_bound_or_the_greatest_latency() {
        let seen = |count: u64| {
            let mut histogram = Histogram::default();
            (1..=count).for_each(|time_us| histogram.record_us(time_us));
            p99(&Trial { latency_us: histogram.quantiles(), ..Trial::default() })
        };
        assert_eq!([0, 298, 1_000].map(seen), ["", ", greatest latency 298 µs", ", p99 at most 996 µs"]);
    }

    #[test]
    fn trials_of_connections_alone_have_their_own_unit() {
        let connections = ConnectionFacts { alone: true, ..ConnectionFacts::default() };
        let load = LoadFacts {
            intended_qps: Some(1000.0),
            answered_qps: 900.0,
            duration_s: 0.5,
            ..LoadFacts::default()
        };
        let trial = Trial { load, connections: Some(connections), ..Trial::default() };
        let goal = Preset::Quick.goal();
        let line = trial_line(&trial, Purpose::Search, &goal);
        assert!(line.starts_with("trial            1,000 connections/s for 0.5 s: "), "{line}");
        let load = LoadFacts { mode: LoadMode::Closed, ..trial.load.clone() };
        let overload = trial_line(&Trial { load, ..trial }, Purpose::Ceiling, &goal);
        let expected = "overload           900 connections/s accepted in a closed loop of 0.5 s, \
                        at most 1,000 connections/s";
        assert_eq!(overload, expected);
    }
}
