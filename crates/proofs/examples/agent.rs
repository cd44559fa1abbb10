//! An agent that plays no load: it returns one record for every trial, at the time at which the trial would end. So
//! hundreds of players fit on one machine. All other jobs are worked as a real agent does.
//!
//! It is for `cargo xtask prove hosts --only scale`, and started like `kqps agent`. These environment variables are its
//! input: `KQPS_PROOF_PROGRAM` is the kqps whose identity it has, `KQPS_PROOF_HOST` its name, and `KQPS_PROOF_FOLDER` a
//! folder with the record in `record.json`. It appends a line for each start to `starts/NAME` there: when it was asked
//! to begin and when it did, nanoseconds on its own monotonic clock.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kqps_fleet::Worker;
use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Trial;
use kqps_proofs::identity::identity_of;
use kqps_remote::agent::{Agent, Done, Job};

fn main() -> Result<()> {
    let program = PathBuf::from(variable("KQPS_PROOF_PROGRAM")?);
    let folder = PathBuf::from(variable("KQPS_PROOF_FOLDER")?);
    let record = fs::read_to_string(folder.join("record.json")).context("cannot read the record")?;
    let starts = File::options()
        .create(true)
        .append(true)
        .open(folder.join("starts").join(variable("KQPS_PROOF_HOST")?))
        .context("cannot note starts")?;
    let agent = Agent::new(&program)?;
    let permission = agent.permission();
    let record = serde_json::from_str(&record).context("the record is none")?;
    let mut silent = Silent { agent, record, starts, facts: folder.join("facts.json") };
    let ours = identity_of(&program)?;
    kqps_fleet::serve(&mut silent, &ours, |hello| permission.grant(hello.role, &hello.targets))?;
    Ok(())
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set"))
}

/// An agent whose players are silent.
struct Silent {
    agent: Agent,
    record: Trial,
    starts: File,
    /// The facts of the host, which the first agent finds out for all: trying every capability hundreds of times at
    /// once would take minutes.
    facts: PathBuf,
}

impl Silent {
    fn play(&mut self, at_ns: Option<u64>) -> Result<Trial> {
        let asked_ns = at_ns.context("a player among several is given a time to begin")?;
        clock::sleep_until_ns(asked_ns);
        let began_ns = clock::now_ns();
        self.starts.write_all(format!("{asked_ns} {began_ns}\n").as_bytes())?;
        clock::sleep_until_ns(began_ns + (self.record.load.duration_s * 1e9) as u64);
        Ok(Trial {
            started_monotonic_ns: began_ns,
            late_start_ns: Some(began_ns.saturating_sub(asked_ns)),
            ..self.record.clone()
        })
    }
}

/// Reads the facts of the host; `None` if no agent has found them out. The caller holds the lock until it has written
/// them.
fn known(file: &Path) -> Result<(Option<Done>, File)> {
    let lock = File::create(file.with_extension("lock"))?;
    lock.lock()?;
    let done = fs::read_to_string(file).ok().map(|text| serde_json::from_str(&text)).transpose()?;
    Ok((done, lock))
}

impl Worker for Silent {
    type Job = Job;
    type Done = Done;

    fn work(&mut self, job: Job, interrupts: &Interrupts) -> Result<Done, (String, Vec<String>)> {
        let failed = |error: anyhow::Error| (format!("{error:#}"), Vec::new());
        match job {
            Job::Play { at_ns, .. } => {
                self.play(at_ns).map(|trial| Done::Played(Box::new(trial))).map_err(failed)
            }
            facts @ Job::Facts { .. } => {
                let (done, _lock) = known(&self.facts).map_err(failed)?;
                if let Some(done) = done {
                    return Ok(done);
                }
                let done = self.agent.work(facts, interrupts)?;
                let text = serde_json::to_string(&done).map_err(|error| failed(error.into()))?;
                fs::write(&self.facts, text).map_err(|error| failed(error.into()))?;
                Ok(done)
            }
            other => self.agent.work(other, interrupts),
        }
    }

    fn end(&mut self) {
        self.agent.end();
    }
}
