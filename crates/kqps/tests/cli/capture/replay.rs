//! Replays of captures at `kqps serve echo` and `kqps serve auth`. What is asserted does not depend on time.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use kqps_capture::write::Writer;
use kqps_kernel::process::Signal;
use kqps_observation::{Store, Trial};
use serde_json::{Value, json};

use super::Captures;
use crate::auth::dns::{A, TXT, ask, query, query_edns};
use crate::auth::{Rig, SERVFAIL};
use crate::load::bench::words;
use crate::serve::running::Running;

/// The flag of a query that wants recursion (RFC 1035, section 4.1.1).
const RD: u8 = 0x01;

/// Every query is sent in the end, and every reply is in time, however long other programs keep the cores.
const PATIENT: [&str; 4] = ["--lag", "1m", "-t", "10s"];

impl Captures {
    /// The record of a replay at a target.
    fn play(&self, target: &str, file: &str, flags: &[&str]) -> Trial {
        let load = ["load", target, "-d", file, "--json"];
        let (out, _) = self.said(&[&load[..], &PATIENT, flags].concat());
        let trial: Trial = serde_json::from_str(&out).unwrap();
        trial.accounts.check().unwrap();
        trial
    }
}

#[test]
fn a_capture_is_replayed_at_an_echo_by_its_clients() {
    let captures = Captures::new();
    captures.make("x.pcap", &[]);
    let echo = Running::start(&["--listen", "127.0.0.1:0"]);
    let target = echo.addresses[0].to_string();
    let trial = captures.play(&target, "x.pcap", &["--seed", "5"]);
    assert_eq!((trial.accounts.sent, trial.accounts.correct), (200, 200), "{:?}", trial.accounts);
    assert_eq!(trial.load.arrivals.as_deref(), Some("captured"));
    let replay = trial.replay.as_ref().unwrap();
    assert_eq!((replay.clients, replay.pile, replay.seed), (5, 1, 5));
    assert_eq!((replay.capture.packets, replay.capture.queries), (200, 200));
    assert_eq!((replay.played.get("udp"), replay.not_played.values().sum::<u64>()), (Some(&200), 0));
    assert!(trial.differences.is_empty());

    // Slices have clients of their own; a window and repetitions change the number of queries.
    let trial = captures.play(&target, "x.pcap", &["--pile", "4", "-n", "3:10ms"]);
    let replay = trial.replay.as_ref().unwrap();
    assert_eq!((trial.accounts.intended, replay.clients, replay.repeat), (600, 20, 3));
    let trial = captures.play(&target, "x.pcap", &["--window", "49.5ms..99.5ms", "--speed", "2x"]);
    assert_eq!(trial.accounts.intended, 50, "each millisecond has a query");
    // A single client takes the first address alone, and the second is not this host's.
    let one = ["gen", "capture", "-d", "queries", "-Q", "1k", "-n", "20", "--clients", "1", "-o", "one.pcap"];
    captures.said(&one);
    let trial = captures.play(&target, "one.pcap", &["-a", "127.255.255.254/31"]);
    assert_eq!(trial.accounts.correct, 20, "{:?}", trial.accounts);
    for flags in [&["-Q", "5k"][..], &["-Q", "5k", "--arrivals", "captured"], &["-q", "10"]] {
        let trial = captures.play(&target, "x.pcap", flags);
        assert_eq!((trial.accounts.intended, trial.accounts.correct), (200, 200), "{flags:?}");
    }
    let (out, _) = captures.said(&[&["load", &target, "-d", "x.pcap"][..], &PATIENT].concat());
    for wanted in [
        "\nReplay:\n\n  Capture:              200 packets: 200 queries, 0 responses, 0 others\n",
        "  Played:               0.000 to 0.199 of 0.199 s, at 1x\n",
        "  Clients:              5, from 1 address, ",
        "  Schedule:             late by (µs): ",
        "  Transports:           200 udp\n",
        "arrivals captured",
    ] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    assert!(!out.contains("Differences"), "{out}");
}

#[test]
fn each_query_goes_by_the_transport_that_it_came_by_or_all_by_that_of_a_url() {
    let captures = Captures::new();
    captures.make("mixed.pcap", &["--tcp", "50%"]);
    let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
    let address = server.addresses[0];
    let trial = captures.play(&address.to_string(), "mixed.pcap", &[]);
    let replay = trial.replay.as_ref().unwrap();
    let by_tcp = replay.capture.by_transport["tcp"];
    assert_eq!((replay.played["udp"], replay.played["tcp"]), (200 - by_tcp, by_tcp));
    assert_eq!((trial.accounts.sent, trial.accounts.correct), (200, 200), "{:?}", trial.accounts);
    assert_eq!((&replay.sent, trial.sent_on_connections()), (&replay.played, by_tcp));
    trial.connections.as_ref().unwrap().check(by_tcp).unwrap();
    assert_eq!(trial.players.first.threads, 2);

    // As many connections as queries, so that none waits for another.
    let one_each = ["--queries-per-connection", "1", "-c", "200"];
    let trial = captures.play(&format!("tcp://{address}"), "mixed.pcap", &one_each);
    assert_eq!((trial.accounts.correct, trial.connections.unwrap().established), (200, 200));
    let report = server.stop(Signal::Terminate);
    let tcp = report.tcp.unwrap();
    assert_eq!((report.received, tcp.received), (200 - by_tcp, by_tcp + 200));
}

