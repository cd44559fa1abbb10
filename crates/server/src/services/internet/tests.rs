//! The server with a tiny tree, over real sockets of loopback: an address for each behaviour.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use kqps_kernel::{SendBatch, UdpOptions};

use super::*;
use crate::connections::frame::append;
use crate::report::Report;
use crate::sockets;

/// The longest wait for a reply that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Servers at 127.53.0.0/24. The last byte of an address is the delay in units of 100 ms, up to 9.
struct TinyTree;

const SILENT: u8 = 100;
const REFUSES_TCP: u8 = 101;
const SLOW: u8 = 102;
const LONG: u8 = 103;

impl Tree for TinyTree {
    fn prefixes(&self) -> Vec<(IpAddr, u8)> {
        vec![(IpAddr::from([127, 53, 0, 0]), 24)]
    }

    fn answer(&self, server: IpAddr, query: &[u8], is_tcp: bool, reply: &mut Vec<u8>) -> TreeAnswer {
        let IpAddr::V4(server) = server else { panic!("{server} is not ours") };
        let [.., third, last] = server.octets();
        let answer = |kind, delay_ns, fault| TreeAnswer { level: Level::Tld, kind, delay_ns, fault };
        if third != 0 {
            return TreeAnswer { level: Level::Nothing, ..answer(Kind::Silent, 0, None) };
        }
        match last {
            SILENT => return answer(Kind::Silent, 0, Some(0)),
            LONG if is_tcp => reply.resize(60_000, 0),
            _ => {}
        }
        reply.splice(..query.len().min(reply.len()), query.iter().copied());
        reply[2] |= 0x80;
        let delay_ns = if last < 10 { u64::from(last) * 100_000_000 } else { 0 };
        answer(Kind::Referral, delay_ns, (last == SLOW).then_some(1))
    }

    fn faults(&self) -> &[&'static str] {
        &["silence", "slow-tcp", "tcp-refused"]
    }

    fn conduct(&self, server: IpAddr) -> TcpConduct {
        match server {
            IpAddr::V4(server) if server.octets()[3] == REFUSES_TCP => TcpConduct::Refuse { fault: Some(2) },
            IpAddr::V4(server) if server.octets()[3] == SLOW => {
                TcpConduct::Slow { piece_bytes: 3, gap_ns: 20_000 }
            }
            _ => TcpConduct::Usual,
        }
    }

    fn root_hints(&self) -> String {
        String::new()
    }

    fn trust_anchor(&self) -> String {
        String::new()
    }
}

/// A server of the tiny tree on a port of its own.
struct Rig {
    running: RunningInternet,
    port: u16,
}

impl Rig {
    fn new() -> Self {
        let setup = ServerSetup {
            reach: Reach::Loopback,
            arrivals: true,
            ..ServerSetup::small(vec![(Ipv4Addr::UNSPECIFIED, 0).into()], Model::Mmsg)
        };
        let limits = Limits { idle: PATIENCE, connections: 64, per_client: 64 };
        let service = InternetService { tree: Arc::new(TinyTree), book: Arc::default(), top: 3, limits };
        service.check(&setup).unwrap();
        let bound = sockets::bind(&setup, true, &[]).unwrap();
        let port = bound.addresses.datagrams[0].port();
        let (workers, listeners) = (bound.workers, bound.listeners);
        let task = Task { model: setup.io, workers, listeners, process: 0, processes: 1 };
        Self { running: service.start(task).unwrap(), port }
    }

    /// The address of a server.
    fn server(&self, last: u8) -> SocketAddr {
        ([127, 53, 0, last], self.port).into()
    }

