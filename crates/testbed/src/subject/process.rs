//! A child process: a subject of the lab, in a process group of its own, on its cores, its output stored; or a program
//! beside a server of kqps, such as a resolver in the server's network. The child and all that it started die with kqps,
//! however kqps ends. When it is dropped, no process of it is left.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use kqps_kernel::affinity;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process::{self, Signal};

use super::definition::StopSignal;
use super::guard::Guard;
use super::output::SubjectOutput;
use super::remains::{self, Remains};

/// The interval at which a child that was asked to stop is checked.
const LOOK: Duration = Duration::from_millis(5);

/// The interval at which the last threads of a process are waited for, and the longest wait.
const SHORT_LOOK: Duration = Duration::from_millis(1);
const LAST_THREADS: Duration = Duration::from_secs(1);

/// The longest wait for a killed child. Only one that hangs in the kernel takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running child process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    cpus: Vec<u32>,
    remains: Remains,
    /// Its stored output; `None` if that is the user's.
    output: Option<SubjectOutput>,
    ended: Option<ExitStatus>,
    guard: Option<Guard>,
    /// Whether it was killed with all that it started.
    gone: bool,
    /// Keeps the thread that started it; `None` if the caller's thread did.
    keeper: Option<Sender<()>>,
}

impl Process {
    /// Starts `command` on `cpus` (empty for all), with its output going to the file `output` in `folder`. The
    /// folder also marks all processes that it starts.
    ///
    /// The kernel kills the child when the calling thread ends, so the main thread must call this.
    /// `kqps` is the path of this program.
    pub fn spawn(mut command: Command, cpus: &[u32], folder: &Path, kqps: &Path) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let output = SubjectOutput::collect(reader, &folder.join("output"))?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        Self::tied(command, cpus, Some(output), (folder, kqps))
    }

    /// As [`Self::spawn`], on all cores, with the input and output that the command names. No signal is blocked in the
    /// child.
    pub fn spawn_beside(mut command: Command, folder: &Path, kqps: &Path) -> io::Result<Self> {
        process::unblock_signals(&mut command);
        Self::tied(command, &[], None, (folder, kqps))
    }

    fn tied(
        mut command: Command,
        cpus: &[u32],
        output: Option<SubjectOutput>,
        (folder, kqps): (&Path, &Path),
    ) -> io::Result<Self> {
        command.env(remains::MARK, folder);
        // A player on the same core would wait for the server.
        if !cpus.is_empty() && cpus.len() < affinity::allowed()?.len() {
            process::tie_measured(&mut command);
        } else {
            process::tie_kqps(&mut command);
        }
        affinity::confine(&mut command, cpus);
        let child = command.spawn()?;
        // The command holds our end of the pipe. Without closing it, the output would never end.
        drop(command);
        let remains = Remains::new(child.id(), folder);
        let cpus = cpus.to_vec();
        let mut started =
            Self { child, cpus, remains, output, ended: None, guard: None, gone: false, keeper: None };
        started.guard = Some(Guard::new(started.pid(), kqps)?);
        Ok(started)
    }

    /// As [`Self::spawn`], for a thread that may end before the child. Another thread starts the child and outlives it.
    pub fn spawn_kept(command: Command, cpus: &[u32], folder: &Path, kqps: &Path) -> io::Result<Self> {
        let (give, started) = mpsc::channel();
        let (keeper, end) = mpsc::channel::<()>();
        let (cpus, folder, kqps) = (cpus.to_vec(), folder.to_owned(), kqps.to_owned());
        let keep = move || {
            let _ = give.send(Self::spawn(command, &cpus, &folder, &kqps));
            // The sender is dropped with the child.
            let _ = end.recv();
        };
        std::thread::Builder::new().name("keeper".into()).spawn(keep)?;
        let mut started = started.recv().map_err(io::Error::other)??;
        started.keeper = Some(keeper);
        Ok(started)
    }

    /// Confines every thread of it and of its descendants to its cores again. The inherited affinity holds only
    /// until a program sets its own, as knotd does for each worker.
    pub fn confine(&self) -> io::Result<()> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        kqps_host::threads_of(self.pid())
            .into_iter()
            .try_for_each(|tid| affinity::confine_thread(tid, &self.cpus))
    }

    /// The process ID, which is also the ID of its group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, in words; `None` while it runs. If its main thread has ended, this waits for its other threads, for
    /// [`LAST_THREADS`] at most: those of a killed process end one by one, and only then it can be waited for.
    pub fn ended(&mut self) -> Option<String> {
        self.status().map(|status| match status.code() {
            Some(code) => format!("ended with status {code}"),
            // `Display` of the status names the signal.
            None => format!("was killed by {status}"),
        })
    }

    /// As [`Self::ended`], with its status.
    pub fn status(&mut self) -> Option<ExitStatus> {
        let began = Instant::now();
        while self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or(None);
            if self.ended.is_some() || kqps_host::lives(self.pid()) || began.elapsed() > LAST_THREADS {
                break;
            }
            std::thread::sleep(SHORT_LOOK);
        }
        self.ended
    }

    /// Whether it runs, or any process that it started.
    pub fn is_left(&mut self) -> bool {
        self.ended().is_none() || self.remains.live()
    }

    /// Sends a signal to it. An error if it has ended.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        match self.ended() {
            // Nobody has waited for it yet, so no other process has its number.
            None => process::signal(self.pid(), signal),
            Some(how) => Err(io::Error::other(format!("it {how}"))),
        }
    }

    /// Sends a signal to it and to all that it started. An error if none of them is left.
    pub fn signal_all(&mut self, signal: Signal) -> io::Result<()> {
        match self.ended() {
            Some(how) if !self.remains.live() => Err(io::Error::other(format!("it {how}"))),
            _ => {
                self.remains.signal(signal);
                Ok(())
            }
        }
    }

    /// The last lines of its stored output so far.
    pub fn last_lines(&self) -> Vec<String> {
        self.output.as_ref().map_or_else(Vec::new, SubjectOutput::last_lines)
    }

    /// Asks its whole group to stop. Kills it after `within`, or at once if an interrupt is urgent.
    pub fn stop(mut self, signal: StopSignal, within: Duration, interrupts: &Interrupts) {
        let signal = match signal {
            StopSignal::Term => Signal::Terminate,
            StopSignal::Int => Signal::Interrupt,
        };
        if self.ended().is_none() {
            // It may have ended already; no process is left to signal then.
            let _ = process::signal_group(self.pid(), signal);
            let deadline = Instant::now() + within;
            while (self.ended().is_none() || self.remains.live())
                && Instant::now() < deadline
                && !interrupts.is_urgent()
            {
                std::thread::sleep(LOOK);
            }
        }
        // Dropping it kills what is left.
    }

    /// Kills it at once, with all that it started, and returns the last lines of its output.
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
        self.last_lines()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The session of a child on these cores, and its process ID. A child that comes before other programs leads a session.
    fn session(cpus: &[u32]) -> (String, u32) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("60");
        // The shell is its guard, so that the path of kqps does not matter.
        let child = Process::spawn(command, cpus, folder.path(), Path::new("kqps")).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid())).unwrap();
        // After the name in brackets (proc(5)).
        let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap();
        (session.to_owned(), child.pid())
    }

    #[test]
    fn nothing_is_left_of_a_program_and_of_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("started");
        let mut command = Command::new("sh");
        // The second sleep leaves the group, and ignores what asks it to end.
        let script = "trap '' TERM; setsid sleep 600 & sleep 600 & touch \"$0\"; wait";
        command.args(["-c", script, file.to_str().unwrap()]);
        let kqps = Path::new("/nonexistent/kqps");
        let mut beside = Process::spawn_beside(command, folder.path(), kqps).unwrap();
        while !file.exists() {
            assert_eq!(beside.ended(), None);
            std::thread::sleep(LOOK);
        }
        let own = beside.pid();
        beside.stop(StopSignal::Term, Duration::from_millis(20), &Interrupts::default());
        assert!(!kqps_host::lives(own));
        let marked = |pid: u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mark = folder.path().as_os_str().as_encoded_bytes();
            environment.windows(mark.len()).any(|part| part == mark)
        };
        assert_eq!(kqps_host::processes().find(|pid| *pid != std::process::id() && marked(*pid)), None);
    }

    #[test]
    fn a_child_comes_before_other_programs_unless_it_has_all_cores() {
        let all = affinity::allowed().unwrap();
        for cpus in [&[][..], &all] {
            let (session, pid) = session(cpus);
            assert_ne!(session, pid.to_string(), "{cpus:?}");
        }
        if all.len() > 1 {
            let (session, pid) = session(&all[..1]);
            assert_eq!(session, pid.to_string());
        }
    }
}
