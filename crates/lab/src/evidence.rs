//! Which of the trials made so far count. A trial that the player spoiled (it lagged, or its own sockets
//! dropped replies) is made anew, at most twice; when it is spoiled every time, the last one counts, and the
//! judge refuses the figure. All of them are stored.

use kqps_observation::Trial;
use kqps_verdict::warning::{self, Effect, REDOS};

use crate::load::{Key, Played};

/// The trials that count, in the order in which they were made.
///
/// Since a spoiled trial does not count, whatever asked for it asks for the same again: redoing needs no memory
/// but the stored trials.
pub fn counted(played: &[Played]) -> Vec<&Played> {
    let mut counted = Vec::with_capacity(played.len());
    let mut spoiled = 0;
    let mut before = None;
    for one in played {
        let key = Key::of(one.purpose, &one.trial);
        if before != Some(key) {
            spoiled = 0;
        }
        before = Some(key);
        if is_spoiled(&one.trial) && spoiled < REDOS {
            spoiled += 1;
        } else {
            spoiled = 0;
            counted.push(one);
        }
    }
    counted
}

/// Whether a trial is to be made anew.
pub fn is_spoiled(trial: &Trial) -> bool {
    let warnings = [warning::lagging(trial), warning::client_drops(trial)];
    warnings.iter().flatten().any(|warning| warning.effect() == Effect::RedoThenRefuse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::run::Purpose;
    use kqps_observation::trial::Load;

    fn played(rate_qps: f64, spoiled: bool) -> Played {
        let mut trial =
            Trial { load: Load { intended_qps: Some(rate_qps), ..Load::default() }, ..Trial::default() };
        trial.player.socket_drops = u64::from(spoiled);
        Played { purpose: Purpose::Search, trial }
    }

    fn rates(played: &[Played]) -> Vec<f64> {
        counted(played).iter().map(|one| one.trial.load.intended_qps.unwrap()).collect()
    }

    #[test]
    fn a_spoiled_trial_counts_only_when_it_was_spoiled_three_times() {
        let spoiled = played(10.0, true);
        assert!(rates(&[spoiled.clone()]).is_empty());
        assert!(rates(&[spoiled.clone(), spoiled.clone()]).is_empty());
        assert_eq!(rates(&[spoiled.clone(), spoiled.clone(), spoiled.clone()]), [10.0]);
        assert_eq!(rates(&[spoiled.clone(), played(10.0, false)]), [10.0]);
    }

    #[test]
    fn another_load_counts_anew() {
        let trials = [played(10.0, true), played(10.0, true), played(20.0, true), played(30.0, false)];
        assert_eq!(rates(&trials), [30.0]);
        let again: Vec<_> = std::iter::repeat_n(played(10.0, true), 6).collect();
        assert_eq!(rates(&again), [10.0, 10.0]);
    }
}
