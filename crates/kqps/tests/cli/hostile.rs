//! Attackers: by themselves, and as a class beside a load.

use kqps_kernel::process::Signal;
use kqps_observation::{HostileFacts, Trial};

use crate::load::bench::{Bench, Echo, kqps, patient, words};
use crate::load::encrypted;
use crate::serve::running::Running;

/// The record of attackers.
fn played(target: &str, flags: &[&str]) -> (Trial, HostileFacts) {
    let load = ["load", target, "-l", "100ms", "--json"];
    let output = kqps(&[&load[..], &patient(flags)].concat()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{flags:?}: {err}");
    let trial: Trial = serde_json::from_str(&out).unwrap();
    let facts = trial.hostile.clone().expect("these are attackers");
    assert_eq!(facts.check(), Ok(()));
    (trial, facts)
}

#[test]
fn a_server_counts_the_same_connections() {
    let bench = Bench::new();
    let queries = bench.queries();
    let queries = ["-d", queries.to_str().unwrap()];
    for (kind, of_queries) in [("idle", &[][..]), ("reset", &[]), ("half", &queries), ("slow", &queries)] {
        let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
        let target = format!("tcp://{}", server.addresses[0]);
        let flags = [&["--hostile", kind, "-Q", "200", "-c", "50"][..], of_queries].concat();
        let (trial, facts) = played(&target, &flags);
        assert_eq!((facts.due, facts.begun, facts.connections.connected), (20, 20, 20), "{facts:?}");
        assert_eq!(trial.dataset.queries > 0, !of_queries.is_empty());
        let report = server.stop(Signal::Terminate).tcp.unwrap();
        assert_eq!((report.connections, report.answered), (20, 0), "{kind}");
    }
}

#[test]
fn handshakes_and_streams_reach_a_server_of_their_transport() {
    let (server, url, ca) = encrypted::server("tls", &[]);
    let (_, facts) = played(&url, &["--ca", &ca, "--hostile", "handshake", "-Q", "100", "-c", "50"]);
    let handshakes = facts.handshakes.unwrap();
    assert_eq!((handshakes.done, facts.connections.connected), (10, 10));
    let report = server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!(report.handshakes.values().sum::<u64>(), 10);

    let (server, url, ca) = encrypted::server("https", &[]);
    let (_, facts) = played(&url, &["--ca", &ca, "--hostile", "streams", "-Q", "1k", "-c", "2"]);
    let streams = facts.streams.unwrap();
    assert_eq!((streams.begun, facts.due), (facts.begun, 100), "{facts:?}");
    assert!(streams.reset > 0 && facts.replies.contains_key("settings"), "{facts:?}");
    server.stop(Signal::Terminate);

    let (server, url, ca) = encrypted::server("quic", &[]);
    let (_, facts) = played(&url, &["--ca", &ca, "--hostile", "initials", "-Q", "100", "-t", "500ms"]);
    assert!(facts.initials >= 10 && facts.connections.connecting == 10, "{facts:?}");
    assert!(facts.replies.values().sum::<u64>() > 0, "{facts:?}");
    let (_, facts) = played(&url, &["--ca", &ca, "--hostile", "handshake", "-Q", "100"]);
    assert_eq!((facts.connections.connected, facts.connections.held), (10, 10), "{facts:?}");
    server.stop(Signal::Terminate);
}

#[test]
fn the_words_name_attempts_and_no_queries() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--tcp"]);
    let target = format!("tcp://{}", server.addresses[0]);
    let load = ["load", &target, "--hostile", "idle", "-l", "100ms", "-Q", "300", "-c", "7", "--lag", "1m"];
    let (out, err) = words(&kqps(&load).output().unwrap());
    for wanted in [
        "Attackers:\n\n  Kind:                 idle over tcp\n",
        "  Attempts:             due 30 = begun 7 + unsent 23 (23 room)\n",
        "  Connections:          begun 7 = connected 7 + refused 0 + timed out 0 + failed 0 + connecting 0\n",
        "  Load:                 300 attempts/s, arrivals even, for 0.100 s\n",
    ] {
        assert!(out.contains(wanted), "{wanted}: {out}{err}");
    }
    assert!(!out.contains("quer") && !out.contains("Warning") && !out.contains("NaN"), "{out}");
}

