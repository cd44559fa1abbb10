//! Verdicts on whole runs.

use kqps_observation::run::{Outcome, Purpose, RunTrial};
use kqps_observation::{Run, Target, Trial};
use kqps_verdict::bottleneck::Resource;
use kqps_verdict::grade::Grade;
use kqps_verdict::judge::{CellVerdict, RunVerdict, facts_of, goal_of, judge};
use kqps_verdict::search::{Goal, Preset};
use kqps_verdict::warning::Code;

use super::facts::{Rig, SUBJECT, codes, knee, six_starts, starved, subject, trial};

#[test]
fn a_run_is_judged_by_the_goal_that_is_stored_in_it() {
    let mut rig = six_starts(2e6, |_| {});
    let figure_qps = subject(&rig).figure_qps;
    assert!(figure_qps.is_some());
    // Runs of older versions have only a name, which may be unknown.
    assert_eq!(goal_of(&rig.run), Some(Preset::Quick.goal()));
    rig.run.goal = "mine".into();
    assert_eq!(goal_of(&rig.run), None);
    assert_eq!(judge(&rig.run).goal, Goal { name: "mine".into(), ..Preset::Default.goal() });

    let quick = Goal { name: "mine".into(), ..Preset::Quick.goal() };
    rig.run.goal_facts = Some(facts_of(&quick));
    assert_eq!((judge(&rig.run).goal, subject(&rig).figure_qps), (quick.clone(), figure_qps));
    // No reply comes within a microsecond.
    rig.run.goal_facts = Some(facts_of(&Goal { p99_us: Some(1), ..quick }));
    assert_eq!(subject(&rig).figure_qps, None);
}

#[test]
fn a_sound_run_on_one_host_is_a_c_and_says_why() {
    let rig = six_starts(2e6, |_| {});
    let verdict = subject(&rig);
    let figure = verdict.figure_qps.expect("there is a figure");
    assert!((figure.median / 200e3 - 1.0).abs() < 0.02, "{figure:?}");
    assert_eq!(figure.count, 6);
    assert!((figure.coverage - 0.95).abs() < 1e-9);
    assert!(verdict.lower_bound_qps.unwrap() <= 200e3 && verdict.upper_bound_qps.unwrap() >= 200e3);
    assert_eq!(verdict.ceiling.as_deref(), Some("echo mmsg"));
    assert!((verdict.ceiling_share.unwrap() / (figure.median / 500e3) - 1.0).abs() < 0.002);
    let share = verdict.share.unwrap();
    assert!(share.low < figure.median / 500e3 && share.high > figure.median / 500e3, "{share:?}");
    assert!((verdict.player_headroom.unwrap() - 2e6 / figure.median).abs() < 1e-9);
    assert_eq!(verdict.bottleneck.resource, Resource::SubjectCpu);
    assert_eq!(verdict.grade, Grade::C);
    assert_eq!(codes(&verdict), [Code::SingleHost]);
    assert!(verdict.reasons[0].contains("relative only"), "{:?}", verdict.reasons);
}

#[test]
fn a_start_that_stands_out_is_reported_and_counts() {
    let mut rig = six_starts(2e6, |_| {});
    rig.search(6, knee(120_000.0));
    let verdict = subject(&rig);
    assert_eq!(verdict.figure_qps.unwrap().count, 7);
    let is_it = |reason: &&String| reason.starts_with("The start in block 7 (1");
    assert_eq!(verdict.reasons.iter().filter(is_it).count(), 1, "{:?}", verdict.reasons);
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
    let loads: Vec<(u32, f64)> = verdict.latency.iter().map(|point| (point.block, point.load_qps)).collect();
    assert!(loads.is_sorted() && loads.len() > 2 * 6, "start by start: {loads:?}");
    let sound = &verdict.latency[0];
    assert!(sound.bad_ratio == 0.0 && sound.latency_us.p99.is_some(), "{sound:?}");
    assert_eq!(sound.latency_us.p999.is_some(), sound.trials.len() >= 5, "100 samples beyond it are needed");
    assert_eq!(verdict.losses.places.len(), 1);
    assert_eq!(verdict.losses.places[0].count, verdict.losses.accounts.lost);
}

