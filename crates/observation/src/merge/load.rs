//! The load of all players together.

use crate::trial::{LoadFacts, LoadMode, ReplyFacts};
use crate::{Accounts, PlayerPart};

use super::{Part, counts};

/// The load that all players offered, and what was answered of it. Rates are counts over the longest time of any player,
/// as for the threads of one player.
pub(super) fn facts(parts: &[Part], accounts: &Accounts) -> LoadFacts {
    let each = || parts.iter().map(|part| &part.trial.load);
    let longest = |of: fn(&LoadFacts) -> f64| each().map(of).fold(0.0, f64::max);
    let longest_known = |of: fn(&LoadFacts) -> Option<f64>| each().filter_map(of).reduce(f64::max);
    let duration_s = longest(|load| load.duration_s);
    let sending_s = longest(LoadFacts::sending_s);
    let over = |count: f64, seconds: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    let first = each().next().cloned().unwrap_or_default();
    let known = each().map(|load| load.correct_in_time).collect::<Option<Vec<u64>>>();
    let correct_in_time = known.map(counts::sum);
    let answered = match (first.mode, correct_in_time) {
        (LoadMode::Closed, Some(in_time)) => in_time,
        _ => accounts.correct,
    };
    // A player's mean is over its own time.
    let outstanding_s: Option<f64> = each().map(|load| Some(load.outstanding_mean? * load.duration_s)).sum();
    let intended_qps: Option<f64> = each().map(|load| load.intended_qps).sum();
    // All players follow one course, each at its share of the rate.
    let times =
        intended_qps.zip(first.intended_qps).map_or(1.0, |(all_qps, first_qps)| over(all_qps, first_qps));
    LoadFacts {
        mode: first.mode,
        arrivals: first.arrivals,
        outstanding: each().map(|load| load.outstanding).collect::<Option<Vec<u64>>>().map(counts::sum),
        outstanding_mean: outstanding_s.map(|sum_s| over(sum_s, duration_s)),
        intended_qps,
        offered_qps: over(
            accounts.sent as f64,
            if first.mode == LoadMode::Closed { duration_s } else { sending_s },
        ),
        answered_qps: over(answered as f64, duration_s),
        correct_in_time,
        duration_s,
        sending_s: longest_known(|load| load.sending_s),
        timeout_s: first.timeout_s,
        drain_s: longest(|load| load.drain_s),
        burst: each().map(|load| load.burst).max().unwrap_or(0),
        coalesce_us: longest_known(|load| load.coalesce_us),
        lag_allowed_us: longest_known(|load| load.lag_allowed_us),
        seed: first.seed,
        course: first.course.map(|course| course.times(times)),
    }
}

/// The replies in time of all players.
pub(super) fn replies(parts: &[Part]) -> Option<ReplyFacts> {
    let each: Vec<ReplyFacts> = parts.iter().map(|part| part.trial.replies).collect::<Option<_>>()?;
    let count = counts::sum(each.iter().map(|replies| replies.count));
    let sum = |of: fn(&ReplyFacts) -> Option<f64>| -> f64 {
        each.iter().filter_map(|replies| Some(of(replies)? * replies.count as f64)).sum()
    };
    let mean = |of: fn(&ReplyFacts) -> Option<f64>| (count > 0).then(|| sum(of) / count as f64);
    let mean_us = mean(|replies| replies.mean_us);
    // The squares around the mean of all: those around each player's mean, and of the means around that of all.
    let squares = |replies: &ReplyFacts, mean_us: f64| {
        let (count, own_us) = (replies.count as f64, replies.mean_us.unwrap_or(mean_us));
        replies.stddev_us.map_or(0.0, |us| us * us * (count - 1.0)) + count * (own_us - mean_us).powi(2)
    };
    let variance =
        |mean_us| each.iter().map(|replies| squares(replies, mean_us)).sum::<f64>() / (count - 1) as f64;
    Some(ReplyFacts {
        count,
        bytes_mean: mean(|replies| replies.bytes_mean),
        mean_us,
        min_us: each.iter().filter_map(|replies| replies.min_us).min(),
        max_us: each.iter().filter_map(|replies| replies.max_us).max(),
        last_s: each.iter().filter_map(|replies| replies.last_s).reduce(f64::max),
        stddev_us: mean_us.filter(|_| count > 1).map(|mean_us| variance(mean_us).sqrt()),
    })
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
