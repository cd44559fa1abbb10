//! `kqps serve echo`, run as a user would: real sockets, real processes, exact counts. One test body runs
//! over every I/O model that this host offers. For other models it prints the reason.

mod connections;
mod early_data;
pub(crate) mod https;
mod quic;
mod refused;
pub(crate) mod running;
pub(crate) mod sent;
mod signals;
mod steered;
mod tls;
mod xdp;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal};
use kqps_kernel::{namespace, probe};
use kqps_server::{Model, Report};
use kqps_skips::{Capability, skip};

use running::{Running, serve, serve_as};
use sent::{Sent, flow, kernel_counts, query, reply, send_raw, wait_until_read};

/// The longest wait for something that should take no time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Moves this test into a network namespace of its own, where no other program changes the counters.
pub(crate) fn own_network() -> bool {
    match namespace::enter_new_network() {
        Ok(()) => true,
        Err(error) => {
            skip(Capability::Networks, format!("the kernel's counters, without a private network: {error}"));
            false
        }
    }
}

/// The models that this host supports over loopback. The others are reported as skipped, except the models that work
/// over loopback on no host.
pub(crate) fn available() -> impl Iterator<Item = Model> {
    let over_loopback = Model::ALL.iter().copied().filter(|model| !model.needs_device());
    over_loopback.filter(|model| match model.available() {
        Ok(()) => true,
        Err(reason) => {
            let is_uring = *model == Model::Uring;
            let capability = if is_uring { Capability::Uring } else { Capability::Segmentation };
            skip(capability, format!("{}: {reason}", model.name()));
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

/// Starts a server, sends known datagrams to all of its addresses, and compares all counts.
fn serves(arguments: &[&str], private: bool) {
    println!("{arguments:?}");
    let server = Running::start(arguments);
    let before = kernel_counts();
    let mut sent = Sent::default();
    for &address in &server.addresses {
        let asked = match address.ip() {
            // An address that the kernel would not choose as the source of replies by itself.
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
    let mut dropped = BTreeMap::new();
    for worker in &report.workers {
        assert_eq!(worker.received, worker.answered + worker.dropped.values().sum::<u64>());
        for (cause, count) in &worker.dropped {
            *dropped.entry(cause.clone()).or_default() += count;
        }
    }
    assert_eq!(dropped, sent.dropped);
    if private {
        let after = kernel_counts();
        // Queries that the server read, and replies that this test read.
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
        return skip(Capability::Segmentation, reason);
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
            // Every seventh datagram is a response. The last one is shorter, and is another query.
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
            ["--io", model.name(), "--listen", "127.0.0.1:0", "--buffer", "4KiB", "--work", "20us"];
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
            let counted = kernel_counts().1 - before.1;
            assert!(
                (report.socket_drops..=report.socket_drops + report.answered).contains(&counted),
                "{model:?}"
            );
        }
    }
}

/// Stops a server in a flood of queries, and compares what it received with the kernel's count of datagrams
/// that programs read. In the test's own network there are no other programs.
pub(crate) fn stopped_in_a_flood(server: Running, private: bool) -> Report {
    const SENT_FIRST: u64 = 20_000;
    let (before, flow, sent) = (kernel_counts(), flow(server.addresses[0]), AtomicU64::new(0));
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Sending fails once the server has ended, since nothing listens any more.
            while flow.send(&query(0)).is_ok() {
                sent.fetch_add(1, Relaxed);
            }
        });
        while sent.load(Relaxed) < SENT_FIRST {
            std::thread::yield_now();
        }
        server.stop(Signal::Terminate)
    });
    assert!(report.received > 0);
    if private {
        assert_eq!(report.received, kernel_counts().0 - before.0, "{report:?}");
    }
    report
}

#[test]
fn all_that_was_taken_before_the_end_is_counted() {
    let private = own_network();
    for model in available() {
        println!("{model:?}");
        let arguments = ["--io", model.name(), "--listen", "127.0.0.1:0", "--processes", "8"];
        let report = stopped_in_a_flood(Running::start(&arguments), private);
        assert_eq!(report.received, report.answered + report.dropped.values().sum::<u64>(), "{report:?}");
    }
}

#[test]
fn what_the_kernel_drops_need_not_be_for_want_of_room() {
    let mut child = serve(&["--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    let address = first.split(' ').nth(2).unwrap().parse().unwrap();
    // The kernel checks a shorter datagram before it looks up its socket (include/linux/skbuff.h,
    // `CHECKSUM_BREAK`).
    let is_sent = send_raw(address, 53, 1, &[query(1), vec![0; 100]].concat());
    let flow = flow(address);
    flow.send(&query(1)).unwrap();
    assert_eq!(flow.recv(&mut [0; 512]).unwrap(), query(1).len());
    signal(child.id(), Signal::Terminate).unwrap();
    assert!(child.wait().unwrap().success());
    let said: Vec<String> = lines.collect();
    let dropped = "  dropped by the kernel, socket buffer full or checksum wrong: 1";
    let expected = ["Received 1, answered 1", dropped];
    assert_eq!(said, expected[..if is_sent { 2 } else { 1 }]);
}

#[test]
fn buffers_that_the_system_caps_are_reported_once() {
    let run = |arguments: &[&str]| {
        // Without CAP_NET_ADMIN the kernel keeps buffers within its limit.
        let line = "test $(id -u) -ne 0 || exec setpriv --bounding-set=-net_admin \"$@\"; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh", env!("CARGO_BIN_EXE_kqps"), "serve"]).args(arguments);
        let output =
            command.args(["--listen", "127.0.0.1:0", "--for", "0s"]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let front =
        ["front", "--buffer", "4KiB", "--backend-buffer", "1GiB", "--backend", "udp://127.0.0.1:5301"];
    for (flag, arguments) in [
        ("--buffer", &["echo", "--buffer", "1GiB", "--threads", "2", "--sockets", "reuseport"][..]),
        ("--buffer", &["echo", "--buffer", "1GiB", "--processes", "2"]),
        ("--backend-buffer", &front),
    ] {
        let errors = run(arguments);
        let mut lines = errors.lines();
        for (which, sysctl) in [("receive", "net.core.rmem_max"), ("send", "net.core.wmem_max")] {
            let line = lines.next().unwrap();
            assert!(line.starts_with(&format!("kqps: warning: {flag}: {which} buffers have ")), "{errors}");
            let advice =
                format!("instead of 1073741824: raise the sysctl {sysctl}, or give kqps CAP_NET_ADMIN");
            assert!(line.ends_with(&advice), "{errors}");
        }
        assert_eq!(lines.next(), None, "{errors}");
    }
    assert_eq!(run(&["echo", "--buffer", "64KiB"]), "");
}

#[test]
fn worker_processes_die_with_their_parent() {
    let mut server = Running::start(&["--processes", "2", "--listen", "127.0.0.1:0"]);
    let address = server.addresses[0];
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    // No process has the socket any more.
    let begin = Instant::now();
    while let Err(error) = UdpSocket::bind(address) {
        assert!(begin.elapsed() < PATIENCE, "{error}");
        std::thread::yield_now();
    }
}

#[test]
fn it_stops_by_itself_and_says_what_it_did() {
    let output = serve(&["--listen", "127.0.0.1:0", "--for", "10ms", "--threads", "2"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Listening on 127.0.0.1:"), "{text}");
    assert!(text.contains("Received 0, answered 0\n  worker 0: received 0"), "{text}");
    assert!(output.status.success());
}

/// Runs a server that cannot start. Returns its status and the first line of stderr.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    refused_as("echo", arguments)
}

fn refused_as(kind: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = serve_as(kind, arguments).args(["--for", "0s"]).stderr(Stdio::piped()).output().unwrap();
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
    let (status, error) = refused(&two);
    assert_eq!(status, Some(2));
    assert!(error.contains("--io blocking waits on one socket"), "{error}");
    let (status, error) = refused(&["--listen", "127.0.0.1:5399", "--listen", "127.0.0.1:5399"]);
    assert_eq!((status, &*error), (Some(2), "kqps: --listen 127.0.0.1:5399 is given twice"));
    for (listen, why) in [
        (
            ["0.0.0.0:5399", "127.0.0.1:5399"],
            "--listen 0.0.0.0:5399 and --listen 127.0.0.1:5399 would both take port 5399",
        ),
        (["[::1]:5399", "[::]:5399"], "--listen [::1]:5399 and --listen [::]:5399 would both take port 5399"),
    ] {
        let (status, error) = refused(&["--listen", listen[0], "--listen", listen[1]]);
        assert_eq!((status, error), (Some(2), format!("kqps: {why}")));
    }
    let each = ["--sockets", "port-each", "--processes", "2", "--threads", "2"];
    let near = ["--listen", "127.0.0.1:5399", "--listen", "127.0.0.1:5396"];
    let (status, error) = refused(&[&each[..], &near].concat());
    let why = "kqps: --listen 127.0.0.1:5399 and --listen 127.0.0.1:5396 would both take port 5399";
    assert_eq!((status, &*error), (Some(2), why));
    let (status, error) = refused(&[&each[..], &["--listen", "127.0.0.1:65533"]].concat());
    let why = "kqps: --listen 127.0.0.1:65533: 4 workers with a port each would need ports up to 65536, and there are \
               none above 65535";
    assert_eq!((status, &*error), (Some(2), why));
    let (status, error) = refused(&["--listen", "127.0.0.1:0", "--cpus", "1000"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("--cpus: this process may not run on core 1000; it may run on "), "{error}");
    let (status, error) = refused(&["--listen", "127.0.0.1:0", "--sockets", "reuseport", "--steer", "cpu"]);
    assert_eq!(status, Some(2));
    assert!(error.ends_with("give the workers cores with --cpus"), "{error}");
    for wrong in
        [["--io", "carrier-pigeon"], ["--steer", "cpu"], ["--listen", "localhost"], ["--threads", "0"]]
    {
        assert_eq!(refused(&wrong).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn its_help_says_which_queries_get_no_reply() {
    let output = serve(&["--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for cause in ["4096 bytes", "query-too-long", "fragments", "send-failed-EMSGSIZE"] {
        assert!(help.contains(cause), "no {cause} in:\n{help}");
    }
}

#[test]
fn addresses_that_do_not_meet_stand_side_by_side() {
    let each = ["--sockets", "port-each", "--threads", "2", "--listen", "127.0.0.1:5385"];
    let others = ["--listen", "127.0.0.1:5387", "--listen", "127.0.0.2:5385", "--listen", "[::]:5385"];
    let server = Running::start(&[&each[..], &others].concat());
    assert_eq!(server.addresses.len(), 8);
    server.stop(Signal::Terminate);
}

#[test]
fn probe_gives_a_reason_for_whatever_does_not_work() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kqps")).arg("probe").args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let printed: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let table = run(&[]);
    for capability in printed["capabilities"].as_array().unwrap() {
        assert_eq!(capability["works"] == true, capability["reason"].is_null());
        assert!(table.contains(capability["name"].as_str().unwrap()));
    }
    let devices = printed["devices"].as_array().unwrap();
    assert!(devices.is_empty() || printed["devices_unknown"].is_null());
    for device in devices {
        assert_eq!(device["xdp_native"].is_null(), !device["reason"].is_null(), "{device}");
        assert_eq!(device["xdp_native"].is_null(), device["xdp_zero_copy"].is_null(), "{device}");
        assert!(table.contains(device["name"].as_str().unwrap()));
    }
}
