//! Trouble: more load than the player can send, a player that is stopped, limits of the system.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal};
use kqps_observation::Trial;
use kqps_skips::{Capability, skip};

use super::bench::{Bench, is_nothing, kqps, words};

/// Starts a load that prints its statistics often, and waits until they show sent queries.
pub(super) fn under_way(command: &mut Command) -> Child {
    command.args(["-S", "100ms", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let is_waited_through = |line: &str| line.contains("sent 0.0k q/s") || line.contains("warning: ");
    let under_way = stderr.by_ref().lines().map(Result::unwrap).find(|line| !is_waited_through(line));
    assert!(under_way.as_ref().is_some_and(|line| line.contains("k q/s, correct ")), "{under_way:?}");
    // A thread reads the rest, so that the pipe never fills up.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    child
}

pub(super) fn trial_of(child: Child) -> Trial {
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The I/O models that this host offers. The others are reported as skipped.
pub(super) fn offered_io() -> impl Iterator<Item = &'static str> {
    ["plain", "mmsg", "gso", "uring"].into_iter().filter(|io| {
        let offered = kqps_player::offers(io.parse().unwrap());
        if let Err(reason) = &offered {
            let capability = if *io == "uring" { Capability::Uring } else { Capability::Segmentation };
            skip(capability, format!("{io}: {reason}"));
        }
        offered.is_ok()
    })
}

#[test]
fn far_above_its_own_rate_it_still_hears_replies_and_signals() {
    let bench = Bench::new();
    let cases = offered_io().map(|io| ["--io", io, "--arrivals", "even"]).chain([[
        "--io",
        "auto",
        "--arrivals",
        "poisson",
    ]]);
    for flags in cases {
        // The bench allows so much lag that the player gives up no query: there is always something to send.
        let child = under_way(bench.load(&["-Q", "100M", "-l", "1h", "-t", "0.3s"]).args(flags));
        signal(child.id(), Signal::Interrupt).unwrap();
        let trial = trial_of(child);
        trial.accounts.check().unwrap();
        assert!(trial.interrupted);
        assert!(trial.accounts.correct > 0, "{flags:?}: {:?}", trial.accounts);
    }
}

#[test]
fn what_it_cannot_send_it_gives_up_to_the_last_query() {
    let bench = Bench::new();
    for arrivals in ["even", "poisson"] {
        let mut load = kqps(&["load", &bench.echo.address, "-Q", "10M", "-l", "2s", "--json", "-d"]);
        load.arg(bench.queries()).args(["--arrivals", arrivals, "-t", "1s"]);
        let output = load.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", words(&output).1);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let refuses = |warning: &serde_json::Value| warning["effect"] == "refuse";
        assert!(json["warnings"].as_array().unwrap().iter().any(refuses), "{json}");
        assert_eq!(json["unsent_causes"], serde_json::json!({ "late": json["accounts"]["unsent"] }));
        let trial: Trial = serde_json::from_slice(&output.stdout).unwrap();
        trial.accounts.check().unwrap();
        // Random arrivals number 20 million, give or take their square root.
        let spread = if arrivals == "even" { 0 } else { 50_000 };
        assert!(trial.accounts.intended.abs_diff(20_000_000) <= spread, "{:?}", trial.accounts);
        assert!(trial.accounts.unsent > 0 && trial.accounts.correct > 0, "{:?}", trial.accounts);
    }
}

/// Stops the test's server when the test ends, however it ends.
pub(super) struct Stopper<'a>(pub(super) &'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Answers every query after a while, until `stop` is set.
pub(super) fn answer_later(socket: &UdpSocket, after: Duration, stop: &AtomicBool) {
    let mut later: std::collections::VecDeque<(Instant, Vec<u8>, SocketAddr)> = [].into();
    let mut buffer = [0; 512];
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    while !stop.load(Relaxed) {
        while later.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
            let (_, reply, to) = later.pop_front().unwrap();
            socket.send_to(&reply, to).unwrap();
        }
        match socket.recv_from(&mut buffer) {
            Ok((bytes, from)) => {
                buffer[2] |= 0x80;
                later.push_back((Instant::now() + after, buffer[..bytes].to_vec(), from));
            }
            Err(error) if is_nothing(&error) => (),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_player_that_was_stopped_loses_nothing_that_was_answered() {
    // Longer than other programs keep the server of this test from a core.
    const TIMEOUT: Duration = Duration::from_secs(1);
    let bench = Bench::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap().to_string();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Replies are always on their way, so some arrive while the player is stopped.
        scope.spawn(|| answer_later(&socket, Duration::from_millis(60), &stop));
        let _stopper = Stopper(&stop);
        let players: Vec<Child> = offered_io()
            .map(|io| {
                let mut load =
                    kqps(&["load", &target, "-Q", "500", "-l", "4s", "-t", "1s", "--io", io, "-d"]);
                under_way(load.arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path()))
            })
            .collect();
        for player in &players {
            signal(player.id(), Signal::Stop).unwrap();
        }
        // For longer than timeout and drain together.
        std::thread::sleep(TIMEOUT * 3);
        for player in &players {
            signal(player.id(), Signal::Continue).unwrap();
        }
        for player in players {
            let trial = trial_of(player);
            let accounts = trial.accounts;
            assert_eq!(
                (accounts.lost, accounts.unsolicited),
                (0, 0),
                "{}: {accounts:?}",
                trial.players.first.io
            );
            assert!(accounts.correct > 0 && accounts.unsent > 0, "{}: {accounts:?}", trial.players.first.io);
        }
    });
}

/// Runs `kqps load` with these arguments after a line of shell, in which `"$@"` is the program.
fn in_shell(bench: &Bench, line: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", line, "sh", env!("CARGO_BIN_EXE_kqps"), "load", "-d"]).arg(bench.queries());
    command.args(arguments).env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap()
}

pub(crate) fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t")
}

