//! Which trials count. A trial that the player spoiled (it lagged, or its own sockets dropped replies) is made
//! anew, at most twice; when it is spoiled every time the last one counts, and the figure is refused. All of
//! them are stored, so that whoever searches and whoever judges must leave out the same.

use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;

use crate::warning::{Effect, REDOS, client_drops, lagging};

/// Whether a trial is to be made anew.
pub fn is_spoiled(trial: &Trial) -> bool {
    let warnings = [lagging(trial), client_drops(trial)];
    warnings.iter().flatten().any(|warning| warning.effect() == Effect::RedoThenRefuse)
}

/// The trials that count, in the order in which they were made: of every row of trials with one purpose and
/// one load, the spoiled ones are left out until they were made anew as often as is allowed. `facts` tells
/// the purpose and the record of an item.
pub fn counted<T>(played: &[T], facts: impl Fn(&T) -> (Purpose, &Trial)) -> Vec<&T> {
    let mut counted = Vec::with_capacity(played.len());
    let mut spoiled = 0;
    let mut before = None;
    for one in played {
        let (purpose, trial) = facts(one);
        let open_qps = trial.load.intended_qps.filter(|_| trial.load.mode == LoadMode::Open);
        if before != Some((purpose, open_qps)) {
            spoiled = 0;
        }
        before = Some((purpose, open_qps));
        if is_spoiled(trial) && spoiled < REDOS {
            spoiled += 1;
        } else {
            spoiled = 0;
            counted.push(one);
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::trial::Load;

    fn counted_rates(trials: &[(f64, bool)]) -> Vec<f64> {
        let played: Vec<Trial> = trials
            .iter()
            .map(|(rate_qps, spoiled)| {
                let load = Load { intended_qps: Some(*rate_qps), ..Load::default() };
                let mut trial = Trial { load, ..Trial::default() };
                trial.player.socket_drops = u64::from(*spoiled);
                trial
            })
            .collect();
        let counted = counted(&played, |trial| (Purpose::Search, trial));
        counted.iter().map(|trial| trial.load.intended_qps.unwrap()).collect()
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
}
