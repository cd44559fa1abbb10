//! Real name servers that limit the rate of their responses, and servers that lose queries for other reasons.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kqps_skips::{Capability, skip};
use serde_json::Value;

use super::bench::{Bench, Echo, kqps, words};

const ZONE: &str = "\
$ORIGIN example.test.
$TTL 3600
@ SOA ns hostmaster 1 3600 600 86400 300
@ NS ns
ns A 192.0.2.53
www A 192.0.2.1
";

/// A running name server, and its folder.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    pub(crate) folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kqps_kernel::process::signal(self.child.id(), kqps_kernel::process::Signal::Terminate);
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server with this configuration, in which `{dir}` and `{port}` are placeholders. `None` if the
    /// program is missing, which is reported as a skip.
    pub(crate) fn start(program: &str, config: &str, arguments: &[&str]) -> Option<Self> {
        let path = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"].map(|dir| Path::new(dir).join(program));
        let Some(path) = path.iter().find(|path| path.exists()) else {
            skip(Capability::Programs, format!("{program} is not installed"));
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let port = kqps_kernel::port::free(Ipv4Addr::LOCALHOST.into(), 1).unwrap().port();
        let dir = folder.path().to_str().unwrap().to_owned();
        let filled = |text: &str| text.replace("{dir}", &dir).replace("{port}", &port.to_string());
        std::fs::write(folder.path().join("zone"), ZONE).unwrap();
        std::fs::write(folder.path().join("config"), filled(config)).unwrap();
        let mut command = Command::new(path);
        command.args(arguments.iter().map(|argument| filled(argument))).stdin(Stdio::null());
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let server = Self { child, port, folder };
        server.wait();
        Some(server)
    }

    fn wait(&self) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let query = b"\0\x01\0\0\0\x01\0\0\0\0\0\0\x07example\x04test\0\0\x06\0\x01";
        let deadline = Instant::now() + Duration::from_mins(1);
        let mut reply = [0; 512];
        let is_answer = |reply: &[u8]| reply.len() > 12 && reply[3].is_multiple_of(16) && reply[7] == 1;
        loop {
            // While nothing listens there, the next call returns that error.
            let _ = socket.send_to(query, ("127.0.0.1", self.port));
            if socket.recv(&mut reply).is_ok_and(|bytes| is_answer(&reply[..bytes])) {
                return;
            }
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "it does not answer: {}", log());
        }
    }

    /// The result of a load of many names that do not exist, and of one that does.
    fn loaded(&self) -> Value {
        let mut text = String::new();
        for number in 0..400 {
            let _ = writeln!(text, "n{number}.example.test A NXDOMAIN");
            text += "www.example.test A NOERROR\nns.example.test A NOERROR\nwww.example.test AAAA NOERROR\n";
        }
        self.asked(&text, 3)
    }

    /// The result of a load of these queries, played so often at 3,000 a second.
    fn asked(&self, queries: &str, passes: u32) -> Value {
        std::fs::write(self.folder.path().join("queries"), queries).unwrap();
        let passes = passes.to_string();
        load(&format!("127.0.0.1:{}", self.port), self.folder.path(), &["-Q", "3k", "-n", &passes])
    }
}

/// Plays the queries in a folder.
fn load(target: &str, folder: &Path, flags: &[&str]) -> Value {
    let mut load = kqps(&["load", target, "-t", "0.2s", "--lag", "1m", "--json", "-d"]);
    load.arg(folder.join("queries")).args(flags).env("XDG_CACHE_HOME", folder);
    let output = load.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", words(&output).1))
}

/// The warnings of a rate limit and of unexplained losses, as code and advice.
fn hints(trial: &Value) -> Vec<(&str, &str)> {
    let warnings = trial["warnings"].as_array().unwrap();
    let all = warnings.iter().map(|one| (one["code"].as_str().unwrap(), one["advice"].as_str().unwrap()));
    all.filter(|(code, _)| ["rate-limited", "unexplained-loss"].contains(code)).collect()
}

fn count(trial: &Value, what: &str) -> u64 {
    trial["accounts"][what].as_u64().unwrap()
}

const NSD: &str = "\
server:
    ip-address: 127.0.0.1@{port}
    server-count: 2
    username: \"\"
    chroot: \"\"
    database: \"\"
    zonesdir: \"{dir}\"
    pidfile: \"{dir}/pid\"
    xfrdfile: \"{dir}/xfrd\"
    xfrdir: \"{dir}\"
    zonelistfile: \"{dir}/zones\"
    {limit}