#[test]
fn a_mix_shares_out_the_clients_and_accounts_for_each_transport() {
    let captures = Captures::new();
    let many =
        ["gen", "capture", "-d", "queries", "-Q", "2k", "-n", "800", "--clients", "40", "--tcp", "20%"];
    captures.said(&[&many[..], &["-o", "many.pcap"]].concat());
    let listen = ["udp://127.0.0.1:0", "tls://127.0.0.1:0", "https://127.0.0.1:0", "quic://127.0.0.1:0"];
    let server = Running::start(&listen.map(|listen| ["--listen", listen]).concat());
    let of = |transport: &str| server.ready[transport][0].as_str().unwrap().to_owned();
    let targets = [
        format!("udp://{}", server.addresses[0]),
        format!("tls://{}", of("tls")),
        format!("https://{}", of("https")),
        format!("quic://{}", of("quic")),
    ];
    let [udp, rest @ ..] = &targets;
    let others: Vec<&str> = rest.iter().map(String::as_str).collect();
    let mix = ["--mix", "udp=50,tls=25,https=15,quic=10", "--seed", "7"];
    let ca = ["--ca", server.ready["ca"].as_str().unwrap()];
    let trial = captures.play(udp, "many.pcap", &[&others[..], &mix, &ca].concat());
    assert_eq!((trial.accounts.sent, trial.accounts.correct), (800, 800), "{:?}", trial.lost_causes);
    let replay = trial.replay.as_ref().unwrap();
    let lanes: Vec<(&str, u64)> = replay.lanes.iter().map(|lane| (&*lane.transport, lane.clients)).collect();
    assert_eq!(lanes, [("udp", 20), ("tls", 10), ("https", 6), ("quic", 4)]);
    assert_eq!(replay.not_played.values().sum::<u64>(), 0);
    let report = server.stop(Signal::Terminate);
    for lane in &replay.lanes {
        lane.accounts.check().unwrap();
        assert_eq!(lane.accounts.sent, replay.sent[&lane.transport], "{}", lane.transport);
        assert_eq!(lane.accounts.sent, lane.accounts.correct, "{}", lane.transport);
        assert!(lane.latency_us.max.is_some(), "{}", lane.transport);
        let connections = lane.connections.as_ref().map(|connections| connections.established);
        assert_eq!(connections, (lane.transport != "udp").then_some(lane.clients), "{}", lane.transport);
    }
    assert_eq!(report.received, replay.sent["udp"]);
    assert_eq!(replay.sent.values().sum::<u64>(), 800);
}

#[test]
fn a_mix_needs_a_target_for_each_transport_and_none_beside_them() {
    let captures = Captures::new();
    captures.make("few.pcap", &[]);
    let refused = |flags: &[&str]| {
        let output = captures.output(&[&["load"][..], flags].concat());
        let (_, err) = words(&output);
        assert_eq!(output.status.code(), Some(2), "{err}");
        err
    };
    for (flags, wanted) in [
        (
            &["udp://127.0.0.1:5301", "--mix", "udp=1,tcp=1"][..],
            "no target is over tcp; add one, such as tcp://127.0.0.1",
        ),
        (
            &["udp://127.0.0.1:1", "tcp://127.0.0.1:1", "127.0.0.1:2", "--mix", "udp=1,tcp=1"],
            "127.0.0.1:2 has no share",
        ),
        (&["udp://127.0.0.1:1", "--mix", "udp=1"], "two transports or more"),
        (&["udp://127.0.0.1:1", "tcp://127.0.0.1:1", "-T", "1", "--mix", "udp=1,tcp=1"], "give -T 2 or more"),
        (&["udp://127.0.0.1:1", "tcp://127.0.0.1:1", "-m", "tcp", "--mix", "udp=1,tcp=1"], "leave one out"),
        (&["udp://127.0.0.1:1", "tcp://127.0.0.1:1"], "one transport"),
        (
            &["udp://127.0.0.1:1", "tcp://127.0.0.1:1", "--http-method", "post", "--mix", "udp=1,tcp=1"],
            "about HTTP",
        ),
    ] {
        let err = refused(&[&["-d", "few.pcap"][..], flags].concat());
        assert!(err.contains(wanted), "{flags:?}: {err}");
    }
    let err = refused(&["-d", "queries", "udp://127.0.0.1:1", "--mix", "udp=1,tcp=1"]);
    assert!(err.contains("--mix is for captures"), "{err}");
}

