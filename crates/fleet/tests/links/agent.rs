//! The agent of these tests. It is the program of the tests, started with a variable that makes one test serve.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use kqps_fleet::{AgentHello, HelloFacts, Host, Identity, Role, Worker, serve};
use kqps_kernel::interrupts::Interrupts;
use serde_json::{Value, json};

/// The test that serves.
pub(crate) const TEST: &str = "links::jobs::a_job_is_asked_for_and_answered";

/// The variable with the file to which the agent writes what happens to it, and the one with its version.
const EVENTS: &str = "KQPS_HOSTS_TEST_EVENTS";
const VERSION: &str = "KQPS_HOSTS_TEST_VERSION";

/// The build of this program, by its name.
pub(crate) fn build(version: &str) -> Identity {
    Identity {
        version: version.into(),
        schema: 4,
        blake3: "ab".repeat(32),
        arch: std::env::consts::ARCH.into(),
    }
}

/// Facts that a controller states about itself.
pub(crate) fn facts(name: &str) -> HelloFacts {
    HelloFacts { targets: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)], role: Role::Player, name: name.into() }
}

/// A host that is reached by these words.
pub(crate) fn host_by(reach: &[&str], kqps: &str) -> Host {
    Host {
        name: "p1".into(),
        reach: reach.iter().map(|&word| word.to_owned()).collect(),
        kqps: kqps.into(),
        data: IpAddr::V4(Ipv4Addr::LOCALHOST),
        sources: None,
        cores: None,
        device: None,
    }
}

/// A host with the agent of these tests, which writes its events to a file.
pub(crate) fn host(events: &Path, version: &str) -> Host {
    let (events, version) = (format!("{EVENTS}={}", events.display()), format!("{VERSION}={version}"));
    let program = std::env::current_exe().unwrap().display().to_string();
    // With two threads the harness prints a line before its test, and none within.
    let words = ["env", &events, &version, &program, "--exact", "--nocapture", "--test-threads=2"];
    host_by(&words, TEST)
}

/// A host whose agent is a shell. The script has the hello of an agent as `$hello`.
pub(crate) fn shell(script: &str) -> Host {
    let hello = AgentHello {
        identity: build("1"),
        hostname: "h".into(),
        boot_id: "b".into(),
        pid: 1,
        lease_s: 5,
        refused: None,
    };
    let hello = json!({"hello": hello}).to_string();
    host_by(&["sh", "-c", &format!("hello='{hello}'; {script}"), "sh"], "kqps")
}

/// A moment that a test waits for at most.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// Waits until the agent wrote these events.
pub(crate) fn await_events(path: &Path, expected: &str) {
    let deadline = soon();
    loop {
        let found = std::fs::read_to_string(path).unwrap_or_default();
        if found == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{found:?} instead of {expected:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Serves, and ends the process, if it was started as an agent.
pub(crate) fn serve_if_asked() {
    let Some(events) = std::env::var_os(EVENTS) else { return };
    let version = std::env::var(VERSION).unwrap();
    let mut worker = Agent { events: events.into() };
    let check = |hello: &kqps_fleet::ControllerHello| match hello.name.as_str() {
        "stranger" => Err("it is a stranger".to_owned()),
        _ => Ok(()),
    };
    let served = serve(&mut worker, &build(&version), check);
    std::process::exit(i32::from(served.is_err()));
}

struct Agent {
    events: std::path::PathBuf,
}

impl Agent {
    fn event(&self, event: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.events).unwrap();
        file.write_all(format!("{event}\n").as_bytes()).unwrap();
    }
}

impl Worker for Agent {
    type Job = Value;
    type Done = Value;

    fn work(&mut self, job: Value, interrupts: &Interrupts) -> Result<Value, (String, Vec<String>)> {
        match job.as_str() {
            Some("fail") => Err(("it failed".into(), vec!["last words".into()])),
            Some("die") => {
                eprintln!("a last sigh");
                std::process::exit(9);
            }
            Some("wait") => {
                self.event("waiting");
                while !interrupts.is_asked() {
                    thread::sleep(Duration::from_millis(1));
                }
                self.event("interrupted");
                Err(("interrupted".into(), Vec::new()))
            }
            _ => Ok(job),
        }
    }

    fn end(&mut self) {
        self.event("ended");
    }
}
