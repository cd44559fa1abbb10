//! `kqps run` and `kqps compare` at servers that run already: on this host, and on another one, which a
//! network namespace at the other end of a veth pair stands for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use kqps_kernel::namespace::veth::VethSettings;
use kqps_observation::run::{Purpose, Role};
use kqps_observation::trial::Transport;
use kqps_observation::{Run, Store, Target};
use kqps_skips::{Capability, skip};
use kqps_testbed::path::{LaidPath, VethPath};
use serde_json::Value;
use tempfile::TempDir;

use crate::serve::running::Running;

/// Records of the server's zone, whose names are the queries.
const RECORDS: u32 = 50;

/// A zone, and queries for its names.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let records: Vec<String> =
            (0..RECORDS).map(|number| format!("n{number} A 192.0.2.{number}\n")).collect();
        let zone = format!(
            "$ORIGIN mine.test.\n$TTL 3600\n@ SOA ns host 1 3600 600 86400 1\n@ NS ns\nns A 192.0.2.1\n{}",
            records.concat()
        );
        std::fs::write(folder.path().join("zone"), zone).unwrap();
        let queries: Vec<String> =
            (0..RECORDS).map(|number| format!("n{number}.mine.test A NOERROR\n")).collect();
        let queries = queries.concat() + "nobody.mine.test A NXDOMAIN\n";
        std::fs::write(folder.path().join("queries"), queries).unwrap();
        Self { folder }
    }

    fn zone(&self) -> String {
        format!("mine.test={}", self.folder.path().join("zone").display())
    }

    fn queries(&self) -> String {
        self.folder.path().join("queries").display().to_string()
    }

    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The server, which no run starts.
    fn server(&self) -> Running {
        Running::start_as("auth", &["--zone", &self.zone(), "--listen", "127.0.0.1:0", "--for", "5m"])
    }
}

