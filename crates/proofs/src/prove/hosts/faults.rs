//! Faults at random moments of a run over three hosts. After each, what ran on a host that was cut off is gone within
//! seconds, with its files and settings; no committed trial is lost; and the run goes on, by itself or resumed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::process::Signal;
use kqps_observation::{Run, RunTrial};

use super::super::{Bench, Size, kept_trials};
use super::fault::{self, Fault};
use super::host::LabHost;
use super::lab::Lab;
use super::leftovers::{self, Remains, Settings};
use super::{counted, study};
use crate::child::Running;
use crate::wait::until;

/// The room of a host.
const DISK: &str = "16m";

/// The longest time from a new trial to the fault in the small and in the whole form, seconds. The latter is longer
/// than the time to the next start, so that faults fall on every phase.
const FAULT_WITHIN_S: (f64, f64) = (1.0, 3.0);

/// This many trials must be committed while a disk is full, unless the run ends.
const TRIALS_ON_FULL_DISK: usize = 3;

/// How long a run may take to measure another trial after a fault: it waits until an old agent must have ended, and
/// reaches a lost host again for about a minute. If it ends then, it is resumed.
const GO_ON_WITHIN: Duration = Duration::from_mins(3);

/// How long a run may take to end when it is asked to, and to refuse hosts.
const END_WITHIN: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// Tiny trials with a setting of the server's host that must come back each time.
const STUDY: &str = r#"
name = "faults"
title = "Faults"
question = "Is a run over several hosts whole, whatever happens to it?"
repetitions = 1000
load = { rates_qps = [800, 900, 1000, 1100], seconds = 0.3 }
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
    let mut course = Course::new(bench, &lab, leftovers::AFTER_END, |host| lab.ssh(&host.name))?;
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
    for fault in &order[..count] {
        course.survive(*fault)?;
    }
    course.finish()
}

/// Kills once what reaches a host, in a run over hosts that are reached by these words. All is gone after this time.
pub(super) fn kill_way(
    bench: &Bench,
    lab: &Lab,
    within: Duration,
    reach: impl Fn(&LabHost) -> String,
) -> Result<()> {
    let mut course = Course::new(bench, lab, within, reach)?;
    course.survive(Fault::Way)?;
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
    /// The committed trials that were looked at.
    looked: usize,
    /// The file of all that the controller printed since it was started.
    said: PathBuf,
    settings: Settings,
    /// How long an agent may live whose way was killed.
    after_way: Duration,
    random: fastrand::Rng,
    counts: BTreeMap<&'static str, u32>,
    /// Trials of finished runs, and why those of them failed that did.
    finished: usize,
    failed: Vec<String>,
    /// The longest time until all was gone.
    gone: Duration,
}

impl<'a> Course<'a> {
    fn new(
        bench: &'a Bench,
        lab: &'a Lab,
        after_way: Duration,
        reach: impl Fn(&LabHost) -> String,
    ) -> Result<Self> {
        let there = lab.home.join("kqps-there");
        fault::install(&bench.kqps.program, &there, b"")?;
        let study = lab.home.join("faults.toml");
        fs::write(&study, STUDY)?;
        fs::write(lab.home.join("counted.toml"), counted::subject(&counted::file(lab)))?;
        let hosts = study::write_hosts(bench, lab, "hosts.toml", &there, reach)?;
        Ok(Self {
            bench,
            lab,
            study,
            hosts,
            there,
            round: 1,
            running: None,
            before: None,
            looked: 0,
            said: lab.home.join("said"),
            settings: leftovers::settings(lab)?,
            after_way,
            random: fastrand::Rng::with_seed(bench.seed),
            counts: BTreeMap::new(),
            finished: 0,
            failed: Vec::new(),
            gone: Duration::ZERO,
        })
    }

    fn out(&self) -> PathBuf {
        self.lab.home.join(format!("run-{}", self.round))
    }

    fn command(&self) -> Result<Command> {
        let out = self.out();
        // A run that was killed before it made its store begins anew.
        if !out.join(kept_trials::STORE).exists() {
            return study::command(self.bench, self.lab, &self.study, &self.hosts, &out);
        }
        let mut command = self.lab.command(&self.bench.kqps.program)?;
        command.args(["run", "--resume", "--out"]).arg(out);
        Ok(command)
    }

