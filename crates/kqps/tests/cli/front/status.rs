//! The counts of a front while it runs: by its status socket, and for Prometheus.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use kqps_server::Report;

use super::{echo, front, stop};
use crate::auth::dns::{A, ask, ask_by, connect, query};
use crate::serve::PATIENCE;

/// The output of `kqps serve status`.
pub(crate) fn status(path: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["serve", "status"]).arg(path).args(more).output().unwrap()
}

/// A front's counts once it reports `answers` answers. It updates them a few times a second.
fn reported(path: &Path, answers: u64) -> Report {
    let begin = Instant::now();
    loop {
        let output = status(path, &["--json"]);
        assert!(output.status.success(), "{output:?}");
        let report: Report = serde_json::from_slice(&output.stdout).unwrap();
        if report.answered + report.tcp.as_ref().map_or(0, |tcp| tcp.answered) == answers {
            return report;
        }
        assert!(begin.elapsed() < PATIENCE, "{report:?}");
    }
}

#[test]
fn counts_are_reported_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("status");
    let rig = crate::auth::Rig::new();
    let (_authority, [_, way, _]) = super::authority(&rig);
    let arguments = ["--status", path.to_str().unwrap(), "--threads", "2"];
    let server = front(&[&format!("auth={way}")], &arguments);
    assert_eq!(server.ready["status"], *path.to_str().unwrap());
    for id in 0..5 {
        ask(server.addresses[0], &query(id, "www.auth.test", A));
    }
    ask_by(&mut connect(server.addresses[0]), &query(1, "www.auth.test", A));
    let report = reported(&path, 6);
    assert_eq!((report.received, report.answered), (5, 5));
    assert_eq!((super::asked(&report, "auth"), report.back_ends["auth"].up), (6, 2));
    let output = status(&path, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Received 5, answered 5\n  NOERROR: 5\n"), "{text}");
    assert!(text.contains("By 1 connection received 1, answered 1"), "{text}");
    assert!(text.contains(&format!("Back end auth ({way}): sent ")), "{text}");
    assert!(!text.contains("not in use"), "{text}");
    assert_eq!(stop(server).answered, 5);
    assert!(!path.exists());
}

#[test]
fn an_abandoned_socket_is_replaced_and_one_in_use_stays() {
    let (_echo, url) = echo();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("status");
    let text = path.to_str().unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let server = front(&[&url], &["--status", text]);
    reported(&path, 0);
    let second = ["--listen", "127.0.0.1:0", "--backend", &url, "--status", text];
    let (status_code, error) = super::usage::refused(&second);
    let why = format!("kqps: cannot listen on {text}: another program listens there");
    assert!(status_code == Some(1) && error.starts_with(&why), "{error}");
    reported(&path, 0);
    stop(server);
    fs::write(&path, "precious").unwrap();
    let (status_code, error) = super::usage::refused(&second);
    assert!(status_code == Some(1) && error.contains("a file that is not a socket is there"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_process_that_does_not_report_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("status");
    let said = |more: &[&str]| {
        let output = status(&path, more);
        assert!(output.stdout.is_empty());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
        (output.status.code(), error)
    };
    let starts = |(status, error): (Option<i32>, String), why: &str| {
        let place = path.display();
        assert_eq!(status, Some(1), "{error}");
        assert!(error.starts_with(&format!("kqps: asking the front at {place}: {why}")), "{error}");
    };
    starts(said(&[]), "there is no such file");
    let listener = UnixListener::bind(&path).unwrap();
    for more in [&[][..], &["--json"]] {
        for answer in ["", "{\"kind\": \"other\"}\n", "{\"kind\": \"server\", \"rece"] {
            std::thread::scope(|scope| {
                scope.spawn(|| listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap());
                starts(said(more), "it does not answer as a front");
            });
        }
    }
    drop(listener);
    starts(said(&[]), "nothing listens there");
}

/// Asks by HTTP. Returns the headers with the status, and the text.
pub(crate) fn get(address: SocketAddr, path: &str) -> (String, String) {
    get_as(address, path, "application/openmetrics-text")
}

/// Gets a path as a client that accepts these media types. Returns the header and the body.
pub(crate) fn get_as(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The values of a text for Prometheus, by name and labels. Each must be of a declared kind.
fn metrics(text: &str) -> BTreeMap<String, u64> {
    let (mut values, mut declared) = (BTreeMap::new(), None);
    for line in text.lines().take_while(|&line| line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            declared = Some((name, if kind == "counter" { "_total" } else { "" }));
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (family, suffix) = declared.unwrap();
            assert_eq!(name.split('{').next().unwrap(), format!("{family}{suffix}"), "{line}");
            assert!(values.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line} again");
        }
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
    values
}

#[test]
fn prometheus_reads_the_same_counts() {
    let (_echo, url) = echo();
    let backend = format!("echo={url}");
    let server = front(&[&backend], &["--metrics", "127.0.0.1:0"]);
    let address: SocketAddr = serde_json::from_value(server.ready["metrics"].clone()).unwrap();
    crate::serve::sent::flow(server.addresses[0]).send(&[0; 11]).unwrap();
    for id in 0..5 {
        ask(server.addresses[0], &query(id, "a.test", A));
    }
    let begin = Instant::now();
    let values = loop {
        let (head, text) = get(address, "/metrics");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/openmetrics-text"), "{head}");
        let values = metrics(&text);
        if values.get("kqps_front_answers_total{transport=\"udp\"}") == Some(&5) {
            break values;
        }
        assert!(begin.elapsed() < PATIENCE, "{text}");
    };
    let types = [("kqps_front_queries", "counter"), ("kqps_front_back_end_up", "gauge")];
    crate::live::openmetrics::expect_valid(&[&get(address, "/metrics").1], &types);
    for accept in ["text/plain", "*/*"] {
        let (head, text) = get_as(address, "/metrics", accept);
        assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
        assert!(
            text.contains("# TYPE kqps_front_queries_total counter\n") && !text.contains("# EOF"),
            "{text}"
        );
    }
    for (name, expected) in [
        ("kqps_front_queries_total{transport=\"udp\"}", 6),
        ("kqps_front_queries_total{transport=\"tcp\"}", 0),
        ("kqps_front_dropped_total{transport=\"udp\",cause=\"query-too-short\"}", 1),
        ("kqps_front_replies_total{transport=\"udp\",rcode=\"NOERROR\"}", 5),
        ("kqps_front_back_end_up{back_end=\"echo\"}", 1),
    ] {
        assert_eq!(values[name], expected, "{name}");
    }
    let of_back_end = |name: &str| values[&format!("kqps_front_back_end_{name}_total{{back_end=\"echo\"}}")];
    assert!(of_back_end("sent") >= 6 && of_back_end("answered") >= 5);
    assert!(get(address, "/").0.starts_with("HTTP/1.1 404 "));
    let report = stop(server);
    assert_eq!((report.received, report.answered), (6, 5));
}

#[test]
fn a_port_for_metrics_that_is_taken_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_echo, url) = echo();
    let (status, error) =
        super::usage::refused(&["--listen", "127.0.0.1:0", "--backend", &url, "--metrics", &address]);
    assert_eq!(status, Some(1));
    assert!(error.starts_with(&format!("kqps: cannot listen on {address}: another program")), "{error}");
}
