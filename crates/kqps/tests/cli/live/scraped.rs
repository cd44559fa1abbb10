//! `--metrics`: the text for Prometheus during a load, and at its end, where it says what the record says.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Instant;

use kqps_kernel::process::{Signal, signal};
use kqps_observation::Trial;

use super::{PATIENCE, answer, get, shown_at};
use crate::load::bench::{Bench, Echo};

/// The values of a text by their names with labels.
fn scrape(address: SocketAddr) -> BTreeMap<String, f64> {
    let (head, text) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/openmetrics-text"), "{head}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let values = text.lines().filter(|line| !line.starts_with('#'));
    values
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// The labelled values of a counter, without zeros.
fn labelled(values: &BTreeMap<String, f64>, counter: &str) -> BTreeMap<String, u64> {
    let begin = format!("{counter}_total{{");
    let found = values.iter().filter(|(name, value)| name.starts_with(&begin) && **value > 0.0);
    found.map(|(name, value)| (name.split('"').nth(1).unwrap().to_owned(), *value as u64)).collect()
}

#[test]
fn counts_grow_during_a_load_and_are_those_of_the_record_at_its_end() {
    let bench = Bench::new();
    let more = ["-Q", "2k", "-l", "1h", "--json", "--metrics", "0", "--linger", "1h"];
    let mut load = bench.load(&more);
    let mut child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let address = shown_at(&mut stderr, "/metrics");
    let began = Instant::now();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let sent = scrape(address)["kqps_queries_sent_total"];
        if sent > 0.0 && seen.last() != Some(&sent) {
            seen.push(sent);
        }
        assert!(began.elapsed() < PATIENCE, "{seen:?}");
    }
    assert!(seen.is_sorted(), "{seen:?}");
    let values = scrape(address);
    assert!(values[r#"kqps_phase{phase="sending"}"#] > 0.5);
    assert!(values[r#"kqps_cpu_seconds_total{side="player"}"#] > 0.0);
    assert!(values.keys().any(|name| name.starts_with("kqps_info{version=")));
    for nonsense in [
        &b"\x16\x03\x01\x00\xff nonsense\r\n\r\n"[..],
        b"PUT /metrics HTTP/1.1\r\n\r\n",
        b"\r\n\r\nx\r\n\r\n",
    ] {
        let (head, _) = answer(address, nonsense);
        assert!(head.starts_with("HTTP/1.1 4"), "{head}");
    }
    assert!(get(address, "/").0.starts_with("HTTP/1.1 404 "));

    signal(child.id(), Signal::Interrupt).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let trial: Trial = serde_json::from_str(&line).unwrap();
    let accounts = &trial.accounts;
    accounts.check().unwrap();
    let values = scrape(address);
    let received =
        accounts.correct + accounts.wrong + accounts.late + accounts.duplicate + accounts.unsolicited;
    for (name, count) in [
        ("kqps_queries_intended_total", accounts.intended),
        ("kqps_queries_sent_total", accounts.sent),
        ("kqps_queries_refused_total", accounts.send_failed),
        ("kqps_replies_received_total", received),
        ("kqps_replies_correct_total", accounts.correct),
        ("kqps_replies_late_total", accounts.late),
        ("kqps_latency_seconds_count", accounts.correct),
        ("kqps_queries_outstanding", 0),
        (r#"kqps_phase{phase="over"}"#, 1),
    ] {
        assert_eq!(values[name] as u64, count, "{name}");
    }
    assert_eq!(labelled(&values, "kqps_replies"), trial.response_rcodes);
    assert_eq!(labelled(&values, "kqps_queries_lost"), trial.lost_causes);
    assert_eq!(labelled(&values, "kqps_replies_wrong"), trial.wrong_causes);
    assert_eq!(labelled(&values, "kqps_queries_unsent").values().sum::<u64>(), accounts.unsent);
    // A signal ends the lingering, and the load was ended by one.
    signal(child.id(), Signal::Interrupt).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn connections_are_counted_and_a_load_that_nobody_reads_is_not_held_up() {
    let bench = Bench::before(Echo::with(&["--tcp"]));
    let target = format!("tcp://{}", bench.echo.address);
    let more =
        ["-c", "4", "-Q", "500", "-l", "300ms", "--json", "--metrics", "127.0.0.1:0", "--linger", "1h"];
    let mut load = bench.load_of(&target, &more);
    let mut child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let address = shown_at(&mut BufReader::new(child.stderr.take().unwrap()), "/metrics");
    // Clients that never ask.
    let _silent: Vec<std::net::TcpStream> =
        (0..8).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let trial: Trial = serde_json::from_str(&line).unwrap();
    let connections = trial.connections.unwrap();
    let values = scrape(address);
    for (name, count) in [
        ("kqps_connections_attempted_total", connections.attempts),
        ("kqps_connections_made_total", connections.established),
        ("kqps_connections_open", connections.open),
        ("kqps_queries_sent_total", trial.accounts.sent),
    ] {
        assert_eq!(values[name] as u64, count, "{name}");
    }
    assert!(connections.established >= 4, "{connections:?}");
    signal(child.id(), Signal::Terminate).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "the end of the lingering is no failure");
}
