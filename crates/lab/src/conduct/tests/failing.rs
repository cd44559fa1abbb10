//! Subjects that cannot be measured, and comparisons with one.

use std::cell::RefCell;

use kqps_observation::Trial;

use super::*;
use kqps_testbed::started::RunningSubject;

#[test]
fn what_failed_three_times_in_succession_is_not_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &Run { blocks: 5, ..plan() }).unwrap();
    conduct(&store, None, &|| Ok(()), &mut |_| ()).unwrap();
    let run = store.run().unwrap();
    assert_eq!(run.trials.iter().filter(|one| one.failure().is_some()).count(), 3);
    let why = "its last three starts failed".to_string();
    let left_out = ["block 4: broken", "block 5: broken"].map(|what| (what.to_string(), why.clone()));
    assert_eq!(run.skipped, left_out.into());
}

/// A run whose only subject is a server that ran before.
fn of_one(name: &str) -> Run {
    let mut cells = plan().cells;
    cells.retain(|cell| cell.role != Role::Subject || cell.name == name);
    Run { cells, ..plan() }
}

#[test]
fn a_run_whose_only_server_does_not_answer_ends_before_its_echoes() {
    for (name, failures) in [("broken", &["it is broken"][..]), ("slow", &[])] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("run.sqlite"), &of_one(name)).unwrap();
        assert_eq!(conduct(&store, None, &|| Ok(()), &mut |_| ()).unwrap(), Conducted::Whole);
        let run = store.run().unwrap();
        let failed: Vec<&str> = run.trials.iter().filter_map(RunTrial::failure).collect();
        assert_eq!(failed, failures);
        assert_eq!(run.trials.len() > 1, failures.is_empty(), "{name}");
    }
}

#[test]
fn a_player_that_sends_nothing_tries_again_for_longer() {
    // The player sends nothing in the first of these tries; in all later ones the server is silent.
    for (empty, ends) in [(4, true), (5, false)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("run.sqlite"), &of_one("slow")).unwrap();
        let mut run = store.run().unwrap();
        let seconds = RefCell::new(Vec::new());
        let of_server = run.cells.iter().position(|cell| cell.role == Role::Subject).unwrap();
        let mut start = |cell: usize, _: u64, _: Patience| -> Result<Play<'_>, NoTrial> {
            let seconds = &seconds;
            Ok(Box::new(move |request: &TrialRequest| {
                if cell != of_server {
                    return Ok(Simulated::default().play(request).unwrap_or_else(|never| match never {}));
                }
                seconds.borrow_mut().push(request.duration_s);
                let is_empty = seconds.borrow().len() <= empty;
                if is_empty { Ok(Trial::default()) } else { Err(NoTrial::failed("it is silent".into())) }
            }))
        };
        conductor(&store, &mut start, &mut |_| ()).conduct(&mut run).unwrap();
        assert_eq!(seconds.borrow()[..5], [0.3, 0.6, 1.2, 2.4, 4.8]);
        assert_eq!(run.trials.len() == 1, ends, "{empty} tries in which nothing was sent");
    }
}

/// A comparison of two of the subjects, in eight blocks.
pub(super) fn comparison(a: &str, b: &str) -> Run {
    let cell = |name: &str, part| {
        let load = CellLoad::Closed(0.1);
        let mut cell = observation::Cell { name: name.into(), load, ..observation::Cell::default() };
        cell.factors.set_compared_as(part);
        cell
    };
    let cells = vec![cell(a, ComparedAs::A), cell(a, ComparedAs::Again), cell(b, ComparedAs::B)];
    Run { goal: "quick".into(), blocks: 8, seed: 7, cells, ..Run::default() }
}

#[test]
fn a_comparison_with_a_side_that_does_not_start_ends_before_it_begins() {
    for (a, b, failed) in [("slow", "broken", 2), ("broken", "slow", 0)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("run.sqlite"), &comparison(a, b)).unwrap();
        assert_eq!(conduct(&store, None, &|| Ok(()), &mut |_| ()).unwrap(), Conducted::Whole);
        let run = store.run().unwrap();
        let made: Vec<_> = run.trials.iter().map(|one| (one.cell, one.block, one.failure())).collect();
        assert_eq!(made, [(failed, 0, Some("it is broken"))]);
        assert!(judge(&run).comparisons.is_empty());
    }
}

#[test]
fn a_comparison_ends_when_a_side_goes_on_failing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &comparison("slow", "swift")).unwrap();
    // The first trial of each side only tries it; all later ones fail.
    let left = Cell::new(2);
    let dies = || match left.get() {
        0 => Err(NoTrial::failed("it died".into())),
        more => {
            left.set(more - 1);
            Ok(())
        }
    };
    conduct(&store, None, &dies, &mut |_| ()).unwrap();
    let run = store.run().unwrap();
    for cell in 0..3 {
        assert_eq!(run.trials.iter().filter(|one| one.cell == cell).count(), 3);
    }
    let why = &run.skipped["blocks 4 to 8"];
    assert_eq!(why, "slow cannot be measured: its last three starts failed");
}

/// A server of which only one instance can run, such as one with a socket of a fixed name.
struct Only<'a> {
    running: &'a Cell<u32>,
    subject: Simulated,
}

impl RunningSubject for Only<'_> {
    fn play(&mut self, request: &TrialRequest) -> Result<Trial, NoTrial> {
        Ok(self.subject.play(request).unwrap_or_else(|never| match never {}))
    }
}

impl Drop for Only<'_> {
    fn drop(&mut self) {
        self.running.set(self.running.get() - 1);
    }
}