#[test]
fn a_capture_may_come_from_a_pipe() {
    let captures = Captures::new();
    captures.make("x.pcap", &[]);
    let echo = Running::start(&["--listen", "127.0.0.1:0"]);
    let target = echo.addresses[0].to_string();
    let mut load = captures.command(&["load", &target, "-d", "-", "--json"]);
    let file = File::open(captures.path("x.pcap")).unwrap();
    let mut cat = Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().unwrap();
    let output = load.args(PATIENT).stdin(cat.stdout.take().unwrap()).output().unwrap();
    cat.wait().unwrap();
    let (out, err) = words(&output);
    let trial: Trial = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
    assert_eq!((trial.accounts.correct, trial.replay.unwrap().clients), (200, 5));
}

/// Writes a capture with these queries and a server's replies to them. The reply to the last one is made a SERVFAIL.
fn write_answered(captures: &Captures, server: SocketAddr, queries: &[Vec<u8>]) {
    let mut writer = Writer::ethernet(File::create(captures.path("old.pcap")).unwrap()).unwrap();
    let to: SocketAddr = "192.0.2.53:53".parse().unwrap();
    for (number, query) in (0_u8..).zip(queries) {
        let from = SocketAddr::from(([198, 18, 0, 1 + number % 3], 40_000));
        let mut reply = ask(server, query).0;
        if usize::from(number) + 1 == queries.len() {
            reply[3] = (reply[3] & 0xf0) | SERVFAIL;
        }
        let at_ns = 1_000_000_000_000 + 1_000_000 * u64::from(number);
        writer.udp(at_ns, from, to, query).unwrap();
        writer.udp(at_ns + 100_000, to, from, &reply).unwrap();
    }
    writer.finish().unwrap();
}

/// RFC 9250, section 5.5.2: a server of QUIC ends the connection of a client that sends edns-tcp-keepalive.
#[test]
fn the_keepalives_of_captured_queries_are_removed_and_counted() {
    let captures = Captures::new();
    let rig = Rig::new();
    let server = rig.start(&["--listen", "127.0.0.1:0", "--listen", "quic://127.0.0.1:0"]);
    let queries: Vec<Vec<u8>> = (0..10)
        .map(|id| {
            let mut query = query_edns(id, "www.auth.test", A, 1232);
            let data_bytes = query.len() - 2;
            query[data_bytes..].copy_from_slice(&[0, 4]);
            query.extend([0, 11, 0, 0]);
            query
        })
        .collect();
    write_answered(&captures, server.addresses[0], &queries);
    let (quic, ca) = (server.ready["quic"][0].as_str().unwrap(), server.ready["ca"].as_str().unwrap());
    let address = server.addresses[0];
    for (target, flags) in [
        (format!("quic://{quic}"), &["--ca", ca][..]),
        (format!("tcp://{address}"), &[]),
        (format!("udp://{address}"), &[]),
    ] {
        let trial = captures.play(&target, "old.pcap", flags);
        assert_eq!(
            (trial.accounts.sent, trial.accounts.correct),
            (10, 10),
            "{target}: {:?}",
            trial.lost_causes
        );
        assert_eq!(trial.replay.unwrap().capture.keepalives, 10, "{target}");
    }
    let (out, _) = captures.said(&[&["load", &address.to_string(), "-d", "old.pcap"][..], &PATIENT].concat());
    assert!(out.contains("  Removed:              10 edns-tcp-keepalive\n"), "{out}");
}

