//! Runs over simulated subjects: their order, their failures, and runs that are killed at any moment.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kqps_observation::factors::ComparedAs;
use kqps_observation::trial::LoadMode;
use kqps_verdict::judge::{CellVerdict, judge};
use kqps_verdict::search::Preset;

use kqps_observation as observation;
use kqps_observation::CellLoad;

use super::*;
use crate::running_server::RunningServer;
use crate::simulated::Simulated;
use crate::study::{self, DefaultStudyInput};
use kqps_testbed::trial_request::TrialRequest;

mod failing;
mod lost;
mod residence;
mod time_left;

const BLOCKS: u32 = 3;

/// All is on this host, which is not lost.
struct Here;

impl Hosts for Here {
    fn reach(&self) -> bool {
        true
    }

    fn take_away_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// A run of the default study with three subjects, before its first trial.
fn plan() -> Run {
    let target = observation::Target { address: "127.0.0.1:53".parse().unwrap(), on_this_host: true };
    let running = ["swift", "slow", "broken"].map(|name| {
        let factors = observation::Factors::default();
        RunningServer { name: name.into(), target, factors: Box::new(factors) }
    });
    let running = running.to_vec();
    let layout = study::layout(&DefaultStudyInput { running, latency: true, ..DefaultStudyInput::default() });
    Run { goal: "quick".into(), blocks: BLOCKS, seed: 7, cells: layout.cells, ..Run::default() }
}

/// The subject of a cell: its speed, or why it does not start.
fn subject(cell: &observation::Cell) -> Result<Simulated, NoTrial> {
    let knee_qps = match cell.name.as_str() {
        "broken" => return Err(NoTrial::Failed { reason: "it is broken".into(), output: vec!["oh".into()] }),
        "slow" => 20_000.0,
        _ => 300_000.0,
    };
    // Near the knee of the subject `swift` the player drops replies, so that trials are repeated.
    Ok(Simulated { knee_qps, spoiled_above_qps: 300_500.0 })
}

/// Conducts the missing trials of the store; `before_trial` may end the run.
fn conduct(
    store: &Store,
    clock: Option<(Clock, Instant)>,
    before_trial: &dyn Fn() -> Result<(), NoTrial>,
    report: &mut dyn FnMut(&Event<'_>),
) -> Result<Conducted, StoreError> {
    conduct_with(store, clock, Ok(()), &|_| before_trial(), report)
}

/// As [`conduct`], on a host that does not permit counting drop reasons. `before_trial` gets the trial's
/// purpose.
fn conduct_with(
    store: &Store,
    clock: Option<(Clock, Instant)>,
    reasons: Result<(), String>,
    before_trial: &dyn Fn(Purpose) -> Result<(), NoTrial>,
    report: &mut dyn FnMut(&Event<'_>),
) -> Result<Conducted, StoreError> {
    let mut run = store.run().unwrap();
    let cells = run.cells.clone();
    let mut start = |cell: usize, _: u64, _: Patience| -> Result<Play<'_>, NoTrial> {
        let subject = subject(&cells[cell])?;
        Ok(Box::new(move |request: &TrialRequest| {
            before_trial(request.purpose)?;
            Ok(subject.play(request).unwrap_or_else(|never| match never {}))
        }))
    };
    Conductor { clock, reasons, ..conductor(store, &mut start, report) }.conduct(&mut run)
}

/// A conductor for the quick goal, without a budget, on this host, which counts drop reasons.
fn conductor<'a>(
    store: &'a Store,
    start: &'a mut dyn FnMut(usize, u64, Patience) -> Result<Play<'a>, NoTrial>,
    report: &'a mut dyn FnMut(&Event<'_>),
) -> Conductor<'a> {
    let (goal, away) = (Preset::Quick.goal(), Duration::ZERO);
    Conductor { store, goal, clock: None, reasons: Ok(()), start, hosts: &Here, away, report }
}

/// The properties of all trials that do not depend on the number of starts.
fn essence(run: &Run) -> Vec<String> {
    let wanted = || run.trials.iter().filter(|trial| trial.purpose != Purpose::WarmUp);
    wanted()
        .map(|trial| {
            let load = trial.measured().map(|trial| trial.load.intended_qps);
            // More warm-ups shift numbers, but not which trial is repeated.
            let purpose = match trial.purpose {
                Purpose::Reasons { of } => {
                    Purpose::Reasons { of: wanted().filter(|one| one.number <= of).count() as u64 }
                }
                other => other,
            };
            format!("{} {} {purpose:?} {load:?}", trial.block, trial.cell)
        })
        .collect()
}

