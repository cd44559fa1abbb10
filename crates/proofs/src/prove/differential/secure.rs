//! Connections in TLS, and asking a server on one, with several queries at a time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use kqps_tls::client::server_name;
use kqps_tls::{Client, ClientSettings, ClientTls, Failure, Trust};

use super::query::Query;

/// Queries that are sent before the first reply is read.
pub(super) const PIPELINE: usize = 12;

/// How long to wait for a reply.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A connection in TLS, to a server whose certificate may be any.
pub(super) struct Secure {
    socket: TcpStream,
    tls: ClientTls,
    /// Bytes that arrived.
    pub(super) plain: Vec<u8>,
}

impl Secure {
    /// Connects to a server, and offers this application protocol.
    pub(super) fn connect(server: SocketAddr, protocol: &[u8]) -> Result<Self> {
        let client = Client::new(&settings())?.speaking(protocol);
        let connector = client.connector(server_name(&server.ip().to_string())?, 0);
        let mut socket = TcpStream::connect(server)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut hello = Vec::new();
        let tls = connector.connect(&mut hello).map_err(failed)?;
        socket.write_all(&hello)?;
        let mut secure = Self { socket, tls, plain: Vec::new() };
        while !secure.tls.is_established() {
            secure.receive()?;
        }
        Ok(secure)
    }

    /// Sends bytes, if there are any.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut sealed = Vec::new();
        self.tls.seal(bytes, &mut sealed).map_err(failed)?;
        Ok(self.socket.write_all(&sealed)?)
    }

    /// Reads once.
    pub(super) fn receive(&mut self) -> Result<()> {
        let mut buffer = vec![0; 1 << 16];
        let bytes = self.socket.read(&mut buffer).context("no reply in TLS")?;
        ensure!(bytes > 0, "the server closed a connection in TLS");
        let (mut records, mut outgoing) = ([self.tls.kept(), &buffer[..bytes]].concat(), Vec::new());
        self.tls.open(&mut records, &mut self.plain, &mut outgoing).map_err(failed)?;
        Ok(self.socket.write_all(&outgoing)?)
    }
}

/// A client that accepts any certificate, and resumes no session.
pub(super) fn settings() -> ClientSettings {
    ClientSettings::new(Trust::Anyone, false)
}

/// DNS on a connection in TLS.
pub(super) struct Asker(Secure);

impl Asker {
    pub(super) fn new(server: SocketAddr) -> Result<Self> {
        Ok(Self(Secure::connect(server, kqps_tls::ALPN)?))
    }

    /// Asks queries whose IDs differ, and returns the reply to each.
    pub(super) fn ask(&mut self, queries: &[Query]) -> Result<Vec<Vec<u8>>> {
        let mut replies = Vec::with_capacity(queries.len());
        for some in queries.chunks(PIPELINE) {
            replies.extend(self.ask_some(some)?);
        }
        Ok(replies)
    }

    fn ask_some(&mut self, queries: &[Query]) -> Result<Vec<Vec<u8>>> {
        let frame = |query: &Query| [&(query.bytes.len() as u16).to_be_bytes()[..], &query.bytes].concat();
        let frames: Vec<u8> = queries.iter().flat_map(frame).collect();
        self.0.send(&frames)?;
        let mut replies = vec![None; queries.len()];
        while replies.iter().any(Option::is_none) {
            let reply = self.next_reply()?;
            let place = queries.iter().position(|query| reply.starts_with(&query.bytes[..2]));
            replies[place.context("a reply answers no query")?] = Some(reply);
        }
        Ok(replies.into_iter().flatten().collect())
    }

    fn next_reply(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some((length, rest)) = self.0.plain.split_first_chunk::<2>()
                && let Some(reply) = rest.get(..usize::from(u16::from_be_bytes(*length)))
            {
                let reply = reply.to_vec();
                self.0.plain.drain(..2 + reply.len());
                return Ok(reply);
            }
            self.0.receive()?;
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // `map_err` hands it over
fn failed(failure: Failure) -> anyhow::Error {
    anyhow!("TLS failed: {failure}")
}
