//! Early data over TLS: a server that forgets sessions rejects it, and its queries are sent again.

mod connected;
mod loops;
mod stream;
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use connected::{counts, played};
use kqps_player::{Close, Io, LoadPlan, Plan, TcpPlan, TlsPlan, Wire};
use kqps_tls::certificate::{KeyType, make};
use kqps_tls::{Acceptor, ClientSettings, Kind, Trust};
use loops::for_each_io;
use stream::{Server, query, reply};

const TIMEOUT: Duration = Duration::from_secs(2);
const NAME: &str = "dns.test";
const PLACES: usize = 4;

for_each_io!(early_data_is_answered_once_whether_it_is_taken_or_rejected);

/// The handshakes that a server completed, by [`Kind::number`].
#[derive(Default)]
struct Handshakes([AtomicU64; Kind::NAMES.len()]);

impl Handshakes {
    fn of(&self, kind: Kind) -> u64 {
        self.0[kind.number()].load(Relaxed)
    }
}

/// A server that breaks connections closes this one of each hundred when it has read the first bytes.
const BROKEN: u64 = 50;

/// Answers all queries of a connection, early ones before the handshake is complete. With `is_broken` it answers nothing.
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
            handshakes.0[tls.session().kind.number()].fetch_add(1, Relaxed);
        }
        let mut rest = plain.as_slice();
        while let Some(message) = query(&mut rest) {
            tls.seal(&reply(message), &mut outgoing).unwrap();
        }
        plain = rest.to_vec();
        socket.write_all(&std::mem::take(&mut outgoing)).ok()?;
    }
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
        let trust = Trust::Ca(made.ca.clone());
        let client = ClientSettings { early_data: true, ..ClientSettings::new(trust, true) };
        let tcp = TcpPlan {
            buffer_bytes: None,
            io,
            connections: PLACES,
            queries_per_connection: Some(1),
            outstanding: 1 << 16,
            close: Close::Fin,
            connect_timeout: TIMEOUT,
            tls: Some(TlsPlan { names: vec![NAME.into()], client, http: None }),
            device: None,
            local_port: None,
        };
        let plan = support::plan(server.address, 1, LoadPlan::Closed { outstanding: 4 }, Io::Auto);
        let (trial, connections) =
            played(300, &Plan { wire: Wire::Tcp(tcp), timeout: TIMEOUT, drain: TIMEOUT, ..plan });
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
        // The server sees the end of the last handshakes a little later.
        let began = Instant::now();
        while [handshakes.of(Kind::Early), handshakes.of(Kind::Full)] != [ours["0-rtt"], ours["full"]] {
            assert!(began.elapsed() < Duration::from_secs(10), "{:?} {ours:?}", handshakes.0);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
