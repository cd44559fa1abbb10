//! TLS: what a server of any kind does in and after the handshake is in the accounts, with its cause.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use kqps_observation::trial::Transport;
use kqps_observation::{Accounts, ConnectionFacts, TlsFacts};
use kqps_player::plan::Arrivals;
use kqps_player::record::PACKED_AND_LOST;
use kqps_player::{Close, Io, LoadPlan, Plan, TcpPlan, TlsPlan, Wire};
use kqps_tls::certificate::{Authority, KeyType, Made, make_valid};
use kqps_tls::{ClientSettings, Trust};
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider, kx_group};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

use crate::connected::{counts, played};
use crate::loops::for_each_io;
use crate::patience::within;
use crate::records::{OneRecord, answer_first_of_each};
use crate::stream::{Server, query, reply};

/// How long a reply may take. A trial ends when all of its queries are settled, so this costs no time if none is lost
/// by it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time for a reply if lost queries wait for it: longer than other programs keep a thread of the test from a core.
const TIMEOUT: Duration = Duration::from_millis(1500);
const NAME: &str = "dns.test";
const WINDOW: LoadPlan = LoadPlan::Closed { outstanding: 16 };

for_each_io!(
    kept_connections_are_opened_first_and_both_sides_count_the_same,
    connections_resume_if_they_may,
    handshakes_alone_are_counted_by_kind_and_resume_if_they_may,
    records_and_replies_may_arrive_in_pieces_of_one_byte,
    other_failures_of_the_handshake_have_their_causes,
    what_a_server_leaves_open_when_it_closes_is_lost_by_that,
    a_server_that_answers_one_query_of_a_record_answers_all_unless_they_are_packed,
);

fn made(days: Range<i64>) -> Made {
    make_valid(KeyType::Ecdsa, &[NAME.into(), "127.0.0.1".into()], days).unwrap()
}

fn config(made: &Made) -> ServerConfig {
    let chain = CertificateDer::from_pem_slice(made.identity.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.identity.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![chain], key).unwrap();
    config.ticketer = Ticketer::new().unwrap();
    config
}

/// The handshakes that a server completed.
#[derive(Default)]
struct Handshakes {
    full: AtomicU64,
    retried: AtomicU64,
    resumed: AtomicU64,
}

impl Handshakes {
    fn all(&self) -> [u64; 3] {
        [&self.full, &self.retried, &self.resumed].map(|count| count.load(Relaxed))
    }
}

type Secured<S> = StreamOwned<ServerConnection, S>;

/// A server of TLS that runs `serve` for each connection whose handshake is complete. `wrap` is what lies between TLS
/// and TCP.
fn server<S: Read + Write + 'static>(
    config: ServerConfig,
    wrap: impl Fn(TcpStream) -> S + Send + Sync + 'static,
    serve: impl Fn(Secured<S>) + Send + Sync + 'static,
) -> (Server, Arc<Handshakes>) {
    let (config, handshakes) = (Arc::new(config), Arc::new(Handshakes::default()));
    let count = Arc::clone(&handshakes);
    let server = Server::at("127.0.0.1:0", move |_, stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut secured = StreamOwned::new(connection, wrap(stream));
        while secured.conn.is_handshaking() {
            if secured.conn.complete_io(&mut secured.sock).is_err() {
                return;
            }
        }
        let count = match secured.conn.handshake_kind().unwrap() {
            HandshakeKind::Full => &count.full,
            HandshakeKind::FullWithHelloRetryRequest => &count.retried,
            HandshakeKind::Resumed => &count.resumed,
        };
        count.fetch_add(1, Relaxed);
        serve(secured);
    });
    (server, handshakes)
}

