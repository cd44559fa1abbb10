//! `kqps serve --io xdp` at one end of a veth pair, asked by ordinary sockets at the other end.

mod trouble;
mod ways;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Instant;

use kqps_kernel::namespace::veth::{DEVICE, VethSettings};
use kqps_kernel::probe::probe_one;
use kqps_kernel::process::Signal;
use kqps_kernel::xdp::{Attached, Filter, Prefix, Protocols, XdpMode, place};
use kqps_skips::{Capability, skip};
use kqps_testbed::path::{LaidPath, VethPath};

use super::running::{Running, serve_as};
use super::sent::{kernel_counts, query, reply};
use super::{PATIENCE, refused};
use crate::auth::dns::{A, Reply, SOA, TXT, ask_by, connect, query as question, query_edns};

const PORT: u16 = 5300;

/// Another port at the same address, whose frames stay with the kernel.
const OTHER_PORT: u16 = 5301;

/// Both ends of a veth pair.
struct Pair {
    path: LaidPath,
}

impl Pair {
    /// A pair whose devices have this many queues. `None` if frames cannot pass the kernel here, which is reported as a
    /// skip.
    fn new(queues: u32) -> Option<Self> {
        if let Err(reason) = probe_one("af-xdp") {
            skip(Capability::Networks, format!("frames past the kernel: {reason}"));
            return None;
        }
        let settings = VethSettings { queues: Some(queues), ..VethSettings::default() };
        Some(Self { path: LaidPath::Veth(VethPath::lay(&settings).unwrap()) })
    }

    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.path.subject_address(), port)
    }

    /// A server at the far end, on a port.
    fn serve(&self, kind: &str, port: u16, arguments: &[&str]) -> Running {
        self.serve_at(kind, self.at(port), arguments)
    }

    /// A server at another address of the far end.
    fn serve_at(&self, kind: &str, listen: SocketAddr, arguments: &[&str]) -> Running {
        let listen = listen.to_string();
        let mut command = serve_as(kind, &[&["--json", "--listen", &listen], arguments].concat());
        self.path.place_subject(command.stderr(Stdio::piped())).unwrap();
        Running::from_child(command.spawn().unwrap())
    }

    /// Runs a server at the far end that cannot start. Returns its status and stderr.
    fn refused(&self, port: u16) -> (Option<i32>, String) {
        let listen = self.at(port).to_string();
        let mut command = serve_as("echo", &["--io", "xdp", "--listen", &listen, "--for", "0s"]);
        self.path.place_subject(command.stderr(Stdio::piped())).unwrap();
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// Runs lines of shell at the far end, or at the near one. Returns what went wrong.
    fn shell(&self, is_far: bool, lines: &str) -> Result<(), String> {
        let mut command = Command::new("sh");
        command.args(["-ec", lines]);
        let placed =
            if is_far { self.path.place_subject(&mut command) } else { self.path.place_player(&mut command) };
        placed.unwrap();
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    }

    /// An ordinary socket at the near end that receives only from this port.
    fn flow(&self, port: u16) -> UdpSocket {
        self.flow_between(self.path.player_address(), self.at(port))
    }

    /// An ordinary socket at this address of the near end that receives only from this one of the far end.
    fn flow_between(&self, near: IpAddr, far: SocketAddr) -> UdpSocket {
        let bound = self.path.at_player(|| {
            let socket = UdpSocket::bind((near, 0))?;
            socket.connect(far)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        });
        bound.unwrap()
    }

    /// The number of datagrams that programs at the far end read from sockets so far.
    fn read_by_kernel(&self) -> u64 {
        self.path.at_subject(|| Ok(kernel_counts().0)).unwrap()
    }

    /// Whether another program can be put on the far device.
    fn is_free(&self) -> bool {
        let own = self.path.subject_address();
        let attached = self.path.at_subject(|| {
            let device = place::named(DEVICE)?.device;
            let filter = Filter {
                device,
                own: vec![Prefix::of_one(own)],
                ports: PORT..=PORT,
                peers: Vec::new(),
                protocols: Protocols::Udp,
                vlan: None,
                untagged: false,
            };
            Attached::attach(&filter, XdpMode::Auto).map(drop)
        });
        attached.is_ok()
    }
}

/// Asks through a socket and awaits the reply.
fn ask(flow: &UdpSocket, query: &[u8]) -> Vec<u8> {
    flow.send(query).unwrap();
    let mut buffer = vec![0; 65_535];
    let bytes = flow.recv(&mut buffer).unwrap_or_else(|error| panic!("no reply: {error}"));
    buffer.truncate(bytes);
    buffer
}

