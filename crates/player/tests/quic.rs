//! QUIC: what a server does with connections, streams and early data is in the accounts, with its cause.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kqps_observation::trial::Transport;
use kqps_observation::{ConnectionFacts, QuicFacts};
use kqps_player::plan::Arrivals;
use kqps_player::{Io, LoadPlan, Plan, QuicPlan, TlsPlan, Wire};
use kqps_quic::{
    Admission, Congestion, QueryKey, Reply, Responder, SEGMENTS_MOST, Server, ServerEvent, Transmission,
};
use kqps_tls::certificate::{KeyType, Made, make};
use kqps_tls::{Acceptor, ClientSettings, Kind, Trust};

use crate::connected::{counts, played};
use crate::patience::within;

/// How long a reply may take. A trial ends when all of its queries are settled, so this costs no time if none is lost
/// by it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time for a reply if lost queries wait for it: longer than other programs keep a thread of the test from a core.
const TIMEOUT: Duration = Duration::from_millis(1500);
const NAME: &str = "dns.test";
const WINDOW: LoadPlan = LoadPlan::Closed { outstanding: 16 };

/// How a server treats the query of this number.
pub(crate) type Serve = fn(u64, &[u8], &mut Vec<u8>) -> Reply<Infallible>;

struct Scripted {
    serve: Serve,
    queries: u64,
}

impl Responder for Scripted {
    type Many = Infallible;

    fn answer(&mut self, query: &[u8], _: IpAddr, _: QueryKey, reply: &mut Vec<u8>) -> Reply<Infallible> {
        self.queries += 1;
        (self.serve)(self.queries - 1, query, reply)
    }

    fn next(&mut self, many: &mut Infallible, _: &mut Vec<u8>) -> bool {
        match *many {}
    }
}

/// NOERROR without records.
pub(crate) fn answer(_: u64, query: &[u8], reply: &mut Vec<u8>) -> Reply<Infallible> {
    reply.extend_from_slice(query);
    reply[2] |= 0x80;
    Reply::One
}

