//! Verdicts on single searches.

use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::trial::Beside;
use kqps_observation::{Cell, ConnectionFacts, Trial};
use kqps_verdict::bottleneck::Resource;
use kqps_verdict::grade::Grade;
use kqps_verdict::judge::{CutShort, Moment, SearchContext, SearchVerdict, judge, judge_at, judge_search};
use kqps_verdict::search::{Goal, Preset};
use kqps_verdict::warning::Surroundings;

use super::facts::{Rig, closed, six_starts, starved, subject_busy, trial};

/// The trials of the first start, as a search of its own.
fn search_of(rig: &Rig) -> Vec<(Purpose, &Trial)> {
    let first = rig.run.trials.iter().filter(|trial| trial.start == 100);
    first.map(|trial| (trial.purpose, trial.measured().unwrap())).collect()
}

#[test]
fn one_search_is_judged_with_the_names_that_the_interface_promises() {
    let rig = six_starts(2e6, |_| {});
    let surroundings = Surroundings { workers: Some(2), ..Surroundings::default() };
    let known = SearchContext { echo_qps: Some(500e3), surroundings, ..SearchContext::default() };
    let verdict: SearchVerdict = judge_search(&Preset::Quick.goal(), &search_of(&rig), &known);
    let written = serde_json::to_value(&verdict).unwrap();
    assert_eq!((&written["kind"], &written["grade"]), (&"verdict".into(), &"C".into()));
    assert_eq!(written["bottleneck"]["resource"], "subject-cpu");
    assert_eq!(written["goal"]["name"], "quick");
    for figure in ["lower_bound_qps", "upper_bound_qps", "throughput_qps"] {
        assert!((written[figure].as_f64().unwrap() / 200e3 - 1.0).abs() < 0.03, "{figure}");
    }
    assert!((written["ceiling_share"].as_f64().unwrap() - 0.4).abs() < 0.02);
    let busiest_to_mean = verdict.busiest_to_mean.unwrap();
    assert!((1.9..2.0).contains(&busiest_to_mean), "one of two did nearly all: {busiest_to_mean}");
    let reasons = verdict.reasons.join(" ");
    assert!(reasons.contains("one start") && reasons.contains("uneven: "), "{reasons}");
    assert!(reasons.contains("distributes its queries. See -c."), "kqps find has that flag: {reasons}");
    assert_eq!(verdict.trials.len(), search_of(&rig).len());
}

#[test]
fn of_a_refused_figure_nothing_says_how_well_it_is_known() {
    let judged = |wrong: u64| {
        let mut rig = Rig::new(2e6);
        // No load is too much for it.
        rig.search(0, |load_qps| {
            let mut trial = trial(load_qps, 0);
            trial.accounts.correct -= wrong;
            trial.accounts.wrong = wrong;
            trial
        });
        let verdict = judge_search(&Preset::Quick.goal(), &search_of(&rig), &SearchContext::default());
        (verdict.grade, verdict.reasons.join(" "))
    };
    let (grade, reasons) = judged(0);
    assert!(grade != Grade::F && reasons.contains("may be faster"), "{reasons}");
    let (grade, reasons) = judged(1);
    assert_eq!(grade, Grade::F);
    assert!(reasons.contains("replies were wrong"), "{reasons}");
    assert!(
        !reasons.contains("faster") && !reasons.contains('±') && !reasons.contains("irregular"),
        "{reasons}"
    );
}

#[test]
fn an_interrupted_search_is_judged_by_what_there_is() {
    let rig = six_starts(2e6, |_| {});
    let mut trials = search_of(&rig);
    trials.truncate(6);
    let mut spoiled = trials[2].1.clone();
    spoiled.players.first.socket_drops = 1;
    trials.insert(2, (trials[2].0, &spoiled));
    let known = SearchContext { cut_short: Some(CutShort::User), ..SearchContext::default() };
    let verdict = judge_search(&Preset::Quick.goal(), &trials, &known);
    assert!(verdict.interrupted && !verdict.incomplete);
    assert_eq!(verdict.spoiled, [2]);
    let reasons = verdict.reasons.join(" ");
    assert!(reasons.contains("interrupted"), "{reasons}");
    assert!(!reasons.contains("time") && !reasons.contains("faster"), "it had no chance to: {reasons}");
    // These trials in a search that ran out of time.
    let verdict = judge_search(&Preset::Quick.goal(), &trials, &SearchContext::default());
    assert!(verdict.incomplete && !verdict.interrupted);
    assert!(verdict.reasons.join(" ").contains("time"), "{:?}", verdict.reasons);
}

