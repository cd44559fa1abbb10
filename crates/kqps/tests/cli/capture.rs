//! Captures as a user meets them: `kqps gen capture`, `kqps show`, `kqps gen queries --from`, and what each refuses.
//! Clients' addresses appear in no output.

mod replay;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::load::bench::{kqps, words};

/// The beginning of every client's address in a generated capture.
const CLIENTS: &str = "198.18.";

/// A folder with a query file of a hundred names, and captures of them.
struct Captures {
    folder: TempDir,
}

impl Captures {
    fn new() -> Self {
        let captures = Self { folder: tempfile::tempdir().unwrap() };
        let names: Vec<String> = (0..100).map(|number| format!("n{number:03}.example.test. A")).collect();
        fs::write(captures.path("queries"), names.join("\n") + "\n").unwrap();
        captures
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command in the folder, with a cache of its own.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = kqps(arguments);
        command.current_dir(self.folder.path()).env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Stdout and stderr of a command that succeeds and shows no client.
    fn said(&self, arguments: &[&str]) -> (String, String) {
        let output = self.output(arguments);
        let (out, err) = words(&output);
        assert!(output.status.success(), "{arguments:?}: {err}");
        assert!(!out.contains(CLIENTS) && !err.contains(CLIENTS), "{arguments:?}: {out}{err}");
        (out, err)
    }

    /// Makes a capture of 200 queries by 5 clients, a millisecond apart, with these further flags.
    fn make(&self, name: &str, flags: &[&str]) {
        let made = ["gen", "capture", "-d", "queries", "-Q", "1k", "-n", "200", "--clients", "5", "-o", name];
        let (out, err) = self.said(&[&made[..], flags].concat());
        assert_eq!(out, "");
        assert_eq!(err, format!("{name}: 200 queries of 5 clients, 0.200 s, to 198.19.255.53 port 53\n"));
    }

    fn shown(&self, arguments: &[&str]) -> Value {
        let (out, _) = self.said(&[&["show", "--json"], arguments].concat());
        serde_json::from_str(&out).unwrap()
    }

    /// The status and stderr of a command that is refused.
    fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.output(arguments);
        let (out, err) = words(&output);
        assert!(out.is_empty() && !err.contains("panicked"), "{arguments:?}: {out}{err}");
        (output.status.code(), err)
    }
}

#[test]
fn a_generated_capture_is_shown_to_the_last_packet() {
    let captures = Captures::new();
    captures.make("udp.pcap", &[]);
    let shown = captures.shown(&["udp.pcap"]);
    let capture = &shown["capture"];
    assert_eq!((&shown["kind"], &shown["queries"]), (&json!("show"), &json!(200)));
    let counts = ["packets", "responses", "further", "clients", "networks"].map(|name| &capture[name]);
    assert_eq!(counts, [&json!(200), &json!(0), &json!(0), &json!(5), &json!(1)]);
    assert_eq!(capture["first_unix_ms"], 1_767_225_600_000_u64);
    assert!((capture["span_s"].as_f64().unwrap() - 0.199).abs() < 1e-6, "{capture}");
    assert_eq!((&shown["types"], &capture["transports"]), (&json!({ "A": 200 }), &json!({ "udp": 200 })));
    assert_eq!(shown["top_names"].as_array().unwrap().len(), 10);
    let first = json!({ "name": "n000.example.test.", "queries": 2, "too_high_by": 0 });
    assert_eq!(shown["top_names"][0], first);

    // A connection has a handshake of three packets, the query, and an end of three packets.
    captures.make("mixed.pcap", &["--tcp", "20%", "--seed", "7", "--arrivals", "poisson"]);
    let capture = captures.shown(&["mixed.pcap"])["capture"].clone();
    let by_tcp = capture["transports"]["tcp"].as_u64().unwrap();
    assert!((20..60).contains(&by_tcp), "{capture}");
    assert_eq!(capture["skipped"], json!({ "tcp-control": 6 * by_tcp }));
    assert_eq!(capture["packets"].as_u64().unwrap(), 200 + 6 * by_tcp);
    assert_eq!(capture["connections"].as_u64().unwrap(), by_tcp);

    let (out, _) = captures.said(&["show", "mixed.pcap", "--top", "3"]);
    for wanted in [
        "mixed.pcap: a capture of ",
        " from 2026-01-01 00:00:00 UTC on\n",
        "  Clients:              5 clients, by address, in 1 network (/24, /48)\n",
        "  Types:                A 200 (100.00%)\n",
        "  EDNS:                 0 (0.00%)\n",
        "Most frequent names:\n",
    ] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    assert_eq!(out.matches(".example.test.").count(), 3, "{out}");

    captures.make("again.pcap", &["--tcp", "20%", "--seed", "7", "--arrivals", "poisson"]);
    let bytes = |name: &str| fs::read(captures.path(name)).unwrap();
    assert!(bytes("again.pcap") == bytes("mixed.pcap"), "the same flags give the same bytes");
}

