//! Trials over hosts that die, stay away, or hear nothing. All hosts are this one, and their agents play no load
//! ([`agent`]).

mod agent;

use std::path::PathBuf;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use kqps_observation::run::Purpose;
use tempfile::TempDir;

use super::*;
use kqps_testbed::subject::builtin;
use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

/// The rate of all players together.
const RATE_QPS: f64 = 2_000.0;

const REQUEST: TrialRequest = TrialRequest {
    pace: RequestedPace::Open { rate_qps: RATE_QPS },
    duration_s: 0.5,
    purpose: Purpose::Search,
};

/// A trial that lasts longer than any of these tests.
const LONG: TrialRequest = TrialRequest { duration_s: 300.0, ..REQUEST };

/// Everything that a start needs, and what the agents of one server and two players noted.
struct Lab {
    folder: TempDir,
    cell: Cell,
    definition: Definition,
    interrupts: Interrupts,
}

impl Lab {
    fn new() -> Self {
        let mut cell = Cell {
            name: "echo".into(),
            subject: "echo".into(),
            player_cpus: vec![1],
            subject_cpus: vec![0],
            ..Cell::default()
        };
        cell.factors.set("host.rps.lo", "0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self { folder, cell, definition: builtin::echo(), interrupts: Interrupts::default() }
    }

    fn session(&self, again: ReconnectTimes) -> Session {
        self.session_of(&["p1", "p2"], again)
    }

    fn session_of(&self, players: &[&str], again: ReconnectTimes) -> Session {
        let host = |name: &str| agent::host(self.folder.path(), name);
        let hosts = Hosts { server: host("ns1"), players: players.iter().map(|name| host(name)).collect() };
        Session::open_trying(&hosts, again).unwrap()
    }

    fn start(&self, number: u64) -> Start<'_> {
        Start {
            cell: &self.cell,
            definition: &self.definition,
            number,
            queries: QueriesKind::Plain,
            checks: false,
            certificate: None,
            patience: Patience::default(),
            interrupts: &self.interrupts,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The agent of a host dies in its next trials, this many.
    fn dies(&self, host: &str, times: u32) {
        std::fs::write(self.file(&format!("{host}.dies")), times.to_string()).unwrap();
    }

    /// A host has a property that its agent or the way to it looks for.
    fn is(&self, what: &str) {
        std::fs::write(self.file(what), "").unwrap();
    }

    /// Events that the agents of a host noted, each after its time, nanoseconds.
    fn events(&self, host: &str) -> Vec<(u64, String)> {
        let text = std::fs::read_to_string(self.file(&format!("{host}.log"))).unwrap_or_default();
        let event = |line: &str| {
            let (at_ns, event) = line.split_once(' ').unwrap();
            (at_ns.parse().unwrap(), event.to_owned())
        };
        text.lines().map(event).collect()
    }

    /// The times of the events that begin with this word, and the rest of each.
    fn noted(&self, host: &str, word: &str) -> Vec<(u64, String)> {
        let events = self.events(host).into_iter();
        let rest = |(at_ns, event): (u64, String)| Some((at_ns, event.strip_prefix(word)?.trim().to_owned()));
        events.filter_map(rest).collect()
    }

    /// The rates of the trials that a player began.
    fn rates(&self, host: &str) -> Vec<f64> {
        let rate = |(_, rest): (u64, String)| rest.split(' ').next().unwrap().parse().unwrap();
        self.noted(host, "play").into_iter().map(rate).collect()
    }
}

/// Hosts are tried as in earnest, in less time.
fn soon() -> ReconnectTimes {
    let (short, long) = (Duration::from_millis(50), Duration::from_millis(300));
    ReconnectTimes { lease_most: short, end: long, keep_on: long, pause: short }
}

/// A session, and the lines that it prints.
fn printing(mut session: Session) -> (Session, Rc<RefCell<Vec<String>>>) {
    let printed = Rc::<RefCell<Vec<String>>>::default();
    let lines = Rc::clone(&printed);
    session.print = Box::new(move |line| lines.borrow_mut().push(line.to_owned()));
    (session, printed)
}

/// Whether these are as many rates of one of two players.
fn are_halves(rates: &[f64], count: usize) -> bool {
    rates.len() == count && rates.iter().all(|rate| (rate - RATE_QPS / 2.0).abs() < 1e-9)
}

#[test]
fn a_player_that_dies_once_voids_one_trial_and_the_others_play_what_they_did() {
    let lab = Lab::new();
    let end = Duration::from_secs(1);
    let (session, printed) = printing(lab.session(ReconnectTimes { end, ..soon() }));
    let mut running = session.start(lab.start(1)).unwrap();
    lab.dies("p2", 1);
    let trial = running.play(&REQUEST).unwrap();
    assert_eq!(trial.accounts.check(), Ok(()));
    let each = (RATE_QPS / 2.0 * trial.load.duration_s).round() as u64;
    assert_eq!(trial.accounts.sent, 2 * each);
    let parts: Vec<&str> = trial.parts.iter().map(|part| part.host.as_str()).collect();
    assert_eq!(parts, ["p1", "p2"]);
    for player in ["p1", "p2"] {
        assert!(are_halves(&lab.rates(player), 2), "{player}: {:?}", lab.rates(player));
    }
    let agents = |host| lab.noted(host, "agent");
    assert_eq!((agents("ns1").len(), agents("p1").len(), agents("p2").len()), (1, 1, 2));
    // Whatever the old agent started has ended before the new one begins.
    let between_ns = agents("p2")[1].0 - lab.noted("p2", "dies")[0].0;
    assert!(Duration::from_nanos(between_ns) >= end, "{between_ns} ns");
    assert_eq!(lab.noted("p1", "stopped").len(), 1, "the other ended its void trial");
    let printed = printed.borrow();
    let [void, wait] = &printed[..] else { panic!("one trial was void: {printed:?}") };
    assert!(void.starts_with("a trial is void, since the player on p2 was lost: "), "{void}");
    assert!(void.ends_with("p2 left no account"), "{void}");
    assert!(wait.starts_with("waiting for hosts that were lost: p2 (its connection ended"), "{wait}");

    let devices: Vec<_> = trial.hosts.iter().map(|host| host.device.as_deref()).collect();
    assert_eq!(devices, [Some("eth0"); 3], "found by the agents, since the file names none");
    assert_eq!(session.reports().complete(&mut [lab.cell.clone()], &mut []).cells, [0], "it has its version");

    // The server's host must be read before the earliest start, on its own clock.
    let last = |host, word| lab.noted(host, word).pop().unwrap().1;
    let read_by_ns: i64 = last("ns1", "watch-again").parse().unwrap();
    let began_ns: i64 = last("p1", "play").split(' ').nth(1).unwrap().parse().unwrap();
    let server = session.members.borrow().server.offset();
    let widest_ns = trial.parts.iter().map(|part| part.start.uncertainty_ns).max().unwrap();
    let before_ns = (began_ns - trial.parts[0].start.offset_ns) - (read_by_ns - server.ns);
    assert_eq!(before_ns, (server.uncertainty_ns + widest_ns) as i64);
}

#[test]
fn a_player_that_always_dies_is_named_and_the_others_are_stopped_and_kept() {
    let lab = Lab::new();
    let (session, printed) = printing(lab.session(soon()));
    let mut running = session.start(lab.start(1)).unwrap();
    lab.dies("p2", 99);
    let began = Instant::now();
    let Err(NoTrial::Failed { reason, .. }) = running.play(&LONG) else { panic!("it is no failure") };
    assert!(reason.starts_with("the player on p2 was lost: its connection ended"), "{reason}");
    assert!(reason.ends_with("; that made 3 trials in succession void"), "{reason}");
    let printed = printed.borrow();
    assert_eq!(printed.iter().filter(|line| line.contains("is void")).count(), 3, "{printed:?}");
    assert_eq!(printed.iter().filter(|line| line.starts_with("waiting for")).count(), 2, "{printed:?}");
    assert!(began.elapsed() < Duration::from_secs(200), "no player played to its end");
    assert!(are_halves(&lab.rates("p1"), 3), "{:?}", lab.rates("p1"));
    assert_eq!((lab.noted("p1", "stopped").len(), lab.noted("p1", "agent").len()), (3, 1));
}

#[test]
fn the_loss_of_the_subjects_host_is_no_failure_and_the_next_start_owns_the_new_agent() {
    let lab = Lab::new();
    let session = lab.session(soon());
    let mut first = session.start(lab.start(1)).unwrap();
    lab.dies("ns1", 1);
    let Err(NoTrial::Lost { reason }) = first.play(&LONG) else { panic!("it is no loss") };
    assert!(reason.starts_with("the subject's host ns1 was lost: its connection ended"), "{reason}");
    let Err(NoTrial::Lost { reason }) = first.play(&REQUEST) else { panic!("it plays at nothing") };
    assert!(reason.contains("was lost: its connection ended"), "the cause is not forgotten: {reason}");
    assert!(session.take_away_time() < soon().end, "nothing was waited for yet");
    let mut second = session.start(lab.start(2)).unwrap();
    assert!(session.take_away_time() >= soon().end, "the old agent was waited for");
    // Another subject runs at the agent that is there now.
    let Err(NoTrial::Lost { reason }) = first.play(&REQUEST) else { panic!("it plays at another subject") };
    assert!(reason.ends_with("its agent was started again"), "{reason}");
    assert_eq!(first.cpu_s(), None);
    drop(first);
    assert!(second.play(&REQUEST).is_ok());
    drop(second);
    let events: Vec<String> = lab.events("ns1").into_iter().map(|(_, event)| event).collect();
    let changes: Vec<&str> =
        events.iter().map(String::as_str).filter(|event| !event.starts_with("watch")).collect();
    let expected = ["agent", "set", "start 1", "dies", "agent", "set", "start 2", "stop 2", "unset"];
    assert_eq!(changes, expected, "the old start stops nothing and puts nothing back");
}

#[test]
fn hosts_that_stay_away_end_the_run_and_fail_nothing() {
    for host in ["p2", "ns1"] {
        let lab = Lab::new();
        let session = lab.session(soon());
        let mut running = session.start(lab.start(1)).unwrap();
        lab.dies(host, 1);
        lab.is(&format!("{host}.away"));
        let mut ended = running.play(&LONG).err();
        if matches!(ended, Some(NoTrial::Lost { .. })) {
            drop(running);
            ended = session.start(lab.start(2)).err();
        }
        assert!(matches!(ended, Some(NoTrial::Interrupted)), "{ended:?}");
        let why = session.unreachable().unwrap();
        assert!(why.starts_with("a host was lost and could not be reached again for 0 s: "), "{why}");
        assert!(why.contains(host), "{why}");
    }
}

#[test]
fn the_user_ends_the_wait_for_a_host() {
    let lab = Lab::new();
    let session = lab.session(ReconnectTimes { keep_on: Duration::from_mins(10), ..soon() });
    let mut running = session.start(lab.start(1)).unwrap();
    lab.dies("p2", 1);
    lab.is("p2.away");
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            while lab.noted("p2", "dies").is_empty() {
                thread::sleep(Duration::from_millis(10));
            }
            lab.interrupts.ask();
        });
        running.play(&LONG)
    });
    assert!(matches!(ended, Err(NoTrial::Interrupted)), "{ended:?}");
    assert_eq!(session.unreachable(), None, "it was the user");
}