/// A server in a thread of its own, until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    handshakes: Arc<[AtomicU64; 4]>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new(acceptor: Acceptor, serve: Serve) -> Self {
        Self::until(acceptor, serve, u64::MAX)
    }

    /// A server whose socket is closed after so many queries.
    fn until(acceptor: Acceptor, serve: Serve, queries_most: u64) -> Self {
        Self::at("127.0.0.1:0", acceptor, serve, queries_most)
    }

    /// A server at this address.
    fn at(address: &str, acceptor: Acceptor, serve: Serve, queries_most: u64) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let address = socket.local_addr().unwrap();
        let (handshakes, stop) =
            (Arc::new([const { AtomicU64::new(0) }; 4]), Arc::new(AtomicBool::new(false)));
        let (count, is_over) = (Arc::clone(&handshakes), Arc::clone(&stop));
        let scripted = Scripted { serve, queries: 0 };
        let thread =
            std::thread::spawn(move || run(&socket, &acceptor, (scripted, queries_most), &count, &is_over));
        Self { address, handshakes, stop, thread: Some(thread) }
    }

    /// Completed handshakes: full, resumed and with early data.
    pub(crate) fn by_kind(&self) -> [u64; 3] {
        [Kind::Full, Kind::Resumed, Kind::Early].map(|kind| self.handshakes[kind.number()].load(Relaxed))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn run(
    socket: &UdpSocket,
    acceptor: &Acceptor,
    (mut scripted, queries_most): (Scripted, u64),
    handshakes: &[AtomicU64; 4],
    stop: &AtomicBool,
) {
    let mut server = Server::new(acceptor, Duration::from_secs(10), Congestion::Fixed);
    let (mut input, mut output, start) = (vec![0; 65_535], Vec::new(), Instant::now());
    let now_ns = || 1 + start.elapsed().as_nanos() as u64;
    let send = |out: Transmission, bytes: &[u8]| {
        for datagram in bytes.chunks(out.segment_bytes) {
            socket.send_to(datagram, out.to).unwrap();
        }
    };
    while !stop.load(Relaxed) && scripted.queries < queries_most {
        if let Ok((bytes, from)) = socket.recv_from(&mut input) {
            let admit = |_| Admission::Accept;
            if let Some(out) = server.datagram((from, None), &input[..bytes], now_ns(), &mut output, admit) {
                send(out, &output);
            }
        }
        server.expire(now_ns());
        while let Some(slot) = server.next_ready() {
            server.work(slot, now_ns(), &mut scripted, |event| {
                if let ServerEvent::Opened(kind) = event {
                    handshakes[kind.number()].fetch_add(1, Relaxed);
                }
            });
            while let Some(out) = server.transmit(slot, SEGMENTS_MOST, &mut output, now_ns()) {
                send(out, &output);
            }
            server.rest(slot);
        }
    }
}

pub(crate) fn made() -> Made {
    make(KeyType::Ecdsa, &[NAME.to_owned()]).unwrap()
}

pub(crate) fn server(made: &Made, takes_early_data: bool, serve: Serve) -> Running {
    Running::new(Acceptor::over_quic(&made.identity, takes_early_data).unwrap(), serve)
}

pub(crate) fn kept(connections: usize, ca: &str) -> QuicPlan {
    let client = ClientSettings::new(Trust::Ca(ca.to_owned()), true);
    QuicPlan {
        connections,
        queries_per_connection: None,
        outstanding: 1 << 16,
        connect_timeout: Duration::from_secs(5),
        buffer_bytes: None,
        tls: TlsPlan { names: vec![NAME.into()], client, packing: false, http: None },
        congestion: Congestion::Fixed,
    }
}

/// A new connection for each query, 4 at once.
fn one_each(ca: &str) -> QuicPlan {
    QuicPlan { queries_per_connection: Some(1), ..kept(4, ca) }
}

fn plan(target: SocketAddr, quic: QuicPlan) -> Plan {
    let plan = crate::support::plan(target, 1, WINDOW, Io::Auto);
    within(PATIENCE, Plan { wire: Wire::Quic(quic), ..plan })
}

/// A socket whose port is closed for all others: it is connected to itself, so the kernel refuses what comes from
/// elsewhere. No other program gets the port meanwhile.
fn closed() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    socket
}

fn quic(connections: &ConnectionFacts) -> &QuicFacts {
    connections.quic.as_ref().expect("the connections are over QUIC")
}

fn by_kind(connections: &ConnectionFacts) -> [u64; 3] {
    let handshakes = &connections.tls.as_ref().expect("QUIC has TLS").handshakes;
    ["full", "resumed", "0-rtt"].map(|kind| handshakes.get(kind).copied().unwrap_or(0))
}

