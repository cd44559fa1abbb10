//! `kqps load` over TLS at the echo: both sides count the same queries, connections and handshakes.

use std::net::TcpListener;
use std::path::Path;

use kqps_kernel::process::Signal;
use kqps_observation::trial::Transport;
use kqps_observation::{TlsFacts, Trial};
use kqps_server::connections::TcpReport;

use super::bench::{Bench, kqps, patient, words};
use super::encrypted::{self, played};
use crate::serve::running::Running;

fn server(flags: &[&str]) -> (Running, String, String) {
    encrypted::server("tls", flags)
}

fn stopped(server: Running) -> TcpReport {
    server.stop(Signal::Terminate).tcp.unwrap()
}

fn tls(trial: &Trial) -> &TlsFacts {
    trial.connections.as_ref().and_then(|connections| connections.tls.as_ref()).expect("it is over TLS")
}

#[test]
fn both_sides_count_the_same_queries_connections_and_handshakes() {
    let of_each = ["-q", "20", "-c", "16", "--queries-per-connection"];
    for (flags, connections) in [
        (&["-q", "50", "-c", "4"][..], 4..=4),
        (&["-q", "50", "-c", "6", "-T", "3"], 6..=6),
        (&["-Q", "2k", "-c", "2"], 2..=2),
        (&[&of_each[..], &["1"]].concat(), 1000..=1000),
        (&[&of_each[..], &["1", "--resume", "no"]].concat(), 1000..=1000),
        (&[&of_each[..], &["10", "--close", "rst"]].concat(), 100..=116),
    ] {
        let (server, url, ca) = server(&[]);
        let trial = played(&url, &[&["--ca", &ca][..], flags].concat());
        assert_eq!((trial.transport, trial.accounts.correct), (Transport::Tls, 1000), "{:?}", trial.accounts);
        let made = trial.connections.as_ref().unwrap();
        assert!(connections.contains(&made.established), "{flags:?}: {made:?}");
        let report = stopped(server);
        assert_eq!((report.received, report.answered), (1000, 1000));
        assert_eq!(report.connections, made.established, "{flags:?}");
        assert_eq!(report.handshakes, tls(&trial).handshakes, "{flags:?}");
        // The echo sends two for each handshake, also to those who do not resume sessions.
        let tickets = tls(&trial).tickets_received;
        let full = report.handshakes.get("full").copied().unwrap_or(0);
        assert!(tickets >= full && tickets <= 2 * made.established, "{flags:?}: {tickets} tickets");
        let resumed = report.handshakes.get("resumed").copied().unwrap_or(0);
        let may_resume = flags.contains(&"1") && !flags.contains(&"no");
        assert_eq!(resumed >= 900, may_resume, "{flags:?}: {:?}", report.handshakes);
    }
}

#[test]
fn what_was_agreed_on_is_in_the_record_and_can_be_asked_for() {
    for (cert_type, certificate) in [("ecdsa", "ECDSA-P256"), ("rsa", "RSA-2048")] {
        let (server, url, ca) = server(&["--cert-type", cert_type]);
        let wanted = ["--ca", &ca, "--tls-suite", "TLS_CHACHA20_POLY1305_SHA256", "--tls-group", "secp384r1"];
        let trial = played(&url, &[&wanted[..], &["--tls-certificate", cert_type]].concat());
        let [session] = tls(&trial).sessions.as_slice() else { panic!("{:?}", tls(&trial)) };
        assert_eq!((session.version.as_str(), session.suite.as_str()), ("TLSv1.3", wanted[3]));
        assert_eq!(
            (session.group.as_deref(), session.certificate.as_deref()),
            (Some(wanted[5]), Some(certificate))
        );
        let other = if cert_type == "rsa" { "ecdsa" } else { "rsa" };
        let short = ["--ca", &ca, "-t", "200ms", "-l", "300ms", "--tls-certificate", other];
        let trial = played(&url, &short);
        let connections = trial.connections.as_ref().unwrap();
        assert_eq!((connections.established, connections.failed["tls-alert"] > 0), (0, true));
        let note = format!("the server has no {other} certificate");
        assert!(
            trial.players.first.notes.iter().any(|one| one.contains(&note)),
            "{:?}",
            trial.players.first.notes
        );
        stopped(server);
        assert!(!Path::new(&ca).exists(), "the server leaves no file");
    }
}

