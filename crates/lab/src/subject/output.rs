//! What a child prints: kept in a file of bounded size, with the last lines at hand for error messages. A
//! server that logs a flood can fill no disk, and never blocks on a full pipe.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of output that are kept in the file.
const KEPT_BYTES: usize = 256 * 1024;
/// Lines that are kept at hand.
const LAST_LINES: usize = 12;
/// A longer line is cut.
const LINE_BYTES: u64 = 4096;
/// How long the end of the output is waited for once its child is gone.
const PATIENCE: Duration = Duration::from_millis(500);

/// The output of one child, collected by a thread until all who hold the pipe have closed it.
#[derive(Debug)]
pub struct Output {
    last: Arc<Mutex<VecDeque<String>>>,
    /// Hangs up when the collector is done.
    done: Receiver<()>,
}

impl Output {
    /// Collects what comes through `pipe` into the file at `path`.
    pub fn collect(pipe: PipeReader, path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let theirs = Arc::clone(&last);
        let (hang_up, done) = mpsc::channel();
        std::thread::Builder::new().name("kqps-output".into()).spawn(move || {
            collect(BufReader::new(pipe), file, &theirs);
            drop(hang_up);
        })?;
        Ok(Self { last, done })
    }

    /// The last lines. Waits until the pipe is closed, but not for ever: a process that left its group may
    /// hold it open.
    pub fn last_lines(&self) -> Vec<String> {
        let _ = self.done.recv_timeout(PATIENCE);
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn collect(mut pipe: BufReader<PipeReader>, mut file: File, last: &Mutex<VecDeque<String>>) {
    let mut room = KEPT_BYTES;
    let mut line = Vec::new();
    // Reading goes on after the file is full or its disk is: the child must never wait for us.
    while matches!(pipe.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
        if room > 0 {
            let kept = &line[..line.len().min(room)];
            room = if file.write_all(kept).is_ok() { room - kept.len() } else { 0 };
            if room == 0 {
                let _ = file.write_all(b"\n(more was printed, and not kept)\n");
            }
        }
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_string());
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_bounded_and_its_last_lines_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let (reader, mut writer) = io::pipe().unwrap();
        let output = Output::collect(reader, &path).unwrap();
        for number in 0..100_000 {
            writeln!(writer, "line {number}").unwrap();
        }
        drop(writer);
        let last = output.last_lines();
        assert_eq!(last.len(), LAST_LINES);
        assert_eq!(last.last().unwrap(), "line 99999");
        let kept = std::fs::read(&path).unwrap();
        assert!(kept.len() < KEPT_BYTES + 100, "{}", kept.len());
        assert!(kept.ends_with(b"(more was printed, and not kept)\n"));
    }
}
