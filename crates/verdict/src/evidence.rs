//! Decides which trials count. The player spoils a trial if it lags, its sends fail, or its own sockets drop replies;
//! several players also if they do not begin together. Such a trial is repeated at most twice; if it is spoiled every
//! time, the last one counts and the figure is refused. A trial that the host spoiled is repeated at most three times;
//! then a search goes on with it, and nothing is refused. All trials are stored. Bounds rest on the trials with which a
//! search went on, without those that the host disturbed. The estimate leaves out more (`estimate::of_cell`).

use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;
use kqps_observation::{Run, RunTrial, Trial};

use crate::disturbed::disturbed;
use crate::warning::{
    Effect, REDOS, client_drops, clock_step, lagging, late_player, refuting, send_failed, skewed_start,
};

/// A trial that the host spoiled is repeated at most this often.
const HOST_REDOS: u32 = 3;

/// The speed of the subject's cores in a trial as a multiple of the reference; 1 if it was not gauged.
pub fn speed(trial: &Trial) -> f64 {
    trial.speed.as_ref().and_then(kqps_observation::SpeedFacts::speed).unwrap_or(1.0)
}

/// The load that a trial in open loop was meant to play, queries a second at the reference speed; `None` for a
/// closed loop.
pub fn load_qps(trial: &Trial) -> Option<f64> {
    let wanted_qps = trial.speed.as_ref().and_then(|speed| speed.wanted_qps).or(trial.load.intended_qps);
    wanted_qps.filter(|_| trial.load.mode == LoadMode::Open)
}

/// Correct answers a second at the reference speed.
pub fn answered_qps(trial: &Trial) -> f64 {
    trial.load.answered_qps / speed(trial)
}

/// Whether the player spoiled a trial, which is then repeated.
pub fn is_spoiled(trial: &Trial) -> bool {
    let warnings = [
        lagging(trial),
        send_failed(trial),
        client_drops(trial),
        late_player(trial),
        skewed_start(trial),
        clock_step(trial),
    ];
    warnings.iter().flatten().any(|warning| warning.effect() == Effect::RedoThenRefuse)
}

/// Whether neither the player nor the host spoiled a trial.
pub(crate) fn is_sound(trial: &Trial) -> bool {
    !is_spoiled(trial) && disturbed(trial).is_none()
}

/// The trials that count while a search goes on, in the order in which they were made. Of successive trials
/// with one purpose and one load, a spoiled one is left out until it was repeated as often as allowed. `facts`
/// returns the purpose and the record of an item.
pub fn counted<T>(played: &[T], facts: impl Fn(&T) -> (Purpose, &Trial)) -> Vec<&T> {
    rows(played, &facts).flat_map(|row| counted_of_row(row, &facts)).collect()
}

/// The trials that count when no more will be made. This is [`counted`], except that the last of successive
/// trials counts if none of them does.
pub fn counted_at_last<T>(played: &[T], facts: impl Fn(&T) -> (Purpose, &Trial)) -> Vec<&T> {
    let of_row = |row| {
        let mut counted = counted_of_row(row, &facts);
        if counted.is_empty() {
            counted.extend(row.last());
        }
        counted
    };
    rows(played, &facts).flat_map(of_row).collect()
}

/// The trials of a cell that count when no more will be made, block by block, without warm-ups. A search that
/// was cut short goes on in another start of the same block.
pub fn counted_of_cell(run: &Run, cell: usize) -> Vec<(&RunTrial, &Trial)> {
    let judged = run.trials_of(cell).filter(|one| one.purpose != Purpose::WarmUp);
    let mut measured: Vec<(&RunTrial, &Trial)> =
        judged.filter_map(|one| one.measured().map(|trial| (one, trial))).collect();
    measured.sort_by_key(|(one, _)| one.block);
    let of_block = measured.chunk_by(|(one, _), (other, _)| one.block == other.block);
    of_block
        .flat_map(|of_block| counted_at_last(of_block, |(one, trial)| (one.purpose, *trial)))
        .copied()
        .collect()
}

/// Successive trials with one purpose and one load.
fn rows<'a, T>(played: &'a [T], facts: &impl Fn(&T) -> (Purpose, &Trial)) -> impl Iterator<Item = &'a [T]> {
    let key = |one: &T| {
        let (purpose, trial) = facts(one);
        (purpose, load_qps(trial))
    };
    played.chunk_by(move |a, b| key(a) == key(b))
}

fn counted_of_row<'a, T>(row: &'a [T], facts: &impl Fn(&T) -> (Purpose, &Trial)) -> Vec<&'a T> {
    let (mut by_player, mut by_host) = (0, 0);
    let mut counts = |one: &&T| {
        let trial = facts(one).1;
        // If the host withheld the player's core, the host is the cause of lag and drops too. It is not the
        // cause of a wrong answer.
        if disturbed(trial).is_some() && refuting(trial) == 0 && by_host < HOST_REDOS {
            by_host += 1;
        } else if is_spoiled(trial) && by_player < REDOS {
            by_player += 1;
        } else {
            (by_player, by_host) = (0, 0);
            return true;
        }
        false
    };
    row.iter().filter(|one| counts(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::trial::LoadFacts;

    fn played(trials: &[(f64, bool)]) -> Vec<Trial> {
        trials
            .iter()
            .map(|(rate_qps, spoiled)| {
                let load = LoadFacts { intended_qps: Some(*rate_qps), ..LoadFacts::default() };
                let mut trial = Trial { load, ..Trial::default() };
                trial.players.first.socket_drops = u64::from(*spoiled);
                trial
            })
            .collect()
    }

    fn rates(counted: &[&Trial]) -> Vec<f64> {
        counted.iter().map(|trial| trial.load.intended_qps.unwrap()).collect()
    }

    fn counted_rates(trials: &[(f64, bool)]) -> Vec<f64> {
        rates(&counted(&played(trials), |trial| (Purpose::Search, trial)))
    }

    #[test]
    fn a_spoiled_trial_counts_only_when_it_was_spoiled_three_times() {
        assert!(counted_rates(&[(10.0, true), (10.0, true)]).is_empty());
        assert_eq!(counted_rates(&[(10.0, true), (10.0, true), (10.0, true)]), [10.0]);
        assert_eq!(counted_rates(&[(10.0, true), (10.0, false)]), [10.0]);
        assert_eq!(counted_rates(&[(10.0, true); 6]), [10.0, 10.0]);
    }

    #[test]
    fn another_load_begins_anew() {
        assert_eq!(counted_rates(&[(10.0, true), (10.0, true), (20.0, true), (30.0, false)]), [30.0]);
    }

    #[test]
    fn at_last_a_spoiled_trial_counts_if_it_was_not_made_anew() {
        let of = |trials: &[(f64, bool)]| {
            rates(&counted_at_last(&played(trials), |trial| (Purpose::Search, trial)))
        };
        assert_eq!(of(&[(10.0, true), (20.0, true), (20.0, false)]), [10.0, 20.0]);
        assert_eq!(of(&[(10.0, true), (10.0, true)]), [10.0]);
        assert_eq!(of(&[(10.0, false), (10.0, true)]), [10.0]);
        assert_eq!(of(&[]), [0.0; 0]);
    }
}
