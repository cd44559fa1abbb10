//! From the trials of a run to the ratios of a comparison.

use kqps_observation::host::CpuFacts;
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::subject::ThreadFacts;
use kqps_observation::trial::{Beside, LoadMode};
use kqps_observation::{Cell, Run, RunTrial, SubjectFacts, Trial};
use kqps_verdict::compare::Outcome as Verdict;
use kqps_verdict::compare::{Case, Comparison, Figure, Pairing, compare, of_run_for, within_run};

/// A run of cells under closed loops; `rates_qps[cell][block]`, and 0 for a start that failed.
pub(crate) fn run(rates_qps: &[&[f64]]) -> Run {
    let cell =
        |index: usize| Cell { name: format!("cell {index}"), load: CellLoad::Closed(1.0), ..Cell::default() };
    let mut run = Run { cells: (0..rates_qps.len()).map(cell).collect(), ..Run::default() };
    for (cell, blocks) in rates_qps.iter().enumerate() {
        for (block, rate_qps) in blocks.iter().enumerate().filter(|(_, rate)| !rate.is_nan()) {
            for (purpose, rate_qps) in [(Purpose::WarmUp, 1.0), (Purpose::Closed, *rate_qps)] {
                let mut trial = Trial::default();
                trial.load.answered_qps = rate_qps;
                let number = run.trials.len() as u64 + 1;
                let outcome = if rate_qps == 0.0 {
                    Outcome::Failed { reason: "it died".into(), output: Vec::new() }
                } else {
                    Outcome::Measured(Box::new(trial))
                };
                let (cell, block) = (cell as u32, block as u32);
                run.trials.push(RunTrial { number, cell, block, start: number, purpose, outcome });
            }
        }
    }
    run
}

/// Whether ratios are these, apart from the rounding of logarithms.
pub(crate) fn is(found: &[f64], wanted: &[f64]) {
    let close = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-9);
    assert!(close && found.len() == wanted.len(), "{found:?} {wanted:?}");
}

const NONE: f64 = f64::NAN;

#[test]
fn b_is_held_against_both_starts_of_a_and_these_against_each_other() {
    // In the third block B is missing, and in the fourth the second cell of A failed.
    let run = run(&[&[100.0, 80.0, 100.0, 100.0], &[100.0, 125.0, 110.0, 0.0], &[90.0, 80.0, NONE, 60.0]]);
    let case = of_run_for(&run, Pairing { a: 0, again: 1, b: 2 }, Figure::AnsweredRate);
    is(&case.same, &[1.0, 1.5625, 1.1]);
    is(&case.blocks, &[0.9, 0.8]);
    assert_eq!((case.numbers, case.starts_of_a, case.same_of_both), (vec![0, 1], 2, false));
    assert_eq!((case.a.as_str(), case.b.as_str()), ("cell 0", "cell 2"));
    assert_eq!(case.doubts, ["1 of the starts of cell 1 failed, the first: it died"]);
}

#[test]
fn a_comparison_of_an_earlier_version_has_a_beside_itself_and_then_beside_b() {
    let run = run(&[&[100.0, 200.0, 100.0, 50.0], &[110.0, 180.0, NONE, NONE], &[NONE, NONE, 90.0, 60.0]]);
    let case = of_run_for(&run, Pairing { a: 0, again: 1, b: 2 }, Figure::AnsweredRate);
    is(&case.same, &[0.99_f64.sqrt()]);
    is(&case.blocks, &[1.08_f64.sqrt()]);
    assert_eq!((case.numbers, case.starts_of_a), (vec![0], 1));
}

