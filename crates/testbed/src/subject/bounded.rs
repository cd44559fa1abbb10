//! Runs programs that must end: for the version of a server, or for a signed zone. A program that does not end
//! in time is killed with all that it started.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use kqps_kernel::process;

use super::remains::{self, Remains};

/// The most bytes that are stored of each output stream.
const KEPT_BYTES: u64 = 1 << 20;

/// The interval at which the program's end is checked.
const LOOK: Duration = Duration::from_millis(5);

/// The longest wait for the rest of the output after the program ended: one of its children may hold the pipe.
const PATIENCE: Duration = Duration::from_millis(500);

/// Why a program has no output.
#[derive(Debug, thiserror::Error)]
pub enum Unended {
    /// It could not be started, or not be waited for.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It did not end within this time, and was killed.
    #[error("it did not end within {:.0?} and was killed", .0)]
    TooLong(Duration),
}

/// Runs a program to its end, which must come within `limit`; `None` for no limit.
pub fn output(command: &mut Command, limit: Option<Duration>) -> Result<Output, Unended> {
    let mark = unique_mark();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env(remains::MARK, &mark);
    process::tie(command);
    let mut child = command.spawn()?;
    let remains = Remains::new(child.id(), &mark);
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Some(limit) = limit.filter(|&limit| began.elapsed() >= limit) {
            remains.kill();
            child.wait()?;
            return Err(Unended::TooLong(limit));
        }
        std::thread::sleep(LOOK);
    };
    let received = |pipe: &Receiver<Vec<u8>>| pipe.recv_timeout(PATIENCE).ok();
    let (stdout, stderr) = match (received(&stdout), received(&stderr)) {
        (Some(stdout), Some(stderr)) => (stdout, stderr),
        (out, error) => {
            // A child that outlives the program is of no use.
            remains.kill();
            (
                out.or_else(|| received(&stdout)).unwrap_or_default(),
                error.or_else(|| received(&stderr)).unwrap_or_default(),
            )
        }
    };
    Ok(Output { status, stdout, stderr })
}

/// A mark that identifies all processes that one program starts. There is no such folder.
fn unique_mark() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("/nowhere/kqps-{}-{number}", std::process::id()))
}

/// Reads a pipe to its end in another thread, so that no pipe fills up, and stores the beginning.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // After an error, the bytes so far are all that there is.
            let _ = pipe.by_ref().take(KEPT_BYTES).read_to_end(&mut bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        // The receiver may have given up.
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_ends_is_heard_to_the_end() {
        let output = output(&mut sh("echo out; echo err >&2; exit 3"), Some(Duration::from_mins(1))).unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn what_does_not_end_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pids = folder.path().join("pids");
        let script = format!("setsid sleep 600 & echo $! $$ > {}; sleep 600", pids.display());
        let ended = output(&mut sh(&script), Some(Duration::from_millis(500)));
        assert!(matches!(ended, Err(Unended::TooLong(_))), "{ended:?}");
        for pid in std::fs::read_to_string(pids).unwrap().split_whitespace() {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            assert!(stat.is_empty() || stat.contains(") Z "), "{pid} lives: {stat}");
        }
    }

    #[test]
    fn what_it_leaves_behind_does_not_keep_its_answer_back() {
        let output = output(&mut sh("setsid sleep 600 & echo done"), Some(Duration::from_mins(1))).unwrap();
        assert_eq!(output.stdout, b"done\n");
    }
}
