//! Servers over QUIC: with a client that is not kqps, with sockets that their workers share or not, and with clients that
//! move.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;

use kqps_kernel::process::Signal;
use serde_json::{Value, json};

use super::connections::addresses;
use super::running::Running;
use crate::load::encrypted::{self, played};
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

#[test]
fn workers_share_a_socket_or_have_ports_of_their_own() {
    for (flags, ports) in [
        (["--threads", "2", "--listeners", "shared"], 1),
        (["--processes", "2", "--listeners", "port-each"], 2),
    ] {
        let (server, _, ca) = encrypted::server("quic", &flags);
        let addresses = addresses(&server, "quic");
        assert_eq!(addresses.len(), ports, "{addresses:?}");
        for address in addresses {
            let trial = played(&format!("quic://{address}"), &["--ca", &ca, "-c", "4"]);
            assert_eq!((trial.accounts.correct, trial.connections.unwrap().established), (1000, 4));
        }
        let counts = server.stop(Signal::Terminate).quic.unwrap().counts;
        assert_eq!((counts.answered, counts.connections), (1000 * ports as u64, 4 * ports as u64));
    }
}

/// Passes datagrams of one client on to a server, from another port after each `MOVES_AFTER` of them, as a NAT may.
/// Returns its address. It lasts as long as the process.
fn moving_client(server: SocketAddr) -> SocketAddr {
    const MOVES_AFTER: usize = 40;
    let inside = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = inside.local_addr().unwrap();
    thread::spawn(move || {
        let mut outside: Option<Arc<UdpSocket>> = None;
        let mut datagram = [0; 2048];
        for number in 0.. {
            let (bytes, client) = inside.recv_from(&mut datagram).unwrap();
            if number % MOVES_AFTER == 0 {
                let port = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
                port.connect(server).unwrap();
                let (back, inside) = (Arc::clone(&port), Arc::clone(&inside));
                thread::spawn(move || {
                    let mut datagram = [0; 2048];
                    while let Ok(bytes) = back.recv(&mut datagram) {
                        let _ = inside.send_to(&datagram[..bytes], client);
                    }
                });
                outside = Some(port);
            }
            let _ = outside.as_ref().unwrap().send(&datagram[..bytes]);
        }
    });
    address
}

#[test]
fn a_client_that_moves_keeps_its_connection_and_its_worker() {
    for workers in [["--threads", "4"], ["--processes", "4"]] {
        let (server, _, ca) = encrypted::server("quic", &workers);
        let moving = moving_client(addresses(&server, "quic")[0]);
        let trial = played(&format!("quic://{moving}"), &["--ca", &ca, "-c", "1", "-q", "4", "-t", "10s"]);
        let made = trial.connections.as_ref().unwrap();
        assert_eq!((trial.accounts.correct, made.attempts, made.established), (1000, 1, 1), "{made:?}");
        let counts = server.stop(Signal::Terminate).quic.unwrap().counts;
        assert_eq!((counts.answered, counts.connections), (1000, 1));
    }
}
