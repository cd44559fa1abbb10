//! Conversations with an agent in a thread, over pipes, with leases that suit a test.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::message::{HelloFacts, Role};

const PATIENCE: Duration = Duration::from_secs(20);

/// Does jobs by their word, and reports what happens to it.
struct Fake {
    events: Sender<&'static str>,
    /// A job that is stuck waits for this.
    release: Receiver<()>,
}

impl Worker for Fake {
    type Job = Value;
    type Done = Value;

    fn work(&mut self, job: Value, interrupts: &Interrupts) -> Result<Value, (String, Vec<String>)> {
        match job["do"].as_str() {
            Some("fail") => Err(("it failed".into(), vec!["last words".into()])),
            Some("wait") => {
                self.events.send("waiting").unwrap();
                while !interrupts.is_asked() {
                    thread::sleep(Duration::from_millis(1));
                }
                self.events.send("interrupted").unwrap();
                Err(("interrupted".into(), Vec::new()))
            }
            Some("stick") => {
                self.events.send("stuck").unwrap();
                let _ = self.release.recv();
                Ok(Value::Null)
            }
            _ => Ok(job),
        }
    }

    fn end(&mut self) {
        // A test may be over.
        let _ = self.events.send("ended");
    }
}

/// A controller of an agent.
struct Controller {
    to: Option<PipeWriter>,
    from: BufReader<PipeReader>,
    events: Receiver<&'static str>,
    given_up: Receiver<()>,
    release: Sender<()>,
    result: Receiver<Result<(), String>>,
}

fn ours() -> Identity {
    Identity { version: "1".into(), schema: 4, blake3: "ab".into(), arch: "any".into() }
}

impl Controller {
    fn start(lease: Duration) -> Self {
        let (input, to) = io::pipe().unwrap();
        let (from, output) = io::pipe().unwrap();
        let (give_up, given_up) = mpsc::channel();
        let (event, events) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let (end, result) = mpsc::channel();
        let give_up = move || give_up.send(()).unwrap_or_default();
        let way = Way { input, output, lease, give_up };
        thread::spawn(move || {
            let check = |hello: &ControllerHello| {
                if hello.name == "stranger" { Err("it is a stranger".to_owned()) } else { Ok(()) }
            };
            let mut worker = Fake { events: event, release: released };
            let served = serve_over(way, &mut worker, &ours(), check);
            // A test may be over.
            let _ = end.send(served.map_err(|error| error.to_string()));
        });
        Self { to: Some(to), from: BufReader::new(from), events, given_up, release, result }
    }

    fn send_line(&mut self, line: &[u8]) {
        self.to.as_mut().unwrap().write_all(line).unwrap();
    }

    fn send(&mut self, message: &Value) {
        self.send_line(&message::plain_line(message));
    }

    /// The next message that is no sign of life.
    fn read(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the agent is gone");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get("alive").is_none() {
                return message;
            }
        }
    }

    fn greet_as(&mut self, name: &str, identity: &Identity) -> Value {
        let facts = HelloFacts { targets: Vec::new(), role: Role::Player, name: name.into() };
        self.send(&json!({"hello": ControllerHello::new(identity, &facts)}));
        self.read()["hello"].clone()
    }

    fn greeted(lease: Duration) -> Self {
        let mut controller = Self::start(lease);
        assert!(controller.greet_as("p1", &ours()).get("refused").is_none());
        controller
    }

    fn event(&self) -> &'static str {
        self.events.recv_timeout(PATIENCE).unwrap()
    }

    fn result(&self) -> Result<(), String> {
        self.result.recv_timeout(PATIENCE).unwrap()
    }
}

