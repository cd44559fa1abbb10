//! `kqps serve auth`, run as a user would: real zone files, real sockets, every I/O model.

mod clients;
pub(crate) mod connections;
pub(crate) mod dns;
mod hostile;
mod output;
mod rcodes;
mod reload;
mod transfer;
mod unix;

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kqps_kernel::process::Signal;
use kqps_kernel::{Address, SendBatch, UdpOptions, Wait, probe};
use kqps_skips::{Capability, skip};
use tempfile::TempDir;

use crate::serve::available;
use crate::serve::running::Running;
use dns::{A, Reply, SOA, TXT, ask, ask_by, connect, query, query_edns};

/// The longest wait for something that should take no time.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const NOERROR: u8 = 0;
pub(crate) const SERVFAIL: u8 = 2;
pub(crate) const NXDOMAIN: u8 = 3;
pub(crate) const REFUSED: u8 = 5;

const ZONE: &str = "$ORIGIN auth.test.\n$TTL 300\n@ SOA ns1 host 1 3600 600 86400 60\n@ NS ns1\n\
    ns1 A 192.0.2.1\nwww A 192.0.2.80\nalias CNAME www\n*.wild TXT \"wild\"\n\
    sub NS ns.sub\nns.sub A 192.0.2.53\n";

/// A folder with the zone `auth.test`.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let rig = Self { folder: tempfile::tempdir().unwrap() };
        rig.write(&format!("{ZONE}{}", big_texts(40)));
        rig
    }

    fn zone(&self) -> PathBuf {
        self.folder.path().join("auth.test.zone")
    }

    /// Replaces the zone file as a whole.
    fn write(&self, text: &str) {
        let part = self.folder.path().join(".part");
        fs::write(&part, text).unwrap();
        fs::rename(part, self.zone()).unwrap();
    }

    fn argument(&self) -> String {
        format!("auth.test={}", self.zone().display())
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let zone = self.argument();
        Running::start_as("auth", &[&["--zone", &zone], arguments].concat())
    }
}

/// Records that make a long answer for `big`: `count` texts of 20 bytes.
fn big_texts(count: u32) -> String {
    let texts: Vec<String> =
        (0..count).map(|number| format!("big TXT \"text number {number:08}\"")).collect();
    texts.join("\n")
}

/// The queries for every model, each with its rcode and number of answers.
fn questions() -> Vec<(Vec<u8>, u8, u16)> {
    vec![
        (query(1, "wWw.AuTh.tEsT", A), NOERROR, 1),
        (query(2, "alias.auth.test", A), NOERROR, 2),
        (query(3, "a.b.wild.auth.test", TXT), NOERROR, 1),
        (query(4, "nothing.auth.test", A), NXDOMAIN, 0),
        (query(5, "www.auth.test", TXT), NOERROR, 0),
        (query(6, "x.sub.auth.test", A), NOERROR, 0),
        (query(7, "other.test", A), REFUSED, 0),
        (query_edns(8, "big.auth.test", TXT, 4096), NOERROR, 40),
        (query_edns(9, "auth.test", SOA, 1232), NOERROR, 1),
    ]
}

/// A server's replies to all of these, by UDP and by TCP.
pub(crate) fn replies(server: SocketAddr) -> Vec<Reply> {
    let mut stream = connect(server);
    let mut replies = Vec::new();
    for (query, rcode, answers) in questions() {
        let by_udp = ask(server, &query);
        assert_eq!((by_udp.rcode(), by_udp.answers()), (rcode, answers), "{by_udp:?}");
        assert_eq!(by_udp.is_authoritative(), ![6, 7].contains(&by_udp.id()), "{by_udp:?}");
        // The question comes back unchanged, in its own case.
        let end = query.len() - if query[11] == 1 { 11 } else { 0 };
        assert_eq!(by_udp.0[12..end], query[12..end]);
        let by_tcp = ask_by(&mut stream, &query);
        assert_eq!((by_tcp.rcode(), by_tcp.answers()), (rcode, answers), "{by_tcp:?}");
        replies.push(by_udp);
    }
    let short = ask(server, &query(10, "big.auth.test", TXT));
    assert!(short.is_truncated() && short.0.len() <= 512, "{short:?}");
    assert_eq!(ask_by(&mut stream, &query(10, "big.auth.test", TXT)).answers(), 40);
    replies.push(short);
    replies
}

const WORKERS: [&[&str]; 4] = [
    &[],
    &["--threads", "2", "--sockets", "reuseport", "--reply", "own"],
    &["--processes", "2"],
    &["--processes", "2", "--threads", "2", "--sockets", "port-each"],
];