fn whole_run(folder: &Path) -> Run {
    let store = Store::create(&folder.join("run.sqlite"), &plan()).unwrap();
    assert_eq!(conduct(&store, None, &|| Ok(()), &mut |_| ()).unwrap(), Conducted::Whole);
    store.run().unwrap()
}

#[test]
fn every_cell_is_measured_in_every_block() {
    let folder = tempfile::tempdir().unwrap();
    let run = whole_run(folder.path());
    let mut units: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for trial in &run.trials {
        *units.entry((trial.cell, trial.block)).or_default() += 1;
    }
    assert_eq!(units.len(), run.cells.len() * BLOCKS as usize);
    let numbers: Vec<u64> = run.trials.iter().map(|trial| trial.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    // Every cell of every block has a start of its own, except the one that never started.
    let mut starts: Vec<u64> = run.trials.iter().map(|trial| trial.start).collect();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts, (1..=units.len() as u64).collect::<Vec<_>>());
    let broken = run.trials.iter().filter(|trial| trial.measured().is_none());
    assert_eq!(broken.count(), BLOCKS as usize);
    let closed = |trial: &&RunTrial| trial.measured().is_some_and(|one| one.load.mode == LoadMode::Closed);
    assert!(run.trials.iter().filter(closed).all(|trial| trial.purpose != Purpose::Search));
}

#[test]
fn an_interrupted_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let whole = whole_run(folder.path());
    std::fs::create_dir(folder.path().join("other")).unwrap();
    let store = Store::create(&folder.path().join("other/run.sqlite"), &plan()).unwrap();
    for most in [1, 5, 17, 30, 1000] {
        let left = Cell::new(most);
        let limited = || match left.get() {
            0 => Err(NoTrial::Interrupted),
            more => {
                left.set(more - 1);
                Ok(())
            }
        };
        let conducted = conduct(&store, None, &limited, &mut |_| ()).unwrap();
        assert_eq!(conducted == Conducted::Whole, most == 1000);
    }
    let run = store.run().unwrap();
    assert_eq!(essence(&run), essence(&whole));
    let figures = |run: &Run| -> Vec<_> {
        judge(run).subjects.iter().map(|subject| (subject.figure_qps, subject.starts.len())).collect()
    };
    assert_eq!(figures(&run), figures(&whole), "a search in two parts is one search");
}

/// A run with a canary, cut short after this many trials again and again until it is complete.
fn with_canary(cut_after: u32) -> Run {
    let mut plan = plan();
    let load = CellLoad::Rates { rates_qps: vec![1000.0], duration_s: 0.5 };
    plan.cells.push(observation::Cell { role: Role::Canary, load, ..observation::Cell::default() });
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &plan).unwrap();
    loop {
        let left = Cell::new(cut_after);
        let limited = || match left.get() {
            0 => Err(NoTrial::Interrupted),
            more => {
                left.set(more - 1);
                Ok(())
            }
        };
        if conduct(&store, None, &limited, &mut |_| ()).unwrap() == Conducted::Whole {
            return store.run().unwrap();
        }
    }
}

#[test]
fn the_canary_is_played_every_few_cells_and_at_the_end() {
    let run = with_canary(u32::MAX);
    let canary = run.cells.len() as u32 - 1;
    for block in 0..BLOCKS {
        let of_block: Vec<u32> =
            run.trials.iter().filter(|trial| trial.block == block).map(|trial| trial.cell).collect();
        // Cells that run side by side are not separated, so the canary comes late after them, but just as
        // often.
        assert_eq!(of_block[0], canary);
        let played = of_block.iter().filter(|cell| **cell == canary).count();
        let is_last = block + 1 == BLOCKS;
        assert_eq!(played, (canary as usize).div_ceil(canary::EVERY) + usize::from(is_last), "{of_block:?}");
        assert_eq!(of_block.last() == Some(&canary), is_last, "{of_block:?}");
    }
    let canaries = run.trials.iter().filter(|trial| trial.cell == canary);
    assert!(canaries.clone().all(|trial| trial.purpose == Purpose::Canary));
    assert_eq!(canaries.count(), BLOCKS as usize * (canary as usize).div_ceil(canary::EVERY) + 1);
}

#[test]
fn a_run_that_is_cut_short_neither_repeats_nor_loses_a_canary() {
    let whole = essence(&with_canary(u32::MAX));
    for cut_after in [3, 4, 7] {
        assert_eq!(essence(&with_canary(cut_after)), whole, "cut after every {cut_after} trials");
    }
}

