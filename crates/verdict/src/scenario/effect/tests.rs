//! Examples that are computed by hand.

use kqps_observation::trial::ClassTrial;

use super::*;
use crate::scenario::{ScenarioFigures, figures};

/// Queries that are due in each bin of 100 ms.
const DUE: u64 = 100;

const MS: u64 = 1_000_000;

/// Two seconds in which so many of the queries of each bin are answered, each after a time in microseconds.
fn load(answered: impl Fn(u64) -> (u64, u64)) -> Trial {
    let mut moments = Moments::default();
    for bin in 0..20 {
        let due_ns = bin * 100 * MS;
        moments.intended(due_ns, DUE);
        let (count, latency_us) = answered(bin);
        (0..count).for_each(|_| moments.answered(due_ns, latency_us * 1000));
    }
    Trial { moments: moments.record(), ..Trial::default() }
}

/// A load of which nothing is answered in these bins.
fn outage(bins: std::ops::Range<u64>) -> Trial {
    load(|bin| if bins.contains(&bin) { (0, 0) } else { (DUE, 400) })
}

fn event(name: &str, begun_s: f64) -> EventFacts {
    EventFacts { name: name.into(), due_s: begun_s, begun_s: Some(begun_s), ..EventFacts::default() }
}

/// The effects of these events on a load.
fn effects_of(trial: &Trial, events: &[EventFacts]) -> Vec<Effect> {
    let trial = Trial { events: events.to_vec(), ..trial.clone() };
    figures(&trial).map_or_else(Vec::new, |figures| figures.effects)
}

/// Whether a figure is as expected, to a millionth.
fn is(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-6)
}

#[test]
fn an_outage_costs_the_answers_that_were_due_in_it() {
    let mut trial = load(|bin| match bin {
        5..8 => (0, 0),
        8 => (DUE, 12_000),
        _ => (DUE, 400),
    });
    trial.silences = vec![Silence { at_s: 1.7, seconds: 0.4 }, Silence { at_s: 0.5, seconds: 0.298 }];
    let [effect] = &effects_of(&trial, &[event("reload", 0.5)])[..] else { panic!() };
    assert_eq!((&*effect.event, &*effect.class, effect.at_s), ("reload", "good", 0.5));
    assert_eq!((effect.lost, effect.intended), (Some(300), 1_000));
    assert!(is(Some(effect.span_s), 1.0) && is(effect.recovered_s, 0.3) && is(effect.lost_share(), 0.3));
    assert!(is(effect.answered_before, 1.0) && effect.lost_something());
    // The silence that begins after the event's time is not of it.
    assert_eq!(effect.silence, Some(trial.silences[1]));
    // Buckets are known to 4.4 %.
    let near = |found: Option<f64>, us: f64| found.is_some_and(|found| (found / us - 1.0).abs() < 0.045);
    assert!(near(effect.p99_before_us, 400.0) && near(effect.p99_worst_us, 12_000.0), "{effect:?}");
}

#[test]
fn a_silence_as_long_as_those_without_an_event_is_no_effect() {
    let silence = |at_s, seconds| Silence { at_s, seconds };
    let mut trial = outage(0..0);
    trial.silences = vec![silence(0.6, 0.011), silence(0.1, 0.012)];
    let [effect] = &effects_of(&trial, &[event("reload", 0.5)])[..] else { panic!() };
    assert!(effect.silence.is_none() && !effect.lost_something(), "{effect:?}");
    // The silence of an earlier event is no usual one.
    trial.silences = vec![silence(0.51, 0.3), silence(1.51, 0.29), silence(0.1, 0.012)];
    let effects = effects_of(&trial, &[event("reload", 0.5), event("reload", 1.5)]);
    assert_eq!(effects.iter().filter_map(|effect| effect.silence).collect::<Vec<_>>(), trial.silences[..2]);
}