/// The highest of several rates counts in every start, even if the host spoiled it in one.
#[test]
fn a_rate_that_was_spoiled_is_not_replaced_by_a_lower_one() {
    let mut run = run(&[&[100.0, 100.0], &[50.0, 50.0]]);
    for one in &mut run.trials {
        let Outcome::Measured(trial) = &mut one.outcome else { unreachable!() };
        if one.purpose == Purpose::Closed {
            (one.purpose, trial.load.mode, trial.load.intended_qps) =
                (Purpose::Rate, LoadMode::Open, Some(1000.0));
            if (one.cell, one.block) == (0, 0) {
                trial.beside = vec![Beside { name: "cell 1".into(), cpu_s: 1.0 }];
            }
        }
    }
    let low = run.trials.clone().into_iter().filter(|one| one.purpose == Purpose::Rate).map(|mut one| {
        let Outcome::Measured(trial) = &mut one.outcome else { unreachable!() };
        (trial.load.intended_qps, trial.load.answered_qps) = (Some(10.0), 10.0);
        trial.beside = Vec::new();
        one
    });
    let low: Vec<RunTrial> = low.collect();
    run.trials.extend(low);
    is(&within_run(&run, 0, 1, Figure::AnsweredRate).blocks, &[0.5, 0.5]);
}

/// The figure of a start is that of most of its trials. Trials that the player spoiled do not count.
#[test]
fn a_start_of_many_trials_has_one_figure() {
    let mut run = run(&[&[100.0], &[90.0]]);
    for (rate_qps, drops) in [(91.0, 0), (89.0, 0), (20.0, 0), (90.5, 0), (300.0, 1)] {
        let mut trial = Trial::default();
        trial.load.answered_qps = rate_qps;
        trial.players.first.socket_drops = drops;
        let outcome = Outcome::Measured(Box::new(trial));
        let number = run.trials.len() as u64 + 1;
        run.trials.push(RunTrial { number, cell: 1, block: 0, start: 2, purpose: Purpose::Closed, outcome });
    }
    let ratio = within_run(&run, 0, 1, Figure::AnsweredRate).blocks[0];
    assert!((0.89..0.91).contains(&ratio), "{ratio}");
}

#[test]
fn a_start_that_failed_has_no_ratio_and_is_a_doubt() {
    let run = run(&[&[100.0, 100.0, 100.0, 100.0], &[90.0, 0.0, 80.0, 80.0]]);
    let case = within_run(&run, 0, 1, Figure::AnsweredRate);
    is(&case.blocks, &[0.9, 0.8, 0.8]);
    assert_eq!(case.numbers, [0, 2, 3]);
    // Three starts of B are left, which make one pair of neighbours.
    assert_eq!((case.same.len(), case.same_of_both), (3, true));
    assert_eq!(case.doubts, ["1 of the starts of cell 1 failed, the first: it died"]);
}

#[test]
fn an_outlying_block_keeps_its_number_when_another_has_no_ratio() {
    let a = [100.0; 8];
    let within = run(&[&a, &[100.1, 0.0, 100.0, 60.0, 100.1, 100.0, 100.1, 100.0]]);
    assert_eq!(judged(&within).outlying, [3]);
    let sides = run(&[
        &[100.0; 8],
        &[100.1, 100.0, 100.1, 100.0, 100.1, 100.0, 100.1, 100.0],
        &[100.1, 0.0, 100.0, 60.0, 100.1, 100.0, 100.1, 100.0],
    ]);
    let case = of_run_for(&sides, Pairing { a: 0, again: 1, b: 2 }, Figure::AnsweredRate);
    assert_eq!(case.numbers, [0, 2, 3, 4, 5, 6, 7]);
    assert_eq!(compare(&[case])[0].outlying, [3]);
}

/// Changes every trial of a cell apart from warm-ups.
pub(crate) fn alter(run: &mut Run, cell: u32, mut change: impl FnMut(usize, &mut Trial)) {
    let closed = run.trials.iter_mut().filter(|one| one.cell == cell && one.purpose == Purpose::Closed);
    for (index, one) in closed.enumerate() {
        let Outcome::Measured(trial) = &mut one.outcome else { continue };
        change(index, trial);
    }
}

pub(crate) fn thread(busy: f64) -> ThreadFacts {
    ThreadFacts { busy, ..ThreadFacts::default() }
}

/// Six blocks of equals, so similar that the verdict is equivalent.
fn equals() -> Run {
    run(&[&[100.0, 100.1, 100.0, 100.1, 100.0, 100.1], &[100.1, 100.0, 100.1, 100.0, 100.1, 100.0]])
}

