//! A program that reaches another host, such as ssh: its lines are collected by one thread, its standard error by
//! another, and a third writes to it. Whatever it does, nothing here waits for it without a limit. When the value is
//! dropped, the program is killed.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kqps_kernel::clock;
use kqps_kernel::process::{self, Signal};

use crate::lines::Lines;
use crate::outbox::{Outbox, STACK, Unsent};

/// The last lines that are kept of what it prints beside messages.
const SAID_LINES: usize = 20;

/// The most bytes that are kept of such a line.
const SAID_BYTES: usize = 1000;

/// The time that it may go on after the end of its output before it is killed.
const LINGER: Duration = Duration::from_secs(2);

/// The longest wait for a killed program. Only one that hangs in the kernel takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest wait for the end when the value is dropped.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// The interval at which a program that is about to end is checked.
const LOOK: Duration = Duration::from_millis(5);

/// The wait for the last lines of a program that ended. A process that it left may hold its standard error open.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A collector of the lines of a program.
pub(crate) trait Collects: Send + 'static {
    /// Takes a line, which was read at `read_ns` (`CLOCK_MONOTONIC`). An error ends the program.
    fn take(&mut self, line: &[u8], read_ns: u64) -> Result<LineKind, String>;

    /// The most bytes of the next line.
    fn line_most(&self) -> usize;
}

/// The fate of a line.
#[derive(Debug)]
pub(crate) enum LineKind {
    /// It was a message.
    Message,
    /// It is kept with the lines of standard error.
    Noise,
    /// It was a message with a text, which is kept in its place.
    Text(String),
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Remote<T> {
    shared: Arc<Shared<T>>,
    outbox: Outbox,
}

#[derive(Debug)]
struct Shared<T> {
    known: Mutex<ProgramState<T>>,
    changed: Condvar,
    /// When bytes came last (`CLOCK_MONOTONIC`, nanoseconds).
    heard_ns: Arc<AtomicU64>,
}

/// The known state of the program.
#[derive(Debug)]
pub(crate) struct ProgramState<T> {
    /// The collector of its lines.
    pub(crate) collected: T,
    /// Whether nothing more will come, and the program has ended.
    pub(crate) is_over: bool,
    /// How it ended; `None` while it runs, and if that could not be found out.
    pub(crate) exit: Option<ExitStatus>,
    /// The error in its lines for which it was ended.
    pub(crate) fault: Option<String>,
    /// Its process group, as long as it can be signalled.
    group: Option<u32>,
    said: VecDeque<String>,
    is_said: bool,
}

impl<T> ProgramState<T> {
    /// The last lines that were no messages.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.iter().cloned().collect()
    }

    fn say(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(&line[..line.len().min(SAID_BYTES)]);
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        if self.said.len() == SAID_LINES {
            self.said.pop_front();
        }
        self.said.push_back(text.to_owned());
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, ProgramState<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill(&self) {
        if let Some(leader) = self.lock().group {
            // It may have ended just now.
            let _ = process::signal_group(leader, Signal::Kill);
        }
    }
}

impl<T: Collects> Remote<T> {
    /// Starts a program in a process group of its own. `beat` is written to it each second in which nothing else is.
    ///
    /// The kernel kills it when this process ends. The calling thread may end before that.
    pub(crate) fn start(command: Command, collected: T, beat: Option<&'static [u8]>) -> io::Result<Self> {
        let known = ProgramState {
            collected,
            is_over: false,
            exit: None,
            fault: None,
            group: None,
            said: VecDeque::new(),
            is_said: false,
        };
        let heard_ns = Arc::new(AtomicU64::new(clock::now_ns()));
        let shared = Arc::new(Shared { known: Mutex::new(known), changed: Condvar::new(), heard_ns });
        let (sender, started) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let run = move || run(command, &of_thread, &sender);
        thread::Builder::new().name("link".into()).stack_size(STACK).spawn(run)?;
        let (stdin, stderr) = started.recv().map_err(|_| io::Error::other("its thread ended"))??;
        Self::attend(&shared, stdin, stderr, beat).inspect_err(|_| shared.kill())
    }

