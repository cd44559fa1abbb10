use super::*;

const SLEEPS: Kind = Kind::Switch { next: 0, is_ready: false, lock: None };
const LOCKED: Kind = Kind::Switch { next: 0, is_ready: false, lock: Some(0x7f00) };
const ASLEEP: Spent = Spent::Asleep { lock: None };
const WAITS: Spent = Spent::Asleep { lock: Some(0x7f00) };

fn members() -> Members {
    Members::known(&[(7, 5, "worker")])
}

fn collector() -> Collector {
    Collector::new(10, Arc::new(Kernel::default()))
}

fn process_of(tid: u32) -> u32 {
    if tid == 7 { 5 } else { tid }
}

/// The sums after these records, of which the first are not the oldest.
fn gathered(records: &[(u64, u32, Kind, StackId)]) -> Gathered {
    let (mut collector, mut members) = (collector(), members());
    for &(time_ns, tid, kind, stack) in records.iter().rev() {
        collector.take_written((time_ns, [process_of(tid), tid], kind, stack), &mut members);
    }
    collector.settle(500);
    collector.finish(1000);
    collector.gathered(members, BTreeMap::new(), 1000)
}

fn ns(gathered: &Gathered, tid: u32, spent: Spent, stack: StackId) -> u64 {
    gathered.sums.get(&(tid, spent, stack)).map_or(0, |total| total.ns)
}

#[test]
fn time_off_a_core_is_split_at_the_moment_when_the_thread_is_ready() {
    let on = Kind::Switch { next: 7, is_ready: true, lock: None };
    let gathered = gathered(&[
        (100, 7, SLEEPS, 3),
        (250, 9, Kind::Wakeup { tid: 7 }, 0),
        (300, 9, on, 4),
        (400, 7, LOCKED, 5),
        (600, 9, on, 4),
        (700, 7, Kind::Switch { next: 9, is_ready: true, lock: None }, 6),
        (720, 9, on, 4),
        (900, 7, SLEEPS, 3),
    ]);
    assert_eq!(ns(&gathered, 7, ASLEEP, 3), 150 + 100);
    assert_eq!(ns(&gathered, 7, Spent::Ready, 3), 50);
    assert_eq!(ns(&gathered, 7, WAITS, 5), 200);
    assert_eq!(ns(&gathered, 7, Spent::Ready, 6), 20);
    assert!(gathered.sums.keys().all(|(tid, ..)| *tid == 7), "other threads are not the subject's");
    assert_eq!(gathered.events, [8, 0]);
}

/// Some kernels lose the events of an idle core: neither a wake-up nor a switch shows that a thread has it.
#[test]
fn a_thread_that_does_something_has_a_core() {
    let gathered = gathered(&[
        (100, 7, LOCKED, 5),
        (250, 7, LOCKED, 5),
        (400, 7, Kind::OnCore, 1),
        (500, 7, SLEEPS, 3),
        (560, 9, Kind::Wakeup { tid: 7 }, 0),
        (600, 7, Kind::LockBegins { lock: 1, flags: 1 }, 2),
        (700, 7, Kind::LockEnds { lock: 1 }, 0),
    ]);
    let of = |spent, stack| gathered.sums[&(7, spent, stack)];
    assert_eq!(of(WAITS, 5), Total { count: 2, ns: 0, open_ns: 150 + 150 });
    assert_eq!(of(ASLEEP, 3), Total { count: 1, ns: 60, open_ns: 0 });
    assert_eq!(of(Spent::Ready, 3), Total { count: 1, ns: 0, open_ns: 40 });
    assert_eq!(ns(&gathered, 7, Spent::OnCore, 1), 10);
}

#[test]
fn samples_count_for_their_thread_and_interrupts_for_none() {
    let gathered = gathered(&[
        (1, 7, Kind::OnCore, 1),
        (2, 7, Kind::OnCore, 1),
        (3, 0, Kind::OnCore, 2),
        (4, 8, Kind::OnCore, 1),
        (1001, 7, Kind::OnCore, 1),
    ]);
    assert_eq!((ns(&gathered, 7, Spent::OnCore, 1), ns(&gathered, 0, Spent::OnCore, 2)), (20, 10));
    assert_eq!((gathered.samples, gathered.sums.len()), (2, 2));
}

