//! A watched subject that ends during a load, and subjects that kqps cannot find.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kqps_kernel::affinity;
use kqps_kernel::process::{Signal, signal};
use kqps_skips::{Capability, skip};

use super::bench::{Bench, Echo, kqps, unused_address, words};
use super::find;

/// How long a program may take for what it does at once on an idle host.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command, and kills the echo when the command first prints `word`. Then `act` gets the ID of the command's
/// process. Returns the output of the command, with its stderr after that.
fn without_the_echo_from(
    word: &str,
    command: &mut Command,
    bench: &Bench,
    act: impl FnOnce(u32),
) -> (Output, String) {
    let mut child = Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended by itself");
    }
    signal(bench.echo.pid(), Signal::Kill).unwrap();
    act(child.0.id());
    let (mut said, mut stdout) = (String::new(), Vec::new());
    stderr.read_to_string(&mut said).unwrap();
    child.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    let status = child.0.wait().unwrap();
    (Output { status, stdout, stderr: Vec::new() }, said)
}

/// The state of a process (proc(5)): `Z` once it has ended and its parent has not yet waited for it.
fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The state follows the name, which may have spaces.
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_search_ends_when_its_subject_does() {
    let bench = Bench::new();
    let pid = bench.echo.pid().to_string();
    let mut find = find(&bench, &["--goal", "quick", "--no-ceiling", "--subject-pid", &pid]);
    let (output, said) = without_the_echo_from("overload", &mut find, &bench, |_| ());
    assert_eq!(output.status.code(), Some(1), "{said}");
    let (out, _) = words(&output);
    let printed: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(printed.iter().all(|one| one["kind"] == "trial"), "no verdict of one that has ended: {out}");
    let (last, before) = printed.split_last().expect("its trials are printed");
    assert_eq!(last["subject"]["alive"], false, "{out}");
    assert_eq!(before[0]["purpose"], "ceiling", "{out}");
    let is_overload = last["purpose"] == "ceiling";
    let last = said.lines().last().unwrap();
    // If the host spoils the overload trial, it is made again, and the echo ends during that one.
    let ended = last.strip_prefix(&format!("kqps: process {pid} ended during the "));
    let during = ended.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(during == "overload trial", is_overload, "{said}");
    assert!(is_overload || during.starts_with("trial at ") && during.ends_with(" q/s"), "{said}");
}

