//! Events of a scenario: what happens to a server while it is loaded, and what the record says of it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal, tie};
use kqps_observation::{EventFacts, Trial};
use kqps_skips::{Capability, skip};
use kqps_testbed::subject::programs;

use crate::load::bench::{Bench, Echo, kqps, words};

/// A scenario with these events in the folder of a bench.
fn scenario(bench: &Bench, text: &str) -> PathBuf {
    let path = bench.folder.path().join("events.toml");
    fs::write(&path, text.replace("{folder}", &bench.folder.path().display().to_string())).unwrap();
    path
}

/// The record of a load for a second with these events.
fn played(bench: &Bench, text: &str) -> Trial {
    let path = scenario(bench, text);
    let trial = bench.trial(&["-Q", "400", "-l", "1s", "--scenario", path.to_str().unwrap()]);
    assert_eq!(trial.accounts.sent, 400, "the load goes on");
    assert!(trial.classes.is_empty());
    trial
}

/// The times of an event in order: due, begun and done.
fn times(event: &EventFacts) -> [f64; 3] {
    let (Some(begun_s), Some(done_s)) = (event.begun_s, event.done_s) else { panic!("{event:?}") };
    assert!(event.due_s <= begun_s && begun_s <= done_s, "{event:?}");
    assert_eq!(event.failure, None);
    [event.due_s, begun_s, done_s]
}

#[test]
fn commands_run_at_their_moments_and_one_that_fails_is_recorded() {
    let bench = Bench::new();
    let trial = played(
        &bench,
        r#"
        [[event]]
        at = "300ms"
        command = ["sh", "-c", "echo broken >&2; exit 7"]
        [[event]]
        at = "100ms"
        command = ["sh", "-c", "echo yes > {folder}/seen"]
        "#,
    );
    let [good, bad] = &trial.events[..] else { panic!("{:?}", trial.events) };
    assert_eq!((times(good)[0], bad.due_s), (0.1, 0.3), "in the order in which they were due");
    assert_eq!(fs::read_to_string(bench.folder.path().join("seen")).unwrap(), "yes\n");
    assert_eq!(bad.name, "sh -c 'echo broken >&2; exit 7'");
    assert!(bad.begun_s.is_some_and(|begun_s| begun_s >= 0.3) && bad.done_s.is_none(), "{bad:?}");
    assert_eq!(bad.failure.as_deref(), Some("it ended with status 7: broken"));
}

#[test]
fn an_event_that_cannot_be_performed_is_an_error_before_the_load() {
    let bench = Bench::new();
    for (event, wanted) in [
        (
            "command = [\"no-such-program\"]",
            "event 1 (no-such-program): `no-such-program` is not on the PATH",
        ),
        ("command = [\"./no-such-file\"]", "there is no program `./no-such-file` that can be started"),
        ("loss = \"5%\"\nfor = \"1s\"", "event 1 (loss 5% for 1s): the load goes over loopback"),
        ("do = \"restart\"", "kqps did not start the server, and cannot start it again"),
        (
            "do = \"flush\"",
            "event 1 (flush): kqps does not know how kqps does that: add to the event how it is done",
        ),
        ("do = \"reload\"\nzone = \"a.\"", "kqps does not know how kqps does that for the zone a."),
        (
            "do = \"stop\"\n[[event]]\nat = \"700ms\"\ndo = \"stop\"\nfor = \"100ms\"",
            "event 2 (stop for 100ms): its time meets that of event 1 (stop)",
        ),
        ("do = \"fly\"", "unknown variant `fly`, expected one of `reload`"),
        ("do = \"kill\"\nrate = 5", "`rate` has no meaning for do = \"kill\""),
    ] {
        let path = scenario(&bench, &format!("[[event]]\nat = \"500ms\"\n{event}\n"));
        let output = bench.load(&["-Q", "400", "-l", "1s", "--scenario", path.to_str().unwrap()]).output();
        let output = output.unwrap();
        let err = words(&output).1;
        assert!(err.contains(wanted) && output.status.code() == Some(2), "{event}: {err}");
    }
    let late = scenario(&bench, "[[event]]\nat = \"5s\"\ncommand = [\"true\"]\n");
    let late = late.to_str().unwrap();
    for (flags, wanted) in [
        (&["-l", "1s"][..], "event 1 (true): it is due after 5s, and the load lasts 1s"),
        (&[], "say how long it lasts (-l)"),
    ] {
        let err = words(&bench.load(&["-Q", "400", "--scenario", late]).args(flags).output().unwrap()).1;
        assert!(err.contains(wanted), "{err}");
    }
    let kill = scenario(&bench, "[[event]]\nat = \"0\"\ndo = \"kill\"\n");
    let kill = kill.to_str().unwrap();
    for (subject, wanted) in [
        ("none".to_owned(), "kqps does not know the server's process: name it with --subject-pid"),
        (std::process::id().to_string(), "started this kqps, which would stop with it"),
    ] {
        let flags = ["-Q", "400", "-l", "1s", "--subject", &subject, "--scenario", kill];
        let err = words(&bench.load(&flags).output().unwrap()).1;
        assert!(err.contains(wanted), "{err}");
    }
    let notify = scenario(&bench, "[[event]]\nat = \"0\"\ndo = \"notify\"\nto = \"192.0.2.1:53\"\n");
    let flags = ["-Q", "400", "-l", "1s", "--scenario", notify.to_str().unwrap()];
    let err = words(&bench.load(&flags).output().unwrap()).1;
    assert!(err.contains("192.0.2.1:53 is on another host") && err.contains("--yes-attack"), "{err}");
}

