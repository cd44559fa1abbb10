//! Subjects whose hosts are lost, which says nothing about them.

use kqps_observation::Trial;

use super::*;
use kqps_testbed::started::RunningSubject;

/// A moment at which a host is asked for its part of a run.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    /// It is asked to start a subject.
    Start,
    /// It is asked for a trial.
    Trial(Purpose),
}

/// A subject on a host that may be lost.
struct OnHost<'a> {
    subject: Simulated,
    is_lost: &'a dyn Fn(Moment) -> bool,
}

fn lost() -> NoTrial {
    NoTrial::Lost { reason: "the subject's host ns1 was lost".into() }
}

impl RunningSubject for OnHost<'_> {
    fn play(&mut self, request: &TrialRequest) -> Result<Trial, NoTrial> {
        if (self.is_lost)(Moment::Trial(request.purpose)) {
            return Err(lost());
        }
        Ok(self.subject.play(request).unwrap_or_else(|never| match never {}))
    }
}

/// Conducts a run over a host that is lost whenever `is_lost` says so. Returns the run, and the numbers of all starts.
fn conducted(plan: &Run, is_lost: &dyn Fn(Moment) -> bool) -> (Run, Vec<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), plan).unwrap();
    let (mut run, cells) = (store.run().unwrap(), plan.cells.clone());
    let mut start = |cell: usize, _: u64, _: Patience| -> Result<Play<'_>, NoTrial> {
        if is_lost(Moment::Start) {
            return Err(lost());
        }
        Ok(Box::new(OnHost { subject: subject(&cells[cell])?, is_lost }))
    };
    let mut starts = Vec::new();
    let mut report = |event: &Event<'_>| {
        if let Event::Start { start, .. } = event {
            starts.push(*start);
        }
    };
    let conducted = conductor(&store, &mut start, &mut report).conduct(&mut run).unwrap();
    assert_eq!(conducted, Conducted::Whole);
    (store.run().unwrap(), starts)
}

fn failures(run: &Run) -> Vec<&str> {
    run.trials.iter().filter_map(|one| one.failure()).filter(|why| *why != "it is broken").collect()
}

/// Whether this is one of the first `most` times, counted from 1, that `counts` is true.
fn one_of(most: u32, left: &Cell<u32>, counts: bool) -> bool {
    if !counts || left.get() == most {
        return false;
    }
    left.set(left.get() + 1);
    true
}

#[test]
fn a_subject_whose_host_was_lost_goes_on_in_a_new_start() {
    let folder = tempfile::tempdir().unwrap();
    let whole = whole_run(folder.path());
    for wanted in [
        Moment::Start,
        Moment::Trial(Purpose::WarmUp),
        Moment::Trial(Purpose::Search),
        Moment::Trial(Purpose::Ceiling),
    ] {
        let times = Cell::new(0);
        let (run, starts) = conducted(&plan(), &|moment| one_of(1, &times, moment == wanted));
        assert_eq!(times.get(), 1, "the host was lost");
        assert!(failures(&run).is_empty(), "{:?}", failures(&run));
        assert_eq!(essence(&run), essence(&whole), "nothing is missing, and nothing is measured twice");
        let mut unique = starts.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), starts.len(), "each start has a number of its own: {starts:?}");
    }
}

#[test]
fn a_search_in_two_starts_is_stored_under_both() {
    let searched = Cell::new(0);
    let is_fifth = |moment: Moment| {
        let is_search = moment == Moment::Trial(Purpose::Search);
        searched.set(searched.get() + u32::from(is_search));
        is_search && searched.get() == 5
    };
    let (run, _) = conducted(&Run { blocks: 1, ..plan() }, &is_fifth);
    let of_search = run.trials.iter().filter(|one| one.purpose == Purpose::Search);
    let mut starts: Vec<(u32, u64)> = of_search.map(|one| (one.cell, one.start)).collect();
    starts.sort_unstable();
    starts.dedup();
    let cells: Vec<u32> = starts.iter().map(|(cell, _)| *cell).collect();
    assert!(cells.windows(2).any(|two| two[0] == two[1]), "one subject has two starts: {starts:?}");
}

#[test]
fn a_host_that_is_lost_at_every_start_is_a_reason_after_three() {
    let closed = |name: &str| observation::Cell {
        name: name.into(),
        load: CellLoad::Closed(0.1),
        ..observation::Cell::default()
    };
    let plan = Run { cells: vec![closed("slow")], blocks: 1, ..plan() };
    for wanted in [Moment::Start, Moment::Trial(Purpose::Closed)] {
        let times = Cell::new(0);
        let (run, starts) = conducted(&plan, &|moment| one_of(u32::MAX, &times, moment == wanted));
        assert_eq!((times.get(), starts.len()), (3, 3));
        let expected = "the subject's host ns1 was lost; that ended 3 starts in succession";
        assert_eq!(failures(&run), [expected]);
    }
}

