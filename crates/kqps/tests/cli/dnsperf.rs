//! `kqps dnsperf` beside Debian's dnsperf: the same command lines at the same server. Compared are the lines of the
//! output, the statuses, and what the server received. A newer dnsperf takes its place by `KQPS_DNSPERF=PATH`.

mod both;
mod encrypted;
mod heard;
mod intervals;
mod nonsense;
mod peer;
mod scrapers;
mod shape;
mod signed;
mod theirs;
mod updates;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use both::Both;
use heard::sorted;
use peer::{Answer, Peer};

use crate::load::bench::words;

/// The flags of dnsperf with which every query is answered, and the rest of the command line is usual.
const ANSWERED: &[&str] = &[
    "",
    "-f inet",
    "-f inet6 -s ::1",
    "-s ::1 -c 2",
    "-s ::1 -m tcp -a ::1",
    "-f inet -s localhost",
    "-m udp",
    "-a 127.0.0.1",
    "-c 3",
    "-T 2 -c 4",
    "-T 3 -c 2",
    "-n 3",
    "-l 0 -S 0",
    "-l 5 -n 2",
    "-b 64",
    "-t 1.5",
    "-e",
    "-E 65001:0a0b",
    "-E 3:00 -E 4:01 -D",
    "-D",
    "-e -D",
    "-q 1",
    "-q 7 -n 2",
    "-Q 1000000",
    "-v -q 1",
    "-W",
    "-B",
    "-O suppress=timeouts,congestion",
    "-O qps-threshold-wait=1",
    "-q 1 -O latency-histogram",
    "-m tcp -c 2 -O latency-histogram",
    "-m tcp",
    "-m tcp -c 3 -e",
    "-m tcp -O num-queries-per-conn=5 -q 5",
];

#[test]
fn the_same_flags_print_the_same_lines_and_send_the_same_queries() {
    let Some(both) = Both::new() else { return };
    for flags in ANSWERED {
        let theirs = both.theirs.has_all(flags).then(|| both.theirs(Answer::Echo, flags));
        let ours = both.ours(Answer::Echo, flags);
        assert_eq!(ours.status, Some(0), "{flags}: {}", ours.err);
        let is_lowered = flags.contains("-T 3 -c 2");
        if is_lowered {
            let said =
                "Warning: requested number of threads (-T 3) exceeds number of clients (-c 2), lowering";
            assert!(ours.err.starts_with(said), "{}", ours.err);
        }
        let Some(theirs) = theirs else { continue };
        assert_eq!(theirs.status, Some(0), "{flags}: {}", theirs.err);
        if !is_lowered || both.theirs.has("warnings that -T is lowered") {
            assert_eq!(ours.err.trim(), theirs.err.trim(), "{flags}");
        }
        assert_eq!(
            shape::lines(&ours.out),
            shape::lines(&theirs.out),
            "{flags}\n{}\n{}",
            ours.out,
            theirs.out
        );
        assert_eq!(sorted(&ours.heard), sorted(&theirs.heard), "{flags}");
        // A thread of dnsperf that begins late finds no query left, and its sockets send nothing.
        let is_late = flags.starts_with("-T") && theirs.ports() < ours.ports();
        assert!(is_late || ours.ports() == theirs.ports(), "{flags}: {:?} {:?}", ours.heard, theirs.heard);
    }
}

#[test]
fn ports_are_the_given_one_and_those_after_it() {
    let Some(both) = Both::new() else { return };
    // No other program has this address, and the ports are below the system's ephemeral ones. Those of connections
    // rest for a minute, so that each run takes others.
    let first = 20_100 + std::process::id() % 1_000 * 8;
    for (is_theirs, of_connections) in [(true, first + 2), (false, first + 5)] {
        for (port, count, more) in [(first, 1, ""), (first, 3, "-c 3"), (of_connections, 3, "-c 3 -m tcp")] {
            let flags = format!("-a 127.5.3.9 -x {port} {more}");
            let run = both.run(is_theirs, Answer::Echo, &flags);
            let wanted: Vec<String> = (port..port + count).map(|port| format!("127.5.3.9:{port}")).collect();
            assert_eq!(run.sources(), wanted, "{flags}: {}{}", run.out, run.err);
        }
    }
}