#[test]
fn kept_connections_are_opened_first_and_both_sides_count_the_same() {
    let made = made();
    for threads in [1, 3] {
        let server = server(&made, false, answer);
        let plan = Plan { threads, ..plan(server.address, kept(6, &made.ca)) };
        let (trial, connections) = played(3000, &plan);
        assert_eq!((trial.accounts.correct, trial.accounts.unsolicited), (3000, 0), "{:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established, connections.before_load), (6, 6, 6));
        assert_eq!((connections.open, connections.handed), (6, 3000));
        assert!(connections.failed.is_empty() && connections.closed.is_empty(), "{connections:?}");
        assert_eq!((trial.transport, by_kind(&connections)), (Transport::Quic, server.by_kind()));
        let facts = quic(&connections);
        assert!(
            facts.datagrams_sent > 0 && facts.datagrams_received > 0 && facts.failures.is_empty(),
            "{facts:?}"
        );
        assert_eq!((facts.retries, connections.early_data()), (0, None));
        for (name, is_there) in
            [("handshake full", true), ("first query", true), ("write to reply", true), ("connect", false)]
        {
            assert_eq!(trial.histograms.contains_key(name), is_there, "{name}");
        }
    }
}

#[test]
fn connections_resume_if_they_may() {
    let made = made();
    for resume in [true, false] {
        let server = server(&made, false, answer);
        let mut each = one_each(&made.ca);
        each.tls.client.resume = resume;
        let (trial, connections) = played(200, &plan(server.address, each));
        assert_eq!(trial.accounts.correct, 200, "{:?}", trial.accounts);
        assert_eq!((connections.established, by_kind(&connections)), (200, server.by_kind()));
        // The first connection at each of the four places has no ticket, and others may end before theirs arrives.
        assert_eq!(by_kind(&connections)[1] > 50, resume, "{connections:?}");
    }
}

#[test]
fn connections_alone_are_made_and_closed_without_a_query() {
    let made = made();
    for resume in [true, false] {
        let server = server(&made, false, |_, _, _| panic!("no query is sent"));
        let mut alone = QuicPlan { queries_per_connection: Some(0), ..kept(4, &made.ca) };
        alone.tls.client.resume = resume;
        let (trial, connections) = played(100, &plan(server.address, alone));
        assert_eq!((trial.accounts.correct, connections.alone), (100, true), "{:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established, connections.before_load), (100, 100, 0));
        // Some wait for a ticket when the trial ends.
        assert_eq!(connections.closed["player"] + connections.open, 100, "{connections:?}");
        // The first connection at each of the four places has no ticket.
        assert_eq!(by_kind(&connections)[1] > 50, resume, "{connections:?}");
    }
    let closed = closed();
    let alone = QuicPlan { queries_per_connection: Some(0), ..kept(4, &made.ca) };
    let (trial, connections) = played(20, &within(TIMEOUT, plan(closed.local_addr().unwrap(), alone)));
    assert_eq!((trial.accounts.lost, connections.attempts), (20, 20), "{connections:?}");
    assert_eq!(trial.lost_causes, counts([("refused", 20)]));
}

#[test]
fn early_data_is_sent_if_asked_for_and_again_if_it_is_rejected() {
    let made = made();
    for early_data in [true, false] {
        let server = server(&made, true, answer);
        let mut each = one_each(&made.ca);
        each.tls.client.early_data = early_data;
        let (trial, connections) = played(200, &plan(server.address, each));
        assert_eq!((trial.accounts.correct, trial.accounts.unsolicited), (200, 0), "{:?}", trial.accounts);
        assert_eq!(by_kind(&connections), server.by_kind());
        let facts = connections.early_data();
        assert_eq!(facts.is_some(), early_data);
        let facts = facts.unwrap_or_default();
        assert_eq!(by_kind(&connections)[2], facts.accepted);
        assert_eq!((connections.check(200), facts.undecided), (Ok(()), 0));
        // A connection that is answered early waits for its ticket.
        assert_eq!((facts.accepted > 100, facts.queries > 100), (early_data, early_data), "{facts:?}");
        assert_eq!(facts.queries_again, facts.rejected);
    }
}

#[test]
fn early_data_of_attempts_that_fail_is_undecided() {
    let made = made();
    let acceptor = Acceptor::over_quic(&made.identity, true).unwrap();
    // The server vanishes. A query at least then begins a connection, with a ticket.
    let server = Running::until(acceptor, answer, 20);
    let mut each = one_each(&made.ca);
    each.tls.client.early_data = true;
    let (trial, connections) = played(24, &plan(server.address, each));
    assert_eq!(connections.check(trial.accounts.sent), Ok(()));
    let undecided = connections.early_data().unwrap().undecided;
    assert_eq!(undecided, connections.attempts - connections.established, "{connections:?}");
    assert!(undecided > 0, "{connections:?}");
}

#[test]
fn a_reply_with_an_id_is_wrong() {
    let made = made();
    let server = server(&made, false, |number, query, reply| {
        answer(number, query, reply);
        reply[1] = u8::from(number.is_multiple_of(2));
        Reply::One
    });
    let (trial, _) = played(40, &plan(server.address, kept(2, &made.ca)));
    assert_eq!((trial.accounts.correct, trial.accounts.wrong), (20, 20), "{:?}", trial.accounts);
    assert_eq!(trial.wrong_causes, counts([("id", 20)]));
}

#[test]
fn a_stream_that_is_reset_is_one_lost_query() {
    let made = made();
    let server = server(&made, false, |number, query, reply| {
        if number.is_multiple_of(4) { Reply::None } else { answer(number, query, reply) }
    });
    let (trial, connections) = played(40, &plan(server.address, kept(2, &made.ca)));
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (30, 10), "{:?}", trial.accounts);
    assert_eq!(trial.lost_causes, counts([("stream-reset", 10)]));
    assert_eq!((connections.established, connections.open), (2, 2));
    assert_eq!(quic(&connections).failures.values().sum::<u64>(), 10);
}

/// Plays eight queries at a target to which no connection can be made, and checks that the cause is the only one.
fn assert_fails(target: SocketAddr, each: QuicPlan, cause: &str) {
    let (trial, connections) = played(8, &plan(target, each));
    assert_eq!((trial.accounts.sent, trial.accounts.lost), (8, 8), "{cause}");
    assert_eq!(trial.lost_causes, counts([(cause, 8)]), "{connections:?}");
    assert_eq!((connections.established, connections.unfinished), (0, 0), "{connections:?}");
    assert_eq!(connections.failed, counts([(cause, connections.attempts)]));
}

#[test]
fn attempts_that_fail_have_their_causes() {
    let made = made();
    let of_other = self::made();
    let server = server(&of_other, false, answer);
    assert_fails(server.address, one_each(&made.ca), "certificate");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let hasty = QuicPlan { connect_timeout: Duration::from_millis(100), ..one_each(&made.ca) };
    assert_fails(silent.local_addr().unwrap(), hasty, "connect-timeout");
    let closed = closed();
    assert_fails(closed.local_addr().unwrap(), one_each(&made.ca), "refused");
}

#[test]
fn icmp_ends_connections_and_loses_their_queries_at_once() {
    let made = made();
    let acceptor = Acceptor::over_quic(&made.identity, false).unwrap();
    // The server vanishes, and its host reports that nothing listens at the port any more.
    let server = Running::until(acceptor, answer, 50);
    let (trial, connections) = played(82, &within(TIMEOUT, plan(server.address, kept(2, &made.ca))));
    let accounts = &trial.accounts;
    // The window of 16 may have been answered together.
    assert!(accounts.correct <= 66 && accounts.correct + accounts.lost == 82, "{accounts:?}");
    assert_eq!(trial.lost_causes, counts([("refused", accounts.lost)]), "{connections:?}");
    assert_eq!((connections.established, connections.open), (2, 0), "{connections:?}");
    assert_eq!(connections.closed, counts([("refused", 2)]));
    assert_eq!(connections.failed, counts([("refused", connections.attempts - 2)]));
    assert_eq!(trial.send_failed_causes.len(), 0, "{:?}", trial.send_failed_causes);
}

/// A network in which no host answers for 192.0.2.9, and in which the kernel waits a minute for it. Meanwhile packets
/// to it hold the send buffers of their sockets.
const SILENT_NEIGHBOUR: &str = "ip link add near type veth peer name far
    ip address add 192.0.2.1/24 dev near
    ip link set near up
    ip link set far up
    echo 60000 > /proc/sys/net/ipv4/neigh/near/retrans_time_ms";

#[test]
fn a_socket_without_room_holds_up_no_other() {
    crate::network::in_own_network(SILENT_NEIGHBOUR, || {
        let made = made();
        let server = server(&made, false, answer);
        let silent = SocketAddr::from(([192, 0, 2, 9], 853));
        let mut quic = QuicPlan {
            buffer_bytes: Some(4096),
            queries_per_connection: Some(100),
            connect_timeout: Duration::from_mins(1),
            ..kept(2, &made.ca)
        };
        quic.tls.names.push(NAME.into());
        // The buffer is full with the third round of probes, 3 s after the first packet (RFC 9002, section 6.2).
        let load = LoadPlan::Open { rate_qps: 100.0, arrivals: Arrivals::Even, window: None };
        let plan = Plan { load, targets: vec![silent, server.address], ..plan(silent, quic) };
        let (trial, connections) = played(500, &plan);
        let accounts = &trial.accounts;
        assert_eq!((accounts.sent, accounts.correct, accounts.lost), (500, 400, 100), "{connections:?}");
        let facts = connections.quic.expect("it is over QUIC");
        assert!(facts.send_waits > 0, "{facts:?}");
    });
}
