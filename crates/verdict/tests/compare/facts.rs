//! From the trials of a run to the ratios of a comparison.

use kqps_observation::run::{CellLoad, Outcome, Purpose};
use kqps_observation::subject::ThreadFacts;
use kqps_observation::{Cell, Run, RunTrial, SubjectFacts, Trial};
use kqps_verdict::compare::{Figure, Pairing, between_runs, of_pairs, within_run};

/// A run of cells under closed loops; `rates_qps[cell][block]`, and 0 for a start that failed.
fn run(rates_qps: &[&[f64]]) -> Run {
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

const NONE: f64 = f64::NAN;

#[test]
fn pairs_of_starts_make_abba_blocks() {
    // Two pairs of A with itself, then three of A with B; the last block is not whole yet.
    let run = run(&[
        &[100.0, 200.0, 100.0, 100.0, 50.0],
        &[110.0, 180.0, NONE, NONE, NONE],
        &[NONE, NONE, 90.0, 80.0, 60.0],
    ]);
    let case = of_pairs(&run, Pairing { a: 0, again: 1, b: 2 }, Figure::AnsweredRate);
    assert_eq!(case.same, [[1.1, 0.9]]);
    assert_eq!(case.blocks, [vec![0.9, 0.8], vec![1.2]]);
    assert_eq!((case.a.as_str(), case.b.as_str()), ("cell 0", "cell 2"));
    assert!(case.doubts.is_empty(), "{:?}", case.doubts);
}

#[test]
fn a_start_that_failed_has_no_ratio_and_is_told() {
    let run = run(&[&[100.0, 100.0, 100.0, 100.0], &[90.0, 0.0, 80.0, 80.0]]);
    let case = within_run(&run, 0, 1, Figure::AnsweredRate);
    assert_eq!(case.blocks, [[0.9], [0.8], [0.8]]);
    // Of B only three starts are left, which make one pair of neighbours.
    assert_eq!(case.same.len(), 3);
    assert_eq!(case.doubts, ["1 of the starts of cell 1 failed, the first: it died"]);
}

#[test]
fn two_sessions_are_compared_with_a_warning() {
    let (before, after) = (run(&[&[100.0; 6]]), run(&[&[50.0; 6]]));
    let case = between_runs((&before, 0), (&after, 0), Figure::AnsweredRate);
    assert_eq!(case.blocks, [[0.5]; 6]);
    assert!(case.doubts[0].contains("different sessions"), "{:?}", case.doubts);
}

#[test]
fn a_player_that_is_busier_than_its_subject_raises_doubt() {
    let thread = |busy: f64| ThreadFacts { busy, ..ThreadFacts::default() };
    for (player, subject, doubtful) in [(0.99, 0.5, true), (0.99, 1.0, false), (0.6, 0.5, false)] {
        let mut run = run(&[&[100.0; 6], &[100.0; 6]]);
        for one in &mut run.trials {
            let Outcome::Measured(trial) = &mut one.outcome else { unreachable!() };
            trial.player.per_thread = vec![thread(player)];
            trial.subject = Some(SubjectFacts { threads: vec![thread(subject)], ..SubjectFacts::default() });
        }
        let doubts = within_run(&run, 0, 1, Figure::AnsweredRate).doubts;
        assert_eq!(doubts.iter().any(|doubt| doubt.contains("the player was busy")), doubtful, "{doubts:?}");
    }
}