#[test]
fn the_last_search_of_a_run_that_did_not_end_was_interrupted() {
    let judged = |finished: Option<u64>| {
        let mut rig = six_starts(2e6, |_| {});
        let sixth = rig.run.trials.iter().position(|trial| trial.start == 105).unwrap();
        rig.run.trials.truncate(sixth + 4);
        rig.run.finished_unix_ms = finished;
        judge(&rig.run).subjects.remove(0)
    };
    let cut = judged(None);
    let bounds: Vec<_> = cut.starts.iter().filter_map(|start| start.bounds.as_ref()).collect();
    let flags: Vec<_> = bounds.iter().map(|bounds| (bounds.interrupted, bounds.incomplete)).collect();
    assert_eq!(flags, [[(false, false); 5].as_slice(), &[(true, false)]].concat());
    let reasons = cut.reasons.join(" ");
    assert!(reasons.contains("1 of 6 searches were interrupted"), "{reasons}");
    assert!(!reasons.contains("ran out of time"), "{reasons}");
    let whole = judged(Some(1)).reasons.join(" ");
    assert!(whole.contains("1 of 6 searches ran out of time") && !whole.contains("interrupted"), "{whole}");
}

/// Searches side by side take turns, so the newest trial may be another one's.
#[test]
fn every_search_that_was_under_way_when_the_run_ended_was_interrupted() {
    let mut rig = six_starts(2e6, |_| {});
    let first = rig.run.trials.iter().position(|trial| trial.start == 100).unwrap();
    rig.run.trials.truncate(first + 1);
    let mut beside = rig.run.trials[first].clone();
    (beside.cell, beside.number) = (rig.run.cells.len() as u32, beside.number + 1);
    let cell = &rig.run.cells[rig.run.trials[first].cell as usize];
    rig.run.cells.push(Cell { name: "beside".into(), ..cell.clone() });
    rig.run.trials.push(beside);
    rig.run.finished_unix_ms = None;
    for subject in judge(&rig.run).subjects {
        let reasons = subject.reasons.concat();
        let said = "The search was interrupted before any load was known to meet the goal.";
        assert!(reasons.contains(said) && !reasons.contains("used up"), "{}: {reasons}", subject.name);
    }
}

#[test]
fn a_search_whose_greatest_load_met_the_goal_has_at_least_that_and_no_more() {
    let goal = Goal { max_qps: 1000.0, ..Preset::Quick.goal() };
    let most = trial(1000.0, 0);
    let verdict = judge_search(&goal, &[(Purpose::Search, &most); 6], &SearchContext::default());
    assert_eq!(verdict.at_least_qps, Some(1000.0));
    // Two of 1,000 queries are lost now and then: an estimate would lie above the greatest load.
    let bad = trial(1000.0, 2);
    let trials: Vec<(Purpose, &Trial)> =
        (0..12).map(|number| (Purpose::Search, if number == 5 { &bad } else { &most })).collect();
    let verdict = judge_search(&goal, &trials, &SearchContext::default());
    assert_eq!(verdict.at_least_qps, Some(1000.0), "{verdict:?}");
    assert_eq!(
        (verdict.figure_qps, verdict.throughput_qps, verdict.share),
        (None, None, None),
        "no capacity"
    );
    assert_ne!(verdict.grade, Grade::F);
    let less = trial(500.0, 0);
    let verdict = judge_search(&goal, &[(Purpose::Search, &less); 6], &SearchContext::default());
    assert_eq!(verdict.at_least_qps, None, "the greatest load was not tried");
}

/// While the run goes on, the same facts are no early end. Nothing but the words differs.
#[test]
fn the_newest_search_of_a_run_that_goes_on_is_not_over_yet() {
    let mut rig = six_starts(2e6, |_| {});
    rig.run.finished_unix_ms = None;
    let sixth = rig.run.trials.iter().position(|trial| trial.start == 105).unwrap();
    let reasons = |trials: usize, moment: Moment| {
        let mut run = rig.run.clone();
        run.trials.truncate(trials);
        judge_at(&run, moment).subjects.remove(0).reasons
    };
    let (at_end, so_far) = (reasons(sixth + 4, Moment::AtEnd), reasons(sixth + 4, Moment::SoFar));
    let cut = "1 of 6 searches were interrupted before they were over.".to_owned();
    assert!(at_end.contains(&cut) && !so_far.contains(&cut), "{at_end:?}, {so_far:?}");
    let with_words =
        |reason: String| if reason == cut { "The newest search is not over yet.".into() } else { reason };
    assert_eq!(so_far, at_end.into_iter().map(with_words).collect::<Vec<String>>());
    let first = rig.run.trials.iter().position(|trial| trial.start == 100).unwrap();
    let known = |moment| reasons(first + 1, moment).concat();
    assert!(known(Moment::SoFar).contains("The search goes on, and no load is known to meet the goal yet."));
    assert!(
        known(Moment::AtEnd)
            .contains("The search was interrupted before any load was known to meet the goal.")
    );
    assert_eq!(reasons(first, Moment::SoFar), ["No load was tried yet."]);
}

