//! A server that runs for a test.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use kqps_kernel::poll::PollSet;
use kqps_kernel::process::{Signal, signal};
use kqps_server::Report;
use serde_json::Value;

use super::PATIENCE;

/// A running server. It is killed when the test drops it.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// The line that it printed when it could answer.
    pub(crate) ready: Value,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_as("echo", arguments)
    }

    pub(crate) fn start_as(kind: &str, arguments: &[&str]) -> Self {
        Self::from_child(serve_as(kind, arguments).arg("--json").stderr(Stdio::piped()).spawn().unwrap())
    }

    /// A server that was started with `--json`, once it can answer.
    pub(crate) fn from_child(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, lines, addresses: Vec::new(), ready: Value::Null };
        let Some(ready) = running.next_line() else {
            panic!("no ready line: {}", running.end().1);
        };
        assert_eq!(ready["kind"], "ready");
        running.addresses = serde_json::from_value(ready["addresses"].clone()).unwrap();
        running.ready = ready;
        running
    }

    /// Its worker processes, in order.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let parent = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
        children.split_whitespace().map(|child| child.parse().unwrap()).collect()
    }

    /// The next line of stdout; `None` when it has ended.
    pub(crate) fn next_line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).ok()
    }

    /// The next line of stderr.
    pub(crate) fn next_error(&mut self) -> String {
        let stderr = self.child.stderr.as_mut().unwrap();
        let mut heard = PollSet::new([&*stderr]);
        let mut errors = BufReader::new(stderr);
        loop {
            let is_said = !errors.buffer().is_empty() || heard.wait(PATIENCE.as_nanos() as u64).unwrap();
            assert!(is_said, "it says nothing");
            let mut line = String::new();
            errors.read_line(&mut line).unwrap();
            if !is_about_buffers(&line) {
                return line;
            }
        }
    }

    /// Stops it by a signal that leaves stderr empty, and returns its counts.
    pub(crate) fn stop(self, how: Signal) -> Report {
        let (report, errors) = self.stop_saying(how);
        assert_eq!(errors, "");
        report
    }

    /// Stops it by a signal, and returns its counts and its stderr.
    pub(crate) fn stop_saying(mut self, how: Signal) -> (Report, String) {
        signal(self.child.id(), how).unwrap();
        let report = self.report();
        let (status, errors) = self.end();
        assert!(status.success(), "{status}: {errors}");
        (report, errors)
    }

    /// The counts that it prints at its end.
    pub(crate) fn report(&mut self) -> Report {
        serde_json::from_value(self.next_line().unwrap()).unwrap()
    }

    /// Waits for its end. Returns its status and stderr.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let errors = errors.split_inclusive('\n').filter(|line| !is_about_buffers(line)).collect();
        (self.child.wait().unwrap(), errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A server that is killed leaves the issuer of its certificate behind.
        let _ = self.ready["ca"].as_str().map(std::fs::remove_file);
    }
}

/// Whether a line warns of buffers smaller than the default. A host that limits buffers causes this warning
/// if the tests lack the privilege to exceed the limit.
fn is_about_buffers(line: &str) -> bool {
    line.starts_with("kqps: warning: --") && line.contains(" buffers have ")
}

pub(crate) fn serve(arguments: &[&str]) -> Command {
    serve_as("echo", arguments)
}

pub(crate) fn serve_as(kind: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["serve", kind]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}
