//! TCP past the kernel, over a veth pair: connections are made, used and closed without the kernel. They are accounted
//! for as those of its sockets are.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use kqps_observation::{ConnectionFacts, Trial};
use kqps_player::{Arrivals, Close, Io, LoadPlan, Plan, TcpPlan, TlsPlan, Wire};
use kqps_skips::{Capability, skip};
use kqps_tls::certificate::{KeyType, make};
use kqps_tls::{ClientSettings, Trust};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::connected::{counts, played};
use crate::past::{FAR, Networks};
use crate::stream::{Server, query, reply};

/// Longer than other programs keep the server of a test from a core.
const TIMEOUT: Duration = Duration::from_millis(1500);
const WINDOW: LoadPlan = LoadPlan::Closed { outstanding: 16 };
const ONE: LoadPlan = LoadPlan::Closed { outstanding: 1 };

fn kept(connections: usize) -> TcpPlan {
    TcpPlan {
        io: Io::Xdp,
        connections,
        queries_per_connection: None,
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: Duration::from_secs(5),
        buffer_bytes: None,
        tls: None,
        device: None,
        local_port: None,
    }
}

fn one_each(connections: usize) -> TcpPlan {
    TcpPlan { queries_per_connection: Some(1), ..kept(connections) }
}

fn plan(target: SocketAddr, load: LoadPlan, tcp: TcpPlan) -> Plan {
    let plan = crate::support::plan(target, 1, load, Io::Auto);
    Plan { wire: Wire::Tcp(tcp), timeout: TIMEOUT, drain: TIMEOUT, ..plan }
}

/// A server at the far end.
fn server(networks: &Networks, serve: impl Fn(u64, TcpStream) + Send + Sync + 'static) -> Server {
    networks.far(move || Ok(Server::at((FAR, 0), serve)))
}

/// Answers all queries of a connection.
fn answer_all(mut stream: TcpStream) {
    while let Some(message) = query(&mut stream) {
        if stream.write_all(&reply(message)).is_err() {
            return;
        }
    }
}

/// Plays `count` queries once, in the near network.
fn play(networks: &Networks, count: usize, plan: &Plan) -> (Trial, ConnectionFacts) {
    networks.near(|| played(count, plan))
}

