//! A rate search over real trials: it asks `verdict` for the next trial, has it played, and asks again.

use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use kqps_verdict::disturbed::BESIDE_S;
use kqps_verdict::estimate::{self, Estimate, Speed};
use kqps_verdict::evidence::{counted, counted_at_last};
use kqps_verdict::search::{Bounds, Goal, LATEST, Next, Probe, Start, bounds_found, next_trial};

use kqps_testbed::trial_request::{Played, RequestedPace, TrialRequest};

/// The next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchStep {
    /// A trial under this load.
    Trial(TrialRequest),
    /// The search is over, with this result.
    Done(Bounds),
}

/// The next step of a search after its trials so far. Spoiled trials are requested again. `elapsed_s` are the seconds
/// since the search began, 0 if only its trials count.
pub fn wanted(goal: &Goal, start: &Start, all: &[Played], elapsed_s: f64) -> SearchStep {
    let probe = |one: &Played| Probe::from_trial(&one.trial, goal, one.purpose);
    let played: Vec<&Played> = all.iter().filter(|one| one.purpose.is_of_search()).collect();
    let mut probes: Vec<Probe> =
        counted(&played, |one| one.facts()).into_iter().map(|one| probe(one)).collect();
    // Spoiled trials are no evidence, but their time has passed, as has that of starting players and gauging cores.
    let spent_s = played.iter().map(|one| probe(one)).map(|probe| probe.wall_s).sum::<f64>();
    let counted_s = probes.iter().map(|probe| probe.wall_s).sum::<f64>();
    if let Some(last) = probes.last_mut() {
        last.wall_s += spent_s.max(elapsed_s) - counted_s;
    }
    match next_trial(goal, start, &probes) {
        Next::Overload { duration_s } => SearchStep::Trial(TrialRequest {
            pace: RequestedPace::Closed,
            duration_s,
            purpose: Purpose::Ceiling,
        }),
        Next::Trial { rate_qps, duration_s, purpose } => {
            SearchStep::Trial(TrialRequest { pace: RequestedPace::Open { rate_qps }, duration_s, purpose })
        }
        // The result rests on the trials that count in the end, as in the verdict. A spoiled trial counts if
        // there was no time to repeat it.
        Next::Done(_) => SearchStep::Done(so_far(goal, all)),
    }
}

/// The bounds from the trials so far, whether or not the search is over.
pub fn so_far(goal: &Goal, played: &[Played]) -> Bounds {
    let sought: Vec<&Played> = played.iter().filter(|one| one.purpose.is_of_search()).collect();
    let at_last = counted_at_last(&sought, |one| one.facts()).into_iter();
    bounds_found(
        goal,
        &at_last.map(|one| Probe::from_trial(&one.trial, goal, one.purpose)).collect::<Vec<_>>(),
    )
}

/// Searches until the bounds are found or `play` fails. `played` holds the trials of the search so far, and new
/// ones are appended. `play` makes one trial and stores it before it returns. `elapsed_s` returns the seconds since the
/// search began, which its limit is about.
///
/// # Errors
///
/// The first error of `play`.
pub fn run<E>(
    goal: &Goal,
    start: &Start,
    played: &mut Vec<Played>,
    elapsed_s: &dyn Fn() -> f64,
    mut play: impl FnMut(&TrialRequest) -> Result<Trial, E>,
) -> Result<Bounds, E> {
    loop {
        match wanted(goal, start, played, elapsed_s()) {
            SearchStep::Done(bounds) => return Ok(bounds),
            SearchStep::Trial(request) => {
                let trial = play(&request)?;
                played.push(Played { number: 0, purpose: request.purpose, trial });
            }
        }
    }
}

/// A trial that refines the estimate, after `played` such trials. `None` once the estimate is as close as the
/// goal asks.
pub fn refined(goal: &Goal, estimate: &Estimate, played: usize) -> Option<TrialRequest> {
    let rate_qps = estimate::load_beside(goal, estimate, played)?;
    let pace = RequestedPace::Open { rate_qps };
    Some(TrialRequest { pace, duration_s: goal.final_s, purpose: Purpose::Refine })
}