#[test]
fn queries_without_a_reply_are_reported_and_lost() {
    let Some(both) = Both::new() else { return };
    for flags in ["-t 0.2", "-t 0.2 -v", "-t 0.2 -O suppress=timeouts", "-t 0.2 -W -q 3", "-t 0.2 -m tcp"] {
        let [theirs, ours] = [both.theirs(Answer::EverySecond, flags), both.ours(Answer::EverySecond, flags)];
        assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{flags}: {}", ours.err);
        assert_eq!(
            shape::lines(&ours.out),
            shape::lines(&theirs.out),
            "{flags}\n{}\n{}",
            ours.out,
            theirs.out
        );
        assert_eq!(ours.err, theirs.err, "{flags}");
    }
}

#[test]
fn rcodes_are_listed_in_their_order() {
    let Some(both) = Both::new() else { return };
    let [theirs, ours] = [both.theirs(Answer::Rcodes, "-n 2 -q 1"), both.ours(Answer::Rcodes, "-n 2 -q 1")];
    let of = |out: &str| out.lines().find(|line| line.contains("Response codes:")).unwrap().to_owned();
    assert_eq!(of(&ours.out), of(&theirs.out));
    assert!(of(&ours.out).contains("REFUSED") && of(&ours.out).contains("rcode11"));
}

#[test]
fn the_help_is_that_of_dnsperf() {
    let Some(both) = Both::new() else { return };
    let [theirs, ours] =
        [true, false].map(|is_theirs| words(&both.command(is_theirs, "-h").output().unwrap()).1);
    // Debian's is older, and has no -j.
    let is_newer = |line: &&str| !line.starts_with("  -j ") || theirs.contains("\n  -j ");
    let ours: Vec<String> = ours.lines().filter(is_newer).map(|line| line.replace(" [-j]", "")).collect();
    let theirs: Vec<String> = theirs.lines().map(|line| line.replace(" [-j]", "")).collect();
    assert_eq!(ours, theirs);
    let [theirs, ours] =
        [true, false].map(|is_theirs| words(&both.command(is_theirs, "-H").output().unwrap()).1);
    let name = |line: &str| Some(line.strip_prefix("  ")?.split([':', '=']).next()?.to_owned());
    for name in theirs.lines().filter_map(name) {
        assert!(ours.contains(&format!("\n  {name}")), "{name}: {ours}");
    }
}

#[test]
fn kqps_called_dnsperf_is_dnsperf() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("dnsperf");
    symlink(env!("CARGO_BIN_EXE_kqps"), &link).unwrap();
    let help = |command: &mut Command| words(&command.arg("-h").output().unwrap());
    let (out, err) = help(&mut Command::new(&link));
    assert!(out.starts_with("DNS Performance Testing Tool\nVersion 2.15.0\n\n"), "{out}");
    assert!(err.starts_with("Usage: dnsperf [-f family]"), "{err}");
    assert_eq!(help(Command::new(env!("CARGO_BIN_EXE_kqps")).arg("dnsperf")), (out, err));
}