#[test]
fn a_server_stands_still_for_a_time_and_goes_on() {
    let bench = Bench::new();
    let pid = bench.echo.pid().to_string();
    let path = scenario(&bench, "[[event]]\nat = \"300ms\"\ndo = \"stop\"\nfor = \"200ms\"\n");
    let out = bench.folder.path().join("out");
    let load = ["-Q", "400", "-l", "1s", "--subject-pid", &pid, "--scenario", path.to_str().unwrap()];
    let trial = bench.trial(&load);
    let [event] = &trial.events[..] else { panic!("{:?}", trial.events) };
    let [_, begun_s, done_s] = times(event);
    assert!(event.name == "stop for 200ms" && done_s - begun_s >= 0.2, "{event:?}");
    assert_eq!((trial.accounts.sent, trial.accounts.correct), (400, 400), "{:?}", trial.accounts);
    // A query that was due in the first half of the standstill waited for longer than the other half.
    assert!(trial.latency_us.max.is_some_and(|max| max > 100_000), "{:?}", trial.latency_us);

    let (text, err) = words(&bench.load(&load).arg("--out").arg(&out).output().unwrap());
    let row = text.lines().find_map(|line| line.strip_prefix("  stop for 200ms  0.300 s  "));
    let begun_s = row.and_then(|row| row.split(' ').next()?.parse::<f64>().ok());
    assert!(text.contains("\nEvents:\n\n  event ") && begun_s.is_some_and(|at_s| at_s >= 0.3), "{text}{err}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(page.matches("<title>stop for 200ms</title>").count(), 2, "a line in each chart over time");
    let export = kqps(&["export", "--table", "events"]).arg(&out).output().unwrap();
    let csv = words(&export).0;
    let row = csv.lines().find_map(|line| line.strip_prefix("1,stop for 200ms,0.3,"));
    let begun_s = row.and_then(|row| row.split(',').next()?.parse::<f64>().ok());
    assert!(csv.starts_with("trial,name,due_s,begun_s,") && begun_s.is_some_and(|at_s| at_s >= 0.3), "{csv}");
}

/// Waits until a process stands still (`T` in `proc_pid_stat(5)`), or goes on.
fn until_suspended(pid: u32, is_wanted: bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        if stat.rsplit_once(") ").unwrap().1.starts_with('T') == is_wanted {
            return;
        }
        assert!(Instant::now() < deadline, "process {pid}: {stat}");
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_stands_still_goes_on_if_kqps_is_killed() {
    let bench = Bench::new();
    let pid = bench.echo.pid();
    let path = scenario(&bench, "[[event]]\nat = \"0\"\ndo = \"stop\"\n");
    let (pid_text, path) = (pid.to_string(), path.display().to_string());
    let mut load = bench.load(&["-Q", "400", "-l", "5m", "--subject-pid", &pid_text, "--scenario", &path]);
    let mut load = tie(load.stdout(Stdio::null()).stderr(Stdio::null())).spawn().unwrap();
    until_suspended(pid, true);
    load.kill().unwrap();
    load.wait().unwrap();
    until_suspended(pid, false);
}

/// The guard on a system without a shell.
#[test]
fn kqps_itself_resumes_processes_when_its_input_ends() {
    let bench = Bench::new();
    let pid = bench.echo.pid();
    signal(pid, Signal::Stop).unwrap();
    until_suspended(pid, true);
    let guard = |started: u64| {
        let mut guard = kqps(&["agent", "--guard-suspended"]);
        let mut guard = guard.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let line = format!("{pid} {started}\n");
        guard.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        assert!(guard.wait().unwrap().success());
    };
    let started = kqps_host::started(pid).unwrap();
    guard(started - 1);
    until_suspended(pid, true);
    guard(started);
    until_suspended(pid, false);
}

#[test]
fn a_server_that_is_killed_is_gone() {
    let bench = Bench::new();
    let trial = played(&bench, "[[event]]\nat = \"500ms\"\ndo = \"kill\"\n");
    times(&trial.events[0]);
    assert!(trial.accounts.lost > 0 && trial.subject.is_some_and(|subject| !subject.alive));
}

/// A zone with this serial.
fn zone(serial: u32) -> String {
    let soa = format!("$ORIGIN example.test.\n$TTL 60\n@ SOA ns1 host {serial} 3600 600 86400 60\n");
    let rest: Vec<String> = (0..1000).map(|number| format!("n{number:04} A 192.0.2.1\n")).collect();
    soa + "@ NS ns1\nns1 A 192.0.2.1\n" + &rest.concat()
}

/// kqps's own authoritative server, whose zone is in a folder of its own.
fn authoritative() -> (Bench, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("example.zone");
    fs::write(&file, zone(1)).unwrap();
    let mut command =
        kqps(&["serve", "auth", "--listen", "127.0.0.1:0", "--for", "5m", "--json", "--transfers"]);
    command.arg("--zone").arg(file);
    (Bench::before(Echo::from_command(&mut command)), folder)
}

#[test]
fn a_reload_is_done_when_the_new_serial_is_answered() {
    let (bench, folder) = authoritative();
    fs::write(folder.path().join("next"), zone(2)).unwrap();
    let text = r#"
        [[event]]
        at = "100ms"
        command = ["mv", "{folder}/next", "{folder}/example.zone"]
        [[event]]
        at = "400ms"
        do = "reload"
        signal = "HUP"
        [[event]]
        at = "700ms"
        do = "transfer"
        "#
    .replace("{folder}", &folder.path().display().to_string());
    let trial = played(&bench, &text);
    let [moved, reload, transfer] = &trial.events[..] else { panic!("{:?}", trial.events) };
    for event in [moved, reload, transfer] {
        times(event);
    }
    assert_eq!((&*reload.name, &*transfer.name), ("reload", "AXFR example.test."));
    // Both SOA records, NS, its address, and the names.
    assert_eq!(transfer.counts["records"], 2 + 2 + 1000);
    assert!(transfer.counts["messages"] >= 1 && transfer.counts["bytes"] > 16_000, "{transfer:?}");
    assert_eq!(trial.accounts.correct, 400);
}

/// Waits until a process has ended.
fn until_ended(pid: &str) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        assert!(Instant::now() < deadline, "{pid} lives: {stat}");
        std::thread::yield_now();
    }
}

