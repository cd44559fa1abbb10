//! Runs both programs with one command line, each at a server of its own that is alike.

use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kqps_kernel::process::signal;
use tempfile::TempDir;

use super::heard;
use super::peer::{Answer, Peer, Query};
use super::theirs::Theirs;
use crate::load::bench::{kqps, words};

/// The longest time for the first queries to arrive.
const PATIENCE: Duration = Duration::from_mins(1);

/// Their dnsperf, and a folder with input for both programs.
pub(super) struct Both {
    pub(super) theirs: Theirs,
    folder: TempDir,
}

/// The end of a run: its status and its output, with the queries that the server got.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) status: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
    pub(super) heard: Vec<Query>,
}

impl Run {
    /// The source ports, and their number.
    pub(super) fn ports(&self) -> usize {
        self.sources().len()
    }

    pub(super) fn sources(&self) -> Vec<String> {
        heard::sources(&self.heard)
    }
}

impl Both {
    /// `None` without dnsperf, which is reported as a skip.
    pub(super) fn new() -> Option<Self> {
        Theirs::find().map(|theirs| {
            let folder = tempfile::tempdir().unwrap();
            let lines: Vec<String> = (0..20).map(|number| format!("n{number}.example.test A\n")).collect();
            std::fs::write(folder.path().join("queries"), lines.concat()).unwrap();
            let mut binary = Vec::new();
            for number in 0..20 {
                let message =
                    [&[0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &[1, b'a' + number, 0, 0, 16, 0, 3]].concat();
                binary.extend((message.len() as u16).to_be_bytes());
                binary.extend(message);
            }
            // A packet that is no message.
            binary.extend(*b"\0\x07garbage");
            std::fs::write(folder.path().join("binary"), binary).unwrap();
            Self { theirs, folder }
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes another input.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(super) fn theirs(&self, answer: Answer, flags: &str) -> Run {
        self.run(true, answer, flags)
    }

    pub(super) fn ours(&self, answer: Answer, flags: &str) -> Run {
        self.run(false, answer, flags)
    }

    /// A run at a server that answers so. It is at 127.0.0.1 unless the flags have `::1`.
    pub(super) fn run(&self, is_theirs: bool, answer: Answer, flags: &str) -> Run {
        let is_v6 = flags.contains("-s ::1");
        let address = if is_v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let peer = Peer::at(address, answer);
        let file = if flags.split(' ').any(|flag| flag == "-B") { "binary" } else { "queries" };
        let has_file = flags.split(' ').any(|flag| flag == "-d");
        let usual = if has_file { String::new() } else { format!("-d {file}") };
        let output = self.command(is_theirs, &format!("{} {usual} {flags}", at(&peer))).output().unwrap();
        ended(&output, peer)
    }

    /// A run whose input is this text on a pipe.
    pub(super) fn piped(&self, is_theirs: bool, answer: Answer, flags: &str, text: &[u8]) -> Run {
        let peer = Peer::at(Ipv4Addr::LOCALHOST.into(), answer);
        let mut command = self.command(is_theirs, &format!("{} {flags}", at(&peer)));
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text).unwrap();
        ended(&child.wait_with_output().unwrap(), peer)
    }

    /// A run that gets SIGINT after some queries, at a server that answers none.
    pub(super) fn interrupted(&self, is_theirs: bool, flags: &str) -> Run {
        let peer = Peer::at(Ipv4Addr::LOCALHOST.into(), Answer::None);
        let mut command = self.command(is_theirs, &format!("{} -d queries {flags}", at(&peer)));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while peer.count() < 3 {
            assert!(Instant::now() < deadline, "no query came");
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(child.id(), kqps_kernel::process::Signal::Interrupt).unwrap();
        ended(&child.wait_with_output().unwrap(), peer)
    }

    /// A run of ours that gets SIGINT when its lines have filled the pipe. They are read once no query comes any more.
    pub(super) fn blocked(&self, flags: &str) -> Run {
        // A pipe holds 64 KiB, and a line of `-v` has 30 bytes at least.
        const FILLED: usize = 3_000;
        let peer = Peer::at(Ipv4Addr::LOCALHOST.into(), Answer::Echo);
        let mut command = self.command(false, &format!("{} -d queries {flags}", at(&peer)));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let until = |what: &str, is_so: &dyn Fn() -> bool| {
            let deadline = Instant::now() + PATIENCE / 3;
            while !is_so() {
                assert!(Instant::now() < deadline, "{what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        until("the pipe is not full", &|| peer.count() > FILLED);
        signal(child.id(), kqps_kernel::process::Signal::Interrupt).unwrap();
        until("queries go on", &|| {
            let before = peer.count();
            std::thread::sleep(Duration::from_millis(300));
            peer.count() == before
        });
        ended(&child.wait_with_output().unwrap(), peer)
    }

    /// The command of a program with these words, which have no quotes.
    pub(super) fn command(&self, is_theirs: bool, line: &str) -> Command {
        let mut command = if is_theirs { Command::new(&self.theirs.path) } else { kqps(&["dnsperf"]) };
        command.args(line.split_whitespace()).stdin(Stdio::null());
        command.current_dir(self.folder.path()).env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command
    }
}

/// The flags for a server. A later -s has another address.
fn at(peer: &Peer) -> String {
    format!("-s 127.0.0.1 -p {}", peer.port())
}

fn ended(output: &Output, peer: Peer) -> Run {
    let (out, err) = words(output);
    Run { status: output.status.code(), out, err, heard: peer.end() }
}