/// A user may end the run while the next subject is starting; no trial is newer then.
#[test]
fn a_search_that_ran_out_of_its_time_was_not_interrupted_though_the_run_did_not_end() {
    let mut rig = six_starts(2e6, |_| {});
    let sixth = rig.run.trials.iter().position(|trial| trial.start == 105).unwrap();
    rig.run.trials.truncate(sixth + 4);
    rig.run.finished_unix_ms = None;
    let Outcome::Measured(last) = &mut rig.run.trials.last_mut().unwrap().outcome else { panic!() };
    last.load.drain_s = 100.0;
    let verdict = judge(&rig.run).subjects.remove(0);
    let bounds = verdict.starts[5].bounds.as_ref().unwrap();
    assert_eq!((bounds.interrupted, bounds.incomplete), (false, true), "{bounds:?}");
    let reasons = verdict.reasons.join(" ");
    assert!(
        reasons.contains("1 of 6 searches ran out of time") && !reasons.contains("interrupted"),
        "{reasons}"
    );
}

#[test]
fn a_search_without_a_rate_has_a_reason() {
    let trials: Vec<(Purpose, Trial)> = vec![(Purpose::Search, starved(10.0))];
    let trials: Vec<(Purpose, &Trial)> = trials.iter().map(|(purpose, trial)| (*purpose, trial)).collect();
    let verdict = judge_search(&Preset::Quick.goal(), &trials, &SearchContext::default());
    assert_eq!((verdict.grade, verdict.throughput_qps), (Grade::F, None));
    assert!(!verdict.reasons.is_empty());
}

/// The bottleneck is read from a failed trial that the host did not spoil, even if it is farther away.
#[test]
fn the_bottleneck_is_read_from_what_failed_undisturbed() {
    let goal = Preset::Quick.goal();
    let spoiled = |mut trial: Trial| {
        trial.beside = vec![Beside { name: "another".into(), cpu_s: 1.0 }];
        trial
    };
    let near = |is_spoiled: bool| {
        let near = trial(60e3, 900);
        if is_spoiled { spoiled(near) } else { near }
    };
    let far = |is_spoiled: bool| {
        let mut far = trial(90e3, 9_000);
        subject_busy(&mut far, 0.99);
        if is_spoiled { spoiled(far) } else { far }
    };
    let of = |near: &Trial, far: &Trial| {
        let good = trial(50e3, 0);
        let trials: Vec<(Purpose, &Trial)> = [&good, &good, &good, &good, &good, &good, far]
            .into_iter()
            .chain([near; 6])
            .map(|trial| (Purpose::Search, trial))
            .collect();
        judge_search(&goal, &trials, &SearchContext::default()).bottleneck.resource
    };
    assert_eq!(of(&near(false), &far(false)), Resource::SubjectSocketBuffer);
    assert_eq!(of(&near(true), &far(false)), Resource::SubjectCpu);
    assert_eq!(of(&near(true), &far(true)), Resource::Host);
}

#[test]
fn reasons_have_loads_at_the_usual_speed_and_name_what_the_load_was() {
    let goal = Preset::Quick.goal();
    let mut good = trial(50e3, 0);
    let reason = |good: &Trial| {
        let known = SearchContext { usual_speed: Some(0.5), ..SearchContext::default() };
        let reasons = judge_search(&goal, &[(Purpose::Search, good); 6], &known).reasons;
        reasons.into_iter().find(|reason| reason.starts_with("irregular: ")).unwrap()
    };
    assert!(reason(&good).contains("tried, 25,000 queries a second, met the goal"), "{}", reason(&good));
    good.connections = Some(ConnectionFacts { alone: true, ..ConnectionFacts::default() });
    assert!(reason(&good).contains("tried, 25,000 connections a second, met"), "{}", reason(&good));
}

