//! HTTP/2: what a server does to a connection, to a stream or to a response is in the accounts, with its cause. The
//! server's frames are written by hand (RFC 9113, RFC 7541).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use kqps_http::Method;
use kqps_observation::trial::Transport;
use kqps_observation::{ConnectionFacts, HttpFacts};
use kqps_player::{Close, HttpPlan, Io, LoadPlan, Plan, TcpPlan, TlsPlan, Wire};
use kqps_tls::certificate::{KeyType, Made, make};
use kqps_tls::{ClientSettings, Trust};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::connected::{counts, played};
use crate::loops::for_each_io;
use crate::patience::within;
use crate::stream::{Server, query, reply};

/// How long a reply may take. A trial ends when all of its queries are settled, so this costs no time if none is lost
/// by it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time for a reply if lost queries wait for it: longer than other programs keep a thread of the test from a core.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// The time for a reply in a trial whose first query is lost by time.
const HASTE: Duration = Duration::from_millis(500);
const NAME: &str = "dns.test";
const WINDOW: LoadPlan = LoadPlan::Closed { outstanding: 16 };
const ONE: LoadPlan = LoadPlan::Closed { outstanding: 1 };

for_each_io!(
    kept_connections_are_opened_first_and_answer_all,
    each_connection_has_as_many_queries_as_it_may,
    queries_wait_for_streams_that_the_server_does_not_take,
    a_response_may_arrive_in_pieces_of_one_byte,
);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