#[test]
fn ceilings_are_medians_over_starts() {
    let verdict = judge(&six_starts(2e6, |_| {}).run);
    let player = &verdict.ceilings.players[0];
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
    let named = [" -T", "--cpus"].iter().any(|flag| refused.reasons[0].contains(flag));
    assert!(!named, "a run has no such flags: {}", refused.reasons[0]);
    assert_eq!(refused.grade, Grade::F);
    assert!(refused.reasons[0].starts_with("player-limited"), "{:?}", refused.reasons);
    let figures =
        (refused.figure_qps, refused.lower_bound_qps, refused.ceiling_share, refused.player_headroom);
    assert_eq!(figures, (None, None, None, None), "no rate is shown");
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
    rig.add(SUBJECT, 5, 105, Purpose::Latency, wrong);
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
    assert_eq!(subject(&six_starts(2e6, late_at(207e3))).grade, Grade::C, "only overloaded trials lag");
    let always = subject(&six_starts(2e6, late_at(0.0)));
    assert_eq!(always.grade, Grade::F);
    assert!(codes(&always).contains(&Code::Lagging));
}

#[test]
fn a_bound_of_one_start_that_was_spoiled_three_times_refuses_the_figure() {
    let sound = subject(&six_starts(2e6, |_| {}));
    let bounds = sound.starts[2].bounds.clone().unwrap();
    for bound_qps in [bounds.lower_qps.unwrap(), bounds.upper_qps.unwrap()] {
        let mut rig = Rig::new(2e6);
        for block in 0..6 {
            let capacity_qps = 199_500.0 + 200.0 * f64::from(block);
            rig.search(block, |load_qps| {
                let mut trial = knee(capacity_qps)(load_qps);
                trial.players.first.socket_drops =
                    if block == 2 && load_qps.total_cmp(&bound_qps).is_eq() { 3 } else { 0 };
                trial
            });
        }
        let verdict = subject(&rig);
        assert_eq!(verdict.starts[2].bounds.as_ref().unwrap().lower_qps, bounds.lower_qps);
        assert_eq!(verdict.grade, Grade::F, "{:?}", verdict.reasons);
        assert!(verdict.reasons[0].starts_with("client-drops"), "{:?}", verdict.reasons);
    }
}

#[test]
fn every_start_that_drifted_is_reported() {
    let mut rig = six_starts(2e6, |_| {});
    let retest = rig.run.trials.iter_mut().find(|one| one.cell == SUBJECT && one.purpose == Purpose::Retest);
    let Some(Outcome::Measured(retest)) = retest.map(|one| &mut one.outcome) else { unreachable!() };
    *retest.as_mut() = trial(retest.load.intended_qps.unwrap(), 5_000);
    let verdict = subject(&rig);
    assert_eq!(verdict.starts[0].bounds.as_ref().unwrap().drifted, Some(true));
    assert!(!codes(&verdict).contains(&Code::Drifted), "one of six is no rule");
    assert!(verdict.reasons.iter().any(|reason| reason.starts_with("1 of 6 searches drifted")));
}

#[test]
fn a_search_in_two_parts_with_others_between_is_one_start() {
    let whole = six_starts(2e6, |_| {});
    let mut parted = six_starts(2e6, |_| {});
    let first = parted.run.trials.iter().position(|one| one.start == 100).unwrap();
    // The second half of the first search comes after all others, in a start of its own, with its warm-up.
    let mut rest = parted.run.trials.split_off(first + 4);
    let of_first = rest.iter().take_while(|one| one.start == 100).count();
    let mut moved: Vec<_> = rest.drain(..of_first).collect();
    parted.run.trials.append(&mut rest);
    parted.add(SUBJECT, 0, 200, Purpose::WarmUp, trial(1e3, 0));
    for one in &mut moved {
        one.start = 200;
    }
    parted.run.trials.append(&mut moved);
    let (whole, parted) = (subject(&whole), subject(&parted));
    assert_eq!(parted.starts.len(), 6);
    assert_eq!(parted.figure_qps, whole.figure_qps);
}

#[test]
fn a_warm_up_between_a_spoiled_trial_and_its_repetition_changes_nothing() {
    let spoil = |trial: &mut Trial| {
        trial.players.first.socket_drops = u64::from(trial.load.intended_qps.is_some_and(|qps| qps > 201e3));
    };
    let whole = six_starts(2e6, spoil);
    let mut parted = six_starts(2e6, spoil);
    let spoiled = |one: &RunTrial| one.measured().is_some_and(|trial| trial.players.first.socket_drops > 0);
    let first = parted.run.trials.iter().position(spoiled).unwrap();
    parted.add(SUBJECT, 0, 100, Purpose::WarmUp, trial(1e3, 0));
    let warm_up = parted.run.trials.pop().unwrap();
    parted.run.trials.insert(first + 1, warm_up);
    let bounds = |rig: &Rig| -> Vec<_> { subject(rig).starts.into_iter().map(|one| one.bounds).collect() };
    assert_eq!(bounds(&parted), bounds(&whole));
}