remote-control:
    control-enable: no
zone:
    name: example.test
    zonefile: zone
";

fn nsd(limit: &str) -> Option<Server> {
    Server::start("nsd", &NSD.replace("{limit}", limit), &["-d", "-c", "{dir}/config"])
}

#[test]
fn a_limit_of_nsd_is_hinted_at_whatever_slips() {
    // The default: 200 responses a second of one kind, and of the others every second slips.
    for (limit, slips, loses) in [
        ("", true, true),
        ("rrl-slip: 1\n    rrl-ratelimit: 50", true, false),
        ("rrl-slip: 0\n    rrl-ratelimit: 50", false, true),
    ] {
        let Some(server) = nsd(limit) else { return };
        let trial = server.loaded();
        let hints = hints(&trial);
        assert_eq!(hints.len(), 1, "{limit}: {hints:?} {}", trial["accounts"]);
        assert!(hints[0].1.contains("`rrl-ratelimit: 0` and `rrl-whitelist-ratelimit: 0`"), "{hints:?}");
        let lost = trial["lost_expected"].as_object().unwrap();
        let sum: u64 = lost.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(sum, count(&trial, "lost"), "{lost:?}");
        assert_eq!((count(&trial, "slipped") > 0, sum > 0), (slips, loses), "{limit}: {}", trial["accounts"]);
        assert_eq!(count(&trial, "slipped"), count(&trial, "truncated"), "every one would have fitted");
        if slips {
            assert_eq!(hints[0].0, "rate-limited");
        }
        assert_eq!(trial["subject"]["program"], "nsd");
        assert_eq!(trial["subject"]["pid"], server.child.id(), "the parent of all");
        assert!(trial["subject"]["processes"].as_u64().unwrap() >= 3, "{}", trial["subject"]);
    }
}

#[test]
fn without_its_limit_nsd_gives_no_cause_for_a_hint() {
    let Some(server) = nsd("rrl-ratelimit: 0\n    rrl-whitelist-ratelimit: 0") else { return };
    let trial = server.loaded();
    assert_eq!((count(&trial, "slipped"), hints(&trial)), (0, vec![]), "{}", trial["accounts"]);
}

const BIND: &str = "\
options {
    directory \"{dir}\";
    listen-on port {port} { 127.0.0.1; };
    listen-on-v6 { none; };
    recursion no;
    notify no;
    dnssec-validation no;
    pid-file \"{dir}/pid\";
    session-keyfile \"{dir}/key\";
    lock-file none;
    rate-limit { responses-per-second 50; slip 2; };
};
controls {};
zone \"example.test\" { type primary; file \"zone\"; };
";

#[test]
fn a_limit_of_bind_is_hinted_at() {
    let arguments = ["-g", "-n", "1", "-c", "{dir}/config"];
    let Some(server) = Server::start("named", BIND, &arguments) else { return };
    let trial = server.loaded();
    let hints = hints(&trial);
    assert_eq!(hints.len(), 1, "{hints:?} {}", trial["accounts"]);
    assert!(hints[0].0 == "rate-limited" && hints[0].1.contains("rate-limit { ... }"), "{hints:?}");
    assert!(count(&trial, "slipped") > 0 && count(&trial, "lost") > 0, "{}", trial["accounts"]);
}

/// With a slip of 1, no response of a kind comes whole once its rate is used up.
#[test]
fn a_limit_of_bind_that_lets_every_response_slip_is_seen() {
    let config = BIND.replace("responses-per-second 50; slip 2;", "responses-per-second 1; slip 1;");
    let arguments = ["-g", "-n", "1", "-c", "{dir}/config"];
    let Some(server) = Server::start("named", &config, &arguments) else { return };
    let names: String = (0..2000).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "n{number}.example.test A NXDOMAIN");
        text
    });
    let trial = server.asked(&names, 3);
    let (correct, truncated) = (count(&trial, "correct"), count(&trial, "truncated"));
    assert!(correct == 6_000 && truncated >= correct - 10, "{}", trial["accounts"]);
    assert_eq!(count(&trial, "slipped"), truncated, "{}", trial["accounts"]);
    let hints = hints(&trial);
    assert!(hints.len() == 1 && hints[0].0 == "rate-limited", "{hints:?}");
    assert!(hints[0].1.contains("rate-limit { ... }"), "{hints:?}");

    // A single name that exists: its answer may be too large, so no more is said than is known.
    let trial = server.asked(&"www.example.test A NOERROR\n".repeat(1000), 3);
    let truncated = count(&trial, "truncated");
    let warnings = trial["warnings"].as_array().unwrap();
    let named =
        warnings.iter().any(|one| ["truncated", "rate-limited"].contains(&one["code"].as_str().unwrap()));
    assert!(truncated > 2_900 && named, "{}: {warnings:?}", trial["accounts"]);
}

