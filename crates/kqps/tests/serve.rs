//! `kqps serve echo`, run as a user would: real sockets, real processes, exact counts. One test body runs over
//! every I/O model that this host offers; what it does not offer is printed with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal};
use kqps_kernel::{affinity, namespace, probe};
use kqps_server::{Model, Report};

/// How long anything may take that takes no time.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that is running; killed when the test forgets it.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    addresses: Vec<SocketAddr>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = serve(arguments).arg("--json").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let Ok(ready) = serde_json::from_str::<serde_json::Value>(&line) else {
            panic!("no ready line from {arguments:?}: {}", Self { child, lines, addresses: vec![] }.end().1);
        };
        assert_eq!(ready["kind"], "ready");
        let addresses = serde_json::from_value(ready["addresses"].clone()).unwrap();
        Self { child, lines, addresses }
    }

    /// Stops it by a signal, and returns what it counted.
    fn stop(mut self, how: Signal) -> Report {
        signal(self.child.id(), how).unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let (status, errors) = self.end();
        assert!(status.success(), "{status}: {errors}");
        assert_eq!(errors, "");
        serde_json::from_str(&line).unwrap()
    }

    /// Waits for its end; its status and what it said on stderr.
    fn end(mut self) -> (ExitStatus, String) {
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap(), errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.args(["serve", "echo"]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// A query for `a.test A` with an ID of its own, in mixed case.
fn query(id: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(b"\x01a\x04TeSt\x00\x00\x01\x00\x01");
    bytes
}

/// The same with QR set, and AD cleared.
fn reply(id: u16) -> Vec<u8> {
    let mut bytes = query(id);
    bytes[2] |= 0x80;
    bytes[3] &= !0x20;
    bytes
}

/// A socket that takes replies only from the address that it asks.
fn flow(to: SocketAddr) -> UdpSocket {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// What is sent to a server in all, and what must come of it.
#[derive(Default)]
struct Sent {
    answered: u64,
    dropped: BTreeMap<String, u64>,
}

const ROUNDS: u16 = 6;

impl Sent {
    /// Sends good and bad datagrams over several flows, and awaits a reply to every good one.
    fn play(&mut self, to: SocketAddr, flows: usize) {
        let flows: Vec<UdpSocket> = (0..flows).map(|_| flow(to)).collect();
        for id in 0..ROUNDS {
            for flow in &flows {
                for (cause, bytes) in [
                    ("query-too-short", &[] as &[u8]),
                    ("query-too-short", &query(id)[..11]),
                    ("is-response", &reply(id)),
                    ("query-too-long", &[0; 4097]),
                ] {
                    flow.send(bytes).unwrap();
                    *self.dropped.entry(cause.to_owned()).or_default() += 1;
                }
                flow.send(&query(id)).unwrap();
                self.answered += 1;
            }
        }
        for flow in &flows {
            let mut expected: BTreeSet<Vec<u8>> = (0..ROUNDS).map(reply).collect();
            while !expected.is_empty() {
                let mut buffer = [0; 512];
                let length =
                    flow.recv(&mut buffer).unwrap_or_else(|error| panic!("no reply from {to}: {error}"));
                assert!(expected.remove(&buffer[..length]), "{:x?} from {to}", &buffer[..length]);
            }
        }
    }

    /// Sends queries that seem to come from port 0, which takes a raw socket and the right to have one.
    fn play_port_zero(&mut self, to: SocketAddr) {
        let Ok(raw) = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(17.into())) else {
            println!("skipped: no raw sockets, so no queries from port 0");
            return;
        };
        let mut datagram = vec![0, 0];
        datagram.extend(to.port().to_be_bytes());
        datagram.extend((8 + query(0).len() as u16).to_be_bytes());
        datagram.extend([0, 0]); // no checksum (RFC 768)
        datagram.extend(query(0));
        for _ in 0..3 {
            raw.send_to(&datagram, &to.into()).unwrap();
            *self.dropped.entry("port-zero".to_owned()).or_default() += 1;
        }
    }

    fn total(&self) -> u64 {
        self.answered + self.dropped.values().sum::<u64>()
    }
}

/// Waits until nothing is left in the queues of the sockets on this port.
fn wait_until_read(port: u16) {
    let begin = Instant::now();
    let waiting = || {
        ["udp", "udp6"].iter().any(|table| {
            let table = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
            table.lines().skip(1).any(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields[1].ends_with(&format!(":{port:04X}")) && !fields[4].ends_with(":00000000")
            })
        })
    };
    while waiting() {
        assert!(begin.elapsed() < PATIENCE, "the queue on port {port} is not read");
        std::thread::yield_now();
    }
}

/// The kernel's counts of this thread's network: datagrams taken by programs, and refused for full buffers.
fn kernel_counts() -> (u64, u64) {
    let old = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut udp = old.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (udp.next().unwrap(), udp.next().unwrap());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, value) in names.split(' ').zip(values.split(' ')) {
        counts.insert(format!("Udp{name}"), value.parse().unwrap());
    }
    for line in std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap().lines() {
        let mut fields = line.split_whitespace();
        counts.insert(fields.next().unwrap().to_owned(), fields.next().unwrap().parse().unwrap());
    }
    let both = |name: &str| counts[&format!("Udp{name}")] + counts[&format!("Udp6{name}")];
    (both("InDatagrams"), both("RcvbufErrors"))
}