#[test]
fn answers_are_held_to_those_that_were_given_then() {
    let captures = Captures::new();
    let rig = Rig::new();
    let server = rig.start(&["--listen", "127.0.0.1:0"]);
    let queries = [
        query(1, "www.auth.test", A),
        query(2, "alias.auth.test", A),
        query(3, "nothing.auth.test", A),
        query_edns(4, "a.wild.auth.test", TXT, 1232),
        query(5, "ns1.auth.test", A),
    ];
    // As the lines of a query file ask.
    let queries = queries.map(|mut query| {
        query[2] = RD;
        query
    });
    write_answered(&captures, server.addresses[0], &queries);
    let shown = captures.shown(&["old.pcap"]);
    let rcodes = json!({ "NOERROR": 3, "NXDOMAIN": 1, "SERVFAIL": 1 });
    assert_eq!((&shown["capture"]["rcodes"], &shown["capture"]["responses"]), (&rcodes, &json!(5)));

    let target = server.addresses[0].to_string();
    let trial = captures.play(&target, "old.pcap", &[]);
    assert_eq!((trial.accounts.correct, trial.dataset.check.as_deref()), (5, Some("off")));
    for (flags, check) in
        [(&["--expect", "captured"][..], "answers"), (&["--expect", "captured", "--check", "rcode"], "rcode")]
    {
        let trial = captures.play(&target, "old.pcap", flags);
        assert_eq!((trial.accounts.correct, trial.accounts.wrong), (4, 1), "{:?}", trial.wrong_rcodes);
        assert_eq!(trial.dataset.check.as_deref(), Some(check));
        let [difference] = &trial.differences[..] else { panic!("{:?}", trial.differences) };
        assert_eq!((difference.kind.as_str(), difference.count), ("rcode SERVFAIL→NOERROR", 1));
        let example = &difference.examples[0];
        assert_eq!((example.name.as_str(), example.rtype.as_str()), ("ns1.auth.test.", "A"));
    }
    let load = [&["load", &target, "-d", "old.pcap", "--expect", "captured"][..], &PATIENT].concat();
    let (out, _) = captures.said(&load);
    let differences = "\nDifferences from the captured replies:\n\n  rcode SERVFAIL→NOERROR: 1 (20.00%)\n";
    assert!(out.contains(differences), "{out}");
    let output = captures.output(&[&load[..], &["--fail-on", "wrong"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", words(&output).1);

    // A query file with the same expectations.
    captures.said(&["gen", "queries", "--from", "old.pcap", "--expect", "answers", "-o", "old.queries"]);
    let (out, _) =
        captures.said(&[&["load", &target, "-d", "old.queries", "-q", "1", "--json"][..], &PATIENT].concat());
    let trial: Trial = serde_json::from_str(&out).unwrap();
    assert_eq!((trial.accounts.correct, trial.accounts.wrong), (4, 1), "{:?}", trial.wrong_rcodes);

    // The zone changes: the answer is another one under the same rcode.
    let zone = rig.folder.path().join("auth.test.zone");
    let text = fs::read_to_string(&zone).unwrap().replace("192.0.2.80", "192.0.2.81");
    fs::write(zone, text).unwrap();
    let newer = rig.start(&["--listen", "127.0.0.1:0"]);
    let trial = captures.play(&newer.addresses[0].to_string(), "old.pcap", &["--expect", "captured"]);
    let count = |kind: &str| trial.differences.iter().find(|one| one.kind == kind).map(|one| one.count);
    assert_eq!((count("answer"), count("rcode SERVFAIL→NOERROR")), (Some(2), Some(1)), "www and its alias");
    let examples = &trial.differences.iter().find(|one| one.kind == "answer").unwrap().examples;
    assert!(examples.len() == 2 && examples[0] != examples[1], "{examples:?}");
    for example in examples {
        let (expected, got) = (&example.expected, &example.got);
        assert!(
            expected.starts_with("NOERROR, ") && expected.contains("www.auth.test. A 192.0.2.80"),
            "{expected}"
        );
        assert!(got.starts_with("NOERROR, ") && got.contains("www.auth.test. A 192.0.2.81"), "{got}");
    }
}

#[test]
fn searches_and_runs_take_captures() {
    let captures = Captures::new();
    captures.make("x.pcap", &[]);
    let echo = Running::start(&["--listen", "127.0.0.1:0"]);
    let target = echo.addresses[0].to_string();
    let find = ["find", &target, "-d", "x.pcap", "--goal", "quick", "--no-ceiling", "--max", "1.5k"];
    let further = ["--width", "20%", "-t", "250ms", "--lag", "10s", "--json", "--pile", "2"];
    let kept = ["--captured-port", "53", "--captured-port", "5353", "--window", "0s..", "--out", "kept"];
    let further = [&further[..], &kept].concat();
    let output = captures.output(&[&find[..], &further].concat());
    let (out, err) = words(&output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{err}");
    let what = "kqps: x.pcap has 200 queries of 5 clients and 0 responses in 200 packets; others: 0\n";
    assert!(err.starts_with(what), "{err}");
    let first: Trial = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((first.replay.unwrap().clients, first.dataset.check.as_deref()), (10, Some("off")));
    let factors = &Store::read(&captures.path("kept/run.sqlite")).unwrap().cells[0].factors;
    let played = ["captured_ports", "pile", "window"].map(|name| factors.word(&format!("dataset.{name}")));
    assert_eq!(played, [Some("53,5353"), Some("2"), Some("0s..")], "{:?}", factors.words());

    let (out, err) = captures.said(&["run", "--dry-run", "--json", "--target", &target, "-d", "x.pcap"]);
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(plan["kind"], "plan");
    assert!(err.contains(what.trim_end()), "{err}");
}