#[test]
fn every_model_answers_the_same_whatever_its_workers() {
    let rig = Rig::new();
    let mut first = None;
    for model in available() {
        for workers in WORKERS {
            let listen: &[&str] = if model.serves_many() {
                &["--listen", "127.0.0.1:0", "--listen", "[::1]:0"]
            } else {
                &["--listen", "127.0.0.1:0"]
            };
            println!("{model:?} {workers:?}");
            let arguments = [listen, &["--io", model.name(), "--payload", "4096"], workers].concat();
            let server = rig.start(&arguments);
            assert_eq!((&server.ready["zones"], &server.ready["records"]), (&1.into(), &48.into()));
            assert!(server.ready["memory_bytes"].as_u64().unwrap() > 1000);
            for &address in &server.addresses {
                let replies = replies(address);
                assert_eq!(first.get_or_insert_with(|| replies.clone()), &replies, "{model:?} {workers:?}");
            }
            let servers = server.addresses.len() as u64;
            let report = server.stop(Signal::Terminate);
            assert_eq!((report.received, report.answered), (10 * servers, 10 * servers));
            let rcodes = [("NOERROR", 8), ("NXDOMAIN", 1), ("REFUSED", 1)];
            let rcodes = rcodes.map(|(rcode, count)| (rcode.to_owned(), count * servers));
            assert_eq!(report.response_rcodes, rcodes.into());
            let tcp = report.tcp.unwrap();
            assert_eq!((tcp.connections, tcp.received, tcp.answered), (servers, 10 * servers, 10 * servers));
            // The peer ended it, unless the server stopped before it noticed.
            assert_eq!(tcp.ended.values().sum::<u64>(), servers);
        }
    }
}

/// Sends 64 queries in one segmented message, with short and long replies in turn, and awaits the replies.
pub(crate) fn ask_in_segments(server: SocketAddr) {
    let socket =
        kqps_kernel::UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let asked = |id: u16| {
        let (name, rtype) =
            [("www.auth.test", A), ("big.auth.test", TXT), ("not.auth.test", A)][usize::from(id % 3)];
        query_edns(id, name, rtype, 4096)
    };
    let length = asked(0).len();
    let mut batch = SendBatch::new(1, 64 * length);
    let place = batch.add(&Address::from(server), 64 * length, Some(length as u16));
    for (id, datagram) in (0..).zip(place.chunks_mut(length)) {
        datagram.copy_from_slice(&asked(id));
    }
    assert_eq!(batch.send(&socket, 0).unwrap(), 1);
    let mut expected: BTreeSet<u16> = (0..64).collect();
    let mut buffer = vec![0; 8192];
    while !expected.is_empty() {
        assert!(socket.wait_readable(PATIENCE.as_nanos() as u64).unwrap(), "no reply");
        let mut from = kqps_kernel::udp::Peer::default();
        let bytes = socket.recv(&mut buffer, &mut from, Wait::No).unwrap().unwrap();
        let reply = Reply(buffer[..bytes].to_vec());
        assert!(expected.remove(&reply.id()), "{} again", reply.id());
        let answers = [(NOERROR, 1), (NOERROR, 40), (NXDOMAIN, 0)][usize::from(reply.id() % 3)];
        assert_eq!((reply.rcode(), reply.answers()), answers);
    }
}

#[test]
fn a_segmented_message_of_queries_gets_all_its_replies() {
    if let Err(reason) = probe::probe_one("gso") {
        return skip(Capability::Segmentation, reason);
    }
    let rig = Rig::new();
    for model in available() {
        let server = rig.start(&["--io", model.name(), "--listen", "127.0.0.1:0", "--payload", "4096"]);
        ask_in_segments(server.addresses[0]);
        let report = server.stop(Signal::Interrupt);
        assert_eq!((report.received, report.answered), (64, 64), "{model:?}");
    }
}

#[test]
fn a_wildcard_address_answers_from_where_it_was_asked() {
    let rig = Rig::new();
    let server = rig.start(&["--listen", "0.0.0.0:0", "--listen", "[::]:0"]);
    for (ip, address) in ["127.0.0.2", "::1"].into_iter().zip(&server.addresses) {
        // The flow takes replies only from the address that it asks.
        replies_in_short(SocketAddr::new(ip.parse().unwrap(), address.port()));
    }
}

pub(crate) fn replies_in_short(server: SocketAddr) {
    assert_eq!(ask(server, &query(1, "www.auth.test", A)).answers(), 1);
    assert_eq!(ask_by(&mut connect(server), &query(1, "www.auth.test", A)).answers(), 1);
}