/// Moves this test into a network of its own, where nobody else moves the counters.
fn own_network() -> bool {
    match namespace::enter_new_network() {
        Ok(()) => true,
        Err(error) => {
            println!("skipped: no private network ({error}), so the kernel's counters are not compared");
            false
        }
    }
}

fn available() -> impl Iterator<Item = Model> {
    Model::ALL.into_iter().filter(|model| match model.available() {
        Ok(()) => true,
        Err(reason) => {
            println!("skipped: {}: {reason}", model.name());
            false
        }
    })
}

const WORKERS: [&[&str]; 7] = [
    &[],
    &["--reply", "own"],
    &["--threads", "2", "--reply", "own"],
    &["--processes", "2"],
    &["--threads", "2", "--sockets", "reuseport", "--reply", "own"],
    &["--processes", "2", "--threads", "2", "--sockets", "reuseport"],
    &["--processes", "2", "--sockets", "port-each", "--reply", "own"],
];

/// Starts a server, sends known datagrams to every address of it, and compares all counts.
fn serves(arguments: &[&str], private: bool) {
    println!("{arguments:?}");
    let server = Running::start(arguments);
    let before = kernel_counts();
    let mut sent = Sent::default();
    for &address in &server.addresses {
        let asked = match address.ip() {
            // Not the address that the kernel would answer from by itself.
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 2]),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let asked = SocketAddr::new(asked, address.port());
        if asked.is_ipv4() {
            sent.play_port_zero(asked);
        }
        sent.play(asked, 8);
        wait_until_read(address.port());
    }
    let report = server.stop(Signal::Terminate);
    assert_eq!(report.answered, sent.answered);
    assert_eq!(report.dropped, sent.dropped);
    assert_eq!(report.received, sent.total());
    assert_eq!(report.socket_drops, 0);
    assert_eq!(report.workers.iter().map(|worker| worker.received).sum::<u64>(), report.received);
    assert_eq!(report.workers.iter().map(|worker| worker.answered).sum::<u64>(), report.answered);
    if private {
        let after = kernel_counts();
        // Queries taken by the server, replies taken by this test.
        assert_eq!(after.0 - before.0, report.received + report.answered);
        assert_eq!(after.1, before.1);
    }
}

