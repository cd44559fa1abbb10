//! The players: kqps, and the programs beside which it is measured, with their command lines and how their output is read.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::probe;
use kqps_programs::shell;
use kqps_testbed::path::LaidPath;

use super::Bench;
use super::figure::Reported;
use crate::child::{Ended, Running, pinned};

/// How long a program may take to end after its output.
const END_WITHIN: Duration = Duration::from_mins(30);

/// A player.
#[derive(Debug)]
pub(super) struct Player {
    /// Its name in the table of rows.
    row_name: &'static str,
    /// Its name in the record of a comparison.
    pub(super) name: &'static str,
    /// Events that it counts as answered, in words.
    pub(super) counts: &'static str,
    /// The flags without which it is not this player.
    pub(super) flags: &'static [&'static str],
    /// The handshakes of kqps that count in place of answers, by their word in the record of a trial.
    pub(super) handshakes: Option<&'static str>,
    /// The program of others; `None` for kqps.
    pub(super) other: Option<Other>,
}

/// Reads the answers in the output of a program, and how many they were a second, if it reports that.
type ReadAnswers = fn(&str) -> Result<(u64, Option<f64>)>;

/// A program of others that plays.
#[derive(Debug)]
pub(super) struct Other {
    program: &'static str,
    /// Its arguments for a load, with the flags of a row.
    arguments: fn(&Load<'_>) -> Vec<String>,
    /// The answers in its output.
    read: ReadAnswers,
    /// Whether its exit status says nothing.
    is_without_status: bool,
    /// Whether it makes packets itself, past the kernel (`AF_XDP`). Such a player sends at the rate that it is given,
    /// whatever is answered, and reads names and types alone.
    pub(super) makes_packets: bool,
}

/// A load for a program of others.
pub(super) struct Load<'a> {
    pub(super) target: SocketAddr,
    pub(super) queries: &'a Path,
    pub(super) flags: &'a [String],
    pub(super) seconds: f64,
    pub(super) cpu: u32,
}

const KQPS: Player = Player {
    row_name: "kqps",
    name: "kqps",
    counts: "correct answers, each matched to its query",
    flags: &[],
    handshakes: None,
    other: None,
};

static PLAYERS: [Player; 6] = [
    KQPS,
    Player {
        row_name: "kqps, full handshakes",
        counts: "completed full handshakes",
        flags: &["--queries-per-connection", "0", "--resume", "no"],
        handshakes: Some("full"),
        ..KQPS
    },
    Player {
        row_name: "kqps, resumed handshakes",
        counts: "completed handshakes that resumed a session",
        flags: &["--queries-per-connection", "0", "--resume", "yes"],
        handshakes: Some("resumed"),
        ..KQPS
    },
    Player {
        row_name: "dnsperf",
        name: "dnsperf",
        counts: "replies, each matched to a query by its ID alone; over HTTPS it keeps one of those that it reads \
                 together",
        other: Some(Other {
            program: "dnsperf",
            arguments: of_dnsperf,
            read: from_dnsperf,
            is_without_status: false,
            makes_packets: false,
        }),
        ..KQPS
    },
    Player {
        row_name: "kxdpgun",
        name: "kxdpgun",
        counts: "replies, matched to no query, those of the seconds after the load included, so that its rate is taken \
                 over the server's CPU time where that is longer than the load; what it calls sent are SYNs or Initial \
                 packets, and over UDP queries",
        other: Some(Other {
            program: "kxdpgun",
            arguments: of_kxdpgun,
            read: from_kxdpgun,
            is_without_status: false,
            makes_packets: true,
        }),
        ..KQPS
    },
    Player {
        row_name: "openssl s_time",
        name: "openssl s_time",
        counts: "completed full handshakes, one after the other",
        other: Some(Other {
            program: "openssl",
            arguments: of_s_time,
            read: from_s_time,
            // Without a summary a connection failed.
            is_without_status: true,
            makes_packets: false,
        }),
        ..KQPS
    },
];

/// The player of this name in the table of rows.
pub(super) fn named(name: &str) -> &'static Player {
    let found = PLAYERS.iter().find(|player| player.row_name == name);
    found.unwrap_or_else(|| panic!("there is no player {name}"))
}

impl Player {
    /// Whether it makes packets itself.
    pub(super) fn makes_packets(&self) -> bool {
        self.other.as_ref().is_some_and(|other| other.makes_packets)
    }