fn judged(run: &Run) -> Comparison {
    compare(&[within_run(run, 0, 1, Figure::AnsweredRate)]).remove(0)
}

#[test]
fn what_nothing_is_said_against_is_judged_by_its_ratios() {
    let judged = judged(&equals());
    assert_eq!((judged.outcome, judged.case.refusals), (Verdict::Equivalent, 0));
}

#[test]
fn a_player_at_its_limit_in_most_starts_leaves_no_verdict() {
    // Player busy, subject busy, in how many of six starts of B, whether that is refused.
    for (player, subject, starts, is_refused) in [
        (0.99, 0.5, 6, true),
        (0.99, 0.5, 4, true),
        (0.99, 0.5, 3, false),
        (0.99, 1.0, 6, false),
        (0.6, 0.5, 6, false),
    ] {
        let mut run = equals();
        alter(&mut run, 1, |index, trial| {
            trial.players.first.per_thread = vec![thread(if index < starts { player } else { 0.5 })];
            trial.subject = Some(SubjectFacts { threads: vec![thread(subject)], ..SubjectFacts::default() });
        });
        let judged = judged(&run);
        let wanted = if is_refused { Verdict::Inconclusive } else { Verdict::Equivalent };
        assert_eq!(judged.outcome, wanted, "{player} {subject} {starts}: {:?}", judged.case.doubts);
        assert_eq!(
            judged.case.refusal().is_some_and(|why| why.contains("the player was the limit")),
            is_refused
        );
        if is_refused {
            assert_eq!(judged.more_blocks, None);
            assert!(judged.to_string().contains("nothing is shown"), "{judged}");
        }
    }
}

#[test]
fn a_ceiling_of_the_player_is_meant_to_be_its_limit() {
    let mut run = equals();
    run.cells[0].role = Role::PlayerCeiling;
    alter(&mut run, 0, |_, trial| trial.players.first.per_thread = vec![thread(1.0)]);
    assert_eq!(judged(&run).outcome, Verdict::Equivalent);
}

/// Interrupts that the kernel measures are the player's. Other work on its core is not, and becomes a doubt.
#[test]
fn interrupts_count_as_the_players_time_and_other_programs_do_not() {
    for (irq, softirq, is_refused) in [(0.01, 0.3, true), (0.0, 0.0, false)] {
        let mut run = equals();
        alter(&mut run, 1, |_, trial| {
            trial.players.first.per_thread = vec![thread(0.7)];
            trial.players.first.cpus = vec![0];
            trial.hosts.first.cpus = vec![CpuFacts { irq, softirq, ..CpuFacts::default() }];
        });
        let case = judged(&run).case;
        assert_eq!(case.refusal().is_some(), is_refused, "{:?}", case.doubts);
        assert_eq!(case.doubts.len(), 1);
        assert!(is_refused || case.doubts[0].starts_with("the player's core was full"), "{:?}", case.doubts);
    }
}

#[test]
fn wrong_answers_and_spoiled_trials_leave_no_verdict_and_come_before_doubts() {
    let mut run = equals();
    run.trials.iter_mut().find(|one| one.cell == 0).unwrap().outcome =
        Outcome::Failed { reason: "it died".into(), output: Vec::new() };
    alter(&mut run, 1, |index, trial| {
        trial.accounts.wrong = u64::from(index == 2);
        trial.players.first.socket_drops = u64::from(index == 4);
    });
    let case = judged(&run).case;
    assert_eq!(case.refusals, 2);
    assert!(case.doubts[0].starts_with("cell 1 gave 1 wrong answers"), "{:?}", case.doubts);
    assert!(case.doubts[1].starts_with("the player spoiled 1 of 6 starts of cell 1"), "{:?}", case.doubts);
    assert!(case.doubts[2].contains("it died"), "{:?}", case.doubts);
    let difference = Case { blocks: vec![0.5; 6], ..case };
    assert_eq!(compare(&[difference])[0].outcome, Verdict::Inconclusive);
}