#[test]
fn every_model_counts_every_datagram_whatever_its_workers() {
    let private = own_network();
    for model in available() {
        for workers in WORKERS {
            for listen in [["127.0.0.1:0", "[::1]:0"], ["0.0.0.0:0", "[::]:0"]] {
                if model.serves_many() {
                    let both = ["--io", model.name(), "--listen", listen[0], "--listen", listen[1]];
                    serves(&[&both, workers].concat(), private);
                } else {
                    for listen in listen {
                        serves(&[&["--io", model.name(), "--listen", listen], workers].concat(), private);
                    }
                }
            }
        }
    }
}

#[test]
fn a_segmented_query_is_answered_datagram_by_datagram() {
    use kqps_kernel::{Address, SendBatch, UdpOptions};
    if let Err(reason) = probe::probe_one("gso") {
        println!("skipped: {reason}");
        return;
    }
    for model in available() {
        let server = Running::start(&["--io", model.name(), "--listen", "127.0.0.1:0"]);
        let to = Address::from(server.addresses[0]);
        let socket =
            kqps_kernel::UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let length = query(0).len();
        let mut batch = SendBatch::new(1, 64 * length);
        let place = batch.add(&to, 64 * length - 1, Some(length as u16));
        for (id, datagram) in (0..).zip(place.chunks_mut(length)) {
            // Every seventh is a response; the last is shorter, and so another query.
            let bytes = if id % 7 == 6 { reply(id) } else { query(id) };
            datagram.copy_from_slice(&bytes[..datagram.len()]);
        }
        assert_eq!(batch.send(&socket, 0).unwrap(), 1);
        let mut expected: BTreeSet<u16> = (0..64).filter(|id| id % 7 != 6).collect();
        while !expected.is_empty() {
            let (mut buffer, mut from) = ([0; 64], kqps_kernel::udp::Peer::default());
            assert!(socket.wait_readable(PATIENCE.as_nanos() as u64).unwrap(), "{model:?}: no reply");
            let bytes = socket.recv(&mut buffer, &mut from, kqps_kernel::Wait::No).unwrap().unwrap();
            let id = u16::from_be_bytes([buffer[0], buffer[1]]);
            assert!(expected.remove(&id), "{model:?}: {id} again");
            assert_eq!(&buffer[..bytes], &reply(id)[..if id == 63 { length - 1 } else { length }]);
        }
        let report = server.stop(Signal::Interrupt);
        assert_eq!((report.received, report.answered), (64, 55), "{model:?}");
    }
}

#[test]
fn what_a_slow_server_leaves_is_counted_by_the_kernel() {
    const SENT: u64 = 3000;
    let private = own_network();
    for model in available() {
        let before = kernel_counts();
        let arguments =
            ["--io", model.name(), "--listen", "127.0.0.1:0", "--buffer", "4KiB", "--work-ns", "20000"];
        let server = Running::start(&arguments);
        let flow = flow(server.addresses[0]);
        for id in 0..SENT {
            flow.send(&query(id as u16)).unwrap();
        }
        wait_until_read(server.addresses[0].port());
        let report = server.stop(Signal::Terminate);
        assert_eq!(report.received + report.socket_drops, SENT, "{model:?}");
        assert!(report.socket_drops > 0, "{model:?}");
        if private {
            // Replies may find this test's own buffer full as well.
            let told = kernel_counts().1 - before.1;
            assert!(
                (report.socket_drops..=report.socket_drops + report.answered).contains(&told),
                "{model:?}"
            );
        }
    }
}

