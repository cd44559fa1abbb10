//! Warnings about players on several hosts that did not begin together.

use kqps_observation::Trial;

use super::{Code, Effect, Warning};

/// Players may begin apart, or later than asked, by this share of a trial.
const APART_MOST: f64 = 0.01;

/// A player began later than asked, so that the others played without it.
pub fn late_player(trial: &Trial) -> Option<Warning> {
    let latest = trial.parts.iter().max_by_key(|part| part.start.late_ns)?;
    let late_s = latest.start.late_ns as f64 / 1e9;
    let share = late_s / trial.load.sending_s();
    // A trial without a duration has no share.
    (share.is_finite() && share > APART_MOST).then(|| {
        let advice = format!(
            "The player on {} began {:.1} ms later than asked, which is {:.1} % of the trial (the limit is 1 %): the others \
             played without it meanwhile. Look for what keeps that host busy.",
            latest.host,
            late_s * 1e3,
            share * 100.0
        );
        Warning::new(Code::LatePlayer, Effect::RedoThenRefuse, share, advice)
    })
}

/// The players may have begun too far apart, and none of them was late: the clocks of their hosts are not known well
/// enough.
pub fn skewed_start(trial: &Trial) -> Option<Warning> {
    let skew_us = trial.start_skew_us?;
    let share = skew_us / (trial.load.sending_s() * 1e6);
    if !share.is_finite() || share <= APART_MOST || late_player(trial).is_some() {
        return None;
    }
    let widest = trial.parts.iter().max_by_key(|part| part.start.uncertainty_ns);
    let widest = widest.map_or(String::new(), |part| {
        format!(
            " The clock of {} is known least well, to ± {:.2} ms.",
            part.host,
            part.start.uncertainty_ns as f64 / 1e6
        )
    });
    let advice = format!(
        "The players may have begun {:.2} ms apart, which is {:.1} % of the trial (the limit is 1 %).{widest} Reach the \
         hosts by a link with less delay, or play longer trials.",
        skew_us / 1e3,
        share * 100.0
    );
    Some(Warning::new(Code::SkewedStart, Effect::RedoThenRefuse, share, advice))
}