#[test]
fn a_player_that_never_heard_anything_is_named_and_later_losses_count() {
    let lab = Lab::new();
    let session = lab.session(soon());
    lab.is("p2.deaf");
    let mut running = session.start(lab.start(1)).unwrap();
    assert!(matches!(running.play(&REQUEST), Err(NoTrial::Interrupted)), "every cell would fail");
    let expected = format!("the player on p2 heard nothing: No reply came from {} at all", agent::ADDRESS);
    let reason = session.unreachable().unwrap();
    assert!(reason.starts_with(&expected) && reason.contains("firewalls"), "{reason}");
    drop(running);
    std::fs::remove_file(lab.file("p2.deaf")).unwrap();
    let mut running = session.start(lab.start(2)).unwrap();
    assert_eq!(running.play(&REQUEST).unwrap().accounts.lost, 0);
    lab.is("p2.deaf");
    let accounts = running.play(&REQUEST).unwrap().accounts;
    assert!(accounts.lost > 0 && accounts.lost == accounts.correct, "{accounts:?}");
    drop(running);
    let mut running = session.start(lab.start(3)).unwrap();
    let Err(NoTrial::Failed { reason, .. }) = running.play(&REQUEST) else { panic!("it is measured") };
    assert!(reason.starts_with(&expected) && reason.ends_with("3 trials in succession void"), "{reason}");
}

