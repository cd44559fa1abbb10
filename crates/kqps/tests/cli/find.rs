//! `kqps find` as a user runs it, apart from the search itself.

mod breaking;
mod ends;
mod limits;
mod stored_search;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Stdio};

use kqps_kernel::process::{Signal, signal};
use kqps_observation::run::{Role, RunTrial};
use kqps_observation::trial::Transport;
use kqps_observation::{Store, Trial};

use crate::load::bench::{Bench, kqps, unused_address, words};
use crate::load::find;
use crate::serve::running::Running;

/// Interrupts a search once it prints these words. Returns all that it printed.
fn interrupted_at(words: &str, find: &mut Child) -> String {
    let (mut said, mut stderr) = (String::new(), BufReader::new(find.stderr.take().unwrap()));
    while !said.contains(words) {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended by itself: {said}");
    }
    signal(find.id(), Signal::Interrupt).unwrap();
    stderr.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn an_interruption_ends_the_ceilings_and_blames_nothing() {
    let bench = Bench::new();
    let goal = ["--goal", "rfc2544", "--loss", "5%", "--min", "100", "--p99", "20ms"];
    let mut child = find(&bench, &goal).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = interrupted_at("measuring the echo's ceiling", &mut child);
    let output = child.wait_with_output().unwrap();
    assert!(!said.contains("could not be measured"), "{said}");
    let (out, _) = words(&output);
    let verdict: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(verdict["interrupted"], true, "{out}");
    assert_eq!(output.status.code(), Some(130), "{said}");
    let goal = &verdict["goal"];
    let facts = [&goal["loss"], &goal["min_qps"], &goal["max_qps"], &goal["width"], &goal["p99_us"]];
    assert_eq!(serde_json::json!(facts), serde_json::json!([0.05, 100.0, 1500.0, 0.2, 20_000]), "{goal}");
}

#[test]
fn queries_from_a_pipe_are_read_once() {
    let bench = Bench::new();
    let mut find = kqps(&["find", &bench.echo.address, "--goal", "quick", "--max", "1.5k", "--width", "20%"]);
    find.args(["-t", "100ms", "--lag", "10s", "--skip-bad", "-d", "/dev/stdin"]).stdin(Stdio::piped());
    find.env("XDG_CACHE_HOME", bench.folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = find.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"good.example.test A\nbad.example.test AAAAB\n").unwrap();
    let said = interrupted_at("overload", &mut child);
    child.wait().unwrap();
    assert!(
        said.contains("measuring the echo's ceiling") && !said.contains("could not be measured"),
        "{said}"
    );
    assert_eq!(said.matches("1 bad query was skipped in /dev/stdin").count(), 1, "{said}");
}

#[test]
fn a_search_over_tcp_has_the_ceiling_of_tcp() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
    let bench = Bench::new();
    let target = format!("tcp://{}", server.addresses[0]);
    let mut find = kqps(&["find", &target, "-c", "4", "--goal", "quick", "--max", "1.5k", "--width", "20%"]);
    find.args(["-t", "100ms", "--lag", "10s", "--why", "--out"]).arg(bench.folder.path().join("kept"));
    find.arg("-d").arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path());
    let (out, err) = words(&find.output().unwrap());
    assert!(!err.contains("could not be measured"), "{err}");
    let run = Store::read(&bench.folder.path().join("kept/run.sqlite")).unwrap();
    let roles: Vec<Role> = run.cells.iter().map(|cell| cell.role).collect();
    assert_eq!(roles, [Role::EchoCeiling, Role::Subject], "{err}");
    assert_eq!(run.cells[0].name, "echo tcp");
    let trials: Vec<&Trial> = run.trials.iter().filter_map(RunTrial::measured).collect();
    assert_eq!(trials.len(), run.trials.len(), "{err}");
    for trial in trials {
        let connections = trial.connections.as_ref().unwrap();
        assert_eq!((trial.transport, connections.before_load), (Transport::Tcp, 4), "{out}");
        assert!(trial.accounts.correct > 0, "{out}");
    }
}

