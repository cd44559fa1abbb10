//! Verdicts on whole runs and on single searches.

use kqps_observation::run::Purpose;
use kqps_observation::{Run, Trial};
use kqps_verdict::bottleneck::Resource;
use kqps_verdict::grade::Grade;
use kqps_verdict::judge::{CellVerdict, Known, RunVerdict, SearchVerdict, judge, judge_search};
use kqps_verdict::search::Preset;
use kqps_verdict::warning::Code;

use crate::facts::{Rig, knee, starved};

/// Six starts of a subject whose capacity is 200 kqps, give or take half a percent.
fn six_starts(player_qps: f64, spoil: impl Fn(&mut Trial)) -> Rig {
    let mut rig = Rig::new(player_qps);
    for block in 0..6 {
        let play = knee(199_500.0 + 200.0 * f64::from(block));
        rig.search(block, |load_qps| {
            let mut trial = play(load_qps);
            spoil(&mut trial);
            trial
        });
    }
    rig
}

fn subject(rig: &Rig) -> CellVerdict {
    judge(&rig.run).subjects.remove(0)
}

fn codes(verdict: &CellVerdict) -> Vec<Code> {
    verdict.warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn a_sound_run_on_one_host_is_a_c_and_says_why() {
    let rig = six_starts(2e6, |_| {});
    let verdict = subject(&rig);
    let figure = verdict.figure_qps.expect("there is a figure");
    assert!((figure.median / 200e3 - 1.0).abs() < 0.02, "{figure:?}");
    assert_eq!(figure.count, 6);
    assert!((figure.coverage - 0.968_75).abs() < 1e-9);
    assert!(verdict.lower_bound_qps.unwrap() <= 200e3 && verdict.upper_bound_qps.unwrap() >= 200e3);
    assert_eq!(verdict.ceiling.as_deref(), Some("echo mmsg"));
    assert!((verdict.ceiling_share.unwrap() - figure.median / 500e3).abs() < 1e-9);
    assert!((verdict.player_headroom.unwrap() - 2e6 / figure.median).abs() < 1e-9);
    assert_eq!(verdict.bottleneck.resource, Resource::SubjectCpu);
    assert_eq!(verdict.grade, Grade::C);
    assert_eq!(codes(&verdict), [Code::SingleHost]);
    assert!(verdict.reasons[0].contains("relative only"), "{:?}", verdict.reasons);
}

#[test]
fn every_figure_names_its_trials_and_every_load_its_latency() {
    let rig = six_starts(2e6, |_| {});
    let verdict = subject(&rig);
    assert_eq!(verdict.starts.len(), 6);
    for start in &verdict.starts {
        let bounds = start.bounds.as_ref().unwrap();
        assert!(start.trials.len() >= 5, "two of a second at each bound, and a re-test");
        for number in &start.trials {
            let trial = &rig.run.trials[*number as usize - 1];
            assert_eq!(trial.start, start.start);
            let load_qps = trial.measured().unwrap().load.intended_qps;
            assert!(load_qps == bounds.lower_qps || load_qps == bounds.upper_qps);
        }
    }
    let loads: Vec<f64> = verdict.latency.iter().map(|point| point.load_qps).collect();
    assert!(loads.is_sorted() && loads.len() > 2, "{loads:?}");
    let sound = &verdict.latency[0];
    assert!(sound.bad_ratio == 0.0 && sound.latency_us.p99.is_some(), "{sound:?}");
    assert_eq!(sound.latency_us.p999.is_some(), sound.trials.len() >= 5, "100 samples beyond it are needed");
    assert_eq!(verdict.losses.places.len(), 1);
    assert_eq!(verdict.losses.places[0].count, verdict.losses.accounts.lost);
}

#[test]
fn ceilings_are_medians_over_starts() {
    let verdict = judge(&six_starts(2e6, |_| {}).run);
    let player = verdict.ceilings.player.unwrap();
    assert_eq!(player.median_qps(), Some(2e6));
    assert_eq!(player.trials.len(), 6);
    let names: Vec<&str> = verdict.ceilings.echoes.iter().map(|echo| echo.name.as_str()).collect();
    assert_eq!(names, ["echo mmsg", "echo blocking"]);
}

#[test]
fn a_player_with_little_headroom_lowers_the_grade_and_with_none_refuses_the_figure() {
    let doubtful = subject(&six_starts(400e3, |_| {}));
    assert!(codes(&doubtful).contains(&Code::PlayerLimited) && doubtful.figure_qps.is_some());
    let refused = subject(&six_starts(230e3, |_| {}));
    assert_eq!(refused.grade, Grade::F);
    assert!(refused.reasons[0].starts_with("player-limited"), "{:?}", refused.reasons);
    let figures =
        (refused.figure_qps, refused.lower_bound_qps, refused.ceiling_share, refused.player_headroom);
    assert_eq!(figures, (None, None, None, None), "no rate is told");
}

#[test]
fn the_rate_at_which_the_player_starves_is_no_rate_of_the_subject() {
    let mut rig = Rig::new(2e6);
    for block in 0..6 {
        rig.search(block, |load_qps| if load_qps > 150e3 { starved(load_qps) } else { knee(1e6)(load_qps) });
    }
    let verdict = subject(&rig);
    assert_eq!(verdict.bottleneck.resource, Resource::Player);
    assert_eq!(verdict.grade, Grade::F);
    assert!(codes(&verdict).contains(&Code::PlayerLimited));
    assert_eq!(verdict.figure_qps, None);
}

#[test]
fn wrong_answers_anywhere_refuse_the_figure() {
    let mut rig = six_starts(2e6, |_| {});
    let mut wrong = knee(200e3)(50e3);
    wrong.accounts.correct -= 1;
    wrong.accounts.wrong = 1;
    rig.add(crate::facts::SUBJECT, 5, 105, Purpose::Latency, wrong);
    let verdict = subject(&rig);
    assert_eq!((verdict.grade, verdict.figure_qps), (Grade::F, None));
    assert!(verdict.reasons[0].starts_with("wrong-answers"), "{:?}", verdict.reasons);
}

#[test]
fn a_warning_of_few_trials_does_not_stand() {
    let late_at = |from_qps: f64| {
        move |trial: &mut Trial| {
            if trial.load.intended_qps.is_some_and(|load_qps| load_qps >= from_qps) {
                trial.lag_us.p99 = Some(90);
            }
        }
    };
    assert_eq!(subject(&six_starts(2e6, late_at(202e3))).grade, Grade::C, "only overloaded trials lag");
    let always = subject(&six_starts(2e6, late_at(0.0)));
    assert_eq!(always.grade, Grade::F);
    assert!(codes(&always).contains(&Code::Lagging));
}

#[test]
fn starts_that_failed_are_told_and_do_not_count() {
    let mut rig = six_starts(2e6, |_| {});
    rig.fail(6, "nsd ended with status 1");
    let verdict = subject(&rig);
    assert_eq!(verdict.figure_qps.unwrap().count, 6);
    assert_eq!(verdict.starts[6].failure.as_deref(), Some("nsd ended with status 1"));
    let told = verdict.reasons.iter().any(|reason| reason == "1 of 7 starts failed: nsd ended with status 1");
    assert!(told, "{:?}", verdict.reasons);
}

#[test]
fn two_hosts_and_no_warning_make_an_a() {
    let far = |trial: &mut Trial| {
        trial.target = "198.18.0.2:53".into();
        trial.subject = None;
    };
    let verdict = subject(&six_starts(2e6, far));
    assert_eq!((verdict.grade, codes(&verdict)), (Grade::A, vec![]), "{:?}", verdict.reasons);
    assert_eq!(verdict.bottleneck.resource, Resource::Unknown);
}

#[test]
fn few_starts_and_a_wide_spread_are_reasons() {
    let mut rig = Rig::new(2e6);
    for (block, capacity_qps) in [(0, 180e3), (1, 200e3), (2, 230e3)] {
        rig.search(block, knee(capacity_qps));
    }
    let verdict = subject(&rig);
    let all = verdict.reasons.join(" ");
    assert!(all.contains("3 starts") && all.contains("75 %"), "{all}");
    assert!(all.contains("± 12."), "{all}");
}

#[test]
fn runs_that_hold_little_are_judged_without_a_figure() {
    assert_eq!(judge(&Run::default()).subjects, []);
    let mut rig = Rig::new(2e6);
    let none = subject(&rig);
    assert_eq!((none.grade, none.figure_qps), (Grade::F, None));
    rig.fail(0, "port 5300 is in use");
    let verdict = subject(&rig);
    assert_eq!(verdict.grade, Grade::F);
    assert!(verdict.reasons.iter().any(|reason| reason.contains("port 5300")), "{:?}", verdict.reasons);

    // A run that was killed in the middle of a search.
    let mut rig = six_starts(2e6, |_| {});
    rig.run.trials.truncate(18 + 4);
    let verdict = subject(&rig);
    assert!(verdict.starts[0].bounds.as_ref().unwrap().incomplete);
}

#[test]
fn verdicts_survive_being_written() {
    let verdict = judge(&six_starts(2e6, |_| {}).run);
    let read: RunVerdict = serde_json::from_str(&serde_json::to_string(&verdict).unwrap()).unwrap();
    assert_eq!(read, verdict);
}

/// The trials of the first start, as a search by itself.
fn search_of(rig: &Rig) -> Vec<(Purpose, &Trial)> {
    let first = rig.run.trials.iter().filter(|trial| trial.start == 100);
    first.map(|trial| (trial.purpose, trial.measured().unwrap())).collect()
}

#[test]
fn one_search_is_judged_with_the_names_that_the_interface_promises() {
    let rig = six_starts(2e6, |_| {});
    let known = Known { echo_qps: Some(500e3), ..Known::default() };
    let verdict: SearchVerdict = judge_search(&Preset::Quick.goal(), &search_of(&rig), &known);
    let written = serde_json::to_value(&verdict).unwrap();
    assert_eq!((&written["kind"], &written["grade"]), (&"verdict".into(), &"C".into()));
    assert_eq!(written["bottleneck"]["resource"], "subject-cpu");
    assert_eq!(written["goal"]["name"], "quick");
    for figure in ["lower_bound_qps", "upper_bound_qps", "throughput_qps"] {
        assert!((written[figure].as_f64().unwrap() / 200e3 - 1.0).abs() < 0.03, "{figure}");
    }
    assert!((written["ceiling_share"].as_f64().unwrap() - 0.4).abs() < 0.02);
    let reasons = verdict.reasons.join(" ");
    assert!(reasons.contains("one start"), "{reasons}");
    assert_eq!(verdict.trials.len(), search_of(&rig).len());
}

#[test]
fn a_search_without_a_rate_has_a_reason() {
    let trials: Vec<(Purpose, Trial)> = vec![(Purpose::Search, starved(10.0))];
    let trials: Vec<(Purpose, &Trial)> = trials.iter().map(|(purpose, trial)| (*purpose, trial)).collect();
    let verdict = judge_search(&Preset::Quick.goal(), &trials, &Known::default());
    assert_eq!((verdict.grade, verdict.throughput_qps), (Grade::F, None));
    assert!(!verdict.reasons.is_empty());
}