#[test]
fn packets_are_stamped_for_residence_alone_and_a_part_of_them_at_high_rates() {
    let lab = Lab::new();
    let session = lab.session(soon());
    let mut running = session.start(lab.start(1)).unwrap();
    running.play(&REQUEST).unwrap();
    let pace = RequestedPace::Open { rate_qps: 120_000.0 };
    running.play(&TrialRequest { pace, purpose: Purpose::Residence, ..REQUEST }).unwrap();
    let events = lab.events("ns1").into_iter().map(|(_, event)| event);
    let begun: Vec<String> =
        events.filter(|event| event.starts_with("watch") && !event.starts_with("watch-again")).collect();
    assert_eq!(begun, ["watch", "watch one in 4"]);
}

#[test]
fn a_slow_first_reading_delays_the_start_and_voids_no_trial() {
    let lab = Lab::new();
    let (session, printed) = printing(lab.session(soon()));
    let mut running = session.start(lab.start(1)).unwrap();
    lab.is("ns1.slow");
    running.play(&REQUEST).unwrap();
    assert!(are_halves(&lab.rates("p1"), 1) && printed.borrow().is_empty(), "{:?}", printed.borrow());
    let read_ns = lab.noted("ns1", "watch")[0].0;
    assert!(lab.noted("p1", "play")[0].0 > read_ns, "a player was asked before the reading was over");
}

