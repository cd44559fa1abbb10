//! Subjects as they are: the real name servers that are installed here, and fakes that misbehave.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use kqps_lab::path::LaidPath;
use kqps_lab::subject::{Definition, Setting, StartError, Subject, builtin, programs};
use tempfile::TempDir;

const ZONE: &str = "\
$ORIGIN bench.test.
$TTL 3600
@ SOA ns1 host 1 3600 600 86400 300
@ NS ns1
ns1 A 192.0.2.1
";

/// Set in the environment of this very test program to make it a fake server; the port follows the mode.
const FAKE: &str = "KQPS_FAKE_SUBJECT";

struct Rig {
    folder: TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("zone"), ZONE).unwrap();
        Self { folder }
    }

    fn start(&self, definition: &Definition) -> Result<Subject, StartError> {
        let setting = Setting {
            path: &LaidPath::Loopback,
            folder: &self.folder.path().join(&definition.name),
            origin: "bench.test.",
            zone: &self.folder.path().join("zone"),
            kqps: Path::new("/nonexistent/kqps"),
            io: "",
            workers: 1,
            cpus: &[last_core()],
            settings: &BTreeMap::new(),
        };
        Subject::start(definition, &setting, &AtomicBool::new(false))
    }

    fn output_of(&self, definition: &Definition) -> String {
        std::fs::read_to_string(self.folder.path().join(&definition.name).join("output")).unwrap()
    }
}

/// This program as a fake server, with `before` put in front of its start in the shell.
fn fake(mode: &str, before: &str, within_s: f64) -> Definition {
    let program = std::env::current_exe().unwrap();
    let text = format!(
        r#"
name = "fake"
title = "The fake"
programs = ["sh"]
io = "blocking"
[start]
command = ["sh", "-c", "{before} {FAKE}={mode}:{{port}} exec {program} --exact fake_server --nocapture # {{workers}}"]
[ready]
kind = "reply"
within_s = {within_s}
[stop]
signal = "TERM"
within_s = 0.2
"#,
        program = program.display()
    );
    Definition::read("fake.toml", &text).unwrap()
}

/// Not a test unless a fake was asked for: then it answers queries, as the mode says.
#[test]
fn fake_server() {
    let Ok(word) = std::env::var(FAKE) else { return };
    let (mode, port) = word.split_once(':').unwrap();
    if mode == "silent" {
        println!("I shall not answer");
    }
    let socket = UdpSocket::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    let mut packet = [0; 512];
    for answered in 0.. {
        let (length, from) = socket.recv_from(&mut packet).unwrap();
        if mode == "mortal" && answered == 3 {
            println!("that was enough");
            std::process::exit(9);
        }
        packet[2] |= 0x80;
        if mode != "silent" {
            socket.send_to(&packet[..length], from).unwrap();
        }
    }
}

/// Whether a process of a group still lives.
fn lives(group: u32) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { return false };
        // State, parent and group follow the name, which is in brackets and may hold anything.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        fields.first() != Some(&"Z") && fields.get(2) == Some(&&*group.to_string())
    })
}

/// Waits for something that is about to happen; fails when it does not for a long time.
fn soon(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !happened() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::yield_now();
    }
}

#[test]
fn every_installed_server_starts_answers_and_stops() {
    let rig = Rig::new();
    for definition in builtin::servers() {
        if definition.programs.iter().any(|program| programs::find(program).is_none()) {
            eprintln!("{} is not installed here", definition.title);
            continue;
        }
        let mut subject = rig.start(&definition).unwrap_or_else(|error| {
            panic!("{error}\n{}", error.output().join("\n"));
        });
        assert!(subject.ended().is_none());
        let group = subject.pid();
        query(&subject, 200);
        let expected = last_core().to_string();
        for thread in kqps_host::threads_of(group) {
            assert_eq!(confined_to(thread), expected, "a thread of {}", definition.title);
        }
        let asked = Instant::now();
        subject.stop();
        assert!(asked.elapsed() < definition.stop.within(), "{} stops when it is asked", definition.title);
        assert!(!lives(group), "{} left a process behind", definition.title);
    }
}

/// The last core, which is not the one that a server takes first when it chooses for itself.
fn last_core() -> u32 {
    *kqps_kernel::affinity::allowed().unwrap().last().unwrap()
}

