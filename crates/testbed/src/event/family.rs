//! The processes of a server that kqps did not start, as events signal them. A process that kqps suspended goes on when its
//! time is over, and also if kqps is killed before.

use std::io::ErrorKind;

use kqps_kernel::process::{self, Signal};

use super::stage::Family;
use crate::subject::resumer::Resumer;

/// The most times that a family is read: processes may start others until the signal reaches them.
const READS_MOST: usize = 10;

/// A process, and not a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    /// Its number.
    pub(super) pid: u32,
    /// When it started, ticks since boot; `None` if it had ended when it was looked at.
    pub(super) started: Option<u64>,
}

impl Running {
    /// The process that has this number now.
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, started: kqps_host::started(pid) }
    }

    fn is_it(self) -> bool {
        self.started.is_some() && kqps_host::started(self.pid) == self.started
    }

    /// Whether it has not ended.
    pub(super) fn is_left(self) -> bool {
        kqps_host::lives(self.pid) && self.is_it()
    }

    /// Sends it a signal. Returns whether it was there.
    pub(super) fn signal(self, signal: Signal) -> Result<bool, String> {
        match process::signal_if(self.pid, signal, || self.is_it()) {
            Ok(is_it) => Ok(is_it),
            // It may have ended meanwhile.
            Err(_) if !self.is_left() => Ok(false),
            Err(error) => Err(format!("process {}: {error}", self.pid)),
        }
    }

    /// Whether it takes signals from kqps; the reason otherwise.
    pub(super) fn check(self) -> Result<(), String> {
        let pid = self.pid;
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        // A kernel thread has no program (proc_pid_exe(5)), and neither has a process that has ended.
        if program.is_err_and(|error| error.kind() == ErrorKind::NotFound) && self.is_left() {
            return Err(format!(
                "process {pid} runs no program: it is a thread of the kernel, and no server"
            ));
        }
        match process::check_signal(pid) {
            Err(error) if self.is_left() => Err(format!(
                "kqps cannot send signals to the server's process {pid} ({error}): run kqps as the user of the server, or \
                 as root"
            )),
            _ => Ok(()),
        }
    }
}

/// The processes of these that are left, and their descendants, without this process.
pub(super) fn families(first: &[Running]) -> Vec<Running> {
    let pids: Vec<u32> = first.iter().filter(|one| one.is_it()).map(|one| one.pid).collect();
    let own = std::process::id();
    let family = kqps_host::families(&pids).into_iter().filter(|pid| *pid != own);
    family.map(Running::new).filter(|one| one.is_left()).collect()
}

/// The processes of a running server that one event suspends or kills.
pub(super) struct RunningFamily<'a> {
    first: &'a [Running],
    /// Processes that got the signal.
    reached: Vec<Running>,
    /// Resumes them if kqps is killed; `None` if none is suspended.
    resumer: Option<Resumer>,
}

impl<'a> RunningFamily<'a> {
    /// These processes and their descendants.
    pub(super) fn new(first: &'a [Running]) -> Self {
        Self { first, reached: Vec::new(), resumer: None }
    }

    /// Sends a signal to all processes, also to those that start meanwhile; the first error.
    fn reach(&mut self, signal: Signal) -> Result<(), String> {
        let mut outcome = Ok(());
        for _ in 0..READS_MOST {
            let mut found = families(self.first);
            found.retain(|one| !self.reached.contains(one));
            if found.is_empty() {
                break;
            }
            for one in found {
                if let (Some(resumer), Some(started)) = (&mut self.resumer, one.started) {
                    let added = resumer.add(one.pid, started);
                    added.map_err(|error| format!("the guard of the server has ended: {error}"))?;
                }
                self.reached.push(one);
                outcome = outcome.and(one.signal(signal).map(drop));
            }
        }
        if self.reached.is_empty() {
            return Err("the server's processes have ended".into());
        }
        outcome
    }
}

impl Family for RunningFamily<'_> {
    fn prepare(&mut self) -> Result<(), String> {
        let resumer = std::env::current_exe().and_then(|kqps| Resumer::new(&kqps));
        let failed = |error| format!("starting a guard that resumes the server if kqps is killed: {error}");
        self.resumer = Some(resumer.map_err(failed)?);
        Ok(())
    }

    fn suspend(&mut self) -> Result<(), String> {
        self.reach(Signal::Stop)
    }

    fn resume(&mut self) -> Result<(), String> {
        let mut outcome = Ok(());
        for one in &self.reached {
            outcome = outcome.and(one.signal(Signal::Continue).map(drop));
        }
        self.resumer = None;
        outcome
    }

    fn kill(&mut self) -> Result<(), String> {
        self.reach(Signal::Kill)
    }

    fn is_left(&mut self) -> bool {
        self.reached.iter().any(|one| one.is_left())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// A shell with a child, which has started.
    fn shell() -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut shell = process::tie(&mut command).spawn().unwrap();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        shell
    }

    /// Waits until a process stands still (`T` in `proc_pid_stat(5)`), or goes on.
    fn until_suspended(pid: u32, is_wanted: bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            assert!(Instant::now() < deadline, "process {pid} is not as wanted");
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let is_suspended = stat.rsplit_once(") ").unwrap().1.starts_with('T');
            if is_suspended == is_wanted {
                break;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn all_stand_still_go_on_and_end() {
        let mut shell = shell();
        let first = [Running::new(shell.id())];
        let all = families(&first);
        assert_eq!(all.len(), 2);
        let mut family = RunningFamily::new(&first);
        family.prepare().unwrap();
        family.suspend().unwrap();
        for one in &all {
            until_suspended(one.pid, true);
        }
        family.resume().unwrap();
        for one in &all {
            until_suspended(one.pid, false);
        }
        let mut family = RunningFamily::new(&first);
        family.kill().unwrap();
        shell.wait().unwrap();
        while family.is_left() {
            std::thread::yield_now();
        }
        assert!(all.iter().all(|one| !one.is_left()));
        assert_eq!(RunningFamily::new(&first).kill(), Err("the server's processes have ended".into()));
    }

    /// The end of kqps closes the pipe of the guard.
    #[test]
    fn all_go_on_if_kqps_is_killed() {
        let mut shell = shell();
        let first = [Running::new(shell.id())];
        let all = families(&first);
        let mut family = RunningFamily::new(&first);
        family.prepare().unwrap();
        family.suspend().unwrap();
        for one in &all {
            until_suspended(one.pid, true);
        }
        family.resumer.take().unwrap().close();
        for one in &all {
            until_suspended(one.pid, false);
        }
        process::signal_group(shell.id(), Signal::Kill).unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_that_takes_no_signal_is_refused() {
        let mut shell = shell();
        let one = Running::new(shell.id());
        assert_eq!(one.check(), Ok(()));
        let later = Running { started: one.started.map(|started| started - 1), ..one };
        assert_eq!((later.signal(Signal::Kill), later.is_left()), (Ok(false), false));
        process::signal_group(shell.id(), Signal::Kill).unwrap();
        shell.wait().unwrap();
        assert_eq!((one.signal(Signal::Kill), one.check()), (Ok(false), Ok(())), "it has ended");
        // Its own first process: no signal can be sent to it (signal(7)).
        let init = Running::new(1);
        assert!(init.check().unwrap_err().contains("process 1"));
    }
}