#[test]
fn a_canary_whose_host_was_lost_is_played_in_its_next_start() {
    let load = CellLoad::Rates { rates_qps: vec![1000.0], duration_s: 0.5 };
    let canary = observation::Cell { role: Role::Canary, load, ..observation::Cell::default() };
    let mut plan = plan();
    plan.cells.push(canary);
    let times = Cell::new(0);
    let (run, _) = conducted(&plan, &|moment| one_of(2, &times, moment == Moment::Trial(Purpose::Canary)));
    assert_eq!((times.get(), failures(&run).len()), (2, 0));
    assert_eq!(essence(&run), essence(&with_canary(u32::MAX)));
}

#[test]
fn a_trial_between_two_losses_ends_their_succession() {
    let trials = Cell::new(0);
    // Every second trial.
    let is_lost = |moment: Moment| {
        let is_search = moment == Moment::Trial(Purpose::Search);
        trials.set(trials.get() + u32::from(is_search));
        is_search && trials.get().is_multiple_of(2)
    };
    let (run, _) = conducted(&Run { blocks: 1, ..plan() }, &is_lost);
    assert!(failures(&run).is_empty(), "{:?}", failures(&run));
}

/// Hosts that took so long to be reached again, and that then can be reached or not.
struct Away {
    time: Cell<Duration>,
    is_there: bool,
}

impl Hosts for Away {
    fn reach(&self) -> bool {
        self.is_there
    }

    fn take_away_time(&self) -> Duration {
        self.time.take()
    }
}

/// Conducts a run of one cell whose budget of a minute began 100 s ago, of which hosts were away for `time`. Returns
/// the run, how it ended, and the time that each start had.
fn conducted_after(time: Duration, is_there: bool) -> (Run, Conducted, Vec<Duration>) {
    let cell = observation::Cell {
        name: "slow".into(),
        role: Role::Subject,
        load: CellLoad::Closed(0.1),
        ..observation::Cell::default()
    };
    let plan = Run { cells: vec![cell], blocks: 1, ..plan() };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &plan).unwrap();
    let mut run = store.run().unwrap();
    let mut times = Vec::new();
    let mut start = |_: usize, _: u64, patience: Patience| -> Result<Play<'_>, NoTrial> {
        times.push(patience.for_start().unwrap());
        let subject = subject(&plan.cells[0])?;
        Ok(Box::new(move |request: &TrialRequest| {
            Ok(subject.play(request).unwrap_or_else(|never| match never {}))
        }))
    };
    let began = Instant::now().checked_sub(Duration::from_secs(100)).unwrap();
    let (clock, hosts) = (Some((Clock::new(60.0), began)), Away { time: Cell::new(time), is_there });
    let mut report = |_: &Event<'_>| ();
    let mut conductor = Conductor { clock, hosts: &hosts, ..conductor(&store, &mut start, &mut report) };
    let conducted = conductor.conduct(&mut run).unwrap();
    (run, conducted, times)
}

#[test]
fn the_time_of_an_outage_is_paid_by_no_cell() {
    let (run, conducted, times) = conducted_after(Duration::from_secs(95), true);
    assert_eq!((conducted, failures(&run).len(), times.len()), (Conducted::Whole, 0, 1));
    assert!(!run.trials.is_empty(), "{:?}", run.skipped);
    assert!(run.skipped.values().all(|why| why != NO_TIME), "{:?}", run.skipped);
    assert!(times[0] > Duration::from_secs(3), "{times:?}");
    let (run, _, times) = conducted_after(Duration::ZERO, true);
    assert!(times.is_empty() && run.skipped.values().any(|why| why == NO_TIME), "{:?}", run.skipped);
}

#[test]
fn the_time_of_an_outage_is_expected_in_no_later_block() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("run.sqlite"), &plan()).unwrap();
    let mut run = store.run().unwrap();
    let mut start = |cell: usize, _: u64, _: Patience| -> Result<Play<'_>, NoTrial> {
        let subject = subject(&plan().cells[cell])?;
        Ok(Box::new(move |request: &TrialRequest| {
            Ok(subject.play(request).unwrap_or_else(|never| match never {}))
        }))
    };
    let (begun, mut left) = (Cell::new(0), Vec::new());
    let away = Away { time: Cell::new(Duration::ZERO), is_there: true };
    let mut report = |event: &Event<'_>| match event {
        Event::Block { block } => {
            begun.set(block + 1);
            // The whole time of the first block, and more.
            away.time.set(Duration::from_secs(if *block == 0 { 3600 } else { 0 }));
        }
        Event::Left { .. } => left.push(begun.get()),
        _ => {}
    };
    Conductor { hosts: &away, ..conductor(&store, &mut start, &mut report) }.conduct(&mut run).unwrap();
    assert_eq!(left, [2]);
}

#[test]
fn a_host_that_stays_away_before_a_start_ends_the_run_and_nothing_is_started() {
    let (run, conducted, times) = conducted_after(Duration::from_secs(95), false);
    assert_eq!((conducted, run.trials.len(), times.len()), (Conducted::Interrupted, 0, 0));
}
