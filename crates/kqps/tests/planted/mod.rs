//! A lock that every query of an echo holds for a known time: a profile must name it, with its share.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kqps_host::Profile;
use kqps_kernel::probe::probe_one;
use kqps_observation::profile::{ProfileFacts, ProfileSource};
use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::{Accounts, Cell, Run, RunTrial, SubjectFacts, Trial};
use kqps_skips::{Capability, skip};
use kqps_verdict::judge::{CellProfile, judge};

/// More queries than one thread at a time can answer while each holds the lock for 2 ms.
const BURST: usize = 16;
const PAUSE: Duration = Duration::from_millis(1);

/// `example. A IN`.
const QUERY: &[u8] = b"\xab\xcd\x01\0\0\x01\0\0\0\0\0\0\x07example\0\0\x01\0\x01";

/// An echo that is killed when the test drops it.
struct Echo(Child);

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the time of so many threads of an echo goes under a high load, if each query holds a lock for `lock`.
fn profiled(lock: &str, threads: u32) -> Result<ProfileFacts> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["serve", "echo", "--listen", "127.0.0.1:0", "--io", "blocking", "--json"]);
    command.args(["--threads", &threads.to_string()]);
    command.args(["--lock", lock]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut echo = Echo(command.spawn()?);
    let mut ready = String::new();
    BufReader::new(echo.0.stdout.take().context("no stdout")?).read_line(&mut ready)?;
    let ready: serde_json::Value = serde_json::from_str(&ready)?;
    let address: SocketAddr = serde_json::from_value(ready["addresses"][0].clone())?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    let play = |duration: Duration| {
        let began = Instant::now();
        while began.elapsed() < duration {
            for _ in 0..BURST {
                // A full buffer of the echo loses queries, as it should.
                let _ = socket.send(QUERY);
            }
            std::thread::sleep(PAUSE);
        }
    };
    play(Duration::from_millis(200));
    let profile = Profile::begin(&[echo.0.id()], &[]);
    play(Duration::from_secs(2));
    profile.stop();
    Ok(profile.end())
}

/// A run whose only cell has this profile of so many threads.
fn run_of(facts: ProfileFacts, workers: u32) -> Run {
    let trial = Trial {
        accounts: Accounts { correct: 1000, ..Accounts::default() },
        subject: Some(SubjectFacts { profile: Some(facts), ..SubjectFacts::default() }),
        ..Trial::default()
    };
    let purpose = Purpose::Profile { sampled: true };
    let outcome = Outcome::Measured(Box::new(trial));
    Run {
        cells: vec![Cell { name: "echo".into(), workers, ..Cell::default() }],
        trials: vec![RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose, outcome }],
        ..Run::default()
    }
}

const BUSY: &str = "other programs had the cores of the echo";

/// How often a profile is taken until the host leaves the threads their cores, and the most time that they may wait for
/// one, as a share of their time.
const TRIES: u32 = 5;
const BUSY_MOST: f64 = 0.1;

/// The share of the threads' time in which they wait for a core.
fn waiting_for_core(profile: &CellProfile) -> f64 {
    let state = profile.states.iter().find(|state| state.state == "waiting for a core");
    state.map_or(0.0, |state| state.share)
}

/// The profile of an echo of so many threads in which each query holds a lock for `lock`, and its run; `None` if other
/// programs had the cores all the time.
fn judged(lock: &str, threads: u32) -> Result<Option<(Run, CellProfile)>> {
    for _ in 0..TRIES {
        let facts = profiled(lock, threads)?;
        assert_eq!((facts.by, facts.lost), (ProfileSource::Cores, 0), "{facts:?}");
        assert!(facts.samples > 0, "{facts:?}");
        let run = run_of(facts, threads);
        let profile = judge(&run).profiles.remove(0);
        assert_eq!(profile.failure, None, "a profile that failed names no lock either");
        if waiting_for_core(&profile) <= BUSY_MOST {
            return Ok(Some((run, profile)));
        }
    }
    Ok(None)
}

pub(crate) fn a_planted_lock_is_named_with_its_share_and_no_other_one_is() -> Result<()> {
    if let Err(why) = probe_one("lock-events") {
        skip(Capability::Profiles, why);
        return Ok(());
    }
    for threads in [2, 3] {
        let Some((run, profile)) = judged("2ms", threads)? else {
            skip(Capability::Chance, BUSY);
            return Ok(());
        };
        let named = profile.locks.first().context("no lock is named")?;
        assert!(named.lock.kind == "futex" && named.lock.place.ends_with("hold_planted_lock"), "{named:?}");
        // A single thread has the lock at any time, and all others wait for it.
        let truth = f64::from(threads - 1) / f64::from(threads);
        let share = named.share / (1.0 - waiting_for_core(&profile));
        assert!((share / truth - 1.0).abs() <= 0.1, "{share} instead of {truth}: {:?}", profile.states);
        assert!(kqps_report::page(&run, &judge(&run)).contains("hold_planted_lock"));
    }
    match judged("0s", 2)? {
        Some((_, profile)) => assert!(profile.locks.is_empty(), "{:?}", profile.locks),
        None => skip(Capability::Chance, BUSY),
    }
    Ok(())
}