#[test]
fn every_datagram_is_counted_whichever_way_it_came() {
    const FLOWS: usize = 8;
    const IDS: u16 = 20;
    for (queues, threads) in [(1, 1), (2, 2), (2, 1)] {
        let Some(pair) = Pair::new(queues) else { return };
        let server = pair.serve("echo", PORT, &["--io", "xdp", "--threads", &threads.to_string()]);
        let xdp = &server.ready["xdp"];
        assert_eq!((xdp["device"].as_str(), xdp["native"].as_bool()), (Some(DEVICE), Some(true)), "{xdp}");
        let flows: Vec<UdpSocket> = (0..FLOWS).map(|_| pair.flow(PORT)).collect();
        for id in 0..IDS {
            for flow in &flows {
                flow.send(&query(id)[..11]).unwrap();
                flow.send(&reply(id)).unwrap();
                assert_eq!(ask(flow, &query(id)), reply(id), "queues {queues}, threads {threads}");
            }
        }
        // It leaves in fragments, which stay with the kernel. Its reply fits into no packet.
        let before = pair.read_by_kernel();
        flows[0].send(&[0; 2000]).unwrap();
        let begin = Instant::now();
        while pair.read_by_kernel() == before {
            assert!(begin.elapsed() < PATIENCE, "the server does not read its socket");
            std::thread::yield_now();
        }
        let report = server.stop(Signal::Terminate);
        let good = FLOWS as u64 * u64::from(IDS);
        let dropped = [("is-response", good), ("query-too-short", good), ("send-failed-EMSGSIZE", 1)];
        assert_eq!(report.dropped, dropped.map(|(cause, count)| (cause.to_owned(), count)).into());
        assert_eq!((report.received, report.answered), (3 * good + 1, good));
        assert_eq!(report.workers.len(), threads);
        let xdp = report.xdp.unwrap();
        assert_eq!((xdp.matched, xdp.dropped.len()), (xdp.read, 0), "{xdp:?}");
        assert_eq!(xdp.read + xdp.by_kernel, report.received, "{xdp:?}");
        assert_eq!(xdp.by_kernel, xdp.unclaimed + 1, "{xdp:?}");
        if threads == queues as usize {
            assert_eq!(xdp.unclaimed, 0);
        }
    }
}

#[test]
fn frames_that_a_slow_server_leaves_are_counted() {
    const SENT: u64 = 3000;
    let Some(pair) = Pair::new(1) else { return };
    let server = pair.serve("echo", PORT, &["--io", "xdp", "--buffer", "4KiB", "--work", "50us"]);
    let flow = pair.flow(PORT);
    (0..SENT).for_each(|id| assert_eq!(flow.send(&query(id as u16)).unwrap(), query(0).len()));
    let report = server.stop(Signal::Terminate);
    let xdp = report.xdp.unwrap();
    let dropped: u64 = xdp.dropped.values().sum();
    assert_eq!((xdp.unsettled(), xdp.matched), (0, xdp.read + dropped), "{xdp:?}");
    assert!(dropped > 0 && (1..=SENT).contains(&xdp.matched), "{xdp:?}");
    // Frames that the server did not come to before its end are counted as well.
    assert_eq!(report.received, report.answered + report.dropped.values().sum::<u64>());
    assert_eq!(report.received, xdp.read + xdp.by_kernel);
}

