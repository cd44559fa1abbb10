//! Faults at random moments of a run over three hosts. After each, what ran on a host that was cut off is gone within
//! seconds, with its files and settings; no committed trial is lost; and the run goes on, by itself or resumed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::process::Signal;
use kqps_observation::Run;

use super::super::{Bench, Size, kept};
use super::fault::{self, Fault};
use super::host::{LabHost, Process};
use super::lab::Lab;
use super::left::{self, Settings};
use super::{counted, study};
use crate::child::Running;

/// The room of a host.
const DISK: &str = "16m";

/// The longest time from a new trial to the fault, seconds. It is longer than the time to the next start, so that
/// faults fall on every phase.
const FAULT_WITHIN_S: f64 = 3.0;

/// How long a run may take to commit another trial after a fault: a host may be reached again twice, 20 s each.
const GO_ON_WITHIN: Duration = Duration::from_mins(3);

/// How long a run may take to end when it is asked to, and to refuse hosts.
const END_WITHIN: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// Tiny trials with a setting of the server's host that must come back each time.
const STUDY: &str = r#"
name = "faults"
title = "Faults"
question = "Is a run over several hosts whole, whatever happens to it?"
repetitions = 2000
load = { rates_qps = [1000], seconds = 0.3 }
fixed = { "player.timeout_s" = 0.1, "host.sysctl.net.ipv4.udp_rmem_min" = "8192" }

[[experiment]]
name = "players"
title = "Players"
subjects = ["./counted.toml"]
[experiment.factors]
"hosts.players" = [1, 2]
"#;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let mut course = Course::new(bench, &lab)?;
    let kinds: &[Fault] = match bench.size {
        Size::Small => &Fault::SMALL,
        Size::Whole => &Fault::ALL,
    };
    let count = bench.choose(kinds.len(), 200);
    let mut order = Vec::new();
    while order.len() < count {
        let mut round = kinds.to_vec();
        course.random.shuffle(&mut round);
        order.extend(round);
    }
    for (number, fault) in (1..).zip(&order[..count]) {
        let began = Instant::now();
        course.suffer(*fault).with_context(|| format!("fault {number}: {}", fault.name()))?;
        *course.counts.entry(fault.name()).or_default() += 1;
        eprintln!("fault {number}: {}: {:.1} s", fault.name(), began.elapsed().as_secs_f64());
    }
    course.finish()
}

/// The course of a run among faults.
struct Course<'a> {
    bench: &'a Bench,
    lab: &'a Lab,
    study: PathBuf,
    hosts: PathBuf,
    /// The program on the hosts, which a fault replaces.
    there: PathBuf,
    /// The number of the run: one that is finished is followed by another one.
    round: u32,
    running: Option<Running>,
    before: Option<Run>,
    settings: Settings,
    random: fastrand::Rng,
    counts: BTreeMap<&'static str, u32>,
    /// Trials of finished runs.
    finished: usize,
    /// The longest time until all was gone.
    gone: Duration,
}

impl<'a> Course<'a> {
    fn new(bench: &'a Bench, lab: &'a Lab) -> Result<Self> {
        let there = lab.home.join("kqps-there");
        fault::install(&bench.kqps.program, &there, b"")?;
        let study = lab.home.join("faults.toml");
        fs::write(&study, STUDY)?;
        fs::write(lab.home.join("counted.toml"), counted::subject(&counted::file(lab)))?;
        let kqps = there.display().to_string();
        let hosts = study::write_hosts(bench, lab, "hosts.toml", &kqps, |host| lab.ssh(&host.name))?;
        Ok(Self {
            bench,
            lab,
            study,
            hosts,
            there,
            round: 1,
            running: None,
            before: None,
            settings: left::settings(lab)?,
            random: fastrand::Rng::with_seed(bench.seed),
            counts: BTreeMap::new(),
            finished: 0,
            gone: Duration::ZERO,
        })
    }

    fn out(&self) -> PathBuf {
        self.lab.home.join(format!("run-{}", self.round))
    }

    fn command(&self) -> Result<Command> {
        let mut command = self.lab.command(&self.bench.kqps.program)?;
        let out = self.out();
        // A run that was killed before it made its store begins anew.
        if out.join(kept::STORE).exists() {
            command.args(["run", "--resume", "--out"]).arg(out);
        } else {
            command.args(study::words(&self.study, &self.hosts, &out));
        }
        Ok(command)
    }

    /// Makes the run go on until it has committed another trial.
    fn commit_one(&mut self) -> Result<()> {
        let end = Instant::now() + GO_ON_WITHIN;
        loop {
            if self.running.is_none() {
                self.running = Some(Running::start(&mut self.command()?)?);
            }
            let known = self.before.as_ref().map_or(0, |run| run.trials.len());
            if kept::committed(&self.out()) > known {
                break;
            }
            if self.running.as_ref().is_some_and(|running| running.has_ended().unwrap_or(true)) {
                self.ended()?;
            }
            ensure!(Instant::now() < end, "no trial was committed for {} s", GO_ON_WITHIN.as_secs());
            std::thread::sleep(LOOK);
        }
        self.before = Some(kept::survived(&self.out(), self.before.as_ref())?);
        Ok(())
    }