fn kqps(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(arguments).env_remove("KQPS_INSTALL_SUBJECTS").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn stored(out: &Path) -> Run {
    Store::read(&out.join("run.sqlite")).unwrap()
}

fn has_trial(out: &Path) -> bool {
    Store::read(&out.join("run.sqlite")).is_ok_and(|run| !run.trials.is_empty())
}

/// Kills a run as soon as it has stored a trial.
fn kill_after_a_trial(mut child: Child, out: &Path) {
    while !has_trial(out) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_server_of_this_host_is_measured_and_goes_on_running() {
    let bench = Bench::new();
    let mut server = bench.server();
    let out = bench.out("out");
    let url = format!("udp://{}", server.addresses[0]);
    let more = ["--budget", "25s", "--echo", "mmsg", "--seed", "3", "--json", "--name", "theirs", "-d"];
    let mut command = kqps(&["run", "--target", &url]);
    command.args(more).arg(bench.queries()).arg("--out").arg(&out);
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert!(said.contains("neither started nor stopped"), "{said}");
    let run = stored(&out);
    let names: Vec<&str> = run.cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(names, ["player ceiling", "echo mmsg", "theirs"]);
    let target = Target { address: server.addresses[0], on_this_host: true };
    assert_eq!(run.cells[2].target, Some(target));
    let searched = run.trials.iter().filter(|one| one.cell == 2).filter_map(|one| one.measured());
    let accounts: Vec<_> = searched.map(|trial| trial.accounts).collect();
    assert!(accounts.len() > 3, "{said}");
    // The answers are as the file expects: NOERROR for fifty names, and NXDOMAIN for one.
    assert!(accounts.iter().all(|one| one.wrong == 0) && accounts.iter().any(|one| one.correct > 1000));
    let ceilings = run.trials.iter().filter(|one| one.cell < 2).filter_map(|one| one.measured());
    assert!(ceilings.into_iter().all(|trial| trial.accounts.wrong == 0), "an echo is not held to the file");
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reasons = verdict["verdict"]["subjects"][0]["reasons"].to_string();
    assert!(reasons.contains("single-host") || reasons.contains("relative only"), "{reasons}");
    assert_eq!(server.child.try_wait().unwrap(), None, "nothing stopped it");
    assert!(out.join("report.html").exists());
}

#[test]
fn a_server_that_does_not_answer_is_named_and_refused() {
    let bench = Bench::new();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("udp://{}", silent.local_addr().unwrap());
    let out = bench.out("out");
    let mut command =
        kqps(&["run", "--budget", "25s", "--echo", "mmsg", "--target", &url, "-d", &bench.queries()]);
    let output = command.arg("--out").arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let why = "kqps: nothing could be measured: ";
    assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    let run = stored(&out);
    let failed: Vec<&str> = run.trials.iter().filter_map(|one| one.failure()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(run.trials.len(), 1, "no echo is measured for a server that does not answer");
    assert!(text(&output.stdout).contains("refused"), "{}", text(&output.stdout));

    let mut compare = kqps(&["compare", "--target", &url, "--target", &url, "-d", &bench.queries()]);
    let output = compare.arg("--out").arg(bench.out("compared")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("could not be measured"), "{}", text(&output.stderr));
}

#[test]
fn two_servers_that_run_are_compared_and_so_is_one_with_a_command() {
    let bench = Bench::new();
    let servers = [bench.server(), bench.server()];
    let urls = servers.each_ref().map(|server| format!("udp://{}", server.addresses[0]));
    let own = format!("{{kqps}} serve auth --listen {{endpoint}} --zone {}", bench.zone());
    for (name, b) in [("running", urls[1].as_str()), ("mixed", own.as_str())] {
        let out = bench.out(name);
        let mut command = kqps(&["compare", "--a", &urls[0], "--b", b, "-d", &bench.queries(), "--json"]);
        command.args(["--blocks", "1", "--duration", "500ms", "--seed", "4", "-q", "8", "--out"]).arg(&out);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["a"], servers[0].addresses[0].to_string());
        assert_eq!(printed["blocks"].as_array().unwrap().len(), 1, "{printed}");
        assert!(printed["doubts"].to_string().contains("was not started for this"), "{printed}");
        let run = stored(&out);
        let made: Vec<_> = run.trials.iter().filter(|one| one.purpose == Purpose::Closed).collect();
        // If the host spoils a trial, it is made again.
        let starts: BTreeSet<u64> = made.iter().map(|one| one.start).collect();
        assert_eq!(starts.len(), 3);
        for one in made {
            let trial = one.measured().unwrap_or_else(|| panic!("{:?}", one.outcome));
            assert_eq!(trial.accounts.wrong, 0, "{:?}", trial.wrong_causes);
        }
        assert_eq!(run.cells[2].target.is_some(), name == "running");
    }
}

#[test]
fn what_target_names_is_an_address_with_a_scheme_or_without_and_never_a_subject() {
    let bench = Bench::new();
    let server = bench.server();
    let address = server.addresses[0].to_string();
    let out = bench.out("out");
    let mut command =
        kqps(&["compare", "--target", &address, "--target", &address, "-d", &bench.queries(), "--json"]);
    command.args(["--blocks", "1", "--duration", "500ms", "-q", "8", "--out"]).arg(&out);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run = stored(&out);
    let targets: Vec<_> = run.cells.iter().map(|cell| cell.target.map(|target| target.address)).collect();
    assert_eq!(targets, [Some(server.addresses[0]); 3]);

    for word in ["nsd", "./mine.toml", "{kqps} serve echo --listen {endpoint}"] {
        let out = bench.out("none");
        let mut command =
            kqps(&["compare", "--target", word, "--target", &address, "-d", &bench.queries(), "--out"]);
        let output = command.arg(&out).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{word}: {}", text(&output.stderr));
        let what = format!("target `{word}`");
        assert!(text(&output.stderr).contains(&what), "{word}: {}", text(&output.stderr));
        assert!(!out.exists(), "{word}");
    }
}

#[test]
fn the_player_is_set_up_at_running_servers_as_the_user_says() {
    let bench = Bench::new();
    let server = bench.server();
    let address = server.addresses[0].to_string();
    let flags = ["--target", &address, "-d", &bench.queries(), "-t", "500ms", "--senders", "2"];
    let out = bench.out("out");
    let mut command =
        kqps(&["compare", "--target", &address, "--blocks", "1", "--duration", "500ms", "-q", "8"]);
    let output = command.args(flags).arg("--out").arg(&out).output().unwrap();
    // On a busy host such short trials may have no answers to compare. The store has their settings all the
    // same.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    let run = stored(&out);
    let is_set = |timeout: &str, senders: &str| (timeout, senders) == ("0.5", "2");
    assert!(run.cells.iter().all(|cell| is_set(
        &cell.factors.words()["player.timeout_s"],
        &cell.factors.words()["player.senders"]
    )));
    let timeouts: Vec<f64> =
        run.trials.iter().filter_map(|one| one.measured()).map(|trial| trial.load.timeout_s).collect();
    assert!(
        !timeouts.is_empty() && timeouts.iter().all(|timeout_s| (timeout_s - 0.5).abs() < 1e-9),
        "{timeouts:?}"
    );

    let planned = kqps(&["run", "--dry-run", "--json"]).args(flags).output().unwrap();
    let plan: Value = serde_json::from_slice(&planned.stdout).unwrap();
    let cells = plan["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| is_set(
        cell["factors"]["player.timeout_s"].as_str().unwrap(),
        cell["factors"]["player.senders"].as_str().unwrap()
    )));

    let (connections, queries) = (["--connections", "4"], bench.queries());
    let of_udp = [&["run", "--target", &address, "-d", &queries][..], &connections].concat();
    for (arguments, why) in [
        (&of_udp[..], "are for servers over connections that run already"),
        (&["run", "-t", "1s"], "--target"),
        (&["compare", "--a", "echo", "--b", "echo", "-t", "1s"], "named by --target"),
        (&["run", "--target", &address, "-d", &bench.queries(), "--timeout", "1m"], "10s at most"),
        (&["run", "--target", &address, "-d", &bench.queries(), "-t", "1ns"], "100us at least"),
        (&["load", &address, "-d", &bench.queries(), "-t", "1ns"], "expected a timeout of 100us at least"),
    ] {
        let output = kqps(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(why), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_server_is_measured_over_the_transport_of_its_url_from_many_addresses() {
    let bench = Bench::new();
    // The server has room for one connection of each address.
    let zone = bench.zone();
    let of_each = ["--zone", &zone, "--listen", "127.0.0.1:0", "--tcp-per-client", "1", "--for", "5m"];
    let server = Running::start_as("auth", &of_each);
    let out = bench.out("out");
    let url = format!("tcp://{}", server.addresses[0]);
    let more = ["--budget", "25s", "--seed", "3", "--json", "--connections", "4", "-d"];
    let from = ["-a", "127.9.0.0/16", "--io", "epoll", "--connect-timeout", "2s"];
    let mut command = kqps(&["run", "--target", &url]);
    let output = command.args(from).args(more).arg(bench.queries()).arg("--out").arg(&out).output().unwrap();
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let run = stored(&out);
    let name = format!("{} over tcp", server.addresses[0]);
    let [player, echo, theirs] = &run.cells[..] else { panic!("{said}") };
    assert!(player.name.starts_with("player ceiling over tcp, "), "{}", player.name);
    assert_eq!(echo.name, "echo over tcp, 1 worker, 4 kept connections");
    assert_eq!((&theirs.name, theirs.io.as_str()), (&name, "epoll"));
    let trials: Vec<_> = run.trials.iter().filter_map(|one| one.measured()).collect();
    assert!(trials.len() > 3 && trials.iter().all(|trial| trial.transport == Transport::Tcp), "{said}");
    assert!(trials.iter().all(|trial| trial.accounts.wrong == 0), "{said}");
    for connections in trials.iter().filter_map(|trial| trial.connections.as_ref()) {
        let made = (connections.established, connections.open, connections.closed.len());
        assert_eq!(made, (4, 4, 0), "{connections:?}");
    }
    let word = |name: &str| theirs.factors.word(name);
    let set = ["player.sources", "player.io", "player.connect_timeout_s"].map(word);
    assert_eq!(set, [Some("127.9.0.0/16"), Some("epoll"), Some("2")]);
    assert_eq!(echo.factors.word("player.sources"), Some("127.9.0.0/16"), "its ceiling is played at alike");
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reasons = verdict["verdict"]["subjects"][0]["reasons"].to_string();
    assert!(!reasons.contains("own ceiling was not measured"), "{reasons}");
}

#[test]
fn two_sides_are_compared_over_tcp_whether_they_run_or_are_started() {
    let bench = Bench::new();
    let servers = [bench.server(), bench.server()];
    let urls = servers.each_ref().map(|server| format!("tcp://{}", server.addresses[0]));
    let queries = bench.queries();
    let running = ["--target", &urls[0], "--target", &urls[1], "--connections", "2", "-d", &queries];
    let words = "kqps-auth player.transport=tcp player.connections=2";
    let started = ["--a", words, "--b", words, "--records", "200"];
    for (name, sides) in [("running", &running[..]), ("started", &started)] {
        let out = bench.out(name);
        let mut command = kqps(&["compare", "--json", "--blocks", "1", "--duration", "500ms", "-q", "8"]);
        let output = command.args(sides).args(["--seed", "4", "--out"]).arg(&out).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["blocks"].as_array().unwrap().len(), 1, "{printed}");
        let run = stored(&out);
        let a =
            if name == "running" { format!("{} over tcp", servers[0].addresses[0]) } else { words.into() };
        assert!(run.cells[0].name.starts_with(&a), "{}", run.cells[0].name);
        let trials: Vec<_> = run.trials.iter().filter_map(|one| one.measured()).collect();
        assert!(!trials.is_empty(), "{}", text(&output.stderr));
        for trial in trials {
            assert_eq!(
                (trial.transport, trial.accounts.wrong),
                (Transport::Tcp, 0),
                "{:?}",
                trial.wrong_causes
            );
            assert_eq!(trial.players.first.sockets, 2);
        }
    }
}

#[test]
fn servers_over_tls_are_compared_and_planned_with_the_issuers_that_the_user_names() {
    let bench = Bench::new();
    let listen = ["--listen", "127.0.0.1:0", "--listen", "tls://127.0.0.1:0", "--for", "5m"];
    let start = || Running::start_as("auth", &[&["--zone", &bench.zone()][..], &listen].concat());
    let servers = [start(), start()];
    let urls = servers.each_ref().map(|server| format!("tls://{}", server.ready["tls"][0].as_str().unwrap()));
    let issuer = |server: &Running| std::fs::read_to_string(server.ready["ca"].as_str().unwrap()).unwrap();
    let ca = bench.out("both.pem");
    std::fs::write(&ca, servers.each_ref().map(issuer).concat()).unwrap();
    let (out, ca) = (bench.out("out"), ca.display().to_string());
    let sides = ["--target", &urls[0], "--target", &urls[1], "--connections", "2", "--ca", &ca];
    let mut command = kqps(&["compare", "--json", "--blocks", "1", "--duration", "500ms", "-q", "8"]);
    let output = command.args(sides).args(["-d", &bench.queries(), "--out"]).arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run = stored(&out);
    for trial in run.trials.iter().filter_map(|one| one.measured()) {
        assert_eq!((trial.transport, trial.accounts.wrong), (Transport::Tls, 0), "{:?}", trial.wrong_causes);
        let tls = trial.connections.as_ref().unwrap().tls.as_ref().unwrap();
        assert_eq!((tls.trust.as_str(), tls.failures.len()), ("ca", 0), "{:?}", tls.failures);
    }
    assert_eq!(run.cells[0].factors.word("player.tls_name"), Some("127.0.0.1"));

    let mut plan =
        kqps(&["run", "--dry-run", "--json", "--target", &urls[0], "--server-name", "dns.test", "-d"]);
    let planned = plan.arg(bench.queries()).output().unwrap();
    let plan: Value = serde_json::from_slice(&planned.stdout).unwrap();
    let cells = plan["cells"].as_array().unwrap();
    assert!(cells[0]["name"].as_str().unwrap().starts_with("player ceiling over tls, "), "{plan}");
    let theirs = &cells.last().unwrap()["factors"];
    let named = ["player.tls_name", "player.tls_trust"].map(|name| theirs[name].as_str());
    assert_eq!(named, [Some("dns.test"), Some("system")]);
    for (flags, why) in [
        (&["--target", "127.0.0.1:53", "--insecure"][..], "--insecure is for servers over tls"),
        (&["--target", &urls[0], "--ca", "/nonexistent/ca.pem"], "--ca /nonexistent/ca.pem"),
        (&["--target", &urls[0], "--server-name", "a b"], "is no name of a server"),
    ] {
        let output = kqps(&["run", "--dry-run", "-d", &bench.queries()]).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(text(&output.stderr).contains(why), "{flags:?}: {}", text(&output.stderr));
    }
}

/// Both ends of a veth pair, each in a namespace of its own.
struct Far {
    path: LaidPath,
}

impl Far {
    /// `None` if the privileges for it are missing, which is reported as a skip.
    fn new() -> Option<Self> {
        match VethPath::lay(&VethSettings::default()) {
            Ok(path) => Some(Self { path: LaidPath::Veth(path) }),
            Err(error) => {
                let what = "a server on another host, since no veth path can be laid";
                skip(Capability::Networks, format!("{what}: {error}"));
                None
            }
        }
    }

    /// A server at the far end.
    fn serve(&self, kind: &str, arguments: &[&str]) -> Running {
        let mut command = kqps(&["serve", kind, "--json", "--for", "5m"]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.path.place_subject(&mut command).unwrap();
        Running::from_child(command.spawn().unwrap())
    }

    /// A command at the near end.
    fn near(&self, arguments: &[&str]) -> Command {
        let mut command = kqps(arguments);
        self.path.place_player(&mut command).unwrap();
        command
    }

    fn at(&self, port: u16) -> String {
        format!("{}:{port}", self.path.subject_address())
    }
}

/// After a kill and a resume it plays at both until the end, and the echo at the far end is the ceiling.
#[test]
fn a_server_on_another_host_is_not_on_one_host_and_has_the_echo_there_as_the_ceiling() {
    let Some(far) = Far::new() else { return };
    let bench = Bench::new();
    let (server, echo) = (far.at(5300), far.at(5301));
    let _server = far.serve("auth", &["--zone", &bench.zone(), "--listen", &server]);
    let _echo = far.serve("echo", &["--io", "segment", "--listen", &echo]);
    let out = bench.out("out");
    let url = format!("udp://{server}");
    let mut begun =
        far.near(&["run", "--budget", "25s", "--seed", "3", "--target", &url, "-d", &bench.queries()]);
    begun.args(["--echo-target", &echo, "--out"]).arg(&out).stdout(Stdio::null()).stderr(Stdio::null());
    kill_after_a_trial(begun.spawn().unwrap(), &out);
    // The run keeps its own copy of the queries.
    std::fs::remove_file(bench.queries()).unwrap();
    let resumed = far.near(&["run", "--resume", "--json", "--out"]).arg(&out).output().unwrap();
    let said = text(&resumed.stderr);
    assert!(matches!(resumed.status.code(), Some(0 | 3)), "{said}");

    let run = stored(&out);
    assert!(run.finished_unix_ms.is_some(), "{said}");
    let roles: Vec<_> = run.cells.iter().map(|cell| (cell.role, cell.is_elsewhere())).collect();
    assert_eq!(roles, [(Role::PlayerCeiling, true), (Role::Subject, true)]);
    let measured = |cell: u32| {
        run.trials.iter().filter(move |one| one.cell == cell).filter(|one| one.measured().is_some())
    };
    assert!(measured(0).count() >= 1 && measured(1).count() > 3, "{said}");
    let verdict: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    let subject = &verdict["verdict"]["subjects"][0];
    let warnings = subject["warnings"].to_string();
    assert!(!warnings.contains("single-host"), "{warnings}");
    let reasons = subject["reasons"].to_string();
    assert!(!reasons.contains("own ceiling was not measured"), "{reasons}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!page.contains("on this host"), "the server is not");
}

#[test]
fn without_an_echo_over_there_the_run_says_what_is_missing() {
    let Some(far) = Far::new() else { return };
    let bench = Bench::new();
    let url = format!("udp://{}", far.at(5300));
    let output: Output =
        far.near(&["run", "--dry-run", "--target", &url, "-d", &bench.queries()]).output().unwrap();
    let words = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(words.contains("Left out: player ceiling: no echo runs beside the server"), "{words}");
    assert!(words.contains("running at 198.18.0.2:5300 on another host"), "{words}");
}
