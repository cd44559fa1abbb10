//! Trials over hosts that die, stay away, or hear nothing. All hosts are this one, and their agents play no load
//! ([`agent`]).

mod agent;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use kqps_observation::run::Purpose;
use tempfile::TempDir;

use super::*;
use crate::subject::builtin;
use crate::trial_request::{RequestedPace, TrialRequest};

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

    fn session(&self, again: Again) -> Session {
        let host = |name: &str| agent::host(self.folder.path(), name);
        let hosts = Hosts { server: host("ns1"), players: vec![host("p1"), host("p2")] };
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

    /// What the agents of a host noted: the times, nanoseconds, and the events.
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
fn soon() -> Again {
    let (short, long) = (Duration::from_millis(50), Duration::from_millis(300));
    Again { lease_most: short, end: long, keep_on: long, pause: short }
}

/// Whether these are as many rates of one of two players.
fn are_halves(rates: &[f64], count: usize) -> bool {
    rates.len() == count && rates.iter().all(|rate| (rate - RATE_QPS / 2.0).abs() < 1e-9)
}

#[test]
fn a_player_that_dies_once_voids_one_trial_and_the_others_play_what_they_did() {
    let lab = Lab::new();
    let end = Duration::from_secs(1);
    let session = lab.session(Again { end, ..soon() });
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

    let devices: Vec<_> = trial.hosts.iter().map(|host| host.device.as_deref()).collect();
    assert_eq!(devices, [Some("eth0"); 3], "found by the agents, since the file names none");
    assert_eq!(session.reports().complete(&mut [lab.cell.clone()], &mut []).cells, [0], "it has its version");

    // The server's host is watched from 2 ms before the start on, on its own clock.
    let last = |host, word| lab.noted(host, word).pop().unwrap().1;
    let watched_ns: i64 = last("ns1", "watch").parse().unwrap();
    let began_ns: i64 = last("p1", "play").split(' ').nth(1).unwrap().parse().unwrap();
    let server_ns = session.members.borrow().server.offset().ns;
    assert_eq!((began_ns - trial.parts[0].start.offset_ns) - (watched_ns - server_ns), 2_000_000);
}

#[test]
fn a_player_that_always_dies_is_named_and_the_others_are_stopped_and_kept() {
    let lab = Lab::new();
    let session = lab.session(soon());
    let mut running = session.start(lab.start(1)).unwrap();
    lab.dies("p2", 99);
    let began = Instant::now();
    let Err(NoTrial::Failed { reason, .. }) = running.play(&LONG) else { panic!("it is no failure") };
    assert!(reason.starts_with("the player on p2 was lost: its connection ended"), "{reason}");
    assert!(reason.ends_with("; that made 3 trials in succession void"), "{reason}");
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
    let mut second = session.start(lab.start(2)).unwrap();
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
    let session = lab.session(Again { keep_on: Duration::from_mins(10), ..soon() });
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
    let Err(NoTrial::Failed { reason, .. }) = running.play(&REQUEST) else { panic!("it is measured") };
    let expected = format!("the player on p2 heard nothing: No reply came from {} at all", agent::ADDRESS);
    assert!(reason.starts_with(&expected), "{reason}");
    drop(running);
    std::fs::remove_file(lab.file("p2.deaf")).unwrap();
    let mut running = session.start(lab.start(2)).unwrap();
    assert_eq!(running.play(&REQUEST).unwrap().accounts.lost, 0);
    lab.is("p2.deaf");
    let accounts = running.play(&REQUEST).unwrap().accounts;
    assert!(accounts.lost > 0 && accounts.lost == accounts.correct, "{accounts:?}");
}