#[test]
fn what_is_no_query_is_counted_by_its_cause() {
    let rig = Rig::new();
    for model in available() {
        let server = rig.start(&["--io", model.name(), "--listen", "127.0.0.1:0"]);
        let flow = crate::serve::sent::flow(server.addresses[0]);
        let mut response = query(1, "www.auth.test", A);
        response[2] |= 0x80;
        for bytes in [&[][..], &[0; 11], &response, &[0; 4097]] {
            flow.send(bytes).unwrap();
        }
        assert_eq!(ask(server.addresses[0], &query(2, "www.auth.test", A)).answers(), 1);
        let report = server.stop(Signal::Terminate);
        let causes = [("is-response", 1), ("query-too-long", 1), ("query-too-short", 2)];
        assert_eq!(report.dropped, causes.map(|(cause, count)| (cause.to_owned(), count)).into());
        assert_eq!((report.received, report.answered), (5, 1), "{model:?}");
    }
}

#[test]
fn a_zone_that_did_not_load_answers_servfail() {
    let rig = Rig::new();
    let broken = rig.folder.path().join("broken.zone");
    fs::write(&broken, "$TTL 60\n@ SOA ns host 1 1 1 1 1\n@ NS ns\nns A 192.0.2.300\n").unwrap();
    let argument = format!("broken.test={}", broken.display());
    let server = rig.start(&["--listen", "127.0.0.1:0", "--zone", &argument]);
    assert_eq!((&server.ready["zones"], &server.ready["broken"]), (&1.into(), &1.into()));
    let address = server.addresses[0];
    assert_eq!(ask(address, &query(1, "ns.broken.test", A)).rcode(), SERVFAIL);
    assert_eq!(ask(address, &query(2, "www.auth.test", A)).answers(), 1);
    let (_, errors) = server.stop_saying(Signal::Terminate);
    assert!(errors.contains(&format!("{}:4:6: ", broken.display())), "{errors}");
}

