//! `kill -9` at random moments: every trial whose commit returned is there, whole and once.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::{Cell, Run, RunTrial, Store};
use tempfile::TempDir;

const PATH: &str = "KQPS_TEST_STORE";
const ACKNOWLEDGED: &str = "acknowledged ";
const KILLS: u32 = 25;

/// All its content follows from its number, and its size varies.
fn a_trial(number: u64) -> RunTrial {
    let output = (0..number * 7919 % 300).map(|line| format!("{number} {line:060}")).collect();
    let outcome = Outcome::Failed { reason: format!("{number}"), output };
    RunTrial { number, cell: 0, block: 0, start: number, purpose: Purpose::Search, outcome }
}

/// The test below runs this test again as a child. It resumes the run and commits until it is killed.
#[test]
fn committer() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let path = Path::new(&path);
    let store = if path.exists() {
        Store::open(path)
    } else {
        Store::create(path, &Run { cells: vec![Cell::default()], ..Run::default() })
    };
    let store = store.unwrap();
    loop {
        let number = store.next_number().unwrap();
        store.commit(&a_trial(number)).unwrap();
        println!("{ACKNOWLEDGED}{number}");
    }
}

/// Waits until a committer has acknowledged some trials, kills it a random moment later, and returns the last
/// number that it acknowledged.
fn commit_and_kill(path: &Path, random: &mut fastrand::Rng) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store_kill::committer", "--nocapture"])
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = 0;
    let mut acknowledge = |line: &str| {
        // The test harness may have printed its own words at the beginning of the line.
        let number = line.rsplit_once(ACKNOWLEDGED).map(|(_, number)| number.parse().unwrap());
        last = number.unwrap_or(last);
        number.is_some()
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let enough = random.usize(1..12);
    assert_eq!(lines.by_ref().filter(|line| acknowledge(line)).take(enough).count(), enough);
    let moment = Instant::now() + Duration::from_micros(random.u64(0..8000));
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The lines that the committer wrote before it died count too. The last line may be cut.
    for line in lines {
        if line.rsplit_once(ACKNOWLEDGED).is_some_and(|(_, number)| !number.is_empty()) {
            acknowledge(&line);
        }
    }
    last
}

#[test]
fn an_acknowledged_trial_survives_kill_9() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.sqlite");
    let mut random = fastrand::Rng::with_seed(2015);
    for _ in 0..KILLS {
        let acknowledged = commit_and_kill(&path, &mut random);
        let as_left = Store::read(&path).unwrap();
        let trials = Store::open(&path).unwrap().run().unwrap().trials;
        assert_eq!(as_left.trials, trials);
        let stored = trials.len() as u64;
        // The next trial may have been stored but not acknowledged.
        assert!(
            (acknowledged..=acknowledged + 1).contains(&stored),
            "{acknowledged} acknowledged, {stored} stored"
        );
        for (number, trial) in (1..).zip(&trials) {
            assert_eq!(*trial, a_trial(number));
        }
    }
}