/// A thread that began since threads were looked up last, and may have ended before they are the next time.
#[test]
fn a_thread_is_known_by_its_process() {
    let (mut collector, mut members) = (collector(), members());
    collector.take_written((1, [5, 70], Kind::OnCore, 1), &mut members);
    collector.take_written((2, [6, 71], Kind::OnCore, 1), &mut members);
    collector.finish(1000);
    let gathered = collector.gathered(members, BTreeMap::new(), 1000);
    assert_eq!((ns(&gathered, 70, Spent::OnCore, 1), gathered.sums.len()), (10, 1));
    assert_eq!(gathered.threads[&70].0, 5, "and is no interrupt");
}

#[test]
fn a_wait_that_begins_twice_is_one_and_others_may_lie_in_it() {
    let begins = |lock, flags| Kind::LockBegins { lock, flags };
    let gathered = gathered(&[
        (100, 7, begins(1, 33), 3),
        (150, 7, begins(1, 32), 4),
        (160, 7, begins(2, 1), 5),
        (170, 7, Kind::LockEnds { lock: 2 }, 0),
        (200, 7, Kind::LockEnds { lock: 1 }, 0),
        (210, 7, Kind::LockEnds { lock: 9 }, 0),
        (990, 7, begins(1, 33), 3),
        (300, 8, begins(1, 1), 3),
    ]);
    let wanted = [
        ((33, 3), Total { count: 2, ns: 110, open_ns: 0 }),
        ((1, 5), Total { count: 1, ns: 10, open_ns: 0 }),
    ];
    assert_eq!(gathered.locks, wanted.into());
}

/// The records between 150 and 700 are missing, in which the waits ended.
#[test]
fn what_goes_on_when_events_are_lost_has_no_duration() {
    let (mut collector, mut members) = (collector(), members());
    let begins = |lock| Kind::LockBegins { lock, flags: 1 };
    for record in [(100, begins(1), 3), (110, LOCKED, 4)] {
        collector.take_written((record.0, [5, 7], record.1, record.2), &mut members);
    }
    collector.lose_events(50, 900);
    for record in
        [(700, begins(2), 5), (710, Kind::LockEnds { lock: 2 }, 0), (720, Kind::LockEnds { lock: 1 }, 0)]
    {
        collector.take_written((record.0, [5, 7], record.1, record.2), &mut members);
    }
    collector.lose_samples(2);
    collector.finish(1000);
    let gathered = collector.gathered(members, BTreeMap::new(), 1000);
    assert_eq!(
        gathered.locks,
        [((1, 5), Total { count: 1, ns: 10, open_ns: 0 })].into(),
        "the wait for lock 1 is not known"
    );
    assert!(gathered.sums.is_empty(), "{:?}", gathered.sums);
    assert_eq!((gathered.lost, gathered.events), (52, [5, 50]));
}

#[test]
fn what_goes_on_at_the_end_is_not_known_if_the_last_events_were_lost() {
    let (mut collector, mut members) = (collector(), members());
    collector.take_written((100, [5, 7], LOCKED, 4), &mut members);
    collector.lose_events(1, 1001);
    collector.finish(1000);
    assert!(collector.gathered(members, BTreeMap::new(), 1000).sums.is_empty());
}

#[test]
fn without_room_for_a_sum_the_state_stays() {
    let (mut collector, mut members) = (collector(), members());
    for stack in 0..SUMS_MOST as u32 {
        collector.add(7, Spent::Ready, stack, 1);
    }
    collector.take_written((1, [5, 7], Kind::OnCore, 1), &mut members);
    collector.finish(10);
    let gathered = collector.gathered(members, BTreeMap::new(), 1000);
    let on_core = gathered.sums.iter().find(|((_, spent, _), _)| *spent == Spent::OnCore).unwrap();
    assert_eq!(
        super::super::stacks::state_without_room(on_core.0.2),
        Some(State::System),
        "of no known chain"
    );
    assert_eq!(gathered.roomless, 1);
}
