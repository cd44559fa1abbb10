//! Servers in TLS: the answers of UDP, within the limits of connections, and with a client that is not kqps.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kqps_kernel::process::Signal;
use kqps_tls::fuzz::VainClient;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::running::{Running, serve};
use crate::auth::connections::{IDLE, ask_cut_and_joined};
use crate::auth::dns::{A, TXT, ask, ask_by, connect, framed, next, query, query_edns};

const ZONE: &str = "$ORIGIN tls.test.\n$TTL 300\n@ SOA ns1 host 1 3600 600 86400 60\n@ NS ns1\n\
    ns1 A 192.0.2.1\nwww A 192.0.2.80\ntext TXT \"a text\"\n";

/// The option that asks for padding, with two bytes of it (RFC 7830).
const PADDING: [u8; 6] = [0, 12, 0, 2, 0, 0];

const BLOCK_BYTES: usize = 468;

/// The option that asks for the idle time, and the one that has an idle time of 30 s (RFC 7828).
const KEEPALIVE: [u8; 4] = [0, 11, 0, 0];
const IDLE_30_S: [u8; 6] = [0, 11, 0, 2, 1, 44];

/// A query with an option in its OPT record.
fn with_option(mut query: Vec<u8>, option: &[u8]) -> Vec<u8> {
    let data_bytes = query.len() - 2;
    query[data_bytes..].copy_from_slice(&(option.len() as u16).to_be_bytes());
    query.extend(option);
    query
}

/// A server for TLS, beside its other addresses.
struct Rig {
    server: Running,
    address: SocketAddr,
    roots: RootCertStore,
}

impl Rig {
    fn new(kind: &str, flags: &[&str]) -> Self {
        let listen = ["--listen", "127.0.0.1:0", "--listen", "tls://127.0.0.1:0"];
        let server = Running::start_as(kind, &[&listen[..], flags].concat());
        let address = server.ready["tls"][0].as_str().unwrap().parse().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(server.ready["ca"].as_str().unwrap()).unwrap()).unwrap();
        Self { server, address, roots }
    }

    /// The TLS of a client that offers these protocols.
    fn client(&self, protocols: &[&str]) -> ClientConnection {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        ClientConnection::new(Arc::new(config), ServerName::try_from("127.0.0.1").unwrap()).unwrap()
    }

    fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        StreamOwned::new(self.client(&["dot"]), connect(self.address))
    }

    fn ended(self) -> Vec<(String, u64)> {
        self.server.stop(Signal::Terminate).tcp.unwrap().ended.into_iter().collect()
    }
}

/// Reads until the server has closed the connection. It may send an alert first.
fn wait_for_the_end(stream: &mut TcpStream) {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

/// Sends records without a byte of a query until `stop` is set.
fn send_in_vain(address: SocketAddr, stop: &AtomicBool) {
    let mut socket = connect(address);
    let (mut client, first) = VainClient::new(kqps_tls::ALPN);
    socket.write_all(&first).unwrap();
    let mut buffer = vec![0; 1 << 14];
    let answer = loop {
        let bytes = socket.read(&mut buffer).unwrap();
        assert!(bytes > 0, "the server closed the connection");
        if let Some(answer) = client.answer(&buffer[..bytes]) {
            break answer;
        }
    };
    socket.write_all(&answer).unwrap();
    while !stop.load(Relaxed) {
        socket.write_all(&client.records(500)).unwrap();
    }
}

/// Sets a flag when it is dropped, so that a failed test ends, too.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn clients_whose_records_are_all_empty_hold_up_no_other() {
    /// Each waits for records of the others, half a second at most without optimisation.
    const QUERIES: u16 = 20;
    // Such clients make no progress, which ends their connections after the idle time.
    let rig = Rig::new("echo", &["--threads", "1", "--tcp-idle", "10m"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        (0..3).for_each(|_| drop(scope.spawn(|| send_in_vain(rig.address, &stop))));
        let mut stream = rig.connect();
        for id in 0..QUERIES {
            let query = query(id, "www.tls.test", A);
            assert_eq!(ask_by(&mut stream, &query).id(), id);
        }
        drop(stopping);
    });
    let tcp = rig.server.stop(Signal::Terminate).tcp.unwrap();
    let queries = u64::from(QUERIES);
    assert_eq!((tcp.received, tcp.answered, tcp.connections), (queries, queries, 4));
    assert!(!tcp.ended.contains_key("tls"), "{:?}", tcp.ended);
}

/// Bytes that leave one by one.
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

