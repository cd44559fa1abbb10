//! The loads that are said to hold, start by start: loads that were played and held. Worked examples, with the
//! printed words.

use kqps_observation::run::Purpose;
use kqps_observation::{CoreGauge, GaugeFacts, SpeedFacts, Trial};
use kqps_verdict::grade::Grade;
use kqps_verdict::judge::{CellVerdict, SearchContext, Wording, judge_search};
use kqps_verdict::search::{Futile, Goal, Preset};
use kqps_verdict::warning::Code;

use super::facts::{Rig, SUBJECT, closed, subject, trial};

/// Plays a load in a start often enough to settle it.
fn settle(rig: &mut Rig, block: u32, load_qps: f64, lost: u64) {
    for _ in 0..3 {
        rig.add(SUBJECT, block, u64::from(100 + block), Purpose::Search, trial(load_qps, lost));
    }
}

fn retest(rig: &mut Rig, block: u32, load_qps: f64, lost: u64) {
    rig.add(SUBJECT, block, u64::from(100 + block), Purpose::Retest, trial(load_qps, lost));
}

/// The words for every start.
fn words(verdict: &CellVerdict) -> Vec<String> {
    let rate = |rate_qps: f64| format!("{rate_qps:.0}");
    let wording = Wording { rate: &rate, is_claimed: verdict.figure_qps.is_some() };
    verdict.starts.iter().map(|start| start.in_words(wording)).collect()
}

/// Two starts: in the first, 81,660 met the goal and failed its re-test; in the second, 59,830 held.
fn disagreeing() -> Rig {
    let mut rig = Rig::new(2e6);
    settle(&mut rig, 0, 81_660.0, 0);
    settle(&mut rig, 0, 83_250.0, 5_000);
    retest(&mut rig, 0, 81_660.0, 5_000);
    settle(&mut rig, 1, 59_830.0, 0);
    settle(&mut rig, 1, 60_950.0, 5_000);
    retest(&mut rig, 1, 59_830.0, 0);
    rig
}

#[test]
fn a_start_whose_lower_bound_was_refuted_has_no_part_in_the_bounds() {
    let verdict = subject(&disagreeing());
    let figure = verdict.figure_qps.unwrap();
    assert!(
        figure.count == 2 && figure.low < 60e3 && figure.high > 81e3,
        "all trials have a part in it: {figure:?}"
    );
    assert_eq!(
        (verdict.lower_bound_qps, verdict.upper_bound_qps),
        (None, None),
        "they do not hold the figure"
    );
    let why = "The bounds do not count: 60,950 q/s did not hold in a few trials of one moment. The figure lies above that";
    assert!(verdict.reasons.iter().any(|reason| reason.starts_with(why)), "{:?}", verdict.reasons);
    assert_eq!(
        words(&verdict),
        [
            "no load is known to hold; 81660 met the goal and failed when it was tried again; 83250 did not hold",
            "59830 held, and again at the end; 60950 did not hold",
        ]
    );
    let drifted = verdict.warnings.iter().find(|warning| warning.code == Code::Drifted).unwrap();
    assert_eq!(drifted.figure, Some(81_660.0));
}

#[test]
fn a_bound_that_missed_the_goal_in_half_of_its_re_tests_says_so_and_drifted() {
    for (retests, outcome, has_drifted) in [
        (&[0][..], "and again at the end", false),
        (&[5_000, 0], "and in 1 of 2 trials at the end", false),
        (&[5_000, 5_000, 0, 5_000, 0, 0], "and in 3 of 6 trials at the end", true),
    ] {
        let mut rig = Rig::new(2e6);
        settle(&mut rig, 0, 81_660.0, 0);
        settle(&mut rig, 0, 83_250.0, 5_000);
        for lost in retests {
            retest(&mut rig, 0, 81_660.0, *lost);
        }
        let verdict = subject(&rig);
        assert_eq!(words(&verdict), [format!("81660 held, {outcome}; 83250 did not hold")]);
        let drifted = verdict.warnings.iter().find(|warning| warning.code == Code::Drifted);
        assert_eq!(drifted.is_some(), has_drifted, "{:?}", verdict.warnings);
        assert!(drifted.is_none_or(|warning| warning.advice.contains("in 3 of 6 trials only")));
    }
}

#[test]
fn what_held_below_a_refuted_load_counts() {
    let mut rig = disagreeing();
    settle(&mut rig, 0, 65_300.0, 0);
    let verdict = subject(&rig);
    assert_eq!((verdict.lower_bound_qps, verdict.upper_bound_qps), (Some(59_830.0), Some(83_250.0)));
    assert_eq!(
        words(&verdict)[0],
        "65300 held, and was not tried again; 81660 met the goal and failed when it was tried again; 83250 did not hold"
    );
    let untested = "1 of 2 searches have no undisturbed trial of their lower bound at the end";
    assert!(verdict.reasons.iter().any(|reason| reason.starts_with(untested)), "{:?}", verdict.reasons);
}