    /// Starts the run, or goes on with it.
    fn start(&mut self) -> Result<()> {
        let mut command = self.command()?;
        command.stderr(fs::File::create(&self.said)?);
        self.running = Some(Running::start(&mut command)?);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.has_ended().unwrap_or(true))
    }

    /// Words that the controller printed since it was started.
    fn said(&self) -> String {
        let text = fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    /// Reads what was committed since the last look. Returns whether a trial of it was measured.
    fn look(&mut self) -> Result<bool> {
        let committed = kept_trials::committed(&self.out());
        if committed <= self.looked {
            return Ok(false);
        }
        let run = kept_trials::survived(&self.out(), self.before.as_ref())?;
        let known = self.before.as_ref().map_or(0, kept_trials::measured);
        self.looked = run.trials.len();
        let is_measured = kept_trials::measured(&run) > known;
        self.before = Some(run);
        Ok(is_measured)
    }

    /// Makes the run go on until it has measured another trial.
    fn measure_one(&mut self) -> Result<()> {
        let end = Instant::now() + GO_ON_WITHIN;
        loop {
            if self.running.is_none() {
                self.start()?;
            }
            if self.look()? {
                return Ok(());
            }
            if self.has_ended() {
                self.ended()?;
            }
            ensure!(Instant::now() < end, "no trial was measured for {} s", GO_ON_WITHIN.as_secs());
            std::thread::sleep(LOOK);
        }
    }

    /// Takes note of a run that has ended. Returns its status; `None` if a signal ended it.
    fn ended(&mut self) -> Result<Option<i32>> {
        let running = self.running.take().context("a run is under way")?;
        let ended = running.wait(END_WITHIN)?;
        ensure!(ended.code != Some(101), "the controller panicked");
        if !self.out().join(kept_trials::STORE).exists() {
            return Ok(ended.code);
        }
        let run = kept_trials::survived(&self.out(), self.before.as_ref())?;
        self.looked = run.trials.len();
        if run.finished_unix_ms.is_some() {
            self.finished += run.trials.len();
            self.failed.extend(failures(&run));
            self.round += 1;
            (self.before, self.looked) = (None, 0);
        } else {
            self.before = Some(run);
        }
        Ok(ended.code)
    }

    /// Why trials failed, of all runs so far.
    fn failures(&self) -> Vec<String> {
        let present = self.before.iter().flat_map(failures);
        self.failed.iter().cloned().chain(present).collect()
    }

    /// Parts that this run left out, with the reasons.
    fn left_out(&self) -> Vec<String> {
        let skipped = self.before.iter().flat_map(|run| &run.skipped);
        skipped.map(|(what, why)| format!("{what}: {why}")).collect()
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
        let has_ended = || match &self.running {
            Some(running) => Ok(running.has_ended()?.then_some(())),
            None => Ok(Some(())),
        };
        let late = || format!("the controller does not end within {} s", within.as_secs());
        until((within, LOOK), has_ended, late)
    }

    fn nothing_is_left(&mut self) -> Result<()> {
        let took = leftovers::nowhere(self.lab, &self.settings, leftovers::AFTER_END)?;
        self.gone = self.gone.max(took);
        Ok(())
    }

    fn are_gone(&mut self, remains: &Remains, within: Duration) -> Result<()> {
        let took = remains.gone(self.lab, &self.settings, within)?;
        self.gone = self.gone.max(took);
        Ok(())
    }

    /// Suffers a fault, counts it, and prints how long that took.
    fn survive(&mut self, fault: Fault) -> Result<()> {
        let (began, number) = (Instant::now(), self.counts.values().sum::<u32>() + 1);
        let suffered = self.suffer(fault);
        suffered.with_context(|| {
            format!("fault {number}: {}; the controller printed: {}", fault.name(), self.said())
        })?;
        *self.counts.entry(fault.name()).or_default() += 1;
        eprintln!("fault {number}: {}: {:.1} s", fault.name(), began.elapsed().as_secs_f64());
        Ok(())
    }

    /// Makes a fault in the middle of a run, checks what must be gone, and lets the run go on until it has measured
    /// another trial.
    fn suffer(&mut self, fault: Fault) -> Result<()> {
        self.measure_one()?;
        let within_s = self.bench.choose(FAULT_WITHIN_S.0, FAULT_WITHIN_S.1);
        std::thread::sleep(Duration::from_secs_f64(self.random.f64() * within_s));
        self.look()?;
        let (failed, left_out) = (self.failures().len(), self.left_out());
        self.make(fault)?;
        // Trials that were measured meanwhile do not show that the run goes on.
        self.look()?;
        self.measure_one()?;
        if !fault.may_fail_a_trial() {
            let more = &self.failures()[failed..];
            ensure!(more.is_empty(), "trials are stored as failed: {}", more.join("; "));
            let now = self.left_out();
            let more: Vec<&String> = now.iter().filter(|one| !left_out.contains(one)).collect();
            ensure!(more.is_empty(), "cells are left out: {more:?}");
        }
        Ok(())
    }

    fn make(&mut self, fault: Fault) -> Result<()> {
        let (lab, number) = (self.lab, self.random.usize(..self.lab.hosts.len()));
        let host = &lab.hosts[number];
        let remains = match fault {
            Fault::Controller => return self.without_controller(),
            Fault::DiskFull => return self.full_disk(host),
            Fault::OtherVersion => return self.other_version(),
            Fault::ControlLink => return self.cut(number),
            Fault::ControllerLink => return self.isolated(),
            Fault::Blink => return self.blink(host),
            Fault::Way => {
                let controller = self.running.as_ref().context("a run is under way")?.pid();
                let remains = fault::kill_way(lab, controller, &mut self.random)?;
                return self.are_gone(&remains, self.after_way);
            }
            Fault::Agent => fault::kill_agent(host)?,
            Fault::Session => fault::kill_session(host)?,
            Fault::Listener => fault::kill_listener(host)?,
            Fault::Subject => fault::kill_subject(lab)?,
            Fault::DataLink => fault::unplug(lab, host)?,
            Fault::ClockSet => fault::set_clock()?,
        };
        self.are_gone(&remains, leftovers::AFTER_END)
    }

    fn without_controller(&mut self) -> Result<()> {
        let running = self.running.take().context("a run is under way")?;
        running.signal(Signal::Kill)?;
        running.wait(END_WITHIN)?;
        self.nothing_is_left()?;
        // A run that was killed before its first trial may have no store yet.
        if self.out().join(kept_trials::STORE).exists() {
            let run = kept_trials::survived(&self.out(), self.before.as_ref())?;
            (self.looked, self.before) = (run.trials.len(), Some(run));
        }
        Ok(())
    }

    /// Cuts a host off until its agent has given up by itself.
    fn cut(&mut self, number: usize) -> Result<()> {
        let host = &self.lab.hosts[number];
        self.lab.control.set(&host.control_port, false)?;
        let gone = leftovers::on_host(host, &self.settings[number], leftovers::AFTER_SILENCE);
        self.lab.control.set(&host.control_port, true)?;
        self.gone = self.gone.max(gone?);
        Ok(())
    }

    /// Cuts the controller off until all agents have given up, and for a while longer.
    fn isolated(&mut self) -> Result<()> {
        let began = Instant::now();
        self.lab.control.set(&self.lab.controller_port, false)?;
        let mut all = self.lab.hosts.iter().zip(&self.settings);
        let gone = all.try_for_each(|(host, before)| {
            leftovers::on_host(host, before, leftovers::AFTER_SILENCE.saturating_sub(began.elapsed()))
                .map(drop)
        });
        let took = began.elapsed();
        std::thread::sleep(fault::OUTAGE.saturating_sub(took));
        self.lab.control.set(&self.lab.controller_port, true)?;
        gone?;
        self.gone = self.gone.max(took);
        Ok(())
    }

    /// Takes a control link down so shortly that its agent lives on.
    fn blink(&mut self, host: &LabHost) -> Result<()> {
        let (agent, round) = (fault::agent(host)?, self.round);
        fault::blink(self.lab, host)?;
        self.measure_one()?;
        ensure!(agent.lives() || self.round != round, "the agent of {} ended", host.name);
        Ok(())
    }

    fn full_disk(&mut self, host: &LabHost) -> Result<()> {
        let (failed, known) = (self.failures().len(), self.finished + self.looked);
        let filled = fault::fill(host)?;
        // The run may end, leave cells out, or need no room there.
        let end = Instant::now() + END_WITHIN;
        while self.finished + self.looked < known + TRIALS_ON_FULL_DISK {
            if self.has_ended() {
                let code = self.ended()?;
                let said = self.said();
                ensure!(
                    matches!(code, Some(0 | 3)) || said.contains(&host.name),
                    "{} is not named",
                    host.name
                );
                break;
            }
            self.look()?;
            ensure!(Instant::now() < end, "a full disk makes the run hang");
            std::thread::sleep(LOOK);
        }
        drop(filled);
        let failures = self.failures();
        let unnamed =
            failures[failed..].iter().find(|why| !why.contains(&host.name) && !why.contains("No space"));
        ensure!(unnamed.is_none(), "a failure names neither {} nor its disk: {unnamed:?}", host.name);
        Ok(())
    }

    fn other_version(&mut self) -> Result<()> {
        fault::install(&self.bench.kqps.program, &self.there, b"\n")?;
        let refused = self.without_controller().and_then(|()| self.is_refused());
        fault::install(&self.bench.kqps.program, &self.there, b"")?;
        refused?;
        self.nothing_is_left()
    }

    /// Goes on with the run, which must end with a sentence about another build.
    fn is_refused(&mut self) -> Result<()> {
        self.start()?;
        self.ends_within(END_WITHIN)?;
        let code = self.ended()?;
        let said = self.said();
        ensure!(!matches!(code, Some(0 | 3)), "hosts with another version were not refused");
        let is_named = self.lab.hosts.iter().any(|host| said.contains(&format!("kqps on {} is ", host.name)));
        ensure!(is_named && said.contains("install the same build there"), "no host and no build is named");
        Ok(())
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

/// Why trials of a run failed.
fn failures(run: &Run) -> Vec<String> {
    run.trials.iter().filter_map(RunTrial::failure).map(str::to_owned).collect()
}
