//! `kqps load` over TCP at the echo: both sides count the same.

use kqps_host::watch::SUBJECT_PROCESS;
use kqps_kernel::process::Signal;
use kqps_observation::trial::Transport;

use super::bench::{Bench, kqps, patient, unused_address, words};
use super::encrypted::played;
use crate::serve::running::Running;

#[test]
fn both_sides_count_the_same_queries_and_connections() {
    let of_each = ["-q", "20", "-c", "16", "--queries-per-connection"];
    for (flags, connections) in [
        (&["-q", "50", "-c", "4"][..], 4..=4),
        (&["-q", "50", "-c", "6", "-T", "3"], 6..=6),
        (&["-Q", "2k", "-c", "2"], 2..=2),
        (&[&of_each[..], &["1"]].concat(), 1000..=1000),
        (&[&of_each[..], &["10", "--close", "rst"]].concat(), 100..=116),
    ] {
        let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
        let trial = played(&format!("tcp://{}", server.addresses[0]), flags);
        assert_eq!((trial.transport, trial.accounts.correct), (Transport::Tcp, 1000), "{:?}", trial.accounts);
        let made = trial.connections.unwrap();
        assert!(connections.contains(&made.established), "{flags:?}: {made:?}");
        let tcp = server.stop(Signal::Terminate).tcp.unwrap();
        assert_eq!((tcp.received, tcp.answered), (1000, 1000));
        assert_eq!(tcp.connections, made.established, "{flags:?}");
    }
}

#[test]
fn the_server_that_accepts_the_connections_is_watched() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
    let trial = played(&format!("tcp://{}", server.addresses[0]), &["-q", "10"]);
    assert_eq!(trial.subject.expect("it is watched").pid, server.child.id());

    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = datagrams.local_addr().unwrap();
    let trial = played(&format!("tcp://{address}"), &["-q", "10", "-l", "100ms", "-t", "100ms"]);
    let why = &trial.hosts.first.unreadable[SUBJECT_PROCESS];
    assert!(why.ends_with(&format!("accepts connections to {address}")), "{why}");
}

#[test]
fn connections_alone_are_named_so_and_both_sides_count_the_same() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
    let bench = Bench::new();
    let target = format!("tcp://{}", server.addresses[0]);
    let mut load = kqps(&["load", &target, "--queries-per-connection", "0", "-q", "20", "-t", "10s", "-d"]);
    let output = load.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    for wanted in [
        "  Connections begun:    1000\n",
        "  Connections made:     1000 (100.00%)\n",
        "  Connections a second: ",
        "these are connections that were to be made and closed, and not queries",
        "1000 of 1000 attempts, 0 before the load; failed: 0; unfinished: 0\n",
    ] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    assert!(!out.contains("Queries sent") && !out.contains("Response codes"), "{out}");
    // The server accepts in turn: when it has answered on one more connection, it has accepted all.
    assert_eq!(played(&target, &["-q", "10", "-c", "1"]).accounts.correct, 1000);
    let tcp = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((tcp.received, tcp.connections), (1000, 1001));
}

#[test]
fn a_flag_names_the_transport_as_a_url_does() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
    let address = server.addresses[0].to_string();
    assert_eq!(played(&address, &["-m", "tcp"]).transport, Transport::Tcp);
    assert_eq!(played(&address, &[]).transport, Transport::Udp);
    let output = kqps(&["load", &format!("udp://{address}"), "-m", "tcp"]).output().unwrap();
    assert!(words(&output).1.contains("leave one of them out"));
}

#[test]
fn connections_are_printed_and_a_refusal_is_explained() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
    let bench = Bench::new();
    let load = |target: &str, more: &[&str]| {
        let mut load = kqps(&["load", target, "-q", "10", "-c", "2", "-d"]);
        load.arg(bench.queries())
            .args(patient(more))
            .env("XDG_CACHE_HOME", bench.folder.path())
            .output()
            .unwrap()
    };
    let (out, err) = words(&load(&format!("tcp://{}", server.addresses[0]), &[]));
    assert!(out.contains("2 of 2 attempts, 2 before the load; failed: 0; unfinished: 0\n"), "{out}{err}");
    assert!(out.contains("0; open at the end: 2\n"), "{out}{err}");
    assert!(out.contains("  TCP:                  listen queue overflows "), "{out}{err}");
    let output = load(&format!("tcp://{}", unused_address()), &["-l", "300ms", "-t", "200ms"]);
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(out.starts_with("Nothing listens at") && out.contains("(connection: refused)"), "{out}{err}");
    assert!(out.contains("without a connection, so they never left\n"), "{out}{err}");
    assert!(!out.contains("were outstanding on average"), "no reply came faster than anything: {out}");
}