#[test]
fn the_bin_of_the_event_belongs_to_the_time_after_it() {
    let [effect] = &effects_of(&outage(5..8), &[event("reload", 0.55)])[..] else { panic!() };
    assert_eq!((effect.lost, effect.intended), (Some(300), 1_100));
    assert!(is(effect.recovered_s, 0.25) && is(Some(effect.span_s), 1.0), "{effect:?}");
    // 0.3 is the end of a bin, though 0.2 + 0.1 is not 0.3 in binary fractions.
    let [effect] = &effects_of(&outage(3..4), &[event("reload", 0.3)])[..] else { panic!() };
    assert_eq!((effect.lost, effect.intended), (Some(100), 1_000));
    assert!(is(effect.answered_before, 1.0) && is(effect.recovered_s, 0.1), "{effect:?}");
}

#[test]
fn losses_are_those_beyond_the_share_before() {
    // 90 of 100 are answered, and 45 in three bins: each of these lost 45.
    let trial = load(|bin| (if (5..8).contains(&bin) { 45 } else { 90 }, 400));
    let [effect] = &effects_of(&trial, &[event("loss", 0.5)])[..] else { panic!() };
    assert!(is(effect.answered_before, 0.9) && is(effect.recovered_s, 0.3), "{effect:?}");
    assert_eq!(effect.lost, Some(135));
    // 90 ± 9.5 of 100 are chance: 80 are no loss, if the next bins make up for it.
    let trial = load(|bin| (if bin == 5 { 80 } else { 90 }, 400));
    let [effect] = &effects_of(&trial, &[event("loss", 0.5)])[..] else { panic!() };
    assert!(effect.lost == Some(0) && is(effect.recovered_s, 0.0), "{effect:?}");
}

#[test]
fn an_event_at_the_start_has_nothing_before_it() {
    let [effect] = &effects_of(&outage(0..2), &[event("reload", 0.0)])[..] else { panic!() };
    assert_eq!((effect.answered_before, effect.lost, effect.recovered_s), (None, None, None));
    assert!(is(Some(effect.span_s), 1.0) && effect.p99_worst_us.is_some() && !effect.lost_something());
    // The time since stands for that before the next event: 800 of 1,000 queries.
    let events = [event("reload", 0.0), event("restart", 1.0)];
    let [_, next] = &effects_of(&outage(0..2), &events)[..] else { panic!() };
    assert!(is(next.answered_before, 0.8) && next.lost == Some(0), "{next:?}");
    // Nothing was ever answered.
    let [effect] = &effects_of(&outage(0..20), &[event("start", 1.0)])[..] else { panic!() };
    assert_eq!((effect.answered_before, effect.lost, effect.p99_worst_us), (None, None, None));
}

#[test]
fn an_event_at_the_end_has_the_bins_that_are_left() {
    let [effect] = &effects_of(&outage(19..20), &[event("stop", 1.95)])[..] else { panic!() };
    assert_eq!((effect.lost, effect.intended, effect.recovered_s), (Some(100), 100, None));
    assert!(is(Some(effect.span_s), 0.05), "{effect:?}");
    let [effect] = &effects_of(&outage(0..0), &[event("stop", 1.95)])[..] else { panic!() };
    assert!(effect.lost == Some(0) && is(effect.recovered_s, 0.0), "{effect:?}");
    assert!(effects_of(&outage(0..0), &[event("stop", 2.0)]).is_empty());
}

#[test]
fn an_outage_that_goes_on_is_shared_out_among_its_events() {
    let events = [event("kill", 0.5), event("start", 0.8)];
    let [kill, start] = &effects_of(&outage(5..10), &events)[..] else { panic!() };
    assert_eq!((kill.lost, kill.intended, kill.recovered_s), (Some(300), 300, None));
    assert!(is(Some(kill.span_s), 0.3), "{kill:?}");
    // The time before the first event is the usual one, since the answers were not back.
    assert_eq!(start.lost, Some(200));
    assert!(is(start.answered_before, 1.0) && is(start.recovered_s, 0.2), "{start:?}");
    assert!(start.p99_before_us.is_some());
}

