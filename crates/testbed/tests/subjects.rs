//! Subjects that misbehave: how kqps handles them, and that no process of them is left. The tests of the
//! program use real name servers.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kqps_kernel::interrupts::Interrupts;
use kqps_testbed::event::performer::Performed;
use kqps_testbed::path::LaidPath;
use kqps_testbed::subject::{Definition, LaunchSetting, StartError, Subject, Zone, remains};
use tempfile::TempDir;

const ZONE: &str = "\
$ORIGIN bench.test.
$TTL 3600
@ SOA ns1 host 1 3600 600 86400 300
@ NS ns1
ns1 A 192.0.2.1
";

/// The environment variable that turns this test program into a fake server; the port follows the mode.
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
        let setting = LaunchSetting {
            path: &LaidPath::Loopback,
            folder: &self.folder.path().join(&definition.name),
            zones: &[Zone::new("bench.test.", self.folder.path().join("zone"))],
            kqps: Path::new("/nonexistent/kqps"),
            io: "",
            workers: 1,
            cpus: &[last_core()],
            settings: &BTreeMap::new(),
        };
        Subject::start(definition, &setting, &Interrupts::default())
    }

    fn output_of(&self, definition: &Definition) -> String {
        std::fs::read_to_string(self.folder.path().join(&definition.name).join("output")).unwrap()
    }
}

/// This program as a fake server, with `before` in front of its start in the shell.
fn fake(mode: &str, before: &str, within_s: f64) -> Definition {
    let program = std::env::current_exe().unwrap();
    let text = format!(
        r#"
name = "fake"
title = "The fake"
programs = ["sh"]
io = "blocking"
[start]
command = ["sh", "-c", "{before} {FAKE}={mode}:{{port}} exec {program} --exact subjects::fake_server --nocapture # {{workers}}"]
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

/// A test only if a fake is requested: it then answers queries, as the mode says.
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

/// Whether a process of a group still runs.
fn lives(group: u32) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { return false };
        // State, parent and group follow the name, which is in parentheses and may contain anything.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        fields.first() != Some(&"Z") && fields.get(2) == Some(&&*group.to_string())
    })
}

/// Waits for an event that is imminent; fails if it does not come for a long time.
fn soon(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !happened() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::yield_now();
    }
}