const KNOT: &str = "\
server:
    rundir: \"{dir}\"
    listen: 127.0.0.1@{port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: \"{dir}\"
log:
  - target: stderr
    any: notice
mod-rrl:
  - id: default
    rate-limit: 50
    slip: 2
template:
  - id: default
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
    global-module: mod-rrl/default
zone:
  - domain: example.test
    file: \"{dir}/zone\"
";

#[test]
fn a_limit_of_knot_is_hinted_at() {
    let arguments = ["-c", "{dir}/config", "-s", "{dir}/s"];
    let Some(server) = Server::start("knotd", KNOT, &arguments) else { return };
    let trial = server.loaded();
    let hints = hints(&trial);
    assert_eq!(hints.len(), 1, "{hints:?} {}", trial["accounts"]);
    assert!(hints[0].0 == "rate-limited" && hints[0].1.contains("mod-rrl"), "{hints:?}");
    assert!(count(&trial, "slipped") > 0 && count(&trial, "lost") > 0, "{}", trial["accounts"]);
}

/// It ignores one in five queries, drawn at random.
#[test]
fn a_server_that_ignores_queries_at_random_is_not_said_to_limit_them() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap().to_string();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let is_over = AtomicBool::new(false);
    let deadline = Instant::now() + Duration::from_mins(1);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("queries"), "www.example.test A NOERROR\n".repeat(1000)).unwrap();
    let trial = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut message, mut random) = ([0; 512], fastrand::Rng::with_seed(1));
            while !is_over.load(Ordering::Relaxed) && Instant::now() < deadline {
                let Ok((bytes, from)) = socket.recv_from(&mut message) else { continue };
                message[2] |= 0x84;
                if random.u8(..5) > 0 {
                    let _ = socket.send_to(&message[..bytes], from);
                }
            }
        });
        let trial = load(&target, folder.path(), &["-Q", "1k", "-n", "2"]);
        is_over.store(true, Ordering::Relaxed);
        trial
    });
    let lost = count(&trial, "lost");
    assert!((300..500).contains(&lost), "{}", trial["accounts"]);
    assert!(hints(&trial).iter().all(|(code, _)| *code != "rate-limited"), "{:?}", hints(&trial));
    let accuses = hints(&trial).iter().any(|(_, advice)| advice.contains("So the subject"));
    assert!(!accuses, "{:?}", hints(&trial));
}

/// Each answer takes the server a millisecond, and its buffer holds a few queries.
#[test]
fn a_server_that_is_only_overloaded_is_said_to_limit_nothing() {
    let echo = Echo::with(&["--work", "1ms", "--buffer", "4KiB"]);
    let bench = Bench::before(echo);
    let trial = load(&bench.echo.address, bench.folder.path(), &["-Q", "10k", "-n", "1"]);
    assert!(count(&trial, "lost") > 100, "{}", trial["accounts"]);
    assert_eq!(hints(&trial), [], "{}", trial["ledger"]);
}

#[test]
fn an_answer_that_is_too_long_is_cut_and_does_not_slip() {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("zone");
    let text = (0..40).fold(ZONE.to_owned(), |text, number| text + &format!("long A 192.0.2.{number}\n"));
    std::fs::write(&zone, text).unwrap();
    let zone = format!("example.test={}", zone.display());
    let arguments = ["serve", "auth", "--zone", &zone, "--listen", "127.0.0.1:0", "--for", "5m", "--json"];
    let auth = Echo::from_command(&mut kqps(&arguments));
    // Both names are asked many times. The answer of the long one is always truncated.
    let text = "www.example.test A NOERROR\nlong.example.test A NOERROR\n".repeat(10);
    std::fs::write(folder.path().join("queries"), text).unwrap();
    let trial = load(&auth.address, folder.path(), &["-Q", "1k", "-n", "5"]);
    assert_eq!((count(&trial, "truncated"), count(&trial, "slipped")), (50, 0), "{}", trial["accounts"]);
    assert_eq!(hints(&trial), []);
}