#[test]
fn errors_are_printed_before_the_warnings_of_other_zones() {
    let folder = tempfile::tempdir().unwrap();
    let zone = |more: &str| format!("$TTL 60\n@ SOA ns host 1 1 1 1 1\n@ NS ns\nns A 192.0.2.1\n{more}");
    for number in 10..40 {
        fs::write(folder.path().join(format!("a{number}.test")), zone("ns 61 A 192.0.2.2\n")).unwrap();
    }
    let broken = folder.path().join("b.test");
    fs::write(&broken, zone(&"x A y\n".repeat(21))).unwrap();
    let server =
        Running::start_as("auth", &["--zones", folder.path().to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    let (_, errors) = server.stop_saying(Signal::Terminate);
    let lines: Vec<&str> = errors.lines().collect();
    assert!(lines[0].starts_with(&format!("kqps: {}:5:5: ", broken.display())), "{errors}");
    let stopped = "there are more errors; reading stopped after 20";
    assert_eq!(lines[20], format!("kqps: {}: {stopped}", broken.display()));
    assert_eq!(lines.last(), Some(&"kqps: 11 more files have errors or warnings"));
}

#[test]
fn what_is_left_out_of_a_configuration_is_printed_at_the_start() {
    let rig = Rig::new();
    let path = rig.folder.path().join("named.conf");
    let primary = "zone auth.test { type primary; file auth.test.zone; };\n";
    let others = "zone . { type hint; file x; };\nzone b { type secondary; file y; };\n";
    for (text, expected) in
        [(primary.to_owned(), ""), (primary.to_owned() + others, "kqps: 2 zones are left out: ")]
    {
        fs::write(&path, text).unwrap();
        let mut server =
            Running::start_as("auth", &["--zones", path.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        // The note does not appear again with each reload.
        reload::reload(&mut server);
        let (_, errors) = server.stop_saying(Signal::Terminate);
        assert!(errors.starts_with(expected), "{errors}");
        assert_eq!(errors.lines().count(), usize::from(!expected.is_empty()), "{errors}");
    }
}

/// A query for facts about the server that it returns only if configured: NSID and a cookie, with EDNS.
fn curious(id: u16, name: &str) -> Vec<u8> {
    let mut bytes = query_edns(id, name, TXT, 1232);
    let class = bytes.len() - 12;
    bytes[class] = 3;
    // NSID (option 3), and a client's cookie (option 10).
    let options = [0, 3, 0, 0, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let length = bytes.len() - 1;
    bytes[length] = options.len() as u8;
    bytes.extend(options);
    bytes
}

#[test]
fn what_a_server_reports_of_itself_is_off_unless_it_is_switched_on() {
    let rig = Rig::new();
    let quiet = rig.start(&["--listen", "127.0.0.1:0"]);
    let secret = "--cookies=000102030405060708090a0b0c0d0e0f";
    let identity_flags =
        ["--nsid", "node seven", "--version-text", "none of yours", "--identity", "the seventh", secret];
    let open = rig.start(&[&["--listen", "127.0.0.1:0"], &identity_flags[..]].concat());
    let has = |reply: &Reply, text: &[u8]| reply.0.windows(text.len()).any(|window| window == text);
    // An option of 24 bytes that begins with the client's cookie.
    let cookie = [0, 10, 0, 24, 1, 2, 3, 4, 5, 6, 7, 8];
    for (id, name, text) in [(1, "version.bind", "none of yours"), (2, "id.server", "the seventh")] {
        let reply = ask(quiet.addresses[0], &curious(id, name));
        assert_eq!((reply.rcode(), reply.answers()), (REFUSED, 0));
        assert!(!has(&reply, b"node seven") && !has(&reply, &cookie));
        let reply = ask(open.addresses[0], &curious(id, name));
        assert_eq!((reply.rcode(), reply.answers()), (NOERROR, 1));
        assert!(
            has(&reply, text.as_bytes()) && has(&reply, b"node seven") && has(&reply, &cookie),
            "{reply:?}"
        );
    }
}

/// Runs a server that cannot start. Returns its status and stderr.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kqps"))
        .args(["serve", "auth", "--for", "0s"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let rig = Rig::new();
    let zone = rig.argument();
    let good = ["--zone", &zone, "--listen", "127.0.0.1:0"];
    let wrong: [&[&str]; 7] = [
        &["--payload", "511"],
        &["--payload", "4097"],
        &["--cookies=abc"],
        &["--tcp-idle", "0s"],
        &["--tcp-connections", "0"],
        &["--no-tcp", "--tcp-idle", "1s"],
        &["--nsid", &"x".repeat(256)],
    ];
    for wrong in wrong {
        assert_eq!(refused(&[&good[..], wrong].concat()).0, Some(2), "{wrong:?}");
    }
    let (status, error) = refused(&["--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("--zone"), "{error}");

    let missing = rig.folder.path().join("missing.zone");
    let (status, error) = refused(&["--zone", missing.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains(&*missing.to_string_lossy()), "{error}");

    // Two errors, both reported, and no zone to answer from.
    rig.write("$TTL 60\n@ SOA ns host 1 1 1 1 1\n@ NS ns\nns A nonsense\nns AAAA ::g\n");
    for processes in ["1", "2"] {
        let (status, error) = refused(&[&good[..], &["--processes", processes]].concat());
        assert_eq!(status, Some(2), "{error}");
        for place in ["4:6: ", "5:9: "] {
            let place = format!("{}:{place}", rig.zone().display());
            assert_eq!(error.matches(&place).count(), 1, "{error}");
        }
    }
}

#[test]
fn a_port_that_is_taken_for_tcp_is_refused() {
    let rig = Rig::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, error) = refused(&["--zone", &rig.argument(), "--listen", &address]);
    assert_eq!(status, Some(1));
    assert!(error.starts_with(&format!("kqps: cannot listen on {address}: another program")), "{error}");
    // Without TCP nothing else uses the port.
    let server = rig.start(&["--no-tcp", "--listen", &address]);
    assert_eq!(ask(server.addresses[0], &query(1, "www.auth.test", A)).answers(), 1);
    assert_eq!(server.stop(Signal::Terminate).tcp, None);
    assert!(UdpSocket::bind(address).is_ok());
}

#[test]
fn a_folder_of_zones_is_served_by_name() {
    let rig = Rig::new();
    let folder = rig.folder.path().to_str().unwrap().to_owned();
    fs::write(Path::new(&folder).join("second.test.zone"), "@ 60 SOA a b 1 1 1 1 1\n@ 60 NS a.example.\n")
        .unwrap();
    let server = Running::start_as("auth", &["--zones", &folder, "--listen", "127.0.0.1:0"]);
    assert_eq!(server.ready["zones"], 2);
    assert_eq!(ask(server.addresses[0], &query(1, "second.test", SOA)).answers(), 1);
    assert_eq!(ask(server.addresses[0], &query(1, "www.auth.test", A)).answers(), 1);
    assert_eq!(ask(server.addresses[0], &query(1, "third.test", A)).rcode(), REFUSED);
}