#[test]
fn a_conversation_from_hello_to_end() {
    let mut controller = Controller::start(LEASE);
    let hello: AgentHello = serde_json::from_value(controller.greet_as("p1", &ours())).unwrap();
    assert_eq!((hello.identity, hello.pid, hello.lease_s), (ours(), std::process::id(), LEASE.as_secs()));
    assert!(!hello.hostname.is_empty() && !hello.boot_id.is_empty());
    let before_ns = kqps_kernel::clock::now_ns();
    controller.send(&json!({"ping": {"id": 7}}));
    let pong = controller.read();
    assert_eq!(pong["pong"]["id"], 7);
    assert!(pong["pong"]["at_ns"].as_u64().unwrap() >= before_ns);
    controller.send(&json!({"alive": {}}));
    controller.send(&json!({"ask": {"id": 1, "job": {"x": [1.5]}}}));
    controller.send(&json!({"ask": {"id": 2, "job": {"do": "fail"}}}));
    assert_eq!(controller.read(), json!({"done": {"id": 1, "ok": {"x": [1.5]}}}));
    let failed = json!({"done": {"id": 2, "error": "it failed", "output": ["last words"]}});
    assert_eq!(controller.read(), failed);
    controller.send(&json!({"end": {}}));
    assert_eq!((controller.event(), controller.result()), ("ended", Ok(())));
}

#[test]
fn pings_are_answered_while_a_job_runs_and_stop_reaches_it() {
    let mut controller = Controller::greeted(LEASE);
    controller.send(&json!({"ask": {"id": 1, "job": {"do": "wait"}}}));
    controller.send(&json!({"ask": {"id": 2, "job": {}}}));
    controller.send(&json!({"ask": {"id": 3, "job": {}}}));
    assert_eq!(controller.event(), "waiting");
    controller.send(&json!({"ping": {"id": 9}}));
    assert_eq!(controller.read()["pong"]["id"], 9);
    controller.send(&json!({"stop": {"id": 2, "urgent": false}}));
    controller.send(&json!({"stop": {"id": 1, "urgent": false}}));
    assert_eq!(controller.read(), json!({"done": {"id": 1, "error": "interrupted"}}));
    assert_eq!(controller.read(), json!({"done": {"id": 2, "error": "it was stopped before it began"}}));
    assert_eq!(controller.read(), json!({"done": {"id": 3, "ok": {}}}));
}

#[test]
fn the_end_of_input_interrupts_the_job_and_ends_the_agent() {
    let mut controller = Controller::greeted(LEASE);
    controller.send(&json!({"ask": {"id": 1, "job": {"do": "wait"}}}));
    assert_eq!(controller.event(), "waiting");
    let gone = Instant::now();
    controller.to = None;
    assert_eq!((controller.event(), controller.event()), ("interrupted", "ended"));
    assert_eq!(controller.result(), Ok(()));
    assert!(gone.elapsed() < LEASE);
}

#[test]
fn a_controller_that_says_nothing_more_has_the_same_effect() {
    let mut controller = Controller::greeted(Duration::from_secs(2));
    controller.send(&json!({"ask": {"id": 1, "job": {"do": "wait"}}}));
    assert_eq!(controller.event(), "waiting");
    assert_eq!((controller.event(), controller.event()), ("interrupted", "ended"));
    assert_eq!(controller.result(), Err("the controller was lost: nothing came for 2 s".into()));
    let done = controller.read();
    assert_eq!(done["done"]["error"], "interrupted");
    let said = controller.read();
    assert!(said["said"]["line"].as_str().unwrap().starts_with("nothing came from the controller"), "{said}");
}

#[test]
fn five_seconds_after_the_last_line_all_is_over_even_if_the_worker_is_stuck() {
    assert_eq!(ENDED_WITHIN, Duration::from_secs(5));
    let mut controller = Controller::greeted(LEASE);
    controller.send(&json!({"ask": {"id": 1, "job": {"do": "stick"}}}));
    assert_eq!(controller.event(), "stuck");
    let since = Instant::now();
    controller.given_up.recv_timeout(PATIENCE).unwrap();
    assert!(since.elapsed() >= LEASE && since.elapsed() < ENDED_WITHIN, "{:?}", since.elapsed());
    controller.release.send(()).unwrap();
}

