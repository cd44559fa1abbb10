//! `kqps dnsperf` beside Debian's dnsperf: the same command lines at the same server. Compared are the lines of the
//! output, the statuses, and what the server received. A newer dnsperf takes its place by `KQPS_DNSPERF=PATH`.

mod both;
mod encrypted;
mod heard;
mod nonsense;
mod peer;
mod scrapers;
mod shape;
mod signed;
mod theirs;
mod updates;

use std::os::unix::fs::symlink;
use std::process::Command;

use both::Both;
use heard::sorted;
use peer::{Answer, Peer};

use crate::load::bench::words;

/// The flags of dnsperf with which every query is answered, and the rest of the command line is usual.
const ANSWERED: &[&str] = &[
    "",
    "-f inet",
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
        assert_eq!(ours.ports(), theirs.ports(), "{flags}: {:?}", ours.heard);
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
fn a_rate_is_kept_and_intervals_are_printed() {
    let Some(both) = Both::new() else { return };
    let flags = "-Q 100 -l 0.5 -S 0.1";
    let [theirs, ours] = [both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags)];
    for run in [&theirs, &ours] {
        // Query i leaves at i / 100 s or later. On a busy host some leave late, and none is early.
        assert!((5..=51).contains(&run.heard.len()), "{}", run.heard.len());
    }
    assert_eq!(shape::of(&ours.out), shape::of(&theirs.out), "{}\n{}", ours.out, theirs.out);
    assert!(shape::of(&ours.out).iter().any(|line| line == shape::INTERVAL), "{}", ours.out);
    let note = "-Q with -q: while 100 queries were outstanding, the next ones waited";
    let (statistics, own) = ours.out.split_once("What kqps").unwrap();
    assert!(own.contains(note) && !statistics.contains("Note"), "{}", ours.out);
    // With a window of one, a slow server holds the queries back, and no query is unsent for it.
    let held = both.ours(Answer::Late, "-Q 1000 -q 1 -n 1");
    assert!(
        held.out.contains("Queries completed:    20 (100.00%)") && held.out.contains("unsent 0"),
        "{}",
        held.out
    );
}

#[test]
fn intervals_may_have_all_statistics() {
    let Some(both) = Both::new() else { return };
    for more in ["", " -m tcp -c 2"] {
        let flags = format!("-l 0.5 -S 0.1 -Q 200 -O verbose-interval-stats -O latency-histogram{more}");
        let ours = both.ours(Answer::Rcodes, &flags);
        assert_eq!(ours.status, Some(0), "{}", ours.err);
        let (intervals, whole) = ours.out.split_once("[Status] Testing complete").unwrap();
        // The first reply has this rcode.
        assert!(intervals.contains("Interval Statistics:") && intervals.contains("FORMERR"), "{}", ours.out);
        let buckets =
            whole.split_once("answer count\n").unwrap().1.lines().take_while(|line| !line.is_empty());
        let counts: u64 = buckets.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        assert_eq!(counts, ours.heard.len() as u64, "{}", ours.out);
        if both.theirs.has_all(&flags) {
            let [theirs, ours] = [both.theirs(Answer::Echo, &flags), both.ours(Answer::Echo, &flags)];
            assert_eq!(shape::of(&ours.out), shape::of(&theirs.out), "{}\n{}", ours.out, theirs.out);
        }
    }
}

#[test]
fn the_help_is_that_of_dnsperf() {
    let Some(both) = Both::new() else { return };
    let [theirs, ours] =
        [true, false].map(|is_theirs| words(&both.command(is_theirs, "-h").output().unwrap()).1);
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
    assert!(out.starts_with("DNS Performance Testing Tool\nVersion 2.14.0\n\n"), "{out}");
    assert!(err.starts_with("Usage: dnsperf [-f family]"), "{err}");
    assert_eq!(help(Command::new(env!("CARGO_BIN_EXE_kqps")).arg("dnsperf")), (out, err));
}

#[test]
fn an_interrupt_ends_a_run_at_once_and_with_status_0() {
    let Some(both) = Both::new() else { return };
    for flags in ["-l 10 -Q 50 -t 5", "-l 10 -Q 50 -t 5 -v"] {
        let [theirs, ours] = [true, false].map(|is_theirs| both.interrupted(is_theirs, flags));
        assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{flags}: {}", ours.err);
        assert!(ours.out.contains("[Status] Testing complete (interruption)"), "{}", ours.out);
        assert_eq!(shape::of(&ours.out), shape::of(&theirs.out), "{flags}\n{}\n{}", ours.out, theirs.out);
        let interrupted = ours.out.lines().find(|line| line.contains("Queries interrupted:")).unwrap();
        assert!(interrupted.contains("(100.00%)"), "{interrupted}");
    }
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

#[test]
fn a_peer_answers_over_both_transports() {
    let peer = Peer::start(Answer::Echo);
    assert!(peer.port() > 0 && peer.end().is_empty());
}
