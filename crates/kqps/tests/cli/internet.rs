//! `kqps serve internet`, run as a user would: servers at addresses of their own, on loopback and in networks of their own,
//! and nothing that stays behind.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kqps_kernel::namespace::named;
use kqps_kernel::probe::probe_one;
use kqps_kernel::process::{Signal, signal};
use kqps_skips::{Capability, skip};
use kqps_testbed::subject::remains;
use tempfile::TempDir;

use crate::auth::dns::{A, Reply, ask, ask_by, connect, query};
use crate::auth::{NOERROR, REFUSED};
use crate::serve::PATIENCE;
use crate::serve::running::{Running, serve_as};

const HEAD: &str = "$TTL 60\n@ SOA ns.test. h.test. 1 2 3 4 5\n@ NS ns.test.\n";

/// A run that ends at once if it can serve, so that a test of refusals cannot hang.
const BRIEF: [&str; 2] = ["--for", "0s"];

/// A folder with a root zone and the zone `test`, in which the program also has its own folder, and a name for a network that no
/// other test has. Dropping it ends processes and removes the name, which a killed program leaves.
struct Rig {
    folder: TempDir,
    network: String,
}

impl Rig {
    fn new(what: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), format!("{HEAD}{text}")).unwrap();
        };
        write("root", "test. NS ns.test.\nns.test. A 127.77.0.2\n");
        write("test", "ns A 127.77.0.2\nwww A 192.0.2.80\n");
        fs::create_dir(folder.path().join("own")).unwrap();
        Self { folder, network: format!("kqps-{what}-{}", std::process::id()) }
    }

    /// The folder of the program for temporary files.
    fn own(&self) -> std::path::PathBuf {
        self.folder.path().join("own")
    }

    /// The number of files that the program has in its folder.
    fn left(&self) -> usize {
        fs::read_dir(self.own()).unwrap().count()
    }

    fn command(&self, flags: &[&str], root: &str, test: &str) -> Command {
        let zone = |server: &str, name: &str, file: &str| {
            format!("{server}={name}={}", self.folder.path().join(file).display())
        };
        let mut command = serve_as("internet", &["--server", &zone(root, ".", "root")]);
        command.args(["--server", &zone(test, "test", "test"), "--json"]).args(flags);
        command.env("TMPDIR", self.own()).stderr(Stdio::piped());
        command
    }

    fn on_loopback(&self, flags: &[&str]) -> Command {
        self.command(&[&["--loopback", "0"], flags].concat(), "127.77.0.1", "127.77.0.2")
    }

    fn in_networks(&self, flags: &[&str]) -> Command {
        self.command(flags, "192.0.2.1,2001:db8::1", "192.0.2.2,2001:db8::2")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        remains::end_all_under(&self.own());
        let _ = named::remove(&self.network);
    }
}

fn may_make_networks() -> bool {
    let outcome = probe_one("veth");
    outcome.inspect_err(|reason| skip(Capability::Networks, reason)).is_ok()
}

/// Waits until something holds.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn servers_of_loopback_answer_each_from_its_own_zones() {
    let rig = Rig::new("loopback");
    let status = rig.folder.path().join("status");
    let metrics = ["--metrics", "127.0.0.1:0", "--status", status.to_str().unwrap()];
    let flags = [&["--delay", "5ms", "--threads", "2"], &metrics[..]].concat();
    let server = Running::from_child(rig.on_loopback(&flags).spawn().unwrap());
    let at = |last: u8| SocketAddr::from(([127, 77, 0, last], server.addresses[0].port()));
    let asked = query(7, "www.test", A);
    let referral = ask(at(1), &asked);
    assert_eq!((referral.rcode(), referral.answers(), referral.is_authoritative()), (NOERROR, 0, false));
    let answer = ask(at(2), &asked);
    assert_eq!((answer.rcode(), answer.answers(), answer.is_authoritative()), (NOERROR, 1, true));
    assert_eq!(ask_by(&mut connect(at(2)), &asked), answer);
    assert_eq!(ask(at(2), &query(8, "other", A)).rcode(), REFUSED);
    // The counts while it runs.
    let printed = Command::new(env!("CARGO_BIN_EXE_kqps"))
        .args(["serve", "status", status.to_str().unwrap()])
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("By UDP, top-level domains: 1 (answer 1)"), "{printed}");
    let metrics: SocketAddr = serde_json::from_value(server.ready["metrics"].clone()).unwrap();
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let sample = "kqps_internet_outcomes_total{transport=\"tcp\",level=\"tld\",kind=\"answer\"} 1";
    assert!(text.contains(sample), "{text}");
    let report = server.stop(Signal::Terminate);
    assert_eq!((report.received, report.answered), (3, 3));
    let internet = report.internet.unwrap();
    let count = |level: &str, kind: &str| internet.udp[level][kind];
    assert_eq!((count("root", "referral"), count("tld", "answer"), count("nothing", "refused")), (1, 1, 1));
    assert_eq!((internet.tcp["tld"]["answer"], internet.delayed), (1, 4));
    let servers = internet.servers.unwrap();
    assert_eq!((&*servers.top[0].name, servers.top[0].queries), ("127.77.0.2", 3));
    assert_eq!(rig.left(), 0);
}

