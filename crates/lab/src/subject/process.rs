//! One child process of the lab: in a process group of its own, on the cores it was given, its output kept. It
//! and whatever it started die with kqps, whatever kills kqps, and when it is dropped nothing of it is left.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use kqps_kernel::affinity;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process::{self, Signal};

use super::definition::StopSignal;
use super::guard::Guard;
use super::output::Output;
use super::remains::{self, Remains};

/// How often a child that was asked to stop is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How long a killed child is waited for. Only one that hangs within the kernel takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running child.
#[derive(Debug)]
pub struct Process {
    child: Child,
    cpus: Vec<u32>,
    remains: Remains,
    output: Output,
    ended: Option<ExitStatus>,
    guard: Option<Guard>,
    /// Whether it was killed with all that it started.
    gone: bool,
}

impl Process {
    /// Starts `command` on `cpus` (all, when empty), with its output going to the file `output` in `folder`, by
    /// which whatever it starts is known as well.
    ///
    /// The kernel kills the child when the thread that called this ends: call it from the main thread.
    pub fn spawn(mut command: Command, cpus: &[u32], folder: &Path) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let output = Output::collect(reader, &folder.join("output"))?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        command.env(remains::MARK, folder);
        process::tie(&mut command);
        affinity::confine(&mut command, cpus);
        let child = command.spawn()?;
        // The command holds our end of the pipe, which must be closed for the output ever to end.
        drop(command);
        let remains = Remains::of(child.id(), folder);
        let cpus = cpus.to_vec();
        let mut started = Self { child, cpus, remains, output, ended: None, guard: None, gone: false };
        started.guard = Some(Guard::of(started.pid())?);
        Ok(started)
    }

    /// Confines every thread of it and of its descendants to its cores once more. What they inherited holds
    /// only until a program sets affinities of its own, as knotd does for each worker.
    pub fn confine(&self) -> io::Result<()> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        kqps_host::threads_of(self.pid())
            .into_iter()
            .try_for_each(|tid| affinity::confine_thread(tid, &self.cpus))
    }

    /// Its process ID, which is also that of its group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, in words; none while it lives.
    pub fn ended(&mut self) -> Option<String> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or(None);
        }
        self.ended.map(|status| match status.code() {
            Some(code) => format!("ended with status {code}"),
            // Its `Display` names the signal.
            None => format!("was killed by {status}"),
        })
    }

    /// Asks its whole group to stop, and kills what has not in time, or at once when the user's wish to end is urgent.
    pub fn stop(mut self, signal: StopSignal, within: Duration, interrupts: &Interrupts) {
        let signal = match signal {
            StopSignal::Term => Signal::Terminate,
            StopSignal::Int => Signal::Interrupt,
        };
        if self.ended().is_none() {
            // It may have ended since: then there is nobody to tell.
            let _ = process::signal_group(self.pid(), signal);
            let deadline = Instant::now() + within;
            while (self.ended().is_none() || self.remains.live())
                && Instant::now() < deadline
                && !interrupts.is_urgent()
            {
                std::thread::sleep(LOOK);
            }
        }
        // What is left of it is killed as it is dropped.
    }

    /// Ends it at once, with all that it started. The last lines that it printed.
    pub fn kill(&mut self) -> Vec<String> {
        if !self.gone {
            self.remains.kill();
            let deadline = Instant::now() + PATIENCE;
            while self.ended().is_none() && Instant::now() < deadline {
                std::thread::sleep(LOOK);
            }
            self.guard = None;
            self.gone = true;
        }
        self.output.last_lines()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
