//! Limits that a search keeps: its greatest rate in the packets of each second, and its time on a core that a real-time
//! program holds.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kqps_kernel::affinity;
use kqps_kernel::process::{Signal, signal};
use kqps_skips::{Capability, skip};
use serde_json::Value;

use super::ends::Server;
use crate::load::bench::{Bench, kqps, words};

const TENTH: Duration = Duration::from_millis(100);

/// A receiver that was away for longer than this does not know in which tenth of a second a query came.
const AWAY_MOST: Duration = Duration::from_millis(20);

/// The number of queries that came in one tenth of a second; `None` if the receiver was away.
type Count = Option<u64>;

/// A server that answers at once, and reports the queries of each tenth of a second since the first.
fn counting() -> (Server, mpsc::Receiver<Vec<Count>>) {
    let (sender, counts) = mpsc::channel();
    let (mut message, mut began, mut looked) = ([0; 512], None, Instant::now());
    let mut seen: Vec<Count> = Vec::new();
    let server = Server::new(Duration::from_millis(1), move |socket| {
        let received = socket.recv_from(&mut message);
        let now = Instant::now();
        let before = std::mem::replace(&mut looked, now);
        let was_away = now - before > AWAY_MOST;
        let Ok((length, from)) = received else {
            // The player is silent between two trials.
            let _ = sender.send(seen.clone());
            return;
        };
        let tenth = ((now - *began.get_or_insert(before)).as_millis() / TENTH.as_millis()) as usize;
        seen.resize(seen.len().max(tenth + 1), Some(0));
        seen[tenth] = seen[tenth].filter(|_| !was_away || tenth == 0).map(|count| count + 1);
        message[2] |= 0x80;
        // The player may have closed some of its sockets by now.
        let _ = socket.send_to(&message[..length], from);
    });
    (server, counts)
}

#[test]
fn no_second_has_more_queries_than_max_and_a_faster_server_has_at_least_that() {
    let bench = Bench::new();
    let (server, counts) = counting();
    let mut find = kqps(&["find", &server.address, "--goal", "quick", "--max", "1k", "--loss", "5%"]);
    find.args(["--no-ceiling", "-t", "100ms", "-d"]).arg(bench.queries());
    let output = find.env("XDG_CACHE_HOME", bench.folder.path()).output().unwrap();
    let (out, err) = words(&output);
    drop(server);
    let seen: Vec<Count> = counts.iter().last().unwrap();
    let all: u64 = seen.iter().flatten().sum();
    assert!(all > 500, "{all} queries: {err}");
    for second in seen.windows(10) {
        assert!(second.iter().flatten().sum::<u64>() <= 1000, "{seen:?}");
    }
    // A player that stood still makes up for it in the overload, within its second. So the overload is bounded by all
    // queries that were due so far, and trials by those of a tenth. To both are added 10 ms of lag, and 20 ms by which the
    // receiver may be late.
    let mut sum = 0;
    for (tenth, count) in seen.iter().enumerate() {
        sum += count.unwrap_or_default();
        assert!(sum <= 131 + 100 * tenth as u64, "{seen:?}");
    }
    assert!(seen.iter().skip(10).flatten().all(|count| *count <= 131), "{seen:?}");
    if output.status.code() == Some(0) {
        assert!(out.contains("\n  rate         at least 1,000 q/s: `--max`\n"), "{out}{err}");
        assert!(!out.contains("usual speed"), "{out}");
    }
}

/// A loop that runs before all ordinary threads and before the player's on a core, and ends by itself after this long.
struct Held(Child);

impl Held {
    fn core(cpu: u32, within: Duration) -> Option<Self> {
        let seconds = within.as_secs().to_string();
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", &seconds, "chrt", "-f", "50", "taskset", "-c", &cpu.to_string()]);
        command.args(["sh", "-c", "echo; while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut held = Self(command.stderr(Stdio::null()).spawn().ok()?);
        let mut line = [0];
        let is_held = std::io::Read::read_exact(held.0.stdout.as_mut()?, &mut line).is_ok();
        is_held.then_some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // `timeout` passes the signal on.
        let _ = signal(self.0.id(), Signal::Terminate);
        let _ = self.0.wait();
    }
}

#[test]
fn a_player_that_gets_no_cpu_time_is_refused_and_left_behind() {
    let cpus = affinity::allowed().unwrap();
    let [.., first, last] = cpus[..] else { return skip(Capability::Cores, "a second core") };
    let bench = Bench::new();
    let Some(held) = Held::core(last, Duration::from_secs(30)) else {
        return skip(Capability::RealTime, "no program may run before all others");
    };
    let began = Instant::now();
    let (on, beside) = (last.to_string(), first.to_string());
    let mut find = kqps(&["find", &bench.echo.address, "--goal", "quick", "--max", "1.5k", "--no-ceiling"]);
    find.args(["--cpus", &on, "--subject-cpus", &beside, "--out"]).arg(bench.folder.path().join("kept"));
    find.arg("--json").arg("-d").arg(bench.queries()).env("XDG_CACHE_HOME", bench.folder.path());
    let output = find.output().unwrap();
    let took = began.elapsed();
    let (out, err) = words(&output);
    assert!(took < Duration::from_secs(25), "it waited for the other program to end, {took:?}: {err}");
    let verdict: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&verdict["grade"], &verdict["cut_short"]), (&"F".into(), &"player".into()), "{out}{err}");
    assert!(verdict["reasons"][0].as_str().unwrap().starts_with("player-limited: "), "{verdict}");
    assert_eq!(output.status.code(), Some(3), "{err}");
    let left = err.split_once("its process ").and_then(|(_, rest)| rest.split_once(" is left behind"));
    let pid = left.unwrap_or_else(|| panic!("it names the process: {err}")).0;
    drop(held);
    let ended = Instant::now() + Duration::from_mins(1);
    while Path::new("/proc").join(pid).join("fd").read_dir().is_ok_and(|mut files| files.next().is_some()) {
        assert!(Instant::now() < ended, "the player outlives the program that held its core");
        std::thread::sleep(Duration::from_millis(5));
    }
}