#[test]
fn more_sockets_than_files_raise_the_limit_or_are_refused_with_the_flag_to_change() {
    let bench = Bench::new();
    let arguments = [bench.echo.address.as_str(), "-Q", "1k", "-n", "1", "-c", "200"];
    let output = in_shell(&bench, "ulimit -Sn 64; exec \"$@\"", &arguments);
    assert!(words(&output).0.contains("200 sockets"), "{}", words(&output).1);
    let output = in_shell(&bench, "ulimit -n 64; exec \"$@\"", &arguments);
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("64 open files") && err.contains("-c"), "{err}");
}

#[test]
fn a_thread_that_cannot_be_started_ends_the_others() {
    let bench = Bench::new();
    // Address space for the stacks of two threads, not of four.
    let line = "ulimit -v 3000000; RUST_MIN_STACK=1073741824 exec \"$@\"";
    let output = in_shell(&bench, line, &[&bench.echo.address, "-Q", "1k", "-l", "1h", "-T", "4"]);
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot start a thread"), "{err}");
}

#[test]
fn buffers_that_the_system_caps_are_noted() {
    let bench = Bench::new();
    // Without CAP_NET_ADMIN the kernel keeps buffers within its limit.
    let line = if is_root() { "exec setpriv --bounding-set=-net_admin \"$@\"" } else { "exec \"$@\"" };
    let arguments = [bench.echo.address.as_str(), "-Q", "1k", "-n", "1", "-b", "1048576"];
    let (out, err) = words(&in_shell(&bench, line, &arguments));
    for sysctl in ["net.core.rmem_max", "net.core.wmem_max"] {
        assert!(out.contains("instead of 1073741824") && out.contains(sysctl), "{out}{err}");
    }
}

#[test]
fn an_address_that_can_be_bound_is_not_an_own_one() {
    if !is_root() {
        return skip(Capability::Root, "a network of its own that binds every address");
    }
    let bench = Bench::new();
    let network = "echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind && \
                   echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind && ip link set lo up && \
                   ip link add v0 type veth peer name v1 && ip addr add 192.0.2.1/24 dev v0 && \
                   ip addr add 192.0.2.2/24 dev v0 && \
                   ip link set v0 up && ip link set v1 up && ip route add default dev v0";
    let line = format!("exec unshare -n sh -c '{network} && exec \"$@\"' sh \"$@\"");
    // However busy the host is, the player gives up none of the ten.
    let flags = ["-Q", "100", "-l", "0.1s", "-t", "0.1s", "--lag", "1m"];
    let load = |target: &str| in_shell(&bench, &line, &[&[target][..], &flags].concat());
    let (elsewhere, own) = (load("198.51.100.1"), load("192.0.2.1"));
    assert_eq!(elsewhere.status.code(), Some(2), "{}", words(&elsewhere).1);
    assert!(words(&elsewhere).1.contains("--allow-target 198.51.100.1"));
    assert!(words(&own).0.contains("Queries sent:         10\n"), "{}", words(&own).1);
    // The kernel sends to the second address of its network from the first one.
    let second = load("192.0.2.2");
    assert!(words(&second).0.contains("Queries sent:         10\n"), "{}", words(&second).1);
    // kqps refuses to send from another host's address.
    for (target, foreign) in [("192.0.2.1", "198.51.100.1"), ("::1", "2001:db8::1")] {
        let forged = in_shell(&bench, &line, &[&[target, "-a", foreign][..], &flags].concat());
        assert_eq!(forged.status.code(), Some(2), "{}", words(&forged).1);
        assert!(words(&forged).1.contains(&format!("no address {foreign}")), "{}", words(&forged).1);
    }
    let from_own = in_shell(&bench, &line, &[&["192.0.2.1", "-a", "192.0.2.1"][..], &flags].concat());
    assert!(words(&from_own).0.contains("Queries sent:         10\n"), "{}", words(&from_own).1);
}