/// The last core, which is not the one that a server chooses first by itself.
fn last_core() -> u32 {
    *kqps_kernel::affinity::allowed().unwrap().last().unwrap()
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

/// The outcome of an event at a subject.
fn performed(subject: &Subject, event: &str) -> Performed {
    let event = toml::from_str(&format!("at = \"0\"\ndo = \"{event}\"")).unwrap();
    subject.perform(&LaidPath::Loopback, &event, Duration::from_secs(20)).unwrap()
}

#[test]
fn one_that_cannot_be_started_again_has_ended() {
    let rig = Rig::new();
    let definition = fake("plain", "echo hello;", 10.0);
    let mut subject = rig.start(&definition).unwrap();
    let pid = subject.pid();
    assert_eq!(subject.ended(), None);
    // Without its folder, its output has no place.
    std::fs::remove_dir_all(rig.folder.path().join(&definition.name)).unwrap();
    let failure = performed(&subject, "restart").failure.unwrap();
    assert!(failure.starts_with("starting The fake: "), "{failure}");
    assert!(!lives(pid));
    let (how, output) = subject.ended().unwrap();
    assert!(how.starts_with("The fake could not be started again: "), "{how}");
    assert!(output.contains(&"hello".to_owned()), "{output:?}");
    for event in ["kill", "stop"] {
        assert_eq!(performed(&subject, event).failure.as_deref(), Some("it is not running"));
    }
}

#[test]
fn its_files_with_a_secret_are_its_users_alone() {
    let rig = Rig::new();
    let mut definition = fake("plain", "", 10.0);
    definition.files = [("key".to_owned(), "secret {secret}".to_owned())].into();
    let folder = rig.folder.path().join(&definition.name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("key"), "of an earlier start").unwrap();
    let subject = rig.start(&definition).unwrap();
    assert_eq!(folder.join("key").metadata().unwrap().permissions().mode() & 0o077, 0);
    let key = std::fs::read_to_string(folder.join("key")).unwrap();
    // 32 bytes in base64.
    assert_eq!(key.strip_prefix("secret ").unwrap().len(), 44);
    subject.stop();
}

#[test]
fn one_that_dies_at_its_start_is_reported_with_its_output() {
    let rig = Rig::new();
    let definition = fake("plain", "echo the port is haunted >&2; exit 3;", 10.0);
    let error = rig.start(&definition).unwrap_err();
    assert_eq!(error.to_string(), "The fake ended with status 3 before it was ready");
    assert_eq!(error.output(), ["the port is haunted"]);
    assert_eq!(rig.output_of(&definition), "the port is haunted\n");
}

#[test]
fn one_that_never_gets_ready_is_given_up_and_leaves_nothing() {
    // Long enough for the shell to print, even on a busy host.
    let error = Rig::new().start(&fake("silent", "sleep 600 & echo $$;", 2.0)).unwrap_err();
    assert_eq!(error.to_string(), "The fake was not ready after 2 s: it did not answer");
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

/// A process that left the group, and that ignores every signal it can.
const DAEMON: &str = r#"setsid sh -c 'trap \"\" HUP INT TERM; echo daemon $$; exec sleep 600' &"#;

#[test]
fn one_with_a_daemon_that_ignores_everything_is_killed_with_it() {
    let rig = Rig::new();
    let definition = fake("plain", DAEMON, 10.0);
    let subject = rig.start(&definition).unwrap();
    let mut daemon = None;
    soon("its daemon", || {
        let output = rig.output_of(&definition);
        daemon = output.lines().find_map(|line| line.rsplit_once("daemon ")?.1.parse().ok());
        daemon.is_some()
    });
    assert_ne!(daemon, Some(subject.pid()));
    assert!(lives(daemon.unwrap()));
    subject.stop();
    assert!(!lives(daemon.unwrap()));
}

#[test]
fn what_a_killed_kqps_left_is_found_by_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let start = |start: &str| {
        let mark = folder.path().join(start);
        Command::new("sleep").arg("600").env(remains::MARK, mark).spawn().unwrap()
    };
    let (mut of_this_run, mut of_another) = (start("run/nsd-1"), start("run-2/nsd-1"));
    remains::end_all_under(&folder.path().join("run"));
    assert_eq!(of_this_run.wait().unwrap().signal(), Some(9));
    assert!(of_another.try_wait().unwrap().is_none());
    of_another.kill().unwrap();
    of_another.wait().unwrap();
}

#[test]
fn one_that_prints_a_gigabyte_fills_no_disk_and_answers() {
    let rig = Rig::new();
    let definition = fake("plain", "yes flood | head -c 1000000000;", 100.0);
    let subject = rig.start(&definition).unwrap();
    subject.stop();
    let output = rig.output_of(&definition);
    assert!(output.starts_with("flood\nflood\n") && output.contains("bytes were printed here, and not kept"));
    assert!(output.len() < 1_100_000, "{}", output.len());
}

#[test]
fn one_with_several_ports_is_ready_when_all_answer() {
    let rig = Rig::new();
    let mut definition = fake("plain", "", 0.5);
    definition.start.ports = "2".into();
    let error = rig.start(&definition).unwrap_err().to_string();
    assert_eq!(error, "The fake was not ready after 0.5 s: it did not answer");
    definition.start.ports = "{workers} * 1".into();
    // A busy host may take long to start it.
    definition.ready.within_s = 10.0;
    let subject = rig.start(&definition).unwrap();
    assert_eq!(subject.addresses(), [subject.address()]);
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
    let setting = LaunchSetting {
        path: &LaidPath::Loopback,
        folder: &rig.folder.path().join("fake"),
        zones: &[Zone::new("bench.test.", rig.folder.path().join("zone"))],
        kqps: Path::new("/nonexistent/kqps"),
        io: "",
        workers: 1,
        cpus: &[],
        settings: &BTreeMap::new(),
    };
    let interrupts = Interrupts::default();
    interrupts.ask();
    let error = Subject::start(&definition, &setting, &interrupts).unwrap_err();
    assert!(matches!(error, StartError::Interrupted));
}

/// The shell that starts a fake reports the signal that ended it.
#[test]
fn a_killed_one_is_reported_as_killed() {
    let rig = Rig::new();
    let definition = fake("plain", "kill -9 $$;", 10.0);
    let error = rig.start(&definition).unwrap_err().to_string();
    let status = Command::new("sh").args(["-c", "kill -9 $$"]).status().unwrap();
    assert_eq!(status.signal(), Some(9));
    assert_eq!(error, format!("The fake was killed by {status} before it was ready"));
}
