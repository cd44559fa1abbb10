//! Tuning: `kqps host apply` is killed at any moment, and `kqps host undo` brings every value back, byte for byte. What
//! somebody else changed meanwhile stays, and is named. If an owner dies, its guard undoes by itself. All of it on a
//! host of the lab, with its own network, its own sysctls and its own journal.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::process::{Signal, signal};

use super::super::Bench;
use super::host::{LabHost, Process};
use super::lab::Lab;
use super::leftovers;

const DISK: &str = "16m";

/// The settings of each `apply`, all different from what a new network has.
const CHANGES: [&str; 8] = [
    "sysctl.net.ipv4.udp_rmem_min=16384",
    "sysctl.net.ipv4.udp_wmem_min=16384",
    "sysctl.net.ipv4.ip_default_ttl=65",
    "sysctl.net.ipv4.tcp_fin_timeout=30",
    "rps.data0.0=0",
    "rps.data0.1=0",
    "xps.data0.0=0",
    "xps.data0.1=0",
];

/// Kills for each whose undoing is left to a guard, and for each that somebody else's change follows.
const GUARDED_EVERY: u32 = 5;
const MEDDLED_EVERY: u32 = 7;

/// At most this many times the kills, until some of them fell within `apply`.
const MORE: u32 = 4;

/// The value that somebody else sets: valid for each sysctl here, and neither the old nor the wanted one.
const MEDDLED: &str = "77";

/// The command for as long as which settings are in force.
const SLEEP: (&str, &str) = ("sleep", "60");

/// How much longer than `apply` itself a kill may wait, so that some kills come after its end.
const BEYOND: f64 = 1.1;

/// The values of a host's settings.
type Values = BTreeMap<String, Vec<u8>>;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let mut kills = Kills::new(bench, lab.server())?;
    let (least, places) = bench.choose((50, 1), (1_000, CHANGES.len() / 2));
    let mut number = 0;
    // A few kills may all come too early or too late.
    while number < least || (kills.places_within() < places && number < MORE * least) {
        number += 1;
        let made = if number % GUARDED_EVERY == 0 { kills.guarded() } else { kills.undone(number) };
        made.with_context(|| format!("kill {number}"))?;
    }
    kills.print();
    let seen = kills.places_within();
    ensure!(seen >= places, "kills fell on {seen} of {} places within apply", CHANGES.len() - 1);
    Ok(())
}

struct Kills<'a> {
    bench: &'a Bench,
    host: &'a LabHost,
    before: Values,
    /// How long `apply` takes if nothing ends it.
    whole: Duration,
    random: fastrand::Rng,
    /// Settings in force at a kill without a guard → how many kills.
    in_force: BTreeMap<usize, u32>,
    meddled: u32,
    guarded: u32,
    /// The longest time that a guard took.
    guard: Duration,
}

impl<'a> Kills<'a> {
    fn new(bench: &'a Bench, host: &'a LabHost) -> Result<Self> {
        let before = host.settings()?;
        let mut kills = Self {
            bench,
            host,
            before,
            whole: Duration::ZERO,
            random: fastrand::Rng::with_seed(bench.seed),
            in_force: BTreeMap::new(),
            meddled: 0,
            guarded: 0,
            guard: Duration::ZERO,
        };
        let began = Instant::now();
        succeeded(&kills.apply(Duration::from_mins(1))?)?;
        kills.whole = began.elapsed();
        let changed = kills.changed()?.len();
        ensure!(changed == CHANGES.len(), "apply changed {changed} of {} settings", CHANGES.len());
        succeeded(&kills.undo()?)?;
        ensure!(host.settings()? == kills.before, "undo does not bring back what apply changed");
        eprintln!("apply sets {} settings in {:.1} ms", CHANGES.len(), kills.whole.as_secs_f64() * 1e3);
        Ok(kills)
    }

    /// A command that applies all settings, and kills that after a time.
    fn applying(&self, after: Duration, more: &[&str]) -> Command {
        let mut command = self.host.command("timeout");
        // In the foreground only the program itself is killed, and no guard of its group.
        command.args(["--foreground", "--signal=KILL", &format!("{:.6}", after.as_secs_f64().max(1e-6))]);
        command.arg(&self.bench.kqps.program).args(["host", "apply"]).args(CHANGES).args(more);
        command
    }

    fn apply(&self, after: Duration) -> Result<Output> {
        self.applying(after, &[]).output().context("cannot start timeout")
    }