#[test]
fn two_starts_that_agree_know_little_more_than_their_bounds() {
    let mut rig = Rig::new(2e6);
    for block in 0..2 {
        rig.search(block, knee(200e3));
    }
    let verdict = subject(&rig);
    let (figure, upper_qps) = (verdict.figure_qps.unwrap(), verdict.upper_bound_qps.unwrap());
    assert!((figure.high / upper_qps - 1.0).abs() < 0.05, "{figure:?}");
    assert!((0.004..0.04).contains(&figure.half_width()), "{figure:?}");
}

#[test]
fn a_start_without_a_figure_has_no_part_in_the_bounds() {
    let mut rig = Rig::new(2e6);
    rig.search(0, knee(200e3));
    let alone = subject(&rig);
    // Nothing is answered: an upper bound far below, and no load that holds.
    rig.search(1, |load_qps| trial(load_qps, load_qps as u64 - 1));
    let both = subject(&rig);
    let dead = both.starts[1].bounds.as_ref().unwrap();
    assert!(dead.throughput_qps.is_none() && dead.upper_qps.is_some_and(|qps| qps < 100e3), "{dead:?}");
    assert!(alone.lower_bound_qps.is_some());
    assert_eq!(both.lower_bound_qps, alone.lower_bound_qps);
    assert_eq!(both.upper_bound_qps, alone.upper_bound_qps);
}

#[test]
fn without_the_players_own_ceiling_the_grade_is_no_better_than_c() {
    let far = |trial: &mut Trial| {
        trial.target = "198.18.0.2:53".into();
        trial.subject = None;
    };
    let mut rig = six_starts(2e6, far);
    rig.run.trials.retain(|one| one.cell == SUBJECT);
    let verdict = subject(&rig);
    assert_eq!((verdict.grade, verdict.player_headroom), (Grade::C, None));
    assert!(verdict.reasons[0].contains("ceiling was not measured"), "{:?}", verdict.reasons);
}

#[test]
fn the_headroom_is_that_of_a_player_which_is_set_up_alike() {
    let mut rig = six_starts(5e6, |_| {});
    for (cell, sockets) in rig.run.cells.iter_mut().zip(["1", "8", "8", "8"]) {
        cell.factors.set("player.sockets", sockets).unwrap();
    }
    let verdict = subject(&rig);
    let expected = 500e3 / verdict.figure_qps.unwrap().median;
    assert!((verdict.player_headroom.unwrap() - expected).abs() < 1e-9, "not that of the single flow");
    rig.run.cells[3].factors.set("player.sockets", "32").unwrap();
    assert_eq!(subject(&rig).player_headroom, None);
}

#[test]
fn a_doubt_lowers_the_grade_that_a_cap_leaves() {
    let far = |trial: &mut Trial| {
        trial.target = "198.18.0.2:53".into();
        trial.subject = None;
        trial.hosts.first.foreign_cpu_s = Some(0.06);
    };
    let mut rig = Rig::new(2e6);
    for block in 0..5 {
        rig.search(block, |load_qps| {
            let mut trial = knee(200e3)(load_qps);
            far(&mut trial);
            trial
        });
    }
    let verdict = subject(&rig);
    assert_eq!(codes(&verdict), [Code::NoisyHost]);
    assert_eq!(verdict.grade, Grade::C, "five starts make a B, and the noise a grade less");
}

#[test]
fn a_loss_that_buffers_may_have_hidden_is_a_reason() {
    let mut rig = Rig::new(2e6);
    rig.search(0, |load_qps| {
        let mut trial = knee(200e3)(load_qps);
        if load_qps > 200e3 {
            trial.latency_us.p50 = Some(100_000);
        }
        trial
    });
    let verdict = subject(&rig);
    let bounds = verdict.starts[0].bounds.as_ref().unwrap();
    assert!((bounds.hidden_share.unwrap() - 16_384.0 / (3.0 * bounds.lower_qps.unwrap())).abs() < 1e-6);
    assert!(
        verdict.reasons.iter().any(|reason| reason.contains("could have hidden")),
        "{:?}",
        verdict.reasons
    );
}