    fn connect(&self, last: u8) -> TcpStream {
        let stream = TcpStream::connect(self.server(last)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn stop(mut self) -> Report {
        let Ended { report, failed } = self.running.stop();
        assert!(failed.is_none(), "{failed:?}");
        report
    }
}

/// A query with this ID for `test. A`.
fn query(id: u8) -> Vec<u8> {
    [&[0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x04test\0\0\x01\0\x01"].concat()
}

/// Sends a query to each of these servers, all with one call.
fn send_at_once(from: &kqps_kernel::UdpSocket, servers: &[SocketAddr]) {
    let mut batch = SendBatch::new(servers.len(), 64 * servers.len());
    for (id, server) in (0..).zip(servers) {
        let query = query(id);
        batch.add(&(*server).into(), query.len(), None).copy_from_slice(&query);
    }
    assert_eq!(batch.send(from, 0).unwrap(), servers.len());
}

fn client() -> kqps_kernel::UdpSocket {
    kqps_kernel::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), &UdpOptions::default()).unwrap()
}

/// The sender and the ID of the next replies.
fn replies(client: &kqps_kernel::UdpSocket, count: usize) -> Vec<(SocketAddr, u8)> {
    let client = UdpSocket::from(std::os::fd::AsFd::as_fd(client).try_clone_to_owned().unwrap());
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 512];
    let mut next = || {
        let (bytes, from) = client.recv_from(&mut buffer).expect("a reply comes");
        assert_eq!((bytes, buffer[2] & 0x80), (query(0).len(), 0x80));
        (from, buffer[1])
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn answers_leave_from_the_address_that_was_asked_in_the_order_of_their_delays() {
    let rig = Rig::new();
    let client = client();
    // The delays are 300, 0, 200, 0 and 100 ms.
    let servers = [3, 0, 2, 0, 1].map(|last| rig.server(last));
    send_at_once(&client, &servers);
    let got = replies(&client, servers.len());
    let expected = [(0, 1), (0, 3), (1, 4), (2, 2), (3, 0)].map(|(last, id)| (rig.server(last), id));
    assert_eq!(got, expected);
    let report = rig.stop();
    assert_eq!((report.received, report.answered), (5, 5));
    let internet = report.internet.unwrap();
    assert_eq!(internet.udp["tld"]["referral"], 5);
    assert_eq!((internet.delayed, internet.under_way), (3, 0));
    assert!(internet.late_p50_us <= internet.late_p99_us && internet.late_most_us.is_some());
    let servers = internet.servers.unwrap();
    assert_eq!((&*servers.top[0].name, servers.top[0].queries, servers.distinct), ("127.53.0.0", 2, 4));
    let questions = internet.questions.unwrap();
    assert_eq!((&*questions.top[0].name, questions.top[0].queries), ("test. A", 5));
}

#[test]
fn every_query_is_counted_with_its_fault() {
    let rig = Rig::new();
    let client = client();
    let nowhere = SocketAddr::from(([127, 53, 1, 1], rig.port));
    let servers = [rig.server(SILENT), rig.server(SILENT), nowhere, rig.server(0), rig.server(9)];
    send_at_once(&client, &servers);
    let peer = |server| kqps_kernel::udp::Peer { address: SocketAddr::into(server), asked: None };
    client.send(&query(7)[..11], &peer(rig.server(0))).unwrap();
    let reply = [&[0, 8, 0x80][..], &query(8)[3..]].concat();
    client.send(&reply, &peer(rig.server(0))).unwrap();
    send_at_once(&client, &[rig.server(0)]);
    assert_eq!(replies(&client, 2), [(rig.server(0), 3), (rig.server(0), 0)]);
    // A reply still waits for its 900 ms.
    let report = rig.stop();
    assert_eq!((report.received, report.answered), (8, 2));
    let dropped: Vec<_> = report.dropped.iter().map(|(cause, count)| (&**cause, *count)).collect();
    assert_eq!(dropped, [("is-response", 1), ("query-too-short", 1), ("stopped", 1), ("withheld", 3)]);
    let internet = report.internet.unwrap();
    assert_eq!((internet.faults["silence"], internet.udp["nothing"]["silent"]), (2, 1));
    assert_eq!((internet.udp["tld"]["referral"], internet.udp["tld"]["silent"]), (3, 2));
}

#[test]
fn connections_are_of_the_server_that_was_connected_to() {
    let rig = Rig::new();
    let mut frames = Vec::new();
    (1..=3).for_each(|id| append(&mut frames, &query(id)));
    for (last, bytes) in [(0, 22), (2, 22), (SLOW, 22), (LONG, 60_000)] {
        let mut stream = rig.connect(last);
        stream.write_all(&frames).unwrap();
        let mut reply = vec![0; 2 + bytes];
        for id in 1..=3 {
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(usize::from(u16::from_be_bytes([reply[0], reply[1]])), bytes, "server {last}");
            assert_eq!((reply[3], reply[4] & 0x80), (id, 0x80), "server {last}");
        }
    }
    let mut refused = rig.connect(REFUSES_TCP);
    let error = refused.write_all(&frames).and_then(|()| refused.read_exact(&mut [0])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    let mut waiting = rig.connect(9);
    waiting.write_all(&frames).unwrap();
    let mut other = rig.connect(0);
    other.write_all(&frames[..24]).unwrap();
    other.read_exact(&mut [0; 24]).unwrap();
    drop((waiting, other));
    let report = rig.stop();
    let tcp = report.tcp.unwrap();
    assert_eq!((tcp.connections, tcp.ended["refused"]), (7, 1));
    assert_eq!(tcp.received, tcp.answered + tcp.dropped.values().sum::<u64>());
    assert_eq!((tcp.received, tcp.answered), (4 * 3 + 3 + 1, 4 * 3 + 1));
    let internet = report.internet.unwrap();
    assert_eq!((internet.tcp["tld"]["referral"], internet.faults["slow-tcp"]), (16, 3));
    assert_eq!(internet.faults["tcp-refused"], 1);
    // Replies are counted, not their pieces, and none to a client that has gone.
    assert_eq!((internet.delayed, internet.under_way), (6, 0));
}

#[test]
fn a_client_that_reads_may_send_many_queries_at_once() {
    const QUERIES: u8 = 200;
    let rig = Rig::new();
    let mut stream = rig.connect(LONG);
    let mut frames = Vec::new();
    (0..QUERIES).for_each(|id| append(&mut frames, &query(id)));
    stream.write_all(&frames).unwrap();
    // The replies are 12 MB together.
    let mut reply = vec![0; 2 + 60_000];
    for id in 0..QUERIES {
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[3], id);
    }
    drop(stream);
    let tcp = rig.stop().tcp.unwrap();
    assert_eq!((tcp.received, tcp.answered), (QUERIES.into(), QUERIES.into()));
    assert_eq!(tcp.ended.get("slow-reader").copied().unwrap_or(0), 0, "{:?}", tcp.ended);
}

#[test]
fn only_fitting_settings_are_served() {
    let service = |setup: &ServerSetup| {
        let limits = Limits { idle: PATIENCE, connections: 1, per_client: 1 };
        InternetService { tree: Arc::new(TinyTree), book: Arc::default(), top: 0, limits }.check(setup)
    };
    let any = ServerSetup::small(vec![(Ipv4Addr::UNSPECIFIED, 0).into()], Model::Mmsg);
    let one = ServerSetup::small(vec![(Ipv4Addr::LOCALHOST, 0).into()], Model::Mmsg);
    assert!(service(&ServerSetup { reach: Reach::Routed, ..any.clone() }).is_ok());
    for unfit in [
        any.clone(),
        ServerSetup { reach: Reach::Routed, ..one },
        ServerSetup { reach: Reach::Routed, io: Model::Epoll, ..any },
    ] {
        assert!(matches!(service(&unfit), Err(ServeError::Setup(_))));
    }
}