#[test]
fn a_resolver_is_given_its_files_and_ends_with_the_server() {
    let rig = Rig::new("command");
    let out = rig.folder.path().join("out");
    let script = "cat {root_hints} >\"$0.part\" && mv \"$0.part\" \"$0\"; exec sleep 600";
    let flags = ["--", "sh", "-c", script, out.to_str().unwrap()];
    let server = Running::from_child(rig.on_loopback(&flags).spawn().unwrap());
    wait_until("the command runs", || out.exists());
    let hints = fs::read_to_string(&out).unwrap();
    assert!(hints.contains("root-0.kqps.invalid. 3600000 IN A 127.77.0.1\n"), "{hints}");
    // While a process replaces itself by another program, it shows no environment.
    wait_until("the command is marked", || marked_by(&rig.own()) == 1);
    server.stop(Signal::Interrupt);
    assert_eq!((marked_by(&rig.own()), rig.left()), (0, 0));
    for (command, code) in [("true", 0), ("false", 1)] {
        let output = rig.on_loopback(&["--", command]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert_eq!(error.contains("the command after -- ended by itself"), code == 1, "{error}");
    }
    let anchor = [&BRIEF[..], &["--", "cat", "{trust_anchor}"]].concat();
    let anchor = rig.on_loopback(&anchor).output().unwrap();
    let error = String::from_utf8(anchor.stderr).unwrap();
    assert!(anchor.status.code() == Some(2) && error.contains("the root is not signed"), "{error}");
}

/// The number of processes that a program with this folder for temporary files has started as its companions.
fn marked_by(folder: &Path) -> usize {
    let mark = format!("KQPS_SUBJECT={}", folder.display());
    let is_marked =
        |environment: Vec<u8>| environment.windows(mark.len()).any(|part| part == mark.as_bytes());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| fs::read(entry.path().join("environ")).is_ok_and(is_marked)).count()
}

/// Asks a server by UDP from whatever address the route has. The reply must come from the server.
fn ask_from_anywhere(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send_to(query, server)?;
    let mut reply = vec![0; 4096];
    let (bytes, from) = socket.recv_from(&mut reply)?;
    assert_eq!(from, server);
    reply.truncate(bytes);
    Ok(reply)
}

#[test]
fn a_resolver_reaches_all_servers_and_nothing_else() {
    if !may_make_networks() {
        return;
    }
    let rig = Rig::new("reach");
    let name = &rig.network;
    let server = Running::from_child(rig.in_networks(&["--namespace", name]).spawn().unwrap());
    assert_eq!(server.ready["port"], 53);
    let asked = query(7, "www.test", A);
    let home = named::open(name).unwrap();
    let devices = home.within(|| {
        for address in ["192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2"] {
            let server = SocketAddr::new(address.parse::<IpAddr>().unwrap(), 53);
            let reply = ask_from_anywhere(server, &asked)?;
            assert_eq!(ask_by(&mut connect(server), &asked).0, reply, "{address}");
            assert_eq!(Reply(reply).answers(), u16::from(address.ends_with('2')), "{address}");
        }
        fs::read_to_string("/proc/thread-self/net/dev")
    });
    // Two lines of titles come first.
    let devices: Vec<String> = devices
        .unwrap()
        .lines()
        .skip(2)
        .map(|line| line.split(':').next().unwrap().trim().to_owned())
        .collect();
    assert!(devices.iter().all(|device| ["lo", "kqps0"].contains(&device.as_str())), "{devices:?}");
    let report = server.stop(Signal::Terminate);
    assert_eq!((report.answered, report.tcp.unwrap().answered), (4, 4));
    assert!(named::open(name).is_err() && rig.left() == 0);
}