#[test]
fn answers_are_those_of_udp_and_padded_if_the_query_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("tls.test.zone");
    std::fs::write(&zone, ZONE).unwrap();
    let rig = Rig::new("auth", &["--zone", zone.to_str().unwrap()]);
    let mut stream = rig.connect();
    for query in [
        query(1, "www.tls.test", A),
        query(2, "none.tls.test", A),
        query_edns(3, "text.tls.test", TXT, 1232),
        query_edns(4, "www.elsewhere.test", A, 1232),
    ] {
        assert_eq!(ask_by(&mut stream, &query), ask(rig.server.addresses[0], &query));
    }
    let asking = with_option(query_edns(5, "text.tls.test", TXT, 1232), &PADDING);
    let (padded, plain) = (ask_by(&mut stream, &asking), ask(rig.server.addresses[0], &asking));
    assert_eq!((padded.0.len(), padded.records()), (BLOCK_BYTES, plain.records()));
    assert!(plain.0.len() < BLOCK_BYTES, "only replies in TLS are padded");
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"dot"[..]));
    drop(stream);
    let tcp = rig.server.stop(Signal::Terminate).tcp.unwrap();
    assert_eq!((tcp.connections, tcp.received, tcp.answered), (1, 5, 5));
    assert_eq!(tcp.handshakes, [("full".to_owned(), 1)].into());
}

#[test]
fn clients_by_tcp_and_tls_learn_the_idle_time_if_they_ask_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("tls.test.zone");
    std::fs::write(&zone, ZONE).unwrap();
    let rig = Rig::new("auth", &["--zone", zone.to_str().unwrap(), "--tcp-idle", "30s"]);
    let plain = query_edns(1, "www.tls.test", A, 1232);
    let (asking, timed) = (with_option(plain.clone(), &KEEPALIVE), with_option(plain.clone(), &IDLE_30_S));
    let by_udp = ask(rig.server.addresses[0], &plain);
    assert_eq!(ask(rig.server.addresses[0], &asking), by_udp, "the option is ignored over UDP");
    let expected = with_option(by_udp.0.clone(), &IDLE_30_S);
    let (mut tcp, mut tls) = (connect(rig.server.addresses[0]), rig.connect());
    let mut by_both = |query: &[u8]| [ask_by(&mut tcp, query).0, ask_by(&mut tls, query).0];
    assert_eq!(by_both(&asking), [expected.clone(), expected]);
    for without in [&plain, &timed] {
        assert_eq!(by_both(without), [by_udp.0.clone(), by_udp.0.clone()], "no time is asked for");
    }
}

#[test]
fn the_issuer_of_a_killed_server_is_removed_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = serve(&["--listen", "tls://127.0.0.1:0", "--json"]);
        Running::from_child(command.env("TMPDIR", folder.path()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let issuer = |server: &Running| PathBuf::from(server.ready["ca"].as_str().unwrap());
    let mut killed = start();
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let left_behind = issuer(&killed);
    assert!(left_behind.starts_with(folder.path()) && left_behind.exists());
    let [one, other] = [start(), start()];
    assert!(!left_behind.exists() && issuer(&one).exists() && issuer(&other).exists());
    one.stop(Signal::Terminate);
    other.stop(Signal::Terminate);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn messages_may_be_cut_and_joined_and_records_arrive_byte_by_byte() {
    let rig = Rig::new("echo", &[]);
    let echoed = |id: u16| {
        let mut reply = query(id, "www.auth.test", A);
        reply[2] |= 0x80;
        reply
    };
    let mut slow = StreamOwned::new(rig.client(&[]), OneByOne(connect(rig.address)));
    for id in 0..5 {
        assert_eq!(ask_by(&mut slow, &query(id, "www.auth.test", A)).0, echoed(id));
    }
    drop(slow);
    let mut stream = rig.connect();
    ask_cut_and_joined(&mut stream, 500, |stream, count| {
        for id in 0..count {
            assert_eq!(next(stream).0, echoed(id));
        }
    });
    let mut longest = query(7, "www.auth.test", A);
    longest.resize(65_535, 0);
    let reply = ask_by(&mut stream, &longest).0;
    assert!(reply.len() == longest.len() && reply[3..] == longest[3..]);
}

#[test]
fn clients_that_do_not_speak_tls_or_not_at_all_are_closed() {
    let rig = Rig::new("echo", &["--tcp-idle", IDLE]);
    // A query without TLS.
    let mut plain = connect(rig.address);
    plain.write_all(&framed(&query(1, "www.auth.test", A))).unwrap();
    wait_for_the_end(&mut plain);
    // The beginning of a handshake.
    let mut hello = Vec::new();
    rig.client(&["dot"]).write_tls(&mut hello).unwrap();
    let mut silent = connect(rig.address);
    silent.write_all(&hello[..hello.len() / 2]).unwrap();
    wait_for_the_end(&mut silent);
    let mut of_web = StreamOwned::new(rig.client(&["h2"]), connect(rig.address));
    assert!(of_web.write_all(b"a").and_then(|()| of_web.flush()).is_err());
    drop(of_web);
    assert_eq!(rig.ended(), [("idle".to_owned(), 1), ("tls".to_owned(), 2)]);
}