#[test]
fn starts_that_failed_are_reported_and_do_not_count() {
    let mut rig = six_starts(2e6, |_| {});
    rig.fail(6, "nsd ended with status 1");
    let verdict = subject(&rig);
    assert_eq!(verdict.figure_qps.unwrap().count, 6);
    assert_eq!(verdict.starts[6].failure.as_deref(), Some("nsd ended with status 1"));
    let is_reported =
        verdict.reasons.iter().any(|reason| reason == "1 of 7 starts failed: nsd ended with status 1");
    assert!(is_reported, "{:?}", verdict.reasons);
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

/// A server that already runs on another host. A watched twin on this host would show nothing of that.
#[test]
fn a_running_server_on_another_host_is_an_a_with_an_echo_there_and_a_c_without() {
    let far = |trial: &mut Trial| {
        trial.target = "192.0.2.1:53".into();
        trial.subject = None;
    };
    let target = |port| Some(Target { address: ([192, 0, 2, 1], port).into(), on_this_host: false });
    let mut rig = six_starts(2e6, far);
    let subject_cell = SUBJECT as usize;
    rig.run.cells[subject_cell].target = target(53);
    let without = subject(&rig);
    let says =
        |verdict: &CellVerdict, words: &str| verdict.reasons.iter().any(|reason| reason.contains(words));
    assert_eq!(
        without.grade,
        Grade::C,
        "the echoes on this host are no ceiling of it: {:?}",
        without.reasons
    );
    assert!(says(&without, "own ceiling was not measured"), "{:?}", without.reasons);

    rig.run.cells[0].target = target(5301);
    let verdict = subject(&rig);
    assert_eq!((verdict.grade, codes(&verdict)), (Grade::A, vec![]), "{:?}", verdict.reasons);
    assert!((verdict.player_headroom.unwrap() - 10.0).abs() < 0.3, "{:?}", verdict.player_headroom);
    assert!(says(&verdict, "one session with the same process"), "{:?}", verdict.reasons);

    // Too little headroom counts the same as on one host.
    let mut close = six_starts(300e3, far);
    close.run.cells[subject_cell].target = target(53);
    close.run.cells[0].target = target(5301);
    let close = subject(&close);
    assert_eq!((close.grade, codes(&close)), (Grade::C, vec![Code::PlayerLimited]), "{:?}", close.reasons);
}

#[test]
fn a_running_server_at_an_address_of_this_host_is_on_one_host() {
    let own = |trial: &mut Trial| {
        trial.target = "192.0.2.1:53".into();
        trial.subject = None;
    };
    let mut rig = six_starts(2e6, own);
    rig.run.cells[SUBJECT as usize].target =
        Some(Target { address: "192.0.2.1:53".parse().unwrap(), on_this_host: true });
    let verdict = subject(&rig);
    assert_eq!((verdict.grade, codes(&verdict)), (Grade::C, vec![Code::SingleHost]), "{:?}", verdict.reasons);
}

#[test]
fn few_starts_and_a_wide_spread_are_reasons() {
    let mut rig = Rig::new(2e6);
    for (block, capacity_qps) in [(0, 180e3), (1, 200e3), (2, 230e3)] {
        rig.search(block, knee(capacity_qps));
    }
    let verdict = subject(&rig);
    let all = verdict.reasons.join(" ");
    assert!(all.contains("rests on 3 starts"), "{all}");
    let half_width = verdict.figure_qps.unwrap().half_width();
    assert!((0.08..0.25).contains(&half_width), "{half_width}");
    assert!(all.contains("The figure is known to ± "), "{all}");
}

#[test]
fn runs_that_hold_little_are_judged_without_a_figure() {
    assert_eq!(judge(&Run::default()).subjects, []);
    let mut rig = Rig::new(2e6);
    let none = subject(&rig);
    assert_eq!((none.grade, none.figure_qps), (Grade::F, None));
    assert_eq!(none.bottleneck.resource, Resource::Unknown);
    let never = "It was never tried: the run or its budget ended before it began.";
    assert_eq!(none.reasons, [never], "no reason is about loads that were never tried");
    rig.fail(0, "port 5300 is in use");
    let verdict = subject(&rig);
    assert_eq!(verdict.grade, Grade::F);
    let failed = "Its only start failed, so there is no figure: port 5300 is in use";
    assert_eq!(verdict.reasons, [failed]);

    // The time was up before any load was known to meet the goal.
    let mut rig = Rig::new(2e6);
    rig.add(SUBJECT, 0, 100, Purpose::Search, knee(200e3)(300e3));
    rig.run.finished_unix_ms = Some(1);
    let reasons = subject(&rig).reasons;
    assert!(reasons.iter().any(|reason| reason.starts_with("The time for the search")), "{reasons:?}");

    // A run that was killed in the middle of a search.
    let mut rig = six_starts(2e6, |_| {});
    rig.run.trials.truncate(18 + 4);
    let verdict = subject(&rig);
    assert!(verdict.starts[0].bounds.as_ref().unwrap().interrupted);
}

#[test]
fn verdicts_survive_being_written() {
    let verdict = judge(&six_starts(2e6, |_| {}).run);
    let read: RunVerdict = serde_json::from_str(&serde_json::to_string(&verdict).unwrap()).unwrap();
    assert_eq!(read, verdict);
}