const DNS: &str = "application/dns-message";

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A response on a stream, with literal fields.
fn response(stream: u32, status: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [(":status", status), ("content-type", content_type)] {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    [frame(HEADERS, END_HEADERS, stream, &block), frame(DATA, END_STREAM, stream, body)].concat()
}

/// The right response to a query.
fn right(stream: u32, message: &[u8]) -> Vec<u8> {
    response(stream, "200", DNS, &reply(message.to_vec())[2..])
}

/// GOAWAY without an error, after this last stream.
fn goaway(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

pub(crate) type Secured = StreamOwned<ServerConnection, TcpStream>;

/// A server's end of a connection.
pub(crate) struct Peer(pub(crate) Secured);

impl Peer {
    /// Sends frames together.
    pub(crate) fn send(&mut self, frames: &[u8]) {
        // A client that has gone is the test's to see.
        let _ = self.0.write_all(frames).and_then(|()| self.0.flush());
    }

    /// The next frame: its kind, flags, stream and payload; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, l0, l1, l2]) as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some((kind, flags, u32::from_be_bytes([s0, s1, s2, s3]), payload))
    }

    /// The next request by POST: its stream and its message; `None` at the end.
    fn request(&mut self) -> Option<(u32, Vec<u8>)> {
        loop {
            match self.next()? {
                (SETTINGS, 0, _, _) => self.send(&frame(SETTINGS, ACK, 0, &[])),
                (DATA, END_STREAM, stream, message) => return Some((stream, message)),
                _ => {}
            }
        }
    }
}

pub(crate) fn config(made: &Made, protocols: &[&str]) -> ServerConfig {
    let chain = CertificateDer::from_pem_slice(made.identity.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.identity.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![chain], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// A server in TLS that runs `serve` for each connection.
pub(crate) fn secured(config: ServerConfig, serve: impl Fn(Secured) + Send + Sync + 'static) -> Server {
    let config = Arc::new(config);
    Server::at("127.0.0.1:0", move |_, stream| {
        serve(StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream));
    })
}

/// A server that has these settings (name and value), and runs `serve` for each connection after its preface.
fn server(made: &Made, settings: &[(u16, u32)], serve: impl Fn(Peer) + Send + Sync + 'static) -> Server {
    let settings: Vec<u8> = settings
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    secured(config(made, &["h2"]), move |stream| {
        let mut peer = Peer(stream);
        let mut preface = [0; 24];
        if peer.0.read_exact(&mut preface).is_ok() {
            assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            peer.send(&frame(SETTINGS, 0, 0, &settings));
            serve(peer);
        }
    })
}

pub(crate) fn made() -> Made {
    make(KeyType::Ecdsa, &[NAME.into()]).unwrap()
}

pub(crate) fn kept(io: Io, connections: usize, made: &Made) -> TcpPlan {
    let client = ClientSettings::new(Trust::Ca(made.ca.clone()), true);
    let http = HttpPlan {
        method: Method::Post,
        authorities: vec![NAME.into()],
        paths: vec![kqps_http::PATH.into()],
    };
    TcpPlan {
        io,
        connections,
        queries_per_connection: None,
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: Duration::from_secs(5),
        buffer_bytes: None,
        tls: Some(TlsPlan { names: vec![NAME.into()], client, packing: false, http: Some(http) }),
        device: None,
        local_port: None,
    }
}

fn plan(target: SocketAddr, load: LoadPlan, tcp: TcpPlan) -> Plan {
    let plan = crate::support::plan(target, 1, load, Io::Auto);
    within(PATIENCE, Plan { wire: Wire::Tcp(tcp), ..plan })
}

fn http(connections: &ConnectionFacts) -> &HttpFacts {
    connections.http.as_ref().expect("the connections have HTTP")
}

/// Answers all queries of a connection.
fn answer_all(mut peer: Peer) {
    while let Some((stream, message)) = peer.request() {
        assert_eq!(message[..2], [0, 0], "the ID is 0 (RFC 8484, section 4.1)");
        peer.send(&right(stream, &message));
    }
}

fn kept_connections_are_opened_first_and_answer_all(io: Io) {
    let made = made();
    let server = server(&made, &[], answer_all);
    for threads in [1, 3] {
        let before = server.accepted.load(Relaxed);
        let (trial, connections) =
            played(1500, &Plan { threads, ..plan(server.address, WINDOW, kept(io, 6, &made)) });
        assert_eq!((trial.accounts.correct, trial.accounts.unsolicited), (1500, 0), "{:?}", trial.accounts);
        assert_eq!((connections.established, connections.before_load, connections.open), (6, 6, 6));
        assert_eq!((connections.handed, server.accepted.load(Relaxed) - before), (1500, 6));
        assert_eq!(trial.transport, Transport::Https);
        let facts = http(&connections);
        assert_eq!((facts.method.as_str(), &facts.paths[..]), ("post", &["/dns-query".to_owned()][..]));
        assert_eq!((facts.blocked, facts.goaways.len(), facts.resets.len()), (0, 0, 0));
    }
}

fn each_connection_has_as_many_queries_as_it_may(io: Io) {
    let made = made();
    let server = server(&made, &[], answer_all);
    let tcp = TcpPlan { queries_per_connection: Some(7), ..kept(io, 4, &made) };
    let (trial, connections) = played(210, &plan(server.address, WINDOW, tcp));
    assert_eq!(trial.accounts.correct, 210, "{:?}", trial.accounts);
    assert!((30..34).contains(&connections.established), "{connections:?}");
}

fn queries_wait_for_streams_that_the_server_does_not_take(io: Io) {
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let made = made();
    let server = server(&made, &[(MAX_CONCURRENT_STREAMS, 2)], |mut peer| {
        let mut open = Vec::new();
        while let Some(request) = peer.request() {
            open.push(request);
            assert!(open.len() <= 2, "the player knows the limit before the load begins");
            // The window is 16, so that two are always under way.
            if open.len() == 2 {
                open.drain(..).rev().for_each(|(stream, message)| peer.send(&right(stream, &message)));
            }
        }
    });
    let (trial, connections) = played(160, &plan(server.address, WINDOW, kept(io, 1, &made)));
    assert_eq!(trial.accounts.correct, 160, "{:?}", trial.accounts);
    let facts = http(&connections);
    assert!((140..160).contains(&facts.blocked) && facts.blocked_s > 0.0, "{facts:?}");
}

fn a_response_may_arrive_in_pieces_of_one_byte(io: Io) {
    let made = made();
    let server = server(&made, &[], |mut peer| {
        while let Some((stream, message)) = peer.request() {
            for byte in right(stream, &message) {
                peer.send(&[byte]);
            }
        }
    });
    let (trial, _) = played(40, &plan(server.address, WINDOW, kept(io, 2, &made)));
    assert_eq!(trial.accounts.correct, 40, "{:?}", trial.accounts);
}

#[test]
fn what_is_wrong_with_a_response_is_its_cause() {
    let made = made();
    let server = server(&made, &[], |mut peer| {
        let mut number = 0;
        while let Some((stream, message)) = peer.request() {
            let body = reply(message.clone())[2..].to_vec();
            let with_id = [&[0, 9][..], &body[2..]].concat();
            let bytes = match number % 8 {
                0 => response(stream, "503", "text/html", b"busy"),
                1 => response(stream, "404", DNS, &body),
                2 => response(stream, "200", "text/html", &body),
                3 => response(stream, "200", DNS, &with_id),
                4 => response(stream, "200", DNS, &[0]),
                5 => response(stream, "200", DNS, &message),
                6 => response(stream, "201", "Application/DNS-Message;a=b", &body),
                _ => right(stream, &message),
            };
            peer.send(&bytes);
            number += 1;
        }
    });
    let (trial, _) = played(80, &plan(server.address, ONE, kept(Io::Auto, 1, &made)));
    assert_eq!((trial.accounts.correct, trial.accounts.wrong), (20, 60), "{:?}", trial.accounts);
    let wrong = [
        ("status-503", 10),
        ("status-404", 10),
        ("content-type", 10),
        ("id", 10),
        ("short", 10),
        ("not-a-response", 10),
    ];
    assert_eq!(trial.wrong_causes, counts(wrong));
}

#[test]
fn a_stream_that_the_server_resets_is_lost_alone() {
    let made = made();
    let server = server(&made, &[], |mut peer| {
        let mut number = 0_u32;
        while let Some((stream, message)) = peer.request() {
            number += 1;
            let refused = frame(RST_STREAM, 0, stream, &7_u32.to_be_bytes());
            let cancelled = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
            peer.send(&match number % 5 {
                1 => refused,
                2 => cancelled,
                _ => right(stream, &message),
            });
        }
    });
    let plan = within(TIMEOUT, plan(server.address, WINDOW, kept(Io::Auto, 1, &made)));
    let (trial, connections) = played(50, &plan);
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (30, 20), "{:?}", trial.accounts);
    assert_eq!(trial.lost_causes, counts([("stream-reset", 20)]));
    assert_eq!((connections.established, connections.open), (1, 1), "the connection stays");
    assert_eq!(http(&connections).resets, counts([("CANCEL", 10), ("REFUSED_STREAM", 10)]));
}

#[test]
fn a_server_that_goes_away_after_its_answers_loses_nothing() {
    let made = made();
    let server = server(&made, &[], |mut peer| {
        for number in 1.. {
            let Some((stream, message)) = peer.request() else { return };
            let last = if number == 10 { goaway(stream) } else { Vec::new() };
            peer.send(&[right(stream, &message), last].concat());
        }
    });
    let (trial, connections) = played(100, &plan(server.address, ONE, kept(Io::Auto, 1, &made)));
    assert_eq!(trial.accounts.correct, 100, "{:?}", trial.accounts);
    assert_eq!((connections.established, connections.open), (10, 0), "{connections:?}");
    assert_eq!(connections.closed, counts([("goaway", 10)]));
    assert_eq!(http(&connections).goaways, counts([("NO_ERROR", 10)]));
}

#[test]
fn what_a_server_did_not_process_before_it_goes_away_is_lost_by_that() {
    let made = made();
    let server = server(&made, &[], |mut peer| {
        for number in 1.. {
            let Some((stream, message)) = peer.request() else { return };
            // The tenth is not processed.
            let bytes = if number == 10 { goaway(stream - 2) } else { right(stream, &message) };
            peer.send(&bytes);
        }
    });
    let plan = within(TIMEOUT, plan(server.address, ONE, kept(Io::Auto, 1, &made)));
    let (trial, connections) = played(20, &plan);
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (18, 2), "{:?}", trial.accounts);
    assert_eq!(trial.lost_causes, counts([("goaway", 2)]));
    assert_eq!(connections.closed, counts([("goaway", 2)]));
    assert_eq!((connections.established, connections.before_load), (2, 1));
}