#[test]
fn a_class_of_attackers_is_played_beside_a_load() {
    let bench = Bench::before(Echo::with(&["--tcp"]));
    let out = bench.folder.path().join("out");
    let flags =
        ["-Q", "400", "-l", "500ms", "--scenario", "idle-connections=100", "--out", out.to_str().unwrap()];
    let (text, err) = words(&bench.load(&flags).output().unwrap());
    assert!(
        text.contains("\nAttackers of the class attack:\n\n  Kind:                 idle over tcp\n"),
        "{text}{err}"
    );
    let (csv, err) = words(&kqps(&["export", "--table", "hostile"]).arg(&out).output().unwrap());
    assert!(csv.starts_with("trial,class,kind,due,begun,") && csv.contains("\n1,attack,idle,"), "{csv}{err}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<h2>attack</h2>") && !page.contains("NaN"), "{page}");
    for name in ["idle-connections=200", "half-queries=200"] {
        let trial = bench.trial(&["-Q", "400", "-l", "500ms", "--scenario", name]);
        let [good, attack] = &trial.classes[..] else { panic!("{name}: {}", trial.classes.len()) };
        assert_eq!((good.trial.accounts.correct, &good.trial.hostile), (200, &None), "{name}");
        let facts = attack.trial.hostile.as_ref().unwrap();
        assert_eq!((facts.begun, facts.check()), (facts.connections.connected, Ok(())), "{facts:?}");
        assert!(facts.begun > 0 && trial.hostile.is_none(), "{name}");
        assert_eq!(trial.accounts, good.trial.accounts, "attempts are no queries");
    }
    // Nothing listens for TLS: the class is played, and none of its handshakes is made.
    for name in ["handshakes=50", "rapid-reset=50"] {
        let trial = bench.trial(&["-Q", "400", "-l", "500ms", "--scenario", name]);
        let facts = trial.classes[1].trial.hostile.as_ref().unwrap();
        assert_eq!(facts.handshakes.as_ref().unwrap().done, 0, "{name}");
        assert!(facts.begun > 0 && facts.check().is_ok(), "{name}: {facts:?}");
    }
}

#[test]
fn attackers_that_cannot_be_played_say_why() {
    let bench = Bench::new();
    let queries = bench.queries();
    let queries = queries.to_str().unwrap();
    let idle = ["--hostile", "idle", "-Q", "10", "-l", "1s"];
    for (target, flags, wanted) in [
        (
            "tcp://127.0.0.1:9",
            &["--hostile", "sleepy"][..],
            "idle, half, slow, handshake, reset, streams or initials",
        ),
        ("127.0.0.1:9", &idle, "--hostile idle: idle needs tcp, tls or https, and the target is udp"),
        (
            "tcp://127.0.0.1:9",
            &["--hostile", "streams", "-Q", "1", "-l", "1s"],
            "streams needs https, and the target is tcp",
        ),
        (
            "tls://127.0.0.1:9",
            &["--hostile", "initials", "-Q", "1", "-l", "1s"],
            "initials needs quic, and the target is tls",
        ),
        ("tcp://127.0.0.1:9", &["--hostile", "idle", "-l", "1s"], "attackers come at a rate"),
        ("tcp://127.0.0.1:9", &["--hostile", "idle", "-Q", "10"], "say how long (-l)"),
        ("tcp://127.0.0.1:9", &[&idle[..], &["-n", "2"]].concat(), "leave -n out"),
        ("tcp://127.0.0.1:9", &[&idle[..], &["-q", "2"]].concat(), "leave -q out"),
        (
            "tcp://127.0.0.1:9",
            &[&idle[..], &["-d", queries]].concat(),
            "--hostile idle sends no query: leave -d out",
        ),
        ("tcp://127.0.0.1:9", &[&idle[..], &["-x", "7000"]].concat(), "leave -x out"),
        ("tcp://127.0.0.1:9", &[&idle[..], &["--io", "uring"]].concat(), "leave --io out"),
        (
            "tcp://127.0.0.1:9",
            &[&idle[..], &["--queries-per-connection", "1"]].concat(),
            "leave --queries-per-connection out",
        ),
        ("tcp://127.0.0.1:9", &[&idle[..], &["--prefix", "label:4"]].concat(), "--prefix is for queries"),
        ("tcp://127.0.0.1:9", &[&idle[..], &["--fail-on", "loss"]].concat(), "--fail-on judges queries"),
        ("tcp://127.0.0.1:9", &[&idle[..], &["--scenario", "one-name"]].concat(), "cannot be used with"),
        (
            "tcp://192.0.2.1",
            &[&idle[..], &["--allow-target", "192.0.2.1"]].concat(),
            "--hostile: 192.0.2.1:53 is on another host",
        ),
    ] {
        let output = kqps(&[&["load", target], flags].concat()).output().unwrap();
        let (_, err) = words(&output);
        assert!(err.contains(wanted) && output.status.code() == Some(2), "{flags:?}: {wanted}: {err}");
    }
    let file = bench.folder.path().join("wrong.toml");
    for (keys, wanted) in [
        ("hostile = \"idle\"\nmode = \"tcp\"\nrate = 5\nask = [\"x. A\"]", "leave `ask` and `messages` out"),
        ("hostile = \"half\"\nmode = \"tcp\"\nrate = 5", "it has no queries"),
        ("hostile = \"idle\"\nrate = 5", "class a: --hostile idle: idle needs tcp"),
        ("hostile = \"idle\"\nmode = \"tcp\"", "attackers come at a rate"),
    ] {
        std::fs::write(&file, format!("[[class]]\nname = \"a\"\n{keys}\n")).unwrap();
        let flags = ["-Q", "100", "-l", "100ms", "--scenario", file.to_str().unwrap()];
        let output = bench.load(&flags).output().unwrap();
        let (_, err) = words(&output);
        assert!(err.contains(wanted) && output.status.code() == Some(2), "{keys}: {err}");
    }
}
