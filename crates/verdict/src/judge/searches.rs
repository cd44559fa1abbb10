//! Sentences about the searches of a cell: why they gave no figure, and what went wrong.

use super::case::{Case, CutShort};
use super::moment::Moment;
use super::start::Start;
use crate::interval::outlying;
use crate::rate::rate;
use crate::search::{Bounds, Futile};

pub(super) fn failures<'a>(starts: &'a [Start<'_>]) -> impl Iterator<Item = &'a str> {
    starts.iter().filter_map(|start| start.verdict.failure.as_deref())
}

/// A sentence with the starts that stand out; `None` if there are none.
pub(super) fn outlying_starts(case: &Case<'_>) -> Option<String> {
    let (blocks, figures): (Vec<u32>, Vec<f64>) =
        case.starts.iter().filter_map(|start| Some((start.verdict.block, start.throughput_qps()?))).unzip();
    let far: Vec<String> = outlying(&figures)
        .into_iter()
        .map(|at| format!("in block {} ({})", blocks[at] + 1, case.rate(figures[at])))
        .collect();
    (!far.is_empty())
        .then(|| format!("The start {} is far from the others; it still counts.", far.join(" and that ")))
}

/// Why there is no figure: no trial was made, no start could be measured, the time was too short, or no load
/// met the goal.
pub(super) fn why_no_figure(case: &Case<'_>) -> String {
    let Case { starts, moment, usual_speed, cut_short, .. } = *case;
    if let Some(first) = failures(starts).next() {
        let (failed, all) = (failures(starts).count(), starts.len());
        return match all {
            1 => format!("Its only start failed, so there is no figure: {first}"),
            _ if failed == all => format!("All of its {all} starts failed, so there is no figure: {first}"),
            _ => format!("No start gave a figure, and {failed} of {all} failed: {first}"),
        };
    }
    let searches: Vec<&Bounds> = starts.iter().filter_map(Start::bounds).collect();
    if searches.is_empty() {
        return match moment {
            Moment::SoFar => "No load was tried yet.".into(),
            Moment::AtEnd => "It was never tried: the run or its budget ended before it began.".into(),
        };
    }
    if let Some(futile) = searches.iter().find_map(|bounds| bounds.futile) {
        return why_futile(case, futile);
    }
    if let Some(refuted_qps) = searches.iter().filter_map(|bounds| bounds.refuted_qps).reduce(f64::min) {
        return format!(
            "{} {} a second met the goal and failed when they were tried once more, and no lesser load was tried often \
             enough to hold.",
            rate(refuted_qps * usual_speed),
            case.what()
        );
    }
    if searches.iter().any(|bounds| bounds.interrupted) {
        return match (moment, cut_short) {
            (Moment::SoFar, _) => "The search goes on, and no load is known to meet the goal yet.".into(),
            (Moment::AtEnd, Some(CutShort::Error)) => {
                "An error ended the search before any load was known to meet the goal.".into()
            }
            (Moment::AtEnd, Some(CutShort::Player)) => {
                "The player got no CPU time before any load was known to meet the goal.".into()
            }
            (Moment::AtEnd, Some(CutShort::User) | None) => {
                "The search was interrupted before any load was known to meet the goal.".into()
            }
        };
    }
    if searches.iter().any(|bounds| bounds.incomplete) {
        return "The time for the search was used up before any load was known to meet the goal.".into();
    }
    let is_known = |bounds: &&Bounds| bounds.met_qps.is_some() || bounds.missed_qps.is_some();
    if !searches.iter().any(is_known) {
        return "The host disturbed every trial, so there is no figure.".into();
    }
    "No load met the goal in any start, so there is no figure.".into()
}

/// Why a search ended early, and what the user should check.
fn why_futile(case: &Case<'_>, futile: Futile) -> String {
    let why = futile.in_words(&|qps| case.rate(qps));
    match futile {
        Futile::Wrong { .. } => {
            "The search ended early: with so many wrong answers there is no figure, whatever the load.".into()
        }
        Futile::Silent if case.has_connections_alone() => {
            "The search ended early: not one connection of the overload was accepted. Look for a packet filter, and whether \
             the server listens at this address."
                .into()
        }
        Futile::Silent => {
            "The search ended early: not one query of the overload was answered. Look for a packet \
                           filter, and ask the server one of these questions by hand."
                .into()
        }
        Futile::Late { .. } => format!(
            "The search ended early: {why}. Allow more time for answers (--timeout) if the server is far away, \
             or find out what delays them."
        ),
        Futile::Lossy { .. } => format!(
            "The search ended early: {why}. Look for a packet filter or a rate limit, on the path or in the \
             server, and for queries that it does not answer."
        ),
    }
}

/// Sentences about searches that did not end properly, apart from those that a warning covers.
pub(super) fn of_searches(case: &Case<'_>, is_refused: bool) -> Vec<String> {
    let Case { starts, hidden_most, moment, cut_short, .. } = *case;
    let mut reasons = Vec::new();
    let all = starts.iter().filter_map(Start::bounds).count();
    let interrupted = count(starts, |bounds| bounds.interrupted);
    match (moment, cut_short) {
        _ if interrupted == 0 => {}
        // Only the newest search of a run that goes on is not over.
        (Moment::SoFar, _) => reasons.push("The newest search is not over yet.".into()),
        // The end of the reasons says it of the only search.
        (Moment::AtEnd, Some(CutShort::Error | CutShort::Player)) => {}
        (Moment::AtEnd, Some(CutShort::User) | None) => {
            reasons.push(format!("{interrupted} of {all} searches were interrupted before they were over."));
        }
    }
    let mut note = |holds: fn(&Bounds) -> bool, at_most: usize, what: &str| {
        let some = count(starts, holds);
        if some > 0 && some <= at_most {
            reasons.push(format!("{some} of {all} searches {what}"));
        }
    };
    note(|bounds| bounds.incomplete, all, "ran out of time before their bounds were close.");
    // A warning covers the case that at least half of the searches did.
    let few = all.div_ceil(2).saturating_sub(1);
    note(
        |bounds| bounds.refuted_qps.is_some(),
        few,
        "drifted: a load that had met the goal failed when it was tried once more, and does not count as a bound.",
    );
    note(
        |bounds| bounds.refuted_qps.is_none() && bounds.is_shaky(),
        few,
        "drifted: their lower bound missed the goal in several trials at the end, though in no more than the goal allows.",
    );
    let irregular_most = if is_refused { 0 } else { few };
    note(
        |bounds| bounds.irregular,
        irregular_most,
        "were irregular: even the greatest load tried met the goal.",
    );
    let untested = untested(starts);
    if untested > 0 {
        reasons.push(format!(
            "{untested} of {all} searches have no undisturbed trial of their lower bound at the end: whether it drifted is not \
             known."
        ));
    }
    match hidden_share(starts) {
        None if starts.iter().all(|start| !start.verdict.is_searched) => {}
        None => reasons.push(
            "The trials did not show how many packets the subject's buffers hold, which may have \
             hidden a loss in short trials."
                .into(),
        ),
        Some(hidden) if hidden > hidden_most => reasons.push(format!(
            "Trials were shorter than the subject's buffers ask for: these could have hidden {:.1} % of the load.",
            hidden * 100.0
        )),
        Some(_) => {}
    }
    reasons
}

/// The number of searches that found a lower bound and did not re-test it.
fn untested(starts: &[Start<'_>]) -> usize {
    let searches = starts.iter().filter(|start| start.verdict.is_searched).filter_map(Start::bounds);
    let is_untested =
        |bounds: &&Bounds| bounds.lower_qps.is_some() && bounds.retests == 0 && !bounds.interrupted;
    searches.filter(is_untested).count()
}

/// The greatest share of its load that the buffers could have hidden in any search; `None` if it is unknown for
/// one of them.
pub(super) fn hidden_share(starts: &[Start<'_>]) -> Option<f64> {
    let searches = starts.iter().filter(|start| start.verdict.is_searched).filter_map(Start::bounds);
    searches
        .filter(|bounds| bounds.lower_qps.is_some())
        .map(|bounds| bounds.hidden_share)
        .reduce(|a, b| Some(a?.max(b?)))
        .flatten()
}

fn count(starts: &[Start<'_>], holds: impl Fn(&Bounds) -> bool) -> usize {
    starts.iter().filter_map(Start::bounds).filter(|bounds| holds(bounds)).count()
}
