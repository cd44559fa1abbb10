//! Queries and replies of the tests, encoded by hand, so that the code under test does not check itself.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;
use crate::serve::sent::flow;

pub(crate) const A: u16 = 1;
pub(crate) const SOA: u16 = 6;
pub(crate) const TXT: u16 = 16;
pub(crate) const AXFR: u16 = 252;

/// A query of class IN with an ID.
pub(crate) fn query(id: u16, name: &str, rtype: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(rtype.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// A query as by [`query`], with EDNS and this payload size.
pub(crate) fn query_edns(id: u16, name: &str, rtype: u16, payload_bytes: u16) -> Vec<u8> {
    let mut bytes = query(id, name, rtype);
    bytes[11] = 1;
    bytes.extend([0, 0, 41]);
    bytes.extend(payload_bytes.to_be_bytes());
    bytes.extend([0; 6]);
    bytes
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply(pub(crate) Vec<u8>);

impl Reply {
    pub(crate) fn id(&self) -> u16 {
        self.word(0)
    }

    pub(crate) fn rcode(&self) -> u8 {
        self.0[3] & 0x0f
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.0[2] & 0x02 != 0
    }

    pub(crate) fn is_authoritative(&self) -> bool {
        self.0[2] & 0x04 != 0
    }

    pub(crate) fn answers(&self) -> u16 {
        self.word(6)
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// The types and data of the answers. Compressed names in the data stay compressed.
    pub(crate) fn records(&self) -> Vec<(u16, Vec<u8>)> {
        let mut at = 12;
        for _ in 0..self.word(4) {
            at = self.after_name(at) + 4;
        }
        let mut records = Vec::new();
        for _ in 0..self.answers() {
            let fixed = self.after_name(at);
            let end = fixed + 10 + usize::from(self.word(fixed + 8));
            records.push((self.word(fixed), self.0[fixed + 10..end].to_vec()));
            at = end;
        }
        records
    }

    fn after_name(&self, mut at: usize) -> usize {
        loop {
            match self.0[at] {
                0 => return at + 1,
                0xc0.. => return at + 2,
                length => at += 1 + usize::from(length),
            }
        }
    }
}

/// Asks by UDP and awaits the reply.
pub(crate) fn ask(server: SocketAddr, query: &[u8]) -> Reply {
    let flow = flow(server);
    flow.send(query).unwrap();
    let mut buffer = vec![0; 65_535];
    let bytes = flow.recv(&mut buffer).unwrap_or_else(|error| panic!("no reply from {server}: {error}"));
    assert_eq!(buffer[..2], query[..2]);
    assert_ne!(buffer[2] & 0x80, 0);
    Reply(buffer[..bytes].to_vec())
}

/// A connection whose reads wait for a long time, but not for ever.
pub(crate) fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A message with its length in two bytes before it (RFC 1035, section 4.2.2).
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// The next reply of a connection.
pub(crate) fn next(stream: &mut impl Read) -> Reply {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).unwrap();
    Reply(message)
}

/// Asks by a connection and awaits the reply.
pub(crate) fn ask_by(stream: &mut (impl Read + Write), query: &[u8]) -> Reply {
    stream.write_all(&framed(query)).unwrap();
    next(stream)
}
