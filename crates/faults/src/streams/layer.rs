//! Layers between messages and the bytes of a connection, at the server's end: none, TLS, or HTTP/2 in TLS.

use kqps_tls::{Failure, ServerTls};

use super::http2::{self, Http};
use super::reply::{self, Query};

/// Bytes of a message's length.
const LENGTH: usize = 2;

/// A record that no client sealed. TLS refuses it, and its refusal is an alert.
const FORGED: [u8; 37] = {
    let mut record = [0; 37];
    // Application data, as TLS 1.3 labels all records (RFC 8446, section 5.2), of 32 bytes.
    record[0] = 23;
    record[1] = 3;
    record[2] = 3;
    record[4] = 32;
    record
};

/// The layer of one connection.
pub(super) struct Layer {
    /// `None` if messages are the bytes of the connection.
    tls: Option<ServerTls>,
    /// `None` if messages come one after the other.
    http: Option<Http>,
    /// Bytes of messages, of which the first `used` were taken.
    input: Vec<u8>,
    used: usize,
}

impl Layer {
    pub(super) fn new(tls: Option<ServerTls>, http: Option<Http>) -> Self {
        Self { tls, http, input: Vec::new(), used: 0 }
    }

    /// Whether messages are encrypted.
    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether each message has a stream of HTTP/2.
    pub(super) fn has_streams(&self) -> bool {
        self.http.is_some()
    }

    /// Whether the handshake is complete. Without TLS there is none.
    pub(super) fn has_shaken_hands(&self) -> bool {
        self.tls.as_ref().is_some_and(ServerTls::is_established)
    }

    /// Whether queries can follow: over TLS after its handshake, by HTTP/2 in the same bytes as the server's settings.
    pub(super) fn is_open(&self) -> bool {
        self.tls.is_none() || self.has_shaken_hands()
    }

    /// Takes bytes that arrived. Appends what TLS and HTTP/2 have to send to `outgoing`.
    pub(super) fn take(&mut self, bytes: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Failure> {
        self.input.drain(..self.used);
        self.used = 0;
        let Some(tls) = &mut self.tls else {
            self.input.extend_from_slice(bytes);
            return Ok(());
        };
        let mut records = [tls.kept(), bytes].concat();
        tls.open(&mut records, &mut self.input, outgoing)?;
        let Some(http) = &mut self.http else { return Ok(()) };
        if !tls.is_established() {
            return Ok(());
        }
        let mut frames = std::mem::take(&mut http.opening);
        let taken = http.take(&self.input, &mut frames);
        self.used = taken.map_err(|()| Failure::Protocol("no HTTP/2".into()))?;
        if frames.is_empty() { Ok(()) } else { tls.seal(&frames, outgoing) }
    }

    /// Takes the next whole query.
    pub(super) fn next_query(&mut self) -> Option<Query> {
        if let Some(http) = &mut self.http {
            return http.queries.pop_front();
        }
        let (length, rest) = self.input[self.used..].split_first_chunk::<LENGTH>()?;
        let message = rest.get(..usize::from(u16::from_be_bytes(*length)))?.to_vec();
        self.used += LENGTH + message.len();
        Some(Query { message, stream: 0 })
    }

    /// The bytes, before TLS, of a reply to the query of this stream.
    pub(super) fn frame(&self, stream: u32, message: &[u8]) -> Vec<u8> {
        if self.has_streams() {
            http2::response(stream, "200", http2::DNS, message)
        } else {
            reply::framed(message)
        }
    }

    /// The bytes on the wire that carry these bytes of messages.
    pub(super) fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let Some(tls) = &mut self.tls else { return plain.to_vec() };
        let mut sealed = Vec::new();
        // TLS that has failed sends nothing more. Its connection is counted as broken.
        let _ = tls.seal(plain, &mut sealed);
        sealed
    }

    /// The bytes that say that no more messages follow.
    pub(super) fn notify(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(tls) = &mut self.tls {
            tls.close(&mut bytes);
        }
        bytes
    }

    /// The bytes of an alert that ends the connection.
    pub(super) fn alert(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(tls) = &mut self.tls {
            let mut records = [tls.kept(), &FORGED].concat();
            let refused = tls.open(&mut records, &mut Vec::new(), &mut bytes);
            debug_assert!(refused.is_err(), "no client sealed it");
        }
        bytes
    }
}