#[test]
fn help_has_a_long_name_too() {
    let output = Command::new(env!("CARGO_BIN_EXE_kqps")).args(["dnsperf", "--help"]).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!((output.status.code(), &*err), (Some(0), ""), "{out}");
    for part in [
        "Usage: dnsperf [-f family]",
        "\n  -j print results as JSON",
        "latency-histogram",
        "\nExamples:\n",
        "\nExit status:\n  0 ",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn an_interrupt_ends_a_run_at_once_and_with_status_0() {
    let Some(both) = Both::new() else { return };
    for flags in ["-l 10 -Q 50 -t 5", "-l 10 -Q 50 -t 5 -v"] {
        let [theirs, ours] = [true, false].map(|is_theirs| both.interrupted(is_theirs, flags));
        assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{flags}: {}", ours.err);
        assert!(ours.out.contains("[Status] Testing complete (interruption)"), "{}", ours.out);
        assert_eq!(
            shape::without_numbers(&ours.out),
            shape::without_numbers(&theirs.out),
            "{flags}\n{}\n{}",
            ours.out,
            theirs.out
        );
        let interrupted = ours.out.lines().find(|line| line.contains("Queries interrupted:")).unwrap();
        assert!(interrupted.contains("(100.00%)"), "{interrupted}");
    }
}

/// Nobody reads what `-v` prints, until the run is over.
#[test]
fn an_interrupt_ends_a_run_whose_output_nobody_reads() {
    let Some(both) = Both::new() else { return };
    let blocked = both.blocked("-l 40 -Q 5000 -v");
    assert!(blocked.out.contains("[Status] Testing complete (interruption)"), "{}", blocked.out);
    assert_eq!(blocked.status, Some(0), "{}", blocked.err);
}

#[test]
fn queries_come_from_standard_input() {
    let Some(both) = Both::new() else { return };
    let text = b"a.test A\n; a comment\n\nb.test AAAA\n";
    let [theirs, ours] = [true, false].map(|is_theirs| both.piped(is_theirs, Answer::Echo, "", text));
    assert_eq!(shape::lines(&ours.out), shape::lines(&theirs.out));
    assert_eq!((sorted(&ours.heard), ours.heard.len()), (sorted(&theirs.heard), 2));
    // dnsperf cannot read a pipe again. kqps keeps what it read.
    let again = |is_theirs| both.piped(is_theirs, Answer::Echo, "-n 3", text);
    assert_eq!((again(true).status, again(false).status), (Some(1), Some(0)));
    assert_eq!(again(false).heard.len(), 6);
}

/// Labels that dnsperf does not have. They stand before the names that a line of `-v` shows.
#[test]
fn random_labels_stand_before_names() {
    let Some(both) = Both::new() else { return };
    let run = both.ours(Answer::Echo, "-n 3 -v -O prefix=label:6x2");
    assert_eq!((run.status, run.heard.len()), (Some(0), 60), "{}", run.err);
    let labels: BTreeSet<&[u8]> = run.heard.iter().map(|query| &query.message[12..26]).collect();
    assert_eq!(labels.len(), 60, "each query has labels of its own");
    for query in &run.heard {
        assert_eq!((query.message[12], query.message[19]), (6, 6));
        assert!(query.message[26..].windows(8).any(|bytes| bytes == b"\x07example"));
    }
    assert_eq!(run.out.lines().filter(|line| line.starts_with("> NOERROR n0.example.test A ")).count(), 3);
    assert!(run.out.contains("correct 60"), "{}", run.out);
}

#[test]
fn a_peer_answers_over_both_transports() {
    let query = *b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
    let mut reply = query;
    reply[2] |= 0x80;
    for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let peer = Peer::at(address, Answer::Echo);
        let patience = Duration::from_secs(10);
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_read_timeout(Some(patience)).unwrap();
        socket.send_to(&query, (address, peer.port())).unwrap();
        let mut came = [0; 64];
        let bytes = socket.recv(&mut came).unwrap();
        assert_eq!(&came[..bytes], reply);
        let by_tcp = kqps_ask::Server::over_tcp((address, peer.port()).into());
        assert_eq!(by_tcp.ask(&query, patience).unwrap(), reply);
        let heard = peer.end();
        assert_eq!(heard.iter().map(|heard| &heard.message[..]).collect::<Vec<_>>(), [query, query]);
        assert_eq!(heard[0].from, socket.local_addr().unwrap());
    }
}