#[test]
fn no_bound_of_an_even_number_of_starts_is_a_mean_of_two() {
    let mut rig = Rig::new(2e6);
    let loads = [(50_000.0, 51_000.0), (60_000.0, 61_000.0), (70_000.0, 71_000.0), (80_000.0, 81_000.0)];
    for (block, (lower_qps, upper_qps)) in (0..).zip(loads) {
        settle(&mut rig, block, lower_qps, 0);
        settle(&mut rig, block, upper_qps, 5_000);
        retest(&mut rig, block, lower_qps, 0);
    }
    let verdict = subject(&rig);
    let figure = verdict.figure_qps.unwrap();
    assert!(figure.low < 60e3 && figure.high > 69e3, "{figure:?}");
    assert_eq!((verdict.lower_bound_qps, verdict.upper_bound_qps), (Some(50_000.0), Some(81_000.0)));
    for (text, (lower_qps, upper_qps)) in words(&verdict).iter().zip(loads) {
        assert_eq!(*text, format!("{lower_qps} held, and again at the end; {upper_qps} did not hold"));
    }
    // A start that never failed: no load is known to be too much for all.
    rig.run
        .trials
        .retain(|one| one.block != 2 || one.measured().unwrap().load.intended_qps != Some(71_000.0));
    let verdict = subject(&rig);
    assert_eq!((verdict.lower_bound_qps, verdict.upper_bound_qps), (Some(50_000.0), None));
    assert_eq!(words(&verdict)[2], "70000 held, and again at the end; no greater load was too much");
}

#[test]
fn without_any_start_that_held_all_trials_together_give_a_figure_and_no_bound() {
    let mut rig = disagreeing();
    rig.run.trials.retain(|one| one.block == 0 || one.cell != SUBJECT);
    let verdict = subject(&rig);
    assert_eq!((verdict.grade, verdict.lower_bound_qps), (Grade::D, None));
    let figure = verdict.figure_qps.unwrap();
    assert!((75e3..84e3).contains(&figure.median) && figure.half_width() > 0.02, "{figure:?}");
    let why = "No load met the goal often enough to be a lower bound";
    assert!(verdict.reasons.iter().any(|reason| reason.starts_with(why)), "{:?}", verdict.reasons);
}

#[test]
fn the_bounds_of_a_refused_figure_are_worded_as_observations() {
    let mut rig = disagreeing();
    let mut wrong = trial(30_000.0, 0);
    (wrong.accounts.correct, wrong.accounts.wrong) = (29_990, 10);
    rig.add(SUBJECT, 1, 101, Purpose::Latency, wrong);
    let verdict = subject(&rig);
    assert_eq!((verdict.grade, verdict.figure_qps), (Grade::F, None));
    assert_eq!(words(&verdict)[1], "59830 met the goal, and again at the end; 60950 missed the goal");
}

#[test]
fn a_search_that_was_cut_short_shows_how_far_it_came() {
    let mut rig = Rig::new(2e6);
    rig.add(SUBJECT, 0, 100, Purpose::Ceiling, closed(70e3));
    let verdict = subject(&rig);
    assert_eq!(words(&verdict), ["no load was tried without the host disturbing it"]);
    for (load_qps, lost) in [(50_000.0, 0), (60_000.0, 0), (70_000.0, 9_000), (80_000.0, 0)] {
        rig.add(SUBJECT, 0, 100, Purpose::Search, trial(load_qps, lost));
    }
    let verdict = subject(&rig);
    let figure = verdict.figure_qps.unwrap();
    assert!(figure.low < 62e3 && figure.high > 80e3, "{figure:?}");
    assert_eq!(
        words(&verdict),
        ["no load is known to hold: 60000 passed, too seldom to count; 70000 did not hold"]
    );
}

#[test]
fn closed_loops_and_failures_claim_no_load() {
    let mut rig = Rig::new(2e6);
    rig.fail(0, "the server ended with status 7");
    assert_eq!(words(&subject(&rig)), ["failed: the server ended with status 7"]);

    let mut rig = Rig::new(2e6);
    rig.run.cells[SUBJECT as usize].load = kqps_observation::run::CellLoad::Closed(1.0);
    rig.add(SUBJECT, 0, 100, Purpose::Closed, closed(70e3));
    assert_eq!(words(&subject(&rig)), ["70000 in closed loop"]);
}