/// A zone with answers that fit into a packet, and with one that does not.
fn zone() -> (tempfile::TempDir, String) {
    let texts = |name: &str, count: u32| {
        let text = |number| format!("{name} TXT \"text number {number:08}\"");
        (0..count).map(text).collect::<Vec<_>>().join("\n")
    };
    let text = format!(
        "$ORIGIN auth.test.\n$TTL 300\n@ SOA ns1 host 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n\
         www A 192.0.2.80\nwww AAAA 2001:db8::80\nalias CNAME www\n*.wild TXT \"wild\"\n\
         sub NS ns.sub\nns.sub A 192.0.2.53\n{}\n{}\n",
        texts("big", 40),
        texts("huge", 80)
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.test.zone");
    std::fs::write(&file, text).unwrap();
    let argument = format!("auth.test={}", file.display());
    (folder, argument)
}

#[test]
fn answers_are_those_of_other_models() {
    let Some(pair) = Pair::new(1) else { return };
    let (_folder, zone) = zone();
    let server = pair.serve("auth", PORT, &["--zone", &zone, "--io", "xdp"]);
    // Frames for another port pass to the kernel, and so to this one.
    let other = pair.serve("auth", OTHER_PORT, &["--zone", &zone, "--io", "mmsg"]);
    let (flow, ordinary) = (pair.flow(PORT), pair.flow(OTHER_PORT));
    let names = [
        "auth.test",
        "www.auth.test",
        "WWW.auth.TEST",
        "alias.auth.test",
        "a.b.wild.auth.test",
        "nothing.auth.test",
        "x.sub.auth.test",
        "big.auth.test",
        "huge.auth.test",
        "other.test",
        "",
    ];
    let mut asked = 0;
    for name in names {
        for rtype in [A, SOA, TXT, 2, 15, 28, 255] {
            for payload in [None, Some(512), Some(1232), Some(4096)] {
                asked += 1;
                let query = payload.map_or_else(
                    || question(asked, name, rtype),
                    |payload| query_edns(asked, name, rtype, payload),
                );
                let replies = (ask(&flow, &query), ask(&ordinary, &query));
                assert_eq!(replies.0, replies.1, "{name} {rtype} {payload:?}");
            }
        }
    }
    let (ours, theirs) = (server.stop(Signal::Terminate), other.stop(Signal::Terminate));
    assert_eq!((ours.received, ours.answered), (u64::from(asked), u64::from(asked)));
    assert_eq!((theirs.received, &theirs.response_rcodes), (ours.received, &ours.response_rcodes));
    let xdp = ours.xdp.unwrap();
    assert_eq!((xdp.matched, xdp.read, xdp.by_kernel), (u64::from(asked), u64::from(asked), 0));
    assert_eq!(theirs.xdp, None);
}

#[test]
fn a_reply_that_fits_into_no_packet_is_truncated_and_connections_go_on_by_the_kernel() {
    let Some(pair) = Pair::new(1) else { return };
    let (_folder, zone) = zone();
    let server = pair.serve("auth", PORT, &["--zone", &zone, "--io", "xdp", "--payload", "4096"]);
    let huge = query_edns(7, "huge.auth.test", TXT, 4096);
    let short = Reply(ask(&pair.flow(PORT), &huge));
    assert!(short.is_truncated() && short.0.len() <= 1472, "{short:?}");
    let mut stream = pair.path.at_player(|| Ok(connect(pair.at(PORT)))).unwrap();
    let whole = ask_by(&mut stream, &huge);
    assert_eq!((whole.is_truncated(), whole.answers()), (false, 80));
    drop(stream);
    let report = server.stop(Signal::Terminate);
    assert_eq!((report.received, report.answered), (1, 1));
    assert_eq!(report.tcp.unwrap().answered, 1);
}

#[test]
fn nothing_stays_on_the_device_after_a_kill() {
    let Some(pair) = Pair::new(1) else { return };
    assert!(pair.is_free());
    let mut server = pair.serve("echo", PORT, &["--io", "xdp"]);
    assert_eq!(ask(&pair.flow(PORT), &query(1)), reply(1));
    assert!(!pair.is_free());
    let (status, errors) = pair.refused(OTHER_PORT);
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains(&format!("--io xdp on {DEVICE}: attaching an XDP program")), "{errors}");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let begin = Instant::now();
    while !pair.is_free() {
        assert!(begin.elapsed() < PATIENCE, "the program outlived the server");
        std::thread::yield_now();
    }
    let again = pair.serve("echo", PORT, &["--io", "xdp"]);
    assert_eq!(ask(&pair.flow(PORT), &query(2)), reply(2));
    let report = again.stop(Signal::Terminate);
    assert_eq!((report.received, report.answered), (1, 1));
    assert!(pair.is_free());
}

#[test]
fn what_cannot_pass_the_kernel_is_refused_in_one_line() {
    for (arguments, why) in [
        (&["--io", "xdp", "--listen", "127.0.0.1:0"][..], "no Ethernet frames"),
        (&["--io", "xdp", "--listen", "0.0.0.0:0"], "add --device NAME"),
        (&["--io", "xdp", "--listen", "127.0.0.1:0", "--device", "lo"], "--io xdp: --device lo: "),
        (&["--io", "xdp", "--processes", "2"], "use --threads"),
        (&["--io", "xdp", "--reply", "own"], "--reply own"),
        (&["--device", "eth0"], "it needs --io xdp"),
    ] {
        let (status, error) = refused(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
}