#[test]
fn a_clock_that_was_set_and_mistaken_times_are_told() {
    let captures = Captures::new();
    captures.make("x.pcap", &[]);
    let mut bytes = fs::read(captures.path("x.pcap")).unwrap();
    let (out, _) = captures.said(&["show", "x.pcap"]);
    assert!(!out.contains("Clock:") && !out.contains("Mistaken times:"), "{out}");
    // All packets have as many bytes. Each begins with its seconds.
    let each = (bytes.len() - 24) / 200;
    let mut move_clock = |packet: usize, seconds: i32| {
        let place = &mut bytes[24 + packet * each..][..4];
        let at_s = u32::from_le_bytes((&*place).try_into().unwrap()).wrapping_add_signed(seconds);
        place.copy_from_slice(&at_s.to_le_bytes());
    };
    move_clock(50, 100_000);
    (150..200).for_each(|packet| move_clock(packet, -3600));
    fs::write(captures.path("x.pcap"), bytes).unwrap();
    let shown = captures.shown(&["x.pcap"]);
    let capture = &shown["capture"];
    assert_eq!((&capture["clock_steps"], &capture["strays"]), (&json!(1), &json!(1)), "{capture}");
    let (out, _) = captures.said(&["show", "x.pcap"]);
    for wanted in [
        "  Clock:                went back by more than 5 s 1 time; from there on its gaps are kept\n",
        "  Mistaken times:       1 packet had a time far from those around it, and got the time before it\n",
    ] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
}

#[test]
fn query_files_are_shown_too_and_pipes_are_read() {
    let captures = Captures::new();
    let text = "a.test A D NOERROR\nA.test AAAA E NXDOMAIN\nb.test A 192.0.2.0/24\n";
    fs::write(captures.path("some"), text).unwrap();
    let shown = captures.shown(&["some"]);
    assert_eq!((&shown["queries"], &shown["capture"]), (&json!(3), &Value::Null));
    assert_eq!(shown["types"], json!({ "A": 2, "AAAA": 1 }));
    assert_eq!(shown["expected_rcodes"], json!({ "NOERROR": 1, "NXDOMAIN": 1 }));
    let extras = json!({ "edns": 3, "dnssec_ok": 1, "client_subnet": 1, "cookie": 0, "signed": 0 });
    assert_eq!(shown["extras"], extras);
    assert_eq!(shown["top_names"][0]["name"], "a.test.");
    assert_eq!(shown["top_names"][0]["queries"], 2, "in any case");

    captures.make("x.pcap", &[]);
    for (name, queries) in [("x.pcap", 200), ("some", 3)] {
        let mut show = captures.command(&["show", "-", "--json"]);
        let mut child = show.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&fs::read(captures.path(name)).unwrap()).unwrap();
        let output = child.wait_with_output().unwrap();
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(shown["queries"], queries, "{name}");
    }
}

#[test]
fn a_capture_becomes_a_query_file() {
    let captures = Captures::new();
    captures.make("x.pcap", &[]);
    let (_, err) = captures.said(&["gen", "queries", "--from", "x.pcap", "-o", "back"]);
    assert_eq!(err, "back: 200 queries of x.pcap\n");
    let original = fs::read_to_string(captures.path("queries")).unwrap();
    assert_eq!(fs::read_to_string(captures.path("back")).unwrap(), original.repeat(2));
    for (arguments, wanted) in [
        (&["--from", "x.pcap", "--expect", "answers"][..], "--expect: no query of x.pcap has a reply in it"),
        (&["--from", "queries"], "--from queries: it is no capture"),
        (&["--from", "none"], "cannot open none: No such file"),
        (&["--from", "x.pcap", "-n", "5"], "cannot be used with"),
        (&["--from", "x.pcap", "--recipe", "tiny"], "cannot be used with"),
        (&["--captured-port", "5300"], "--captured-port is for captures: name one with --from FILE"),
    ] {
        let (status, error) = captures.refused(&[&["gen", "queries", "-o", "new"], arguments].concat());
        assert!(status == Some(2) && error.contains(wanted), "{arguments:?}: {status:?}, {error}");
        assert!(!captures.path("new").exists());
    }
}

/// Asserts that each of these is refused, with a status of 2 and these words.
fn expect_refusals(captures: &Captures, cases: &[(&str, &str, &str)]) {
    for (command, flags, wanted) in cases {
        let arguments: Vec<&str> = command.split(' ').chain(flags.split(' ')).collect();
        let (status, error) = captures.refused(&arguments);
        assert!(status == Some(2) && error.contains(wanted), "{arguments:?}: {status:?}, {error}");
    }
}

