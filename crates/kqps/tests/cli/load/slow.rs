//! `kqps load` at servers whose replies take their time, and what it says about that.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use super::bench::{Bench, words};
use crate::python;

/// The server of `tests/python/slow_server.py`, which ends when its input is closed.
struct Slow {
    child: Child,
    target: String,
}

impl Slow {
    /// `None` without Python, which is reported as a skip.
    #[track_caller]
    fn start(arguments: &[&str]) -> Option<Self> {
        let mut child = python::script("slow_server.py", "asyncio")?.args(arguments).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Some(Self { child, target: format!("tcp://127.0.0.1:{}", port.trim()) })
    }

    /// The output of a load.
    fn load(&self, flags: &[&str]) -> String {
        words(&Bench::new().load_of(&self.target, &[flags, &["-t", "10s"]].concat()).output().unwrap()).0
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn replies_that_wait_for_a_delayed_acknowledgement_are_explained() {
    let Some(server) = Slow::start(&["0", "nagle"]) else { return };
    // Each query follows a reply, so the kernel expects to send something with its acknowledgement.
    let printed = server.load(&["-c", "1", "-q", "1", "-l", "2s"]);
    assert!(printed.contains("delayed-ack: ") && printed.contains("TCP_NODELAY"), "{printed}");
}

#[test]
fn a_load_that_has_too_few_connections_says_so() {
    let Some(server) = Slow::start(&["100"]) else { return };
    let each = ["--queries-per-connection", "1", "-Q", "200", "-l", "1s"];
    let printed = server.load(&[&each[..], &["-c", "2"]].concat());
    assert!(printed.contains("few-places: ") && printed.contains("all 2 connections"), "{printed}");
    // The usual number suffices for more than a second.
    let printed = server.load(&each);
    assert!(printed.contains(", 256 connections") && !printed.contains("few-places: "), "{printed}");
}
