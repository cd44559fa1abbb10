//! The load of all players together.

use kqps_observation::trial::{LoadFacts, LoadMode};
use kqps_observation::{Accounts, PlayerPart};

use super::{Part, counts};

/// The load that all players offered, and what was answered of it. Rates are counts over the longest time in which any
/// player sent, as for the threads of one player.
pub(super) fn of(parts: &[Part], accounts: &Accounts) -> LoadFacts {
    let each = || parts.iter().map(|part| &part.trial.load);
    let longest = |of: fn(&LoadFacts) -> f64| each().map(of).fold(0.0, f64::max);
    let longest_known = |of: fn(&LoadFacts) -> Option<f64>| each().filter_map(of).reduce(f64::max);
    let duration_s = longest(|load| load.duration_s);
    let per_s = |count: f64| if duration_s > 0.0 { count / duration_s } else { 0.0 };
    let first = each().next().cloned().unwrap_or_default();
    let known = each().map(|load| load.correct_in_time).collect::<Option<Vec<u64>>>();
    let correct_in_time = known.map(counts::sum);
    let answered = match (first.mode, correct_in_time) {
        (LoadMode::Closed, Some(in_time)) => in_time,
        _ => accounts.correct,
    };
    // A player's mean is over its own time.
    let outstanding_s: Option<f64> = each().map(|load| Some(load.outstanding_mean? * load.duration_s)).sum();
    LoadFacts {
        mode: first.mode,
        arrivals: first.arrivals,
        outstanding: each().map(|load| load.outstanding).collect::<Option<Vec<u64>>>().map(counts::sum),
        outstanding_mean: outstanding_s.map(per_s),
        intended_qps: each().map(|load| load.intended_qps).sum(),
        offered_qps: per_s(accounts.sent as f64),
        answered_qps: per_s(answered as f64),
        correct_in_time,
        duration_s,
        timeout_s: first.timeout_s,
        drain_s: longest(|load| load.drain_s),
        burst: each().map(|load| load.burst).max().unwrap_or(0),
        coalesce_us: longest_known(|load| load.coalesce_us),
        lag_allowed_us: longest_known(|load| load.lag_allowed_us),
        seed: first.seed,
    }
}

/// The part of each player, in their order.
pub(super) fn each(parts: &[Part]) -> Vec<PlayerPart> {
    (0..).zip(parts).map(|(player, part)| one(player, part)).collect()
}

fn one(player: u32, part: &Part) -> PlayerPart {
    let trial = &part.trial;
    let mut start = part.start;
    start.late_ns = start.late_ns.max(trial.late_start_ns.unwrap_or(0));
    PlayerPart {
        host: part.host.clone(),
        player,
        accounts: trial.accounts,
        unsent_causes: trial.unsent_causes.clone(),
        send_failed_causes: trial.send_failed_causes.clone(),
        offered_qps: trial.load.offered_qps,
        answered_qps: trial.load.answered_qps,
        latency_us: trial.latency_us,
        lag_us: trial.lag_us,
        start,
    }
}