/// The trials of a search with this share of wrong replies, by these causes.
fn wrong(share: f64, rcodes: &[(&str, u64)]) -> Trial {
    let mut wrong = closed(10_000.0);
    wrong.accounts.wrong = (10_000.0 * share) as u64;
    wrong.accounts.correct = 10_000 - wrong.accounts.wrong;
    wrong.load.answered_qps = wrong.accounts.correct as f64;
    wrong.wrong_causes.insert("rcode".into(), wrong.accounts.wrong);
    wrong.wrong_rcodes = rcodes.iter().map(|(pair, count)| ((*pair).to_owned(), *count)).collect();
    wrong
}

#[test]
fn a_search_of_the_wrong_zone_names_the_most_frequent_wrong_answer() {
    let trial =
        wrong(0.97, &[("expected NOERROR, got REFUSED", 9_000), ("expected NXDOMAIN, got REFUSED", 700)]);
    let goal = Preset::Default.goal();
    let verdict = judge_search(&goal, &[(Purpose::Ceiling, &trial)], &SearchContext::default());
    assert_eq!(verdict.seen.futile, Some(Futile::Wrong { ratio: 0.97 }));
    assert_eq!((verdict.grade, verdict.incomplete), (Grade::F, false));
    let first =
        "wrong-answers: 90 % of the answers were REFUSED instead of NOERROR: does the server have this zone?";
    assert!(verdict.reasons[0].starts_with(first), "{:?}", verdict.reasons);
    let reasons = verdict.reasons.join(" ");
    assert!(reasons.contains("9700 replies were wrong"), "{reasons}");
    assert!(reasons.contains("ended early") && !reasons.contains("never tried"), "{reasons}");
    assert!(!reasons.contains("used up"), "{reasons}");
}

#[test]
fn a_loss_that_does_not_fall_is_the_reason() {
    let goal = Goal { limit_s: 1e3, ..Preset::Quick.goal() };
    let overload = closed(1_200.0);
    let lossy: Vec<Trial> =
        [1_200.0, 800.0, 560.0, 390.0, 270.0].map(|qps: f64| trial(qps, (qps * 0.3) as u64)).into();
    let trials: Vec<(Purpose, &Trial)> = [(Purpose::Ceiling, &overload)]
        .into_iter()
        .chain(lossy.iter().map(|one| (Purpose::Search, one)))
        .collect();
    let verdict = judge_search(&goal, &trials, &SearchContext::default());
    let why = "The search ended early: the loss does not fall with the load: 30.0 % had no correct answer in time at \
               1,200 q/s, and 30.0 % at 270 q/s. Look for a packet filter or a rate limit";
    assert!(verdict.reasons.iter().any(|reason| reason.starts_with(why)), "{:?}", verdict.reasons);
    assert_eq!((verdict.grade, verdict.throughput_qps), (Grade::F, None));
    let slower = SearchContext { usual_speed: Some(0.5), ..SearchContext::default() };
    let slower = judge_search(&goal, &trials, &slower);
    let Some(Futile::Lossy { load_qps, less_qps, .. }) = slower.seen.futile else { panic!("{slower:?}") };
    assert_eq!((load_qps, less_qps), (600.0, 135.0));
    assert!(slower.reasons[0].contains("in time at 600 q/s, and 30.0 % at 135 q/s"), "{:?}", slower.reasons);
}

/// The search went by all of its trials, also by those that the host disturbed each time they were made.
#[test]
fn a_search_that_ended_early_says_why_on_a_disturbed_host() {
    let goal = Goal { limit_s: 1e3, ..Preset::Quick.goal() };
    let overload = closed(1_200.0);
    let gauge = |turns_per_s| GaugeFacts { cores: vec![CoreGauge { cpu: 1, turns_per_s, stalled_s: 0.0 }] };
    let lossy = |qps: f64| {
        let mut lossy = trial(qps, (qps * 0.3) as u64);
        if qps < 500.0 {
            let (before, after) = (gauge(100.0), gauge(200.0));
            lossy.speed = Some(SpeedFacts { before, after, ..SpeedFacts::default() });
        }
        lossy
    };
    let lossy: Vec<Trial> = [1_200.0, 800.0, 560.0, 390.0, 270.0].map(lossy).into();
    let mut trials: Vec<(Purpose, &Trial)> = vec![(Purpose::Ceiling, &overload)];
    for one in &lossy {
        trials.extend([(Purpose::Search, one); 3]);
    }
    let verdict = judge_search(&goal, &trials, &SearchContext::default());
    assert!(matches!(verdict.seen.futile, Some(Futile::Lossy { .. })), "{verdict:?}");
    let why = "The search ended early: the loss does not fall with the load";
    assert!(verdict.reasons.iter().any(|reason| reason.starts_with(why)), "{:?}", verdict.reasons);
}
