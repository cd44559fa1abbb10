//! A connection by TCP, or by TLS over it. Each message follows its length (RFC 1035, section 4.2.2).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use kqps_tls::{ClientTls, Connector};

use crate::error::{AskError, Result};
use crate::link::{Link, has_input, left};

/// Bytes that are read at once: more than a record has (RFC 8446, section 5.2).
const READ_BYTES: usize = 1 << 15;

pub(crate) struct Stream {
    socket: TcpStream,
    /// `None` if the connection is not encrypted.
    tls: Option<ClientTls>,
    /// Bytes that arrived, decrypted.
    pub(crate) plain: Vec<u8>,
}

impl Stream {
    /// Connects, and completes the handshake of TLS if there is one. A write may last as long as this may.
    pub(crate) fn connect(server: SocketAddr, connector: Option<&Connector>, until: Instant) -> Result<Self> {
        let socket = TcpStream::connect_timeout(&server, left(until)?)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(left(until)?))?;
        let mut hello = Vec::new();
        let tls = connector.map(|connector| connector.connect(&mut hello)).transpose();
        let mut stream = Self { socket, tls: tls.map_err(AskError::Tls)?, plain: Vec::new() };
        stream.socket.write_all(&hello)?;
        while stream.tls.as_ref().is_some_and(|tls| !tls.is_established()) {
            stream.read(until)?;
        }
        Ok(stream)
    }

    /// Writes bytes, if there are any.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(tls) = self.tls.as_mut().filter(|_| !bytes.is_empty()) else {
            return Ok(self.socket.write_all(bytes)?);
        };
        let mut records = Vec::new();
        tls.seal(bytes, &mut records).map_err(AskError::Tls)?;
        Ok(self.socket.write_all(&records)?)
    }

    /// Reads once, and adds what it decrypts to `plain`.
    pub(crate) fn read(&mut self, until: Instant) -> Result<()> {
        self.socket.set_read_timeout(Some(left(until)?))?;
        let mut room = vec![0; READ_BYTES];
        let bytes = self.socket.read(&mut room)?;
        if bytes == 0 {
            return Err(AskError::Closed);
        }
        let Some(tls) = &mut self.tls else {
            self.plain.extend_from_slice(&room[..bytes]);
            return Ok(());
        };
        let (mut records, mut outgoing) = ([tls.kept(), &room[..bytes]].concat(), Vec::new());
        let opened = tls.open(&mut records, &mut self.plain, &mut outgoing);
        let written = self.socket.write_all(&outgoing);
        opened.map_err(AskError::Tls)?;
        Ok(written?)
    }
}

impl Link for Stream {
    fn send(&mut self, queries: &[&[u8]]) -> Result<()> {
        let frame = |query: &&[u8]| {
            let length = u16::try_from(query.len()).expect("a query has 65,535 bytes at most");
            [&length.to_be_bytes()[..], query].concat()
        };
        self.write(&queries.iter().flat_map(frame).collect::<Vec<u8>>())
    }

    fn receive(&mut self, until: Instant) -> Result<Vec<u8>> {
        loop {
            if let Some((length, rest)) = self.plain.split_first_chunk()
                && let Some(message) = rest.get(..usize::from(u16::from_be_bytes(*length)))
            {
                let message = message.to_vec();
                self.plain.drain(..2 + message.len());
                return Ok(message);
            }
            self.read(until)?;
        }
    }

    fn is_readable(&self) -> Result<bool> {
        self.socket.set_nonblocking(true)?;
        let looked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false)?;
        Ok(has_input(looked)?)
    }
}