/// Answers all queries of a connection.
fn answer_all<S: Read + Write>(mut stream: Secured<S>) {
    while let Some(message) = query(&mut stream) {
        if stream.write_all(&reply(message)).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

/// NSD 4.6.1 and dnsdist 1.7.3 answer the first query of a record, and the others when more arrives. This server never
/// answers the others.
fn a_server_that_answers_one_query_of_a_record_answers_all_unless_they_are_packed(io: Io) {
    let made = made(-1..1);
    let records = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&records);
    let (server, _) =
        server(config(&made), OneRecord::new, move |stream| answer_first_of_each(stream, &counted));
    let open = LoadPlan::Open { rate_qps: 20_000.0, arrivals: Arrivals::Even, window: None };
    let queries = 1000;
    for (packing, load) in [(false, WINDOW), (false, open), (true, open)] {
        let before = records.load(Relaxed);
        let mut tcp = kept(io, 2, NAME, settings(Trust::Ca(made.ca.clone())));
        tcp.tls.as_mut().unwrap().packing = packing;
        let patient = within(TIMEOUT, plan(server.address, tcp));
        let plan = Plan { load, coalesce: Duration::from_millis(1), ..patient };
        let (trial, connections) = played(queries as usize, &plan);
        let records = records.load(Relaxed) - before;
        let Accounts { sent, correct, lost, .. } = trial.accounts;
        assert_eq!((sent, correct, lost), (queries, records, queries - records), "{:?}", trial.accounts);
        assert_eq!(tls(&connections).packing, Some(packing));
        let is_noted = trial.players.first.notes.iter().any(|note| note == PACKED_AND_LOST);
        assert_eq!(is_noted, packing, "{:?}", trial.players.first.notes);
        let is_right = if packing { records < queries / 4 } else { records == queries };
        assert!(is_right, "{packing}: {records} records of {queries} queries");
    }
}

fn settings(trust: Trust) -> ClientSettings {
    ClientSettings::new(trust, true)
}

fn kept(io: Io, connections: usize, name: &str, client: ClientSettings) -> TcpPlan {
    TcpPlan {
        io,
        connections,
        queries_per_connection: None,
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: Duration::from_secs(5),
        buffer_bytes: None,
        tls: Some(TlsPlan { names: vec![name.into()], client, packing: false, http: None }),
        device: None,
        local_port: None,
    }
}

/// A new connection for each query, 4 at once.
fn one_each(io: Io, name: &str, client: ClientSettings) -> TcpPlan {
    TcpPlan { queries_per_connection: Some(1), ..kept(io, 4, name, client) }
}

fn plan(target: SocketAddr, tcp: TcpPlan) -> Plan {
    let plan = crate::support::plan(target, 1, WINDOW, Io::Auto);
    within(PATIENCE, Plan { wire: Wire::Tcp(tcp), ..plan })
}

fn tls(connections: &ConnectionFacts) -> &TlsFacts {
    connections.tls.as_ref().expect("the connections have TLS")
}

fn by_kind(facts: &TlsFacts) -> [u64; 3] {
    ["full", "retry", "resumed"].map(|kind| facts.handshakes.get(kind).copied().unwrap_or(0))
}

fn kept_connections_are_opened_first_and_both_sides_count_the_same(io: Io) {
    let made = made(-1..1);
    let (server, handshakes) = server(config(&made), |stream| stream, answer_all);
    for threads in [1, 3] {
        let before = (server.accepted.load(Relaxed), handshakes.all());
        let tcp = kept(io, 6, NAME, settings(Trust::Ca(made.ca.clone())));
        let (trial, connections) = played(3000, &Plan { threads, ..plan(server.address, tcp) });
        assert_eq!((trial.accounts.correct, trial.accounts.unsolicited), (3000, 0), "{:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established, connections.before_load), (6, 6, 6));
        assert_eq!((connections.open, connections.handed), (6, 3000));
        assert!(connections.failed.is_empty() && connections.closed.is_empty(), "{connections:?}");
        assert_eq!(trial.transport, Transport::Tls);
        let facts = tls(&connections);
        let ours = by_kind(facts);
        assert_eq!(ours.iter().sum::<u64>(), 6);
        let [full, retried, resumed] = handshakes.all();
        assert_eq!(ours, [full - before.1[0], retried - before.1[1], resumed - before.1[2]]);
        assert_eq!(server.accepted.load(Relaxed) - before.0, 6);
        let [session] = facts.sessions.as_slice() else { panic!("{:?}", facts.sessions) };
        assert_eq!((session.version.as_str(), session.connections), ("TLSv1.3", 6));
        assert_eq!(session.certificate.as_deref(), Some("ECDSA-P256"));
        assert!(trial.histograms.contains_key("handshake full") && facts.trust == "ca");
    }
}

fn connections_resume_if_they_may(io: Io) {
    let made = made(-1..1);
    let (server, handshakes) = server(config(&made), |stream| stream, answer_all);
    for resume in [true, false] {
        let before = handshakes.all();
        let client = ClientSettings { resume, ..settings(Trust::Ca(made.ca.clone())) };
        let (trial, connections) = played(200, &plan(server.address, one_each(io, "127.0.0.1", client)));
        assert_eq!(trial.accounts.correct, 200, "{:?}", trial.accounts);
        let facts = tls(&connections);
        let [full, retried, resumed] = handshakes.all();
        assert_eq!(by_kind(facts), [full - before[0], retried - before[1], resumed - before[2]]);
        let resumed = by_kind(facts)[2];
        assert_eq!(connections.established, 200, "{connections:?}");
        if resume {
            // The first connection at each of the four places has no ticket.
            assert!(resumed >= 196 && facts.tickets_received >= 200, "{facts:?}");
            assert_eq!(facts.tickets_offered, resumed, "the server takes every ticket");
        } else {
            // The server sends two with each handshake all the same.
            assert_eq!((resumed, facts.tickets_received, facts.tickets_offered), (0, 400, 0));
        }
    }
}

fn handshakes_alone_are_counted_by_kind_and_resume_if_they_may(io: Io) {
    let made = made(-1..1);
    let (server, handshakes) = server(
        config(&made),
        |stream| stream,
        |mut stream| {
            assert_eq!(query(&mut stream), None, "nothing is asked");
        },
    );
    for resume in [true, false] {
        let before = handshakes.all();
        let client = ClientSettings { resume, ..settings(Trust::Ca(made.ca.clone())) };
        let tcp = TcpPlan { queries_per_connection: Some(0), ..kept(io, 4, NAME, client) };
        let (trial, connections) = played(100, &plan(server.address, tcp));
        assert_eq!((trial.accounts.sent, trial.accounts.correct), (100, 100), "{:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established), (100, 100), "{connections:?}");
        let ended = connections.closed.get("player").copied().unwrap_or(0) + connections.open;
        assert_eq!(ended, 100, "{connections:?}");
        let ours = by_kind(tls(&connections));
        assert_eq!(ours.iter().sum::<u64>(), 100);
        // The server sees the end of the last handshakes a little later.
        let began = std::time::Instant::now();
        loop {
            let [full, retried, resumed] = handshakes.all();
            if ours == [full - before[0], retried - before[1], resumed - before[2]] {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{ours:?} {:?}", handshakes.all());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ours[2] > 0, resume, "{ours:?}");
    }
}

/// Answers with the first of its certificates for which the client takes a signature.
#[derive(Debug)]
struct Several(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Several {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |one: &&Arc<CertifiedKey>| one.key.choose_scheme(hello.signature_schemes()).is_some();
        self.0.iter().find(fits).cloned()
    }
}

#[test]
fn a_server_with_both_types_of_certificate_sends_the_one_that_was_asked_for() {
    let authority = Authority::new(KeyType::Ecdsa).unwrap();
    let provider = default_provider();
    let keys = [KeyType::Ecdsa, KeyType::Rsa].map(|key| {
        let identity = authority.issue(key, &[NAME.into()]).unwrap();
        let chain = CertificateDer::from_pem_slice(identity.chain.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        Arc::new(CertifiedKey::from_der(vec![chain], key, &provider).unwrap())
    });
    let builder = ServerConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = builder.with_cert_resolver(Arc::new(Several(keys.to_vec())));
    let (server, _) = server(config, |stream| stream, answer_all);
    for (certificate, name) in
        [(None, "ECDSA-P256"), (Some(KeyType::Rsa), "RSA-2048"), (Some(KeyType::Ecdsa), "ECDSA-P256")]
    {
        let trust = Trust::Ca(authority.certificate().to_owned());
        let client = ClientSettings { certificate, ..settings(trust) };
        let (trial, connections) = played(20, &plan(server.address, kept(Io::Epoll, 2, NAME, client)));
        assert_eq!(trial.accounts.correct, 20, "{:?}", trial.accounts);
        let [session] = tls(&connections).sessions.as_slice() else { panic!("{connections:?}") };
        assert_eq!(session.certificate.as_deref(), Some(name));
    }
}

#[test]
fn the_suite_and_the_group_are_those_that_were_asked_for() {
    let made = made(-1..1);
    let mut provider = default_provider();
    provider.kx_groups = vec![kx_group::SECP256R1, kx_group::SECP384R1];
    let chain = CertificateDer::from_pem_slice(made.identity.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.identity.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = builder.with_single_cert(vec![chain], key).unwrap();
    let (server, handshakes) = server(config, |stream| stream, answer_all);
    let client = ClientSettings {
        suites: vec!["TLS_AES_128_GCM_SHA256".parse().unwrap()],
        // The server does not take the first, and asks for another.
        groups: ["x25519", "secp384r1"].map(|group| group.parse().unwrap()).to_vec(),
        resume: false,
        ..settings(Trust::Ca(made.ca))
    };
    let (trial, connections) = played(40, &plan(server.address, kept(Io::Auto, 2, NAME, client)));
    assert_eq!(trial.accounts.correct, 40, "{:?}", trial.accounts);
    let facts = tls(&connections);
    assert_eq!((by_kind(facts), handshakes.all()), ([0, 2, 0], [0, 2, 0]));
    let [session] = facts.sessions.as_slice() else { panic!("{:?}", facts.sessions) };
    assert_eq!(
        (session.suite.as_str(), session.group.as_deref()),
        ("TLS_AES_128_GCM_SHA256", Some("secp384r1"))
    );
}

/// Bytes that arrive one by one.
struct OneByOne(TcpStream);

impl Read for OneByOne {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for OneByOne {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn records_and_replies_may_arrive_in_pieces_of_one_byte(io: Io) {
    let made = made(-1..1);
    let client = settings(Trust::Ca(made.ca.clone()));
    let (in_bytes, _) = server(config(&made), OneByOne, answer_all);
    let (in_records, _) = server(
        config(&made),
        |stream| stream,
        |mut stream| {
            while let Some(message) = query(&mut stream) {
                for byte in reply(message) {
                    stream.write_all(&[byte]).unwrap();
                    stream.flush().unwrap();
                }
            }
        },
    );
    for server in [in_bytes, in_records] {
        let (trial, connections) = played(60, &plan(server.address, kept(io, 2, NAME, client.clone())));
        assert_eq!((trial.accounts.correct, connections.established), (60, 2), "{:?}", trial.accounts);
        assert_eq!(server.accepted.load(Relaxed), 2);
    }
}

/// Failures with `TIME` in place of the time at which a certificate expired.
fn without_times(failures: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    const TIME: usize = "2026-01-31 23:59 UTC".len();
    let without = |name: &String| match name.split_once("expired at ") {
        Some((before, time)) if time.len() == TIME => format!("{before}expired at TIME"),
        _ => name.clone(),
    };
    failures.iter().map(|(name, count)| (without(name), *count)).collect()
}

/// Plays eight queries at a server whose handshakes fail, and checks that the cause is the only one.
fn assert_fails(
    (io, server): (Io, &Server),
    name: &str,
    client: ClientSettings,
    cause: &str,
    words: Option<&str>,
) {
    let (trial, connections) = played(8, &plan(server.address, one_each(io, name, client)));
    assert_eq!((trial.accounts.sent, trial.accounts.lost), (8, 8), "{cause}");
    assert_eq!(trial.lost_causes, counts([(cause, 8)]), "{connections:?}");
    assert_eq!((connections.established, connections.unfinished), (0, 0), "{connections:?}");
    assert_eq!(connections.failed, counts([(cause, connections.attempts)]));
    let failures = &tls(&connections).failures;
    match words {
        Some(words) => assert_eq!(without_times(failures), counts([(words, connections.attempts)])),
        None => assert!(failures.is_empty(), "{failures:?}"),
    }
}

#[test]
fn a_certificate_that_is_not_accepted_has_its_cause() {
    let (right, other, old) = (made(-1..1), made(-1..1), made(-9..-2));
    let (server_of_right, handshakes) = server(config(&right), |stream| stream, answer_all);
    let of_right = settings(Trust::Ca(right.ca.clone()));
    let certificate = |server: &Server, name: &str, client: ClientSettings, fault: &str| {
        let words = format!("certificate: {fault}");
        assert_fails((Io::Auto, server), name, client, "certificate", Some(&words));
    };
    certificate(&server_of_right, "other.test", of_right, "another name");
    certificate(&server_of_right, NAME, settings(Trust::Ca(other.ca)), "unknown issuer");
    let (server_of_old, _) = server(config(&old), |stream| stream, answer_all);
    certificate(&server_of_old, NAME, settings(Trust::Ca(old.ca)), "expired at TIME");
    assert_eq!(handshakes.all(), [0, 0, 0]);
    let unchecked = kept(Io::Auto, 2, "other.test", settings(Trust::Anyone));
    let (trial, connections) = played(20, &plan(server_of_old.address, unchecked));
    assert_eq!((trial.accounts.correct, tls(&connections).trust.as_str()), (20, "anyone"));
}

fn other_failures_of_the_handshake_have_their_causes(io: Io) {
    let made = made(-1..1);
    let client = || settings(Trust::Ca(made.ca.clone()));
    let mut of_web = config(&made);
    of_web.alpn_protocols = vec![b"h2".to_vec()];
    let (web, _) = server(of_web, |stream| stream, answer_all);
    assert_fails((io, &web), NAME, client(), "alpn", Some("no common application protocol"));
    let hello = |stream: &mut TcpStream| {
        let _ = stream.read(&mut [0; 1 << 14]);
    };
    let alarmed = Server::at("127.0.0.1:0", move |_, mut stream| {
        hello(&mut stream);
        stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).unwrap();
        let _ = stream.read(&mut [0; 16]);
    });
    assert_fails((io, &alarmed), NAME, client(), "tls-alert", Some("alert handshake_failure"));
    let resetting = Server::at("127.0.0.1:0", move |_, mut stream| {
        hello(&mut stream);
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    assert_fails((io, &resetting), NAME, client(), "reset", None);
    let closing = Server::at("127.0.0.1:0", move |_, mut stream| hello(&mut stream));
    assert_fails((io, &closing), NAME, client(), "closed", None);
    let silent = Server::at("127.0.0.1:0", move |_, mut stream| {
        hello(&mut stream);
        std::thread::sleep(Duration::from_secs(20));
    });
    let hasty = TcpPlan { connect_timeout: Duration::from_millis(100), ..one_each(io, NAME, client()) };
    let (trial, connections) = played(8, &plan(silent.address, hasty));
    assert_eq!(trial.lost_causes, counts([("connect-timeout", 8)]), "{connections:?}");
}

#[test]
fn a_server_without_tls_has_its_cause() {
    let server = Server::at("127.0.0.1:0", |_, mut stream| {
        let _ = stream.read(&mut [0; 1 << 14]);
        stream.write_all(b"\x00\x0c a message without TLS on it").unwrap();
        let _ = stream.read(&mut [0; 16]);
    });
    let tcp = one_each(Io::Auto, NAME, settings(Trust::Anyone));
    let (trial, connections) = played(8, &plan(server.address, tcp));
    assert_eq!(trial.lost_causes, counts([("tls", 8)]), "{connections:?}");
    assert_eq!(connections.failed, counts([("tls", connections.attempts)]));
}

fn what_a_server_leaves_open_when_it_closes_is_lost_by_that(io: Io) {
    let made = made(-1..1);
    let (server, _) = server(
        config(&made),
        |stream| stream,
        |mut stream| {
            for number in 0.. {
                let Some(message) = query(&mut stream) else { return };
                if number == 9 {
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                    return;
                }
                stream.write_all(&reply(message)).unwrap();
                stream.flush().unwrap();
            }
        },
    );
    let tcp = TcpPlan { outstanding: 1, ..kept(io, 1, NAME, settings(Trust::Ca(made.ca))) };
    let load = LoadPlan::Closed { outstanding: 1 };
    let plan = Plan { load, timeout: TIMEOUT, drain: TIMEOUT, ..plan(server.address, tcp) };
    let (trial, connections) = played(20, &plan);
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (18, 2), "{:?}", trial.accounts);
    assert_eq!(trial.lost_causes, counts([("closed", 2)]));
    assert_eq!(connections.closed, counts([("closed", 2)]));
    assert_eq!((connections.established, connections.before_load), (2, 1));
}
