//! The exit status of a load: it ran, it failed, or a condition of `--fail-on` holds.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_observation::Trial;
use kqps_skips::{Capability, skip};

use super::bench::{Bench, words};
use super::trouble::Stopper;

/// Loads a server that drops each `lost`-th query, and answers each `wrong`-th with another rcode.
fn load_of_a_server(bench: &Bench, lost: u64, wrong: u64, flags: &[&str]) -> Output {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap().to_string();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| answer_some(&socket, lost, wrong, &stop));
        let _stopper = Stopper(&stop);
        // Longer than other programs keep the server from a core: a reply that is late would count as a loss.
        let common = ["-q", "10", "-n", "1", "-t", "3s"];
        bench.load_of(&target, &[&common, flags].concat()).output().unwrap()
    })
}

fn answer_some(socket: &UdpSocket, lost: u64, wrong: u64, stop: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let (mut buffer, mut count) = ([0; 512], 0_u64);
    while !stop.load(Relaxed) {
        let Ok((bytes, from)): Result<(usize, SocketAddr), _> = socket.recv_from(&mut buffer) else {
            continue;
        };
        count += 1;
        buffer[2] |= 0x80;
        buffer[3] = if wrong > 0 && count.is_multiple_of(wrong) { 2 } else { 0 };
        if lost == 0 || !count.is_multiple_of(lost) {
            socket.send_to(&buffer[..bytes], from).unwrap();
        }
    }
}

#[test]
fn conditions_hold_above_their_limit() {
    let bench = Bench::new();
    let names: Vec<String> = (0..1000).map(|number| format!("n{number:04}.test A NOERROR")).collect();
    std::fs::write(bench.queries(), names.join("\n")).unwrap();
    // The server drops 10 of 1,000 queries, and answers 20 with another rcode; no query counts as both.
    let cases = [
        (&[][..], 0, ""),
        (&["--fail-on", "loss:1%"], 0, ""),
        (&["--fail-on", "loss"], 3, "--fail-on loss holds: 10 of 1000 queries were lost or late (1.000 %)"),
        (&["--fail-on", "loss:0.9%"], 3, "--fail-on loss:0.9% holds: 10 of 1000"),
        (&["--fail-on", "wrong:2%", "--fail-on", "loss:1%"], 0, ""),
        (&["--fail-on", "wrong:1%"], 3, "--fail-on wrong:1% holds: 20 of 1000 queries were answered wrongly"),
        // The p99 of a thousand queries has bounds.
        (&["--fail-on", "latency:10s"], 0, ""),
        (&["--fail-on", "latency:1us"], 3, "--fail-on latency:1us holds: p99 of latency was at least "),
    ];
    // All at the same time, since a load mostly waits until its queries are lost.
    let bench = &bench;
    let outputs = std::thread::scope(|scope| {
        let loads = cases.map(|(flags, ..)| scope.spawn(move || load_of_a_server(bench, 100, 49, flags)));
        loads.map(|load| load.join().unwrap())
    });
    for ((flags, status, said), output) in cases.iter().zip(&outputs) {
        let (out, err) = words(output);
        assert_eq!(output.status.code(), Some(*status), "{flags:?}: {out}{err}");
        assert!(err.contains(said), "{flags:?}: {err}");
        assert_eq!(err.contains("--fail-on"), *status == 3, "{err}");
    }
    // It is over in some milliseconds, which show nothing of the host.
    let brief = load_of_a_server(bench, 0, 0, &["--fail-on", "noise"]);
    let err = words(&brief).1;
    assert_eq!(brief.status.code(), Some(3), "{err}");
    assert!(err.contains("--fail-on noise"), "{err}");
    let output = load_of_a_server(bench, 100, 49, &["--fail-on", "loss", "--fail-on", "wrong:50%", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["failed_on"], &json["silence"]),
        (&serde_json::json!(["loss"]), &serde_json::Value::Null)
    );
}

#[test]
fn a_condition_that_is_none_is_bad_usage() {
    let bench = Bench::new();
    for condition in ["lost", "loss:200%", "latency", "latency:x", "noise:1%", ""] {
        let output = bench.load(&["-Q", "1", "-n", "1", "--fail-on", condition]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{condition}");
    }
}

#[test]
fn a_server_that_never_answers_is_no_measurement() {
    let bench = Bench::new();
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = mute.local_addr().unwrap().to_string();
    let load = |flags: &[&str]| {
        // So many that what other tests send to closed ports, which the kernel counts together, is less.
        let common = ["-Q", "5000", "-l", "0.2s", "-t", "0.2s"];
        bench.load_of(&target, &[&common, flags].concat()).output().unwrap()
    };
    let output = load(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).0.contains(&format!("No reply came from {target} at all")));
    let output = load(&["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let trial: Trial = serde_json::from_slice(&output.stdout).unwrap();
    assert!(trial.accounts.sent > 0, "the record is printed all the same");
    assert_eq!(trial.accounts.lost, trial.accounts.sent);
    assert!(words(&output).1.contains("kqps: No reply came from"));
    assert_eq!(load(&["--fail-on", "loss"]).status.code(), Some(1), "nothing was measured");
}

/// Plays a load in a network namespace of its own, which this line of shell sets up.
pub(super) fn in_a_namespace(bench: &Bench, set_up: &str, target: &str, flags: &[&str]) -> Option<Output> {
    if !Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success()) {
        skip(Capability::Networks, "no network namespace can be made");
        return None;
    }
    let line = format!("{set_up} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", &line, "sh", env!("CARGO_BIN_EXE_kqps"), "load", target, "-d"]);
    command.arg(bench.queries()).args(["-Q", "100", "-l", "0.2s", "-t", "0.2s"]).args(flags);
    Some(command.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap())
}

#[test]
fn what_the_kernel_refuses_is_reported_with_its_cause() {
    let bench = Bench::new();
    // An address of the benchmarking network without a route.
    let Some(output) = in_a_namespace(&bench, "true", "198.18.0.1", &["--lag", "1m"]) else { return };
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    for wanted in
        ["the kernel refused 20 queries with ENETUNREACH", "no route", "send failed: 20 (ENETUNREACH"]
    {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    assert!(!out.contains("more threads"), "they would not help: {out}");
    let set_up = "ip link set lo up && nft 'add table ip t; add chain ip t out { type filter hook output priority 0; }; \
                  add rule ip t out udp dport 53 drop'";
    let Some(output) = in_a_namespace(&bench, set_up, "127.0.0.1", &["--lag", "1m"]) else { return };
    let (out, err) = words(&output);
    if err.contains("nft") {
        return skip(Capability::Programs, err);
    }
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("EPERM") && out.contains("a packet filter of this host forbids it"), "{out}");
}