#[test]
fn flags_for_captures_beside_other_queries_say_what_to_do() {
    let (load, find) = ("load 127.0.0.1:9 -d queries", "find 127.0.0.1:9 -d queries");
    let generate = "gen capture -d queries -o new";
    let captures = Captures::new();
    expect_refusals(
        &captures,
        &[
            (load, "--speed 2x", "--speed is for captures, and queries is none; leave it out"),
            (load, "--arrivals captured", "--arrivals captured is for captures, and queries is none"),
            (load, "-Q 10 --arrivals captured", "--arrivals captured is for captures"),
            (load, "--window 1s..2s", "--window is for captures"),
            (load, "--pile 2", "--pile is for captures"),
            (load, "--expect captured", "--expect is for captures"),
            (load, "--client address", "--client is for captures"),
            (load, "--captured-port 5300", "--captured-port is for captures"),
            (load, "--captured-server ::1", "--captured-server is for captures"),
            (load, "-n 2:1s", "the pause of -n is for captures"),
            (find, "--pile 2", "--pile is for captures"),
            ("show queries", "--captured-port 53", "--captured-port is for captures, and queries is none"),
            ("show none", "--top 3", "cannot open none: No such file"),
            (generate, "--arrivals captured", "even or poisson gaps"),
            (generate, "--clients 0", "from 1 to 65000"),
            (generate, "-n 0", "-n 0 would write nothing"),
            ("gen capture -d none -o new", "--tcp 5%", "cannot open none"),
        ],
    );
    assert!(!captures.path("new").exists());
}

#[test]
fn flags_of_captures_that_make_no_sense_say_what_to_do() {
    let (load, mixed) = ("load 127.0.0.1:9 -d x.pcap", "load 127.0.0.1:9 -d mixed.pcap");
    let captures = Captures::new();
    captures.make("x.pcap", &[]);
    captures.make("mixed.pcap", &["--tcp", "50%"]);
    expect_refusals(
        &captures,
        &[
            (load, "--speed fast", "such as 2x or 0.5x"),
            (load, "--speed 0x", "such as 2x or 0.5x"),
            (load, "--window 2s", "expected FROM..TO, such as 10s..2m"),
            (load, "--window 2s..1s", "with FROM before TO"),
            (load, "--window 1h..2h", "--window: 7200s is beyond the capture, which ends 199ms after"),
            (load, "--pile 0", "expected a whole number from 1 to 1024"),
            (load, "-n 2:", "expected a duration, such as"),
            (load, "-n 0", "-n 0 would send nothing"),
            (load, "-Q 10 --speed 2x", "leave out -Q, or add --arrivals captured instead"),
            (load, "-Q 10 --arrivals captured --speed 2x", "leave one out"),
            (load, "-q 10 --speed 2x", "-q alone has none"),
            (load, "--arrivals poisson", "add its --rate"),
            (load, "--check answers", "only with --expect captured"),
            (load, "--check off --expect captured", "contradict each other"),
            (load, "--expect captured", "no query of x.pcap has a reply in it"),
            (load, "--expect recorded", "--expect"),
            (load, "--client name", "--client"),
            (load, "--captured-server here", "such as 192.0.2.53"),
            (load, "--captured-port 5300", "holds no query"),
            (load, "--io gso", "--io gso does not replay captures over udp"),
            (load, "-c 4", "as many sockets or connections as they need"),
            ("load tcp://127.0.0.1:9 -d x.pcap", "-c 4", "as many sockets or connections as they need"),
            (load, "-x 5300", "-x: the clients of a capture have ports of their own"),
            (load, "-q 10 -n 2:1s", "the pause of -n is between passes with captured gaps"),
            (load, "-Q 10 -n 2:1s", "or add --arrivals captured"),
            // The second address is that of a broadcast.
            (load, "-a 127.255.255.254/31", "this host has no address 127.255.255.255"),
            (load, "--close rst", "UDP has no connections"),
            (load, "--ca ca.pem", "--ca is about TLS"),
            ("find 127.0.0.1:9 -d x.pcap", "--speed 2x", "unexpected argument '--speed'"),
            (mixed, "-T 1", "-T 1: queries go over udp and over tcp, and each of these takes a thread"),
            (mixed, "--queries-per-connection 1", "connections of a capture are used as they were then"),
        ],
    );
}

#[test]
fn a_damaged_capture_is_one_error_with_its_offset() {
    let captures = Captures::new();
    captures.make("x.pcap", &[]);
    let whole = fs::read(captures.path("x.pcap")).unwrap();
    // The first file ends within the last packet. In the other one the second packet is said to be of 4 GiB.
    fs::write(captures.path("cut.pcap"), &whole[..whole.len() - 5]).unwrap();
    let second = 24 + 16 + u32::from_le_bytes(whole[32..36].try_into().unwrap()) as usize;
    let mut long = whole.clone();
    long[second + 8..second + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(captures.path("long.pcap"), long).unwrap();
    for file in ["cut.pcap", "long.pcap"] {
        for arguments in [
            &["show", file][..],
            &["load", "127.0.0.1:9", "-d", file],
            &["find", "127.0.0.1:9", "-d", file],
            &["gen", "queries", "-o", "new", "--from", file],
            &["run", "--dry-run", "--target", "127.0.0.1:9", "-d", file],
        ] {
            let (status, error) = captures.refused(arguments);
            assert_eq!(status, Some(2), "{arguments:?}: {error}");
            assert!(error.contains(file) && error.contains(" at byte "), "{arguments:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
        }
    }
    assert!(!captures.path("new").exists());
}
