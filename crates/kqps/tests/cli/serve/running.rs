//! A server that runs for a test.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use kqps_kernel::process::{Signal, signal};
use kqps_server::Report;

/// A server that is running; killed when the test forgets it.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = serve(arguments).arg("--json").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let Ok(ready) = serde_json::from_str::<serde_json::Value>(&line) else {
            panic!("no ready line from {arguments:?}: {}", Self { child, lines, addresses: vec![] }.end().1);
        };
        assert_eq!(ready["kind"], "ready");
        let addresses = serde_json::from_value(ready["addresses"].clone()).unwrap();
        Self { child, lines, addresses }
    }

    /// Stops it by a signal, and returns what it counted.
    pub(crate) fn stop(mut self, how: Signal) -> Report {
        signal(self.child.id(), how).unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let (status, errors) = self.end();
        assert!(status.success(), "{status}: {errors}");
        assert_eq!(errors, "");
        serde_json::from_str(&line).unwrap()
    }

    /// Waits for its end; its status and what it said on stderr.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap(), errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn serve(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["serve", "echo"]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}