#[test]
fn workers_with_sockets_and_processes_of_their_own_serve_tls() {
    for flags in [&["--threads", "2", "--listeners", "reuseport"][..], &["--processes", "2"]] {
        let (server, url, ca) = server(flags);
        let trial = played(&url, &["--ca", &ca, "-c", "8"]);
        assert_eq!((trial.accounts.correct, tls(&trial).sessions[0].connections), (1000, 8));
        let report = stopped(server);
        assert_eq!((report.answered, report.connections), (1000, 8));
        assert_eq!(report.handshakes.values().sum::<u64>(), 8);
    }
}

#[test]
fn a_certificate_may_be_given_and_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let made =
        kqps_tls::certificate::make(kqps_tls::certificate::KeyType::Ecdsa, &["dns.test".to_owned()]).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (cert, key) = (file("cert.pem", &made.identity.chain), file("key.pem", &made.identity.key));
    let ca = file("ca.pem", &made.ca);
    let (server, url, printed) = server(&["--cert", &cert, "--key", &key]);
    assert_eq!(printed, "", "a given certificate has an issuer elsewhere");
    let trial = played(&url, &["--ca", &ca, "--server-name", "dns.test"]);
    assert_eq!(trial.accounts.correct, 1000, "{:?}", trial.accounts);
    assert_eq!(played(&url, &["--insecure"]).accounts.correct, 1000);
    let refused = played(&url, &["--ca", &ca, "-t", "200ms", "-l", "300ms"]);
    let connections = refused.connections.as_ref().unwrap();
    assert_eq!((connections.established, refused.accounts.correct), (0, 0));
    // The trial may end while an attempt is being made.
    let failed = connections.failed["certificate"];
    assert_eq!((failed + connections.unfinished, connections.failed.len()), (connections.attempts, 1));
    assert_eq!(tls(&refused).failures["certificate: another name"], failed);
    let report = stopped(server);
    assert_eq!(report.ended["tls"], failed, "{report:?}");
}

#[test]
fn a_server_that_is_mute_in_the_handshake_is_asked_for_tls() {
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tls://{}", plain.local_addr().unwrap());
    let bench = Bench::new();
    let mut load =
        kqps(&["load", &url, "--insecure", "-q", "1", "-c", "1", "-t", "100ms", "-l", "200ms", "-d"]);
    load.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path());
    let out = words(&load.output().unwrap()).0;
    assert!(out.contains("did not answer the handshake of TLS"), "{out}");
    assert!(out.contains("(connection: connect-timeout)\n"), "{out}");
    assert!(!out.contains("any certificate was accepted"), "{out}");
}

#[test]
fn handshakes_are_printed_and_wrong_flags_explained() {
    let (server, url, ca) = server(&[]);
    let bench = Bench::new();
    let load = |flags: &[&str]| {
        let mut load = kqps(&["load", &url, "-q", "10", "-c", "2", "-d"]);
        load.arg(bench.queries())
            .args(patient(flags))
            .env("XDG_CACHE_HOME", bench.folder.path())
            .output()
            .unwrap()
    };
    let (out, err) = words(&load(&["--ca", &ca]));
    assert!(out.contains("TLSv1.3, TLS_") && out.contains("ECDSA-P256 (2 connections)"), "{out}{err}");
    assert!(out.contains("2 full; tickets: "), "{out}{err}");
    let (out, err) = words(&load(&["--insecure"]));
    assert!(out.contains("any certificate was accepted (--insecure)"), "{out}{err}");
    let (_, err) = words(&load(&["--ca", "/nonexistent/ca.pem"]));
    assert!(err.contains("--ca /nonexistent/ca.pem"), "{err}");
    let key = bench.queries();
    let (_, err) = words(&load(&["--ca", key.to_str().unwrap()]));
    let expected =
        format!("--ca {}: the certificates to trust: expected a certificate at least", key.display());
    assert!(err.contains(&expected), "{err}");
    let (_, err) = words(&load(&["--tls-suite", "TLS_NULL"]));
    assert!(err.contains("TLS_AES_128_GCM_SHA256"), "{err}");
    drop(server);
    let output = kqps(&["load", "127.0.0.1", "--insecure"]).output().unwrap();
    assert!(words(&output).1.contains("--insecure is about TLS"));
    let output =
        kqps(&["serve", "front", "--backend", "udp://127.0.0.1:1", "--listen", "tls://127.0.0.1:0"]).output();
    assert!(words(&output.unwrap()).1.contains("a front takes no connections in TLS"));
    let output = kqps(&["serve", "echo", "--cert-type", "rsa"]).output();
    assert!(words(&output.unwrap()).1.contains("it needs --listen tls://"));
}
