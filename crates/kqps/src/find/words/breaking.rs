//! The breaking point of good clients in words: a sentence, and the fates of all classes just above it.

use std::fmt::Write as _;

use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;
use kqps_verdict::breaking::{BreakingPoint, attacks, rate_unit};
use kqps_verdict::evidence::load_qps;
use kqps_verdict::percent;
use kqps_verdict::rate::rate;
use kqps_verdict::search::Probe;

use super::{Searched, played_qps};
use crate::find::attack::Attack;
use crate::load::{by_class, lost_packets};

/// The sentence, and the trial above the bound; empty without an attack.
pub(super) fn breaking(searched: &Searched<'_>) -> String {
    let verdict = searched.verdict;
    let (Some(found), Some(attack)) = (&verdict.breaking, searched.attack) else { return String::new() };
    let mut text =
        sentence(searched, found, attack).map_or_else(String::new, |sentence| format!("\n{sentence}\n"));
    if let Some(trial) = above(searched) {
        let (played, unit) = (rate(played_qps(trial)), rate_unit(trial));
        let _ = writeln!(text, "\nBeside an attack of {played} {unit}, with which the goal was missed:");
        text += &by_class(&trial.classes);
        text += &lost_packets(trial);
    }
    text
}

/// The breaking point in a sentence; `None` if the figure is refused.
fn sentence(searched: &Searched<'_>, found: &BreakingPoint, asked: &Attack) -> Option<String> {
    let verdict = searched.verdict;
    let BreakingPoint { attack, good_qps, keep } = found;
    // The good clients follow the speed of the cores, as the attack does: at its usual speed, a rate as typed is rarely
    // met to the last digit.
    let is_as_typed = (good_qps / asked.good_qps - 1.0).abs() <= verdict.goal.width;
    let good = rate(if is_as_typed { asked.good_qps } else { *good_qps });
    let unit = above(searched).or(searched.sought.last().copied()).map_or("q/s", rate_unit);
    let each = if attack.len() > 1 { format!(" in each of {} classes", attack.len()) } else { String::new() };
    let until = match (verdict.at_least_qps, verdict.figure_qps) {
        (Some(most_qps), _) => {
            format!("even beside an attack of {} {unit}{each}, the greatest tried", rate(most_qps))
        }
        (None, Some(figure)) => format!("up to an attack of {} {unit}{each}", rate(figure.median)),
        (None, None) => return None,
    };
    let kept = percent::typed(*keep);
    Some(format!(
        "Good clients at {good} q/s keep {kept} % of their answers {until} ({name}).",
        name = asked.name
    ))
}

/// The trial with the least load that missed the goal above the bound.
fn above<'a>(searched: &Searched<'a>) -> Option<&'a Trial> {
    let goal = &searched.verdict.goal;
    let bound_qps = searched.verdict.seen.lower_qps.unwrap_or(0.0) / searched.verdict.usual_speed;
    let missed = searched.sought.iter().copied().filter(|trial| {
        let is_above = load_qps(trial).is_some_and(|qps| qps > bound_qps);
        let is_of_attack = trial.load.mode == LoadMode::Open && attacks(trial).next().is_some();
        is_above && is_of_attack && Probe::from_trial(trial, goal, Purpose::Search).is_bad(goal)
    });
    missed.min_by(|one, other| load_qps(one).unwrap_or(0.0).total_cmp(&load_qps(other).unwrap_or(0.0)))
}
