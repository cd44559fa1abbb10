//! Early data over TLS: a server that forgets sessions rejects it, and its queries are sent again.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kqps_player::{Close, Io, LoadPlan, Plan, TcpPlan, TlsPlan, Wire};
use kqps_tls::certificate::{KeyType, Made, make};
use kqps_tls::{Acceptor, ClientSettings, Kind, Session, Trust};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::connected::{counts, played};
use crate::loops::for_each_io;
use crate::stream::{Server, query, reply};

const TIMEOUT: Duration = Duration::from_secs(2);
const NAME: &str = "dns.test";
const PLACES: usize = 4;

for_each_io!(early_data_is_answered_once_whether_it_is_taken_or_rejected);

/// The handshakes that a server completed, by [`Kind::number`].
#[derive(Default)]
struct Handshakes([AtomicU64; Kind::NAMES.len()]);

impl Handshakes {
    fn add(&self, kind: Kind) {
        self.0[kind.number()].fetch_add(1, Relaxed);
    }

    /// The server sees the end of the last handshakes a little later than the client.
    fn become_those_of_the_client(&self, ours: &BTreeMap<String, u64>) {
        let ours = Kind::NAMES.map(|kind| ours.get(kind).copied().unwrap_or(0));
        let began = Instant::now();
        while self.0.each_ref().map(|count| count.load(Relaxed)) != ours {
            assert!(began.elapsed() < Duration::from_secs(10), "{:?} {ours:?}", self.0);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A server that breaks connections closes this one of each hundred when it has read the first bytes.
const BROKEN: u64 = 50;

/// Answers all queries of a connection, early ones before the handshake is complete. With `is_broken` it answers
/// nothing.
fn serve(acceptor: &Acceptor, mut socket: TcpStream, is_broken: bool, handshakes: &Handshakes) -> Option<()> {
    let mut tls = acceptor.accept().unwrap();
    let (mut plain, mut outgoing, mut buffer) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    let mut is_counted = false;
    loop {
        let bytes = socket.read(&mut buffer).ok().filter(|bytes| *bytes > 0)?;
        if is_broken {
            return None;
        }
        let mut records = [tls.kept(), &buffer[..bytes]].concat();
        tls.open(&mut records, &mut plain, &mut outgoing).ok()?;
        if tls.is_established() && !std::mem::replace(&mut is_counted, true) {
            handshakes.add(tls.session().kind);
        }
        let mut rest = plain.as_slice();
        while let Some(message) = query(&mut rest) {
            tls.seal(&reply(message), &mut outgoing).unwrap();
        }
        plain = rest.to_vec();
        socket.write_all(&std::mem::take(&mut outgoing)).ok()?;
    }
}

/// A new connection for each query, with early data if there is a ticket, and these groups, if any.
fn plan(server: &Server, made: &Made, io: Io, groups: &[&str]) -> Plan {
    let groups = groups.iter().map(|group| group.parse().unwrap()).collect();
    let trust = Trust::Ca(made.ca.clone());
    let client = ClientSettings { early_data: true, groups, ..ClientSettings::new(trust, true) };
    let tcp = TcpPlan {
        buffer_bytes: None,
        io,
        connections: PLACES,
        queries_per_connection: Some(1),
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: TIMEOUT,
        tls: Some(TlsPlan { names: vec![NAME.into()], client, packing: false, http: None }),
        device: None,
        local_port: None,
    };
    let plan = crate::support::plan(server.address, 1, LoadPlan::Closed { outstanding: 4 }, Io::Auto);
    Plan { wire: Wire::Tcp(tcp), timeout: TIMEOUT, drain: TIMEOUT, ..plan }
}

fn early_data_is_answered_once_whether_it_is_taken_or_rejected(io: Io) {
    let made = make(KeyType::Ecdsa, &[NAME.into()]).unwrap();
    // Each of these knows its own sessions alone.
    for (servers, breaks) in [(1, false), (2, false), (1, true)] {
        let acceptor = || Acceptor::over_tcp(kqps_tls::ALPN, &made.identity, true).unwrap();
        let acceptors: Vec<Acceptor> = (0..servers).map(|_| acceptor()).collect();
        let handshakes = Arc::new(Handshakes::default());
        let counted = Arc::clone(&handshakes);
        let server = Server::at("127.0.0.1:0", move |number, socket| {
            let is_broken = breaks && number % 100 == BROKEN;
            serve(&acceptors[number as usize % acceptors.len()], socket, is_broken, &counted);
        });
        let plan = plan(&server, &made, io, &[]);
        let (trial, connections) = played(300, &plan);
        let broken = if breaks { 3 } else { 0 };
        let accounts = &trial.accounts;
        assert_eq!((accounts.correct, accounts.lost, accounts.unsolicited), (300 - broken, broken, 0));
        let facts = connections.early_data().expect("it was asked for");
        assert_eq!(connections.check(300), Ok(()));
        assert_eq!((connections.failed.values().sum::<u64>(), facts.undecided), (broken, broken));
        assert_eq!((facts.queries, facts.queries_again), (facts.offered, facts.rejected), "{facts:?}");
        if servers == 1 {
            // The first connection at each place has no ticket.
            assert!(facts.accepted >= 300 - PLACES as u64 - broken && facts.rejected == 0, "{facts:?}");
        } else {
            assert!(facts.accepted > 0 && facts.rejected > 0, "{facts:?}");
        }
        assert_eq!((server.accepted.load(Relaxed), connections.attempts), (300, 300));
        let ours = &connections.tls.as_ref().unwrap().handshakes;
        let expected = counts([("0-rtt", facts.accepted), ("full", 300 - broken - facts.accepted)]);
        assert_eq!(*ours, expected);
        handshakes.become_those_of_the_client(ours);
    }
}

/// A server that has one group alone, and no early data.
fn of_one_group(made: &Made) -> Arc<ServerConfig> {
    let mut provider = default_provider();
    provider.kx_groups = vec![kx_group::SECP384R1];
    let chain = CertificateDer::from_pem_slice(made.identity.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.identity.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(builder.with_single_cert(vec![chain], key).unwrap())
}

/// Answers all queries of a connection, none of them early.
fn serve_one_group(config: &Arc<ServerConfig>, socket: TcpStream, handshakes: &Handshakes) {
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), socket);
    while let Some(message) = query(&mut stream) {
        stream.write_all(&reply(message)).and_then(|()| stream.flush()).unwrap();
    }
    handshakes.add(Session::from_state(&stream.conn).kind);
}

#[test]
fn early_data_is_rejected_if_the_server_asks_for_another_group() {
    let made = make(KeyType::Ecdsa, &[NAME.into()]).unwrap();
    // Every other connection reaches a server that gives no tickets for early data.
    let takes = Acceptor::over_tcp(kqps_tls::ALPN, &made.identity, true).unwrap();
    let asks = of_one_group(&made);
    let handshakes = Arc::new(Handshakes::default());
    let counted = Arc::clone(&handshakes);
    let server = Server::at("127.0.0.1:0", move |number, socket| {
        if number % 2 == 0 {
            serve(&takes, socket, false, &counted);
        } else {
            serve_one_group(&asks, socket, &counted);
        }
    });
    let (trial, connections) = played(100, &plan(&server, &made, Io::Auto, &["x25519", "secp384r1"]));
    let accounts = &trial.accounts;
    assert_eq!((accounts.correct, accounts.lost, accounts.unsolicited), (100, 0, 0));
    let facts = connections.early_data().expect("it was asked for");
    assert_eq!((connections.check(100), facts.undecided), (Ok(()), 0), "{facts:?}");
    assert_eq!((facts.queries, facts.queries_again), (facts.offered, facts.rejected), "{facts:?}");
    let ours = &connections.tls.as_ref().unwrap().handshakes;
    assert!(facts.rejected > 0 && ours["retry"] > 0, "{facts:?} {ours:?}");
    handshakes.become_those_of_the_client(ours);
}