#[test]
fn what_does_not_fit_the_budget_is_dropped_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &plan()).unwrap();
    let mut dropped = Vec::new();
    // The first trial takes longer than the whole budget.
    let second = Cell::new(false);
    let slow = || {
        if !second.replace(true) {
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    };
    conduct(&store, Some((Clock::new(0.1), Instant::now())), &slow, &mut |event| {
        if let Event::Dropped { what, .. } = event {
            dropped.push((*what).to_string());
        }
    })
    .unwrap();
    let run = store.run().unwrap();
    // The block begins with a ceiling. All other ceilings are measured too, but no subject.
    dropped.sort();
    assert_eq!(dropped, ["block 1: broken", "block 1: slow", "block 1: swift", "blocks 2 to 3"]);
    assert!(dropped.iter().all(|what| run.skipped[what] == "the budget was used up"), "{dropped:?}");
    assert_eq!(run.trials.len(), run.cells.len() - 3);
}

#[test]
fn what_was_left_out_is_measured_when_the_run_goes_on_but_a_cut_search_stays_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &plan()).unwrap();
    let cut = "block 1: the rest of the search of slow";
    store.add_skipped("block 2: swift", NO_TIME).unwrap();
    store.add_skipped(cut, "it took too long for the budget").unwrap();
    assert_eq!(conduct(&store, None, &|| Ok(()), &mut |_| ()).unwrap(), Conducted::Whole);
    let run = store.run().unwrap();
    assert_eq!(run.skipped.keys().collect::<Vec<_>>(), [cut]);
    let count = |name: &str, block| {
        let is_cell = |trial: &&RunTrial| run.cells[trial.cell as usize].name == name;
        run.trials.iter().filter(is_cell).filter(|trial| trial.block == block).count()
    };
    assert!(count("swift", 1) > 0 && count("slow", 1) > 0);
    assert_eq!(count("slow", 0), 0, "nothing is added to a search that was cut");
}

#[test]
fn cut_off_in_the_middle_of_every_repetition_it_ends_alike() {
    let bounds = |run: &Run| -> Vec<_> {
        let starts = judge(run).subjects.into_iter().flat_map(|subject| subject.starts);
        starts.map(|start| start.bounds).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let whole = whole_run(folder.path());
    let spoiled = |one: &&RunTrial| one.measured().is_some_and(|trial| trial.players.first.socket_drops > 0);
    assert!(whole.trials.iter().filter(spoiled).count() > 3);

    std::fs::create_dir(folder.path().join("other")).unwrap();
    let store = Store::create(&folder.path().join("other/run.sqlite"), &plan()).unwrap();
    loop {
        // Warm-ups of the two subjects that run side by side and one trial, and then an interrupt.
        let left = Cell::new(3);
        let limited = || match left.get() {
            0 => Err(NoTrial::Interrupted),
            more => {
                left.set(more - 1);
                Ok(())
            }
        };
        if conduct(&store, None, &limited, &mut |_| ()).unwrap() == Conducted::Whole {
            break;
        }
    }
    let run = store.run().unwrap();
    assert_eq!(essence(&run), essence(&whole));
    assert_eq!(bounds(&run), bounds(&whole));
}

/// Names the folder in which this test program conducts a run when it is started again.
const FOLDER: &str = "KQPS_CONDUCT_IN";

/// A test only if a folder is named: it then conducts the run in that folder until it is killed or done.
#[test]
fn conducted_in_a_child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(&Path::new(&folder).join("run.sqlite")).unwrap();
    conduct(&store, None, &|| Ok(()), &mut |_| ()).unwrap();
    store.finish(1).unwrap();
}

#[test]
fn killed_at_any_moment_it_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let whole = whole_run(folder.path());
    let expected = essence(&whole);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    drop(Store::create(&path, &plan()).unwrap());
    let mut random = fastrand::Rng::with_seed(11);
    let mut committed = 0;
    for kill in 0.. {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "conduct::tests::conducted_in_a_child"])
            .env(FOLDER, folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        if kill < 12 {
            std::thread::sleep(Duration::from_millis(random.u64(10..90)));
            child.kill().unwrap();
        }
        child.wait().unwrap();
        let run = Store::read(&path).unwrap();
        let so_far = essence(&run);
        assert_eq!(so_far, expected[..so_far.len()], "after kill {kill}");
        assert!(so_far.len() >= committed, "a committed trial is gone");
        committed = so_far.len();
        let numbers = run.trials.iter().map(|trial| trial.number);
        assert!(numbers.eq(1..=run.trials.len() as u64));
        if run.finished_unix_ms.is_some() {
            break;
        }
    }
    assert_eq!(committed, expected.len());
}