#[test]
fn what_http_forbids_ends_a_connection_with_its_cause() {
    let made = made();
    let server = server(&made, &[], |mut peer| {
        if peer.request().is_some() {
            peer.send(&frame(DATA, 0, 0, b"of no stream"));
            while peer.next().is_some_and(|(kind, ..)| kind != GOAWAY) {}
        }
    });
    let plan = within(TIMEOUT, plan(server.address, ONE, kept(Io::Auto, 1, &made)));
    let (trial, connections) = played(2, &plan);
    assert_eq!(trial.lost_causes, counts([("framing", 2)]), "{connections:?}");
    assert_eq!(connections.closed, counts([("framing", 2)]));
    assert_eq!(http(&connections).failures.values().sum::<u64>(), 2);
    assert!(http(&connections).failures.keys().all(|what| what.starts_with("HTTP/2: ")));
}

#[test]
fn what_is_open_when_the_server_closes_is_lost_by_that() {
    let made = made();
    let server = server(&made, &[], |mut peer| {
        for _ in 0..9 {
            let Some((stream, message)) = peer.request() else { return };
            peer.send(&right(stream, &message));
        }
        if peer.request().is_some() {
            peer.0.conn.send_close_notify();
            let _ = peer.0.flush();
        }
    });
    let plan = within(TIMEOUT, plan(server.address, ONE, kept(Io::Auto, 1, &made)));
    let (trial, connections) = played(20, &plan);
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (18, 2), "{:?}", trial.accounts);
    assert_eq!((trial.lost_causes, connections.closed), (counts([("closed", 2)]), counts([("closed", 2)])));
}

