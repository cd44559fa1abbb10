//! `kqps load` over HTTPS at the echo: both sides count the same queries, connections and handshakes.

use kqps_kernel::process::Signal;
use kqps_observation::trial::Transport;
use kqps_observation::{HttpFacts, Trial};
use kqps_server::connections::TcpReport;

use super::bench::{Bench, kqps, words};
use super::encrypted::{self, played};
use crate::serve::running::Running;

fn server(flags: &[&str]) -> (Running, String, String) {
    encrypted::server("https", flags)
}

fn stopped(server: Running) -> TcpReport {
    server.stop(Signal::Terminate).tcp.unwrap()
}

fn http(trial: &Trial) -> &HttpFacts {
    trial.connections.as_ref().and_then(|connections| connections.http.as_ref()).expect("it is over HTTPS")
}

#[test]
fn both_sides_count_the_same_queries_connections_and_handshakes() {
    let of_each = ["-q", "20", "-c", "16", "--queries-per-connection"];
    for (flags, connections) in [
        (&["-q", "50", "-c", "4"][..], 4..=4),
        (&["-q", "50", "-c", "4", "--http-method", "get"], 4..=4),
        (&["-q", "50", "-c", "6", "-T", "3"], 6..=6),
        (&["-Q", "2k", "-c", "2", "-e"], 2..=2),
        (&[&of_each[..], &["1"]].concat(), 1000..=1000),
        (&[&of_each[..], &["10", "--close", "rst", "--http-method", "get"]].concat(), 100..=116),
    ] {
        let (server, url, ca) = server(&[]);
        let trial = played(&url, &[&["--ca", &ca][..], flags].concat());
        assert_eq!(
            (trial.transport, trial.accounts.correct),
            (Transport::Https, 1000),
            "{:?}",
            trial.accounts
        );
        let made = trial.connections.as_ref().unwrap();
        assert!(connections.contains(&made.established), "{flags:?}: {made:?}");
        let facts = http(&trial);
        assert_eq!(facts.method, if flags.contains(&"get") { "get" } else { "post" });
        assert_eq!((&facts.paths[..], facts.failures.len()), (&["/dns-query".to_owned()][..], 0));
        let report = stopped(server);
        assert_eq!((report.received, report.answered, report.refused.len()), (1000, 1000, 0));
        assert_eq!(report.connections, made.established, "{flags:?}");
        assert_eq!(report.handshakes, made.tls.as_ref().unwrap().handshakes, "{flags:?}");
    }
}

#[test]
fn queries_wait_for_the_streams_that_the_server_takes() {
    // The window is full long before the server has answered its first streams.
    let (server, url, ca) = server(&["--work", "200us"]);
    let trial = played(&url, &["--ca", &ca, "-q", "400", "-c", "1"]);
    assert_eq!(trial.accounts.correct, 1000, "{:?}", trial.accounts);
    assert!(http(&trial).blocked >= 300, "{:?}", http(&trial));
    assert_eq!(stopped(server).answered, 1000);
}

#[test]
fn another_path_is_wrong_by_its_status_on_both_sides() {
    let (server, url, ca) = server(&[]);
    let trial = played(&format!("{url}/other"), &["--ca", &ca]);
    assert_eq!((trial.accounts.wrong, trial.wrong_causes["status-404"]), (1000, 1000));
    let report = stopped(server);
    assert_eq!((report.received, report.refused["404"]), (0, 1000));
}

#[test]
fn workers_with_sockets_and_processes_of_their_own_serve_https() {
    for flags in [&["--threads", "2", "--listeners", "reuseport"][..], &["--processes", "2"]] {
        let (server, url, ca) = server(flags);
        let trial = played(&url, &["--ca", &ca, "-c", "8", "-m", "doh"]);
        assert_eq!(trial.accounts.correct, 1000, "{:?}", trial.accounts);
        let report = stopped(server);
        assert_eq!((report.answered, report.connections), (1000, 8));
    }
}

#[test]
fn a_server_of_another_protocol_has_its_cause_and_wrong_flags_are_explained() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--listen", "tls://127.0.0.1:0"]);
    let url = format!("https://{}", server.ready["tls"][0].as_str().unwrap());
    let ca = server.ready["ca"].as_str().unwrap().to_owned();
    let trial = played(&url, &["--ca", &ca, "-t", "200ms", "-l", "300ms"]);
    let connections = trial.connections.as_ref().unwrap();
    assert_eq!((connections.established, trial.accounts.correct), (0, 0));
    assert!(connections.failed["alpn"] > 0, "{connections:?}");
    drop(server);
    let said = |arguments: &[&str]| words(&kqps(arguments).output().unwrap()).1;
    let of_udp = said(&["load", "127.0.0.1", "--http-method", "get"]);
    assert!(of_udp.contains("--http-method is about HTTP"), "{of_udp}");
    let method = said(&["load", "https://127.0.0.1", "--http-method", "put"]);
    assert!(method.contains("expected post or get"), "{method}");
    let listen = said(&["serve", "echo", "--listen", "https://127.0.0.1/dns-query"]);
    assert!(listen.contains("expected ADDR:PORT"), "{listen}");
}

#[test]
fn http_is_printed() {
    let (server, url, ca) = server(&[]);
    let bench = Bench::new();
    let mut load = kqps(&["load", &url, "-q", "10", "-c", "2", "--ca", &ca, "-d"]);
    let output = load.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    assert!(out.contains("post /dns-query; no query waited for a stream"), "{out}{err}");
    drop(server);
}