/// Both sides had the same noise, and the interval covers what is left of it.
#[test]
fn noise_is_a_doubt_and_refuses_nothing() {
    for (foreign_cpu_s, steal, doubts) in
        [(0.0, 0.0, 0), (0.06, 0.0, 1), (0.226, 0.0, 1), (0.0, 0.005, 1), (0.0, 0.02, 1)]
    {
        let mut run = equals();
        alter(&mut run, 0, |_, trial| {
            trial.hosts.first.wall_s = 1.0;
            trial.hosts.first.foreign_cpu_s = Some(foreign_cpu_s);
            trial.hosts.first.cpus = [0, 1].map(|cpu| CpuFacts { cpu, steal, ..CpuFacts::default() }).into();
        });
        let Comparison { outcome, case, .. } = judged(&run);
        assert_eq!(
            (outcome, case.refusals, case.doubts.len()),
            (Verdict::Equivalent, 0, doubts),
            "{:?}",
            case.doubts
        );
        let is_noise = |doubt: &String| {
            doubt.starts_with("cell 0 has a doubtful figure, noisy-host: Other programs took")
        };
        assert!(case.doubts.iter().all(is_noise), "{:?}", case.doubts);
    }
}

/// A comparison reports every warning of a cell's trials, once.
#[test]
fn every_warning_of_a_cell_is_one_doubt() {
    let mut run = equals();
    run.cells[1].workers = 2;
    run.cells[1].subject_cpus = vec![1];
    alter(&mut run, 1, |_, trial| {
        trial.target = "127.0.0.1:5300".into();
        trial.players.first.cpus = vec![1];
        trial.players.first.per_thread = vec![thread(0.99)];
        trial.ledger.unexplained = 100;
        let threads = vec![thread(0.92), thread(0.1)];
        trial.subject = Some(SubjectFacts { alive: true, threads, ..SubjectFacts::default() });
    });
    let Comparison { outcome, case, .. } = judged(&run);
    assert_eq!((outcome, case.refusals), (Verdict::Equivalent, 0));
    let codes = ["player-limited", "shared-cores", "uneven", "unexplained-loss"];
    assert_eq!(case.doubts.len(), codes.len(), "{:?}", case.doubts);
    for (doubt, code) in case.doubts.iter().zip(codes) {
        assert!(doubt.starts_with(&format!("cell 1 has a doubtful figure, {code}: ")), "{doubt}");
        assert!(!doubt.ends_with('.'), "{doubt}");
    }
}

/// The player spoils three trials of 26 in succession, and the host spoils four; the rest gives the figure.
#[test]
fn spoiled_trials_are_left_out_where_a_start_has_others() {
    let mut run = equals();
    let mut more = Vec::new();
    for one in run.trials.iter().filter(|one| one.cell == 1 && one.purpose == Purpose::Closed) {
        for number in 0..25 {
            let mut one = one.clone();
            let Outcome::Measured(trial) = &mut one.outcome else { unreachable!() };
            if number < 3 {
                trial.players.first.socket_drops = 7;
            }
            if (10..14).contains(&number) {
                trial.beside = vec![Beside { name: "cell 0".into(), cpu_s: 1.0 }];
            }
            if number < 3 || (10..14).contains(&number) {
                trial.load.answered_qps *= 0.1;
            }
            more.push(one);
        }
    }
    run.trials.extend(more);
    let judged = judged(&run);
    assert_eq!((judged.outcome, judged.case.refusal()), (Verdict::Equivalent, None), "{judged:?}");
    assert!(judged.ratio.unwrap().low > 0.998, "{:?}", judged.ratio);
}

/// A trial that the player spoiled and that was repeated does not count.
#[test]
fn a_trial_that_was_made_anew_does_not_count() {
    let mut run = equals();
    let at = run.trials.iter().position(|one| one.cell == 1 && one.purpose == Purpose::Closed).unwrap();
    let mut spoiled = run.trials[at].clone();
    let Outcome::Measured(trial) = &mut spoiled.outcome else { unreachable!() };
    trial.players.first.socket_drops = 3;
    run.trials.insert(at, spoiled);
    assert_eq!(judged(&run).case.refusal(), None);
}