#[test]
fn a_reading_that_was_late_by_its_clock_voids_the_trial() {
    let lab = Lab::new();
    let (session, printed) = printing(lab.session(soon()));
    let late = |lines: &str| std::fs::write(lab.file("ns1.late"), lines).unwrap();
    let mut running = session.start(lab.start(1)).unwrap();
    late("3000000\n0\n");
    let trial = running.play(&REQUEST).unwrap();
    assert_eq!(lab.rates("p1").len(), 2, "packets may be missing from the first, and from no other");
    let each = trial.accounts.sent / 2;
    assert_eq!(
        *printed.borrow(),
        [format!(
            "a trial is void, since the subject's host ns1 was read 3.0 ms late by its clock; queries in it: p1 sent \
             {each}, p2 sent {each}"
        )]
    );
    late("9000000\n8000000\n1\n");
    let Err(NoTrial::Failed { reason, .. }) = running.play(&REQUEST) else { panic!("it is measured") };
    let expected =
        "the subject's host ns1 was read 0.0 ms late by its clock; that made 3 trials in succession void";
    assert_eq!(reason, expected);
}

#[test]
fn a_player_that_is_late_voids_its_trial_and_the_next_ones_get_more_time() {
    let lab = Lab::new();
    let session = lab.session(soon());
    let late = |lines: &str| std::fs::write(lab.file("p2.late"), lines).unwrap();
    let mut running = session.start(lab.start(1)).unwrap();
    late("60000000\n0\n");
    assert!(running.play(&REQUEST).is_ok());
    assert_eq!(lab.rates("p1").len(), 2);
    assert_eq!(session.lateness.borrow().late_ns("echo"), 30_000_000, "halved by a trial in time");
    late("90000000\n80000000\n70000000\n");
    let Err(NoTrial::Failed { reason, .. }) = running.play(&REQUEST) else { panic!("it is measured") };
    assert!(reason.starts_with("the player on p2 began 70.0 ms late in a trial of "), "{reason}");
    drop(running);
    // The next start of the cell knows it.
    let _running = session.start(lab.start(2)).unwrap();
    assert_eq!(session.lateness.borrow().late_ns("echo"), 90_000_000);
}

