//! `kqps load` over QUIC: at the echo, where both sides count the same, and at a server that is not kqps.

use std::io::{BufRead as _, BufReader, Read as _};

use kqps_kernel::process::Signal;
use kqps_observation::trial::Transport;
use kqps_observation::{QuicFacts, TlsFacts, Trial};
use kqps_server::connections::QuicReport;
use serde_json::Value;

use super::bench::{Bench, kqps, patient, words};
use super::encrypted::{self, played};
use crate::python::script;
use crate::serve::running::Running;

fn server(flags: &[&str]) -> (Running, String, String) {
    encrypted::server("quic", flags)
}

fn stopped(server: Running) -> QuicReport {
    server.stop(Signal::Terminate).quic.unwrap()
}

fn tls(trial: &Trial) -> &TlsFacts {
    trial.connections.as_ref().and_then(|connections| connections.tls.as_ref()).expect("QUIC has TLS")
}

fn quic(trial: &Trial) -> &QuicFacts {
    trial.connections.as_ref().and_then(|connections| connections.quic.as_ref()).expect("it is over QUIC")
}

#[test]
fn both_sides_count_the_same_queries_connections_and_handshakes() {
    let of_each = ["-q", "20", "-c", "16", "--queries-per-connection"];
    for (flags, connections) in [
        (&["-q", "50", "-c", "4"][..], 4..=4),
        (&["-q", "50", "-c", "6", "-T", "3", "--congestion", "cubic"], 6..=6),
        (&["-Q", "2k", "-c", "2"], 2..=2),
        (&[&of_each[..], &["1"]].concat(), 1000..=1000),
        (&[&of_each[..], &["1", "--resume", "no"]].concat(), 1000..=1000),
        (&[&of_each[..], &["10"]].concat(), 100..=116),
    ] {
        let (server, url, ca) = server(&[]);
        let trial = played(&url, &[&["--ca", &ca][..], flags].concat());
        assert_eq!(
            (trial.transport, trial.accounts.correct),
            (Transport::Quic, 1000),
            "{:?}",
            trial.accounts
        );
        let made = trial.connections.as_ref().unwrap();
        assert!(connections.contains(&made.established), "{flags:?}: {made:?}");
        let report = stopped(server).counts;
        assert_eq!((report.received, report.answered), (1000, 1000));
        assert_eq!(report.connections, made.established, "{flags:?}");
        assert_eq!(report.handshakes, tls(&trial).handshakes, "{flags:?}");
        let resumed = report.handshakes.get("resumed").copied().unwrap_or(0);
        assert_eq!(resumed > 300, flags.contains(&"1") && !flags.contains(&"no"), "{:?}", report.handshakes);
        assert_eq!(report.ended.values().sum::<u64>(), report.connections, "{:?}", report.ended);
    }
}

#[test]
fn connections_alone_are_made_and_closed() {
    let (server, url, ca) = server(&[]);
    let trial = played(&url, &["--ca", &ca, "-q", "16", "--queries-per-connection", "0"]);
    assert_eq!(trial.accounts.correct, 1000, "{:?}", trial.accounts);
    let connections = trial.connections.as_ref().unwrap();
    assert_eq!((connections.alone, connections.established), (true, 1000));
    let report = stopped(server).counts;
    assert_eq!((report.received, report.connections), (0, 1000));
}

#[test]
fn workers_and_processes_serve_quic_with_sockets_of_their_own() {
    for flags in [&["--threads", "2"][..], &["--processes", "2"]] {
        let (server, url, ca) = server(flags);
        let trial = played(&url, &["--ca", &ca, "-c", "16"]);
        assert_eq!((trial.accounts.correct, tls(&trial).sessions[0].connections), (1000, 16));
        let report = stopped(server);
        assert_eq!((report.counts.answered, report.counts.connections), (1000, 16));
        assert!(report.datagrams_received > 0 && report.datagrams_sent > 0, "{report:?}");
    }
}

#[test]
fn what_quic_did_is_printed_and_wrong_flags_explained() {
    let (server, url, ca) = server(&[]);
    let bench = Bench::new();
    let load = |flags: &[&str]| {
        let mut load = kqps(&["load", &url, "-q", "10", "-c", "2", "-d"]);
        load.arg(bench.queries()).args(patient(flags)).env("XDG_CACHE_HOME", bench.folder.path());
        words(&load.output().unwrap())
    };
    let (out, err) = load(&["--ca", &ca]);
    assert!(out.contains("congestion fixed; waited for a stream: 0 queries, "), "{out}{err}");
    assert!(out.contains("2 full; tickets: ") && out.contains("Packets:"), "{out}{err}");
    assert!(!out.contains("Connect (µs)"), "{out}");
    for (flags, wanted) in [
        (&["--close", "rst"][..], "--close is about TCP"),
        (&["--early-data", "--resume", "no"], "leave --resume no out"),
        (&["--tls-packing"], "--tls-packing has no effect over quic"),
        (&["--tls-suite", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "QUIC needs a suite of TLS 1.3"),
        (&["--congestion", "bbr"], "expected fixed or cubic"),
        (&["-x", "4000"], "-x has no effect over quic"),
    ] {
        let (_, err) = load(flags);
        assert!(err.contains(wanted), "{flags:?}: {err}");
    }
    drop(server);
    let refused = |arguments: &[&str]| words(&kqps(arguments).output().unwrap()).1;
    assert!(refused(&["load", "127.0.0.1", "--congestion", "cubic"]).contains("--congestion is about QUIC"));
    assert!(refused(&["load", "127.0.0.1", "--early-data"]).contains("--early-data is about TLS"));
    let front = ["serve", "front", "--backend", "udp://127.0.0.1:1", "--listen", "quic://127.0.0.1:0"];
    assert!(refused(&front).contains("a front takes no connections in TLS or over QUIC"));
    assert!(refused(&["serve", "echo", "--early-data"]).contains("it needs --listen tls://"));
}

#[test]
fn a_server_by_aioquic_counts_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let made = kqps_tls::certificate::make(kqps_tls::certificate::KeyType::Ecdsa, &["localhost".to_owned()])
        .unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (cert, key) = (file("cert.pem", &made.identity.chain), file("key.pem", &made.identity.key));
    let ca = file("ca.pem", &made.ca);
    for is_retrying in [false, true] {
        let Some(mut command) = script("doq_server.py", "aioquic") else { return };
        command.args([&cert, &key]).args(is_retrying.then_some("--retry"));
        let mut peer = command.spawn().unwrap();
        let mut lines = BufReader::new(peer.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let url = format!("quic://127.0.0.1:{}", ready["port"]);
        let flags = ["--ca", &ca, "--server-name", "localhost", "-q", "8", "-c", "4", "-t", "5s"];
        let trial = played(&url, &[&flags[..], &["--queries-per-connection", "20", "--early-data"]].concat());
        assert_eq!((trial.accounts.correct, trial.accounts.sent), (1000, 1000), "{:?}", trial.accounts);
        // Its counts follow the end of its input.
        drop(peer.stdin.take());
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert!(peer.wait().unwrap().success());
        let counted: Value = serde_json::from_str(&rest).unwrap();
        let connections = trial.connections.as_ref().unwrap();
        assert_eq!((&counted["queries"], &counted["broken"]), (&Value::from(1000), &Value::from(0)));
        assert_eq!(counted["connections"], connections.established);
        assert_eq!(counted["early"], tls(&trial).early.unwrap().accepted);
        assert_eq!(quic(&trial).retries > 0, is_retrying, "{:?}", quic(&trial));
    }
}