#[test]
fn what_does_not_start_beside_its_like_is_measured_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &comparison("slow", "swift")).unwrap();
    let mut run = store.run().unwrap();
    let names: Vec<String> = run.cells.iter().map(|cell| cell.name.clone()).collect();
    let running = Cell::new(0);
    let mut start = |cell: usize, _: u64, _: Patience| -> Result<Play<'_>, NoTrial> {
        if running.get() > 0 {
            return Err(NoTrial::failed("the socket is in use".into()));
        }
        running.set(1);
        let subject = subject(&run_cell(&names[cell]))?;
        Ok(Box::new(Only { running: &running, subject }))
    };
    let conducted = conductor(&store, &mut start, &mut |_| ()).conduct(&mut run).unwrap();
    assert_eq!(conducted, Conducted::Whole);
    for cell in 0..3 {
        let blocks: Vec<u32> =
            run.trials_of(cell).filter(|one| one.purpose == Purpose::Closed).map(|one| one.block).collect();
        assert_eq!(blocks, (0..8).collect::<Vec<_>>(), "cell {cell}");
    }
    assert!(run.trials.iter().all(|one| one.failure().is_none()));
    let alone = run.skipped.iter().filter(|(what, _)| what.starts_with("rounds with "));
    // Both cells of A have the same name here.
    assert_eq!(alone.clone().count(), 1, "{:?}", run.skipped);
    assert!(
        alone
            .map(|(_, why)| why)
            .all(|why| why == "it does not start beside the others: the socket is in use")
    );
    let doubts = judge(&run).comparisons.remove(0).case.doubts;
    assert!(doubts.iter().any(|doubt| doubt.contains("was not measured side by side")), "{doubts:?}");
}

fn run_cell(name: &str) -> observation::Cell {
    observation::Cell { name: name.into(), ..observation::Cell::default() }
}

#[test]
fn a_comparison_whose_starts_take_longer_than_its_budget_has_as_many_blocks_as_a_verdict_takes() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Run { blocks: 40, ..comparison("slow", "swift") };
    let store = Store::create(&folder.path().join("run.sqlite"), &plan).unwrap();
    // No time is left, however long a start takes.
    let clock = Some((Clock::new(0.0), Instant::now()));
    conduct(&store, clock, &|| Ok(()), &mut |_| ()).unwrap();
    let run = store.run().unwrap();
    assert_eq!(run.blocks, 6, "it is stored, so that a run which goes on has the same");
    assert!(run.skipped["34 of 40 blocks"].starts_with("a block takes "), "{:?}", run.skipped);
}

#[test]
fn a_comparison_that_fills_its_budget_has_more_blocks_than_planned() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &comparison("slow", "swift")).unwrap();
    let planned = store.run().unwrap().blocks;
    let (begun, added) = (Cell::new(0), Cell::new(0));
    let mut note = |event: &Event<'_>| match event {
        Event::Block { block } => begun.set(*block),
        Event::Added { blocks } => added.set(*blocks),
        _ => {}
    };
    let before_trial = || if begun.get() > planned { Err(NoTrial::Interrupted) } else { Ok(()) };
    // An hour is enough for more blocks, however slow this host is.
    let clock = Some((Clock::of_filled(3600.0), Instant::now()));
    assert_eq!(conduct(&store, clock, &before_trial, &mut note).unwrap(), Conducted::Interrupted);
    let run = store.run().unwrap();
    assert!(added.get() > planned && run.blocks == added.get(), "{planned} planned, {} added", added.get());
    assert!(run.trials.iter().any(|one| one.block == planned), "a block beyond the planned ones is measured");
}

/// A run of the default study over a subject that fails in trials of this kind, in as many blocks.
fn with_trials_that_fail(is_failing: impl Fn(Purpose) -> bool) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &Run { blocks: 5, ..plan() }).unwrap();
    let dies = |purpose: Purpose| {
        if is_failing(purpose) { Err(NoTrial::failed("it died".into())) } else { Ok(()) }
    };
    conduct_with(&store, None, Ok(()), &dies, &mut |_| ()).unwrap();
    store.run().unwrap()
}

/// The number of blocks in which a cell was started.
fn blocks_of(run: &Run, name: &str) -> usize {
    let is_its = |one: &&RunTrial| run.cells[one.cell as usize].name == name;
    let mut blocks: Vec<u32> = run.trials.iter().filter(is_its).map(|one| one.block).collect();
    blocks.dedup();
    blocks.len()
}

#[test]
fn what_survives_its_warm_up_and_dies_under_its_load_is_not_started_a_fourth_time() {
    let run = with_trials_that_fail(|purpose| matches!(purpose, Purpose::Search | Purpose::Ceiling));
    let warmed = run.trials.iter().filter(|one| one.purpose == Purpose::WarmUp);
    assert!(warmed.clone().count() > 0 && warmed.into_iter().all(|one| one.measured().is_some()));
    assert_eq!(blocks_of(&run, "slow"), 3);
    assert_eq!(run.skipped["block 4: slow"], "its last three starts failed");
}

#[test]
fn a_start_of_which_only_the_reasons_failed_has_not_failed() {
    let run = with_trials_that_fail(Purpose::is_for_reasons);
    assert!(run.trials.iter().any(|one| one.failure().is_some() && one.purpose.is_for_reasons()));
    assert_eq!((blocks_of(&run, "slow"), blocks_of(&run, "broken")), (5, 3));
    // Not even if it comes last in each of three starts.
    let failed = |number: u64| RunTrial {
        number,
        cell: 0,
        block: number as u32,
        start: number,
        purpose: Purpose::Reasons { of: 1 },
        outcome: Outcome::Failed { reason: "it died".into(), output: Vec::new() },
    };
    let run = Run { trials: (1..=3).map(failed).collect(), ..Run::default() };
    assert!(!tryout::is_hopeless(&run, 0, 9));
}
