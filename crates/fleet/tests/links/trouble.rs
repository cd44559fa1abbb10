//! Agents that do not start, die, are silent, or print what is no message, and controllers that are gone.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kqps_fleet::{ENDED_WITHIN, HostsError, JobError, LEASE, Link};
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process::{self, Signal};
use serde_json::{Value, json};

use super::agent::{self, await_events, build, facts, host_by, shell, soon};

fn failed(host: &kqps_fleet::Host) -> String {
    Link::open(host, &build("1"), &facts("p1")).map(|link| link.there().pid).unwrap_err().to_string()
}

/// The error of a job whose host is lost.
fn lost(link: &mut Link, job: &Value) -> String {
    let asked = link.ask(job).map_err(JobError::Lost);
    match asked.and_then(|ticket| link.wait::<Value>(ticket, soon(), &Interrupts::default())) {
        Err(JobError::Lost(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_that_is_not_the_right_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events");
    let host = agent::host(&events, "2");
    let error = failed(&host);
    assert!(
        error.starts_with("kqps on p1 is 2 (records of version 4, build abababababab), and here it"),
        "{error}"
    );
    let host = agent::host(&events, "1");
    let error = Link::open(&host, &build("1"), &facts("stranger")).unwrap_err();
    assert_eq!(error.to_string(), "p1 refuses: it is a stranger");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let none = "/nonexistent/kqps";
    let error = failed(&host_by(&[], none));
    assert!(error.starts_with("p1 has no program `/nonexistent/kqps` ("), "{error}");
    let error = failed(&host_by(&["env"], none));
    assert!(error.starts_with("p1 has no program `/nonexistent/kqps` (env: "), "{error}");
    let error = failed(&host_by(&["/nonexistent/ssh", "p1"], "kqps"));
    assert!(error.starts_with("p1: cannot start `/nonexistent/ssh` here: "), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("kqps");
    std::fs::write(&plain, "no program").unwrap();
    let reaches: [&[&str]; 2] = [&[], &["env"]];
    for reach in reaches {
        let error = failed(&host_by(reach, &plain.display().to_string()));
        assert!(error.starts_with(&format!("p1 cannot execute `{}`: ", plain.display())), "{error}");
    }
    let error = failed(&host_by(
        &["sh", "-c", "echo \"error: unrecognized subcommand '$2'\" >&2; exit 2", "sh"],
        "x",
    ));
    assert!(error.starts_with("`x` on p1 has no command `agent`"), "{error}");
    let error = failed(&host_by(&["sh", "-c", "echo bye; exit 7", "sh"], "x"));
    assert_eq!(error, "p1 did not answer: exit status: 7: bye");
}

/// Makes a stand-in for ssh. Another process writes it, since a program cannot be executed while it is open for
/// writing, and a process that another test forks may hold it open for a moment.
fn stand_in(folder: &Path, script: &str) -> String {
    let ssh = folder.join("ssh").display().to_string();
    let write = "printf '%s\\n' '#!/bin/sh' \"$2\" >\"$1\"; chmod 700 \"$1\"";
    assert!(Command::new("sh").args(["-c", write, "sh", &ssh, script]).status().unwrap().success());
    ssh
}

#[test]
fn ssh_gets_its_options_and_its_errors_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let ssh =
        stand_in(folder.path(), "echo \"$@\"; echo 'x@p1: Permission denied (publickey).' >&2; exit 255");
    let host = host_by(&[&ssh, "-p", "22", "p1"], "/opt/my tools/kqps");
    let error = failed(&host);
    let denied =
        "p1 refuses the login, which must work without a password: x@p1: Permission denied (publickey).";
    assert_eq!(error, denied);
    let folder = tempfile::tempdir().unwrap();
    let ssh = stand_in(folder.path(), "echo \"$@\"; exit 255");
    let error = failed(&host_by(&[&ssh, "-p", "22", "p1"], "/opt/my tools/kqps"));
    let words = "-oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=15 -oServerAliveInterval=2 \
                 -oServerAliveCountMax=2 -T -p 22 p1 '/opt/my tools/kqps' agent";
    assert_eq!(error, format!("p1 did not answer: exit status: 255: {words}"));
}

#[test]
fn rubbish_before_the_hello_is_skipped_up_to_a_limit() {
    let banner =
        "echo '*** Authorised use only ***'; echo '{\"level\":\"info\"}'; printf 'last login: never '";
    let host = shell(&format!("{banner}; echo \"$hello\"; cat >/dev/null"));
    let link = Link::open(&host, &build("1"), &facts("p1")).unwrap();
    assert_eq!(link.there().hostname, "h");
    drop(link);
    for (script, expected) in [
        ("exec yes", "p1 sent what is no message of kqps: 1001 lines and no hello, the last of them `y`"),
        ("exec cat /dev/zero", "p1 sent what is no message of kqps: a line of more than 1048576 bytes"),
        (
            "echo '{\"hello\":{}}'; cat >/dev/null",
            "p1 sent what is no message of kqps: the hello `{}`: missing field",
        ),
    ] {
        let begun = Instant::now();
        let error = failed(&shell(script));
        assert!(error.starts_with(expected), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
}

#[test]
fn rubbish_after_the_hello_ends_the_link() {
    for (script, expected) in [
        ("echo rubbish; cat >/dev/null", "p1 was lost: it was ended, since it sent `rubbish`"),
        ("cat /dev/zero", "p1 was lost: it was ended, since it sent a line of more than 67108864 bytes"),
        ("echo '{\"pong\":{}}'; cat >/dev/null", "p1 was lost: it was ended, since it sent `{\"pong\":{}}`"),
    ] {
        let host = shell(&format!("echo \"$hello\"; {script}"));
        let mut link = Link::open(&host, &build("1"), &facts("p1")).unwrap();
        let error = lost(&mut link, &json!(1));
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn an_agent_that_dies_is_lost_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let host = agent::host(&folder.path().join("events"), "1");
    let open = || Link::open(&host, &build("1"), &facts("p1")).unwrap();
    let mut link = open();
    let error = lost(&mut link, &json!("die"));
    assert!(error.starts_with("p1 was lost: its connection ended (exit status: 9): "), "{error}");
    assert!(error.ends_with("a last sigh"), "{error}");
    assert!(link.said().contains(&"a last sigh".to_owned()));
    assert!(matches!(link.ask(&json!(1)), Err(HostsError::Lost { .. })));
    assert!(matches!(link.offset(), Err(HostsError::Lost { .. })));

    let mut link = open();
    let waiting = link.ask(&json!("wait")).unwrap();
    process::signal(link.there().pid, Signal::Kill).unwrap();
    let begun = Instant::now();
    let killed: Result<Value, _> = link.wait(waiting, soon(), &Interrupts::default());
    match killed {
        Err(JobError::Lost(error)) => assert!(error.to_string().contains("(signal: 9"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_silent_agent_is_lost_and_one_that_reads_nothing_holds_up_nobody() {
    let mut silent =
        Link::open(&shell("echo \"$hello\"; cat >/dev/null"), &build("1"), &facts("p1")).unwrap();
    let deaf = shell("echo \"$hello\"; while sleep 0.5; do echo '{\"alive\":{}}'; done");
    let mut deaf = Link::open(&deaf, &build("1"), &facts("p1")).unwrap();
    let begun = Instant::now();
    let tickets: Vec<_> = (0..10).map(|_| deaf.ask(&"x".repeat(1 << 20)).unwrap()).collect();
    assert!(begun.elapsed() < Duration::from_secs(5));

    let error = lost(&mut silent, &json!(1));
    assert_eq!(error, "p1 was lost: nothing came from it for 5 s");
    assert!(begun.elapsed() < Duration::from_secs(25));

    assert_eq!(deaf.is_lost(), None);
    let ticket = tickets.into_iter().next().unwrap();
    let late: Result<Value, _> = deaf.wait(ticket, Instant::now(), &Interrupts::default());
    assert!(matches!(late, Err(JobError::Late)), "{late:?}");
    let full = (0..).map(|_| deaf.ask(&"x".repeat(16 << 20))).find_map(Result::err).unwrap();
    assert!(matches!(full, HostsError::Blocked { .. }), "{full}");
    let begun = Instant::now();
    drop((silent, deaf));
    assert!(begun.elapsed() < Duration::from_secs(15));
}

/// An agent that is started without a link, with a job that waits.
fn waiting_agent(events: &Path) -> std::process::Child {
    let host = agent::host(events, "1");
    let mut command = Command::new(&host.reach[0]);
    command.args(&host.reach[1..]).args([host.kqps.as_str(), "agent"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let hello = json!({"hello": {"identity": build("1"), "targets": [], "role": "player", "name": "p1"}});
    let lines = format!("{hello}\n{}\n", json!({"ask": {"id": 1, "job": "wait"}}));
    child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    await_events(events, "waiting\n");
    child
}

#[test]
fn an_agent_ends_when_its_controller_is_gone_and_when_it_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (name, is_closed) in [("closed", true), ("silent", false)] {
        let events = folder.path().join(name);
        let mut child = waiting_agent(&events);
        let begun = Instant::now();
        let kept = child.stdin.take().filter(|_| !is_closed);
        await_events(&events, "waiting\ninterrupted\nended\n");
        let deadline = soon();
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(5));
        }
        let most = if is_closed { LEASE } else { ENDED_WITHIN + Duration::from_secs(1) };
        assert!(begun.elapsed() < most, "{name}: {:?}", begun.elapsed());
        drop(kept);
    }
}
