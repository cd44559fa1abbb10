//! Manual pages and completions of all commands, which packages take from the program. And what it does without a shell
//! and in a container.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal, signal_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::load::bench::kqps;

/// The output of a command.
fn printed(words: &[&str]) -> String {
    let output = kqps(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The names of the commands in a help.
fn commands(help: &str) -> BTreeSet<String> {
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A command begins in column 2; what it is for goes on further to the right.
    let names = list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned));
    names.filter(|name| !name.is_empty() && name != "help").collect()
}

#[test]
fn all_pages_are_written_at_once_and_are_those_of_the_commands() {
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("share/man1");
    assert_eq!(printed(&["man", "--all", pages.to_str().unwrap()]), "");
    let found: BTreeSet<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut wanted = BTreeSet::from(["kqps.1".to_owned()]);
    for name in commands(&printed(&["-h"])) {
        // A command without commands below it has none in its help.
        let below = commands(&printed(&[&name, "-h"]));
        wanted.extend(below.iter().map(|below| format!("kqps-{name}-{below}.1")));
        wanted.insert(format!("kqps-{name}.1"));
    }
    assert_eq!(found, wanted);
    assert!(found.contains("kqps-serve-echo.1") && found.len() > 25, "{found:?}");
    for words in [&["load"][..], &["serve", "echo"]] {
        let page = fs::read_to_string(pages.join(format!("kqps-{}.1", words.join("-")))).unwrap();
        assert_eq!(page, printed(&[&["man"], words].concat()));
    }
}

#[test]
fn completions_of_each_shell_have_every_command() {
    let names = commands(&printed(&["-h"]));
    assert!(names.contains("load") && names.contains("man"), "{names:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        let missing: Vec<_> = names.iter().filter(|name| !script.contains(name.as_str())).collect();
        assert_eq!(missing, [""; 0], "{shell}");
    }
}

/// A process group of two, which is killed when this is dropped.
struct Group(Child);

impl Group {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "sleep 600 & wait"]).process_group(0).spawn().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that has ended needs no signal.
        let _ = signal_group(self.0.id(), Signal::Kill);
        let _ = self.0.wait();
    }
}

/// How a child ends. Panics if it goes on for 20 s.
fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "process {} goes on", child.id());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_guard_without_a_shell_kills_its_group_when_kqps_ends_and_no_signal_ends_it_before() {
    let mut guarded = Group::start();
    let mut start = kqps(&["agent", "--guard-group", &guarded.0.id().to_string()]);
    let mut guard = start.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The line that says that it stands. If it ends, there is none.
    guard.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", guard.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
    let blocked = u64::from_str_radix(mask, 16).unwrap();
    for one in [Signal::Terminate, Signal::Interrupt, Signal::HangUp] {
        assert_ne!(blocked & (1 << (one.number() - 1)), 0, "{one:?}");
        signal(guard.id(), one).unwrap();
    }
    assert_eq!((guard.try_wait().unwrap(), guarded.0.try_wait().unwrap()), (None, None));
    drop(guard.stdin.take());
    assert_eq!(ended(&mut guarded.0).signal(), Some(Signal::Kill.number()));
    assert!(ended(&mut guard).success());
}

#[test]
fn a_guard_refuses_a_group_that_its_parent_did_not_start() {
    let output = kqps(&["agent", "--guard-group", &std::process::id().to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("was not started by"), "{said}");
}

#[test]
fn probe_reports_the_container_around_it() {
    let probe = |json: bool| {
        let words: &[&str] = if json { &["probe", "--json"] } else { &["probe"] };
        let output = kqps(words)
            .env("container", "podman")
            .env("KUBERNETES_SERVICE_HOST", "10.0.0.1")
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let text = probe(false);
    assert!(
        text.contains("\nThis looks like a container: ") && text.contains("the variable container is set"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&probe(true)).unwrap();
    let signs = json["container"]["signs"].as_array().unwrap();
    assert!(signs.iter().any(|sign| sign == "the variable container is set"), "{json}");
    assert!(json["container"]["takes_away"].is_array());
}