/// Counters of the near kernel's TCP by name (`/proc/net/snmp`).
fn kernel_tcp(networks: &Networks, names: [&str; 3]) -> [u64; 3] {
    let text = networks.near(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (heads, values) = (lines.next().unwrap(), lines.next().unwrap());
    let all: Vec<(&str, &str)> = heads.split(' ').zip(values.split(' ')).collect();
    names.map(|name| all.iter().find(|(head, _)| *head == name).unwrap().1.parse().unwrap())
}

#[test]
fn a_connection_for_each_query_is_made_and_closed_without_the_kernel() {
    let Some(networks) = Networks::new(1) else { return };
    let server = server(&networks, |_, stream| answer_all(stream));
    for close in [Close::Fin, Close::Rst] {
        let before = server.accepted.load(Relaxed);
        let tcp = TcpPlan { close, ..one_each(8) };
        let (trial, connections) = play(&networks, 700, &plan(server.address, WINDOW, tcp));
        assert_eq!(trial.accounts.correct, 700, "{:?} {connections:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established), (700, 700), "{connections:?}");
        let closed = connections.closed.get("player").copied().unwrap_or(0);
        assert_eq!(closed + connections.open, 700, "{connections:?}");
        assert_eq!(server.accepted.load(Relaxed) - before, 700);
        assert_eq!((trial.players.first.io.as_str(), connections.ports_in_use), ("xdp", 0));
    }
    assert_eq!(kernel_tcp(&networks, ["ActiveOpens", "InSegs", "OutRsts"]), [0, 0, 0]);
}

#[test]
fn kept_connections_are_opened_first_and_answer_all() {
    for threads in [1, 2] {
        // With two queues a segment may come by that of the other thread.
        let Some(networks) = Networks::new(threads as u32) else { return };
        let server = server(&networks, |_, stream| answer_all(stream));
        let open = LoadPlan::Open { rate_qps: 5_000.0, arrivals: Arrivals::Even, window: None };
        for load in [WINDOW, open] {
            let plan = Plan { threads, ..plan(server.address, load, kept(6)) };
            let (trial, connections) = play(&networks, 3000, &plan);
            let accounts = &trial.accounts;
            assert_eq!((accounts.correct + accounts.unsent, accounts.unsolicited), (3000, 0), "{accounts:?}");
            // A window waits for room, and an open load loses little on a busy host.
            let least = if load == WINDOW { 3000 } else { 1500 };
            assert!(accounts.correct >= least, "{accounts:?}");
            assert_eq!((connections.attempts, connections.established, connections.before_load), (6, 6, 6));
            assert_eq!((connections.open, connections.handed), (6, accounts.sent));
            assert!(connections.failed.is_empty() && connections.closed.is_empty(), "{connections:?}");
        }
    }
}

#[test]
fn replies_may_arrive_in_pieces_and_be_long() {
    let Some(networks) = Networks::new(1) else { return };
    let server = server(&networks, |number, mut stream| {
        while let Some(message) = query(&mut stream) {
            let mut reply = reply(message);
            if number == 0 {
                for byte in reply {
                    stream.write_all(&[byte]).unwrap();
                }
            } else {
                // Bytes after the last record are ignored.
                let length = 20_000;
                reply.resize(length + 2, 0);
                reply[..2].copy_from_slice(&(length as u16).to_be_bytes());
                stream.write_all(&reply).unwrap();
            }
        }
    });
    let (trial, _) = play(&networks, 300, &plan(server.address, WINDOW, kept(2)));
    assert_eq!(trial.accounts.correct, 300, "{:?}", trial.accounts);
}

#[test]
fn ends_and_refusals_have_their_causes() {
    let Some(networks) = Networks::new(1) else { return };
    // Each connection answers nine queries and closes with the tenth open.
    let closing = server(&networks, |_, mut stream| {
        for number in 0.. {
            let Some(message) = query(&mut stream) else { return };
            if number == 9 {
                return;
            }
            stream.write_all(&reply(message)).unwrap();
        }
    });
    let tcp = TcpPlan { outstanding: 1, ..kept(1) };
    let (trial, connections) = play(&networks, 20, &plan(closing.address, ONE, tcp));
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (18, 2), "{:?}", trial.accounts);
    assert_eq!((trial.lost_causes, connections.closed), (counts([("closed", 2)]), counts([("closed", 2)])));
    let resetting = server(&networks, |_, mut stream| {
        let _ = query(&mut stream);
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    let (trial, connections) = play(&networks, 8, &plan(resetting.address, WINDOW, one_each(4)));
    assert_eq!((trial.lost_causes, connections.closed), (counts([("reset", 8)]), counts([("reset", 8)])));
    let closed = networks.far(|| TcpListener::bind((FAR, 0))?.local_addr());
    let (trial, connections) = play(&networks, 8, &plan(closed, WINDOW, one_each(4)));
    assert_eq!((trial.accounts.lost, trial.lost_causes), (8, counts([("refused", 8)])));
    assert_eq!((connections.attempts, connections.established), (connections.failed["refused"], 0));
}

#[test]
fn requests_that_are_sent_again_are_counted() {
    if let Err(error) = std::process::Command::new("nft").arg("--version").output() {
        skip(Capability::Programs, format!("nft: {error}"));
        return;
    }
    let Some(networks) = Networks::new(1) else { return };
    // No host has this address, and the subject's network drops what is for it.
    networks.far(|| {
        let drop = "ip addr add 198.18.0.3/24 dev kqps0; nft 'add table ip t; \
                    add chain ip t in { type filter hook input priority 0; }; \
                    add rule ip t in ip daddr 198.18.0.3 drop'";
        let output = std::process::Command::new("sh").args(["-ec", drop]).output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    });
    let silent = SocketAddr::from(([198, 18, 0, 3], 53));
    let tcp = TcpPlan { connect_timeout: Duration::from_millis(1500), ..one_each(2) };
    let patience = Duration::from_secs(10);
    let plan = plan(silent, WINDOW, tcp);
    let (trial, connections) = play(&networks, 2, &Plan { timeout: patience, drain: patience, ..plan });
    assert_eq!(trial.lost_causes, counts([("connect-timeout", 2)]), "{connections:?}");
    assert_eq!((connections.attempts, connections.connections_with_retransmitted_syn), (2, 2));
    assert_eq!(connections.retransmitted, 2);
    let notes = &trial.players.first.notes;
    assert!(notes.iter().any(|note| note.contains("2 were SYNs")), "{notes:?}");
}

#[test]
fn connections_alone_are_made_and_closed_and_nothing_is_asked() {
    let Some(networks) = Networks::new(1) else { return };
    let server = server(&networks, |_, mut stream| {
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or(0), 0, "nothing is asked");
    });
    for close in [Close::Fin, Close::Rst] {
        let before = server.accepted.load(Relaxed);
        // Every place is used again, and there is time for further requests if the server's queue is full: each
        // connection is made, even if the server stands still.
        let tcp = TcpPlan { queries_per_connection: Some(0), close, ..kept(64) };
        let load = LoadPlan::Closed { outstanding: 64 };
        let patience = Duration::from_secs(10);
        let plan = Plan { timeout: patience, drain: patience, ..plan(server.address, load, tcp) };
        let (trial, connections) = play(&networks, 400, &plan);
        assert_eq!((trial.accounts.sent, trial.accounts.correct), (400, 400), "{:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established), (400, 400), "{connections:?}");
        let closed = connections.closed.get("player").copied().unwrap_or(0);
        assert_eq!(closed + connections.open, 400, "{connections:?}");
        let began = std::time::Instant::now();
        while server.accepted.load(Relaxed) - before < 400 {
            assert!(began.elapsed() < Duration::from_secs(10), "the server misses connections");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn tls_needs_no_more_than_connections() {
    const NAME: &str = "dns.test";
    let Some(networks) = Networks::new(1) else { return };
    let made = make(KeyType::Ecdsa, &[NAME.into()]).unwrap();
    let chain = CertificateDer::from_pem_slice(made.identity.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.identity.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(vec![chain], key).unwrap());
    let server = server(&networks, move |_, stream| {
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
        while let Some(message) = query(&mut stream) {
            if stream.write_all(&reply(message)).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    });
    let client = ClientSettings::new(Trust::Ca(made.ca), true);
    let tls = Some(TlsPlan { names: vec![NAME.into()], client, packing: false, http: None });
    for tcp in [kept(3), one_each(3)] {
        let tcp = TcpPlan { tls: tls.clone(), ..tcp };
        let (trial, connections) = play(&networks, 60, &plan(server.address, WINDOW, tcp));
        assert_eq!(trial.accounts.correct, 60, "{:?} {connections:?}", trial.accounts);
        let handshakes = connections.tls.as_ref().expect("it is over TLS").handshakes.values().sum::<u64>();
        assert_eq!(handshakes, connections.established);
    }
}
