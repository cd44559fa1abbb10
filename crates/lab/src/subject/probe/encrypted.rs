//! A question in TLS, by itself (RFC 7858) or as a request of HTTP/2 (RFC 8484), on a connection of its own.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use kqps_http::{ClientSession, Fate, Method, PATH, Requests};
use kqps_tls::client::server_name;
use kqps_tls::{Client, ClientSettings, ClientTls, Connector, TlsError, Trust};

use super::PATIENCE;

/// The kind of errors of TLS, HTTP and QUIC themselves, which no socket has.
pub(super) const FAILED: io::ErrorKind = io::ErrorKind::InvalidData;

/// The longest wait for the next bytes of a handshake, which costs a server more than a reply.
pub(super) const HANDSHAKE_PATIENCE: Duration = Duration::from_millis(500);

/// Bytes that are read at once: more than a record has (RFC 8446, section 5.2).
const READ_BYTES: usize = 1 << 15;

/// A server, and what makes the TLS of connections to it.
#[derive(Debug)]
pub(super) struct Server {
    target: SocketAddr,
    connector: Box<Connector>,
}

impl Server {
    /// Accepts certificates of the issuer `ca`, as PEM, or without one those that this host trusts.
    pub(super) fn new(target: SocketAddr, ca: Option<&str>, alpn: &[u8]) -> io::Result<Self> {
        let connector = || -> Result<Connector, TlsError> {
            let client = Client::new(&settings(ca))?.speaking(alpn);
            Ok(client.connector(server_name(&target.ip().to_string())?, 1))
        };
        Ok(Self { target, connector: Box::new(connector().map_err(io::Error::other)?) })
    }

    /// Asks once. Query and reply follow their lengths, as over TCP.
    pub(super) fn ask_in_tls(&self, query: &[u8]) -> io::Result<Vec<u8>> {
        let mut connection = Connection::open(self)?;
        let length = (query.len() as u16).to_be_bytes();
        connection.send(&[&length[..], query].concat())?;
        loop {
            if let Some(reply) = first_message(&connection.plain) {
                return Ok(reply.to_vec());
            }
            connection.receive()?;
        }
    }

    /// Asks once by POST at the usual path. The reply gets the ID of the query, which travels with ID 0.
    pub(super) fn ask_by_http(&self, query: &[u8]) -> io::Result<Vec<u8>> {
        let mut requests =
            Requests::new(Method::Post, &self.target.to_string(), PATH).map_err(io::Error::other)?;
        let mut connection = Connection::open(self)?;
        let mut session = ClientSession::new().map_err(failed)?;
        if !session.ask(0, query, &mut requests, 0) {
            return Err(failed("it takes no request"));
        }
        session.advance().map_err(failed)?;
        let mut answer = None;
        loop {
            session.take_outgoing(|bytes| connection.send(bytes))?;
            if let Some(answer) = answer {
                return answer;
            }
            connection.receive()?;
            let received =
                session.receive(&connection.plain, |_, fate| answer = Some(reply_of(query, &fate)));
            received.map_err(failed)?;
            connection.plain.clear();
        }
    }
}

/// TLS that accepts certificates of the issuer `ca`, as PEM, or without one those that this host trusts.
pub(super) fn settings(ca: Option<&str>) -> ClientSettings {
    let trust = ca.map_or(Trust::System, |ca| Trust::Ca(ca.to_owned()));
    ClientSettings::new(trust, false)
}

/// A reply with the ID of its query, which travels with ID 0.
pub(super) fn with_id_of(query: &[u8], reply: &[u8]) -> Vec<u8> {
    [&query[..2], reply.get(2..).unwrap_or_default()].concat()
}

/// The reply to a query in what became of its request.
fn reply_of(query: &[u8], fate: &Fate<'_>) -> io::Result<Vec<u8>> {
    match fate {
        Fate::Response { status: 200..300, is_dns: true, body } => Ok(with_id_of(query, body)),
        Fate::Response { status, .. } => Err(failed(format!("it answered a request with status {status}"))),
        other => Err(failed(format!("it did not answer a request: {other:?}"))),
    }
}

/// A connection in TLS.
struct Connection {
    stream: TcpStream,
    tls: ClientTls,
    /// Decrypted bytes.
    plain: Vec<u8>,
    room: Vec<u8>,
}

impl Connection {
    /// Connects, and completes the handshake.
    fn open(server: &Server) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server.target, PATIENCE)?;
        stream.set_read_timeout(Some(HANDSHAKE_PATIENCE))?;
        let mut outgoing = Vec::new();
        let tls = server.connector.connect(&mut outgoing).map_err(failed)?;
        let mut connection = Self { stream, tls, plain: Vec::new(), room: vec![0; READ_BYTES] };
        connection.stream.write_all(&outgoing)?;
        while !connection.tls.is_established() {
            connection.receive()?;
        }
        Ok(connection)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut records = Vec::new();
        self.tls.seal(bytes, &mut records).map_err(failed)?;
        self.stream.write_all(&records)
    }

    /// Reads once, and adds what it decrypts to `plain`.
    fn receive(&mut self) -> io::Result<()> {
        let bytes = self.stream.read(&mut self.room)?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut records = [self.tls.kept(), &self.room[..bytes]].concat();
        let mut outgoing = Vec::new();
        let opened = self.tls.open(&mut records, &mut self.plain, &mut outgoing);
        self.stream.write_all(&outgoing)?;
        opened.map(drop).map_err(failed)
    }
}

/// The first message behind its length, if it is whole.
fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

#[allow(clippy::needless_pass_by_value)] // `map_err` hands it over
pub(super) fn failed(failure: impl ToString) -> io::Error {
    io::Error::new(FAILED, failure.to_string())
}