    /// Why it cannot play on this host; `None` if it can.
    pub(super) fn lacks(&self) -> Option<String> {
        let other = self.other.as_ref()?;
        lacks_program(other.program).or_else(|| {
            let reason = probe::probe_one("af-xdp").err().filter(|_| other.makes_packets)?;
            Some(format!("{} needs AF_XDP: {reason}", other.program))
        })
    }
}

impl Other {
    /// Plays with one thread, pinned to the player's core, at the player's end of a path.
    pub(super) fn play(&self, bench: &Bench<'_>, path: &LaidPath, load: &Load<'_>) -> Result<Reported> {
        let began = Instant::now();
        let (ended, words) = run(bench, path, self.program, &(self.arguments)(load))?;
        let took = began.elapsed();
        let printed = || format!("{words} ended with {:?} and printed {:?}", ended.code, ended.output);
        ensure!(self.is_without_status || ended.code == Some(0), "{}", printed());
        let (answered, per_s) = (self.read)(&ended.output).with_context(printed)?;
        let answered_qps = per_s.unwrap_or(answered as f64 / took.as_secs_f64());
        Ok(Reported { answered, answered_qps, cpu_s: ended.cpu_s, latency_p50_us: None, server: None })
    }
}

/// Why a program cannot play on this host; `None` if it can.
pub(super) fn lacks_program(program: &str) -> Option<String> {
    shell::find(program).is_none().then(|| missing(program))
}

/// The reason of a row whose program is missing.
pub(super) fn missing(program: &str) -> String {
    format!("{program} is missing; `cargo xtask test --only packages` installs it")
}

/// Runs a program on the player's core and at the player's end of a path to its end. Its warnings would appear among our
/// own lines. Returns also its command line.
pub(super) fn run(
    bench: &Bench<'_>,
    path: &LaidPath,
    program: &str,
    arguments: &[String],
) -> Result<(Ended, String)> {
    let found = shell::find(program).with_context(|| format!("{program} is missing"))?;
    let mut command = pinned(&bench.kqps.player_cpu.to_string(), found);
    command.args(arguments).stderr(Stdio::null());
    path.place_player(&mut command).context("entering a network namespace")?;
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    Ok((ended, shell::words(&command)))
}

/// Words and then flags as arguments.
fn arguments(words: &[&str], flags: &[String]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).chain(flags.iter().cloned()).collect()
}

/// It takes whole seconds only; a fraction would count as no limit.
fn of_dnsperf(load: &Load<'_>) -> Vec<String> {
    let (ip, port) = (load.target.ip().to_string(), load.target.port().to_string());
    let (seconds, queries) = (load.seconds.ceil().to_string(), load.queries.display().to_string());
    arguments(&["-T", "1", "-s", &ip, "-p", &port, "-l", &seconds, "-d", &queries], load.flags)
}

fn of_kxdpgun(load: &Load<'_>) -> Vec<String> {
    let (cpu, seconds) = (load.cpu.to_string(), load.seconds.to_string());
    let (port, queries) = (load.target.port().to_string(), load.queries.display().to_string());
    let mut all = arguments(&["-t", &seconds, "-F", &cpu, "-p", &port, "-i", &queries], load.flags);
    all.push(load.target.ip().to_string());
    all
}

/// It looks at a clock of whole seconds: it runs for up to a second longer than it is asked to, and reports the longest
/// that this can be. So its rate is over the time from its start to its end.
fn of_s_time(load: &Load<'_>) -> Vec<String> {
    let (target, seconds) = (load.target.to_string(), load.seconds.ceil().to_string());
    arguments(&["s_time", "-connect", &target, "-time", &seconds], load.flags)
}

/// The rest of the first line that begins with a label.
fn after<'w>(words: &'w str, label: &str) -> Option<&'w str> {
    words.lines().find_map(|line| line.trim().strip_prefix(label))
}

/// Numbers after labels: `  Queries completed:    999990 (100.00%)`.
fn from_dnsperf(words: &str) -> Result<(u64, Option<f64>)> {
    let value = |label: &str| -> Result<f64> {
        let number = after(words, label).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("dnsperf did not say {label}"))
    };
    Ok((value("Queries completed:")? as u64, Some(value("Queries per second:")?)))
}

