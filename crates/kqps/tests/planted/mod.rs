//! A lock that every query of an echo holds for a known time: a profile must name it, with its share.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kqps_host::Profile;
use kqps_observation::profile::{ProfileFacts, ProfileSource};
use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::{Accounts, Cell, Run, RunTrial, SubjectFacts, Trial};
use kqps_skips::{Capability, skip};
use kqps_verdict::judge::judge;

/// The echo's threads.
const THREADS: f64 = 2.0;

/// More queries than one thread at a time can answer while each holds the lock for 200 µs.
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

/// Where the time of an echo's threads goes under a high load, if each query holds a lock for `lock`.
fn profiled(lock: &str) -> Result<ProfileFacts> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args([
        "serve",
        "echo",
        "--listen",
        "127.0.0.1:0",
        "--io",
        "blocking",
        "--threads",
        "2",
        "--json",
    ]);
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

/// Why this host cannot profile as the proof needs it; `None` if it can.
fn why_not(facts: &ProfileFacts) -> Option<String> {
    let lacks = facts.by != ProfileSource::Cores || !facts.unreadable.is_empty();
    let reasons = facts.unreadable.iter().map(|(what, why)| format!("{what}: {why}"));
    lacks.then(|| reasons.collect::<Vec<String>>().join("; "))
}

/// A run whose only cell has this profile.
fn run_of(facts: ProfileFacts) -> Run {
    let trial = Trial {
        accounts: Accounts { correct: 1000, ..Accounts::default() },
        subject: Some(SubjectFacts { profile: Some(facts), ..SubjectFacts::default() }),
        ..Trial::default()
    };
    let purpose = Purpose::Profile { sampled: true };
    let outcome = Outcome::Measured(Box::new(trial));
    Run {
        cells: vec![Cell { name: "echo".into(), workers: 2, ..Cell::default() }],
        trials: vec![RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose, outcome }],
        ..Run::default()
    }
}

pub(crate) fn a_planted_lock_is_named_with_its_share_and_no_other_one_is() -> Result<()> {
    let facts = profiled("200us")?;
    if let Some(why) = why_not(&facts) {
        skip(Capability::Profiles, why);
        return Ok(());
    }
    assert_eq!(facts.lost, 0, "{facts:?}");
    // One thread has the lock at any time, and all others wait for it.
    let lock = facts.locks.first().context("no lock was found")?;
    let share = lock.seconds / (facts.seconds * THREADS);
    let truth = (THREADS - 1.0) / THREADS;
    assert!((share / truth - 1.0).abs() <= 0.1, "{share} instead of {truth}: {:?}", facts.locks);
    let run = run_of(facts);
    let verdict = judge(&run);
    let named = &verdict.profiles[0].locks[0];
    assert!(named.lock.kind == "futex" && named.lock.place.ends_with("hold_planted_lock"), "{named:?}");
    assert!(kqps_report::page(&run, &verdict).contains("hold_planted_lock"));

    let verdict = judge(&run_of(profiled("0s")?));
    assert!(verdict.profiles[0].locks.is_empty(), "{:?}", verdict.profiles[0].locks);
    Ok(())
}
