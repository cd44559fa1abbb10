//! Servers over QUIC, with a client that is not kqps.

use kqps_kernel::process::Signal;
use serde_json::{Value, json};

use super::running::Running;
use crate::python::script;

/// A zone with an address for each name.
const ZONE: &str = "$ORIGIN test.\n$TTL 300\n@ SOA ns1 host 1 3600 600 86400 60\n@ NS ns1\n\
    ns1 A 192.0.2.1\n* A 192.0.2.80\n";

/// Has the client ask 50 queries on each of two connections, of which the second resumes the first.
fn ask(kind: &str, flags: &[&str], arguments: &[&str], early: bool) {
    let Some(mut command) = script("doq_client.py", "aioquic") else { return };
    let listen = ["--listen", "127.0.0.1:0", "--listen", "quic://127.0.0.1:0"];
    let early_data: &[&str] = if early { &["--early-data"] } else { &[] };
    let server = Running::start_as(kind, &[&listen[..], flags, early_data].concat());
    let (_, port) = server.ready["quic"][0].as_str().unwrap().rsplit_once(':').unwrap();
    let ca = server.ready["ca"].as_str().unwrap();
    let output = command.args([port, ca, "50"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let happened: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = |resumed: bool, early: bool| json!({ "right": 50, "alpn": "doq", "resumed": resumed, "early": early });
    assert_eq!(happened, json!([expected(false, false), expected(true, early)]));
    let report = server.stop(Signal::Terminate).quic.unwrap().counts;
    assert_eq!((report.received, report.answered, report.connections), (100, 100, 2));
    let second = if early { "0-rtt" } else { "resumed" };
    assert_eq!(report.handshakes, [("full".to_owned(), 1), (second.to_owned(), 1)].into());
}

#[test]
fn a_client_by_aioquic_is_answered_and_sends_early_data() {
    for early in [true, false] {
        ask("echo", &[], &[], early);
    }
}

#[test]
fn a_client_by_aioquic_gets_answers_from_a_zone() {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("test.zone");
    std::fs::write(&zone, ZONE).unwrap();
    let zone = format!("test={}", zone.display());
    for early in [true, false] {
        ask("auth", &["--zone", &zone], &["zone"], early);
    }
}
