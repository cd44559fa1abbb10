//! A subject that is watched, or should be: it ends in the middle, or it never was there.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

use kqps_kernel::affinity;
use kqps_kernel::process::{Signal, signal};

use super::bench::{Bench, Echo, kqps, words};
use super::find;

/// Starts a command, and kills the echo when it first says `word`; what it said after that.
fn without_the_echo_from(word: &str, command: &mut Command, bench: &Bench) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended by itself");
    }
    signal(bench.echo.pid(), Signal::Kill).unwrap();
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    (child, said)
}

#[test]
fn a_search_ends_when_its_subject_does() {
    let bench = Bench::new();
    let pid = bench.echo.pid().to_string();
    let mut find = find(&bench, &["--goal", "quick", "--no-ceiling", "--subject-pid", &pid]);
    let (child, said) = without_the_echo_from("overload", &mut find, &bench);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let (out, _) = words(&output);
    let told: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(told.iter().all(|one| one["kind"] == "trial"), "no verdict of one that has ended: {out}");
    let (last, before) = told.split_last().expect("its trials are told");
    assert_eq!(last["subject"]["alive"], false, "{out}");
    assert_eq!(before[0]["purpose"], "ceiling", "{out}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with(&format!("kqps: process {pid} ended during the trial at ")), "{said}");
    assert!(last.ends_with(" q/s"), "{said}");
}

#[test]
fn a_load_says_that_its_subject_ended() {
    let bench = Bench::new();
    let pid = bench.echo.pid().to_string();
    let mut load = bench.load(&["-Q", "1k", "-l", "1s", "-S", "100ms", "-t", "0.2s", "--subject-pid", &pid]);
    let (child, said) = without_the_echo_from("kqps, correct", &mut load, &bench);
    let (out, _) = words(&child.wait_with_output().unwrap());
    assert!(
        out.contains(&format!("The subject ended during the trial: process {pid} is gone.")),
        "{out}{said}"
    );
}

#[test]
fn a_search_where_nobody_listens_says_so_after_its_first_trial() {
    let bench = Bench::new();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut find = kqps(&["find", &nobody, "--goal", "quick", "--no-ceiling", "-t", "0.1s", "-d"]);
    let output = find.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.starts_with(&format!("kqps: Nothing listens at {nobody}: ")), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

/// A program that holds a core for itself, until it is dropped.
struct Neighbour(Child);

impl Neighbour {
    fn new() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The player can be pinned and the subject not: then the subject may be on any core, and so may what disturbs it.
#[test]
fn a_neighbour_is_seen_where_only_the_player_is_pinned() {
    let bench = Bench::new();
    let pid = bench.echo.pid().to_string();
    let core = affinity::allowed().unwrap()[0].to_string();
    let _neighbour = Neighbour::new();
    for pinned in [&[][..], &["--cpus", &core]] {
        let flags = [&["-Q", "1k", "-l", "0.5s", "--subject-pid", &pid], pinned].concat();
        let host = bench.trial(&flags).host;
        assert!(host.foreign_cpu_s.unwrap() > 0.1, "{pinned:?}: {host:?}");
    }
}

/// Of two workers with a socket each one gets all queries of a single socket.
#[test]
fn how_evenly_the_load_spread_is_told() {
    let echo = Echo::with(&["--threads", "2", "--sockets", "reuseport", "--work", "100us"]);
    let pid = echo.pid().to_string();
    let bench = Bench { echo, ..Bench::new() };
    let flags = ["-Q", "2k", "-l", "0.5s", "-c", "1", "--subject-pid", &pid, "--subject-workers", "2"];
    let (out, err) = words(&bench.load(&flags).output().unwrap());
    assert!(out.contains("the busiest of 2 did 2.00 times the mean work\n"), "{out}{err}");
    assert!(out.contains("Warning: uneven: "), "{out}");
}
