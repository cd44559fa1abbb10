//! Servers over QUIC, with a client that is not kqps.

use kqps_kernel::process::Signal;
use serde_json::{Value, json};

use super::running::Running;
use crate::python::script;

#[test]
fn a_client_by_aioquic_is_answered_and_sends_early_data() {
    for early in [true, false] {
        let Some(mut command) = script("doq_client.py", "aioquic") else { return };
        let listen = ["--listen", "127.0.0.1:0", "--listen", "quic://127.0.0.1:0"];
        let flags: &[&str] = if early { &["--early-data"] } else { &[] };
        let server = Running::start(&[&listen[..], flags].concat());
        let (_, port) = server.ready["quic"][0].as_str().unwrap().rsplit_once(':').unwrap();
        let ca = server.ready["ca"].as_str().unwrap();
        let output = command.args([port, ca, "50"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let happened: Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = |resumed: bool, early: bool| json!({ "right": 50, "alpn": "doq", "resumed": resumed, "early": early });
        assert_eq!(happened, json!([expected(false, false), expected(true, early)]));
        let report = server.stop(Signal::Terminate).quic.unwrap().counts;
        assert_eq!((report.received, report.answered, report.connections), (100, 100, 2));
        let second = if early { "0-rtt" } else { "resumed" };
        assert_eq!(report.handshakes, [("full".to_owned(), 1), (second.to_owned(), 1)].into());
    }
}