    fn undo(&self) -> Result<Output> {
        let mut command = self.host.command(&self.bench.kqps.program);
        command.args(["host", "undo"]).output().context("cannot start kqps")
    }

    /// The settings that differ from those before.
    fn changed(&self) -> Result<Vec<String>> {
        let now = self.host.settings()?;
        Ok(now
            .into_iter()
            .filter(|(name, value)| self.before.get(name) != Some(value))
            .map(|(name, _)| name)
            .collect())
    }

    /// Kills `apply` somewhere, and undoes by hand.
    fn undone(&mut self, number: u32) -> Result<()> {
        let after = self.whole.mul_f64(self.random.f64() * BEYOND);
        self.apply(after)?;
        let changed = self.changed()?;
        *self.in_force.entry(changed.len()).or_default() += 1;
        let victim = changed.iter().find(|name| name.starts_with("sysctl.")).cloned();
        let meddled = victim.filter(|_| number.is_multiple_of(MEDDLED_EVERY));
        if let Some(name) = &meddled {
            self.host.write(name, MEDDLED.as_bytes())?;
        }
        let output = self.undo()?;
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(
            output.status.code().is_some_and(|code| code != 101),
            "undo ended with {}: {said}",
            output.status
        );
        let mut expected = self.before.clone();
        if let Some(name) = &meddled {
            ensure!(
                said.contains(name.as_str()),
                "undo does not name {name}, which another program changed: {said}"
            );
            expected.insert(name.clone(), format!("{MEDDLED}\n").into_bytes());
            self.meddled += 1;
        } else {
            ensure!(output.status.success(), "undo ended with {}: {said}", output.status);
        }
        is_same(&self.host.settings()?, &expected)?;
        if let Some(name) = &meddled {
            self.host.write(name, &self.before[name])?;
        }
        Ok(())
    }

    /// Kills the owner of settings that are in force for as long as a command runs. Its guard undoes.
    fn guarded(&mut self) -> Result<()> {
        let after = self.whole.mul_f64(0.5 + self.random.f64() * 2.0);
        let mut command = self.applying(after, &["--for", SLEEP.0, SLEEP.1]);
        // The command outlives its parent, and would keep pipes open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().context("cannot start timeout")?;
        // The command lives on. Everything else must end by itself.
        self.kill_command();
        let took = leftovers::on_host(self.host, &self.before, leftovers::AFTER_END)?;
        // How many settings are in force says nothing of the moment of the kill: the guard is at work already.
        self.guard = self.guard.max(took);
        self.guarded += 1;
        Ok(())
    }

    /// Kills the command of an owner that is dead. A process that was made for it has the owner's words until it runs the
    /// command.
    fn kill_command(&self) {
        let words = format!("{} {}", SLEEP.0, SLEEP.1);
        let began = Instant::now();
        while began.elapsed() < leftovers::AFTER_END {
            let of_command = |process: &Process| process.words.ends_with(&words);
            let left: Vec<Process> = self.host.processes().into_iter().filter(of_command).collect();
            if left.is_empty() {
                break;
            }
            for sleeper in left.iter().filter(|process| process.words == words) {
                // It may have ended by itself.
                let _ = signal(sleeper.pid, Signal::Kill);
            }
        }
    }

    /// The number of places within `apply` that kills fell on: some settings were in force then, and others not.
    fn places_within(&self) -> usize {
        self.in_force.keys().filter(|count| (1..CHANGES.len()).contains(*count)).count()
    }

    fn print(&self) {
        let kills: u32 = self.in_force.values().sum();
        let places: Vec<String> =
            self.in_force.iter().map(|(count, kills)| format!("{count}: {kills}")).collect();
        eprintln!(
            "{kills} kills without a guard, by settings in force ({}): every value came back byte for byte; {} values \
             of somebody else stayed and were named; after {} kills more, guards undid within {:.1} s",
            places.join(", "),
            self.meddled,
            self.guarded,
            self.guard.as_secs_f64()
        );
    }
}

fn succeeded(output: &Output) -> Result<()> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it ended with {}: {}", output.status, said.trim());
    Ok(())
}

/// Compares values byte for byte.
fn is_same(found: &Values, expected: &Values) -> Result<()> {
    for (name, value) in expected {
        let now = found.get(name).with_context(|| format!("{name} is gone"))?;
        if now != value {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
            bail!("{name} is {:?} instead of {:?}", text(now), text(value));
        }
    }
    Ok(())
}