    fn attend(
        shared: &Arc<Shared<T>>,
        stdin: ChildStdin,
        stderr: ChildStderr,
        beat: Option<&'static [u8]>,
    ) -> io::Result<Self> {
        let of_thread = Arc::clone(shared);
        let keep = move || keep_said(&of_thread, stderr);
        thread::Builder::new().name("stderr".into()).stack_size(STACK).spawn(keep)?;
        let (outbox, _) = Outbox::start(stdin, beat)?;
        Ok(Self { shared: Arc::clone(shared), outbox })
    }
}

impl<T> Remote<T> {
    /// The queue of bytes to it.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Queues a line. Never waits.
    pub(crate) fn send(&self, line: Vec<u8>) -> Result<(), Unsent> {
        self.outbox.send(line)
    }

    /// Looks at what is known now.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut ProgramState<T>) -> R) -> R {
        look(&mut self.shared.lock())
    }

    /// Looks at what is known whenever that changes, until `look` finds something. `None` from `until` on.
    pub(crate) fn wait_for<R>(
        &self,
        until: Instant,
        mut look: impl FnMut(&mut ProgramState<T>) -> Option<R>,
    ) -> Option<R> {
        let mut known = self.shared.lock();
        loop {
            if let Some(found) = look(&mut known) {
                return Some(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for its last lines, if it has ended.
    pub(crate) fn last_words(&self) -> Vec<String> {
        let until = Instant::now() + LAST_WORDS;
        self.wait_for(until, |known| (known.is_said || !known.is_over).then_some(()));
        self.look(|known| known.said())
    }

    /// The time since bytes came last.
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.shared.heard_ns.load(Relaxed)))
    }
}

impl<T> Drop for Remote<T> {
    fn drop(&mut self) {
        self.outbox.close();
        self.shared.kill();
        self.wait_for(Instant::now() + GONE_WITHIN, |known| known.is_over.then_some(()));
    }
}

/// The life of the program. The kernel kills it when this thread ends.
fn run<T: Collects>(
    mut command: Command,
    shared: &Shared<T>,
    started: &Sender<io::Result<(ChildStdin, ChildStderr)>>,
) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let spawned = process::tie(&mut command).spawn();
    drop(command);
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            // The receiver waits for this.
            let _ = started.send(Err(error));
            return;
        }
    };
    shared.lock().group = Some(child.id());
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    if let (Some(stdin), Some(stdout), Some(stderr)) = pipes
        && started.send(Ok((stdin, stderr))).is_ok()
    {
        collect(shared, stdout);
    }
    let exit = reap(shared, &mut child);
    let mut known = shared.lock();
    known.exit = exit;
    known.is_over = true;
    drop(known);
    shared.changed.notify_all();
}

/// Takes lines until they end or one is wrong.
fn collect<T: Collects>(shared: &Shared<T>, stdout: ChildStdout) {
    let mut lines = Lines::new(stdout, Arc::clone(&shared.heard_ns));
    loop {
        let most = shared.lock().collected.line_most();
        let fault = match lines.next(most) {
            Ok(None) => return,
            Err(error) => error.to_string(),
            Ok(Some(line)) => {
                let mut known = shared.lock();
                let taken = known.collected.take(line, shared.heard_ns.load(Relaxed));
                match taken {
                    Ok(LineKind::Noise) => known.say(line),
                    Ok(LineKind::Text(text)) => known.say(text.as_bytes()),
                    Ok(LineKind::Message) => {}
                    Err(fault) => {
                        known.fault = Some(fault);
                        drop(known);
                        shared.kill();
                        return;
                    }
                }
                drop(known);
                shared.changed.notify_all();
                continue;
            }
        };
        shared.lock().fault = Some(fault);
        shared.kill();
        return;
    }
}

/// Waits for the end of a program that closed its output, and kills it if it goes on.
fn reap<T>(shared: &Shared<T>, child: &mut Child) -> Option<ExitStatus> {
    let ended = Instant::now();
    loop {
        let mut known = shared.lock();
        match child.try_wait() {
            Ok(None) => {}
            // From here on the number may be that of another process.
            status => {
                known.group = None;
                return status.ok().flatten();
            }
        }
        drop(known);
        if ended.elapsed() > LINGER {
            shared.kill();
        }
        if ended.elapsed() > LINGER + PATIENCE {
            return None;
        }
        thread::sleep(LOOK);
    }
}

