//! The program with lines on its standard input: what it answers, and that nothing is left when the lines end.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kqps_host::fingerprint;
use kqps_kernel::process::{self, Signal};
use kqps_observation::SCHEMA;
use kqps_remote::agent::{Done, Job};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{GONE_WITHIN, assert_gone, facts, folders, materials, play, start};

/// An agent that a test controls. A thread sends a line each second, as a controller does.
struct Controlled {
    child: Child,
    said: Arc<Mutex<Option<ChildStdin>>>,
    answers: BufReader<ChildStdout>,
    asked: u64,
    home: TempDir,
}

impl Controlled {
    /// Starts an agent, and says hello.
    fn new(role: &str) -> (Self, Value) {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        command.arg("agent").env("XDG_CACHE_HOME", home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(child.stdin.take()));
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut agent = Self { child, said: Arc::clone(&said), answers, asked: 0, home };
        let program = fingerprint::binary(Path::new(env!("CARGO_BIN_EXE_kqps")));
        let identity = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "schema": SCHEMA,
            "blake3": program.blake3.unwrap(),
            "arch": std::env::consts::ARCH,
        });
        let targets = ["127.0.0.1"];
        agent.say(&json!({"hello": {"identity": identity, "targets": targets, "role": role, "name": "h1"}}));
        let hello = agent.answer("hello");
        std::thread::spawn(move || {
            while is_alive(&said) {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        (agent, hello)
    }

    fn cache(&self) -> PathBuf {
        self.home.path().join("kqps")
    }

    fn say(&self, line: &Value) {
        let mut said = self.said.lock().unwrap();
        writeln!(said.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line of a kind.
    fn answer(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "it ended before it said {kind}");
            let mut line: Value = serde_json::from_str(&line).unwrap();
            if let Some(found) = line.get_mut(kind) {
                return found.take();
            }
        }
    }

    fn ask(&mut self, job: &Job) {
        self.asked += 1;
        self.say(&json!({"ask": {"id": self.asked, "job": job}}));
    }

    /// The result of a job that must succeed.
    fn done(&mut self, job: &Job) -> Done {
        self.ask(job);
        let mut done = self.answer("done");
        assert_eq!(done["id"], self.asked);
        assert!(done.get("error").is_none(), "{done}");
        serde_json::from_value(done["ok"].take()).unwrap()
    }

    /// Ends the lines, as the end of a controller or of its connection does.
    fn hang_up(&self) -> Instant {
        *self.said.lock().unwrap() = None;
        Instant::now()
    }

    /// The processes that it started and that run.
    fn children(&self) -> Vec<u32> {
        let pid = self.child.id();
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        list.split_whitespace().map(|child| child.parse().unwrap()).collect()
    }
}

/// Says that the controller lives. Returns whether the agent still reads its lines.
fn is_alive(said: &Mutex<Option<ChildStdin>>) -> bool {
    let mut said = said.lock().unwrap();
    said.as_mut().is_some_and(|stdin| stdin.write_all(b"{\"alive\":{}}\n").is_ok())
}

impl Drop for Controlled {
    fn drop(&mut self) {
        self.hang_up();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_says_who_it_is_works_jobs_and_ends_when_it_is_asked() {
    let (mut agent, hello) = Controlled::new("player");
    assert_eq!(hello["pid"], agent.child.id());
    assert_eq!(hello["identity"]["version"], env!("CARGO_PKG_VERSION"));
    agent.say(&json!({"ping": {"id": 5}}));
    let pong = agent.answer("pong");
    assert_eq!(pong["id"], 5);
    assert!(pong["at_ns"].as_u64().unwrap() <= kqps_kernel::clock::now_ns());
    let Done::Facts { topology, .. } = agent.done(&facts()) else { panic!() };
    assert!(!topology.cores.is_empty());
    agent.ask(&play("192.0.2.1:53", 1.0, 1.0, None));
    let refused = agent.answer("done");
    assert!(refused["error"].as_str().unwrap().contains("192.0.2.1 is none of the targets"), "{refused}");
    assert_eq!(folders(&agent.cache()).len(), 1);
    let since = Instant::now();
    agent.say(&json!({"end": {}}));
    assert!(agent.child.wait().unwrap().success());
    assert_gone(&[], &agent.cache(), since);
}

#[test]
fn the_end_of_the_lines_ends_a_load() {
    let (mut agent, _) = Controlled::new("player");
    agent.done(&materials());
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    target.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    agent.ask(&play(&target.local_addr().unwrap().to_string(), 1000.0, 300.0, None));
    target.recv(&mut [0; 512]).expect("a query of the load");
    let children = agent.children();
    assert!(!children.is_empty());
    let since = agent.hang_up();
    agent.child.wait().unwrap();
    assert_gone(&children, &agent.cache(), since);
}

#[test]
fn an_agent_that_is_killed_leaves_no_subject_and_no_file() {
    let (mut agent, _) = Controlled::new("server");
    agent.done(&materials());
    let Done::Started { pid, .. } = agent.done(&start(1)) else { panic!() };
    let children = agent.children();
    assert!(children.contains(&pid));
    let since = Instant::now();
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    assert_gone(&children, &agent.cache(), since);
}

/// Whether a process blocks a signal (proc(5), `SigBlk`).
fn blocks(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal.number() - 1)) != 0
}

#[test]
fn a_signal_to_all_processes_leaves_the_guard() {
    let (mut agent, _) = Controlled::new("player");
    let children = agent.children();
    let [guard] = children[..] else { panic!("{children:?}") };
    let begun = Instant::now();
    for signal in [Signal::Terminate, Signal::Interrupt, Signal::HangUp] {
        while !blocks(guard, signal) {
            assert!(begun.elapsed() < GONE_WITHIN, "it does not block {signal:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        process::signal(guard, signal).unwrap();
    }
    let since = Instant::now();
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    assert_gone(&[guard], &agent.cache(), since);
}