/// A command that goes on is ended with its group, a reload that changes nothing has no end that can be seen, and a server
/// that takes no updates says so.
#[test]
fn events_without_an_end_are_given_up_after_the_load() {
    let (bench, _folder) = authoritative();
    let trial = played(
        &bench,
        r#"
        [[event]]
        at = "0"
        command = ["sh", "-c", "sleep 600 & echo $! $$ > {folder}/pids; wait"]
        [[event]]
        at = "200ms"
        do = "reload"
        signal = "HUP"
        [[event]]
        at = "300ms"
        do = "update"
        rate = 100
        for = "100ms"
        "#,
    );
    let [command, reload, update] = &trial.events[..] else { panic!("{:?}", trial.events) };
    let failure = command.failure.as_deref().unwrap_or_default();
    assert!(failure.contains("after the end of the load, and was ended"), "{failure}");
    let pids = fs::read_to_string(bench.folder.path().join("pids")).unwrap();
    pids.split_whitespace().for_each(until_ended);
    assert!(reload.begun_s.is_some() && reload.done_s.is_none() && reload.failure.is_none(), "{reload:?}");
    let failure = update.failure.as_deref().unwrap_or_default();
    assert!(failure.starts_with("the server answered updates with "), "{update:?}");
    let counts = ["updates", "accepted", "refused", "unanswered"].map(|name| update.counts[name]);
    assert_eq!(counts, [10, 0, 10, 0]);
}