#[test]
fn signs_of_life_keep_the_agent() {
    let lease = Duration::from_millis(1500);
    let mut controller = Controller::greeted(lease);
    let begun = Instant::now();
    // Bytes of a long line count as well as lines.
    controller.send_line(b"{\"ask\":{\"id\":1,\"job\":\"");
    while begun.elapsed() < 2 * lease {
        controller.send_line(b"x");
        thread::sleep(Duration::from_millis(20));
    }
    controller.send_line(b"\"}}\n");
    assert!(controller.read()["done"]["ok"].as_str().unwrap().len() > 2);
}

#[test]
fn a_worker_that_is_stuck_is_left_behind() {
    let mut controller = Controller::greeted(LEASE);
    controller.send(&json!({"ask": {"id": 1, "job": {"do": "stick"}}}));
    assert_eq!(controller.event(), "stuck");
    controller.send(&json!({"end": {}}));
    controller.given_up.recv_timeout(PATIENCE).unwrap();
    controller.release.send(()).unwrap();
    assert_eq!((controller.event(), controller.result()), ("ended", Ok(())));
}

#[test]
fn an_output_that_nobody_reads_holds_up_no_end() {
    let mut controller = Controller::greeted(LEASE);
    // More than a pipe holds.
    let text = "x".repeat(1 << 20);
    controller.send(&json!({"ask": {"id": 1, "job": text}}));
    controller.send(&json!({"ask": {"id": 2, "job": {"do": "wait"}}}));
    assert_eq!(controller.event(), "waiting");
    controller.send(&json!({"end": {}}));
    assert_eq!((controller.event(), controller.event()), ("interrupted", "ended"));
    assert_eq!(controller.result(), Ok(()));
}

#[test]
fn strangers_are_refused() {
    let mut controller = Controller::start(LEASE);
    assert_eq!(controller.greet_as("stranger", &ours())["refused"], "it is a stranger");
    assert_eq!(controller.event(), "ended");
    assert!(controller.result().unwrap_err().ends_with(" refuses: it is a stranger"));

    let mut controller = Controller::start(LEASE);
    let other = Identity { version: "2".into(), ..ours() };
    let hello = controller.greet_as("p1", &other);
    assert_eq!(hello["refused"], "the controller is another build of kqps");
    assert_eq!(hello["identity"]["version"], "1");

    let mut controller = Controller::start(LEASE);
    controller.send(&json!({"hello": {"identity": 5}}));
    let refused = controller.read()["hello"]["refused"].clone();
    assert!(refused.as_str().unwrap().starts_with("it cannot read the controller's hello"), "{refused}");
}

#[test]
fn what_is_no_message_ends_the_conversation() {
    for (line, expected) in [
        (&b"GET / HTTP/1.1\r\n"[..], "`GET / HTTP/1.1\r`"),
        (b"{\"alive\":{}}\n", "`{\"alive\":{}}` before a hello"),
        (b"", "no hello"),
    ] {
        let mut controller = Controller::start(LEASE);
        controller.send_line(line);
        controller.to = None;
        let expected = format!("the controller sent what is no message of kqps: {expected}");
        assert_eq!((controller.event(), controller.result()), ("ended", Err(expected)));
    }
    let mut controller = Controller::greeted(LEASE);
    controller.send(&json!({"hello": {}}));
    assert_eq!(controller.event(), "ended");
    assert!(controller.result().unwrap_err().ends_with("a second hello"));
}

#[test]
fn a_result_that_no_line_holds_is_an_error() {
    let error = ok_line(1, &"x".repeat(LINE_MOST)).unwrap_err();
    assert!(error.starts_with("the result has 67108"), "{error}");
    let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(ok_line(1, &unwritable).unwrap_err().starts_with("the result cannot be written: "));
}