#[test]
fn a_server_that_speaks_no_http_has_its_cause() {
    let made = made();
    for protocols in [&["dot"][..], &[]] {
        let server = secured(config(&made, protocols), |mut stream| while query(&mut stream).is_some() {});
        let tcp = TcpPlan { queries_per_connection: Some(1), ..kept(Io::Auto, 2, &made) };
        let (trial, connections) = played(4, &plan(server.address, WINDOW, tcp));
        assert_eq!(trial.lost_causes, counts([("alpn", 4)]), "{connections:?}");
        assert_eq!(connections.failed, counts([("alpn", connections.attempts)]));
        assert_eq!(connections.established, 0);
    }
}

#[test]
fn a_stream_without_a_response_is_given_up_and_makes_room() {
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let made = made();
    // The first request gets no response. With one stream at once, all others wait until it is cancelled.
    let server = server(&made, &[(MAX_CONCURRENT_STREAMS, 1)], |mut peer| {
        if peer.request().is_none() {
            return;
        }
        while let Some((stream, message)) = peer.request() {
            peer.send(&right(stream, &message));
        }
    });
    let load = LoadPlan::Open { rate_qps: 20.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let (trial, connections) =
        played(60, &within(HASTE, plan(server.address, load, kept(Io::Auto, 1, &made))));
    let accounts = &trial.accounts;
    assert!(accounts.lost >= 1 && accounts.correct > 0, "{accounts:?}");
    assert_eq!(accounts.correct + accounts.late + accounts.lost + accounts.unsent, 60, "{accounts:?}");
    assert_eq!((connections.established, connections.open), (1, 1));
}