#[test]
fn the_host_of_the_subjects_is_reached_before_a_start_and_the_time_is_counted() {
    let lab = Lab::new();
    let session = lab.session(soon());
    let mut running = session.start(lab.start(1)).unwrap();
    lab.dies("ns1", 1);
    assert!(matches!(running.play(&LONG), Err(NoTrial::Lost { .. })));
    drop(running);
    session.take_away_time();
    assert!(session.reach(&lab.interrupts));
    assert!(session.take_away_time() >= soon().end);
    assert_eq!(lab.noted("ns1", "agent").len(), 2);
    assert!(session.reach(&lab.interrupts) && session.take_away_time() < soon().end, "it is there");
    lab.interrupts.ask();
    assert!(session.reach(&lab.interrupts), "and needs no wait that could be interrupted");
}

#[test]
fn settings_that_stay_fail_the_next_start_once_and_are_in_the_record() {
    let lab = Lab::new();
    let session = lab.session(soon());
    lab.is("ns1.stuck");
    drop(session.start(lab.start(1)).unwrap());
    let Err(NoTrial::Failed { reason, .. }) = session.start(lab.start(2)) else { panic!("it starts") };
    assert!(reason.ends_with("could not be undone: ns1: rps.lo stays 1"), "{reason}");
    std::fs::remove_file(lab.file("ns1.stuck")).unwrap();
    drop(session.start(lab.start(3)).unwrap());
    assert!(session.start(lab.start(4)).is_ok());
    let notes = session.notes(&[]);
    assert_eq!(notes["the host's settings from before the run"], "ns1: rps.lo stays 1");
    assert_eq!(notes["certainty that the host's settings held"], "ns1: irqbalance runs");
}

#[test]
fn a_host_that_booted_again_is_noted_and_another_one_ends_the_run() {
    for kernel in ["", "6.12"] {
        let lab = Lab::new();
        let session = lab.session(soon());
        let mut running = session.start(lab.start(1)).unwrap();
        lab.dies("p2", 1);
        session.members.borrow_mut().players[1].pretend_boot();
        std::fs::write(lab.file("p2.kernel"), kernel).unwrap();
        let played = running.play(&REQUEST);
        let noted: Vec<String> = session.notes(&[]).into_keys().filter(|what| what.contains("p2")).collect();
        if kernel.is_empty() {
            assert!(played.is_ok(), "{played:?}");
            assert_eq!(noted, ["certainty that p2 is set as when the run began"]);
        } else {
            assert!(matches!(played, Err(NoTrial::Interrupted)), "{played:?}");
            let why = session.unreachable().unwrap();
            assert!(why.starts_with("p2 has another kernel than when the run began"), "{why}");
            assert!(noted.is_empty(), "{noted:?}");
        }
    }
}

#[test]
fn several_survivors_are_stopped_at_once() {
    let lab = Lab::new();
    let session = lab.session_of(&["p1", "p2", "p3"], soon());
    let mut running = session.start(lab.start(1)).unwrap();
    for survivor in ["p1", "p3"] {
        lab.is(&format!("{survivor}.slow"));
    }
    lab.dies("p2", 99);
    assert!(running.play(&LONG).is_err());
    let first = |host| lab.noted(host, "stopped")[0].0;
    let apart_ns = first("p1").abs_diff(first("p3"));
    assert!(apart_ns < agent::STOPS_IN.as_nanos() as u64, "one waited for the other: {apart_ns} ns");
}
