//! Commands that the guest's shell runs, and what they print. They go over a serial port, one line each.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kqps_kernel::namespace::{NetNs, enter};
use kqps_kernel::process::tie;

/// The time within which everything must be proved. Emulation on a busy host is slow.
const WITHIN: Duration = Duration::from_hours(1);

/// The mark before a command's status, on the last line of its reply.
const STATUS: &str = "@@@ ";

/// The lines of each log that are shown after a failure.
const LINES_SHOWN: usize = 400;

/// The output of a command, and its status.
pub(super) struct Reply {
    pub(super) status: i32,
    pub(super) text: String,
}

/// A guest that runs. Dropping it ends QEMU.
pub(super) struct Guest {
    qemu: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    until: Instant,
    folder: PathBuf,
    /// All commands and replies.
    said: String,
}

impl Guest {
    /// Starts QEMU in a network of its own and in a folder, and waits until the guest's shell takes commands.
    pub(super) fn boot(mut command: Command, folder: &Path) -> Result<Self> {
        let until = Instant::now() + WITHIN;
        let network = NetNs::new().context("a network namespace for the guest's tap device")?;
        let errors = fs::File::create(folder.join("qemu.log"))?;
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut qemu = tie(enter(&mut command, &network)?).spawn().context("cannot start QEMU")?;
        let output = qemu.stdout.take().context("standard output is piped")?;
        let input = qemu.stdin.take().context("standard input is piped")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let mut guest = Self { qemu, input, lines, until, folder: folder.to_owned(), said: String::new() };
        let began = Instant::now();
        if let Err(error) = guest.reply() {
            eprintln!("{}", guest.log());
            return Err(error.context("the guest does not start"));
        }
        eprintln!("the guest runs after {:.1} s", began.elapsed().as_secs_f64());
        Ok(guest)
    }

    /// Runs a line of shell commands.
    pub(super) fn run(&mut self, words: &str) -> Result<Reply> {
        ensure!(!words.contains('\n'), "a command is one line");
        let _ = writeln!(self.said, "$ {words}");
        writeln!(self.input, "{words}").context("QEMU takes no more input")?;
        self.reply().with_context(|| words.to_owned())
    }

    /// Runs a line of shell commands that must succeed, and returns what it printed.
    pub(super) fn read(&mut self, words: &str) -> Result<String> {
        let Reply { status, text } = self.run(words)?;
        ensure!(status == 0, "{words}: status {status}: {}", text.trim());
        Ok(text)
    }

    /// Checks the output of a command, apart from the number of blanks between words.
    pub(super) fn shows(&mut self, words: &str, wanted: &str) -> Result<()> {
        let text = self.read(words)?;
        let found = text.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(found == wanted, "{words}: expected {wanted:?}, found {found:?}");
        Ok(())
    }

    fn reply(&mut self) -> Result<Reply> {
        let mut text = String::new();
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => bail!("it took more than {} min", WITHIN.as_secs() / 60),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            };
            let line = line.trim_end_matches('\r');
            let _ = writeln!(self.said, "{line}");
            if let Some(status) = line.strip_prefix(STATUS) {
                let status = status.parse().with_context(|| format!("{status} is no status"))?;
                return Ok(Reply { status, text });
            }
            text += line;
            text += "\n";
        }
    }

    fn ended(&mut self) -> anyhow::Error {
        let status = self.qemu.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        anyhow!("QEMU ended: {status}")
    }

    /// The last lines of the guest's console, of QEMU's errors, and of the commands and their replies.
    pub(super) fn log(&self) -> String {
        let file = |name: &str| {
            fs::read(self.folder.join(name)).map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        let texts = [
            ("The guest's console", file("console.log").unwrap_or_default()),
            ("QEMU", file("qemu.log").unwrap_or_default()),
            ("Commands", self.said.clone()),
        ];
        texts.map(|(title, text)| format!("{title}:\n{}", last(&text))).join("\n")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Both fail if it has ended, and then there is nothing left to do.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// The last lines of a text.
fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}