/// kqps finds the process by its socket, and knows that NSD reads its zones again on SIGHUP.
#[test]
fn a_known_program_needs_no_word_how_it_reloads() {
    let Some(nsd) = programs::find("nsd") else {
        skip(
            Capability::Programs,
            "a reload of a server that runs already: `nsd` is missing (apt install nsd)",
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().display().to_string();
    fs::write(folder.path().join("example.zone"), zone(1)).unwrap();
    fs::write(folder.path().join("next"), zone(2)).unwrap();
    let address = crate::load::bench::unused_address();
    let conf = format!(
        "server:\n ip-address: {}\n username: \"\"\n chroot: \"\"\n database: \"\"\n zonesdir: \"{dir}\"\n \
         pidfile: \"{dir}/nsd.pid\"\n xfrdfile: \"{dir}/xfrd.state\"\n xfrdir: \"{dir}\"\n zonelistfile: \"{dir}/list\"\n \
         rrl-ratelimit: 0\nremote-control:\n control-enable: no\nzone:\n name: example.test.\n zonefile: example.zone\n",
        address.replace(':', "@")
    );
    fs::write(folder.path().join("nsd.conf"), conf).unwrap();
    let mut command = std::process::Command::new(nsd);
    command.arg("-c").arg(folder.path().join("nsd.conf")).arg("-d").stderr(Stdio::null());
    let mut server = tie(&mut command).spawn().unwrap();
    let bench = Bench::new();
    until_it_answers(&address);
    // A copy is as old as the event. NSD leaves out a file that is no younger than the zone that it has, and both files
    // here may be of one tick of the kernel's clock.
    let text = r#"
        [[event]]
        at = "100ms"
        command = ["cp", "{folder}/next", "{folder}/example.zone"]
        [[event]]
        at = "400ms"
        do = "reload"
        "#;
    let path = scenario(&bench, &text.replace("{folder}", &dir));
    let flags = ["-Q", "400", "-l", "3s", "--json", "--scenario", path.to_str().unwrap()];
    let output = bench.load_of(&address, &flags).output().unwrap();
    kqps_kernel::process::signal_group(server.id(), Signal::Kill).unwrap();
    server.wait().unwrap();
    let trial: Trial =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{:?}", words(&output)));
    for event in &trial.events {
        times(event);
    }
    assert_eq!(trial.events.len(), 2);
}

/// A real server whose zone changes by updates, and that hands the changes out again.
#[test]
fn updates_change_a_zone_and_ixfr_has_the_changes() {
    let Some(knotd) = programs::find("knotd") else {
        skip(Capability::Programs, "dynamic updates: `knotd` is missing (apt install knot)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().display();
    fs::write(folder.path().join("example.zone"), zone(1)).unwrap();
    let address = crate::load::bench::unused_address().replace(':', "@");
    let conf = format!(
        "server:\n  rundir: \"{dir}\"\n  listen: {address}\ndatabase:\n  storage: \"{dir}\"\n\
         log:\n  - target: stderr\n    any: notice\nacl:\n  - id: all\n    address: 127.0.0.0/8\n\
         \x20   action: [transfer, update, notify]\nzone:\n  - domain: example.test.\n    file: \"{dir}/example.zone\"\n\
         \x20   acl: all\n    zonefile-sync: -1\n    zonefile-load: whole\n    journal-content: changes\n"
    );
    fs::write(folder.path().join("knot.conf"), conf).unwrap();
    let mut command = std::process::Command::new(knotd);
    command.args(["-c", "knot.conf", "-s", "knot.sock"]).current_dir(folder.path());
    command.stderr(Stdio::null());
    let mut server = tie(&mut command).spawn().unwrap();
    let bench = Bench::new();
    let target = address.replace('@', ":");
    until_it_answers(&target);
    let path = scenario(
        &bench,
        r#"
        [[event]]
        at = "200ms"
        do = "update"
        rate = 100
        for = "300ms"
        [[event]]
        at = "1s"
        do = "transfer"
        serial = 1
        "#,
    );
    let flags = ["-Q", "400", "-l", "2s", "--json", "--scenario", path.to_str().unwrap()];
    let output = bench.load_of(&target, &flags).output().unwrap();
    signal(server.id(), Signal::Kill).unwrap();
    server.wait().unwrap();
    let trial: Trial =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{:?}", words(&output)));
    let [update, transfer] = &trial.events[..] else { panic!("{:?}", trial.events) };
    times(update);
    times(transfer);
    assert_eq!((update.counts["updates"], update.counts["accepted"]), (30, 30));
    // The server may join updates to a change, which has two SOA records and a record that is added or removed. The
    // newest SOA stands at both ends.
    let records = transfer.counts["records"];
    assert!((2 + 3..=2 + 3 * 30).contains(&records), "{transfer:?}");
}

fn until_it_answers(target: &str) {
    let server = kqps_ask::Server::over_udp(target.parse().unwrap());
    let query = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x07example\x04test\0\0\x06\0\x01";
    let patience = Duration::from_millis(100);
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.ask(query, patience).map_or(true, |reply| reply[7] != 1) {
        assert!(Instant::now() < deadline, "{target} does not answer");
        std::thread::yield_now();
    }
}