#[test]
fn a_search_that_an_error_ended_is_distinguished_from_one_that_the_user_did() {
    let goal = Preset::Quick.goal();
    // The first search knows a load that met the goal, and the second knows none.
    for seen in [trial(50e3, 0), trial(50e3, 900)] {
        let judged = |cut_short| {
            let known = SearchContext { cut_short, ..SearchContext::default() };
            judge_search(&goal, &[(Purpose::Search, &seen)], &known)
        };
        for (by, how) in [
            (CutShort::User, "The search was interrupted"),
            (CutShort::Error, "An error ended the search"),
            (CutShort::Player, "The player ended the search"),
        ] {
            let verdict = judged(Some(by));
            let expected = format!("{how}: this is what it knew by then.");
            assert_eq!((verdict.interrupted, verdict.cut_short), (true, Some(by)));
            let is_limited = verdict.reasons[0].starts_with("player-limited: ");
            assert_eq!(is_limited, by == CutShort::Player, "{:?}", verdict.reasons);
            assert!(!is_limited || (verdict.grade.refuses() && verdict.figure_qps.is_none()));
            assert_eq!(verdict.reasons.last(), Some(&expected));
            assert_eq!(verdict.reasons.len(), verdict.advice.len());
            let says_interrupted = verdict.reasons.concat().contains("interrupted");
            assert_eq!(says_interrupted, by == CutShort::User, "{:?}", verdict.reasons);
        }
        assert!(!judged(None).interrupted);
    }
}

#[test]
fn a_futile_search_of_connections_alone_speaks_of_these() {
    let mut silent = closed(0.0);
    silent.connections = Some(ConnectionFacts { alone: true, ..ConnectionFacts::default() });
    let verdict =
        judge_search(&Preset::Quick.goal(), &[(Purpose::Ceiling, &silent)], &SearchContext::default());
    let reasons = verdict.reasons.concat();
    assert!(reasons.contains("not one connection of the overload was accepted"), "{reasons}");
    assert!(!reasons.contains("quer"), "{reasons}");
}

/// A growing queue is a limit, even if no load failed.
#[test]
fn only_where_nothing_gave_way_nothing_was_saturated() {
    let goal = Preset::Quick.goal();
    let growing = |is_growing: bool| {
        let mut trial = trial(50e3, 0);
        if is_growing {
            trial.load.correct_in_time = Some(trial.accounts.correct - trial.accounts.correct / 20);
            (trial.latency_us.min, trial.latency_us.p50) = (Some(50), Some(30_000));
        }
        let trials = [(Purpose::Search, &trial); 6];
        judge_search(&goal, &trials, &SearchContext::default()).bottleneck.resource
    };
    assert_eq!(growing(false), Resource::NoneSaturated);
    assert_eq!(growing(true), Resource::Unknown);
}

/// The host was never steady, so every trial was spoiled. Together they give a figure with a wide range.
#[test]
fn where_the_host_spoiled_all_trials_these_give_the_figure() {
    let goal = Preset::Quick.goal();
    let spoiled = |load_qps: f64, lost: u64| {
        let mut trial = trial(load_qps, lost);
        trial.beside = vec![Beside { name: "another".into(), cpu_s: 1.0 }];
        trial
    };
    let loads = [(50_000.0, 0), (60_000.0, 900), (52_000.0, 0), (58_000.0, 800)];
    let trials: Vec<Trial> = loads.into_iter().map(|(load_qps, lost)| spoiled(load_qps, lost)).collect();
    let sought: Vec<(Purpose, &Trial)> = trials.iter().map(|trial| (Purpose::Search, trial)).collect();
    let verdict = judge_search(&goal, &sought, &SearchContext::default());
    let figure = verdict.figure_qps.unwrap_or_else(|| panic!("{:?}", verdict.reasons));
    assert!((50_000.0..60_000.0).contains(&figure.median), "{figure:?}");
    assert!(figure.high / figure.low > 1.02 && verdict.grade == Grade::D, "{figure:?} {:?}", verdict.grade);
    let says = |reasons: &[String]| reasons.iter().any(|reason| reason.contains("rests on spoiled ones too"));
    assert!(says(&verdict.reasons), "{:?}", verdict.reasons);
    let undisturbed: Vec<Trial> = loads.iter().map(|&(load_qps, lost)| trial(load_qps, lost)).collect();
    let sound: Vec<(Purpose, &Trial)> = undisturbed.iter().map(|trial| (Purpose::Search, trial)).collect();
    let sound = judge_search(&goal, &sound, &SearchContext::default());
    assert!(sound.figure_qps.is_some() && !says(&sound.reasons), "{:?}", sound.reasons);
    let missed: Vec<_> = sought.into_iter().filter(|(_, trial)| trial.accounts.lost > 0).collect();
    assert_eq!(
        judge_search(&goal, &missed, &SearchContext::default()).figure_qps,
        None,
        "nothing was learned"
    );
}
