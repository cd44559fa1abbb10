//! `--metrics`: the text for Prometheus during a load, and at its end, where it says what the record says.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use kqps_kernel::process::{Signal, signal};
use kqps_observation::{Accounts, Cell, Store, Trial};

use super::openmetrics::{expect_valid, labelled};
use super::{Killed, PATIENCE, Values, answer, get, shown_at, values_of};
use crate::load::bench::{Bench, Echo, kqps, words};

/// The families that every command has, with their types.
pub(super) const TYPES: [(&str, &str); 6] = [
    ("kqps", "info"),
    ("kqps_queries_sent", "counter"),
    ("kqps_response_rcodes", "counter"),
    ("kqps_latency_seconds", "histogram"),
    ("kqps_connections_open", "gauge"),
    ("kqps_cpu_seconds", "counter"),
];

/// The text of `/metrics`.
pub(super) fn text_of(address: SocketAddr) -> String {
    let (head, text) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/openmetrics-text"), "{head}");
    text
}

pub(super) fn scrape(address: SocketAddr) -> Values {
    values_of(&text_of(address))
}

/// The text of `/metrics` when all is measured.
pub(super) fn text_at_end(address: SocketAddr) -> String {
    let began = Instant::now();
    loop {
        let text = text_of(address);
        if text.contains("kqps_phase{phase=\"over\"} 1\n") {
            return text;
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
    }
}

/// Checks that the metrics of a command that is over are these accounts.
#[track_caller]
pub(super) fn expect_accounts(values: &Values, accounts: &Accounts) {
    let received =
        accounts.correct + accounts.wrong + accounts.late + accounts.duplicate + accounts.unsolicited;
    for (name, count) in [
        ("kqps_queries_intended_total", accounts.intended),
        ("kqps_queries_sent_total", accounts.sent),
        ("kqps_queries_send_failed_total", accounts.send_failed),
        ("kqps_replies_received_total", received),
        ("kqps_replies_correct_total", accounts.correct),
        ("kqps_replies_late_total", accounts.late),
        ("kqps_latency_seconds_count", accounts.correct),
        (r#"kqps_latency_seconds_bucket{le="+Inf"}"#, accounts.correct),
        ("kqps_queries_outstanding", 0),
        (r#"kqps_phase{phase="over"}"#, 1),
    ] {
        assert_eq!(values[name] as u64, count, "{name}");
    }
    for (counter, count) in [
        ("kqps_queries_unsent", accounts.unsent),
        ("kqps_queries_lost", accounts.lost),
        ("kqps_replies_wrong", accounts.wrong),
    ] {
        assert_eq!(labelled(values, counter).values().sum::<u64>(), count, "{counter}");
    }
}

#[test]
fn counts_grow_during_a_load_and_are_those_of_the_record_at_its_end() {
    let bench = Bench::new();
    let more = ["-Q", "2k", "-l", "1h", "--json", "--metrics", "0", "--linger", "1h"];
    let mut load = bench.load(&more);
    let mut child = Killed(load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
    let (address, _) = shown_at(&mut stderr, "/metrics");
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
    let during = text_of(address);
    let values = values_of(&during);
    assert!(values[r#"kqps_phase{phase="sending"}"#] > 0.5);
    let target = &bench.echo.address;
    let trial = format!(r#"kqps_trial_info{{cell="{target}",role="subject",purpose="load",block=""}}"#);
    assert!(values.contains_key(&trial), "{during}");
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

    signal(child.0.id(), Signal::Interrupt).unwrap();
    let mut line = String::new();
    BufReader::new(child.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let trial: Trial = serde_json::from_str(&line).unwrap();
    let accounts = &trial.accounts;
    accounts.check().unwrap();
    let at_end = text_at_end(address);
    let values = values_of(&at_end);
    expect_accounts(&values, accounts);
    expect_valid(&[&during, &at_end], &TYPES);
    assert_eq!(labelled(&values, "kqps_response_rcodes"), trial.response_rcodes);
    // A signal ends the lingering, and the load was ended by one.
    signal(child.0.id(), Signal::Interrupt).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

#[test]
fn the_trials_of_a_search_have_the_names_and_roles_of_its_stored_cells() {
    let bench = Bench::before(Echo::with(&["--tcp"]));
    let (udp, tcp) = (bench.echo.address.clone(), format!("tcp://{}", bench.echo.address));
    // The player's ceiling is of `segment`, which is one echo with that of the interface in the second search.
    for (number, (target, more)) in
        [(&udp, &[][..]), (&udp, &["--subject-io", "segment"]), (&tcp, &[])].into_iter().enumerate()
    {
        let (queries, out) =
            (bench.queries().display().to_string(), bench.folder.path().join(number.to_string()));
        let mut find = kqps(&["find", target, "-d", &queries, "--metrics", "0", "--out"]);
        find.arg(&out).args(more).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Killed(find.spawn().unwrap());
        let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
        let (address, _) = shown_at(&mut stderr, "/metrics");
        let said = thread::spawn(|| std::io::read_to_string(stderr).unwrap());
        let mut seen = BTreeSet::new();
        let began = Instant::now();
        while !seen.iter().any(|name: &String| name.contains(r#"role="subject""#)) {
            seen.extend(scrape(address).into_keys().filter(|name| name.starts_with("kqps_trial_info")));
            assert!(began.elapsed() < PATIENCE, "{seen:?}");
        }
        signal(child.0.id(), Signal::Interrupt).unwrap();
        child.0.wait().unwrap();
        let said = said.join().unwrap();
        let cells = Store::read(&out.join("run.sqlite")).unwrap().cells;
        for name in seen {
            let is_of = |cell: &Cell| {
                let begin = format!(r#"kqps_trial_info{{cell="{}",role="{}","#, cell.name, cell.role.word());
                name.starts_with(&begin)
            };
            assert!(cells.iter().any(is_of), "{name} in {cells:?}: {said}");
        }
    }
}

#[test]
fn nothing_is_announced_before_the_command_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("report.html"), "mine").unwrap();
    let bench = Bench::new();
    let queries = bench.queries().display().to_string();
    let find = ["find", &bench.echo.address, "-d", &queries, "--metrics", "0", "--out"];
    for (command, why) in [
        (&mut kqps(&["run", "nosuch", "--live", "0"]), "no study is called `nosuch`"),
        (kqps(&find).arg(folder.path()), "report.html"),
    ] {
        let (printed, said) = words(&command.output().unwrap());
        assert!(said.contains(why) && printed.is_empty(), "{said}");
        assert!(!said.contains("http://"), "{said}");
    }
}

/// A server that answers one query in four with another question, and one in four not at all.
fn faulty() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut room = [0; 512];
        for number in 0_u64.. {
            let (read, client) = socket.recv_from(&mut room).unwrap();
            let reply = &mut room[..read];
            reply[2] |= 0x80;
            match number % 4 {
                0 => continue,
                1 => reply[13] ^= 1,
                _ => {}
            }
            socket.send_to(reply, client).unwrap();
        }
    });
    address
}

#[test]
fn lost_queries_and_wrong_replies_are_counted_by_their_causes() {
    let bench = Bench::new();
    let more = ["-Q", "1k", "-l", "200ms", "-t", "100ms", "--json", "--metrics", "0", "--linger", "1h"];
    let mut load = bench.load_of(&faulty().to_string(), &more);
    let mut child = Killed(load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let (address, _) = shown_at(&mut BufReader::new(child.0.stderr.take().unwrap()), "/metrics");
    let mut line = String::new();
    BufReader::new(child.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let trial: Trial = serde_json::from_str(&line).unwrap();
    let values = values_of(&text_at_end(address));
    assert!(trial.accounts.lost >= 50 && !trial.wrong_causes.is_empty(), "{:?}", trial.accounts);
    expect_accounts(&values, &trial.accounts);
    assert_eq!(labelled(&values, "kqps_queries_lost"), trial.lost_causes);
    assert_eq!(labelled(&values, "kqps_replies_wrong"), trial.wrong_causes);
    signal(child.0.id(), Signal::Interrupt).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

#[test]
fn over_ipv6_connections_are_counted_and_clients_that_never_ask_hold_up_nothing() {
    let bench = Bench::before(Echo::with(&["--tcp"]));
    let target = format!("tcp://{}", bench.echo.address);
    let more = ["-c", "4", "-Q", "500", "-l", "300ms", "--json", "--metrics", "[::1]:0", "--linger", "1h"];
    let mut load = bench.load_of(&target, &more);
    let mut child = Killed(load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let (address, _) = shown_at(&mut BufReader::new(child.0.stderr.take().unwrap()), "/metrics");
    assert!(address.is_ipv6(), "{address}");
    // Clients that never ask.
    let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut line = String::new();
    BufReader::new(child.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let trial: Trial = serde_json::from_str(&line).unwrap();
    let connections = trial.connections.unwrap();
    let values = values_of(&text_at_end(address));
    for (name, count) in [
        ("kqps_connections_attempted_total", connections.attempts),
        ("kqps_connections_made_total", connections.established),
        ("kqps_connections_open", connections.open),
        ("kqps_queries_sent_total", trial.accounts.sent),
    ] {
        assert_eq!(values[name] as u64, count, "{name}");
    }
    assert!(connections.established >= 4, "{connections:?}");
    signal(child.0.id(), Signal::Terminate).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0), "the end of the lingering is no failure");
}