/// The rcodes of right answers to the queries of peers, some of which ask for names that do not exist.
const RIGHT: [&str; 2] = ["responded NOERROR:", "responded NXDOMAIN:"];

/// The replies in its summary, and how many they were a second of the load. An error if some have an rcode that no right
/// answer has.
fn from_kxdpgun(words: &str) -> Result<(u64, Option<f64>)> {
    let mut fields =
        after(words, "total replies:").context("there is no count of replies")?.split_whitespace();
    let replies: u64 =
        fields.next().and_then(|count| count.parse().ok()).context("the count is no number")?;
    let per_s: Option<f64> = fields.next().and_then(|rate| rate.strip_prefix('(')?.parse().ok());
    let with = |rcode| after(words, rcode).and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    let right: u64 = RIGHT.map(with).iter().sum();
    ensure!(right == replies, "of {replies} replies {right} have the rcode NOERROR or NXDOMAIN");
    Ok((replies, Some(per_s.context("there is no rate of replies")?)))
}

/// The connections in its summary: `4321 connections in 3 real seconds, 0 bytes read per connection`.
fn from_s_time(words: &str) -> Result<(u64, Option<f64>)> {
    let line = words.lines().find(|line| line.contains(" real seconds"));
    let line = line.and_then(|line| line.strip_suffix(" bytes read per connection"));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok((count.context("there is no summary")?, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_dnsperf_are_read() {
        let words = "Statistics:\n\n  Queries sent:         350622\n  Queries completed:    350600 (99.99%)\n\
                     \n  Queries per second:   116606.194440\n";
        let (count, per_s) = from_dnsperf(words).unwrap();
        assert_eq!(count, 350_600);
        assert!((per_s.unwrap() - 116_606.194_440).abs() < 1e-9);
        assert!(from_dnsperf("  Queries completed:    350600 (99.99%)\n").is_err());
    }

    /// The summary of version 3.2.6.
    const SUMMARY: &str = "\
using interface kqps0, XDP threads 1, TCP, native mode
thread#00: sent 4499, received 4499
total SYNs:        4499 (14996 pps)
total established: 4498 (14993 pps) (99%)
total replies:     4497 (14990 pps) (99%)
total closed:      4496 (14986 pps) (99%)
average DNS reply size: 125 B
average Ethernet reply rate: 42150213 bps (42.15 Mbps)
responded NOERROR:   4278
responded NXDOMAIN:  219
duration: 0 s
";

    #[test]
    fn replies_of_kxdpgun_are_read_and_not_its_syns() {
        let (count, per_s) = from_kxdpgun(SUMMARY).unwrap();
        assert_eq!(count, 4_497);
        assert!((per_s.unwrap() - 14_990.0).abs() < 1e-9);
    }

    #[test]
    fn replies_over_udp_are_read_alike() {
        let summary = "total queries:     300000 (149990 pps)\n\
                       total replies:     299000 (149490 pps) (99%)\n\
                       responded NOERROR:   299000\n";
        let (count, per_s) = from_kxdpgun(summary).unwrap();
        assert_eq!(count, 299_000);
        assert!((per_s.unwrap() - 149_490.0).abs() < 1e-9);
    }

    #[test]
    fn replies_with_another_rcode_are_an_error() {
        let refused = SUMMARY.replace("responded NOERROR:", "responded REFUSED:");
        assert!(from_kxdpgun(&refused).unwrap_err().to_string().contains("of 4497 replies 219"));
    }

    #[test]
    fn a_summary_of_syns_alone_is_an_error() {
        let silent = "total SYNs:         0 (0 pps)\nduration: 2 s\n";
        assert!(from_kxdpgun(silent).unwrap_err().to_string().contains("no count of replies"));
        let none = "total replies:      0 (0 pps) (0%)\n";
        assert_eq!(from_kxdpgun(none).unwrap().0, 0);
    }

    #[test]
    fn connections_of_s_time_are_read() {
        let summary = "Collecting connection statistics for 2 seconds\n******\n\n\
                       6 connections in 0.01s; 600.00 connections/user sec, bytes read 0\n\
                       6 connections in 3 real seconds, 0 bytes read per connection\n";
        assert_eq!(from_s_time(summary).unwrap(), (6, None));
        assert!(from_s_time("Collecting connection statistics for 2 seconds\n***").is_err(), "it breaks off");
    }
}