#[test]
fn nothing_stays_behind_a_killed_server_after_the_next_start() {
    if !may_make_networks() {
        return;
    }
    let rig = Rig::new("killed");
    let name = &rig.network;
    let script = "setsid sleep 600 & exec sleep 600";
    let flags = ["--namespace", name, "--", "sh", "-c", script];
    let mut server = Running::from_child(rig.in_networks(&flags).spawn().unwrap());
    wait_until("both run", || marked_by(&rig.own()) == 2);
    signal(server.child.id(), Signal::Kill).unwrap();
    server.child.wait().unwrap();
    // The command is killed with it. A name and files are left, and perhaps a process that left the group.
    // Any other start removes the name, so it may be gone already.
    assert_eq!(rig.left(), 1);
    // The name is removed whatever the folder for temporary files is.
    let other = rig.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let mut elsewhere = rig.in_networks(&[]);
    Running::from_child(elsewhere.env("TMPDIR", &other).spawn().unwrap()).stop(Signal::Terminate);
    assert!(named::open(name).is_err() && rig.left() == 1);
    let next = Running::from_child(rig.in_networks(&["--namespace", name]).spawn().unwrap());
    assert_eq!((marked_by(&rig.own()), rig.left()), (0, 1));
    next.stop(Signal::Terminate);
    assert!(named::open(name).is_err() && rig.left() == 0);
}

#[test]
fn a_taken_name_of_a_network_is_left_alone() {
    if !may_make_networks() {
        return;
    }
    let rig = Rig::new("taken");
    let name = &rig.network;
    let first = Running::from_child(rig.in_networks(&["--namespace", name]).spawn().unwrap());
    let second = rig.in_networks(&[&BRIEF[..], &["--namespace", name]].concat()).output().unwrap();
    let error = String::from_utf8(second.stderr).unwrap();
    assert!(second.status.code() == Some(2) && error.contains("there is a network of this name"), "{error}");
    assert!(named::open(name).is_ok());
    first.stop(Signal::Terminate);
}

#[test]
fn a_folder_of_a_tree_is_served_without_servers_that_loopback_cannot_have() {
    let rig = Rig::new("folder");
    let folder = rig.folder.path();
    let zone = "test. 60 IN SOA ns.test. h.test. 1 2 3 4 5\ntest. 60 IN NS ns.test.\n";
    fs::write(folder.join("absolute"), zone).unwrap();
    let serve = |servers: &str| {
        fs::write(folder.join("servers"), servers).unwrap();
        let mut command = serve_as("internet", &["--loopback", "0", "--json", "--tree"]);
        let output = command.arg(folder).args(BRIEF).env("TMPDIR", rig.own()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = serve("127.77.1.1 0us absolute\n192.0.2.1 1ms absolute\n");
    assert!(code == Some(0) && said.contains("1 of its servers are left out, such as 192.0.2.1"), "{said}");
    let (code, said) = serve("192.0.2.1 1ms absolute\n");
    assert!(code == Some(2) && said.contains("a box can have none of its servers' addresses"), "{said}");
}

#[test]
fn what_cannot_be_served_is_said() {
    let rig = Rig::new("refused");
    let with = |flags: &[&'static str]| [&BRIEF[..], flags].concat();
    let fails = |command: &mut Command, code: i32, why: &str| {
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(why) && error.lines().count() == 1, "{error}");
    };
    let outside = with(&["--loopback", "0"]);
    fails(&mut rig.command(&outside, "192.0.2.1", "127.77.0.2"), 2, "only addresses of 127.0.0.0/8");
    fails(
        &mut rig.command(&BRIEF, "192.0.2.1", "127.77.0.2"),
        2,
        "the address 127.77.0.2, which is loopback",
    );
    fails(&mut rig.command(&BRIEF, "fe80::1", "192.0.2.2"), 2, "the address fe80::1, which is a link's own");
    fails(&mut rig.on_loopback(&with(&["--server", "127.0.0.1=nothing"])), 2, "nothing");
    let missing = with(&["--", "/nonexistent/resolver"]);
    fails(&mut rig.on_loopback(&missing), 1, "cannot start /nonexistent/resolver");
    let other = UdpSocket::bind("0.0.0.0:0").unwrap();
    let taken = other.local_addr().unwrap().port().to_string();
    let taken = [&BRIEF[..], &["--loopback", &taken]].concat();
    fails(&mut rig.command(&taken, "127.77.0.1", "127.77.0.2"), 1, "choose another --loopback");
    if may_make_networks() {
        let odd = with(&["--namespace", "a/b"]);
        fails(&mut rig.in_networks(&odd), 2, "is no name for a network namespace");
        let plain = rig.in_networks(&BRIEF);
        let mut weak = Command::new("setpriv");
        weak.args(["--bounding-set", "-all", "--inh-caps", "-all"]).arg(plain.get_program());
        weak.args(plain.get_args()).env("TMPDIR", rig.own());
        fails(&mut weak, 1, "this process may not make them");
    }
    assert_eq!(rig.left(), 0);
}