/// Keeps the last lines of standard error.
fn keep_said<T>(shared: &Shared<T>, mut stderr: ChildStderr) {
    let mut chunk = [0; 4096];
    let mut line = Vec::new();
    loop {
        let count = match stderr.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for &byte in &chunk[..count] {
            match byte {
                b'\n' => {
                    shared.lock().say(&line);
                    line.clear();
                }
                // The rest of a line without an end is left out.
                _ if line.len() == SAID_BYTES => {}
                _ => line.push(byte),
            }
        }
    }
    let mut known = shared.lock();
    known.say(&line);
    known.is_said = true;
    drop(known);
    shared.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps lines, and takes `bad` for wrong.
    #[derive(Debug, Default)]
    struct Kept(Vec<String>);

    impl Collects for Kept {
        fn take(&mut self, line: &[u8], _: u64) -> Result<LineKind, String> {
            match String::from_utf8_lossy(line).into_owned() {
                line if line == "bad" => Err("it was bad".into()),
                line if line.starts_with('#') => Ok(LineKind::Noise),
                line => {
                    self.0.push(line);
                    Ok(LineKind::Message)
                }
            }
        }

        fn line_most(&self) -> usize {
            100
        }
    }

    fn shell(script: &str) -> Remote<Kept> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Remote::start(command, Kept::default(), None).unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn over<T>(remote: &Remote<T>) -> Option<ExitStatus> {
        remote.wait_for(soon(), |known| known.is_over.then_some(known.exit)).unwrap()
    }

    #[test]
    fn lines_words_and_the_end_are_known() {
        let remote = shell("read line; echo \"$line\"; echo '#noise'; echo words >&2; printf cut; exit 3");
        remote.send(b"hello\n".to_vec()).unwrap();
        assert_eq!(over(&remote).and_then(|exit| exit.code()), Some(3));
        let mut said = remote.last_words();
        said.sort();
        assert_eq!(said, ["#noise", "words"]);
        assert_eq!(remote.look(|known| known.collected.0.clone()), ["hello"]);
        assert!(remote.silence() < Duration::from_secs(20));
    }

    #[test]
    fn a_wrong_line_ends_the_program() {
        for (script, fault) in [
            ("echo bad; exec sleep 60", "it was bad"),
            ("exec cat /dev/zero", "a line of more than 100 bytes"),
        ] {
            let remote = shell(script);
            assert_eq!(over(&remote).and_then(|exit| exit.code()), None, "{script}");
            assert_eq!(remote.look(|known| known.fault.clone()).as_deref(), Some(fault));
        }
    }

    #[test]
    fn a_program_that_closed_its_output_is_not_waited_for_without_a_limit() {
        let remote = shell("exec >&-; exec sleep 60");
        assert_eq!(over(&remote).and_then(|exit| exit.code()), None);
    }

    #[test]
    fn dropping_kills_the_program_and_all_that_it_started() {
        let remote = shell("sleep 60 & echo $!; wait");
        let sleeper = remote.wait_for(soon(), |known| known.collected.0.first().cloned()).unwrap();
        drop(remote);
        let deadline = soon();
        // A killed process whose parent is gone waits a moment for init.
        let lives = || {
            let stat = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while lives() {
            assert!(Instant::now() < deadline);
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn the_program_outlives_the_thread_that_started_it() {
        let remote = thread::spawn(|| shell("read line; echo \"$line\"; sleep 60")).join().unwrap();
        remote.send(b"late\n".to_vec()).unwrap();
        let line = remote.wait_for(soon(), |known| known.collected.0.first().cloned());
        assert_eq!(line.as_deref(), Some("late"));
    }

    #[test]
    fn only_the_last_words_are_kept() {
        let script =
            "i=0; while [ $i -lt 30 ]; do echo word$i >&2; i=$((i+1)); done; head -c 5000 /dev/zero >&2";
        let remote = shell(script);
        over(&remote);
        let said = remote.last_words();
        assert_eq!((said.len(), said[18].as_str()), (SAID_LINES, "word29"));
        assert_eq!(said[19].len(), SAID_BYTES);
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let command = Command::new("/nonexistent/ssh");
        let error = Remote::start(command, Kept::default(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