/// A completed search may spend this share of its time again to refine its estimate.
const REFINING: f64 = 0.5;

/// Plays further trials beside the result of a search. It ends when the estimate is close enough, when half of
/// the search's time is spent again, or when the goal's limit is exceeded as far as a search may. It plays
/// nothing if the search ended early because no other load would do better. `elapsed_s` is as for [`run`].
///
/// # Errors
///
/// The first error of `play`.
pub fn refine<E>(
    goal: &Goal,
    found: &Bounds,
    played: &mut Vec<Played>,
    elapsed_s: &dyn Fn() -> f64,
    mut play: impl FnMut(&TrialRequest) -> Result<Trial, E>,
) -> Result<(), E> {
    let spent_s = |played: &[Played]| -> f64 {
        let of = |one: &Played| one.trial.load.wall_s() + BESIDE_S;
        played.iter().map(of).sum::<f64>().max(elapsed_s())
    };
    let limit_s = (spent_s(played) * (1.0 + REFINING)).min(goal.limit_s * LATEST);
    let mut made = 0;
    while found.futile.is_none() && spent_s(played) + goal.final_s + BESIDE_S <= limit_s {
        let facts: Vec<_> = played.iter().map(Played::facts).collect();
        let estimate = estimate::of_search(goal, &facts, Speed::Reference);
        let Some(request) = estimate.and_then(|estimate| refined(goal, &estimate, made)) else { break };
        let trial = play(&request)?;
        played.push(Played { number: 0, purpose: request.purpose, trial });
        made += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::simulated::Simulated;
    use kqps_verdict::judge::{SearchContext, judge_search};
    use kqps_verdict::search::{Futile, Preset};

    #[test]
    fn it_finds_the_knee_of_a_simulated_subject() {
        let goal = Preset::Quick.goal();
        let subject = Simulated { knee_qps: 123_000.0, ..Simulated::default() };
        let mut played = Vec::new();
        let bounds =
            run(&goal, &Start::default(), &mut played, &|| 0.0, |request| subject.play(request)).unwrap();
        let (lower_qps, upper_qps) = (bounds.lower_qps.unwrap(), bounds.upper_qps.unwrap());
        assert!(lower_qps <= 123_500.0 && upper_qps >= 122_500.0, "{bounds:?}");
        assert!((upper_qps - lower_qps) / upper_qps <= goal.width * 1.01);
    }

    #[test]
    fn it_goes_on_where_it_was_left() {
        let goal = Preset::Quick.goal();
        let subject = Simulated { knee_qps: 50_000.0, ..Simulated::default() };
        let mut whole = Vec::new();
        let at_once =
            run(&goal, &Start::default(), &mut whole, &|| 0.0, |request| subject.play(request)).unwrap();

        let mut left = whole[..4].to_vec();
        let resumed =
            run(&goal, &Start::default(), &mut left, &|| 0.0, |request| subject.play(request)).unwrap();
        assert_eq!(resumed, at_once);
        assert_eq!(left.len(), whole.len());
    }

    #[test]
    fn what_it_found_is_what_the_verdict_says() {
        let goal = Preset::Quick.goal();
        let subject = Simulated { knee_qps: 50_000.0, ..Simulated::default() };
        let mut whole = Vec::new();
        run(&goal, &Start::default(), &mut whole, &|| 0.0, |request| subject.play(request)).unwrap();
        // From each trial on, the player spoils all of them, until the time ends during a repetition.
        for first in 1..whole.len() {
            let (mut played, mut count) = (Vec::new(), 0);
            let found = run(&goal, &Start::default(), &mut played, &|| 0.0, |request| {
                count += 1;
                subject.play(request).map(|mut trial| {
                    trial.players.first.socket_drops = u64::from(count > first);
                    trial
                })
            });
            let trials: Vec<(Purpose, &Trial)> = played.iter().map(|one| (one.purpose, &one.trial)).collect();
            let judged = judge_search(&goal, &trials, &SearchContext::default());
            assert_eq!(found.unwrap(), judged.seen, "from trial {first} on");
        }
    }

    #[test]
    fn it_plays_on_beside_what_it_found_for_half_as_long_again() {
        let goal = Preset::Quick.goal();
        let subject = Simulated { knee_qps: 50_000.0, ..Simulated::default() };
        let mut played = Vec::new();
        let bounds =
            run(&goal, &Start::default(), &mut played, &|| 0.0, |request| subject.play(request)).unwrap();
        let searched = played.len();
        refine(&goal, &bounds, &mut played, &|| 0.0, |request| subject.play(request)).unwrap();
        let (before, more) = played.split_at(searched);
        let took_s =
            |trials: &[Played]| -> f64 { trials.iter().map(|one| one.trial.load.wall_s() + BESIDE_S).sum() };
        assert!(!more.is_empty() && took_s(more) <= took_s(before) / 2.0, "{} s", took_s(more));
        assert!(more.iter().all(|one| (one.trial.load.duration_s - goal.final_s).abs() < 1e-9));
        assert!(more.iter().all(|one| one.purpose == Purpose::Refine));
        let loads: Vec<f64> = more.iter().map(|one| one.trial.load.intended_qps.unwrap()).collect();
        assert!(loads.iter().all(|load_qps| (48_500.0..=51_500.0).contains(load_qps)), "{loads:?}");
        assert!(loads.iter().any(|qps| *qps < 50e3) && loads.iter().any(|qps| *qps > 50e3), "{loads:?}");
        let found = |played: &[Played]| match wanted(&goal, &Start::default(), played, 0.0) {
            SearchStep::Done(bounds) => bounds,
            SearchStep::Trial(request) => panic!("{request:?}"),
        };
        assert_eq!(found(&played), found(&played[..searched]), "the bounds are those of the search");
    }

    #[test]
    fn it_plays_on_within_the_goals_limit_and_not_where_no_load_is_any_better() {
        let goal = Goal { limit_s: 8.0, ..Preset::Quick.goal() };
        let subject = Simulated { knee_qps: 50_000.0, ..Simulated::default() };
        let mut played = Vec::new();
        let bounds =
            run(&goal, &Start::default(), &mut played, &|| 0.0, |request| subject.play(request)).unwrap();
        let futile = Bounds { futile: Some(Futile::Silent), ..bounds.clone() };
        let searched = played.len();
        refine(&goal, &futile, &mut played, &|| 0.0, |request| subject.play(request)).unwrap();
        assert_eq!(played.len(), searched);
        refine(&goal, &bounds, &mut played, &|| 0.0, |request| subject.play(request)).unwrap();
        let took_s: f64 = played.iter().map(|one| one.trial.load.wall_s() + BESIDE_S).sum();
        assert!(took_s <= 8.0 * LATEST, "{took_s} s");
    }

    #[test]
    fn its_limit_is_about_all_time_and_not_only_that_of_trials() {
        let goal = Preset::Quick.goal();
        // Each trial takes a second beyond its duration and its drain, as on a host that others keep busy.
        let clock_s = Cell::new(0.0);
        let subject = Simulated { knee_qps: 123_000.0, ..Simulated::default() };
        let play = |request: &TrialRequest| {
            subject.play(request).inspect(|trial| {
                clock_s.set(clock_s.get() + trial.load.duration_s + trial.load.drain_s + 1.0);
            })
        };
        let mut played = Vec::new();
        let bounds = run(&goal, &Start::default(), &mut played, &|| clock_s.get(), play).unwrap();
        refine(&goal, &bounds, &mut played, &|| clock_s.get(), play).unwrap();
        let one_s = clock_s.get() / played.len() as f64;
        assert!(clock_s.get() <= goal.limit_s * LATEST + one_s, "{} s", clock_s.get());
        assert!(bounds.lower_qps.is_some_and(|qps| qps <= 123_500.0), "{bounds:?}");
    }

    #[test]
    fn a_failed_trial_ends_it() {
        let mut played = Vec::new();
        let ended =
            run(&Preset::Quick.goal(), &Start::default(), &mut played, &|| 0.0, |_| Err::<Trial, _>("died"));
        assert_eq!(ended, Err("died"));
    }
}
