//! Early data at the echo: what may not be replayed waits for the handshake, or over HTTPS gets status 425.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use kqps_http::{ClientSession, Fate, Method, PATH, Requests};
use kqps_kernel::process::Signal;
use kqps_server::connections::TcpReport;
use kqps_tls::client::server_name;
use kqps_tls::{Client, ClientSettings, ClientTls, Connector, Trust};

use super::running::Running;

/// A header with this opcode and one question, and the question.
fn message(opcode: u8) -> Vec<u8> {
    [&[0, 0, opcode << 3, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x04test\0\0\x01\0\x01"].concat()
}

/// A query, and a dynamic update (RFC 2136).
fn query_and_update() -> [Vec<u8>; 2] {
    [message(0), message(5)]
}

/// A server that takes early data, and a client that has tickets of it.
struct Rig {
    server: Running,
    address: SocketAddr,
    connector: Connector,
}

/// A connection of the client.
struct Connected {
    socket: TcpStream,
    tls: ClientTls,
    /// Bytes that the server sent, decrypted.
    plain: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Rig {
    fn new(scheme: &str, protocol: &[u8]) -> Self {
        let server = Running::start(&["--listen", &format!("{scheme}://127.0.0.1:0"), "--early-data"]);
        let address = server.ready[scheme][0].as_str().unwrap().parse().unwrap();
        let ca = std::fs::read_to_string(server.ready["ca"].as_str().unwrap()).unwrap();
        let settings = ClientSettings { early_data: true, ..ClientSettings::new(Trust::Ca(ca), true) };
        let client = Client::new(&settings).unwrap().speaking(protocol);
        let rig = Self { server, address, connector: client.connector(server_name("127.0.0.1").unwrap(), 8) };
        let mut first = rig.connect(false);
        first.write();
        // The server sends two tickets.
        while rig.connector.tickets().received < 2 {
            first.read();
            first.write();
        }
        rig
    }

    fn connect(&self, is_early: bool) -> Connected {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut outgoing = Vec::new();
        let tls = self.connector.connect_from(None, is_early, &mut outgoing).unwrap();
        assert_eq!(tls.early_bytes() > 0, is_early);
        Connected { socket, tls, plain: Vec::new(), outgoing }
    }

    fn stopped(self) -> TcpReport {
        self.server.stop(Signal::Terminate).tcp.unwrap()
    }
}

impl Connected {
    fn write(&mut self) {
        self.socket.write_all(&std::mem::take(&mut self.outgoing)).unwrap();
    }

    fn read(&mut self) {
        let mut buffer = vec![0; 1 << 14];
        let bytes = self.socket.read(&mut buffer).unwrap();
        assert!(bytes > 0, "the server closed the connection");
        let mut records = [self.tls.kept(), &buffer[..bytes]].concat();
        self.tls.open(&mut records, &mut self.plain, &mut self.outgoing).unwrap();
    }
}

#[test]
fn an_update_in_early_data_is_answered_when_the_handshake_is_complete() {
    let rig = Rig::new("tls", kqps_tls::ALPN);
    let mut early = rig.connect(true);
    let framed =
        query_and_update().map(|message| [&(message.len() as u16).to_be_bytes(), &*message].concat());
    let reply_bytes = framed[0].len();
    early.tls.seal_early(&framed.concat(), &mut early.outgoing).unwrap();
    early.write();
    while early.plain.is_empty() {
        early.read();
    }
    // The last message of the client's handshake has not left.
    assert!(early.tls.is_established() && !early.outgoing.is_empty());
    assert_eq!(early.plain.len(), reply_bytes, "the query alone is answered");
    early.write();
    while early.plain.len() < 2 * reply_bytes {
        early.read();
    }
    assert_eq!((early.plain[reply_bytes + 4] >> 3) & 15, 5, "the update");
    let report = rig.stopped();
    let handshakes = [("full".to_owned(), 1), ("0-rtt".to_owned(), 1)].into();
    assert_eq!((report.received, report.answered, report.handshakes), (2, 2, handshakes));
}

#[test]
fn an_update_in_early_data_by_https_gets_status_425() {
    let rig = Rig::new("https", kqps_http::ALPN);
    for method in [Method::Get, Method::Post] {
        let mut early = rig.connect(true);
        let mut session = ClientSession::new().unwrap();
        let mut requests = Requests::new(method, "127.0.0.1", PATH).unwrap();
        for (key, message) in (1..).zip(query_and_update()) {
            assert!(session.has_room() && session.ask(key, &message, &mut requests, 0));
            session.advance().unwrap();
        }
        session.take_outgoing(|bytes| early.tls.seal_early(bytes, &mut early.outgoing)).unwrap();
        early.write();
        let mut statuses = Vec::new();
        while statuses.len() < 2 {
            early.read();
            let received = session.receive(&early.plain, |key, fate| match fate {
                Fate::Response { status, .. } => statuses.push((key, status)),
                other => panic!("{other:?}"),
            });
            received.unwrap();
            early.plain.clear();
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [(1, 200), (2, 425)]);
        early.write();
    }
    let report = rig.stopped();
    assert_eq!((report.received, report.answered, report.refused["425"]), (2, 2, 2));
}