#[test]
fn a_load_says_that_its_subject_ended() {
    let bench = Bench::new();
    let pid = bench.echo.pid().to_string();
    let mut load = bench.load(&["-Q", "1k", "-l", "1m", "-S", "100ms", "-t", "0.2s", "--subject-pid", &pid]);
    // The load ends when the subject has ended.
    let end = |load| {
        let has_ended = || state_of(bench.echo.pid()) == 'Z';
        let begin = Instant::now();
        while !has_ended() {
            assert!(begin.elapsed() < PATIENCE, "the echo does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        signal(load, Signal::Interrupt).unwrap();
    };
    let (output, said) = without_the_echo_from("q/s, correct", &mut load, &bench, end);
    let (out, _) = words(&output);
    assert!(
        out.contains(&format!("The subject ended during the trial: process {pid} is gone.")),
        "{out}{said}"
    );
}

#[test]
fn a_search_at_an_unused_address_says_so_after_its_first_trial() {
    let bench = Bench::new();
    let unused = unused_address();
    let mut find = kqps(&["find", &unused, "--goal", "quick", "--no-ceiling", "-t", "0.1s", "-d"]);
    let output = find.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.starts_with(&format!("kqps: Nothing listens at {unused}: ")), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn the_subject_is_found_by_its_socket() {
    let bench = Bench::new();
    let flags = ["-Q", "1k", "-l", "0.1s", "-t", "0.2s"];
    let subject = bench.trial(&flags).subject.expect("it is watched");
    assert_eq!((subject.pid, subject.program.as_str(), subject.processes), (bench.echo.pid(), "kqps", 1));
    let (out, _) = words(&bench.load(&flags).output().unwrap());
    assert!(out.contains(&format!("  Subject:              kqps (pid {})", bench.echo.pid())), "{out}");
    let (out, _) = words(&bench.load(&flags).args(["--subject", "none"]).output().unwrap());
    assert!(!out.contains("Subject:"), "{out}");
    assert_eq!(bench.trial(&[&flags[..], &["--subject", "none"]].concat()).subject, None);
    // By both names of the flag.
    let pid = bench.echo.pid().to_string();
    for flag in ["--subject", "--subject-pid"] {
        let subject = bench.trial(&[&flags[..], &[flag, &pid]].concat()).subject;
        assert_eq!(subject.expect("it is watched").pid, bench.echo.pid());
    }
}

#[test]
fn the_parent_of_all_workers_is_the_subject() {
    let bench = Bench::before(Echo::with(&["--processes", "2"]));
    let flags = ["-Q", "1k", "-l", "0.1s", "-t", "0.2s"];
    let subject = bench.trial(&flags).subject.expect("it is watched");
    assert_eq!((subject.pid, subject.processes), (bench.echo.pid(), 3), "{subject:?}");
    let (out, _) = words(&bench.load(&flags).output().unwrap());
    assert!(out.contains(&format!("kqps (pid {} and 2 children)", bench.echo.pid())), "{out}");
}

#[test]
fn a_subject_that_cannot_be_found_is_no_error() {
    let bench = Bench::new();
    let flags = ["-Q", "100", "-l", "0.1s", "-t", "0.1s"];
    // This test owns the socket, and starts the player.
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = unused_address();
    let own_address = own.local_addr().unwrap().to_string();
    let started = format!("process {} has the socket and started this player", std::process::id());
    for (target, why) in [
        (own_address, started),
        (closed.clone(), format!("no UDP socket of this network namespace is bound to {closed}")),
    ] {
        let output = bench.load_of(&target, &flags).output().unwrap();
        let (out, err) = words(&output);
        assert!(out.contains(&format!("  Subject:              not watched: {why}")), "{out}{err}");
        assert_eq!(err, "", "nothing but the statistics");
    }
}

#[test]
fn the_cores_of_the_subject_are_those_that_its_threads_keep_to() {
    let cpus = affinity::allowed().unwrap();
    let [one, .., other] = &*cpus else {
        return skip(Capability::Cores, "one core only");
    };
    let bench = Bench::new();
    for thread in kqps_host::threads_of(bench.echo.pid()) {
        affinity::confine_thread(thread, &[*other]).unwrap();
    }
    let (one, other_text) = (one.to_string(), other.to_string());
    let played = |flags: &[&str]| -> (Vec<u32>, Option<f64>, bool) {
        let flags = [&["-Q", "1k", "-l", "0.1s", "-t", "0.2s", "--json"], flags].concat();
        let output = bench.load(&flags).output().unwrap();
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let trial: kqps_observation::Trial = serde_json::from_slice(&output.stdout).unwrap();
        let warnings = printed["warnings"].as_array().unwrap();
        let is_doubted = warnings.iter().any(|warning| warning["code"] == "subject-cores");
        (trial.subject.unwrap().cpus, trial.load.coalesce_us, is_doubted)
    };
    // The subject is pinned to another core, so the player has its core to itself and lets queries wait for
    // less time.
    assert_eq!(played(&["--cpus", &one]), (vec![*other], Some(10.0), false));
    assert_eq!(played(&["--cpus", &other_text]), (vec![*other], Some(20.0), false));
    assert_eq!(played(&["--subject-cpus", &other_text]), (vec![*other], Some(20.0), false));
    assert_eq!(played(&["--subject-cpus", &one]), (vec![*other], Some(20.0), true));
}

/// A program that keeps a core busy until it is dropped.
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

/// If only the player is pinned, the subject may run on any core, and other programs may disturb it there.
#[test]
fn a_neighbour_is_seen_where_only_the_player_is_pinned() {
    let bench = Bench::new();
    let pid = bench.echo.pid().to_string();
    let core = affinity::allowed().unwrap()[0].to_string();
    let _neighbour = Neighbour::new();
    for pinned in [&[][..], &["--cpus", &core]] {
        let flags = [&["-Q", "1k", "-l", "0.5s", "--subject-pid", &pid], pinned].concat();
        let host = bench.trial(&flags).hosts.first;
        assert!(host.foreign_cpu_s.unwrap() > 0.1, "{pinned:?}: {host:?}");
    }
}

/// With a socket for each worker, one worker gets all queries of a single flow.
#[test]
fn how_evenly_the_load_spread_is_reported() {
    let echo = Echo::with(&["--threads", "2", "--sockets", "reuseport", "--work", "100us"]);
    let pid = echo.pid().to_string();
    let bench = Bench { echo, ..Bench::new() };
    let flags = ["-Q", "2k", "-l", "2s", "-c", "1", "--subject-pid", &pid, "--subject-workers", "2"];
    let (out, err) = words(&bench.load(&flags).output().unwrap());
    assert!(out.contains("the busiest of 2 did 2.00 times the mean work\n"), "{out}{err}");
    assert!(out.contains("Warning: uneven: "), "{out}");
}