    /// Takes note of a run that has ended. Returns its status; `None` if a signal ended it.
    fn ended(&mut self) -> Result<Option<i32>> {
        let running = self.running.take().context("a run is under way")?;
        let ended = running.wait(END_WITHIN)?;
        ensure!(ended.code != Some(101), "the controller panicked");
        if !self.out().join(kept::STORE).exists() {
            return Ok(ended.code);
        }
        let run = kept::survived(&self.out(), self.before.as_ref())?;
        if run.finished_unix_ms.is_some() {
            self.finished += run.trials.len();
            self.round += 1;
            self.before = None;
        } else {
            self.before = Some(run);
        }
        Ok(ended.code)
    }

    /// Asks the run to end, and waits until it did and nothing is left.
    fn stop(&mut self) -> Result<()> {
        if let Some(running) = &self.running {
            running.signal(Signal::Interrupt)?;
            self.ends_within(END_WITHIN)?;
            self.ended()?;
        }
        self.nothing_is_left()
    }

    fn ends_within(&self, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        while let Some(running) = &self.running {
            if running.has_ended()? {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("the controller does not end within {} s", within.as_secs());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn nothing_is_left(&mut self) -> Result<()> {
        let took = left::nowhere(self.lab, &self.settings, left::AFTER_END)?;
        self.gone = self.gone.max(took);
        Ok(())
    }

    fn are_gone(&mut self, processes: &[Process]) -> Result<()> {
        let took = left::ended(processes, left::AFTER_END)?;
        self.gone = self.gone.max(took);
        Ok(())
    }

    /// Makes a fault, checks what must be gone, and lets the run go on.
    fn suffer(&mut self, fault: Fault) -> Result<()> {
        self.commit_one()?;
        std::thread::sleep(Duration::from_secs_f64(self.random.f64() * FAULT_WITHIN_S));
        let (lab, number) = (self.lab, self.random.usize(..self.lab.hosts.len()));
        let host = &lab.hosts[number];
        let cut_off = match fault {
            Fault::Controller => return self.without_controller(),
            Fault::DiskFull => return self.full_disk(host),
            Fault::OtherVersion => return self.other_version(),
            Fault::ControlLink => return self.cut(number),
            Fault::Ssh => {
                let controller = self.running.as_ref().context("a run is under way")?.pid();
                fault::kill_ssh(lab, controller, &mut self.random)?
            }
            Fault::Agent => fault::kill_agent(host)?,
            Fault::Session => fault::kill_session(host)?,
            Fault::Listener => fault::kill_listener(host)?,
            Fault::Subject => fault::kill_subject(lab)?,
            Fault::Blink => fault::blink(lab, host)?,
            Fault::DataLink => fault::unplug(lab, host)?,
            Fault::ClockSet => fault::set_clock()?,
        };
        self.are_gone(&cut_off)?;
        self.commit_one()
    }

    fn without_controller(&mut self) -> Result<()> {
        let running = self.running.take().context("a run is under way")?;
        running.signal(Signal::Kill)?;
        running.wait(END_WITHIN)?;
        self.nothing_is_left()?;
        self.before = Some(kept::survived(&self.out(), self.before.as_ref())?);
        self.commit_one()
    }

    /// Cuts a host off until its agent has given up by itself.
    fn cut(&mut self, number: usize) -> Result<()> {
        let host = &self.lab.hosts[number];
        self.lab.control.set(&host.control_port, false)?;
        let gone = left::on_host(host, &self.settings[number], left::AFTER_SILENCE);
        self.lab.control.set(&host.control_port, true)?;
        let took = gone?;
        self.gone = self.gone.max(took);
        self.commit_one()
    }

    fn full_disk(&mut self, host: &LabHost) -> Result<()> {
        self.stop()?;
        let filled = fault::fill(host)?;
        self.running = Some(Running::start(&mut self.command()?)?);
        // It may refuse at once, leave cells out, or need no room there.
        let end = Instant::now() + END_WITHIN;
        let known = self.before.as_ref().map_or(0, |run| run.trials.len());
        loop {
            if self.running.as_ref().is_some_and(|running| running.has_ended().unwrap_or(true)) {
                self.ended()?;
                break;
            }
            if kept::committed(&self.out()) > known {
                break;
            }
            ensure!(Instant::now() < end, "a full disk makes the run hang");
            std::thread::sleep(LOOK);
        }
        drop(filled);
        self.commit_one()
    }

    fn other_version(&mut self) -> Result<()> {
        self.stop()?;
        fault::install(&self.bench.kqps.program, &self.there, b"\n")?;
        self.running = Some(Running::start(&mut self.command()?)?);
        let ended = self.ends_within(END_WITHIN);
        fault::install(&self.bench.kqps.program, &self.there, b"")?;
        ended?;
        let code = self.ended()?;
        ensure!(!matches!(code, Some(0 | 3)), "hosts with another version were not refused");
        self.nothing_is_left()?;
        self.commit_one()
    }

    /// Ends the run in order, and prints what was survived.
    fn finish(mut self) -> Result<()> {
        self.stop()?;
        let trials = self.finished + self.before.as_ref().map_or(0, |run| run.trials.len());
        let counts: Vec<String> =
            self.counts.iter().map(|(name, count)| format!("{count} × {name}")).collect();
        eprintln!(
            "{} faults ({}): {trials} trials were committed, and none was lost; all was gone {:.1} s after the fault at \
             the latest",
            self.counts.values().sum::<u32>(),
            counts.join(", "),
            self.gone.as_secs_f64()
        );
        Ok(())
    }
}