#[test]
fn of_events_in_one_bin_the_last_has_the_effects() {
    let events = [event("first", 0.51), event("second", 0.53)];
    let [effect] = &effects_of(&outage(5..8), &events)[..] else { panic!() };
    assert_eq!((&*effect.event, effect.lost), ("second", Some(300)));
}

#[test]
fn an_event_that_failed_to_begin_did_nothing() {
    let failed = EventFacts {
        name: "reload".into(),
        due_s: 0.5,
        failure: Some("no such process".into()),
        ..EventFacts::default()
    };
    assert!(effects_of(&outage(5..8), std::slice::from_ref(&failed)).is_empty());
    let due = EventFacts { failure: None, ..failed };
    assert_eq!(effects_of(&outage(5..8), &[due])[0].lost, Some(300));
}

#[test]
fn answers_that_never_come_back_are_lost_to_the_end() {
    let [effect] = &effects_of(&outage(5..20), &[event("kill", 0.5)])[..] else { panic!() };
    assert_eq!((effect.lost, effect.intended, effect.recovered_s), (Some(1_500), 1_500, None));
    assert!(is(Some(effect.span_s), 1.5) && effect.p99_worst_us.is_none(), "{effect:?}");
    // Answers that stay away again within half a second are not back.
    let trial = load(|bin| (if (5..8).contains(&bin) || (9..20).contains(&bin) { 0 } else { DUE }, 400));
    let [effect] = &effects_of(&trial, &[event("kill", 0.5)])[..] else { panic!() };
    assert_eq!((effect.lost, effect.recovered_s), (Some(1_400), None));
}

#[test]
fn an_effect_may_begin_until_the_event_is_done() {
    let done = EventFacts { done_s: Some(1.6), ..event("reload", 0.2) };
    let [effect] = &effects_of(&outage(15..17), &[done])[..] else { panic!() };
    assert!(effect.lost == Some(200) && is(effect.recovered_s, 1.5) && is(Some(effect.span_s), 1.5));
    // Without that the loss is too far from it.
    let [effect] = &effects_of(&outage(15..17), &[event("reload", 0.2)])[..] else { panic!() };
    assert!(effect.lost == Some(0) && is(effect.recovered_s, 0.0) && is(Some(effect.span_s), 1.0));
}

#[test]
fn each_class_has_effects_of_its_own() {
    let class = |name: &str, trial: Trial| ClassTrial { name: name.into(), trial, ..ClassTrial::default() };
    let trial = Trial {
        classes: vec![class("good", outage(5..8)), class("crowd", outage(0..0))],
        events: vec![event("reload", 0.5), event("restart", 1.5)],
        ..Trial::default()
    };
    let ScenarioFigures { effects, classes } = figures(&trial).unwrap();
    let said: Vec<_> =
        effects.iter().map(|effect| (&*effect.event, &*effect.class, effect.lost.unwrap())).collect();
    let expected =
        [("reload", "good", 300), ("reload", "crowd", 0), ("restart", "good", 0), ("restart", "crowd", 0)];
    assert_eq!(said, expected);
    assert!(effects[0].lost_something() && !effects[1].lost_something());
    let limited: Vec<_> =
        classes.iter().map(|class| (&*class.name, class.wrongly_limited.is_some())).collect();
    assert_eq!(limited, [("good", true), ("crowd", false)]);
}

#[test]
fn a_load_without_a_scenario_has_no_figures() {
    assert_eq!(figures(&outage(5..8)), None);
    let silent = Trial { silences: vec![Silence { at_s: 0.5, seconds: 0.3 }], ..outage(5..8) };
    let ScenarioFigures { effects, classes } = figures(&silent).unwrap();
    assert!(effects.is_empty() && classes[0].silence == Some(silent.silences[0]));
    assert_eq!((&*classes[0].name, classes[0].wrongly_limited), ("good", None));
}