#[test]
fn a_flow_stays_on_its_core() {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        println!("skipped: one core only");
        return;
    }
    // The second core first: the order of the list counts, not the cores' numbers.
    let list = format!("{},{}", cpus[1], cpus[0]);
    for (listen, asked) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.2")] {
        for reply in ["same", "own"] {
            let server = Running::start(&[
                "--threads",
                "2",
                "--sockets",
                "reuseport",
                "--steer",
                "cpu",
                "--cpus",
                &list,
                "--listen",
                listen,
                "--reply",
                reply,
            ]);
            let to = SocketAddr::new(asked.parse().unwrap(), server.addresses[0].port());
            for (cpu, flows) in [(cpus[0], 20), (cpus[1], 10)] {
                let play = move || {
                    affinity::pin_thread(cpu).unwrap();
                    Sent::default().play(to, flows);
                };
                std::thread::spawn(play).join().unwrap();
            }
            wait_until_read(to.port());
            let report = server.stop(Signal::Terminate);
            let told: Vec<_> = report.workers.iter().map(|worker| (worker.cpu, worker.answered)).collect();
            let each = u64::from(ROUNDS);
            assert_eq!(told, [(Some(cpus[1]), 10 * each), (Some(cpus[0]), 20 * each)]);
        }
    }
}

#[test]
fn worker_processes_die_with_their_parent() {
    let mut server = Running::start(&["--processes", "2", "--listen", "127.0.0.1:0"]);
    let address = server.addresses[0];
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    // Nobody holds the socket any more.
    let begin = Instant::now();
    while let Err(error) = UdpSocket::bind(address) {
        assert!(begin.elapsed() < PATIENCE, "{error}");
        std::thread::yield_now();
    }
}

#[test]
fn a_worker_process_that_dies_ends_the_server_with_an_error() {
    let server = Running::start(&["--processes", "2", "--listen", "127.0.0.1:0"]);
    let parent = server.child.id();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let second = children.split_whitespace().nth(1).unwrap().parse().unwrap();
    signal(second, Signal::Kill).unwrap();
    let (status, errors) = server.end();
    assert_eq!(status.code(), Some(1));
    assert_eq!(errors, "kqps: worker process 1 ended: signal: 9 (SIGKILL)\n");
}

#[test]
fn it_stops_by_itself_and_says_what_it_did() {
    let output = serve(&["--listen", "127.0.0.1:0", "--for", "10ms", "--threads", "2"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Listening on 127.0.0.1:"), "{text}");
    assert!(text.contains("Received 0, answered 0\n  worker 0: received 0"), "{text}");
    assert!(output.status.success());
}

/// Runs a server that cannot run; its status and the first line of what it says.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = serve(arguments).args(["--for", "0s"]).stderr(Stdio::piped()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), errors.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for sockets in ["shared", "reuseport"] {
        let (status, error) = refused(&["--listen", &address, "--sockets", sockets, "--reply", "own"]);
        assert_eq!(status, Some(1));
        assert_eq!(
            error,
            format!(
                "kqps: cannot listen on {address}: another program listens there; choose another --listen"
            )
        );
    }
    let (status, error) = refused(&["--listen", "192.0.2.1:0"]);
    assert_eq!(
        (status, &*error),
        (Some(1), "kqps: cannot listen on 192.0.2.1:0: this host has no such address")
    );
    let two = ["--io", "blocking", "--listen", "127.0.0.1:0", "--listen", "[::1]:0"];
    assert_eq!(refused(&two).0, Some(1));
    for processes in ["1", "2"] {
        let (status, error) =
            refused(&["--listen", "127.0.0.1:0", "--cpus", "1000", "--processes", processes]);
        assert_eq!(status, Some(1));
        assert!(error.contains("worker 0 (mmsg): core 1000: "), "{error}");
    }
    for wrong in
        [["--io", "carrier-pigeon"], ["--steer", "cpu"], ["--listen", "localhost"], ["--threads", "0"]]
    {
        assert_eq!(refused(&wrong).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn probe_gives_a_reason_for_whatever_does_not_work() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kqps")).arg("probe").args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let told: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let table = run(&[]);
    for capability in told["capabilities"].as_array().unwrap() {
        assert_eq!(capability["works"] == true, capability["reason"].is_null());
        assert!(table.contains(capability["name"].as_str().unwrap()));
    }
}