/// Asks for the zone's SOA from as many ports, one after the other, and waits for each answer.
fn query(subject: &Subject, count: u16) {
    for id in 0..count {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut question = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        question[..2].copy_from_slice(&id.to_be_bytes());
        question.extend(b"\x05bench\x04test\0\0\x06\0\x01");
        socket.send_to(&question, subject.address()).unwrap();
        let mut answer = [0; 1500];
        assert!(socket.recv(&mut answer).unwrap() > question.len(), "query {id}");
    }
}

fn confined_to(tid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    line.split_whitespace().last().unwrap().to_string()
}

#[test]
fn every_installed_server_tells_its_version() {
    for definition in builtin::servers() {
        if definition.programs.iter().all(|program| programs::find(program).is_some()) {
            let version =
                kqps_lab::subject::version::ask(&definition, Path::new("/nonexistent/kqps")).unwrap();
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        }
    }
}

#[test]
fn one_that_is_not_installed_names_its_package() {
    let mut definition = fake("plain", "", 1.0);
    definition.programs = vec!["no-such-program-anywhere".into()];
    definition.package = Some("no-such-package".into());
    let error = Rig::new().start(&definition).unwrap_err().to_string();
    assert_eq!(
        error,
        "`no-such-program-anywhere` is not on the PATH; the Debian package no-such-package has it"
    );
}

#[test]
fn one_that_dies_at_its_start_is_told_with_what_it_printed() {
    let rig = Rig::new();
    let definition = fake("plain", "echo the port is haunted >&2; exit 3;", 10.0);
    let error = rig.start(&definition).unwrap_err();
    assert_eq!(error.to_string(), "The fake ended with status 3 before it was ready");
    assert_eq!(error.output(), ["the port is haunted"]);
    assert_eq!(rig.output_of(&definition), "the port is haunted\n");
}

#[test]
fn one_that_never_gets_ready_is_given_up_and_leaves_nothing() {
    let error = Rig::new().start(&fake("silent", "sleep 600 & echo $$;", 0.5)).unwrap_err();
    assert_eq!(error.to_string(), "The fake was not ready after 0.5 s");
    let group = error.output()[0].parse().unwrap();
    assert!(!lives(group));
}

#[test]
fn one_that_dies_later_is_noticed() {
    let rig = Rig::new();
    let mut subject = rig.start(&fake("mortal", "", 10.0)).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let query = [0; 12];
    soon("its death", || {
        // Once it is dead the port refuses, which is an error too.
        let _ = socket.send_to(&query, subject.address());
        subject.ended().is_some()
    });
    let (how, output) = subject.ended().unwrap();
    assert_eq!(how, "The fake ended with status 9");
    assert!(output.last().unwrap().ends_with("that was enough"), "{output:?}");
}

#[test]
fn one_that_ignores_its_signal_is_killed_with_its_children() {
    let rig = Rig::new();
    let subject = rig.start(&fake("plain", "trap '' TERM; sleep 600 &", 10.0)).unwrap();
    let group = subject.pid();
    assert!(lives(group));
    subject.stop();
    assert!(!lives(group));
}

#[test]
fn one_that_is_dropped_leaves_nothing() {
    let rig = Rig::new();
    let subject = rig.start(&fake("plain", "sleep 600 &", 10.0)).unwrap();
    let group = subject.pid();
    drop(subject);
    assert!(!lives(group));
}

#[test]
fn the_user_may_end_the_wait_for_it() {
    let rig = Rig::new();
    let definition = fake("silent", "", 600.0);
    let setting = Setting {
        path: &LaidPath::Loopback,
        folder: &rig.folder.path().join("fake"),
        origin: "bench.test.",
        zone: &rig.folder.path().join("zone"),
        kqps: Path::new("/nonexistent/kqps"),
        io: "",
        workers: 1,
        cpus: &[],
        settings: &BTreeMap::new(),
    };
    let error = Subject::start(&definition, &setting, &AtomicBool::new(true)).unwrap_err();
    assert!(matches!(error, StartError::Interrupted));
}

/// The shell that starts a fake names the signal that ended it.
#[test]
fn a_killed_one_is_told_as_killed() {
    let rig = Rig::new();
    let definition = fake("plain", "kill -9 $$;", 10.0);
    let error = rig.start(&definition).unwrap_err().to_string();
    let status = Command::new("sh").args(["-c", "kill -9 $$"]).status().unwrap();
    assert_eq!(status.signal(), Some(9));
    assert_eq!(error, format!("The fake was killed by {status} before it was ready"));
}