#[test]
fn an_encrypted_search_has_the_ceiling_of_an_echo_with_a_certificate_of_its_own() {
    let (transport, word) = (Transport::Quic, "quic");
    let server = Running::start(&["--listen", "127.0.0.1:0", "--listen", &format!("{word}://127.0.0.1:0")]);
    let bench = Bench::new();
    let target = format!("{word}://{}", server.ready[word][0].as_str().unwrap());
    let mut find = kqps(&["find", &target, "-c", "4", "--goal", "quick", "--max", "1.5k", "--width", "20%"]);
    find.args(["-t", "500ms", "--lag", "10s", "--ca", server.ready["ca"].as_str().unwrap(), "--out"]);
    find.arg(bench.folder.path().join("kept")).args(["--resume", "no", "-d"]).arg(bench.queries());
    let (out, err) = words(&find.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap());
    assert!(!err.contains("could not be measured"), "{err}");
    let run = Store::read(&bench.folder.path().join("kept/run.sqlite")).unwrap();
    let [echo, subject] = &run.cells[..] else { panic!("{err}") };
    assert_eq!((echo.name.as_str(), echo.role), (&*format!("echo {word}"), Role::EchoCeiling));
    for cell in [echo, subject] {
        assert_eq!((cell.factors.transport(), cell.factors.player().resume), (transport, Some(false)));
    }
    assert_eq!(subject.factors.word("player.tls_trust"), Some("ca"));
    for trial in run.trials.iter().map(|one| one.measured().unwrap()) {
        assert!(trial.transport == transport && trial.accounts.correct > 0, "{out}");
        let tls = trial.connections.as_ref().unwrap().tls.as_ref().unwrap();
        assert!(tls.trust == "ca" && tls.failures.is_empty(), "{:?}", tls.failures);
    }
    let of_subject = run.trials.iter().filter(|one| one.cell == 1).filter_map(RunTrial::measured);
    let made: u64 = of_subject.map(|trial| trial.connections.as_ref().unwrap().established).sum();
    assert!(out.contains("\n  tls          TLSv1.3, TLS_"), "{out}");
    assert!(out.contains(&format!("\n  handshakes   {made} full\n")), "{out}");
}

#[test]
fn a_search_at_another_path_asks_the_echo_at_its_own() {
    let server = Running::start(&["--listen", "https://127.0.0.1:0"]);
    let bench = Bench::new();
    let target = format!("https://{}/other", server.ready["https"][0].as_str().unwrap());
    let mut find = kqps(&["find", &target, "-c", "4", "--goal", "quick", "-t", "500ms", "--lag", "10s"]);
    find.args(["--insecure", "-d"]).arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path());
    let (out, err) = words(&find.output().unwrap());
    let ceiling =
        err.lines().find(|line| line.starts_with("ceiling ")).unwrap_or_else(|| panic!("{out}{err}"));
    assert!(ceiling.contains(" q/s answered by the echo over https "), "{err}");
    assert!(!ceiling.contains(" 0 q/s "), "{err}");
}

#[test]
fn a_search_finds_how_many_connections_a_second_are_made() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
    let bench = Bench::new();
    let target = format!("tcp://{}", server.addresses[0]);
    let mut find =
        kqps(&["find", &target, "--goal", "quick", "--max", "1k", "--width", "20%", "--lag", "10s"]);
    find.args(["--queries-per-connection", "0", "-t", "1s", "--out"])
        .arg(bench.folder.path().join("kept"))
        .arg("-d");
    find.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path());
    let (out, err) = words(&find.output().unwrap());
    assert!(out.contains(", connections alone instead of queries: grade "), "{out}{err}");
    let run = Store::read(&bench.folder.path().join("kept/run.sqlite")).unwrap();
    let trials: Vec<&Trial> = run.trials.iter().filter_map(RunTrial::measured).collect();
    assert_eq!(trials.len(), run.trials.len(), "{err}");
    assert!(trials.iter().all(|trial| trial.connections.as_ref().unwrap().alone), "{err}");
    assert!(trials.iter().all(|trial| trial.accounts.correct > 0), "{err}");
}

#[test]
fn the_models_of_udp_are_refused_over_tcp() {
    let bench = Bench::new();
    let output = find(&bench, &["-m", "tcp", "--subject-io", "mmsg"]).output().unwrap();
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("--subject-io is for udp"), "{err}");
}

#[test]
fn more_threads_than_the_usual_window_have_a_window() {
    let bench = Bench::new();
    let unused = unused_address();
    let mut find = kqps(&["find", &unused, "--goal", "quick", "--no-ceiling", "-t", "0.1s", "-d"]);
    // A busy host takes its time to start so many threads.
    find.arg(bench.queries()).args(["-T", "501", "-c", "501", "--time-limit", "1h"]);
    find.env("XDG_CACHE_HOME", bench.folder.path());
    let output = find.output().unwrap();
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("Nothing listens at") || err.contains("No reply came"), "{err}");
}

#[test]
fn a_limit_that_every_trial_breaks_is_bad_usage() {
    let bench = Bench::new();
    for limit in ["0", "0.5us"] {
        let output = find(&bench, &["--p99", limit]).output().unwrap();
        let (_, err) = words(&output);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains("--p99: every trial would be above it"), "{err}");
    }
    let output = find(&bench, &["--p99", "5"]).output().unwrap();
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("with a unit; did you mean 5ms or 5s?"), "{err}");
}
