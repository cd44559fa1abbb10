//! The output of a child. Its beginning and its end are stored in a file of bounded size, and its last lines
//! are available for error messages. A server that logs a flood can neither fill the disk nor block on a full
//! pipe.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes that are stored of the beginning, and as many of the end.
const HALF_BYTES: usize = 512 * 1024;
/// Bytes that are read at once: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;
/// The number of last lines that are available.
const LAST_LINES: usize = 12;
/// The most bytes of a line; a longer line is cut.
const LINE_BYTES: usize = 4096;
/// The longest wait for the end of the output after the child ended.
const PATIENCE: Duration = Duration::from_millis(500);

/// The output of one child. A thread collects it until every process that holds the pipe has closed it.
#[derive(Debug)]
pub struct SubjectOutput {
    end: Arc<Mutex<End>>,
    /// Closed when the collector ends.
    done: Receiver<()>,
}

/// The last [`HALF_BYTES`] of the output.
#[derive(Debug, Default)]
struct End {
    bytes: VecDeque<u8>,
    printed: u64,
}

impl SubjectOutput {
    /// Collects the output from `pipe` into the file at `path`. The end of a long output is written when the
    /// pipe is closed.
    pub fn collect(pipe: PipeReader, path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let end = Arc::new(Mutex::new(End::default()));
        let theirs = Arc::clone(&end);
        let (hang_up, done) = mpsc::channel();
        std::thread::Builder::new().name("kqps-output".into()).spawn(move || {
            collect(pipe, file, &theirs);
            drop(hang_up);
        })?;
        Ok(Self { end, done })
    }

    /// The last lines. Waits a short time for the end of the pipe: a process that can no longer be found may
    /// hold it open.
    pub fn last_lines(&self) -> Vec<String> {
        let _ = self.done.recv_timeout(PATIENCE);
        self.end.lock().unwrap_or_else(PoisonError::into_inner).lines()
    }
}

fn collect(mut pipe: PipeReader, mut file: File, end: &Mutex<End>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut room = HALF_BYTES;
    // Reading goes on after the disk is full: the child must never block.
    while let Ok(length @ 1..) = pipe.read(&mut chunk) {
        let kept = length.min(room);
        room -= kept;
        let _ = file.write_all(&chunk[..kept]);
        end.lock().unwrap_or_else(PoisonError::into_inner).add(&chunk[..length]);
    }
    let end = end.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = end.write_after_beginning(&mut file);
}

impl End {
    fn add(&mut self, bytes: &[u8]) {
        self.printed += bytes.len() as u64;
        self.bytes.extend(bytes);
        self.bytes.drain(..self.bytes.len().saturating_sub(HALF_BYTES));
    }

    /// Writes the part that is not in the beginning, after a line that states how much was left out between.
    fn write_after_beginning(&self, file: &mut File) -> io::Result<()> {
        let after_beginning = self.printed.saturating_sub(HALF_BYTES as u64);
        let kept = after_beginning.min(self.bytes.len() as u64);
        if after_beginning > kept {
            writeln!(file, "\n({} bytes were printed here, and not kept)", after_beginning - kept)?;
        }
        let (front, back) = self.bytes.as_slices();
        let skip = self.bytes.len() - kept as usize;
        file.write_all(&front[skip.min(front.len())..])?;
        file.write_all(&back[skip.saturating_sub(front.len())..])
    }

    fn lines(&self) -> Vec<String> {
        let far = self.bytes.len().saturating_sub(LAST_LINES * LINE_BYTES);
        let bytes: Vec<u8> = self.bytes.iter().skip(far).copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let cut = |line: &&str| line[..line.floor_char_boundary(LINE_BYTES)].trim_end().to_string();
        lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored output, and its last lines.
    fn kept(print: impl FnOnce(&mut io::PipeWriter)) -> (String, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let (reader, mut writer) = io::pipe().unwrap();
        let output = SubjectOutput::collect(reader, &path).unwrap();
        print(&mut writer);
        drop(writer);
        let last = output.last_lines();
        (std::fs::read_to_string(&path).unwrap(), last)
    }

    #[test]
    fn a_flood_is_bounded_and_both_its_ends_are_kept() {
        let (text, last) = kept(|pipe| {
            for number in 0..200_000 {
                writeln!(pipe, "line {number:06}").unwrap();
            }
        });
        assert_eq!(last.len(), LAST_LINES);
        assert_eq!(last.last().unwrap(), "line 199999");
        assert!(text.starts_with("line 000000\nline 000001\n"));
        assert!(text.ends_with("line 199998\nline 199999\n"));
        let left_out = 200_000 * 12 - 2 * HALF_BYTES;
        let note = format!("\n({left_out} bytes were printed here, and not kept)\n");
        assert!(text.contains(&note));
        assert_eq!(text.len(), 2 * HALF_BYTES + note.len());
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let printed = "0123456789\n".repeat(80_000);
        let (text, last) = kept(|pipe| pipe.write_all(printed.as_bytes()).unwrap());
        assert!(text == printed, "{} bytes instead of {}", text.len(), printed.len());
        assert_eq!(last, vec!["0123456789"; LAST_LINES]);
        let (text, last) = kept(|pipe| write!(pipe, "one\ntwo").unwrap());
        assert_eq!((text.as_str(), last), ("one\ntwo", vec!["one".to_string(), "two".to_string()]));
    }
}