fn for_reasons(run: &Run) -> Vec<&RunTrial> {
    run.trials.iter().filter(|one| one.purpose.is_for_reasons()).collect()
}

#[test]
fn of_every_subject_that_loses_queries_one_trial_is_repeated_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = whole_run(folder.path());
    let verdict = judge(&run);
    let repeated = for_reasons(&run);
    let mut names: Vec<&str> =
        repeated.iter().map(|one| run.cells[one.cell as usize].name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["slow", "swift"], "the echoes lose nothing, and the broken one never ran");
    for one in repeated {
        let Purpose::Reasons { of } = one.purpose else { panic!() };
        let original = run.trials.iter().find(|other| other.number == of).unwrap();
        let load = |trial: &RunTrial| trial.measured().unwrap().load.intended_qps;
        assert_eq!((original.cell, original.block, load(original)), (one.cell, 0, load(one)));
        assert!(original.measured().unwrap().accounts.lost > 0 && of < one.number);
        let subject = verdict.subjects.iter().find(|subject| subject.cell == one.cell).unwrap();
        assert_eq!(load(one), subject.starts[0].bounds.as_ref().unwrap().upper_qps);
    }
}

#[test]
fn without_the_right_no_trial_is_repeated_and_the_run_says_why_until_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &plan()).unwrap();
    let conduct = |reasons| conduct_with(&store, None, reasons, &|_| Ok(()), &mut |_| ()).unwrap();
    conduct(Err("not root".into()));
    let run = store.run().unwrap();
    assert!(for_reasons(&run).is_empty());
    assert_eq!(run.skipped, [("drop reasons".to_string(), "not root".to_string())].into());
    conduct(Ok(()));
    let run = store.run().unwrap();
    assert_eq!((for_reasons(&run).len(), run.skipped.len()), (2, 0));
}

#[test]
fn a_subject_that_dies_in_the_repeated_trial_has_its_figures_still() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &plan()).unwrap();
    let dies = |purpose: Purpose| match purpose {
        Purpose::Reasons { .. } => Err(NoTrial::Failed { reason: "it died".into(), output: Vec::new() }),
        _ => Ok(()),
    };
    conduct_with(&store, None, Ok(()), &dies, &mut |_| ()).unwrap();
    conduct_with(&store, None, Ok(()), &dies, &mut |_| ()).unwrap();
    let run = store.run().unwrap();
    assert_eq!(for_reasons(&run).len(), 2, "once, whatever came of it");
    std::fs::create_dir(folder.path().join("other")).unwrap();
    let (whole, died) = (judge(&whole_run(&folder.path().join("other"))), judge(&run));
    for (whole, died) in whole.subjects.iter().zip(&died.subjects) {
        assert_eq!((whole.figure_qps, &whole.losses), (died.figure_qps, &died.losses));
        let failures = |cell: &CellVerdict| cell.starts.iter().filter(|one| one.failure.is_some()).count();
        assert_eq!(failures(whole), failures(died));
    }
}

#[test]
fn a_start_has_the_time_that_others_leave_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Run { blocks: 1, ..plan() };
    let store = Store::create(&folder.path().join("run.sqlite"), &plan).unwrap();
    let mut never = |_: usize, _: u64, _: Patience| -> Result<Play<'_>, NoTrial> { unreachable!() };
    let mut report = |_: &Event<'_>| ();
    let clock = Some((Clock::new(1000.0), Instant::now()));
    let mut conductor = Conductor { clock, ..conductor(&store, &mut never, &mut report) };
    let subjects: Vec<usize> =
        (0..plan.cells.len()).filter(|&cell| plan.cells[cell].role == Role::Subject).collect();
    let share_s = |conductor: &Conductor<'_>, rest: &[usize]| {
        conductor.patience(&plan, rest[0], 0, rest).for_start().unwrap().as_secs_f64()
    };
    // Three equal ones have a third each, less the moment that this takes.
    assert!((300.0..=334.0).contains(&share_s(&conductor, &subjects)));
    assert!((900.0..=1000.0).contains(&share_s(&conductor, &subjects[..1])));
    conductor.clock = None;
    assert_eq!(conductor.patience(&plan, subjects[0], 0, &subjects).for_start(), None);
}
