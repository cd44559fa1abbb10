//! The lines of `kqps find` about trials, each printed when its trial ends.

use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;
use kqps_verdict::rate::rate;
use kqps_verdict::search::{Goal, Probe};

/// The line of one trial.
pub(super) fn trial_line(trial: &Trial, purpose: Purpose, goal: &Goal) -> String {
    let (unit, seconds, p99) = (trial.rate_unit(), seconds(trial), p99(trial));
    let played = rate(played_qps(trial));
    if purpose == Purpose::Ceiling {
        let done = done(trial);
        let word = if trial.interrupted { ": interrupted" } else { "" };
        let most = most(trial);
        return format!(
            "overload   {played:>11} {unit} {done} in a closed loop of {seconds} s{most}{p99}{word}"
        );
    }
    let word = match trial.interrupted {
        true => "interrupted",
        false if Probe::of(trial, goal, purpose).is_bad(goal) => "missed the goal",
        false => "met the goal",
    };
    let what = if purpose == Purpose::Retest { "again" } else { "trial" };
    let bad = 100.0 * trial.accounts.bad_ratio();
    format!("{what:<10} {played:>11} {unit} for {seconds} s: {bad:.3} % bad{p99}: {word}")
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
    trial.latency_us.p99.map_or_else(String::new, |p99_us| format!(", p99 {p99_us} us"))
}

#[cfg(test)]
mod tests {
    use kqps_observation::ConnectionFacts;
    use kqps_observation::trial::LoadFacts;
    use kqps_verdict::search::Preset;

    use super::*;

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
